"""Bands of charts: cut off at the lowest and the highest seed, by hand and in the results."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from fake_outcomes import line_chart, small_section

from narl.report.contents import Series, Training, load_outcome
from narl.report.label_colours import DRAWS, OUTSIDE
from narl.report.seed_range import TO_CHART, TO_SEEDS, cut_chart, cut_section
from narl.report.series import mean_band

RESULTS = Path(__file__).resolve().parents[2] / "results"
RUN = Training("A", "run", "", [0, 1, 2], [1, 2], [[10.0, 10.0], [10.0, 0.0], [1.0, 2.0]])
"""Means 7 and 4."""


def test_mean_band_ends_at_the_lowest_and_highest_seed() -> None:
    series = mean_band("x", [1.0], np.array([[10.0], [10.0], [10.0], [0.0]]))
    assert series.y == [7.5]
    assert series.low == pytest.approx([7.5 - np.sqrt(18.75)])
    assert series.high == [10.0]  # 7.5 + 4.33 is beyond every seed


def test_stored_band_is_cut_off_at_the_seeds_behind_it() -> None:
    shown = Series("any label", [1, 2], [7.0, 4.0], [-1.0, 0.5], [15.0, 8.0])
    other = Series("published", [1, 2], [7.0, 5.0], [-1.0, 0.5], [15.0, 8.0])
    chart = cut_chart(line_chart(shown, other, caption="Read."), [RUN])
    cut, same = chart.series
    assert (cut.y, cut.low, cut.high) == ([7.0, 4.0], [1.0, 0.5], [10.0, 8.0])
    assert same == other  # no training has this mean
    assert chart.caption == f"Read. {TO_SEEDS}"


def test_bands_inside_the_model_end_where_the_chart_does() -> None:
    inside = Series(DRAWS, [1, 2], [11.0, 4.0], [-5.0, 3.0], [20.0, 5.0])
    outside = Series(OUTSIDE, [1, 2], [7.0, 4.0], [-1.0, 0.5], [15.0, 8.0])
    chart = cut_chart(line_chart(inside, outside), [RUN])
    assert (chart.series[0].low, chart.series[0].high) == ([0.0, 3.0], [11.0, 5.0])
    assert chart.caption == f"{TO_SEEDS} {TO_CHART}"


def test_chart_that_was_cut_off_when_made_stays_as_it_is() -> None:
    inside = Series(DRAWS, [1, 2], [11.0, 4.0], [-5.0, 3.0], [20.0, 5.0])
    outside = Series(OUTSIDE, [1, 2], [7.0, 4.0], [1.0, 0.5], [10.0, 8.0])
    chart = line_chart(inside, outside)
    assert cut_chart(chart, [RUN]) is chart


def test_section_keeps_everything_but_the_bands() -> None:
    shown = Series("A", [1, 2], [7.0, 4.0], [-1.0, 0.5], [15.0, 8.0])
    section = small_section(charts=[line_chart(shown)], trainings=[RUN])
    cut = cut_section(section)
    assert cut.charts[0].series[0].high == [10.0, 8.0]
    assert dataclasses.replace(cut, charts=section.charts) == section


@pytest.mark.parametrize(
    ("name", "id", "lowest", "highest"),
    [
        ("fig3a", "fig3a", 0, 1000),
        ("fewer-steps", "fewer-steps-returns", 0, 1000),
        ("discrete", "discrete-cartpole-v1-returns", 0, 500),
        ("discrete", "discrete-mountaincar-v0-returns", -200, 0),
        ("exploration", "exploration-mountain-car-returns", -1000, 100),
    ],
)
def test_bands_of_the_results_are_possible(
    name: str, id: str, lowest: float, highest: float
) -> None:
    section = cut_section(load_outcome(RESULTS / f"{name}-paper.json").section())
    (chart,) = [chart for chart in section.charts if chart.id == id]
    assert min(x for series in chart.series for x in series.low) >= lowest
    assert max(x for series in chart.series for x in series.high) <= highest
