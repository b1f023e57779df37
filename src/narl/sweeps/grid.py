"""Grids: lists of values for the options of a configuration, from a command line or a TOML file.

Every combination of the values is a run. An option that has no effect with some algorithm, agent or
other option of the grid is left out there, and equal runs count once: narl and mbpo can be crossed
with radii, and mbpo is run once.
"""

from __future__ import annotations

import itertools
import os
import tomllib
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from narl.deep.checked_config import make_config as make_training
from narl.deep.config import Config as TrainingConfig
from narl.errors import InputError, NoEffect, unknown
from narl.options import OptionField, option_fields, split_optional
from narl.storage.files import read_file
from narl.sweeps.planned_run import RunConfig, SweepRun, label_runs, sweep_run
from narl.tabular.checked_options import all_option_fields
from narl.tabular.config import Config as TabularConfig
from narl.tabular.config import make_config as make_tabular
from narl.validation import check_count, check_seeds

MAX_RUNS = 100_000
"""Largest number of runs in one sweep."""
MOST_BYTES = 1 << 24
"""Bytes of the largest file with a grid."""
EXAMPLES = {"env": "Hopper-v5", "agent": "psrl"}
Axes = dict[str, tuple[Any, ...]]
"""The values of every option that was given."""


class Half(NamedTuple):
    """One half of the paper: its options, and its function that makes a configuration."""

    name: str
    fields: tuple[OptionField, ...]
    make_config: Callable[..., RunConfig]
    required: tuple[str, ...]
    """The options without a default, in their order on the command line."""


HALVES = {
    "train": Half("train", tuple(option_fields(TrainingConfig)), make_training, ("env",)),
    "tabular": Half(
        "tabular",
        (*option_fields(TabularConfig), *all_option_fields()),
        make_tabular,
        ("agent", "env"),
    ),
}


def takes_several_numbers(field: OptionField) -> bool:
    """Return whether one value of an option is already a list, such as 256,256."""
    return typing.get_origin(split_optional(field.annotation)[0]) is tuple


def expand(half: Half, grids: Sequence[Axes], seeds_per_run: int | None = None) -> list[SweepRun]:
    """Return every run of several grids, each once, in the order of the grids' options."""
    runs: dict[str, SweepRun] = {}
    for grid in grids:
        for run in _expand_one(half, {**grid}, seeds_per_run):
            runs.setdefault(run.id, run)
    return label_runs(list(runs.values()))


def _expand_one(half: Half, grid: Axes, seeds_per_run: int | None) -> list[SweepRun]:
    for name in half.required:
        if not grid.get(name):
            raise InputError(f"{name}: missing; give at least one, such as {EXAMPLES[name]}")
    if seeds_per_run is not None:
        grid["seeds"] = _split_seeds(grid.get("seeds", ()), seeds_per_run)
    number = 1
    for values in grid.values():
        number *= len(values)
    if number > MAX_RUNS:
        raise InputError(f"grid: it has {number} combinations; at most {MAX_RUNS} in one sweep")
    runs: dict[str, SweepRun] = {}
    refused: dict[str, NoEffect] = {}
    used: set[str] = set()
    for values in itertools.product(*grid.values()):
        given = dict(zip(grid, values, strict=True))
        config = make_effective(half, given, refused)
        used |= given.keys()
        run = sweep_run(config, options=given)
        runs.setdefault(run.id, run)
    for name, error in refused.items():
        if name not in used:  # with no combination does the option have an effect
            raise error
    return list(runs.values())


def make_effective(half: Half, given: dict[str, Any], refused: dict[str, NoEffect]) -> RunConfig:
    """Return the configuration; options without effect are moved from ``given`` to ``refused``."""
    env = given.get("env")
    if half.name == "tabular" and isinstance(env, str) and env.endswith(".npz"):
        given["env"] = os.path.abspath(env)  # workers may have another working folder
    while True:
        try:
            return half.make_config(**given)
        except NoEffect as error:
            if error.name not in given:
                raise
            refused.setdefault(error.name, error)
            del given[error.name]


def _split_seeds(values: Sequence[Any], seeds_per_run: int) -> tuple[tuple[int, ...], ...]:
    size = check_count("seeds_per_run", seeds_per_run)
    if not values:
        raise InputError("seeds_per_run: there are no seeds to split; give seeds, such as 0:10")
    return tuple(
        seeds[start : start + size]
        for seeds in map(check_seeds, values)
        for start in range(0, len(seeds), size)
    )


# --- TOML files -----------------------------------------------------------------------------------


def read_grid_file(path: Path) -> tuple[Half, list[Axes]]:
    """Return the half and the grids of a TOML file.

    Its entries are options with a value or a list of values; those in a table [[grid]] are of one
    grid, those before are of every grid. The entry `half` is "train" (the default) or "tabular".
    """
    try:
        content = tomllib.loads(read_file(path, MOST_BYTES, follow_links=True).decode())
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; give a TOML file") from None
    except (ValueError, RecursionError) as error:  # such as a number of too many digits
        raise InputError(f"{path}: it is not TOML ({error})") from None
    half = content.pop("half", "train")
    if not isinstance(half, str) or half not in HALVES:
        raise unknown(f"{path}: half", str(half), HALVES)
    tables = content.pop("grid", [{}])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise InputError(f"{path}: grid is wrong; a grid begins with [[grid]]")
    fields = {field.name: field for field in HALVES[half].fields}
    grids = []
    for table in tables:
        entries = {name.replace("-", "_"): x for name, x in {**content, **table}.items()}
        for name in entries:
            if name not in fields:
                raise unknown(f"{path}: option", name, sorted(fields))
        grids.append({name: _axis(path, fields[name], x) for name, x in entries.items()})
    return HALVES[half], grids


def _axis(path: Path, field: OptionField, entry: Any) -> tuple[Any, ...]:
    """Return the values of one option in a TOML file."""
    is_one_value = not isinstance(entry, list)
    if takes_several_numbers(field) and not is_one_value:
        is_one_value = not all(isinstance(item, list | str) for item in entry)
    values = [entry] if is_one_value else entry
    if not values:
        raise InputError(f"{path}: {field.name} has no values; give at least one, or leave it out")
    return tuple(_value(field, value) for value in values)


def _value(field: OptionField, value: Any) -> Any:
    if value == "none" and split_optional(field.annotation)[1]:
        return None
    if field.option.parse is not None and isinstance(value, str):
        return field.option.parse(value)
    kind, _ = split_optional(field.annotation)
    if kind is float and type(value) is int:
        return float(value)
    return tuple(value) if isinstance(value, list) else value
