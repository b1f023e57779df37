"""`narl runs`: list, show and remove stored runs."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Annotated, Any

from tyro.conf import Positional

from narl.commands.arguments import RunsFolder, Switch, parse, runs_folder, value
from narl.errors import InputError, nearest

HELP = """\
usage: narl runs [list | show RUN | remove RUN...] [OPTIONS]

Runs in the folder `runs`, or in the folder that NARL_RUNS names: finished
ones, and trainings that are unfinished (ID.part; narl resume continues them).
RUN is an id, the beginning of an id, or the folder of a run.

  narl runs list            list all runs, newest first (also: narl runs)
  narl runs show RUN        show configuration, results, machine and arrays
  narl runs remove RUN...   delete runs

  narl runs show --help     arguments and options of an action
"""


@dataclasses.dataclass(frozen=True)
class ListRuns:
    """List the stored runs, newest first."""

    runs: RunsFolder = None
    """folder of the runs"""
    json: Switch = False
    """print one JSON object on stdout, everything else on stderr"""


@dataclasses.dataclass(frozen=True)
class ShowRun:
    """Show one run: configuration, results, versions and arrays."""

    run: Annotated[Positional[str], value("RUN")]
    """id of the run, beginning of the id, or its folder"""
    runs: RunsFolder = None
    """folder of the runs"""
    json: Switch = False
    """print one JSON object on stdout, everything else on stderr"""


@dataclasses.dataclass(frozen=True)
class RemoveRuns:
    """Delete runs. If one of them does not exist, none is deleted."""

    run: Annotated[Positional[tuple[str, ...]], value("RUN...")]
    """ids of runs, beginnings of ids, or folders"""
    yes: Switch = False
    """delete without asking"""
    runs: RunsFolder = None
    """folder of the runs"""
    json: Switch = False
    """print one JSON object on stdout, everything else on stderr"""


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status."""
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


def list_runs(arguments: Sequence[str]) -> int:
    """Run `narl runs list` and return its exit status."""
    args = parse(ListRuns, "narl runs list", arguments, "narl runs list --json")
    from narl import storage
    from narl.commands.runs_table import print_run_list, summarise_run
    from narl.console import print_json, stdout

    root = runs_folder(args.runs)
    runs = [summarise_run(run) for run in storage.list_runs(root)]
    unfinished = [summarise_run(run) for run in storage.list_unfinished_runs(root)]
    if args.json:
        print_json({"root": str(root), "runs": runs + unfinished})
    elif runs or unfinished:
        print_run_list(unfinished + runs)
    else:
        stdout().print(f"{root} holds no runs yet; such as `narl tabular narl-ucrl riverswim`")
    return 0


def show_run(arguments: Sequence[str]) -> int:
    """Run `narl runs show` and return its exit status."""
    args = parse(ShowRun, "narl runs show", arguments, "narl runs show tabular-narl-ucrl")
    from narl.commands.runs_table import summarise_run
    from narl.console import print_json
    from narl.deep.config import EPOCH_COLUMNS
    from narl.storage import UnfinishedRun, locate_run

    run = locate_run(runs_folder(args.runs), args.run)
    parts: dict[str, dict[str, Any]]
    if isinstance(run, UnfinishedRun):
        summary = summarise_run(run)
        parts = {"config": run.config, "last_epoch": run.last_row(EPOCH_COLUMNS) or {}}
        state = {name: summary[name] for name in ("step", "steps", "time", "process", "problems")}
        shown = {"unfinished": state, **parts}
    else:
        arrays = run.arrays()
        summary = {"run": run.id, "path": str(run.path)}
        parts = {"config": run.config, "metrics": run.metrics, "environment": run.environment}
        shown = parts | {
            "arrays": {name: f"{x.dtype} {list(x.shape)}" for name, x in arrays.items()}
        }
        parts["arrays"] = {
            name: {"shape": list(x.shape), "dtype": str(x.dtype)} for name, x in arrays.items()
        }
    if args.json:
        print_json(summary | parts)
    else:
        _print_parts(run.path.name, str(run.path), shown)
    return 0


def _print_parts(name: str, path: str, parts: dict[str, dict[str, Any]]) -> None:
    from narl.console import make_fact_table, stdout

    console = stdout()
    console.print(name, style="bold", soft_wrap=True)
    console.print(path, soft_wrap=True)
    for title, entries in parts.items():
        console.print(f"\n{title}", style="bold")
        table = make_fact_table(indent=2)
        for row in _flatten(entries):
            table.add_row(*row)
        console.print(table)


def _flatten(entries: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return nested entries as pairs of a dotted name and a text."""
    rows: list[tuple[str, str]] = []
    for name, entry in entries.items():
        if isinstance(entry, dict):
            rows += _flatten(entry, f"{prefix}{name}.")
        else:
            rows.append((prefix + name, _as_text(entry)))
    return rows


def _as_text(entry: Any) -> str:
    if isinstance(entry, list):
        return ", ".join("-" if item is None else str(item) for item in entry)
    if isinstance(entry, float):
        return f"{entry:.6g}"
    return "" if entry is None else str(entry)


def remove_runs(arguments: Sequence[str]) -> int:
    """Run `narl runs remove` and return its exit status."""
    example = "narl runs remove tabular-narl-ucrl --yes"
    args = parse(RemoveRuns, "narl runs remove", arguments, example)
    from narl import storage
    from narl.console import note, print_json

    if not args.run:
        raise InputError(f"RUN: missing; it is like `{example}`")
    root = runs_folder(args.runs)
    folders = [storage.locate_folder(root, run) for run in args.run]
    for folder in folders:
        if folder.parent.resolve() != root.resolve():
            raise InputError(f"RUN: {folder} is not in {root}; name its folder with --runs")
    names = list(dict.fromkeys(folder.name for folder in folders))
    if not args.yes and not _confirm(names):
        note("nothing was removed")
        return 0
    for name in names:
        if name.endswith(storage.PART):
            storage.remove_unfinished_run(root / name)
        else:
            storage.remove_run(root, name)
    if args.json:
        print_json({"removed": names})
    else:
        print(*(f"removed {name}" for name in names), sep="\n")
    return 0


def _confirm(names: Sequence[str]) -> bool:
    """Ask whether these runs are to be removed and return the answer."""
    if not sys.stdin.isatty():
        raise InputError("--yes: missing; without a terminal runs are removed only with --yes")
    print(*names, sep="\n", file=sys.stderr)
    print(f"remove {len(names)} of the runs? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


ACTIONS = {"list": list_runs, "show": show_run, "remove": remove_runs}
