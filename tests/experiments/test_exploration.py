"""The experiment `exploration`: same members and seeds, tables and verdicts by hand."""

import dataclasses

import numpy as np
import pytest
from fake_results import FakeResult, fake_run

from narl.experiments import EXPERIMENTS, SCALES, exploration
from narl.experiments.experiment import batches
from narl.experiments.exploration import MBPO, NOISY

TASK = "mountain car"


def result(config, returns):
    """Return a training with these evaluation returns [seeds, epochs]."""
    returns = np.asarray(returns, float)
    log = [{"step": 100 * i, "eval_return": list(row)} for i, row in enumerate(returns.T)]
    return FakeResult(config, fake_run({}), {"eval_return": returns.T}, log)


@pytest.mark.parametrize("scale", SCALES)
def test_algorithms_share_members_seeds_and_budget(scale):
    assert EXPERIMENTS["exploration"] is exploration.EXPERIMENT
    cells = exploration.cells(scale)
    size = exploration._SIZES[scale]
    assert len(cells) == len(size.tasks) * len(size.algorithms)
    for task in size.tasks:
        configs = [config for label, config in cells.items() if label.startswith(f"{task}: ")]
        assert len({(config.env, config.steps, config.seeds) for config in configs}) == 1
        assert {config.num_members for config in configs if config.uses_model} == {5}
        assert min(configs[0].seeds) >= 400


def test_all_algorithms_with_a_model_share_a_program_per_task():
    cells = exploration.cells("paper")
    sizes = sorted(len(labels) for labels in batches(cells))
    num_tasks = len(exploration.TASKS)
    assert sizes == [1] * num_tasks + [7] * num_tasks
    noisy = cells[f"{TASK}: {NOISY}"]
    assert (noisy.algo, noisy.noise, noisy.noise_scale) == ("narl", "reward", 0.003)
    assert cells[f"{TASK}: SAC"].members == dataclasses.replace(noisy, members=5).members


def test_tables_and_verdict_by_hand():
    configs = exploration.cells("small")
    seeds = np.arange(4.0)
    better = [[0.0, 50.0 + s, 100.0 + s] for s in seeds]
    worse = [[0.0, 1.0 + s, 2.0] for s in seeds]
    returns = {f"{TASK}: {NOISY}": better, f"{TASK}: {MBPO}": worse}
    results = {label: result(configs[label], rows) for label, rows in returns.items()}
    found = exploration.analyse("small", results)
    overall, table = found.tables[:2]
    noisy, mbpo = table.rows
    assert noisy == [NOISY, 101.5, 101.5, 100.0, 51.0, 50.0, 1.0]
    assert mbpo[:6] == [MBPO, 2.0, 2.0, 2.0, pytest.approx(4.5 / 3), 1.0]
    assert mbpo[6] is None
    assert [row[0] for row in overall.rows] == [NOISY, MBPO]
    assert [row[1] for row in overall.rows] == [pytest.approx(1.0), pytest.approx(0.0, abs=1e-9)]
    (claim,) = found.claims
    assert (claim.id, claim.verdict, claim.is_ours) == ("exploration-mountain-car", "holds", True)
    iqm, improvement, profile, returns_chart = found.charts
    for chart in (iqm, profile, returns_chart):
        assert [series.label for series in chart.series] == [NOISY, MBPO]
    assert iqm.series[0].y == [overall.rows[0][1]]
    assert [(series.label, series.y) for series in improvement.series] == [(NOISY, [1.0])]
    assert profile.series[0].y[50] == 1.0  # every run is above half of the best mean
    reversed_results = {label: result(configs[label], worse) for label in returns}
    reversed_results[f"{TASK}: {MBPO}"] = result(configs[f"{TASK}: {MBPO}"], better)
    (claim,) = exploration.analyse("small", reversed_results).claims
    assert claim.verdict == "fails"
