"""Tasks with discrete actions: cells and claims, by hand."""

import numpy as np
import pytest
from fake_results import training_result

from narl.experiments import SCALES, discrete
from narl.experiments.exploration import CHOICE, MBPO, NOISY, SAC


def findings(solved):
    """Return the findings if ``solved(task, label)`` are the steps to solve, per seed."""
    results = {}
    for name, cell in discrete.cells("paper").items():
        task, _, label = name.partition(": ")
        steps = solved(task, label)
        log = [{"step": 250, "eval_return": [500.0] * len(steps)}]
        result = training_result(cell, steps, [0.0] * len(steps), log=log)
        result.arrays["eval_return"] = np.tile(np.arange(3.0)[:, None], (1, len(steps)))
        results[name] = result
    return discrete.analyse("paper", results)


@pytest.mark.parametrize("scale", SCALES)
def test_algorithms_differ_in_nothing_but_their_options(scale):
    cells = discrete.cells(scale)
    for task in discrete._SIZES[scale].tasks:
        of_task = {label: cells[f"{task}: {label}"] for label in discrete.ALGORITHMS}
        assert len({(cell.steps, cell.seeds, cell.batch) for cell in of_task.values()}) == 1
        assert of_task[NOISY].members == of_task[CHOICE].members == of_task[MBPO].members
        assert (of_task[NOISY].noise, of_task[SAC].algo) == ("reward", "sac")


def test_claims_compare_each_narl_with_mbpo():
    steps = {NOISY: [2000] * 5, CHOICE: [None] * 5, MBPO: [4000] * 5, SAC: [5000] * 5}
    outcome = findings(lambda task, label: steps[label])
    verdicts = {claim.id: claim.verdict for claim in outcome.claims}
    assert verdicts["discrete-acrobot-v1-noise"] == "holds"
    assert verdicts["discrete-acrobot-v1-choice"] == "fails"
    tables = {table.id: table.rows for table in outcome.tables}
    rows = {row[0]: row[1:] for row in tables["discrete-mountaincar-v0"]}
    assert rows[NOISY] == [5, "2000, 2000, 2000, 2000, 2000", 2.0, 2.0, 1.0]
    assert rows[CHOICE][:2] == [0, "never, never, never, never, never"]
    assert [chart.reference for chart in outcome.charts] == [475.0, -100.0, -110.0]
