"""Readings of the choice among models: cells, table and differences, by hand."""

import numpy as np
import pytest
from fake_results import training_result

from narl.experiments import SCALES, choice
from narl.experiments.choice import MBPO, READINGS, TASK


def reading_of(label):
    """Return the reading of a label such as "task: reading, seeds from 200"."""
    return label.partition(": ")[2].rpartition(", seeds")[0]


@pytest.mark.parametrize("scale", SCALES)
def test_readings_differ_in_their_options_only(scale):
    cells = choice.cells(scale)
    for name, cell in cells.items():
        reading = reading_of(name)
        assert cell.algo == ("mbpo" if reading == MBPO else "narl")
        for option, value in READINGS[reading].items():
            assert getattr(cell, option) == value
    sizes = {(x.members, x.steps) for x in cells.values()}
    assert sizes == {(3, 600 if scale == "smoke" else 3000)}
    seeds = {seed for x in cells.values() for seed in x.seeds}
    assert seeds == (set(range(200, 220)) if scale == "paper" else {200})


def test_blocks_of_seeds_are_joined_and_compared_with_mbpo():
    """MBPO returns 1, 2, … 20 over its seeds; every reading 10 more, but 5 less without radius."""
    results = {}
    for name, cell in choice.cells("paper").items():
        reading = reading_of(name)
        more = 0.0 if reading == MBPO else -5.0 if reading == "no radius" else 10.0
        returns = np.array(cell.seeds) - 199.0 + more + 0.01 * np.array(cell.seeds)
        solved = [None if seed == 219 else 1000 for seed in cell.seeds]
        result = training_result(cell, solved, returns.tolist())
        result.arrays["eval_return"] = np.stack([returns - 1, returns + 1])
        results[name] = result
    outcome = choice.analyse("paper", results)
    table, differences = outcome.tables
    rows = {row[0]: row[1:] for row in table.rows}
    own = pytest.approx(10.5 + 2.095)
    assert rows[MBPO][:4] == [20, 19, (19 * 1000 + 3000) / 20, own]
    assert rows[MBPO][4] == pytest.approx(3.0)
    assert rows[MBPO][5] == pytest.approx(10.5 + 2.095 + 1)
    assert [row[0] for row in table.rows][-1] == "no radius"
    found = {row[0]: row[3:9] for row in differences.rows}
    assert found[f"{TASK}: above, joint"][0] == "holds"
    assert found[f"{TASK}: no radius"][0] == "fails"
    assert found[f"{TASK}: no radius"][3] == pytest.approx(5.0)
    assert len(found) == len(READINGS) - 1
    assert outcome.claims == []
