"""Verdicts from the interval of a difference, and the line that a claim shows."""

import numpy as np
import pytest

from narl.experiments.judgement import (
    Part,
    all_hold,
    comparison_table,
    improvement_charts,
    judge_lower,
)
from narl.report.contents import Table

SPREAD = np.array([-2.0, -1.0, 0.0, 1.0, 2.0, 0.0])
LOW, HIGH = 10.0 + SPREAD, 20.0 + SPREAD[::-1]
NEAR = 10.5 + SPREAD[::-1]


def judge(x, y, **options):
    return judge_lower([Part("x", x, "y", y, **options)], "regret")


@pytest.mark.parametrize(
    ("x", "y", "verdict"),
    [
        (LOW, HIGH, "holds"),
        (HIGH, LOW, "fails"),
        (LOW, NEAR, "undecided"),
        (LOW, LOW, "undecided"),
        (5.0, LOW, "holds"),
        (LOW, 5.0, "fails"),
        (LOW[:1], HIGH[:1], "undecided"),
        (np.full(4, 1.0), np.full(4, 2.0), "holds"),
    ],
)
def test_verdict_asks_on_which_side_of_zero_the_interval_lies(x, y, verdict):
    assert judge(x, y).verdict == verdict


def test_small_difference_is_decided_by_many_seeds_where_quartiles_overlap():
    generator = np.random.default_rng(0)
    x, y = generator.normal(10.0, 1.0, 200), generator.normal(10.5, 1.0, 200)
    assert np.quantile(x, 0.75) > np.quantile(y, 0.25)
    assert judge(x, y).verdict == "holds"
    assert judge(x[:5], y[:5]).verdict == "undecided"


def test_an_interval_that_ends_at_zero_is_undecided_and_says_so():
    """The difference is −1 ± 1, up to a shift that moves the interval's end."""
    x = np.array([-2.0, -1.0, 0.0, -1.5, -0.5, -1.0])
    high = judge(x, np.zeros(6)).parts[0].comparison.mean.high
    width = high - judge(x, np.zeros(6)).parts[0].comparison.mean.low
    for share, verdict in ((-0.03, "holds"), (-0.01, "undecided"), (0.01, "undecided")):
        moved = judge(x - high + share * width, np.zeros(6))
        assert moved.verdict == verdict
        assert ("so close to 0" in moved.numbers) == (share == -0.01)
        opposite = judge(np.zeros(6), x - high + share * width)
        assert opposite.verdict == {"holds": "fails"}.get(verdict, verdict)
        assert ("so close to 0" in opposite.numbers) == (share == -0.01)


def test_all_hold_is_a_conjunction():
    assert all_hold(["holds", "holds"]) == "holds"
    assert all_hold(["holds", "undecided"]) == "undecided"
    assert all_hold(["holds", "undecided", "fails"]) == "fails"


def test_one_of_many_comparisons_fails_only_beyond_chance():
    # The interval of this difference begins just above 0 for one comparison, not for one of 20.
    x = np.array([4.0, 1.0, 3.0, -0.5, 2.0, 1.5])
    suspect = Part("x", x, "y", np.zeros(6))
    clear = Part("a", np.zeros(6), "b", np.ones(6))
    assert judge_lower([suspect], "regret").verdict == "fails"
    among = judge_lower([suspect, *[clear] * 19], "regret")
    assert among.verdict == "undecided"
    assert among.numbers.startswith("Of 20 comparisons 19 hold, 1 undecided. Furthest off: x: ")
    assert "one of 20 may look so by chance; the interval for all begins at −" in among.numbers


def test_line_has_means_number_of_seeds_difference_and_interval():
    judged = judge(np.full(4, 1.0), np.full(4, 2.5))
    assert judged.numbers == (
        "x: 1; y: 2.5 (mean regret). Difference −1.5 [−1.5, −1.5], n = 4, P(lower) = 1.00."
    )
    claim = judged.claim("id", "x is lower.", "§5")
    assert (claim.id, claim.where, claim.verdict) == ("id", "§5", "holds")
    assert claim.numbers == judged.numbers


def test_undecided_line_says_what_is_detectable_and_how_many_seeds_decide():
    judged = judge(LOW, NEAR)
    (part,) = judged.parts
    found = part.comparison
    assert found.seeds_needed > 6
    share = 100 * found.detectable / 10.5
    detectable = f"6 seeds detect a difference of {found.detectable:.3f} ({share:.0f} %) or more"
    assert f"Undecided: {detectable}; " in judged.numbers
    assert f"{found.seeds_needed:.0f} would decide if the true one is −0.5" in judged.numbers


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (LOW, LOW, "the difference is 0 with every seed"),
        (SPREAD, np.roll(SPREAD, 1), "no number of seeds decides a difference of 0"),
        (LOW[:1], HIGH[:1], "one seed has no interval"),
    ],
)
def test_undecided_line_names_the_reason(x, y, words):
    assert f"{words}." in judge(x, y).numbers


def test_condition_on_runs_that_are_too_short_can_hold_but_not_fail():
    assert judge(LOW, HIGH, fails_if_above=False).verdict == "holds"
    short = judge(HIGH, LOW, fails_if_above=False)
    assert short.verdict == "undecided"
    assert short.numbers.endswith("the runs are too short to show how large y is.")


def test_line_gives_the_interquartile_means_where_single_seeds_change_the_result():
    x, y = np.tile(LOW, 5), np.tile(HIGH, 5)
    x[0] = 1000.0
    assert "Difference of the interquartile means −" in judge(x, y).numbers
    assert "interquartile" not in judge(LOW, HIGH).numbers


def test_shown_comparison_is_the_least_clear_one():
    parts = [Part("far", LOW - 100, "y", HIGH), Part("close", LOW, "y", HIGH)]
    numbers = judge_lower(parts, "regret").numbers
    assert numbers.startswith("Both comparisons hold. The least clear: close: 10; y: 20 (")


def test_comparison_table_has_a_row_for_every_part():
    judged = judge_lower([Part("a", LOW, "b", HIGH), Part("a", LOW, "c", NEAR)], "regret")
    table = comparison_table("t", {"claim": judged})
    assert [len(row) for row in table.rows] == [len(table.columns)] * 2
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [(row["x"], row["y"], row["x < y"]) for row in rows] == [
        ("a", "b", "holds"),
        ("a", "c", "undecided"),
    ]
    assert rows[0]["mean(x) − mean(y)"] == pytest.approx(-10.0)
    assert rows[0]["seeds"] == 6


def test_chart_of_improvement_shows_every_comparison_once():
    parts = [Part("a", LOW, "b", HIGH), Part("a", LOW, "c", NEAR)]
    first, again = judge_lower(parts, "regret"), judge_lower(parts[:1], "regret")
    other = judge_lower([Part("a", HIGH, "c", LOW)], "regret")
    table = comparison_table("t", {"one": first, "two": again, "three": other})
    (chart,) = improvement_charts([table, Table("u", "U", ["agent"], [["a"], ["b"]])])
    assert [series.label for series in chart.series] == ["a vs b", "one: a vs c", "three: a vs c"]
    place = table.columns.index("P(x < y)")
    assert [series.y for series in chart.series] == [[table.rows[i][place]] for i in (0, 1, 3)]
    assert chart.series[0].y == [1.0]
