"""The contents of a report: series, charts, tables, claims and sections; outcomes as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import types
import typing
from pathlib import Path
from typing import Any, Literal

from narl.errors import InputError
from narl.storage.files import read_json, with_checksum, without_checksum, write_file

Verdict = Literal["holds", "fails", "undecided"]
Axis = Literal["linear", "log", "symlog"]

ENVIRONMENT = ("narl", "python", "jax", "jaxlib", "numpy", "device")
"""Entries of a run's environment that a report shows. An experiment that is run again on the same
machine records the same entries, so its file stays the same but for the seconds of trainings."""
TRAINING_ENVIRONMENT = (*ENVIRONMENT, "optax", "gymnasium", "mujoco")
"""The entries for trainings, which depend on more packages."""


@dataclasses.dataclass(frozen=True)
class Series:
    """One line of a chart, with or without a band from ``low`` to ``high``."""

    label: str
    x: list[float]
    y: list[float | None]
    low: list[float | None] | None = None
    high: list[float | None] | None = None


@dataclasses.dataclass(frozen=True)
class Chart:
    """A chart: axes, series and a caption; `narl.report.series.form_of` says how it is drawn."""

    id: str
    title: str
    x_label: str
    y_label: str
    series: list[Series]
    x_axis: Axis = "linear"
    y_axis: Axis = "linear"
    reference: float | None = None
    """The height of a horizontal line, such as V*."""
    reference_label: str = ""
    caption: str = ""
    """The way to read the chart, and the meaning of the bands."""


@dataclasses.dataclass(frozen=True)
class Table:
    """A table whose rows hold strings, numbers and None."""

    id: str
    title: str
    columns: list[str]
    rows: list[list[Any]]
    caption: str = ""


@dataclasses.dataclass(frozen=True)
class Claim:
    """A statement that the measured numbers support or contradict."""

    id: str
    statement: str
    """The statement of the paper, in our words."""
    where: str
    """The place in the paper; begins with "ours" if the statement is not in the paper."""
    verdict: Verdict
    numbers: str
    """The measured numbers behind the verdict."""

    @property
    def is_ours(self) -> bool:
        """Whether the statement is not one of the paper."""
        return self.where.startswith("ours")


@dataclasses.dataclass(frozen=True)
class Training:
    """A training behind an outcome: the command that repeats it, and the returns of every seed."""

    label: str
    run: str
    """The id of the run."""
    command: str
    """The command that trains this configuration alone."""
    seeds: list[int]
    steps: list[int]
    """The environment steps at which the policy was evaluated."""
    returns: list[list[float | None]]
    """The evaluation returns of each seed, one for each of the steps."""
    seconds: float | None = None
    """The duration of the program that trained it, for all replicas of the program together."""
    replicas: int | None = None
    """The number of replicas of that program; trainings of one shape share a program."""
    device: str | None = None


@dataclasses.dataclass(frozen=True)
class TabularRun:
    """A tabular run behind an outcome: the command that repeats it, and the sums of every seed."""

    label: str
    run: str
    """The id of the run."""
    command: str
    """The command that runs this configuration alone."""
    seeds: list[int]
    episodes: int
    """The number of episodes that were run."""
    seed_scores: dict[str, list[float | None]]
    """Scores by name, one for each seed: the terms of Eq. 1 summed over all episodes, and others
    that claims quote."""
    swept: str | None = None
    """The option whose values ran in one program. The command runs one value alone; such a run has
    another id."""


@dataclasses.dataclass(frozen=True)
class Introduction:
    """A text about what was run, and the command that runs it again; a warning has none: ""."""

    text: str
    command: str


@dataclasses.dataclass(frozen=True)
class Section:
    """A section of the page: one experiment, or the trainings on one environment."""

    id: str
    title: str
    introduction: list[Introduction]
    charts: list[Chart]
    tables: list[Table]
    claims: list[Claim] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    runs: list[str] = dataclasses.field(default_factory=list)
    """The ids of the runs behind the section."""
    trainings: list[Training] = dataclasses.field(default_factory=list)
    """The trainings of an experiment that are among the runs."""
    tabular_runs: list[TabularRun] = dataclasses.field(default_factory=list)
    """The tabular runs of an experiment that are among the runs."""
    environment: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Versions of packages and the device."""
    scale: str | None = None
    """The scale of an experiment; None for trainings."""
    comparison: Table | None = None
    """A table that answers what the first chart asks; it is shown directly after this chart."""

    @property
    def warnings(self) -> list[str]:
        """The texts at the top that are about no run."""
        return [part.text for part in self.introduction if not part.command]

    @property
    def all_tables(self) -> list[Table]:
        """The tables in the order of the page."""
        return [*([] if self.comparison is None else [self.comparison]), *self.tables]

    @property
    def name(self) -> str:
        """A short name, such as "fig1a (paper)"."""
        return self.title if self.scale is None else f"{self.id} ({self.scale})"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The outcome of an experiment at one scale, as it is stored."""

    id: str
    title: str
    scale: str
    command: str
    """The command that runs the experiment again."""
    about: str
    """A few sentences about what was run."""
    charts: list[Chart]
    tables: list[Table]
    claims: list[Claim]
    notes: list[str] = dataclasses.field(default_factory=list)
    runs: list[str] = dataclasses.field(default_factory=list)
    """The ids of the runs behind the outcome."""
    trainings: list[Training] = dataclasses.field(default_factory=list)
    """The trainings among the runs."""
    tabular_runs: list[TabularRun] = dataclasses.field(default_factory=list)
    """The tabular runs among the runs; outcomes of older versions have none."""
    environment: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Versions of packages and the device."""

    def section(self) -> Section:
        """Return the section of the page that shows the outcome."""
        return Section(
            id=self.id,
            title=self.title,
            introduction=[Introduction(self.about, self.command)],
            charts=self.charts,
            tables=self.tables,
            claims=self.claims,
            notes=self.notes,
            runs=self.runs,
            trainings=self.trainings,
            tabular_runs=self.tabular_runs,
            environment=self.environment,
            scale=self.scale,
        )


def save_outcome(outcome: Outcome, folder: Path) -> Path:
    """Write an outcome and its checksum to `<folder>/<id>-<scale>.json` and return the path."""
    path = folder / f"{outcome.id}-{outcome.scale}.json"
    values = with_checksum(rounded(dataclasses.asdict(outcome)))
    write_file(path, f"{_as_json(values)}\n".encode())
    return path


def _as_json(values: dict[str, Any]) -> str:
    """Return JSON with one entry per line, but a list of numbers on one line."""
    text = json.dumps(values, indent=1, ensure_ascii=False)
    # Line breaks are never inside the strings of JSON, so that this list is no part of a text.
    return re.sub(r'\[\n[^][{}"]*\]', lambda match: re.sub(r"\s+", "", match[0]), text)


def load_outcome(path: Path) -> Outcome:
    """Return the outcome in a file that `save_outcome` wrote."""
    try:
        outcome: Outcome = _from_json(Outcome, without_checksum(read_json(path)))
        return outcome
    except (ValueError, OSError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else problem
        raise InputError(f"outcome: {path} cannot be read ({reason})") from None


def _from_json(kind: Any, value: Any, name: str = "it") -> Any:
    """Return JSON values as a value of a type; ValueError where they are of another type."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and isinstance(value, dict):
        kinds = typing.get_type_hints(kind)
        needed = {x.name for x in dataclasses.fields(kind) if _has_no_default(x)}
        if wrong := sorted((needed - value.keys()) | (value.keys() - kinds.keys())):
            raise ValueError(f"{wrong[0]} is missing in {name}, or does not belong there")
        return kind(**{key: _from_json(kinds[key], x, key) for key, x in value.items()})
    if origin is list and isinstance(value, list):
        return [_from_json(arguments[0], item, name) for item in value]
    if origin in (types.UnionType, typing.Union):
        if value is None and types.NoneType in arguments:
            return None
        return _from_json(next(x for x in arguments if x is not types.NoneType), value, name)
    is_right = (
        kind is Any
        or (origin is Literal and value in arguments)
        or (origin is dict and isinstance(value, dict))
        or (kind is float and type(value) in (int, float))
        or (isinstance(kind, type) and type(value) is kind)
    )
    if not is_right:
        raise ValueError(f"{name} is of the wrong type")
    return value


def _has_no_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def rounded(value: Any) -> Any:
    """Return plain values with numbers of seven digits, and None for NaN and infinity."""
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    if isinstance(value, bool | int | str) or value is None:
        return value
    number = float(value)
    return float(f"{number:.7g}") if math.isfinite(number) else None
