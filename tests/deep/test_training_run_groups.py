"""Configurations that share one program: each is trained as if it were alone."""

import dataclasses
import functools
import shutil

import jax
import pytest
from quick_trainings import quick_config, train, train_until

from narl.deep import device_memory
from narl.deep.load_agent import load
from narl.deep.replicas import BatchedReplicas
from narl.deep.trainer import Trainer
from narl.deep.training_run import check_training, run_training
from narl.errors import InputError
from narl.storage import FINISHED_FOLDER, list_run_ids, list_unfinished_runs, save_run
from short_trainings import flip_bit, metrics_rows

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cache")]

GROUP = [
    quick_config("narl", seeds=(0, 4), radius=0.1),
    quick_config("narl", radius=None),
    quick_config("mbpo", seeds=(4,)),
]


def assert_as_alone(run, alone):
    """Check that a run equals one that was trained alone, except for times and replicas."""
    arrays, expected = run.arrays(), alone.arrays()
    assert sorted(arrays) == sorted(expected)
    for name, array in arrays.items():
        assert array.tobytes() == expected[name].tobytes(), name
    assert metrics_rows(run) == metrics_rows(alone)
    shared = {"seconds": None, "replicas": None}
    assert run.metrics | shared == alone.metrics | shared
    assert (run.id, run.config, run.problems) == (alone.id, alone.config, ())


def assert_trained(configs, root, alone, found, **options):
    """Train together; compare with runs trained alone, and which of them were found."""
    results = run_training(configs, root, **options)
    assert [was_found for _, was_found in results] == found
    for (run, _), expected in zip(results, alone, strict=True):
        assert_as_alone(run, expected)
    assert sorted(path.name for path in root.iterdir()) == sorted(run.id for run in alone)
    return [run for run, _ in results]


@pytest.fixture(scope="module")
def alone(tmp_path_factory, cache):
    """The runs of the group, each trained alone."""
    root = tmp_path_factory.mktemp("alone")
    return [train(config, root) for config in GROUP]


def test_group_without_room_is_trained_in_parts(alone, tmp_path, monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")  # counts every replica's memory
    most = device_memory.needed_memory(GROUP[0], 3, 1, 3)
    monkeypatch.setattr(device_memory, "available_memory", lambda: 1.3 * most)
    groups = check_training(GROUP)
    assert [len(group) for group in groups] == [2, 1]
    monkeypatch.undo()
    monkeypatch.setattr(
        "narl.deep.training_run.groups_that_fit", lambda configs, *_: groups_of(configs)
    )
    runs = assert_trained(GROUP, tmp_path, alone, [False] * 3)
    assert [run.metrics["replicas"] for run in runs] == [3, 3, 1]
    assert_trained(GROUP, tmp_path, alone, [True] * 3)


def test_part_of_a_group_continues_after_a_process_with_more_room(alone, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "narl.deep.training_run.groups_that_fit", lambda configs, *_: groups_of(configs)
    )
    train_until(33, GROUP, tmp_path)
    monkeypatch.undo()
    resumed = []
    runs = assert_trained(GROUP, tmp_path, alone, [False] * 3, on_resume=resumed.append)
    assert resumed == [33]
    assert [run.metrics["replicas"] for run in runs] == [3, 3, 1]


def test_training_that_was_begun_alone_continues_alone(alone, tmp_path):
    train_until(33, GROUP[:1], tmp_path)
    resumed = []
    runs = assert_trained(GROUP, tmp_path, alone, [False] * 3, on_resume=resumed.append)
    assert resumed == [33]
    assert [run.metrics["replicas"] for run in runs] == [2, 2, 2]


def groups_of(configs):
    """Return groups of at most two configurations."""
    return [configs[i : i + 2] for i in range(0, len(configs), 2)]


def test_group_equals_runs_trained_alone(alone, tmp_path):
    runs = assert_trained(GROUP, tmp_path, alone, [False] * 3)
    assert [run.metrics["replicas"] for run in runs] == [4] * 3
    assert_trained(GROUP, tmp_path, alone, [True] * 3)


def test_group_of_missing_runs_is_stopped_and_continued(alone, tmp_path):
    shutil.copytree(alone[1].path, tmp_path / alone[1].id)
    train_until(33, GROUP, tmp_path)
    (left,) = list_unfinished_runs(tmp_path)
    with pytest.raises(InputError, match="run: it is 2 trainings together"):
        load(left.path)
    resumed = []
    assert_trained(GROUP, tmp_path, alone, [False, True, False], on_resume=resumed.append)
    assert resumed == [33]


# --- configurations that end before the others ------------------------------------------------


def racing(root):
    """Return configurations of one seed each until solved; one is solved in the first epoch."""
    look = quick_config(seeds=(0, 1, 2))
    returns = metrics_rows(train(look, root))[0]["eval_return"]
    return [
        dataclasses.replace(look, seeds=(seed,), until_solved=True, solved_return=max(returns))
        for seed in look.seeds
    ]


@pytest.fixture(scope="module")
def race(tmp_path_factory, cache):
    """Three configurations, one of which is done first, and their runs, each trained alone."""
    configs = racing(tmp_path_factory.mktemp("look"))
    runs = [train(config, tmp_path_factory.mktemp("alone")) for config in configs]
    steps = [run.metrics["steps"] for run in runs]
    assert min(steps) == 20
    assert max(steps) > 20
    return configs, runs, steps.index(20)


def test_configuration_that_is_solved_first_ends_there(race, tmp_path):
    configs, alone, _ = race
    assert_trained(configs, tmp_path, alone, [False] * 3)


@pytest.mark.parametrize("step", [20, 33])
def test_solved_configuration_survives_a_stop_and_the_group_is_found(
    race, tmp_path, step, monkeypatch
):
    configs, alone, first = race
    train_until(step, configs, tmp_path)
    # Another process trains the solved one by itself: the group is found nevertheless.
    train(configs[first], tmp_path)
    resumed, deactivate, inactive = [], Trainer.deactivate, []

    def record(trainer, replicas):
        inactive.append((trainer.counters.step, replicas))
        deactivate(trainer, replicas)

    monkeypatch.setattr(Trainer, "deactivate", record)
    found = [i == first for i in range(3)]
    assert_trained(configs, tmp_path, alone, found, on_resume=resumed.append)
    assert resumed == [step]
    assert inactive[0] == (step, slice(first, first + 1))


@pytest.fixture
def staged(race, tmp_path):
    """The root of a group that was stopped, and the folder of its run that is done already."""
    train_until(33, race[0], tmp_path)
    (left,) = list_unfinished_runs(tmp_path)
    (run,) = (left.path / FINISHED_FOLDER).iterdir()
    return tmp_path, run


@pytest.mark.parametrize("damage", [shutil.rmtree, flip_bit])
def test_staged_run_that_is_lost_or_damaged_is_trained_again(race, staged, damage):
    configs, alone, _ = race
    root, run = staged
    damage(run)
    assert_trained(configs, root, alone, [False] * 3)


def test_kill_while_runs_are_moved_into_place_loses_none(race, staged):
    configs, alone, first = race
    root, run = staged
    run.rename(root / run.name)
    assert_trained(configs, root, alone, [i == first for i in range(3)])


def test_damaged_metrics_log_of_a_group_is_restored(race, staged, caplog):
    configs, alone, _ = race
    root, run = staged
    (run.parents[1] / "progress.jsonl").write_bytes(b'{"epoch": 1}\n')
    assert_trained(configs, root, alone, [False] * 3)
    (warning,) = caplog.messages
    assert warning.startswith("progress.jsonl is damaged or was changed")


def test_run_that_was_staged_after_the_last_checkpoint_is_trained_again(race, tmp_path):
    """A process that is killed between the two has a run that the checkpoint does not know."""
    configs, alone, first = race
    train_until(10, configs, tmp_path)
    (left,) = list_unfinished_runs(tmp_path)
    save_run(left.path / FINISHED_FOLDER, configs[first].record(), {"steps": 1}, {})
    staged = []

    def on_resume(step):
        staged.extend(list_run_ids(left.path / FINISHED_FOLDER))

    assert_trained(configs, tmp_path, alone, [False] * 3, on_resume=on_resume)
    assert staged == []


def test_batch_goes_on_without_the_replicas_that_are_done(tmp_path, monkeypatch):
    """As on an accelerator: stopped after one is done, and continued, to the last bit."""
    batched = functools.partial(Trainer, make_replicas=BatchedReplicas)
    monkeypatch.setattr("narl.deep.training_run.Trainer", batched)
    configs = racing(tmp_path / "look")
    whole = [run for run, _ in run_training(configs, tmp_path / "whole")]
    steps = [run.metrics["steps"] for run in whole]
    assert min(steps) == 20
    assert max(steps) == 60
    train_until(33, configs, tmp_path / "parts")
    assert_trained(configs, tmp_path / "parts", whole, [False] * 3)
