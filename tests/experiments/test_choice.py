"""Readings of the choice among models: cells, tables and differences, by hand."""

import numpy as np
import pytest
from fake_results import training_result

from narl.experiments import SCALES, choice
from narl.experiments.choice import INVERTED, MBPO, READINGS
from narl.experiments.exploration import FREE_PENDULUM, REACHER


def split_label(label):
    """Return the task and the reading of a label such as "task: reading, seeds from 200"."""
    task, _, rest = label.partition(": ")
    return task, rest.rpartition(", seeds")[0]


@pytest.mark.parametrize("scale", SCALES)
def test_readings_differ_in_their_options_only(scale):
    by_task = {}
    for name, cell in choice.cells(scale).items():
        task, reading = split_label(name)
        by_task.setdefault(task, []).append(cell)
        assert cell.algo == ("mbpo" if reading == MBPO else "narl")
        for option, value in READINGS[reading].items():
            assert getattr(cell, option) == value
    sizes = {task: {(x.members, x.steps) for x in cells} for task, cells in by_task.items()}
    seeds = {task: {s for x in cells for s in x.seeds} for task, cells in by_task.items()}
    if scale == "paper":
        assert sizes == {INVERTED: {(3, 3000)}, FREE_PENDULUM: {(5, 8000)}, REACHER: {(5, 12_000)}}
        ten = set(range(200, 210))
        assert seeds == {INVERTED: set(range(200, 220)), FREE_PENDULUM: ten, REACHER: ten}
    else:
        assert (sizes, seeds) == (
            {INVERTED: {(3, 600 if scale == "smoke" else 3000)}},
            {INVERTED: {200}},
        )


def test_blocks_of_seeds_are_joined_and_compared_with_mbpo():
    """MBPO returns 1, 2, … 20 over its seeds; every reading 10 more, but 5 less without radius."""
    results = {}
    for name, cell in choice.cells("paper").items():
        _, reading = split_label(name)
        more = 0.0 if reading == MBPO else -5.0 if reading == "no radius" else 10.0
        returns = np.array(cell.seeds) - 199.0 + more + 0.01 * np.array(cell.seeds)
        solved = [None if seed == 219 else 1000 for seed in cell.seeds]
        result = training_result(cell, solved, returns.tolist())
        result.arrays["eval_return"] = np.stack([returns - 1, returns + 1])
        results[name] = result
    outcome = choice.analyse("paper", results)
    table, pendulum, _, differences = outcome.tables
    rows = {row[0]: row[1:] for row in table.rows}
    own = pytest.approx(10.5 + 2.095)
    assert rows[MBPO][:4] == [20, 19, (19 * 1000 + 3000) / 20, own]
    assert rows[MBPO][4] == pytest.approx(3.0)
    assert rows[MBPO][5] == pytest.approx(10.5 + 2.095 + 1)
    assert [row[0] for row in table.rows][-1] == "no radius"
    # Ten seeds, returns 1, 2, … 10; the task has no return that counts as solved.
    rows = {row[0]: row[1:] for row in pendulum.rows}
    assert rows[MBPO][:4] == [10, None, None, pytest.approx(5.5 + 2.045)]
    assert list(rows) == [
        *(x for x in choice.MAIN if x not in (MBPO, "no radius")),
        MBPO,
        "no radius",
    ]
    found = {row[0]: row[3:9] for row in differences.rows}
    assert found[f"{INVERTED}: above, joint"][0] == "holds"
    assert found[f"{INVERTED}: no radius"][0] == "fails"
    assert found[f"{INVERTED}: no radius"][3] == pytest.approx(5.0)
    assert found[f"{REACHER}: no radius"][3] == pytest.approx(5.0)
    assert len(found) == len(READINGS) - 1 + 2 * (len(choice.MAIN) - 1)
    assert outcome.claims == []
