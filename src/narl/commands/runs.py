"""`narl runs`: the runs that are kept."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional

from narl.commands.arguments import RunsFolder, Switch, parse, value
from narl.errors import InputError, nearest

if TYPE_CHECKING:
    from rich.console import Console

    from narl.storage.runs import Run
    from narl.storage.unfinished import UnfinishedRun

HELP = """\
usage: narl runs [list | show RUN | remove RUN...] [OPTIONS]

The runs that are kept, in the folder `runs` or the one that NARL_RUNS names,
and trainings that are not finished (ID.part; narl resume continues them).
RUN is an id, the beginning of one, or the run's folder.

  narl runs list            all of them, newest first (also: narl runs)
  narl runs show RUN        what it was given, what came out, on which machine
  narl runs remove RUN...   delete runs

  narl runs show --help     what an action takes
"""


@dataclasses.dataclass(frozen=True)
class ListRuns:
    """List the runs that are kept, newest first."""

    runs: RunsFolder = None
    """folder of the runs"""
    json: Switch = False
    """one JSON object on stdout, everything else on stderr"""


@dataclasses.dataclass(frozen=True)
class ShowRun:
    """Show one run: configuration, results, versions and arrays."""

    run: Annotated[Positional[str], value("RUN")]
    """its id, the beginning of it, or its folder"""
    runs: RunsFolder = None
    """folder of the runs"""
    json: Switch = False
    """one JSON object on stdout, everything else on stderr"""


@dataclasses.dataclass(frozen=True)
class RemoveRuns:
    """Delete runs. If one of them is not there, none is deleted."""

    run: Annotated[Positional[tuple[str, ...]], value("RUN...")]
    """ids, beginnings of them, or folders"""
    yes: Switch = False
    """do not ask"""
    runs: RunsFolder = None
    """folder of the runs"""
    json: Switch = False
    """one JSON object on stdout, everything else on stderr"""


def main(arguments: Sequence[str]) -> int:
    """Runs the command."""
    action, *rest = arguments or ["list"]
    if action in ("-h", "--help"):
        sys.stdout.write(HELP)
        return 0
    if action.startswith("-"):
        action, rest = "list", list(arguments)
    if action not in ACTIONS:
        raise InputError(
            f"{action}: unknown action; did you mean {nearest(action, ACTIONS)!r}? "
            f"(one of {', '.join(ACTIONS)})"
        )
    return ACTIONS[action](rest)


def _root(given: Path | None) -> Path:
    from narl.storage.runs import default_root

    return default_root() if given is None else given


def list_runs(arguments: Sequence[str]) -> int:
    """`narl runs list`."""
    config = parse(ListRuns, "narl runs list", arguments, "narl runs list --json")
    from narl import storage
    from narl.commands.console import print_json
    from narl.commands.trainings import summary_of_unfinished
    from narl.storage.unfinished import list_unfinished_runs

    root = _root(config.runs)
    kept = storage.list_runs(root)
    unfinished = [summary_of_unfinished(one) for one in list_unfinished_runs(root)]
    if config.json:
        print_json({"root": str(root), "runs": [summary(run) for run in kept] + unfinished})
    else:
        _show_list(root, kept, unfinished)
    return 0


def summary(run: Run) -> dict[str, Any]:
    """One run of the list."""
    from narl.commands.trainings import is_training, summary_of_run

    if is_training(run):
        return summary_of_run(run)
    return {
        "run": run.id,
        "path": str(run.path),
        "time": run.environment.get("time"),
        "agent": run.config.get("agent"),
        "env": run.config.get("env"),
        "episodes": run.metrics.get("episodes", run.config.get("episodes")),
        "seeds": run.config.get("seeds"),
        "options": run.config.get("options"),
        "regret": run.metrics.get("regret"),
        "problems": list(run.problems),
    }


def _show_list(root: Path, kept: list[Run], unfinished: list[dict[str, Any]]) -> None:
    from narl.commands.console import stdout
    from narl.commands.trainings import is_training, show_trainings, summary_of_run

    console = stdout()
    trainings = unfinished + [summary_of_run(run) for run in kept if is_training(run)]
    others = [run for run in kept if not is_training(run)]
    if not kept and not trainings:
        console.print(f"{root} holds no runs yet; such as `narl tabular narl-ucrl riverswim`")
    if others:
        _show_others(console, others)
    if others and trainings:
        console.print()
    if trainings:
        show_trainings(console, trainings)


def _show_others(console: Console, kept: list[Run]) -> None:
    from rich.table import Table

    from narl.commands.console import PIPE_WIDTH

    table = Table(box=None, pad_edge=False)
    table.add_column("run")
    for column in ("episodes", "seeds", "regret"):
        table.add_column(column, justify="right")
    table.add_column("when (UTC)")
    table.add_column("options that differ", overflow="fold")
    differing = options_that_differ(kept)
    rows = [(run.id, *_cells(run), differing[run.id]) for run in kept]
    for row, run in zip(rows, kept, strict=True):
        table.add_row(*row, style="red" if run.problems else "")
    unlimited = console.options.update(width=PIPE_WIDTH)
    if console.measure(table, options=unlimited).maximum <= console.width:
        console.print(table)
        return
    for id_, episodes, seeds, regret, when, options in rows:
        console.print(id_, style="bold", soft_wrap=True)
        facts = (f"{episodes} episodes, {seeds} seeds, regret {regret}", when, options)
        for fact in facts if seeds else (episodes, when):
            if fact:
                console.print(f"  {fact}")


def _cells(run: Run) -> tuple[str, str, str, str]:
    """Episodes, seeds, median regret and time of a run, as the list shows them."""
    when = str(run.environment.get("time", ""))[:16].replace("T", " ")
    if run.problems:
        return "damaged", "", "", when
    line = summary(run)
    regret = (line["regret"] or {}).get("median")
    return (
        str(line["episodes"]),
        str(len(line["seeds"] or ())),
        "-" if regret is None else f"{regret:.2f}",
        when,
    )


def options_that_differ(kept: Sequence[Run]) -> dict[str, str]:
    """Of each run, the options that are not the same in all runs of its agent that are there."""
    options = {run.id: dict(run.config.get("options") or {}) for run in kept}
    values: dict[tuple[Any, str], set[str]] = {}
    for run in kept:
        for name, option in options[run.id].items():
            values.setdefault((run.config.get("agent"), name), set()).add(repr(option))
    return {
        run.id: " ".join(
            f"{name}={option}"
            for name, option in options[run.id].items()
            if len(values[run.config.get("agent"), name]) > 1 and option is not None
        )
        for run in kept
    }


def show_run(arguments: Sequence[str]) -> int:
    """`narl runs show`."""
    config = parse(ShowRun, "narl runs show", arguments, "narl runs show tabular-narl-ucrl")
    from narl.commands.console import print_json
    from narl.storage.unfinished import UnfinishedRun, locate

    run = locate(_root(config.runs), config.run)
    if isinstance(run, UnfinishedRun):
        _show_unfinished(run, config.json)
        return 0
    arrays = {
        name: {"shape": list(array.shape), "dtype": str(array.dtype)}
        for name, array in run.arrays().items()
    }
    parts = {"config": run.config, "metrics": run.metrics, "environment": run.environment}
    if config.json:
        print_json({"run": run.id, "path": str(run.path), **parts, "arrays": arrays})
        return 0
    described = {name: f"{a['dtype']} {a['shape']}" for name, a in arrays.items()}
    _show_parts(run, {**parts, "arrays": described})
    return 0


def _show_unfinished(one: UnfinishedRun, as_json: bool) -> None:
    from narl.commands.console import print_json
    from narl.commands.trainings import summary_of_unfinished

    line = summary_of_unfinished(one)
    parts = {"config": one.config, "last_epoch": one.last_row() or {}}
    if as_json:
        print_json({**line, **parts})
        return
    shown = ("step", "steps", "time", "process", "problems")
    _show_parts(one, {"unfinished": {name: line[name] for name in shown}, **parts})


def _show_parts(run: Run | UnfinishedRun, parts: dict[str, dict[str, Any]]) -> None:
    from rich.table import Table

    from narl.commands.console import stdout

    console = stdout()
    console.print(run.path.name, style="bold", soft_wrap=True)
    console.print(str(run.path), soft_wrap=True)
    for title, entries in parts.items():
        console.print(f"\n{title}", style="bold")
        table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 2))
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for name, entry in _flat(entries):
            table.add_row(name, entry)
        console.print(table)


def _flat(entries: dict[str, Any], before: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for name, entry in entries.items():
        if isinstance(entry, dict):
            rows += _flat(entry, f"{before}{name}.")
        elif isinstance(entry, float):
            rows.append((before + name, f"{entry:.6g}"))
        else:
            rows.append((before + name, "" if entry is None else _text(entry)))
    return rows


def _text(entry: Any) -> str:
    if isinstance(entry, list):
        return ", ".join("-" if item is None else str(item) for item in entry)
    return str(entry)


def remove_runs(arguments: Sequence[str]) -> int:
    """`narl runs remove`."""
    example = "narl runs remove tabular-narl-ucrl --yes"
    config = parse(RemoveRuns, "narl runs remove", arguments, example)
    from narl import storage
    from narl.commands.console import note, print_json
    from narl.storage.unfinished import PART, remove_unfinished_run

    if not config.run:
        raise InputError(f"RUN: missing; it is like `{example}`")
    root = _root(config.runs)
    ids = list(dict.fromkeys(_id(root, given) for given in config.run))
    if not config.yes and not _agreed(ids):
        note("nothing was removed")
        return 0
    for id_ in ids:
        if id_.endswith(PART):
            remove_unfinished_run(root / id_)
        else:
            storage.remove_run(root, id_)
    if config.json:
        print_json({"removed": ids})
    else:
        print(*(f"removed {id_}" for id_ in ids), sep="\n")
    return 0


def _id(root: Path, given: str) -> str:
    """The name of a run's folder that is there; a damaged one's too."""
    from narl import storage
    from narl.storage.unfinished import PART, list_unfinished_runs, locate

    folder = Path(given)
    if folder.is_dir() and folder.resolve().parent == root.resolve():
        return folder.name
    parts = [one.path.name for one in list_unfinished_runs(root)]
    names = storage.list_run_ids(root)
    names += [part for part in parts if part.removesuffix(PART) not in names]
    whole = given in (*names, *parts)
    fitting = [given] if whole else [name for name in names if name.startswith(given)]
    if len(fitting) == 1:
        return fitting[0]
    return locate(root, given).path.name  # says what is wrong: unknown, or more than one


def _agreed(ids: Sequence[str]) -> bool:
    if not sys.stdin.isatty():
        raise InputError("--yes: missing; without a terminal nothing is removed unasked")
    print(*ids, sep="\n", file=sys.stderr)
    print(f"remove {len(ids)} of the runs? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


ACTIONS = {"list": list_runs, "show": show_run, "remove": remove_runs}
