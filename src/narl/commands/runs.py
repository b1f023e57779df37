"""`narl runs`: list, show, compare and remove stored runs."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import Annotated

from tyro.conf import Positional

from narl.commands.arguments import JsonSwitch, RunsFolder, Switch, parse, runs_folder, value
from narl.errors import InputError, did_you_mean
from narl.run_lookup import RUN_HELP, find_run, find_run_folder

HELP = """\
usage: narl runs [list | show RUN | compare RUN... | remove RUN...] [OPTIONS]

Runs in the folder `runs`, or in the folder that NARL_RUNS names: finished
ones, and trainings that are unfinished (ID.part; narl resume continues them).
RUN is an id, its beginning or its last ten digits, the folder of a run, or
latest.

  narl runs list              list all runs, newest first (also: narl runs)
  narl runs list --env hopper --algo narl    those that fit
  narl runs show RUN          show results and the options that were changed
  narl runs compare RUN...    show results and differing options side by side
  narl runs remove RUN...     delete runs (also: narl runs rm)

  narl runs show --help       arguments and options of an action
"""


@dataclasses.dataclass(frozen=True)
class ListRuns:
    """List the stored runs, newest first, with the options that differ from the defaults."""

    env: Annotated[str | None, value("ENV")] = None
    """only runs of this environment; a part of its name is enough"""
    algo: Annotated[str | None, value("NAME")] = None
    """only runs of this algorithm or agent"""
    runs: RunsFolder = None
    json: JsonSwitch = False


@dataclasses.dataclass(frozen=True)
class ShowRun:
    """Show one run: its results, the options that were changed, and the machine."""

    run: Annotated[Positional[str], value("RUN", help=RUN_HELP)]
    all: Switch = False
    """show every option, metric, version and array"""
    runs: RunsFolder = None
    json: JsonSwitch = False


@dataclasses.dataclass(frozen=True)
class CompareRuns:
    """Show runs side by side: their results, and the options in which they differ."""

    run: Annotated[Positional[tuple[str, ...]], value("RUN...", help=RUN_HELP)]
    runs: RunsFolder = None
    json: JsonSwitch = False


@dataclasses.dataclass(frozen=True)
class RemoveRuns:
    """Delete runs. If one of them does not exist, none is deleted."""

    run: Annotated[Positional[tuple[str, ...]], value("RUN...", help=RUN_HELP)]
    yes: Switch = False
    """delete without asking"""
    runs: RunsFolder = None
    json: JsonSwitch = False


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status."""
    action, *rest = arguments or ["list"]
    if action in ("-h", "--help"):
        sys.stdout.write(HELP)
        return 0
    if action.startswith("-"):
        action, rest = "list", list(arguments)
    if action not in ACTIONS:
        hint = did_you_mean(action, ACTIONS)
        raise InputError(
            f"{action}: unknown action{hint or ';'} it must be one of {', '.join(ACTIONS)}"
        )
    return ACTIONS[action](rest)


def list_runs(arguments: Sequence[str]) -> int:
    """Run `narl runs list` and return its exit status."""
    args = parse(ListRuns, "narl runs list", arguments, "narl runs list --json")
    from narl import storage
    from narl.commands.runs_table import is_chosen, print_run_list, summarise_run
    from narl.console import print_json, stdout

    root = runs_folder(args.runs)
    runs: list[storage.Run | storage.UnfinishedRun] = [*storage.list_runs(root)]
    unfinished = storage.list_unfinished_runs(root)
    listed = [*runs, *unfinished] if args.json else [*unfinished, *runs]
    pairs = [(run, summarise_run(run)) for run in listed]
    chosen = [pair for pair in pairs if is_chosen(pair[1], args.env, args.algo)]
    if args.json:
        print_json({"root": str(root), "runs": [summary for _, summary in chosen]})
    elif chosen:
        print_run_list(chosen)
    elif pairs:
        words, known = "", ""
        if args.env is not None:
            words += f" --env {args.env}"
            known += _names("environments", {str(x["env"]) for _, x in pairs})
        if args.algo is not None:
            words += f" --algo {args.algo}"
            known += _names("algorithms", {str(x.get("algo") or x.get("agent")) for _, x in pairs})
        stdout().print(f"none of the {len(pairs)} runs in {root} fits{words}{known}")
    else:
        stdout().print(
            f"the folder {root} holds no runs yet; `narl tabular narl-ucrl riverswim` makes one"
        )
    return 0


def _names(kind: str, names: set[str]) -> str:
    return f"; {kind}: {', '.join(sorted(names))}"


def show_run(arguments: Sequence[str]) -> int:
    """Run `narl runs show` and return its exit status."""
    args = parse(ShowRun, "narl runs show", arguments, "narl runs show tabular-narl-ucrl")
    from narl.commands.run_details import print_all, print_run, run_details
    from narl.console import print_json

    run = find_run(runs_folder(args.runs), args.run)
    if args.json:
        print_json(run_details(run))
    elif args.all:
        print_all(run)
    else:
        print_run(run)
    return 0


def compare_runs(arguments: Sequence[str]) -> int:
    """Run `narl runs compare` and return its exit status."""
    example = "narl runs compare train-narl-hopper train-mbpo-hopper"
    args = parse(CompareRuns, "narl runs compare", arguments, example)
    from narl.commands.run_details import compare, print_comparison
    from narl.console import print_json
    from narl.sweeps.run_notes import without_notes

    names = without_notes(args.run)
    if len(names) < 2:
        raise InputError(f"RUN: {len(names)} given; two or more are compared, as `{example}`")
    runs = [find_run(runs_folder(args.runs), name) for name in names]
    comparison = compare(runs)
    if args.json:
        print_json(comparison)
    else:
        print_comparison(comparison)
    return 0


def remove_runs(arguments: Sequence[str]) -> int:
    """Run `narl runs remove` and return its exit status."""
    example = "narl runs remove tabular-narl-ucrl --yes"
    args = parse(RemoveRuns, "narl runs remove", arguments, example)
    from narl import storage
    from narl.console import note, print_json
    from narl.storage.runs import is_run_id

    if not args.run:
        raise InputError(f"RUN: missing; it is like `{example}`")
    root = runs_folder(args.runs)
    folders = [find_run_folder(root, run) for run in args.run]
    for folder in folders:
        if folder.parent.resolve() != root.resolve():
            raise InputError(f"RUN: {folder} is not in {root}; name its folder with --runs")
        if not is_run_id(folder.name.removesuffix(storage.PART_SUFFIX)):
            raise InputError(f"RUN: {folder} does not have the name of a run; remove it yourself")
    names = list(dict.fromkeys(folder.name for folder in folders))
    if not args.yes and not _confirm(names):
        note("nothing was removed")
        return 0
    for name in names:
        if name.endswith(storage.PART_SUFFIX):
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


ACTIONS = {
    "list": list_runs,
    "show": show_run,
    "compare": compare_runs,
    "remove": remove_runs,
    "rm": remove_runs,
}
