"""Readings of the choice among models: cells, tables and differences, by hand."""

import numpy as np
import pytest
from fake_results import training_result

from narl.experiments import SCALES, choice
from narl.experiments.choice import MAIN, MBPO, READINGS, TASKS


def parts_of(label):
    """Return the task and the reading of a label such as "task: reading, seeds from 200"."""
    task, _, rest = label.partition(": ")
    return task, rest.rpartition(", seeds")[0]


@pytest.mark.parametrize("scale", SCALES)
def test_readings_differ_in_their_options_only(scale):
    sizes, seeds = {}, {}
    for name, cell in choice.cells(scale).items():
        task, reading = parts_of(name)
        assert cell.algo == ("mbpo" if reading == MBPO else "narl")
        # Acrobot's preset has no radius.
        usual = {} if reading == MBPO else {"radius": 0.1}
        for option, value in (usual | READINGS[reading]).items():
            assert getattr(cell, option) == value
        sizes.setdefault(task, set()).add((cell.env, cell.members, cell.steps))
        seeds.setdefault(task, set()).update(cell.seeds)
    if scale != "paper":
        steps = 600 if scale == "smoke" else 3000
        assert sizes == {"InvertedPendulum": {("InvertedPendulum-v4", 3, steps)}}
        assert seeds == {"InvertedPendulum": {200}}
        return
    assert sizes == {task: {(x.env, x.members, x.steps)} for task, x in TASKS.items()}
    assert seeds == {task: set(range(200, 220)) for task in TASKS}
    # Two runs or one of ten seeds each.
    for task, x in TASKS.items():
        found = [parts_of(name) for name in choice.cells(scale)]
        for reading in x.readings:
            assert found.count((task, reading)) == 1 + (reading in x.twice)


def result_of(cell, reading):
    """MBPO returns 1, 2, … over its seeds; every reading 10 more, but 5 less without a radius."""
    more = 0.0 if reading == MBPO else -5.0 if reading == "no radius" else 10.0
    returns = np.array(cell.seeds) - 199.0 + more + 0.01 * np.array(cell.seeds)
    solved = [None if seed == 219 else 1000 for seed in cell.seeds]
    share = [0.25] * len(cell.seeds)
    log = [{"step": 250}, {"step": 500, "holdout_error": [0.0], "optimistic_share": share}]
    result = training_result(cell, solved, returns.tolist(), log)
    result.arrays["eval_return"] = np.stack([returns - 1, returns + 1])
    return result


def test_blocks_of_seeds_are_joined_and_compared_with_mbpo():
    results = {
        name: result_of(cell, parts_of(name)[1]) for name, cell in choice.cells("paper").items()
    }
    outcome = choice.analyse("paper", results)
    table, acrobot, car, differences = outcome.tables
    rows = {row[0]: row[1:] for row in table.rows}
    own = pytest.approx(10.5 + 2.095)
    assert rows[MBPO][:4] == [20, 19, (19 * 1000 + 3000) / 20, own]
    assert rows[MBPO][4] == pytest.approx(3.0)
    assert rows[MBPO][5] == pytest.approx(10.5 + 2.095 + 1)
    assert rows[MBPO][6:] == [0.25, None]  # epochs without a model do not count
    assert [row[0] for row in table.rows][-1] == "no radius"
    for small in (acrobot, car):
        assert {row[0] for row in small.rows} == set(MAIN)
        assert {row[0]: row[1] for row in small.rows if row[0] in (MBPO, "above, draws")} == {
            MBPO: 20,
            "above, draws": 10,
        }
    found = {row[0]: row[3:9] for row in differences.rows}
    assert found["InvertedPendulum: above, joint"][0] == "holds"
    assert found["InvertedPendulum: no radius"][0] == "fails"
    assert found["InvertedPendulum: no radius"][3] == pytest.approx(5.0)
    assert found["MountainCar: no radius"][3] == pytest.approx(5.0)
    assert len(found) == len(READINGS) - 1 + 2 * (len(MAIN) - 1)
    assert outcome.claims == []
    assert "InvertedPendulum: 20 seeds, Acrobot: 20 seeds" in outcome.about
