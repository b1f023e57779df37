"""Table 2: nine configurations, three programs, and verdicts by hand."""

import pytest

from narl import storage
from narl.experiments import EXPERIMENTS, SCALES, table2
from narl.experiments.experiment import Result

KEYS = [(members, radius) for members in (3, 5, 10) for radius in (0.1, 5.0, None)]


def made_up(solved):
    """Results with given steps to solve, per (M, ε)."""
    cells = table2.cells("paper")
    results = {}
    for key in KEYS:
        label = table2.name(*key)
        returns = [1000.0 if step is not None else 12.4 for step in solved[key]]
        metrics = {"solved_step": solved[key], "final_return": returns, "steps": 10_000}
        kept = storage.Run(path=None, id=label, config={}, metrics=metrics, environment={})
        results[label] = Result(cells[label], kept)
    return results


def verdicts(solved):
    return [claim.verdict for claim in table2.analyse("paper", made_up(solved)).claims]


def spread(centre):
    return [centre - 250, centre, centre, centre + 250]


PAPER = {key: spread(published[0] // 250 * 250) for key, published in table2.PUBLISHED.items()}


@pytest.mark.parametrize("scale", SCALES)
def test_nine_configurations_differ_in_members_and_radius_only(scale):
    cells = table2.cells(scale)
    assert [(c.settings.num_members, c.settings.radius) for c in cells.values()] == KEYS
    assert len({c.settings.steps for c in cells.values()}) == 1
    assert all(c.until_solved and c.settings.algo == "narl" for c in cells.values())


def test_the_table_has_means_deviations_and_the_papers_figures():
    solved = dict(PAPER)
    solved[10, None] = [3000, None, 5000, None]
    outcome = table2.analyse("paper", made_up(solved))
    (table,) = outcome.tables
    rows = {(row[0], row[1]): row[2:] for row in table.rows}
    assert rows[3, "0.1"] == [4, 4, 1750.0, pytest.approx(176.78, abs=0.01), 1750.0, 1850, 166]
    assert rows[10, "none"] == [4, 2, 4000.0, 1000.0, None, 5850, 2037]
    (note,) = outcome.notes
    assert note == "M = 10, ε = none went on for all 10000 steps and ended with 1000, 12, 1000, 12."


def test_the_papers_own_order_is_recognised():
    clear = {key: spread(2000 + 1000 * i) for i, key in enumerate(KEYS)}
    assert verdicts(clear) == ["holds", "holds", "holds"]
    turned = {key: spread(20_000 - 1000 * i) for i, key in enumerate(KEYS)}
    assert verdicts(turned) == ["fails", "fails", "fails"]
    alike = {key: spread(2000) for key in KEYS}
    assert verdicts(alike) == ["undecided"] * 3


def test_seeds_that_never_solve_it_count_as_the_slowest():
    solved = {key: spread(2000) for key in KEYS}
    for radius in (0.1, 5.0, None):
        solved[10, radius] = [None] * 4
    assert verdicts(solved)[1] == "holds"
    outcome = table2.analyse("paper", made_up(solved))
    assert all(len(series.x) == 2 for series in outcome.charts[0].series)
    assert "never" in outcome.claims[0].numbers


def test_it_can_be_reproduced_by_name():
    assert EXPERIMENTS["table2"].analyse is table2.analyse
