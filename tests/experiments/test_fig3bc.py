"""Fig. 3(b) and 3(c): same settings but for the ensemble, marks and verdicts by hand."""

import numpy as np
import pytest
from fake_results import FakeResult, fake_run

from narl.experiments import EXPERIMENTS, SCALES, fig3bc
from narl.experiments.fig3bc import HALF_CHEETAH, HOPPER, MBPO, MBPO_SAME, PUBLISHED

STEPS = (25_000, 80_000, 100_000, 105_000)


def log_row(step, returns):
    num = len(returns)
    members = [[0.3, 0.3, 0.4]] * num
    ensemble = dict.fromkeys(("holdout_error", "selected", "distance"), members)
    flat = dict.fromkeys(("model_return", "mean_model_return", "fallback"), [0.0] * num)
    return {"step": step, "eval_return": list(returns), "model_epochs": [1] * num} | ensemble | flat


def result(config, returns):
    """Return a training with these returns [seeds, marks]."""
    returns = np.asarray(returns, float)
    log = [log_row(step, column) for step, column in zip(STEPS, returns.T, strict=False)]
    metrics = {"seconds": {"total": 60.4}}
    return FakeResult(config, fake_run(metrics), {"eval_return": returns.T}, log)


def findings(by_label):
    cells = fig3bc.cells(HOPPER, "paper")
    results = {label: result(cells[label], returns) for label, returns in by_label.items()}
    return EXPERIMENTS["fig3b"].analyse("paper", results)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("task", [HOPPER, HALF_CHEETAH])
def test_algorithms_differ_in_the_ensemble_and_the_selection_only(task, scale):
    cells = EXPERIMENTS[task.id].cells(scale)
    assert {config.env for config in cells.values()} == {task.env}
    assert len({(config.steps, config.seeds, config.updates_per_step) for config in cells.values()})
    assert min(next(iter(cells.values())).seeds) >= 30
    narl = [config for config in cells.values() if config.algo == "narl"]
    assert {(config.preset, config.exclude, config.num_members) for config in narl} == {
        ("paper", "ball", 3)
    }
    if scale == "paper":
        assert [config.radius for config in narl] == list(task.radii)
        assert (cells[MBPO_SAME].num_members, cells[MBPO_SAME].num_elites) == (3, 3)
        if task == HOPPER:
            assert (cells[MBPO].num_members, cells[MBPO].num_elites) == (7, 5)


def test_table_and_verdicts_by_hand():
    spread = np.array([0.0, 10.0, -10.0, 5.0, -5.0])

    def around(*means):
        return np.stack([mean + spread for mean in means], axis=1)

    found = findings(
        {
            "NARL, ε = 0.1": around(1000.0, 2000.0, 3000.0, 3400.0),
            "NARL, ε = 0.5": around(500.0, 600.0, 4000.0, 700.0),
            MBPO: around(900.0, 2000.0, 3000.0, 3000.0),
            MBPO_SAME: around(400.0, 400.0, 400.0, 400.0),
        }
    )
    verdicts = {claim.id: claim.verdict for claim in found.claims}
    assert verdicts == {
        "fig3b-mbpo-01": "holds",
        "fig3b-mbpo-05": "fails",
        "fig3b-same-members-01": "holds",
        "fig3b-same-members-05": "holds",
        "fig3b-published-01": "holds",
        "fig3b-published-05": "undecided",
    }
    # The published 100 000 steps are 105 000 with the random ones.
    numbers = {claim.id: claim.numbers for claim in found.claims}["fig3b-published-01"]
    assert f"{PUBLISHED}: 3,315; NARL, ε = 0.1: 3,400 (mean return at step 105000" in numbers
    rows = [row for row in found.tables[0].rows if row[:2] == ["NARL, ε = 0.1", 100_000]]
    assert rows == [["NARL, ε = 0.1", 100_000, 3000.0, pytest.approx(50**0.5), 2990.0, 60]]
    published = [row for row in found.tables[0].rows if row[0] == PUBLISHED]
    assert published[-1][1:4] == [125_000, 3280, 455]
    curve = found.charts[0].series[-1]
    assert (curve.label, curve.x[0], curve.y[0]) == (PUBLISHED, 15_000.0, 329.0)


def test_trainings_that_were_stopped_early_are_compared_up_to_the_last_common_step():
    spread = np.array([[0.0], [10.0], [-10.0], [5.0], [-5.0]])
    narl, mbpo = np.array([1000.0, 3200.0, 2000.0]) + spread, 900.0 + spread
    found = findings({"NARL, ε = 0.1": narl, MBPO: mbpo})
    verdicts = {claim.id: claim.verdict for claim in found.claims}
    # 1000 against 900 at 25 000 steps; 3200 at 80 000 against the published 3034 at 75 000.
    assert verdicts == {"fig3b-mbpo-01": "holds", "fig3b-published-01": "holds"}
    (note,) = found.notes
    assert f"NARL, ε = 0.1 at step 100000, {MBPO} at step 25000" in note
    assert "up to step 25000" in note
