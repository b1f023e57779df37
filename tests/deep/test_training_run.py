"""Trainings on disk: found again, stopped anywhere and continued to the last bit."""

import gc
import logging
from pathlib import Path

import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit
from quick_trainings import quick_config, train, train_until

import toy_worlds
from narl import storage
from narl.deep.checked_config import config_from_record
from narl.deep.training_run import TrainingStopped, run_training
from narl.deep.user_parts import UserParts
from narl.errors import EnvironmentFault, InputError
from narl.storage import find_run, list_unfinished_runs, lock_folder
from short_trainings import assert_same_outcome, checkpoints_of, metrics_rows

pytestmark = pytest.mark.usefixtures("cache")
slow = pytest.mark.slow

CONFIG = quick_config()


def train_with_stops(config, root, *steps, **options):
    """Train and stop after each of the steps; return the run."""
    resumed = []
    for step in steps:
        train_until(step, [config], root, on_resume=resumed.append, **options)
    run = train(config, root, on_resume=resumed.append, **options)
    assert resumed == list(steps)
    assert [path.name for path in root.iterdir()] == [run.id]
    return run


# --- finished runs ----------------------------------------------------------------------------


@slow
def test_finished_run_holds_the_outcome_and_is_found_again(whole):
    root = whole.path.parent
    assert [path.name for path in root.iterdir()] == [whole.id] == [CONFIG.run_id]
    assert run_training([CONFIG], root) == [(whole, True)]
    assert config_from_record(whole.config) == CONFIG
    assert (whole.metrics["steps"], whole.metrics["updates"]) == (60, 40)
    assert (whole.metrics["policy_steps"], whole.metrics["replicas"]) == (40, 1)
    arrays = whole.arrays()
    np.testing.assert_array_equal(arrays["step"], [20, 40, 60])
    assert arrays["sac.actor.0.w"].shape == (1, 2, 8)
    np.testing.assert_array_equal(arrays["interface.action_high"], [2.0])
    np.testing.assert_array_equal(arrays["eval_return"][-1], whole.metrics["final_return"])
    assert [row["eval_return"] for row in metrics_rows(whole)] == arrays["eval_return"].tolist()


@slow
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="counts the maps of Linux")
def test_compiled_programs_are_released_when_a_training_ends(whole, tmp_path):
    """A program that waited for the search for garbage would hold hundreds of memory maps."""

    def num_maps():
        return len(Path("/proc/self/maps").read_text().splitlines())

    train(CONFIG, tmp_path / "first")
    gc.collect()
    gc.disable()
    try:
        before = num_maps()
        train(CONFIG, tmp_path / "second")
        assert num_maps() < before + 100
    finally:
        gc.enable()


@slow
def test_fresh_training_that_was_stopped_is_continued_beside_the_finished_one(whole, tmp_path):
    first = train(CONFIG, tmp_path)
    train_until(30, [CONFIG], tmp_path, fresh=True)
    assert run_training([CONFIG], tmp_path) == [(first, True)]
    assert find_run(tmp_path, first.id).path == first.path
    assert find_run(tmp_path, first.id, unfinished_first=True).step == 30
    resumed = []
    second = train(CONFIG, tmp_path, unfinished=True, on_resume=resumed.append)
    assert resumed == [30]
    assert second.environment["time"] > first.environment["time"]
    assert_same_outcome(storage.load_run(tmp_path / first.id), whole)
    assert [path.name for path in tmp_path.iterdir()] == [first.id]


@slow
def test_one_process_trains_at_a_time(whole, tmp_path, monkeypatch):
    part = tmp_path / f"{CONFIG.run_id}.part"
    with (
        lock_folder(part),
        pytest.raises(InputError, match=rf"process \d+ is writing to {part}; wait until it ends"),
    ):
        train(CONFIG, tmp_path)
    # Another process has finished the run between the first look and the lock.
    answers = [None, whole]
    monkeypatch.setattr(storage, "find_run_of_config", lambda root, record: answers.pop(0))
    assert run_training([CONFIG], tmp_path) == [(whole, True)]
    assert list(tmp_path.iterdir()) == []


# --- stops ------------------------------------------------------------------------------------


@slow
def test_stopped_training_equals_an_uninterrupted_one(whole, tmp_path):
    """Episodes are longer than an epoch and are repeated when the training goes on."""
    run = train_with_stops(CONFIG, tmp_path, 1, 33, 40, 59)
    assert_same_outcome(run, whole)
    assert run.metrics["episodes"] == [2]


@slow
@pytest.mark.parametrize(
    ("algo", "options"),
    [
        ("narl", {"seeds": (0, 4)}),
        ("narl", {"optimism_at": "update", "noise": "both", "anneal_steps": 60}),
        ("maxinfo", {}),
        ("thompson", {}),
    ],
)
def test_stopped_training_with_a_model_equals_an_uninterrupted_one(tmp_path, algo, options):
    config = quick_config(algo, **options)
    expected = train(config, tmp_path / "whole")
    run = train_with_stops(config, tmp_path / "parts", 20, 33)
    assert_same_outcome(run, expected)
    networks = {name.split(".")[0] for name in run.arrays() if "." in name}
    assert networks == {"best", "ensemble", "interface", "sac", "termination"}


@slow
def test_mujoco_is_resumed_in_mid_episode(tmp_path):
    config = quick_config(env="InvertedPendulum-v5", seeds=(0, 1))
    expected = train(config, tmp_path / "whole")
    assert_same_outcome(train_with_stops(config, tmp_path / "parts", 23, 47), expected)


class Fickle(toy_worlds.Toy):
    """Observations depend on the number of environments that were made before."""

    num_made = 0

    def __init__(self):
        super().__init__()
        Fickle.num_made += 1
        self.number = Fickle.num_made

    def step(self, action):
        obs, *rest = super().step(action)
        return obs + 1e-3 * self.number, *rest


@slow
def test_episode_that_cannot_be_repeated_is_replaced_by_a_new_one(tmp_path, caplog):
    config = quick_config(seeds=(0, 4))
    parts = UserParts(env=lambda: TimeLimit(Fickle(), 30))
    train_until(33, [config], tmp_path, parts=parts)
    with caplog.at_level(logging.WARNING, "narl"):
        run = train(config, tmp_path, parts=parts)
    assert run.metrics["steps"] == 60
    (message,) = caplog.messages
    assert message.startswith("Fickle (seeds 0, 4): the same seed and actions did not lead")


@slow
@pytest.mark.parametrize("false", [False, np.False_])
def test_callback_that_returns_false_stops_the_training(tmp_path, false):
    rows = []

    def on_epoch(metrics):
        rows.append(metrics)
        return false if metrics["step"] == 40 else np.True_

    with pytest.raises(TrainingStopped, match=r"^stopped at step 40$"):
        train(CONFIG, tmp_path, on_epoch=on_epoch)
    assert [row["step"] for row in rows] == [20, 40]
    (left,) = list_unfinished_runs(tmp_path)
    assert (left.step, left.problems, left.last_row()["step"]) == (40, (), 40)
    assert config_from_record(left.config) == CONFIG
    # After the last epoch there is nothing to stop.
    assert train(CONFIG, tmp_path, on_epoch=lambda row: false).metrics["steps"] == 60


@slow
def test_training_stopped_before_its_first_step_begins_anew(whole, tmp_path):
    with pytest.raises(TrainingStopped, match=r"^stopped at step 0$"):
        train(CONFIG, tmp_path, should_stop=lambda: True)
    assert [left.step for left in list_unfinished_runs(tmp_path)] == [0]
    assert_same_outcome(train_with_stops(CONFIG, tmp_path), whole)


@slow
def test_training_until_solved_ends_early(tmp_path):
    run = train(quick_config(until_solved=True, solved_return=-1e6), tmp_path)
    assert (run.metrics["steps"], run.metrics["solved_step"]) == (20, [20])
    assert run.metrics["confirmed_step"] == [20]


# --- faults -----------------------------------------------------------------------------------


@slow
@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("raise", r"Broken-v0 \(seed 0, training\): step 35: OSError: the simulator$"),
        ("huge", r"step 3\d: .*(critic_loss|action\[0\]) is (nan|inf)$"),
    ],
)
def test_fault_is_named_and_training_resumes_from_the_checkpoint(
    whole, tmp_path, monkeypatch, what, line
):
    config = quick_config(env="toy_worlds:Broken-v0")
    monkeypatch.setitem(toy_worlds.FAULTS, "what", what)
    monkeypatch.setitem(toy_worlds.FAULTS, "at", 35)
    with pytest.raises(RuntimeError, match=line):
        train(config, tmp_path)
    assert [path.name for path in checkpoints_of(tmp_path, config)] == ["step-000000020"]
    monkeypatch.setitem(toy_worlds.FAULTS, "at", 10**9)
    resumed = []
    run = train(config, tmp_path, on_resume=resumed.append)
    assert resumed == [20]
    assert metrics_rows(run) == metrics_rows(whole)  # the environment is the same without faults


@slow
def test_fault_before_the_first_checkpoint_leaves_no_folder(tmp_path, monkeypatch):
    monkeypatch.setitem(toy_worlds.FAULTS, "what", "raise")
    monkeypatch.setitem(toy_worlds.FAULTS, "at", 10)
    with pytest.raises(EnvironmentFault):
        train(quick_config(env="toy_worlds:Broken-v0"), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("config", "line"),
    [
        (
            quick_config(env="toy_worlds:Toi-v0"),
            "env: unknown environment '.*:Toi-v0'.*worlds:Toy-v0'",
        ),
        (quick_config(env="FrozenLake-v1"), r"env: FrozenLake-v1 has Discrete\(16\) observations"),
        (
            quick_config(env="CartPole-v1", target_entropy=-1.0),
            "target_entropy: -1 is out of range; 2 discrete actions have .* from 0 to 0.6931$",
        ),
        (
            quick_config("narl", env="CartPole-v1", value_samples=2),
            "value_samples: it has no effect with discrete actions, .* exact sums; leave it out$",
        ),
        (quick_config("narl", termination="known"), "termination: no rule is known for"),
        (quick_config(buffer=10**9, steps=10**9), "memory: it needs .* GB and .* are available"),
    ],
)
def test_impossible_training_is_refused_before_anything_is_written(tmp_path, config, line):
    with pytest.raises(InputError, match=line):
        train(config, tmp_path / "runs")
    assert list(tmp_path.iterdir()) == []
