"""What an experiment says when it is done: charts, tables, claims. Plain data, kept as JSON."""

from __future__ import annotations

import dataclasses
import json
import math
import uuid
from pathlib import Path
from typing import Any, Literal

from narl.errors import InputError

Verdict = Literal["holds", "fails", "undecided"]
Axis = Literal["linear", "log", "symlog"]


@dataclasses.dataclass(frozen=True)
class Series:
    """One line of a chart: a median with its quartiles, or points without."""

    label: str
    x: list[float]
    y: list[float | None]
    low: list[float | None] | None = None
    high: list[float | None] | None = None


@dataclasses.dataclass(frozen=True)
class Chart:
    """A picture of the paper, or one of ours."""

    id: str
    title: str
    x_label: str
    y_label: str
    series: list[Series]
    x_axis: Axis = "linear"
    y_axis: Axis = "linear"
    reference: float | None = None
    """A horizontal line, such as V*."""
    reference_label: str = ""
    caption: str = ""
    """How to read it and what the bands are."""


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of strings and numbers."""

    id: str
    title: str
    columns: list[str]
    rows: list[list[Any]]
    caption: str = ""


@dataclasses.dataclass(frozen=True)
class Claim:
    """A statement as a predicate over the measured numbers: of the paper, or one of ours."""

    id: str
    statement: str
    """What the paper says, in our words."""
    where: str
    """Where it says so; begins with "ours" where the paper says nothing of the kind."""
    verdict: Verdict
    numbers: str
    """The measured figures behind the verdict."""

    @property
    def is_ours(self) -> bool:
        """Whether the statement is ours and not the paper's."""
        return self.where.startswith("ours")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """One experiment at one scale."""

    id: str
    title: str
    scale: str
    command: str
    """The command that makes it again."""
    about: str
    """What was run, in a few sentences."""
    charts: list[Chart]
    tables: list[Table]
    claims: list[Claim]
    notes: list[str] = dataclasses.field(default_factory=list)
    runs: list[str] = dataclasses.field(default_factory=list)
    """Ids of the runs behind it."""
    environment: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Versions and device."""


def _plain(value: Any) -> Any:
    """JSON without NaN or infinity, numbers to seven digits."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bool | int | str) or value is None:
        return value
    number = float(value)
    return float(f"{number:.7g}") if math.isfinite(number) else None


def save(outcome: Outcome, folder: Path) -> Path:
    """Writes <folder>/<id>-<scale>.json, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{outcome.id}-{outcome.scale}.json"
    text = json.dumps(_plain(dataclasses.asdict(outcome)), indent=1, ensure_ascii=False)
    partial = path.with_name(f".partial-{uuid.uuid4().hex[:8]}-{path.name}")
    try:
        partial.write_text(text + "\n", encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def load(path: Path) -> Outcome:
    """Reads what `save` wrote."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        data["charts"] = [
            Chart(**{**chart, "series": [Series(**s) for s in chart["series"]]})
            for chart in data["charts"]
        ]
        data["tables"] = [Table(**table) for table in data["tables"]]
        data["claims"] = [Claim(**claim) for claim in data["claims"]]
        return Outcome(**data)
    except (KeyError, TypeError, ValueError, OSError) as problem:
        raise InputError(f"outcome: {path} cannot be read ({problem})") from None
