"""Table 2: nine configurations, and verdicts by hand."""

import pytest
from fake_results import training_result

from narl.experiments import SCALES, table2

KEYS = [(members, radius) for members in (3, 5, 10) for radius in (0.1, 5.0, None)]


def findings(solved):
    """Return the findings for these steps to solve, by (M, ε)."""
    cells = table2.cells("paper")
    results = {}
    for key in KEYS:
        label = table2.cell_label(*key)
        returns = [12.4 if step is None else 1000.0 for step in solved[key]]
        results[label] = training_result(cells[label], solved[key], returns)
    return table2.analyse("paper", results)


def around(centre):
    return [centre - 250, centre, centre, centre + 250]


@pytest.mark.parametrize("scale", SCALES)
def test_configurations_differ_in_members_and_radius_only(scale):
    cells = table2.cells(scale).values()
    assert [(cell.num_members, cell.radius) for cell in cells] == KEYS
    assert {(cell.algo, cell.until_solved) for cell in cells} == {("narl", True)}
    readings = {(cell.preset, cell.exclude, cell.fallback) for cell in cells}
    assert readings == {("paper", "ball", "closest")}
    assert len({cell.steps for cell in cells}) == 1


def test_table_has_means_deviations_and_the_numbers_of_the_paper():
    solved = {key: around(mean // 250 * 250) for key, (mean, _) in table2.PUBLISHED.items()}
    solved[10, None] = [3000, None, 5000, None]
    outcome = findings(solved)
    rows = {(row[0], row[1]): row[2:] for row in outcome.tables[0].rows}
    deviation = pytest.approx(176.78, abs=0.01)
    assert rows[3, "0.1"] == [4, 4, 1750.0, deviation, 1750.0, 1750.0, 2000.0, 1850, 166]
    assert rows[10, "none"] == [4, 2, 4000.0, 1000.0, 7000.0, None, None, 5850, 2037]
    (note,) = outcome.notes
    assert note == "M = 10, ε = none went on for all 10000 steps and ended with 1000, 12, 1000, 12."


@pytest.mark.parametrize(
    ("first", "difference", "verdict"),
    [(1000, 1000, "holds"), (9500, -1000, "fails"), (2000, 0, "undecided")],
)
def test_claims_follow_the_order_of_the_configurations(first, difference, verdict):
    solved = {key: around(first + difference * place) for place, key in enumerate(KEYS)}
    assert [claim.verdict for claim in findings(solved).claims] == [verdict] * 3


def test_seeds_that_never_solve_count_as_the_slowest():
    solved = {key: around(2000) if key[0] < 10 else [None] * 4 for key in KEYS}
    outcome = findings(solved)
    assert outcome.claims[1].verdict == "holds"
    measured, printed = outcome.charts[0].series[:3], outcome.charts[0].series[3:]
    assert [len(series.x) for series in measured] == [2, 2, 2]
    assert [series.y for series in printed][2] == [2000.0, 2775.0, 5850.0]
    iqm, profile = ({x.label: x for x in chart.series} for chart in outcome.charts[1:])
    never, around_2000 = "M = 10, ε = 5", "M = 3, ε = 5"
    assert (iqm[never].y, iqm[around_2000].y) == ([10_000.0], [2000.0])
    assert profile[never].y[-1] == 0.0
    solved = dict(zip(profile[around_2000].x, profile[around_2000].y, strict=True))
    assert [solved[x] for x in (1700, 1750, 2000, 2250)] == [0.0, 0.25, 0.75, 1.0]
    rows = outcome.tables[1].rows
    assert [row[5] for row in rows if row[0] == "table2-fewer-members"] == [10_000.0] * 3
