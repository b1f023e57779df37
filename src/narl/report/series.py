"""What a chart can draw of its series: sorted, with gaps, within its axes, thinned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from narl.errors import InputError
from narl.report.document import Axis, Chart, Series

MOST_DOTS = 40
"""A line with at most so many points shows each of them."""


class Line(NamedTuple):
    """A series as arrays in the order of x. A gap is NaN."""

    label: str
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def has_band(self) -> bool:
        return bool(np.isfinite(self.low).any() and np.isfinite(self.high).any())

    @property
    def dots(self) -> np.ndarray:
        """The points to mark: all of a short line; of a long one those without a neighbour."""
        known = np.isfinite(self.y)
        if len(known) <= MOST_DOTS:
            return known
        before = np.concatenate([[False], known[:-1]])
        after = np.concatenate([known[1:], [False]])
        return known & ~before & ~after


def lines(chart: Chart, most: int | None = None) -> list[Line]:
    """Every series of the chart that has a point to draw, with at most `most` points each."""
    floor = _floor(chart)
    drawn = [_line(chart, series, floor) for series in chart.series]
    drawn = [line for line in drawn if np.isfinite(line.y).any()]
    if most is None:
        return drawn
    return [_take(line, thin(line.x, most, chart.x_axis)) for line in drawn]


def num_off_axis(chart: Chart) -> int:
    """Points that a logarithmic axis has no place for."""
    count = 0
    for series in chart.series:
        x, y = _array(series.x), _array(series.y)
        known = np.isfinite(x) & np.isfinite(y)
        fits = ((chart.x_axis != "log") | (x > 0)) & ((chart.y_axis != "log") | (y > 0))
        count += int((known & ~fits).sum())
    return count


def thin(x: np.ndarray, most: int, axis: Axis) -> np.ndarray:
    """Indices of at most `most` of the sorted x, even on the axis, the two ends among them."""
    if len(x) <= most:
        return np.arange(len(x))
    place = {"linear": x, "log": np.log(np.abs(x) + (x == 0)), "symlog": np.arcsinh(x)}[axis]
    wanted = np.linspace(place[0], place[-1], most)
    right = np.clip(np.searchsorted(place, wanted), 1, len(x) - 1)
    nearer_left = wanted - place[right - 1] < place[right] - wanted
    index = np.where(nearer_left, right - 1, right)
    index[0], index[-1] = 0, len(x) - 1
    return np.unique(index)


def check(chart: Chart) -> None:
    """One line on the first series whose lists do not fit together."""
    for series in chart.series:
        for name in ("y", "low", "high"):
            values = getattr(series, name)
            if values is not None and len(values) != len(series.x):
                raise InputError(
                    f"report: chart {chart.id}, series {series.label!r}: {name} has {len(values)} "
                    f"values; it must have {len(series.x)}, as x has"
                )
    labels = [series.label for series in chart.series]
    for label in labels:
        if labels.count(label) > 1:
            raise InputError(
                f"report: chart {chart.id}: two series are labelled {label!r}; "
                "each must have a label of its own"
            )


def _line(chart: Chart, series: Series, floor: float) -> Line:
    x, y = _array(series.x), _array(series.y)
    banded = series.low is not None and series.high is not None
    low = _array(series.low or []) if banded else np.full_like(y, np.nan)
    high = _array(series.high or []) if banded else np.full_like(y, np.nan)
    if chart.y_axis == "log":
        y, high = (np.where(values > 0, values, np.nan) for values in (y, high))
        low = np.where(low > 0, low, np.where(np.isnan(low), np.nan, floor))
    keep = np.isfinite(x) & (x > 0 if chart.x_axis == "log" else True)
    line = Line(series.label, x, y, low, high)
    return _take(line, np.flatnonzero(keep)[np.argsort(x[keep], kind="stable")])


def _take(line: Line, index: np.ndarray) -> Line:
    return Line(line.label, *(values[index] for values in line[1:]))


def _floor(chart: Chart) -> float:
    """Where a band that reaches down to zero ends on a logarithmic axis."""
    values = [
        _array(part)
        for series in chart.series
        for part in (series.y, series.low, series.high)
        if part is not None
    ]
    flat = np.concatenate([*values, [1.0 if chart.reference is None else chart.reference]])
    positive = flat[flat > 0]
    return float(positive.min()) if positive.size else 1.0


def _array(values: Sequence[float | None]) -> np.ndarray:
    """Float64 with NaN for what is missing or infinite."""
    array = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return np.where(np.isfinite(array), array, np.nan)
