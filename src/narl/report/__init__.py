"""The outcomes of experiments as one offline HTML page, and as figures for papers."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Sequence
from pathlib import Path

from narl.errors import InputError
from narl.report.document import Outcome
from narl.report.figures import draw_figure, picture
from narl.report.markup import anchor
from narl.report.page import chart_id, compose, outcome_id
from narl.report.palette import looks
from narl.report.series import check

__all__ = ["draw_figure", "write_report"]


def write_report(
    outcomes: Sequence[Outcome], out: Path, *, figures: Path | None = None
) -> list[Path]:
    """Writes the page to `out` and every chart as PNG and PDF; returns the paths, the page first.

    The figures go into `figures`, or the folder `<stem of out>-figures` beside the page. Each
    file is written under a temporary name and renamed.
    """
    out = Path(out)
    _check(outcomes, out)
    folder = out.with_name(f"{out.stem}-figures") if figures is None else Path(figures)
    style = looks(chart for outcome in outcomes for chart in outcome.charts)
    whole = compose(outcomes)
    written = []
    for outcome in outcomes:
        for chart in outcome.charts:
            figure = draw_figure(chart, style)
            for kind in ("png", "pdf"):
                path = folder / f"{chart_id(outcome, chart)}.{kind}"
                written.append(_write(path, picture(figure, kind)))
    return [_write(out, whole.encode()), *written]


def _check(outcomes: Sequence[Outcome], out: Path) -> None:
    if not outcomes:
        raise InputError("report: no results found; run `narl reproduce` first")
    if out.is_dir():
        raise InputError(f"report: out: {out} is a folder; give a file, such as {out}/report.html")
    charts = [chart_id(outcome, chart) for outcome in outcomes for chart in outcome.charts]
    _check_unique("two results are of experiment", [outcome_id(outcome) for outcome in outcomes])
    _check_unique("two charts are named", charts)
    for outcome in outcomes:
        within = f"experiment {outcome_id(outcome)} has two"
        _check_unique(f"{within} tables", [anchor(item.id) for item in outcome.tables])
        _check_unique(f"{within} claims", [anchor(item.id) for item in outcome.claims])
        for chart in outcome.charts:
            check(chart)
        for table in outcome.tables:
            for number, row in enumerate(table.rows, start=1):
                if len(row) != len(table.columns):
                    raise InputError(
                        f"report: table {table.id}, row {number}: {len(row)} cells; "
                        f"it must have {len(table.columns)}, as there are columns"
                    )


def _check_unique(what: str, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"report: {what} {name}; each must be there once")


def _write(path: Path, content: bytes) -> Path:
    """Writes the file whole or not at all."""
    partial = path.with_name(f".partial-{uuid.uuid4().hex[:8]}-{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(content)
        partial.replace(path)
    except OSError as problem:
        with contextlib.suppress(OSError):
            partial.unlink()
        reason = problem.strerror or problem
        raise InputError(f"report: {path} cannot be written ({reason}); name another") from None
    return path
