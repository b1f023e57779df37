"""LunarLander: cells, table, differences and claims, by hand."""

import numpy as np
import pytest
from fake_results import training_result

from narl.experiments import SCALES, lander
from narl.experiments.exploration import CHOICE, MBPO, SAC


@pytest.mark.parametrize("scale", SCALES)
def test_agents_differ_in_their_algorithm_only(scale):
    cells = lander.cells(scale)
    assert {label: x.algo for label, x in cells.items()} == {
        CHOICE: "narl",
        MBPO: "mbpo",
        SAC: "sac",
    }
    assert {x.seeds for x in cells.values()} == {tuple(range(5)) if scale == "paper" else (0,)}
    for option in ("steps", "batch", "discount", "target_entropy", "hidden", "updates_per_step"):
        assert len({getattr(x, option) for x in cells.values()}) == 1
    assert cells[CHOICE].radius is None


def test_table_and_claims_by_hand():
    """The seeds of an agent return c, c + 1, … c + 4 at first, and 100 more in the end."""
    centres = {CHOICE: 110.0, MBPO: 0.0, SAC: 200.0}
    results = {}
    for label, cell in lander.cells("paper").items():
        first = centres[label] + np.arange(5.0)
        log = [
            {"step": 5000 * (i + 1), "eval_return": (first + 100 * i).tolist()} for i in range(2)
        ]
        results[label] = training_result(cell, [None] * 5, first.tolist(), log=log)
        results[label].arrays["eval_return"] = np.stack([first, first + 100])
    outcome = lander.analyse("paper", results)
    returns, differences, _ = outcome.tables
    rows = {row[0]: row[1:] for row in returns.rows}
    # At the end 210 to 214, 100 to 104 and 300 to 304.
    assert rows[CHOICE] == [5, 5, 112 + 50, 160.0, 112 + 100]
    assert rows[MBPO][:2] == [0, 0]
    assert rows[SAC][:2] == [5, 5]
    assert {claim.id: claim.verdict for claim in outcome.claims} == {
        "lander-mbpo": "holds",
        "lander-sac": "fails",
    }
    assert [row[0] for row in differences.rows] == [f"LunarLander: {x}" for x in (CHOICE, SAC)]
    (chart,) = outcome.charts
    assert {series.label: series.y for series in chart.series}[MBPO] == [2.0, 102.0]
