"""Looks of series: one colour and dash pattern per label over the whole page."""

from __future__ import annotations

from collections.abc import Iterable

from narl.palette import COLOURS, DASHES, Look, assign_looks
from narl.report.document import Chart
from narl.report.series import form_of

__all__ = ["COLOURS", "DASHES", "Look", "choose_looks"]


def choose_looks(charts: Iterable[Chart]) -> dict[str, Look]:
    """Return a look for every label, such that no two are alike in one chart.

    The rows of a chart of intervals carry their names and need no look of their own.
    """
    return assign_looks(
        [[series.label for series in chart.series] for chart in charts if form_of(chart) != "rows"]
    )
