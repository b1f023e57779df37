"""Charts and series: points, gaps, ticks, colours, numbers, and the words for a chart."""

import json
import re

import numpy as np
import pytest
from fake_outcomes import fake_sections, growing, line_chart

from narl.palette import Look
from narl.report.contents import Chart, Series
from narl.report.figures import draw_figure
from narl.report.label_colours import algorithm_of
from narl.report.number_format import format_column, format_number, format_rows
from narl.report.series import (
    MEMBERS,
    RANK,
    choose_looks,
    form_of,
    lines_of,
    mean_band,
    median_band,
    thin_evenly,
    thin_on_axis,
)
from narl.report.vega_lite import describe, drawing, symlog_ticks


@pytest.mark.parametrize("num", [1, 200, 201, 54321])
def test_thinning_keeps_order_and_both_ends(num: int) -> None:
    x = np.arange(1, num + 1, dtype=float)
    on_axes = [thin_on_axis(x, 200, axis) for axis in ("linear", "log", "symlog")]
    for kept in (*on_axes, thin_evenly(num), thin_evenly(num, log=True)):
        assert (kept[0], kept[-1]) == (0, num - 1)
        assert np.all(np.diff(kept) > 0)
        assert len(kept) == num if num <= 200 else len(kept) <= 200


def test_thinning_is_even_on_the_axis_that_is_drawn() -> None:
    x = np.arange(1, 100_001, dtype=float)
    even = np.diff(x[thin_on_axis(x, 200, "linear")])
    assert even.max() / even.min() < 1.01
    late = np.diff(np.log(x[thin_on_axis(x, 200, "log")]))[-100:]
    assert late.max() / late.min() < 1.1
    assert np.sum(x[thin_on_axis(x, 200, "log")] < 1000) > 80
    assert np.sum(x[thin_on_axis(x, 200, "linear")] < 1000) <= 3


def test_bands_are_quartiles_or_standard_deviations_by_hand() -> None:
    median = median_band("x", np.array([[0.0, 4.0], [2.0, 8.0], [4.0, 12.0]]))
    assert median == Series("x", [1, 2], [2.0, 8.0], [1.0, 6.0], [3.0, 10.0])
    mean = mean_band("x", [1.0, 2.0], np.array([[1.0, 2.0], [3.0, 10.0]]))
    assert mean == Series("x", [1.0, 2.0], [2.0, 6.0], [1.0, 2.0], [3.0, 10.0])
    assert mean_band("x", [1.0], np.array([[2.0]])) == Series("x", [1.0], [2.0])


def test_last_point_on_the_page_is_exact() -> None:
    series = growing("a", 1234.5678)
    chart = line_chart(series)
    (columns,) = drawing(chart, choose_looks([chart]))["series"]
    assert len(columns["x"]) == len(columns["y"]) == len(columns["low"]) == 200
    assert (columns["x"][0], columns["x"][-1], columns["y"][-1]) == (1, 1000, 1234.5678)
    assert (columns["low"][-1], columns["high"][-1]) == (series.low[-1], series.high[-1])


def test_missing_values_are_gaps_and_lone_points_are_marked() -> None:
    x = [float(i) for i in range(60)]
    y = [None if i in (9, 11, 30) else 1.0 + i for i in range(60)]
    chart = line_chart(Series("a", x, y), Series("b", [1.0, 2.0], [float("inf"), 5.0]))
    first, second = drawing(chart, choose_looks([chart]))["series"]
    assert [i for i, value in enumerate(first["y"]) if value is None] == [9, 11, 30]
    assert first["dots"] == [10]
    assert "low" not in first
    assert (second["y"], second["dots"]) == ([None, 5], [1])


def test_points_are_sorted_by_x() -> None:
    series = Series("a", [3.0, 1.0, 2.0], [30.0, 10.0, None], [0, 0, 0], [9, 9, 9])
    (line,) = lines_of(line_chart(series))
    assert line.x.tolist() == [1, 2, 3]
    np.testing.assert_array_equal(line.y, [10, np.nan, 30])


def test_logarithmic_axis_drops_points_at_or_below_zero() -> None:
    series = Series("a", [0.0, 1.0, 2.0, 3.0], [5.0, 0.0, 4.0, 8.0], [0, 0, 0.0, 2.0], [9, 9, 9, 9])
    (line,) = lines_of(line_chart(series, x_axis="log", y_axis="log", reference=0.0))
    assert line.x.tolist() == [1, 2, 3]
    np.testing.assert_array_equal(line.y, [np.nan, 4, 8])
    np.testing.assert_array_equal(line.low, [2, 2, 2])  # the smallest that can be drawn


def test_words_for_a_chart_give_the_last_values() -> None:
    chart = line_chart(
        Series("a", [1.0, 2.0, 3.0], [4.0, 5000.0, None], [3, 4000, None], [5, 6000.5, None]),
        Series("b", [1.0, 2.0], [-1.0, -2.5]),
        reference=3.3973,
        reference_label="V*",
    )
    assert describe(chart) == (
        "Line chart: Title. y against x. Last values: a 5,000 (4,000 to 6,000) at 2; b −2.5 at 2. "
        "Horizontal line: V*, 3.397."
    )


@pytest.mark.parametrize(
    ("changes", "form"),
    [
        ({"x_label": "episode"}, "line"),
        ({"x_label": RANK}, "bars"),
        ({"x_label": MEMBERS}, "dots"),
        ({"x_label": MEMBERS, "x_axis": "log"}, "line"),
        ({"x_label": ""}, "rows"),
    ],
)
def test_form_follows_from_the_x_axis(changes: dict, form: str) -> None:
    chart = line_chart(Series("a", [1.0, 2.0], [3.0, 4.0], [2.0, 3.0], [4.0, 5.0]), **changes)
    drawn = drawing(chart, choose_looks([chart]))
    assert form_of(chart) == drawn["form"] == form
    marks = {layer["mark"]["type"] for layer in drawn["spec"]["layer"]}
    own = {"line": "line", "bars": "bar", "dots": "rule", "rows": "point"}
    assert own[form] in marks
    assert ("line" in marks) == (form == "line")


def test_bands_of_shares_stay_between_0_and_1() -> None:
    series = Series("a", [1.0], [0.1], [-0.2], [1.3])
    (share,) = lines_of(line_chart(series, y_label="share of steps"))
    assert (share.low[0], share.high[0]) == (0.0, 1.0)
    (other,) = lines_of(line_chart(series, y_label="return"))
    assert (other.low[0], other.high[0]) == (-0.2, 1.3)


def test_symlog_ticks_are_zero_and_powers_of_ten() -> None:
    assert symlog_ticks(np.array([-20.0, np.nan, 150.0])) == [-10, -1, 0, 1, 10, 100]
    assert symlog_ticks(np.array([-3e8, 2000.0])) == [-1e6, -1e3, 0, 1e3]
    assert symlog_ticks(np.array([3.3, 3.9])) == symlog_ticks(np.array([-1.0, 1.0])) == []


@pytest.mark.parametrize(
    ("x", "ticks"),
    [([1.0, 2.0, 3.0], {"[1, 2, 3]"}), ([1.0, 2.5, 3.0], set()), ([0.0, 1000.0, 2000.0], set())],
)
def test_axis_of_few_whole_numbers_has_exactly_these_ticks(x: list[float], ticks: set) -> None:
    chart = line_chart(Series("a", x, [1.0] * len(x)))
    specification = json.dumps(drawing(chart, choose_looks([chart]))["spec"])
    assert set(re.findall(r'"values": (\[[^]]*\])', specification)) == ticks


@pytest.mark.parametrize(
    ("low", "reference", "at_zero"),
    [(20, None, True), (0, None, True), (-1, None, False), (20, -5.0, False), (900, None, False)],
)
def test_axis_begins_at_zero_if_the_lowest_band_is_just_above(
    low: float, reference: float | None, at_zero: bool
) -> None:
    series = Series("a", [1.0, 2.0, 3.0], [950.0, 960, None], [low, 955, None], [980, 1000, None])
    chart = line_chart(series, reference=reference)
    layers = drawing(chart, choose_looks([chart]))["spec"]["layer"]
    scales = [layer.get("encoding", {}).get("y", {}).get("scale") for layer in layers]
    scale = {"zero": True, "nice": False} if at_zero else {"zero": False, "nice": 6}
    assert [each for each in scales if each] == [scale | {"padding": 4}] * 3


def test_looks_of_labels_differ_within_every_chart() -> None:
    charts = [chart for section in fake_sections() for chart in section.charts]
    looks = choose_looks(charts)
    for chart in charts:
        own = [looks[series.label] for series in chart.series]
        assert len(set(own)) == len(own)
    many = choose_looks([line_chart(*(Series(str(i), [1.0], [1.0]) for i in range(30)))])
    assert len(set(many.values())) == 30
    assert [many[str(i)].colour for i in range(8)] == list(range(8))
    assert [many[str(i)].dash for i in (0, 7, 8, 15, 16, 29)] == [0, 0, 1, 1, 2, 3]


@pytest.mark.parametrize(
    ("label", "algorithm"),
    [
        ("NARL", "narl"), ("NARL Gaussian (as printed)", "narl"), ("NARL, ε = 0.1", "narl"),
        ("NARL-UCBVI", "narl-ucbvi"), ("Noise Augmented UCRL (Theorem 1)", "narl-ucrl"),
        ("MBPO, 5 of 7 members", "mbpo"), ("H-UCRL", "hucrl"), ("UCRL (ucrl2)", "ucrl2"),
        ("UCRL2 (TabulaRL)", "ucrl2-tabularl"), ("Posterior sampling (psrl)", "psrl"),
        ("RiverSwim, gaussian", None), ("M = 3, ε = 0.1", None), ("", None),
    ],
)  # fmt: skip
def test_labels_name_their_algorithm(label: str, algorithm: str | None) -> None:
    assert algorithm_of(label) == algorithm


def test_algorithms_keep_their_colour_and_variants_differ_in_dashes() -> None:
    def chart(*labels: str) -> Chart:
        return line_chart(*(Series(label, [1.0], [1.0]) for label in labels))

    looks = choose_looks(
        [
            chart("UCRL2", "NARL Gaussian", "NARL bootstrap"),
            chart("MBPO", "other", "NARL", "MBPO, 3 members"),
        ]
    )
    blue = [looks[label] for label in ("NARL Gaussian", "NARL bootstrap", "NARL")]
    assert blue == [Look(0, 0), Look(0, 1), Look(0, 0)]
    assert [looks["MBPO"], looks["MBPO, 3 members"]] == [Look(1, 0), Look(1, 1)]
    assert looks["other"].colour not in (0, 1)


def test_bars_of_one_colour_differ_in_fill_and_outline() -> None:
    series = [Series(label, [1.0], [0.5]) for label in ("NARL", "NARL, exclude above")]
    chart = line_chart(*series, x_label=RANK)
    bars = drawing(chart, choose_looks([chart]))["spec"]["layer"][1]["encoding"]
    assert bars["color"]["scale"]["range"] == ["var(--series-0)"] * 2
    assert bars["fillOpacity"]["scale"]["range"] == [0.45, 0.06]
    assert bars["strokeDash"]["scale"]["range"] == [[1, 0], [6, 3]]
    figure = draw_figure(chart)
    fills = [bar[0].get_facecolor()[3] for bar in figure.axes[0].containers]
    assert fills == [0.45, 0.06]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (0.0, "0"), (-0.0, "0"), (12345, "12,345"), (12345.678, "12,346"),
        (3.3973, "3.397"), (-8.1, "−8.1"), (0.00123456, "0.001235"), (1.2e-5, "1.2e−5"),
        (-2.5e9, "−2.5e9"), (None, "–"), (float("nan"), "–"), (float("inf"), "–"),
        (999.99, "1,000"), (np.int64(10128), "10,128"),
    ],
)  # fmt: skip
def test_numbers_have_four_digits(value: float | None, text: str) -> None:
    assert format_number(value) == text


def test_columns_of_numbers_have_equal_decimals_unless_far_apart() -> None:
    assert format_column([27.035, 1630.2, None]) == ["27.04", "1,630.20", "–"]
    assert format_column([1, 20, 3000]) == ["1", "20", "3,000"]
    assert format_column([1.0, 0.1, 0.002]) == ["1.000", "0.100", "0.002"]
    assert format_column([-39158.32, -7.557]) == ["−39,158", "−7.557"]
    assert format_column([1e-7, 5.25]) == ["1e−7", "5.25"]


def test_rows_of_numbers_have_equal_decimals() -> None:
    assert format_rows([[-30.7, -50.56, -10.19]]) == [["−30.70", "−50.56", "−10.19"]]
    assert format_rows([[0.444, 0.1, 0.7]], digits=3) == [["0.444", "0.100", "0.700"]]
    assert format_rows([[5.0, 4.5], [None, 20.25]]) == [["5.00", "4.50"], ["–", "20.25"]]
    assert format_rows([[-0.001, 52.5]]) == [["0.0", "52.5"]]
    assert format_rows([[1526.8], [5.1234]]) == [["1,527"], ["5.123"]]  # far apart
    assert format_rows([[2e-5, 1e-5]]) == [["2e−5", "1e−5"]]
    assert format_rows([[3, 20], [None, None]]) == [["3", "20"], ["–", "–"]]
    assert format_rows([]) == []


def test_rows_have_their_names_left_of_the_axis_and_even_numbers() -> None:
    series = [
        Series("a", [1.0], [0.53], [0.46], [0.6]),
        Series("b", [1.0], [0.6581], [0.5564], [0.7598]),
        Series("c", [1.0], [0.2]),
    ]
    chart = line_chart(*series, x_label="", y_label="probability", reference=0.5)
    drawn = drawing(chart, choose_looks([chart]))
    assert [line["text"] for line in drawn["series"]] == [
        "0.530 [0.460, 0.600]",
        "0.658 [0.556, 0.760]",
        "0.200",
    ]
    layers = drawn["spec"]["layer"]
    assert {layer["mark"]["type"] for layer in layers} == {"rule", "point"}
    assert "split" in layers[-1]["encoding"]["y"]["axis"]["labelExpr"]
