"""Reports: one offline HTML page and figures for papers, made from charts, tables and claims.

`import narl.report` is quick: what draws, and needs packages that load slowly, is imported when it
is first used.
"""

from typing import TYPE_CHECKING

from narl.lazy_names import lazy_names

if TYPE_CHECKING:
    from narl.report.contents import Chart, Claim, Outcome, Section, Series, Table
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

_NAMES = {
    "contents": ("Chart", "Claim", "Outcome", "Section", "Series", "Table"),
    "figures": ("draw_figure",),
    "files": ("write_report",),
    "series": ("mean_band", "median_band"),
}
_MODULES = {name: f"narl.report.{module}" for module, names in _NAMES.items() for name in names}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
