"""Noise that fades: its cells, what counts as kept, and the differences, by hand."""

import numpy as np
import pytest
from fake_results import training_result

from narl.experiments import SCALES, fading
from narl.experiments.exploration import FREE_PENDULUM, MOUNTAIN_CAR
from narl.experiments.fading import ANNEALED, PLAIN


@pytest.mark.parametrize("scale", SCALES)
def test_variants_differ_in_their_options_only(scale):
    for name, cell in fading.cells(scale).items():
        task, _, variant = name.partition(": ")
        assert (cell.algo, cell.noise) == ("narl", "reward")
        assert cell.seeds == tuple(range(500, 510)) if scale == "paper" else (500,)
        assert cell.anneal_steps == (cell.steps // 2 if variant == ANNEALED else None)
        assert cell.noise_scale == (0.01 if task == MOUNTAIN_CAR else 0.03)


def test_later_evaluations_say_what_was_kept():
    """Ten seeds of four evaluations; one seed of the plain noise loses what it found."""
    later = {PLAIN: [[95.0, 95.0]] * 8 + [[95.0, 10.0], [0.0, 0.0]], ANNEALED: [[100.0, 99.0]] * 10}
    results = {}
    for name, cell in fading.cells("paper").items():
        variant = name.partition(": ")[2]
        found = np.array(later.get(variant, [[50.0, 50.0]] * 10))
        log = [
            {"step": 1, "holdout_error": [1.0], "bonus": [0.25, 0.75], "eval_return": [0.0, 1.0]}
        ]
        result = training_result(cell, [None] * 10, found[:, -1].tolist(), log)
        result.arrays["eval_return"] = np.concatenate([np.zeros((10, 2)), found], axis=1).T
        results[name] = result
    findings = fading.analyse("paper", results)
    car, pendulum, differences, comparisons = findings.tables
    rows = {row[0]: row[1:] for row in car.rows}
    total = 8 * 190 + 105
    assert rows[PLAIN][:3] == pytest.approx([total / 40, 0.0, (8 * 95 + 10) / 10])
    assert rows[PLAIN][3:] == [pytest.approx(17 / 20), 9, 8, pytest.approx((8 * 95 + 10) / 10), 0.5]
    assert rows[ANNEALED][3:6] == [1.0, 10, 10]
    # The pendulum counts as learned from 100 on.
    assert {row[0]: row[4:7] for row in pendulum.rows}[ANNEALED] == [0.5, 10, 0]
    found = {row[0]: row for row in differences.rows}
    assert list(found) == [f"{MOUNTAIN_CAR}: {ANNEALED}", f"{FREE_PENDULUM}: {ANNEALED}"]
    assert {row[3] for row in found.values()} == {"holds"}
    assert {claim.id: claim.verdict for claim in findings.claims} == {
        "fading-mountain-car": "holds",
        "fading-pendulum-cost-0": "holds",
    }
    assert [row[0] for row in comparisons.rows] == [claim.id for claim in findings.claims]


@pytest.mark.parametrize(("annealed", "verdict"), [(60.5, "undecided"), (30.0, "fails")])
def test_annealed_noise_that_does_not_keep_more_is_not_said_to(annealed, verdict):
    """The order of the seeds is another one, so that a small difference is undecided."""
    results = {}
    for name, cell in fading.cells("paper").items():
        order = np.arange(10.0)
        last = annealed + order[::-1] if ANNEALED in name else 60.0 + order
        log = [{"step": 1, "holdout_error": [1.0], "bonus": [0.5], "eval_return": [0.0]}]
        result = training_result(cell, [None] * 10, last.tolist(), log)
        result.arrays["eval_return"] = np.stack([np.zeros(10), last])
        results[name] = result
    assert {claim.verdict for claim in fading.analyse("paper", results).claims} == {verdict}
