"""`narl reproduce`: run experiments, the paper's or ours, and print which claims hold."""

from __future__ import annotations

import dataclasses
import itertools
import shlex
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional

from narl.commands.arguments import RunsFolder, Switch, errors_as_typed, parse, value
from narl.commands.executor_arguments import ExecutorArguments
from narl.errors import Failure, InputError, unknown
from narl.experiments.registry import EXPERIMENTS
from narl.storage.files import check_writable

if TYPE_CHECKING:
    from narl.experiments.experiment import Experiment
    from narl.report.contents import Outcome
    from narl.sweeps.planned_run import SweepRun

EXAMPLE = "narl reproduce fig1a --scale small"


@dataclasses.dataclass(frozen=True)
class Reproduce:
    """Run experiments of the paper and say which of its claims hold.

    Finished cells are found again, and a training goes on from its last checkpoint, so that an
    interrupted experiment continues.
    """

    ids: Annotated[
        Positional[tuple[str, ...]], value("ID...", help=f"{', '.join(EXPERIMENTS)}; or all")
    ]
    scale: Annotated[
        Literal["smoke", "small", "paper"], value("smoke|small|paper", "(default: small)")
    ] = "small"
    """how much is run: a quick look, minutes, or as much as in the paper"""
    results: Annotated[Path, value("DIR", "(default: results)")] = Path("results")
    """folder of the outcomes, which `narl report` reads"""
    executor: Annotated[
        Literal["local", "ray", "slurm", "print"] | None,
        value("local|ray|slurm|print", "(default: one run after the other in this process)"),
    ] = None
    """do the runs as a sweep first: in processes of this machine, on a Ray cluster (extra
    ray), or as jobs of SLURM (extra slurm); with slurm the jobs are submitted, and the
    same command without it is for when they are done; or only print a command for every program"""
    each: ExecutorArguments = dataclasses.field(default_factory=ExecutorArguments)
    minutes: Annotated[float | None, value("N", "(default: until everything is done)")] = None
    """stop after so many minutes, with a checkpoint; the same command continues from there"""
    part: Annotated[str | None, value("I/N", "(default: 1/1)")] = None
    """run only the I-th of N parts, such as 1/2 and 2/2 in two processes that share a GPU; the
    claims are judged once all parts are done"""
    runs: RunsFolder = None
    fresh: Switch = False
    """run again what is there"""
    json: Switch = False
    """one JSON object on stdout, everything else on stderr"""


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status."""
    config = parse(Reproduce, "narl reproduce", arguments, EXAMPLE)
    from narl import storage
    from narl.compilation import enable_cache
    from narl.console import note, print_json
    from narl.experiments.experiment import SMOKE
    from narl.report.contents import save_outcome

    read_part(config.part)
    if config.minutes is not None and not config.minutes > 0:
        raise InputError(f"--minutes: {config.minutes:g} is not more than 0")
    chosen = choose(config.ids, list(EXPERIMENTS))
    root = storage.check_root(storage.default_root() if config.runs is None else config.runs)
    check_writable("--results", config.results, "choose another")
    enable_cache()
    with errors_as_typed(Reproduce):
        if not _prepare_runs([EXPERIMENTS[id_] for id_ in chosen], config, root):
            return 0
    deadline = None if config.minutes is None else time.monotonic() + 60 * config.minutes
    done: list[dict[str, Any]] = []
    for id_ in chosen:
        begin = time.perf_counter()
        outcome = _reproduce(EXPERIMENTS[id_], config, root, deadline)
        if outcome is None:
            note(f"{id_}: part {config.part} is done; other parts are not, so no claim is judged")
            continue
        path = save_outcome(outcome, config.results)
        seconds = time.perf_counter() - begin
        if not config.json:
            show(outcome, path, seconds)
        done.append(
            {
                "id": outcome.id,
                "title": outcome.title,
                "claims": [dataclasses.asdict(claim) for claim in outcome.claims],
                "runs": outcome.runs,
                "seconds": seconds,
                "file": str(path),
            }
        )
    if config.json:
        verdicts = Counter(claim["verdict"] for item in done for claim in item["claims"])
        counts = {verdict: verdicts[verdict] for verdict in ("holds", "fails", "undecided")}
        print_json({"scale": config.scale, "claims": counts, "outcomes": done})
    elif done and config.scale == "smoke":
        print(SMOKE)
    return 0


def choose(ids: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return the ids of the chosen experiments, each once; "all" stands for every known id."""
    if not ids:
        raise InputError(f"ID: missing; it is like `{EXAMPLE}`")
    for id_ in ids:
        if id_ not in known and id_ != "all":
            raise unknown("ID", id_, [*known, "all"])
    return list(known) if "all" in ids else list(dict.fromkeys(ids))


def _prepare_runs(experiments: Sequence[Experiment], config: Reproduce, root: Path) -> bool:
    """Do the runs of all experiments with the executor, if one is given; or show the plan.

    Returns whether the experiments are to be judged now.
    """
    executor = config.executor
    config.each.check(executor, any(_has_trainings(each, config) for each in experiments))
    if executor is None and not config.each.dry_run:
        return True
    with_what = "--dry-run" if executor is None else "an executor"
    if config.fresh:
        raise InputError(f"fresh: it has no effect with {with_what}; remove the runs instead")
    if config.minutes is not None:
        raise InputError(f"minutes: it has no effect with {with_what}; leave it out")
    if executor == "print" and not config.each.dry_run:
        print_commands(experiments, config)
        return False
    from narl.commands.sweep_console import SweepConsole, note_failures
    from narl.console import print_json, stdout

    runs = _planned_runs(experiments, config)
    console = SweepConsole(runs, root, executor or "local", config.each, config.json)
    if config.each.dry_run:
        console.show_plan()
        return False
    if executor == "slurm":
        jobs = console.submit_jobs()
        if not jobs:
            return True
        line = f"submitted {len(jobs)} jobs; `narl sweep --status --runs {root}` shows them"
        print_json({"jobs": jobs}) if config.json else stdout().print(line)
        return False
    console.run()
    statuses = console.status.read()
    note_failures(statuses)
    if missing := [status for status in statuses if status.state != "done"]:
        raise Failure(
            f"{len(missing)} of {len(statuses)} runs are not done; the same command tries again"
        )
    return True


def _planned_runs(experiments: Sequence[Experiment], config: Reproduce) -> list[SweepRun]:
    """Return the runs of all experiments, or those of the chosen part of each; each run once."""
    from narl.experiments.experiment import batches
    from narl.sweeps.planned_run import sweep_run

    part, num_parts = read_part(config.part)
    runs: dict[str, SweepRun] = {}
    for experiment in experiments:
        cells = experiment.cells(config.scale)
        for label in itertools.chain(*batches(cells)[part - 1 :: num_parts]):
            run = sweep_run(cells[label], label=f"{experiment.id} {label}")
            runs[run.id] = run
    return config.each.with_timeout(runs.values())


def print_commands(experiments: Sequence[Experiment], config: Reproduce) -> None:
    """Print a command for every program of the experiments; the last one to end judges them."""
    from narl.console import print_json
    from narl.experiments.experiment import batches

    commands = []
    if config.part is not None:
        raise InputError("part: it has no effect with executor print; leave it out")
    for experiment in experiments:
        number = len(batches(experiment.cells(config.scale)))
        for part in range(1, number + 1):
            words = ["narl", "reproduce", experiment.id, f"--scale={config.scale}"]
            words += [f"--part={part}/{number}", "--executor=local"]
            if config.each.env_timeout is not None and _has_trainings(experiment, config):
                words.append(f"--env-timeout={config.each.env_timeout:g}")
            words += [] if config.runs is None else [f"--runs={config.runs}"]
            words += [f"--results={config.results}"] if str(config.results) != "results" else []
            commands.append(shlex.join(words))
    print_json({"commands": commands}) if config.json else print(*commands, sep="\n")


def _has_trainings(experiment: Experiment, config: Reproduce) -> bool:
    """Return whether an experiment trains, and so has environments that could hang."""
    from narl.experiments.experiment import is_training

    return any(map(is_training, experiment.cells(config.scale).values()))


def read_part(text: str | None) -> tuple[int, int]:
    """Return the number of a part and the number of parts from "I/N"."""
    try:
        part, num_parts = (int(word) for word in (text or "1/1").split("/"))
    except ValueError:
        part = num_parts = 0
    if not 1 <= part <= num_parts:
        raise InputError(f"--part: {text!r} is not I/N with I from 1 to N, such as 1/2")
    return part, num_parts


def _reproduce(
    experiment: Experiment, config: Reproduce, root: Path, deadline: float | None
) -> Outcome | None:
    """Return the outcome of an experiment; None if other parts of it are not done."""
    from narl.console import Bars
    from narl.experiments.experiment import ExperimentHooks, reproduce
    from narl.interrupts import run_interruptible, run_with_checkpoint

    cells = experiment.cells(config.scale).values()
    with Bars(experiment.id, len(cells)) as bars:
        hooks = ExperimentHooks(bars.begin, bars.advance, bars.end)

        def work(should_stop: Callable[[], bool]) -> Outcome | None:
            def stops() -> bool:
                return should_stop() or (deadline is not None and time.monotonic() > deadline)

            return reproduce(
                experiment,
                config.scale,
                root,
                hooks=hooks,
                should_stop=stops,
                fresh=config.fresh,
                part=read_part(config.part),
                env_timeout=config.each.env_timeout,
            )

        if not _has_trainings(experiment, config):  # there are no checkpoints to wait for
            return run_interruptible(lambda: work(lambda: False))
        return run_with_checkpoint(work, "the same command continues from there")


def show(outcome: Outcome, path: Path, seconds: float) -> None:
    """Print the claims of one experiment with their numbers."""
    from rich.table import Table
    from rich.text import Text

    from narl.console import stdout

    colours = {"holds": "green", "fails": "red", "undecided": "yellow"}
    console = stdout()
    console.print(f"{outcome.id}: {outcome.title} ({outcome.scale} scale)", style="bold")
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for claim in outcome.claims:
        verdict = Text(claim.verdict, style=colours[claim.verdict])
        table.add_row(verdict, f"{claim.statement} ({claim.where})")
        table.add_row("", claim.numbers, style="dim")
    console.print(table)
    console.print(f"{seconds:.1f} s; written to {path}", soft_wrap=True)
