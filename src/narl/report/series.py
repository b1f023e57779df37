"""Series of charts: bands over seeds, the points that a chart can draw, one look per label."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from narl.errors import InputError
from narl.palette import Look, assign_looks
from narl.report.contents import Axis, Chart, Series
from narl.report.label_colours import fixed_colours
from narl.stats import Interval, median_iqr, performance_profile

MOST_KEPT = 200
"""Points of a curve that an outcome keeps: enough for a chart, and a small file."""
MOST_DOTS = 40
"""Points of a line up to which each of them is marked with a dot."""
RANK = "member, from the least accurate"
MEMBERS = "members M"
"""Labels of x axes whose values are not joined by lines."""

Form = Literal["line", "dots", "bars", "rows"]


def form_of(chart: Chart) -> Form:
    """Return how a chart is drawn.

    A chart whose x label is empty has one value per series: a row for each, with its interval.
    Against the rank of a member there are bars, against a few numbers of members dots, both with
    the band as a stroke. Everything else is drawn as lines with bands.
    """
    if not chart.x_label:
        return "rows"
    if chart.x_label == RANK:
        return "bars"
    return "dots" if chart.x_label == MEMBERS and chart.x_axis == "linear" else "line"


def choose_looks(charts: Iterable[Chart]) -> dict[str, Look]:
    """Return a look for every label, such that no two are alike in one chart.

    An algorithm, a radius and a quantity have their own colours (`narl.report.label_colours`);
    labels of one colour differ in their dashes. The rows of a chart of intervals carry their names
    and need no look of their own.
    """
    labels = [[x.label for x in chart.series] for chart in charts if form_of(chart) != "rows"]
    # A chart with many labels has them in order, such as M = 3, 5, 10: it gives out the dashes.
    labels.sort(key=len, reverse=True)
    return assign_looks(labels, fixed_colours(labels))


def is_share(chart: Chart) -> bool:
    """Return whether y is a share or a probability, which lies between 0 and 1."""
    return chart.y_label.lower().startswith(("share", "probability"))


def median_band(label: str, curves: Float[np.ndarray, "N K"], *, log: bool = False) -> Series:
    """Return the median over seeds with quartiles, against the number of the episode."""
    keep = thin_evenly(curves.shape[1], log=log)
    median, q25, q75 = median_iqr(curves[:, keep], axis=0)
    return Series(label, (keep + 1).tolist(), median.tolist(), q25.tolist(), q75.tolist())


def mean_band(label: str, x: list[float], values: Float[np.ndarray, "N K"]) -> Series:
    """Return the mean ± one population standard deviation over seeds; no band for one seed.

    The band ends at the lowest and the highest seed: beyond them there may be impossible values.
    """
    mean, std = values.mean(axis=0), values.std(axis=0)
    if len(values) < 2:
        return Series(label, x, mean.tolist())
    low = np.maximum(mean - std, values.min(axis=0))
    high = np.minimum(mean + std, values.max(axis=0))
    return Series(label, x, mean.tolist(), low.tolist(), high.tolist())


def over_seeds(num_seeds: int, seeds: str = "the seeds") -> str:
    """Return a sentence that says what lines and bands of `mean_band` are."""
    if num_seeds == 1:
        return "One seed."
    ends = "at most to the lowest and the highest seed"
    return f"Mean ± one standard deviation over {seeds}, {ends}."


def count_seeds(num_seeds: int) -> str:
    """Return the number of seeds as text: "one seed" or "10 seeds"."""
    return "one seed" if num_seeds == 1 else f"{num_seeds} seeds"


def interval_series(label: str, interval: Interval) -> Series:
    """Return the row of a chart of intervals."""
    return Series(label, [1.0], [interval.estimate], [interval.low], [interval.high])


def profile_series(
    label: str, scores: Float[np.ndarray, "T N"], thresholds: Float[np.ndarray, " P"]
) -> Series:
    """Return a performance profile: the share of runs above each threshold, with its interval."""
    profile = performance_profile(scores, thresholds)
    return Series(label, *(part.tolist() for part in profile))


def thin_evenly(length: int, *, log: bool = False) -> Int[np.ndarray, " P"]:
    """Return indices of at most `MOST_KEPT` episodes, the first and the last among them."""
    if length <= MOST_KEPT:
        return np.arange(length)
    if log:
        return np.unique(np.geomspace(1, length, MOST_KEPT).round().astype(int)) - 1
    return np.unique(np.linspace(0, length - 1, MOST_KEPT).round().astype(int))


class Line(NamedTuple):
    """A series as arrays in the order of x, with NaN for gaps."""

    label: str
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def has_band(self) -> bool:
        """Whether some point has a lower and an upper end."""
        return bool(np.isfinite(self.low).any() and np.isfinite(self.high).any())

    @property
    def dots(self) -> np.ndarray:
        """A mask of the points to mark: all of a short line, else those without a neighbour."""
        known = np.isfinite(self.y)
        if len(known) <= MOST_DOTS:
            return known
        before = np.concatenate([[False], known[:-1]])
        after = np.concatenate([known[1:], [False]])
        return known & ~before & ~after


def lines_of(chart: Chart, most: int | None = None) -> list[Line]:
    """Return every series of a chart that has a point to draw, with at most ``most`` points."""
    floor = _floor(chart)
    lines = [_line(chart, series, floor) for series in chart.series]
    lines = [line for line in lines if np.isfinite(line.y).any()]
    if most is None:
        return lines
    return [_take(line, thin_on_axis(line.x, most, chart.x_axis)) for line in lines]


def num_off_axis(chart: Chart) -> int:
    """Return the number of points at or below zero on a logarithmic axis."""
    count = 0
    for series in chart.series:
        x, y = as_array(series.x), as_array(series.y)
        known = np.isfinite(x) & np.isfinite(y)
        fits = ((chart.x_axis != "log") | (x > 0)) & ((chart.y_axis != "log") | (y > 0))
        count += int((known & ~fits).sum())
    return count


def thin_on_axis(x: np.ndarray, most: int, axis: Axis) -> np.ndarray:
    """Return indices of at most ``most`` of the sorted x, evenly on the axis and with both ends."""
    if len(x) <= most:
        return np.arange(len(x))
    place = {"linear": x, "log": np.log(np.abs(x) + (x == 0)), "symlog": np.arcsinh(x)}[axis]
    wanted = np.linspace(place[0], place[-1], most)
    right = np.clip(np.searchsorted(place, wanted), 1, len(x) - 1)
    nearer_left = wanted - place[right - 1] < place[right] - wanted
    index = np.where(nearer_left, right - 1, right)
    index[0], index[-1] = 0, len(x) - 1
    return np.unique(index)


def check_chart(chart: Chart) -> None:
    """Refuse a chart whose lists differ in length or whose labels are not unique."""
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
    x, y = as_array(series.x), as_array(series.y)
    has_band = series.low is not None and series.high is not None
    low = as_array(series.low or []) if has_band else np.full_like(y, np.nan)
    high = as_array(series.high or []) if has_band else np.full_like(y, np.nan)
    if chart.y_axis == "log":
        y, high = (np.where(values > 0, values, np.nan) for values in (y, high))
        low = np.where(low > 0, low, np.where(np.isnan(low), np.nan, floor))
    if is_share(chart):  # a mean minus one standard deviation may lie below 0
        low, high = np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)
    keep = np.isfinite(x) & (x > 0 if chart.x_axis == "log" else True)
    line = Line(series.label, x, y, low, high)
    return _take(line, np.flatnonzero(keep)[np.argsort(x[keep], kind="stable")])


def _take(line: Line, index: np.ndarray) -> Line:
    return Line(line.label, *(values[index] for values in line[1:]))


def _floor(chart: Chart) -> float:
    """Return where a band that reaches down to zero ends on a logarithmic axis."""
    values = [
        as_array(part)
        for series in chart.series
        for part in (series.y, series.low, series.high)
        if part is not None
    ]
    flat = np.concatenate([*values, [1.0 if chart.reference is None else chart.reference]])
    positive = flat[flat > 0]
    return float(positive.min()) if positive.size else 1.0


def as_array(values: Sequence[float | None]) -> np.ndarray:
    """Return the values in float64, with NaN for missing and infinite ones."""
    array = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    return np.where(np.isfinite(array), array, np.nan)
