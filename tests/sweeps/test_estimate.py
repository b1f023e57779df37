"""Time and disk of runs: from finished runs, or extrapolated from short trials."""

import tempfile
from types import SimpleNamespace

import pytest
from small_sweeps import tabular_runs, training_runs

from narl import storage
from narl.deep.algorithm import Algorithm
from narl.deep.checked_config import check_config, make_config
from narl.deep.device_memory import replica_memory
from narl.errors import EnvironmentFault
from narl.sweeps import estimate as estimating
from narl.sweeps.estimate import Estimate, checkpoint_size, estimate
from narl.sweeps.run_task import run_task
from narl.sweeps.trial import Cost, extrapolated_seconds, short_training, try_out

TIMES = {
    "steps": 1000,
    "initial_steps": 100,
    "epoch_length": 100,
    "model_every": 50,
    "holdout_share": 0.0,
    "model_batch": 1,
    "patience": 0,
}


def seconds_of(epochs=(1, 1), algo="mbpo", **options):
    """Return the seconds of a training whose trial took 3 s for its fit, 1 s for rollouts, …"""
    names = TIMES if algo == "mbpo" else ("steps", "initial_steps", "epoch_length")
    config = make_config("Pendulum-v1", algo, **{name: TIMES[name] for name in names} | options)
    spent = {"compile": 10.0, "eval": 2.0, "model": 3.0, "rollout": 1.0}
    rows = [{"model_epochs": list(epochs)}]
    done = SimpleNamespace(
        metrics={"seconds": spent}, extra=lambda name: storage.rows_to_bytes(rows)
    )
    return extrapolated_seconds(config, short_training(config), done, random=0.01, usual=0.1)


def test_checkpoints_of_the_largest_tasks_that_run_at_once_are_counted():
    (one,) = training_runs(seeds=((0,),))
    (three,) = training_runs(seeds=((0, 1, 2),))
    (tabular,) = tabular_runs(1)
    (unknown,) = training_runs(env="no_such_module:Nothing-v0")
    single = checkpoint_size([(one,)], at_once=1)
    algorithm = Algorithm(one.config, obs_dim=2, action_dim=1, known_termination=None, horizon=1)
    assert single == 2 * replica_memory(algorithm).total
    tasks = [(tabular,), (unknown,), (one,), (three, one)]
    assert checkpoint_size(tasks, at_once=1) == 4 * single
    assert checkpoint_size(tasks, at_once=8) == 5 * single


def test_seconds_of_steps_and_evaluations_are_added_up():
    # 10 s to compile, 10 evaluations, 100 random steps and 900 with updates.
    assert seconds_of(algo="sac") == pytest.approx(10 + 10 * 2 + 100 * 0.01 + 900 * 0.1)


@pytest.mark.parametrize(
    ("options", "epochs", "fit"),
    [
        # All 19 fits have the 100 transitions of the trial.
        ({"buffer": 100}, (1, 1), 3.0),
        # From 100 to 1000 transitions, 550 on average, in each of which one pass is made.
        ({}, (1, 1), 5.5 * 3.0),
        # The slowest replica made 20 passes over 100 transitions, more than one over 1000.
        ({}, (3, 20), 3.0),
        # Of at most 4 passes; then 2 at least, which are more than 400 from step 200 on.
        ({"patience": 1, "most_model_epochs": 4}, (4, 4), 3.0 / 400 * 1111),
    ],
)
def test_fits_grow_with_the_data(options, epochs, fit):
    expected = 121 + 19 * (fit + 1.0)
    assert seconds_of(epochs, **options) == pytest.approx(expected, rel=0.01)


def test_rollouts_grow_with_their_length():
    # Length 1 in the trial and until epoch 4, length 5 afterwards: 3 on average.
    seconds = seconds_of(buffer=100, rollout_schedule=(4, 5, 1, 5))
    assert seconds == pytest.approx(121 + 19 * (3 + 3), rel=0.05)


@pytest.mark.parametrize("algo", ["sac", "narl"])
def test_trial_is_a_valid_training_with_one_fit_and_one_evaluation(algo):
    config = make_config("Hopper-v5", algo, stop_when_no_better=3, until_solved=True)
    short = short_training(config)
    check_config(short)
    assert (short.steps, short.initial_steps, short.epoch_length) == (208, 200, 208)
    assert short.step_schedule.count_kinds(0, 207)["training the models"] == (algo == "narl")
    assert short.model_capacity <= config.model_capacity
    assert (short.until_solved, short.stop_when_no_better) == (False, None)


@pytest.mark.slow
def test_trial_costs_what_the_run_costs(tmp_path, cache, monkeypatch):
    monkeypatch.setattr("narl.compilation.enable_cache", lambda: None)
    monkeypatch.setattr("narl.sweeps.trial.enable_cache", lambda: None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    tabular = tabular_runs(1, agent=("psrl",), size=(6,), horizon=(20,), episodes=(1000,))
    runs = [*tabular, *training_runs("mbpo", steps=(600,))]
    for run in runs:
        cost = try_out(run)
        run_task([run], tmp_path)
        finished = run.find(tmp_path)
        size = sum(path.stat().st_size for path in finished.path.iterdir())
        assert 0.7 * size < cost.size < 3 * size
        seconds = finished.metrics["seconds"]
        total = seconds["total"] if run.is_training else sum(seconds.values())
        assert 0.05 * total < cost.seconds < 20 * total
    assert list((tmp_path / "temporary").iterdir()) == []


# --- which runs are tried ---------------------------------------------------------------------


@pytest.fixture
def tried():
    """Return a function that tries runs out, each for 60 s and 6 kB, and lists their ids."""
    ids = []

    def try_out(run):
        ids.append(run.id)
        return Cost(60.0, 6000.0)

    return try_out, ids


def test_one_run_of_each_kind_is_tried(tmp_path, tried):
    try_out, ids = tried
    tabular = tabular_runs(2, size=(2, 3))
    trainings = training_runs("narl", seeds=((0, 1), (2,)), batch=(16, 32))
    cost = estimate([*tabular, *trainings], tmp_path, try_out)
    # Of tabular runs, one of each size; of trainings, one of each program.
    assert ids == [tabular[0].id, tabular[2].id, trainings[0].id, trainings[2].id]
    # Two trainings have one seed, half of the two that were tried.
    assert cost == Estimate(4 * 60 + 2 * 60 + 2 * 30, 4 * 6000 + 18000, 8, 0, 0, 4)


def test_finished_runs_count_more_than_trials(tmp_path, tried):
    try_out, ids = tried
    runs = training_runs("sac", seeds=((0,),), steps=(300, 600))
    metrics = {"steps": 300, "replicas": 1, "seconds": {"total": 5.0}}
    storage.save_run(tmp_path, runs[0].config.record(), metrics, {})
    cost = estimate(runs[1:], tmp_path, try_out)
    assert ids == []
    assert (cost.seconds, cost.num_examples, cost.num_trials) == (pytest.approx(10.0), 1, 0)


def test_trials_end_when_they_take_long(tmp_path, tried, monkeypatch):
    try_out, ids = tried
    runs = [*training_runs("sac", batch=(16, 32), steps=(300, 600)), *training_runs("narl")]
    clock = iter(range(0, 10**6, 40))
    monkeypatch.setattr(estimating, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    cost = estimate(runs, tmp_path, try_out)
    # The other runs of SAC are estimated from the one that was tried, by their steps.
    assert ids == [runs[0].id]
    assert (cost.num_estimated, cost.num_unknown, cost.num_trials) == (4, 1, 1)
    assert cost.seconds == pytest.approx(60 + 120 + 60 + 120)


def test_failed_trial_is_named_and_the_others_go_on(tmp_path, capsys):
    runs = [*training_runs("sac"), *tabular_runs(1)]

    def try_out(run):
        if run.is_training:
            raise EnvironmentFault("the simulator is gone")
        return Cost(1.0, 1.0)

    cost = estimate(runs, tmp_path, try_out)
    assert (cost.num_estimated, cost.num_unknown, cost.num_trials) == (1, 1, 1)
    failed = f"the trial of {runs[0].label or runs[0].id} failed: the simulator is gone"
    assert failed in capsys.readouterr().err.splitlines()
