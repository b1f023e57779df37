"""Colours of labels: one meaning on every page, and no two series of a chart alike."""

from pathlib import Path

import pytest
from fake_outcomes import line_chart

from narl.palette import ALGORITHM_COLOURS
from narl.report.contents import Chart, Series, load_outcome
from narl.report.ensemble_charts import DRAWS, MEANS, OUTSIDE
from narl.report.label_colours import colour_of
from narl.report.series import choose_looks, form_of

RESULTS = Path(__file__).resolve().parents[2] / "results"


def chart_of(*labels: str) -> Chart:
    return line_chart(*(Series(label, [1.0], [1.0]) for label in labels))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("ε = 0.1", "M = 10, ε = 0.1"),
        ("ε = none", "the paper, ε = none"),
        ("RiverSwim", "RiverSwim, bootstrap"),
        ("NARL", "NARL, ε = 5"),  # an algorithm comes before a radius
    ],
)
def test_labels_of_one_meaning_have_one_colour(first: str, second: str) -> None:
    assert colour_of(first) is not None
    assert colour_of(first) == colour_of(second)


def test_what_stands_side_by_side_differs() -> None:
    labels = ("NARL", "MBPO", "ε = 0.1", "ε = 5", "ε = none", DRAWS, MEANS, OUTSIDE)
    assert {colour_of(label) for label in labels} == set(range(8))
    assert colour_of("NARL") == ALGORITHM_COLOURS["narl"]
    assert colour_of("ε = 0.3") is None


def test_label_has_the_same_colour_on_every_page() -> None:
    alone = choose_looks([chart_of(DRAWS, OUTSIDE), chart_of("ε = 5", "ε = none")])
    with_others = choose_looks([chart_of("a", "b", "c", "d"), chart_of("ε = none", OUTSIDE)])
    for label in (OUTSIDE, "ε = none"):
        assert alone[label] == with_others[label]


def test_dashes_follow_the_order_of_the_chart_with_most_labels() -> None:
    labels = [f"M = {m}, ε = 5" for m in (3, 5, 10)]
    looks = choose_looks([chart_of("M = 10, ε = 5"), chart_of(*labels)])
    assert [looks[label].dash for label in labels] == [0, 1, 2]


def test_many_variants_of_one_algorithm_stay_apart() -> None:
    labels = [f"NARL, variant {number}" for number in range(10)]
    looks = choose_looks([chart_of(*labels)])
    assert len({(look.colour, look.dashes) for look in looks.values()}) == 10
    assert [looks[label].colour for label in labels[:6]] == [0] * 6


def test_series_of_the_results_differ_in_colour_or_dash() -> None:
    charts = [
        chart for path in sorted(RESULTS.glob("*.json")) for chart in load_outcome(path).charts
    ]
    looks = choose_looks(charts)
    for chart in charts:
        if form_of(chart) != "rows":
            own = [(looks[x.label].colour, looks[x.label].dashes) for x in chart.series]
            assert len(set(own)) == len(own), chart.id
