"""Searches with Optuna: the folder of runs is the memory; trials that fall behind are pruned."""

from types import SimpleNamespace

import pytest

from narl import storage
from narl.deep.config import Config
from narl.errors import EnvironmentFault, InputError, NotEnoughMemory
from narl.options import option_fields
from narl.sweeps import tuning
from narl.sweeps.run_notes import RunNotes
from narl.sweeps.tuning import Axis, check_axes, default_axes, parse_axes, tune
from short_trainings import ENV, short_options

pytest.importorskip("optuna")
AXES = parse_axes("learning_rate=1e-4:1e-2,batch=8:32")


class TrainingStopped(KeyboardInterrupt):
    """Stands for that of `narl.deep.training_run`."""


@pytest.fixture
def trained(monkeypatch):
    """Replace training: the return is better with a larger learning rate; list what is trained."""
    configs = []

    def run_training(given, root, *, on_epoch, should_stop, parts):
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


@pytest.mark.parametrize(
    "error",
    [
        NotEnoughMemory("memory: it needs 9 GB"),
        RuntimeError("RESOURCE_EXHAUSTED: 9 GB"),
        MemoryError(),
    ],
)
def test_a_trial_without_room_fails_and_the_search_goes_on(tmp_path, trained, monkeypatch, error):
    import narl.deep.training_run

    works, tries = narl.deep.training_run.run_training, []

    def run_training(*arguments, **options):
        tries.append(arguments)
        if len(tries) == 1:
            raise error
        return works(*arguments, **options)

    monkeypatch.setattr(narl.deep.training_run, "run_training", run_training)
    assert [trial.state for trial in search(tmp_path, 2)] == ["failed", "done"]
    assert [trial.found for trial in search(tmp_path, 2)] == [True, True]


def test_an_interrupted_search_goes_on(tmp_path, trained):
    calls = iter([False, False, True])
    with pytest.raises(TrainingStopped):
        search(tmp_path, 5, should_stop=lambda: next(calls))
    trials = search(tmp_path, 3)
    assert [trial.found for trial in trials] == [True, True, False]


COMMON = ["learning_rate", "updates_per_step"]


@pytest.mark.parametrize(
    ("algo", "given", "names"),
    [
        ("narl", {}, [*COMMON, "members", "radius"]),
        ("narl", {"radius": 0.3}, [*COMMON, "members"]),
        ("narl", {"noise": "reward"}, [*COMMON, "members"]),  # then the radius has no effect
        # The choice among elites has an effect with some of the numbers of members.
        ("narl", {"choose_among": "elites", "elites": 2}, [*COMMON, "members", "radius"]),
        ("sombrl", {}, [*COMMON, "members", "bonus_weight"]),
        ("hucrl", {"learning_rate": 1e-3}, ["updates_per_step", "members", "reach"]),
        ("sac", {}, COMMON),
    ],
)
def test_default_options_are_those_of_the_algorithm_that_are_not_given(algo, given, names):
    assert [axis.name for axis in default_axes(ENV, algo, given)] == names


def test_range_may_begin_where_another_option_has_no_effect():
    check_axes(ENV, "hucrl", {}, parse_axes("reach=0:2,num_candidates=2:4"))
    # … or end there: three of three members are all elite.
    check_axes(ENV, "narl", {"choose_among": "elites", "members": 3}, parse_axes("elites=1:3"))
    with pytest.raises(InputError, match="radius: it has no effect with members 1"):
        check_axes(ENV, "narl", {"members": 1}, parse_axes("radius"))


def test_search_of_nothing_is_refused():
    with pytest.raises(InputError, match="over: missing; the options that are searched by default"):
        default_axes(ENV, "sac", {"learning_rate": 1e-3, "updates_per_step": 3})


def test_axes_have_choices_or_ranges():
    exclude, radius, joint, members = parse_axes("exclude, radius=0.02:3,joint,members=2:5")
    assert (exclude.choices, joint.choices) == (("ball", "above"), (False, True))
    assert (radius.low, radius.high, radius.is_logarithmic) == (0.02, 3.0, True)
    assert (members.low, members.high, members.whole) == (2, 5, True)
    assert not members.is_logarithmic


def test_range_of_an_option_comes_from_the_configuration():
    radius, patience, discount = parse_axes("radius,least-model-batches,discount")
    assert radius == Axis("radius", low=0.01, high=1.0)
    assert (patience.low, patience.high) == (1, 100)
    assert (patience.whole, patience.is_logarithmic) == (True, True)
    assert (discount.low, discount.high, discount.is_logarithmic) == (0.95, 0.999, False)


def test_every_usual_range_can_be_searched():
    names = [field.name for field in option_fields(Config) if field.option.search is not None]
    assert len(names) > 20
    assert {*tuning.DEFAULT_OPTIONS} <= {*names}
    assert [axis.name for axis in parse_axes(",".join(names))] == names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("radius=", "over: 'radius=' is wrong; it must be like radius=0.01:1"),
        ("steps", "over: steps has no usual range; give one, such as steps=2:5"),
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
        parse_axes(text)
    assert str(error.value).startswith(message)


def test_an_option_cannot_be_fixed_and_searched(tmp_path):
    with pytest.raises(InputError, match="over: batch is given as well"):
        tune(ENV, "sac", {"batch": 8}, AXES, 1, tmp_path)


def test_option_without_effect_beside_others_is_left_out_of_a_trial(tmp_path, trained):
    shared = short_options("narl", steps=800)
    trials = tune(ENV, "narl", shared, parse_axes("noise,noise_scale"), 8, tmp_path)
    assert {trial.state for trial in trials} == {"done"}
    configs = {config.run_id: config for config in trained}
    assert {config.noise for config in trained} >= {"model", "reward"}
    for trial in trials:
        scale = 0.01 if trial.values["noise"] == "model" else trial.values["noise_scale"]
        assert configs[trial.run].noise_scale == scale
    with pytest.raises(InputError, match="noise_scale: it has no effect with noise model"):
        tune(ENV, "narl", shared, parse_axes("noise_scale"), 1, tmp_path)


def test_values_that_contradict_each_other_are_a_failed_trial(tmp_path, trained, capsys):
    shared = short_options("mbpo", steps=800)
    del shared["members"]
    trials = tune(ENV, "mbpo", shared, parse_axes("members=2:5,elites=2:5"), 8, tmp_path)
    for trial in trials:
        fits = trial.values["elites"] <= trial.values["members"]
        assert (trial.state, bool(trial.run)) == (("done", True) if fits else ("failed", False))
    assert {trial.state for trial in trials} == {"done", "failed"}
    assert "elites: " in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["lease", "lock"])
def test_trial_of_another_process_is_waited_for(tmp_path, trained, monkeypatch, capsys, kind):
    (first, *_) = search(tmp_path / "alone", 1)
    trained.clear()
    folder = tmp_path / f"{first.run}{storage.PART_SUFFIX}"
    notes = RunNotes(tmp_path, first.run)
    holder = notes.lease() if kind == "lease" else storage.lock_folder(folder)
    waits = []

    def sleep(seconds):
        assert trained == []  # nobody else trains it meanwhile
        waits.append(seconds)
        if len(waits) == 3:  # now the other process has finished the run
            alone = storage.load_run(tmp_path / "alone", first.run)
            extras = {storage.METRICS_LOG: alone.extra(storage.METRICS_LOG)}
            storage.save_run(tmp_path, alone.config, {}, {}, extras=extras)
            holder.__exit__(None, None, None)

    monkeypatch.setattr(tuning, "time", SimpleNamespace(sleep=sleep))
    holder.__enter__()
    if kind == "lease":
        notes.note_worker(step=1)
    (trial,) = search(tmp_path, 1)
    assert (trial.state, trial.found, trial.mean_return) == ("done", True, first.mean_return)
    assert waits == [tuning.BUSY_SECONDS] * 3
    err = capsys.readouterr().err
    assert err.count(f"another process is working on {first.run}; the search waits for it") == 1


def test_waiting_search_can_be_stopped(tmp_path, trained):
    (first, *_) = search(tmp_path / "alone", 1)
    folder = tmp_path / f"{first.run}{storage.PART_SUFFIX}"
    message = f"stopped while another process works on {first.run}"
    with storage.lock_folder(folder), pytest.raises(KeyboardInterrupt, match=message):
        search(tmp_path, 1, should_stop=lambda: True)


@pytest.mark.parametrize("is_lock", [True, False])
def test_process_that_is_faster_is_waited_for(tmp_path, trained, monkeypatch, is_lock):
    import narl.deep.training_run

    works, tries = narl.deep.training_run.run_training, []

    def run_training(*arguments, **options):
        tries.append(arguments)
        if len(tries) == 1 or not is_lock:
            raise InputError("run folder: process 7 is writing to it")
        return works(*arguments, **options)

    monkeypatch.setattr(narl.deep.training_run, "run_training", run_training)
    if is_lock:
        assert [trial.state for trial in search(tmp_path, 1)] == ["done"]
    else:  # it is another error, whatever its text
        with pytest.raises(InputError, match="process 7"):
            search(tmp_path, 1)
    assert len(tries) == 2


def test_time_out_of_environments_is_passed_on(tmp_path, trained, monkeypatch):
    import narl.deep.training_run

    works, seen = narl.deep.training_run.run_training, []

    def run_training(*arguments, **options):
        seen.append(options["parts"].env_timeout)
        return works(*arguments, **options)

    monkeypatch.setattr(narl.deep.training_run, "run_training", run_training)
    search(tmp_path, 1, env_timeout=7.0)
    assert seen == [7.0]


@pytest.mark.slow
def test_trials_are_trained_and_resumed(tmp_path, cache):
    shared = short_options("sac")
    axes = parse_axes("learning_rate=1e-4:1e-2")
    steps = iter(range(10**6))
    with pytest.raises(KeyboardInterrupt):
        tune(ENV, "sac", shared, axes, 2, tmp_path, should_stop=lambda: next(steps) == 450)
    assert len(storage.list_runs(tmp_path)) == 1
    trials = tune(ENV, "sac", shared, axes, 2, tmp_path)
    assert [(trial.state, trial.found) for trial in trials] == [("done", True), ("done", False)]
    assert {run.id for run in storage.list_runs(tmp_path)} == {trial.run for trial in trials}
