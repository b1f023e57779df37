"""`exploration` and its tuning: same members and seeds, choices, tables and verdicts by hand."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from fake_results import FakeResult, fake_run

from narl.experiments import EXPERIMENTS, SCALES, exploration, exploration_tuning
from narl.experiments.experiment import batches
from narl.experiments.exploration import CHOSEN, DIALS, MBPO, NOISY, SOMBRL
from narl.report.contents import load_outcome

TASK = "mountain car"
RESULTS = Path(__file__).parents[2] / "results"


def result(config, returns):
    """Return a training with these evaluation returns [seeds, epochs]."""
    returns = np.asarray(returns, float)
    log = [{"step": 100 * i, "eval_return": list(row)} for i, row in enumerate(returns.T)]
    names = ("holdout_error", "model_return", "reward_distance", "value_distance", "bonus")
    for i, row in enumerate(log[1:], 1):
        row |= {name: [1.0 + i, 3.0 + i] for name in names}
        row["disagreement"] = [[i, 3.0 * i], [i, 3.0 * i]]
    return FakeResult(config, fake_run({}), {"eval_return": returns.T}, log)


@pytest.mark.parametrize("scale", SCALES)
def test_algorithms_share_members_seeds_and_budget(scale):
    assert EXPERIMENTS["exploration"] is exploration.EXPERIMENT
    cells = exploration.cells(scale)
    size = exploration._SIZES[scale]
    assert len(cells) == len(size.tasks) * len(exploration.algorithms(scale))
    for task in size.tasks:
        configs = [config for label, config in cells.items() if label.startswith(f"{task}: ")]
        assert len({(config.env, config.steps, config.seeds) for config in configs}) == 1
        assert {config.num_members for config in configs if config.uses_model} == {5}
        assert min(configs[0].seeds) >= 400


def test_all_algorithms_with_a_model_share_a_program_per_task():
    cells = exploration.cells("paper")
    sizes = sorted(len(labels) for labels in batches(cells))
    num_tasks = len(exploration.REPORTED)
    assert sizes == [1] * num_tasks + [7] * num_tasks
    noisy = cells[f"{TASK}: {NOISY}"]
    assert (noisy.algo, noisy.noise, noisy.noise_scale) == ("narl", "reward", CHOSEN[TASK][NOISY])
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
    iqm, improvement, profile, returns_chart, noise = found.charts
    # Of the three epochs the last two have a model; the mean of the bonus over both seeds.
    assert [(series.label, len(series.x), series.y[-1]) for series in noise.series] == [
        (TASK, 2, 4.0)
    ]
    for chart in (iqm, profile, returns_chart):
        assert [series.label for series in chart.series] == [NOISY, MBPO]
    assert iqm.series[0].y == [overall.rows[0][1]]
    assert [(series.label, series.y) for series in improvement.series] == [(NOISY, [1.0])]
    assert profile.series[0].y[50] == 1.0  # every run is above half of the best mean
    reversed_results = {label: result(configs[label], worse) for label in returns}
    reversed_results[f"{TASK}: {MBPO}"] = result(configs[f"{TASK}: {MBPO}"], better)
    (claim,) = exploration.analyse("small", reversed_results).claims
    assert claim.verdict == "fails"
    beliefs = next(table for table in found.tables if table.id == "exploration-beliefs")
    # The first epoch with a model is the second one; means over both seeds, and both members.
    assert beliefs.rows[0] == [TASK, NOISY, 101.5, 4.0, 3.0, 3.0, 2.0, 4.0, 4.0]


def test_tuning_takes_the_value_with_the_largest_mean_return_and_else_the_default():
    cells = exploration_tuning.cells("smoke")
    results = {label: result(config, [[0.0, 1.0]]) for label, config in cells.items()}
    label = f"{TASK}: {SOMBRL}, bonus_weight 0.3"
    results[label] = result(cells[label], [[0.0, 2.0]])
    chosen = exploration_tuning.choose(TASK, results)
    defaults = {algorithm: values[0] for algorithm, (_, values) in DIALS.items()}
    assert chosen == defaults | {SOMBRL: 0.3}
    (table,) = exploration_tuning.analyse("smoke", results).tables
    assert [row[:3] for row in table.rows if row[-1] == "chosen"] == [
        [algorithm, DIALS[algorithm][0], value] for algorithm, value in chosen.items()
    ]


def test_the_default_of_each_option_is_tried_first():
    for algorithm, (name, values) in DIALS.items():
        config = exploration.make_cell("arm reacher, cost 0.1", algorithm, (0,), {})
        assert values[0] == getattr(config, name), algorithm


def test_tuning_and_report_have_different_seeds_and_one_program():
    tuning, report = (
        {seed for cell in module.cells("paper").values() for seed in cell.seeds}
        for module in (exploration_tuning, exploration)
    )
    assert not tuning & report
    assert len(batches(exploration_tuning.cells("paper"))) == len(CHOSEN)


def test_reported_options_are_those_that_the_stored_tuning_chose():
    outcome = load_outcome(RESULTS / "exploration-tuning-paper.json")
    titles = [table.title.removeprefix("Options tried: ") for table in outcome.tables]
    stored = {
        task: {row[0]: None if row[2] == "none" else row[2] for row in table.rows if row[-1]}
        for task, table in zip(titles, outcome.tables, strict=True)
    }
    assert stored == CHOSEN
