"""Searches with Optuna: the folder of runs is the memory; trials that fall behind are pruned."""

import pytest

from narl import storage
from narl.errors import EnvironmentFault, InputError
from narl.sweeps import tuning
from narl.sweeps.tuning import Axis, parse_axes, tune
from short_trainings import ENV, short_options

pytest.importorskip("optuna")
AXES = parse_axes("learning_rate=1e-4:1e-2,batch=8:32", "sac")


class TrainingStopped(KeyboardInterrupt):
    """Stands for that of `narl.deep.training_run`."""


@pytest.fixture
def trained(monkeypatch):
    """Replace training: the return is better with a larger learning rate; list what is trained."""
    configs = []

    def run_training(given, root, *, on_epoch, should_stop):
        (config,) = given
        configs.append(config)
        if should_stop():
            raise TrainingStopped
        if config.batch == 8:
            raise EnvironmentFault("it broke")
        log = storage.MetricsLog(
            root / f"{config.run_id}{storage.PART_SUFFIX}" / storage.METRICS_LOG
        )
        rows = []
        for epoch in range(1, 9):
            row = {"epoch": epoch, "step": epoch, "eval_return": [1000 * config.learning_rate] * 2}
            log.path.parent.mkdir(parents=True, exist_ok=True)
            log.append(row)
            rows.append(row)
            if on_epoch(row) is False and epoch < 8:
                raise TrainingStopped
        extras = {storage.METRICS_LOG: storage.rows_to_bytes(rows)}
        return [(storage.save_run(root, config.record(), {}, {}, extras=extras), False)]

    monkeypatch.setattr("narl.deep.training_run.run_training", run_training)
    monkeypatch.setattr("narl.deep.training_run.TrainingStopped", TrainingStopped)
    return configs


def search(root, num_trials, **options):
    shared = short_options("sac", steps=800)
    del shared["batch"]
    return tune(ENV, "sac", shared, AXES, num_trials, root, **options)


def test_a_search_prunes_and_a_second_one_finds_everything(tmp_path, trained):
    trials = search(tmp_path, 20)
    assert [trial.number for trial in trials] == list(range(20))
    assert {trial.state for trial in trials} >= {"done", "pruned"}
    assert all(trial.state != "pruned" for trial in trials[: tuning.STARTUP_TRIALS])
    best = max(trials, key=lambda trial: trial.mean_return or 0.0)
    assert best.state == "done"
    assert best.mean_return == pytest.approx(1000 * best.values["learning_rate"])
    first = len(trained)
    again = search(tmp_path, 22)
    assert [trial._replace(found=False) for trial in again[:20]] == trials
    assert all(trial.found for trial in again[:20])
    assert len(trained) == first + 2
    assert search(tmp_path, 2, sampler_seed=1)[0].values != trials[0].values


def test_a_failed_trial_is_not_tried_again(tmp_path, trained, monkeypatch):
    monkeypatch.setattr(tuning, "check_value", lambda *arguments: None)
    axes = [Axis("batch", (8, 16))]
    shared = short_options("sac", steps=800)
    del shared["batch"]
    trials = tune(ENV, "sac", shared, axes, 6, tmp_path)
    assert {trial.state for trial in trials} == {"done", "failed"}
    assert len(trained) == 2


def test_an_interrupted_search_goes_on(tmp_path, trained):
    calls = iter([False, False, True])
    with pytest.raises(TrainingStopped):
        search(tmp_path, 5, should_stop=lambda: next(calls))
    trials = search(tmp_path, 3)
    assert [trial.found for trial in trials] == [True, True, False]


@pytest.mark.parametrize(
    ("text", "algo", "names"),
    [
        (None, "narl", ["learning_rate", "updates_per_step", "members", "radius"]),
        (None, "sac", ["learning_rate", "updates_per_step"]),
        ("exclude, radius=0.01:1,joint", "narl", ["exclude", "radius", "joint"]),
    ],
)
def test_axes_come_from_the_configuration(text, algo, names):
    assert [axis.name for axis in parse_axes(text, algo)] == names


def test_axes_have_choices_or_ranges():
    exclude, radius, members = parse_axes("exclude,radius=0.01:1,members=2:5", "narl")
    assert exclude.choices == ("ball", "above")
    assert (radius.low, radius.high, radius.is_logarithmic) == (0.01, 1.0, True)
    assert (members.low, members.high, members.whole) == (2, 5, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("radius", "over: 'radius' is wrong; it must be like radius=0.01:1"),
        ("radius=1:0.1", "over: 'radius=1:0.1' is empty"),
        ("radius=-1:1", "radius: -1.0 is too small"),
        ("seeds=0:3", "over: unknown value 'seeds'"),
        ("exclude=ball", "over: exclude has choices, all of which are tried"),
        ("hidden=1:2", "over: hidden is a list of numbers"),
        ("joint,joint", "over: joint is given twice"),
    ],
)
def test_wrong_axes_are_refused(text, message):
    with pytest.raises(InputError) as error:
        parse_axes(text, "narl")
    assert str(error.value).startswith(message)


def test_an_option_cannot_be_fixed_and_searched(tmp_path):
    with pytest.raises(InputError, match="over: batch is given as well"):
        tune(ENV, "sac", {"batch": 8}, AXES, 1, tmp_path)


@pytest.mark.slow
def test_trials_are_trained_and_resumed(tmp_path, cache):
    shared = short_options("sac")
    axes = parse_axes("learning_rate=1e-4:1e-2", "sac")
    steps = iter(range(10**6))
    with pytest.raises(KeyboardInterrupt):
        tune(ENV, "sac", shared, axes, 2, tmp_path, should_stop=lambda: next(steps) == 450)
    assert len(storage.list_runs(tmp_path)) == 1
    trials = tune(ENV, "sac", shared, axes, 2, tmp_path)
    assert [(trial.state, trial.found) for trial in trials] == [("done", True), ("done", False)]
    assert {run.id for run in storage.list_runs(tmp_path)} == {trial.run for trial in trials}
