"""Bands of stored charts, cut off at the lowest and the highest seed.

A standard deviation of returns near the largest possible one reaches beyond it. `mean_band` cuts
new bands off; this module cuts those of outcomes that were stored before, which keep the returns
of every seed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from narl.report.contents import Chart, Section, Series, Training
from narl.report.label_colours import DRAWS, MEANS
from narl.report.series import as_array

TO_SEEDS = "Bands end at the lowest and the highest seed."
TO_CHART = (
    "Inside the model, the values of single seeds are not stored: these bands end at the lowest "
    "and the highest mean or seed of the chart."
)


def cut_section(section: Section) -> Section:
    """Return the section with the bands of its charts cut off."""
    charts = [cut_chart(chart, section.trainings) for chart in section.charts]
    return dataclasses.replace(section, charts=charts)


def cut_chart(chart: Chart, trainings: Sequence[Training]) -> Chart:
    """Return a chart of returns whose bands end at the lowest and the highest seed.

    A series shows a training if its line is the mean of the training's returns. The bands of
    returns inside the model, whose seeds are unknown, end where the rest of the chart does. A chart
    with no band that is too long was cut off when it was made, and stays as it is.
    """
    seeds = {
        series.label: returns
        for series in chart.series
        if series.low is not None and (returns := returns_behind(series, trainings)) is not None
    }
    cut = {x.label: cut_band(x, *_ends(seeds[x.label])) for x in chart.series if x.label in seeds}
    if all(cut.get(series.label, series) == series for series in chart.series):
        return chart
    remarks = [TO_SEEDS]
    inside = [x for x in chart.series if x.label in (DRAWS, MEANS) and x.low is not None]
    if inside:
        means = [as_array(series.y) for series in chart.series]
        known = np.concatenate([*means, *(returns.ravel() for returns in seeds.values())])
        low, high = np.nanmin(known), np.nanmax(known)
        for series in inside:
            cut[series.label] = cut_band(series, *(np.full(len(series.x), x) for x in (low, high)))
        remarks.append(TO_CHART)
    return dataclasses.replace(
        chart,
        series=[cut.get(series.label, series) for series in chart.series],
        caption=" ".join([chart.caption, *remarks]).strip(),
    )


def returns_behind(
    series: Series, trainings: Sequence[Training]
) -> Float[np.ndarray, "N K"] | None:
    """Return the returns of every seed at the points of a series, if it is their mean."""
    y = as_array(series.y)
    for training in trainings:
        place = {float(step): index for index, step in enumerate(training.steps)}
        if not series.x or any(float(x) not in place for x in series.x):
            continue
        rows = np.stack([as_array(row) for row in training.returns])
        rows = rows[:, [place[float(x)] for x in series.x]]
        # stored numbers have seven digits, and means near 0 lose some of them
        if np.allclose(rows.mean(axis=0), y, 1e-5, 1e-6 * abs(rows).max(), equal_nan=True):
            return rows
    return None


def cut_band(series: Series, low: np.ndarray, high: np.ndarray) -> Series:
    """Return the series with a band that is nowhere below ``low`` or above ``high``."""
    below = np.maximum(as_array(series.low or []), low)
    above = np.minimum(as_array(series.high or []), high)
    return dataclasses.replace(series, low=_as_list(below), high=_as_list(above))


def _ends(returns: Float[np.ndarray, "N K"]) -> tuple[np.ndarray, np.ndarray]:
    return returns.min(axis=0), returns.max(axis=0)


def _as_list(values: np.ndarray) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]
