"""Reports: one offline HTML page and figures for papers, made from charts, tables and claims."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from narl.report.document import Chart, Claim, Outcome, Section, Series, Table
    from narl.report.figures import draw_figure
    from narl.report.files import write_report
    from narl.report.series import mean_band, median_band

__all__ = [
    "Chart",
    "Claim",
    "Outcome",
    "Section",
    "Series",
    "Table",
    "draw_figure",
    "mean_band",
    "median_band",
    "write_report",
]

_DEFINED_IN = {
    "draw_figure": "figures",
    "mean_band": "series",
    "median_band": "series",
    "write_report": "files",
}
"""Modules of the names that are not in `document`."""


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: drawing needs packages that are slow to load."""
    if name not in __all__:
        raise AttributeError(f"module 'narl.report' has no attribute {name!r}")
    module = importlib.import_module(f"narl.report.{_DEFINED_IN.get(name, 'document')}")
    return getattr(module, name)


def __dir__() -> list[str]:
    return sorted(__all__)
