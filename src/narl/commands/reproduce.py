"""`narl reproduce`: run experiments of the paper and print which claims hold."""

from __future__ import annotations

import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional

from narl.commands.arguments import RunsFolder, Switch, parse, value
from narl.errors import InputError, unknown
from narl.storage.folder import check_writable

if TYPE_CHECKING:
    from narl.experiments.experiment import Experiment
    from narl.report.document import Outcome

EXAMPLE = "narl reproduce fig1a --scale small"


@dataclasses.dataclass(frozen=True)
class Reproduce:
    """Run experiments of the paper and say which of its claims hold.

    Finished cells are found again, and a training goes on from its last checkpoint, so that an
    interrupted experiment continues.
    """

    ids: Annotated[Positional[tuple[str, ...]], value("ID...")]
    """fig1a, fig1b, fig1c, table1, ablation, fair, fig3a, table2, exploration; or all"""
    scale: Annotated[
        Literal["smoke", "small", "paper"], value("smoke|small|paper", "(default: small)")
    ] = "small"
    """how much is run: a quick look, minutes, or as much as in the paper"""
    results: Annotated[Path, value("DIR", "(default: results)")] = Path("results")
    """folder of the outcomes, which `narl report` reads"""
    runs: RunsFolder = None
    """folder of the runs"""
    fresh: Switch = False
    """run again what is there"""
    json: Switch = False
    """one JSON object on stdout, everything else on stderr"""


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status."""
    config = parse(Reproduce, "narl reproduce", arguments, EXAMPLE)
    from narl import storage
    from narl.compilation import enable_cache
    from narl.console import print_json
    from narl.experiments import EXPERIMENTS

    chosen = choose(config.ids, list(EXPERIMENTS))
    root = storage.check_root(storage.default_root() if config.runs is None else config.runs)
    check_writable("--results", config.results, "choose another")
    enable_cache()
    done: list[dict[str, Any]] = []
    for id_ in chosen:
        begin = time.perf_counter()
        outcome, path = _reproduce(EXPERIMENTS[id_], config, root)
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
    return 0


def choose(ids: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return the ids of the chosen experiments, each once; "all" stands for every known id."""
    if not ids:
        raise InputError(f"ID: missing; it is like `{EXAMPLE}`")
    for id_ in ids:
        if id_ not in known and id_ != "all":
            raise unknown("ID", id_, [*known, "all"])
    return list(known) if "all" in ids else list(dict.fromkeys(ids))


def _reproduce(experiment: Experiment, config: Reproduce, root: Path) -> tuple[Outcome, Path]:
    """Return the outcome of an experiment and the file that holds it."""
    from narl.console import Bars
    from narl.experiments.experiment import ExperimentHooks, is_training, reproduce
    from narl.report.document import save_outcome

    cells = experiment.cells(config.scale).values()
    with Bars(experiment.id, len(cells)) as bars:
        hooks = ExperimentHooks(bars.begin, bars.advance, bars.end)

        def work(should_stop: Callable[[], bool]) -> Outcome:
            return reproduce(
                experiment,
                config.scale,
                root,
                hooks=hooks,
                should_stop=should_stop,
                fresh=config.fresh,
            )

        outcome = _run(work, with_checkpoints=any(map(is_training, cells)))
    return outcome, save_outcome(outcome, config.results)


def _run(work: Callable[[Callable[[], bool]], Outcome], *, with_checkpoints: bool) -> Outcome:
    """Return the outcome; an interrupt ends the work at once, or after its checkpoint."""
    from narl.compilation import is_compiling
    from narl.console import note
    from narl.interrupts import Interrupted, run_interruptible, run_stoppable

    if not with_checkpoints:
        return run_interruptible(lambda: work(lambda: False))
    from narl.deep.training_session import STOP_SECONDS, Stopped

    try:
        return run_stoppable(
            work, lambda: note("stopping: a checkpoint is written …"), STOP_SECONDS + 1
        )
    except Stopped as stop:
        # A program that is still being compiled keeps the interpreter from exiting.
        kind = Interrupted if is_compiling() else KeyboardInterrupt
        raise kind(f"{stop}; the same command continues from there") from None


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
