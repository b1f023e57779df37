"""`narl sweep`: many runs of a grid, on one machine or many, each done once."""

from __future__ import annotations

import dataclasses
import functools
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from tyro.conf import Positional

from narl.commands.arguments import (
    JsonSwitch,
    RunsFolder,
    Switch,
    import_from_working_folder,
    runs_folder,
    value,
)
from narl.commands.config_arguments import ConfigCommand, read_value
from narl.commands.executor_arguments import ExecutorArguments
from narl.errors import InputError
from narl.options import OptionField, as_text, choices_of, split_optional
from narl.sweeps.grid import HALVES, Half, expand, read_grid_file, takes_several_numbers

if TYPE_CHECKING:
    from narl.sweeps.planned_run import SweepRun

EXAMPLE = "narl sweep Hopper-v5,Walker2d-v5 --algo narl,mbpo --radius 0.1,none --seeds 0:5"
HINTS = {
    "--fresh": "remove runs with `narl runs remove RUN`, and sweep again",
    "--watch": "it is called --follow",
}


@dataclasses.dataclass(frozen=True)
class SweepArguments:
    """Run every combination of several values of options, each once.

    - The options are those of narl train, or of narl tabular after `narl sweep tabular`, with
      several values: --radius 0.1,0.5,none. Values that are lists themselves are separated by
      semicolons: --hidden "64,64;256,256". A bool is on, off or on,off.
    - An option that has no effect with one of the algorithms is left out for it.
    - FILE.toml holds a grid instead; options of the command line take precedence over the file's.
    - A run has all its seeds, as with narl train; --seeds-per-run divides them.
    - Finished runs are found, unfinished trainings go on from their checkpoint, and several
      sweeps at once, also on several machines that share the folder of runs, do each run once.
    """

    words: Annotated[Positional[tuple[str, ...]], value("ENV,...|FILE.toml")] = ()
    """environments (after `narl sweep tabular`: agents, then environments), or a TOML file"""
    seeds_per_run: Annotated[int | None, value("N", "(default: all in one run)")] = None
    """number of seeds in a run"""
    executor: Annotated[
        Literal["local", "ray", "slurm", "print"],
        value("local|ray|slurm|print", "(default: local)"),
    ] = "local"
    """processes of this machine, a Ray cluster (extra ray), SLURM (extra slurm), or
    only print a command for every run"""
    each: ExecutorArguments = dataclasses.field(default_factory=ExecutorArguments)
    status: Switch = False
    """print how far the runs are; without a grid, those of every sweep in the folder of runs"""
    follow: Switch = False
    """with --status: keep showing the table until every run is done or has failed"""
    csv: Annotated[Path | None, value("FILE.csv")] = None
    """write the results of all finished runs, a row for every seed"""
    runs: RunsFolder = None
    """folder of the runs; workers on other machines must see it under the same path"""
    json: JsonSwitch = False


def separator(field: OptionField) -> str:
    """Return the character between two values of an option."""
    return ";" if takes_several_numbers(field) else ","


def read_values(field: OptionField, text: str) -> tuple[Any, ...]:
    """Return the values of an option from a text such as 0.1,0.5,none or 64,64;256,256."""
    if field.option.parse is not None:
        return (field.option.parse(text),)
    pieces = text.split(separator(field))
    kind, _ = split_optional(field.annotation)
    values = []
    for piece in (piece.strip() for piece in pieces):
        if not piece:
            raise InputError(f"{field.name}: {text!r} has an empty value; separate them by commas")
        if kind is bool:
            if piece not in ("on", "off"):
                raise InputError(f"{field.name}: {piece!r} is wrong; it must be on, off or on,off")
            values.append(piece == "on")
        else:
            values.append(read_value(field, piece))
    return tuple(values)


def swept_field(field: OptionField) -> OptionField:
    """Return an option that takes several values; one without a default becomes an option, too."""
    kind, _ = split_optional(field.annotation)
    metavar = field.option.metavar or "|".join(choices_of(field.annotation, field.option))
    metavar = "on|off" if kind is bool else metavar
    default = None if field.default is dataclasses.MISSING else field.default
    option = dataclasses.replace(
        field.option,
        metavar=metavar if field.option.parse else f"{metavar}{separator(field)}...",
        switch=False,
        default_text=field.option.default_as_text(default),
        parse=functools.partial(read_values, field),
    )
    return OptionField(field.name, tuple[Any, ...], option, None)


COMMANDS: Mapping[str, ConfigCommand[SweepArguments]] = {
    name: ConfigCommand(
        "narl sweep" if name == "train" else f"narl sweep {name}",
        EXAMPLE if name == "train" else "narl sweep tabular psrl,ucrl2 riverswim --seeds 0:20",
        SweepArguments,
        tuple(map(swept_field, half.fields)),
        HINTS,
    )
    for name, half in HALVES.items()
}


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status."""
    name, words = "train", list(arguments)
    if words and words[0] in HALVES:
        name = words.pop(0)
    grids: list[dict[str, Any]] = [{}]
    file = next((word for word in words if word.endswith(".toml") and word[0] != "-"), None)
    if file is not None and "--help" not in words:
        half, grids = read_grid_file(Path(file))
        name = half.name
    command = COMMANDS[name]
    given, own = command.parse(words)
    with command.errors_as_typed():
        root = runs_folder(own.runs)
        given = _positional(HALVES[name], own.words, file) | given
        is_empty = not given and file is None
        if is_empty and own.status:
            from narl.sweeps.run_notes import recorded_runs

            runs = recorded_runs(root)
        else:
            import_from_working_folder()
            runs = expand(HALVES[name], [grid | given for grid in grids], own.seeds_per_run)
        return _run(HALVES[name], runs, root, own)


def _positional(half: Half, words: Sequence[str], file: str | None) -> dict[str, Any]:
    """Return the options that were given by their place: agents and environments."""
    rest = [word for word in words if word != file]
    if len(rest) > len(half.required):
        raise InputError(
            f"{rest[len(half.required)]}: one argument too many; several values are separated by "
            f"commas, as in `{COMMANDS[half.name].example}`"
        )
    fields = {field.name: field for field in half.fields}
    pairs = zip(half.required, rest, strict=False)
    return {name: read_values(fields[name], word) for name, word in pairs}


def _run(half: Half, runs: list[SweepRun], root: Path, own: SweepArguments) -> int:
    """Do what was asked with the runs of a sweep; return the exit status."""
    from narl.commands.sweep_console import SweepConsole

    if own.follow and not own.status:
        raise InputError("follow: it has no effect without --status; leave it out")
    own.each.check(own.executor, any(run.is_training for run in runs))
    if own.csv is not None:
        _check_csv(own.csv, own)
    runs = own.each.with_timeout(runs)
    console = SweepConsole(runs, root, own.executor, own.each, own.json)
    if own.status:
        status = console.show_status(own.follow)
    elif own.each.dry_run:
        return console.show_plan()
    elif own.executor == "print":
        print_commands(half, runs, own)
        return 0
    else:
        status = console.execute()
    if own.csv is not None:
        from narl import storage
        from narl.sweeps.results import results_csv

        storage.write_file(own.csv, results_csv(runs, root))
    return status


def _check_csv(path: Path, own: SweepArguments) -> None:
    """Refuse a table that could not be written, or would replace something else, in time."""
    from narl.storage import check_name, check_writable

    if own.each.dry_run or (own.executor == "print" and not own.status):
        raise InputError("csv: it has no effect where nothing is run; leave it out")
    check_name("csv", path, "choose another")
    if path.suffix.lower() != ".csv" or path.is_dir():
        raise InputError(f"csv: {path} is no .csv file; such as {path.stem or 'results'}.csv")
    check_writable("csv", path.absolute().parent, "choose another")


def print_commands(half: Half, runs: Sequence[SweepRun], own: SweepArguments) -> None:
    """Print a command for every run, one per line; each is a sweep of this one run."""
    from narl.console import print_json

    commands = []
    for run in runs:
        words = ["narl", "sweep", *([] if half.name == "train" else [half.name])]
        words += [as_text(run.options[name]) for name in half.required]
        for name, given in run.options.items():
            text = ("on" if given else "off") if isinstance(given, bool) else as_text(given)
            if name not in half.required:
                words.append(f"--{name.replace('_', '-')}={text}")
        if own.each.env_timeout is not None:
            words.append(f"--env-timeout={own.each.env_timeout:g}")
        if own.runs is not None:
            words.append(f"--runs={own.runs}")
        commands.append(shlex.join(words))
    print_json({"commands": commands}) if own.json else print(*commands, sep="\n")
