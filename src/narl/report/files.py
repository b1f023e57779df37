"""The files of a report: the page, and every chart as PNG and PDF."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from narl.errors import InputError
from narl.report.contents import Outcome, Section
from narl.report.figures import draw_figure, figure_bytes
from narl.report.markup import anchor
from narl.report.page import chart_anchor, compose_page, section_anchor
from narl.report.seed_range import cut_section
from narl.report.series import check_chart, choose_looks
from narl.storage.files import write_file


def write_report(
    contents: Sequence[Section | Outcome], out: Path, *, figures: Path | None = None
) -> list[Path]:
    """Write the page to ``out`` and every chart as PNG and PDF; return the paths, the page first.

    The figures go into ``figures``, or into the folder `<stem of out>-figures` beside the page.
    """
    out = Path(out)
    sections = [item.section() if isinstance(item, Outcome) else item for item in contents]
    _check(sections, out)
    sections = [cut_section(section) for section in sections]
    folder = out.with_name(f"{out.stem}-figures") if figures is None else Path(figures)
    looks = choose_looks(chart for section in sections for chart in section.charts)
    page = compose_page(sections)
    written = []
    for section in sections:
        for chart in section.charts:
            figure = draw_figure(chart, looks)
            for kind in ("png", "pdf"):
                path = folder / f"{chart_anchor(section, chart)}.{kind}"
                written.append(_write(path, figure_bytes(figure, kind)))
    return [_write(out, page.encode()), *written]


def _check(sections: Sequence[Section], out: Path) -> None:
    """Refuse contents that cannot be drawn, or names that are there twice."""
    if not sections:
        raise InputError("report: no results found; run `narl reproduce` first")
    if out.is_dir():
        raise InputError(f"report: out: {out} is a folder; give a file, such as {out}/report.html")
    charts = [chart_anchor(section, chart) for section in sections for chart in section.charts]
    _check_unique("two results are of experiment", [section_anchor(item) for item in sections])
    _check_unique("two charts are named", charts)
    for section in sections:
        duplicate = f"experiment {section_anchor(section)} has two"
        _check_unique(f"{duplicate} tables", [anchor(item.id) for item in section.all_tables])
        _check_unique(f"{duplicate} claims", [anchor(item.id) for item in section.claims])
        for chart in section.charts:
            check_chart(chart)
        for table in section.all_tables:
            for number, row in enumerate(table.rows, start=1):
                if len(row) != len(table.columns):
                    raise InputError(
                        f"report: table {table.id}, row {number}: {len(row)} cells; "
                        f"it must have {len(table.columns)}, as there are columns"
                    )


def _check_unique(problem: str, names: list[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"report: {problem} {name}; each must be there once")


def _write(path: Path, content: bytes) -> Path:
    try:
        write_file(path, content)
    except OSError as problem:
        reason = problem.strerror or problem
        raise InputError(f"report: {path} cannot be written ({reason}); name another") from None
    return path
