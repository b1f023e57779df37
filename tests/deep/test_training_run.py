"""Trainings that are kept: found again, stopped anywhere, continued to the last bit."""

import contextlib
import dataclasses
import json
import logging
import shutil

import jax
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

import toy_worlds
from narl import storage
from narl.deep import training_run as courses
from narl.deep.checkpoint import snapshot
from narl.deep.trainer import Fault, Training
from narl.deep.training_run import Stopped, course_from, train
from narl.errors import EnvironmentFault, InputError
from narl.storage import checkpoints as checkpoint
from narl.storage.checkpoints import load_checkpoint, save_checkpoint
from narl.storage.folder import lock_folder
from narl.storage.unfinished import list_unfinished_runs, locate_run, open_unfinished_run
from short_courses import (
    assert_same_outcome,
    cache,  # noqa: F401
    checkpoints,
    course,
    journal,
    programs,  # noqa: F401
    spoil,
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cache")]


def stop_at(*steps):
    """Says stop when one of the steps is done; to be given as on_step and should_stop."""
    now = [0]

    def on_step(step):
        now[0] = step

    return {"on_step": on_step, "should_stop": lambda: now[0] in steps}


def train_with_stops(item, root, *steps, **how):
    """Each time it is stopped it is continued; returns the run and where it went on."""
    resumed = []
    for step in steps:
        with pytest.raises(Stopped) as stopped:
            train(item, root, on_resume=resumed.append, **stop_at(step), **how)
        assert stopped.value.step == step
    run, found = train(item, root, on_resume=resumed.append, **how)
    assert not found
    return run, resumed


@pytest.fixture(scope="module")
def whole(tmp_path_factory, cache):  # noqa: F811
    """An uninterrupted training."""
    run, found = train(course(), tmp_path_factory.mktemp("whole"))
    assert not found
    return run


def test_a_finished_training_is_found_again(whole, tmp_path):
    root = whole.path.parent
    assert [path.name for path in root.iterdir()] == [whole.id]
    again, found = train(course(), root)
    assert found
    assert again.id == whole.id == course().id
    assert course_from(whole.config) == course()
    assert whole.metrics["steps"] == 300
    assert whole.metrics["updates"] == 200
    assert len(whole.metrics["final_return"]) == 1
    arrays = whole.arrays()
    np.testing.assert_array_equal(arrays["step"], [100, 200, 300])
    assert arrays["eval_return"].shape == (3, 1)
    assert arrays["sac.actor.0.w"].shape == (1, 2, 16)
    np.testing.assert_array_equal(arrays["interface.action_high"], [2.0])
    np.testing.assert_array_equal(arrays["eval_return"][-1], whole.metrics["final_return"])


def test_it_is_the_same_wherever_it_is_stopped(whole, tmp_path):
    run, resumed = train_with_stops(course(), tmp_path, 1, 37, 100, 173, 299)
    assert resumed == [1, 37, 100, 173, 299]
    assert_same_outcome(run, whole)
    assert [path.name for path in tmp_path.iterdir()] == [run.id]


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["narl", "mbpo"])
def test_so_it_is_with_a_model_and_several_seeds(tmp_path, algo):
    """The termination is learned here, so that all there is to keep is kept."""
    item = course(algo=algo, seeds=(0, 4, 7))
    expected, _ = train(item, tmp_path / "whole")
    assert any(name.startswith("ending.") for name in expected.arrays())
    run, resumed = train_with_stops(item, tmp_path / "parts", 100, 173)
    assert resumed == [100, 173]
    assert_same_outcome(run, expected)


@pytest.mark.parametrize(
    "env",
    [
        pytest.param("InvertedPendulum-v5", marks=pytest.mark.slow),
        pytest.param("Hopper-v5", marks=pytest.mark.slow),
    ],
)
def test_mujoco_is_resumed_in_mid_episode(tmp_path, env):
    item = course(env, seeds=(0, 1), algo="narl")
    expected, _ = train(item, tmp_path / "whole")
    run, resumed = train_with_stops(item, tmp_path / "parts", 123, 217)
    assert resumed == [123, 217]
    assert_same_outcome(run, expected)


def test_killed_after_an_epoch_it_loses_what_came_after_the_checkpoint(whole, tmp_path):
    """What `kill -9` leaves: the folder as it was at that moment."""
    item, left = course(), tmp_path / "left"
    part = f"{item.id}.part"

    def snapshot(step):
        if step == 260:
            shutil.copytree(tmp_path / "runs" / part, left / part)

    train(item, tmp_path / "runs", on_step=snapshot)
    resumed = []
    run, _ = train(item, left, on_resume=resumed.append)
    assert resumed == [200]
    assert_same_outcome(run, whole)


def test_a_damaged_checkpoint_falls_back_to_the_one_before(whole, tmp_path, caplog):
    item = course()
    with pytest.raises(Stopped):
        train(item, tmp_path, **stop_at(230))
    kept = checkpoints(tmp_path, item)
    assert [path.name for path in kept] == ["step-000000200", "step-000000230"]
    spoil(kept[-1])
    resumed = []
    with caplog.at_level(logging.WARNING, "narl"):
        run, _ = train(item, tmp_path, on_resume=resumed.append)
    assert "step-000000230 is damaged and not used: arrays.npz differs" in caplog.text
    assert resumed == [200]
    assert_same_outcome(run, whole)


def _first_byte(path):
    path.write_bytes(b"X" + path.read_bytes()[1:])


def _a_key(path):
    path.write_bytes(path.read_bytes().replace(b'"epoch"', b'"epoXh"', 1))


def _a_digit(path):
    damaged = path.read_bytes().replace(b'"step": 100,', b'"step": 109,', 1)
    assert damaged != path.read_bytes()
    path.write_bytes(damaged)


def _half(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _gone(path):
    path.unlink()


DAMAGES = (_first_byte, _a_key, _a_digit, _half, _gone)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory, cache):  # noqa: F811
    """A training that was stopped in its third epoch; to be copied."""
    root = tmp_path_factory.mktemp("stopped")
    with pytest.raises(Stopped):
        train(course(), root, **stop_at(230))
    return root


@pytest.mark.parametrize(
    ("damage", "behind"), [*((damage, False) for damage in DAMAGES), (_gone, True)]
)
def test_a_damaged_journal_is_restored_from_the_checkpoint(
    whole, stopped, tmp_path, caplog, damage, behind
):
    root, item = tmp_path / "runs", course()
    shutil.copytree(stopped, root)
    damage(root / f"{item.id}.part" / "progress.jsonl")
    if behind:
        spoil(checkpoints(root, item)[-1])
    resumed, step = [], 200 if behind else 230
    with caplog.at_level(logging.WARNING, "narl"):
        run, _ = train(item, root, on_resume=resumed.append)
    assert resumed == [step]
    assert caplog.messages[int(behind) :] == [
        f"progress.jsonl is damaged or was changed; it is restored from checkpoint step-{step:09d}"
    ]
    assert_same_outcome(run, whole)


def test_a_journal_that_is_damaged_while_it_is_trained_does_no_harm(whole, tmp_path):
    file = tmp_path / f"{course().id}.part" / "progress.jsonl"

    def damage(row):
        if row["step"] == 200:
            _first_byte(file)

    run, _ = train(course(), tmp_path, on_epoch=damage)
    assert_same_outcome(run, whole)


def without_the_journal(path):
    """The checkpoint as it was written before it held the journal."""
    found = load_checkpoint(path.parent)
    assert found.path == path
    arrays = {name: array for name, array in found.arrays.items() if name != "journal"}
    assert len(arrays) == len(found.arrays) - 1
    save_checkpoint(path.parent, found.step, arrays, found.notes)


def test_an_old_checkpoint_without_the_journal_is_continued(whole, stopped, tmp_path, caplog):
    shutil.copytree(stopped, tmp_path / "runs")
    without_the_journal(checkpoints(tmp_path / "runs", course())[-1])
    resumed = []
    with caplog.at_level(logging.WARNING, "narl"):
        run, _ = train(course(), tmp_path / "runs", on_resume=resumed.append)
    assert (resumed, caplog.messages) == ([230], [])
    assert_same_outcome(run, whole)


@pytest.mark.parametrize("damage", DAMAGES)
def test_of_its_damaged_journal_what_can_be_read_is_kept(whole, stopped, tmp_path, caplog, damage):
    root = tmp_path / "runs"
    shutil.copytree(stopped, root)
    without_the_journal(checkpoints(root, course())[-1])
    damage(root / f"{course().id}.part" / "progress.jsonl")
    with caplog.at_level(logging.WARNING, "narl"):
        run, _ = train(course(), root)
    warning = "progress.jsonl is damaged or was changed; only the epochs that can still be read"
    # A number that was changed is one that can be read: nothing tells that it was another.
    assert [line.startswith(warning) for line in caplog.messages] == [True] * (damage != _a_digit)
    kept = {_half: [100, 300], _gone: [300], _a_digit: [109, 200, 300]}.get(damage, [200, 300])
    assert [row["step"] for row in journal(run)] == kept
    assert journal(run)[-1] == journal(whole)[-1]
    assert run.arrays()["eval_return"].shape == (len(kept), 1)
    assert run.metrics["final_return"] == whole.metrics["final_return"]
    assert storage.load_run(run.path).problems == ()


def test_a_solved_training_whose_journal_is_lost_is_not_continued(tmp_path):
    item = course(until_solved=True, solved_return=-1e6)
    part = tmp_path / "runs" / f"{item.id}.part"

    def leave(row):
        shutil.copytree(part, tmp_path / "left" / part.name)

    expected, _ = train(item, tmp_path / "runs", on_epoch=leave)
    shutil.copytree(tmp_path / "left", tmp_path / "old")
    (tmp_path / "left" / part.name / "progress.jsonl").unlink()
    run, _ = train(item, tmp_path / "left")
    assert_same_outcome(run, expected)
    (tmp_path / "old" / part.name / "progress.jsonl").unlink()
    without_the_journal(checkpoints(tmp_path / "old", item)[-1])
    with pytest.raises(InputError, match=r"^progress\.jsonl: it is lost; begin anew with --fresh$"):
        train(item, tmp_path / "old")


def test_with_every_checkpoint_damaged_it_says_so(tmp_path):
    item = course()
    with pytest.raises(Stopped):
        train(item, tmp_path, **stop_at(130))
    for path in checkpoints(tmp_path, item):
        spoil(path)
    with pytest.raises(InputError, match=r"no intact one in .*; begin anew with --fresh$"):
        train(item, tmp_path)
    (left,) = list_unfinished_runs(tmp_path)
    assert left.problems == (
        "no checkpoint is intact",
        "step-000000130: arrays.npz differs from its checksum",
        "step-000000100: arrays.npz differs from its checksum",
    )
    with lock_folder(left.path):  # whoever trains it has begun it anew
        assert open_unfinished_run(left.path).problems == ()
    run, found = train(item, tmp_path, fresh=True)
    assert not found
    assert run.metrics["steps"] == 300


def test_a_fresh_training_that_was_stopped_is_continued_beside_the_finished_one(tmp_path):
    item = course()
    first, _ = train(item, tmp_path)
    with pytest.raises(Stopped):
        train(item, tmp_path, fresh=True, **stop_at(150))
    assert train(item, tmp_path) == (first, True)
    assert locate_run(tmp_path, item.id).path == first.path
    assert locate_run(tmp_path, item.id, unfinished_first=True).step == 150
    resumed = []
    second, found = train(item, tmp_path, unfinished=True, on_resume=resumed.append)
    assert (found, resumed) == (False, [150])
    assert second.environment["time"] > first.environment["time"]
    assert_same_outcome(storage.load_run(tmp_path, item.id), second)
    assert [path.name for path in tmp_path.iterdir()] == [item.id]


def test_one_process_at_a_time(tmp_path):
    item = course()
    with (
        lock_folder(tmp_path / f"{item.id}.part"),
        pytest.raises(InputError, match=r"process \d+ is writing to .*; wait until it ends"),
    ):
        train(item, tmp_path)
    assert list_unfinished_runs(tmp_path)[0].step == 0


def test_whoever_waited_for_the_folder_finds_the_finished_run(whole, tmp_path, monkeypatch):
    """It was finished by another process between the first look and the lock."""
    answers = [None, whole]
    monkeypatch.setattr(store, "find", lambda root, config: answers.pop(0))
    assert train(course(), tmp_path) == (whole, True)


# --- stopping ---------------------------------------------------------------------------------


def test_a_callback_that_returns_false_stops_it(tmp_path):
    rows = []

    def twice(row):
        rows.append(row)
        return len(rows) < 2

    with pytest.raises(Stopped, match=r"^stopped at step 200$"):
        train(course(), tmp_path, on_epoch=twice)
    assert [row["step"] for row in rows] == [100, 200]
    (left,) = list_unfinished_runs(tmp_path)
    assert (left.step, left.problems) == (200, ())
    assert course_from(left.config) == course()
    assert left.last_row()["step"] == 200


@pytest.mark.parametrize(("answer", "ends"), [(np.bool_(False), True), (np.bool_(True), False)])
def test_numpy_says_false_as_well(tmp_path, answer, ends):
    with pytest.raises(Stopped) if ends else contextlib.nullcontext():
        train(course(), tmp_path, on_epoch=lambda row: answer)
    assert [left.step for left in list_unfinished_runs(tmp_path)] == [100] * ends


def test_only_false_ends_a_training():
    assert [courses.is_no(answer) for answer in (False, np.False_)] == [True, True]
    assert not any(courses.is_no(answer) for answer in (None, True, np.True_, 0, "", []))


def test_after_the_last_epoch_there_is_nothing_to_stop(tmp_path):
    run, _ = train(course(steps=100, initial_steps=50), tmp_path, on_epoch=lambda row: False)
    assert run.metrics["steps"] == 100


def test_stopped_before_its_first_step_it_begins_anew(whole, tmp_path):
    with pytest.raises(Stopped, match=r"^stopped at step 0$"):
        train(course(), tmp_path, should_stop=lambda: True)
    (left,) = list_unfinished_runs(tmp_path)
    assert left.step == 0
    resumed = []
    run, _ = train(course(), tmp_path, on_resume=resumed.append)
    assert resumed == []
    assert_same_outcome(run, whole)


def test_until_solved_ends_early(tmp_path):
    item = course(until_solved=True, solved_return=-1e6)
    run, _ = train(item, tmp_path)
    assert run.metrics["steps"] == 100
    assert run.metrics["solved_step"] == [100]
    with pytest.raises(InputError, match=r"until_solved: .* has no return that counts as solved"):
        train(course(until_solved=True), tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_checkpoints_may_be_rarer(tmp_path):
    seen = []

    def look(row):
        seen.append([int(path.name[5:]) for path in checkpoints(tmp_path, course())])

    train(course(), tmp_path, on_epoch=look, checkpoint_every=2)
    assert seen == [[], [200], [200]]


# --- faults -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "line"),
    [
        ("nan", r"Broken-v0 \(seed 0, training\): step 250: reward is nan"),
        ("raise", r"Broken-v0 \(seed 0, training\): step 250: OSError: the simulator"),
        ("shape", r"Broken-v0 \(seed 0, training\): step 250: observation has shape \(3,\), exp"),
        ("huge", r"step \d+: .*(critic_loss|q_value|action\[0\]|holdout error) is (nan|inf)"),
    ],
)
def test_a_fault_is_named_and_the_checkpoint_kept(tmp_path, monkeypatch, what, line):
    item = course("toy_worlds:Broken-v0")
    monkeypatch.setitem(toy_worlds.FAULTS, "what", what)
    monkeypatch.setitem(toy_worlds.FAULTS, "at", 250)
    with pytest.raises((Fault, EnvironmentFault), match=line) as fault:
        train(item, tmp_path)
    assert "\n" not in str(fault.value)
    assert checkpoints(tmp_path, item)[-1].name == "step-000000200"
    monkeypatch.setitem(toy_worlds.FAULTS, "at", 10**9)
    resumed = []
    run, _ = train(item, tmp_path, on_resume=resumed.append)
    assert resumed == [200]
    expected, _ = train(item, tmp_path / "whole")
    assert_same_outcome(run, expected)


def test_a_fault_before_the_first_checkpoint_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setitem(toy_worlds.FAULTS, "what", "raise")
    monkeypatch.setitem(toy_worlds.FAULTS, "at", 20)
    with pytest.raises(EnvironmentFault):
        train(course("toy_worlds:Broken-v0"), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_networks_that_are_not_finite_are_not_kept(tmp_path, monkeypatch):
    """The losses of an epoch are finite before its last update is known to be."""
    item = course()

    def spoiled(training):
        if training.books.step >= 200:
            learner = jax.tree.map(np.copy, training.export())
            learner.sac.log_alpha[0] = np.nan
            training.restore(learner)
        return snapshot(training)

    monkeypatch.setattr(courses, "snapshot", spoiled)
    with pytest.raises(Fault, match=r"step 200: sac\.log_alpha is not finite"):
        train(item, tmp_path)
    assert [path.name for path in checkpoints(tmp_path, item)] == ["step-000000100"]


@pytest.mark.parametrize(
    ("env", "changes", "line"),
    [
        ("toy_worlds:Toi-v0", {}, "unknown environment 'Toi-v0'; did you mean 'Toy-v0'"),
        ("CartPole-v1", {}, r"Discrete\(2\) actions"),
        (
            "toy_worlds:Toy-v0",
            {"algo": "narl", "termination": "known"},
            "termination: none is known for",
        ),
    ],
)
def test_what_cannot_be_trained_is_refused_before_anything_is_written(tmp_path, env, changes, line):
    with pytest.raises(InputError, match=line):
        train(course(env, **changes), tmp_path / "runs")
    assert list(tmp_path.iterdir()) == []


# --- environments whose state cannot be kept --------------------------------------------------


def long_closed():
    """Its episodes are longer than an epoch."""
    return TimeLimit(Rolling(), 130)


class Rolling(toy_worlds.Closed):
    """Never falls; its position is behind the handle."""

    def reset(self, *, seed=None, options=None):
        obs, info = super().reset(seed=seed)
        self.handle.hidden = obs[0]
        return obs, info

    def step(self, action):
        obs, reward, _, truncated, info = super().step(action)
        self.handle.hidden = 0.5 * self.handle.hidden + obs[0]
        obs[1] = self.handle.hidden
        return obs, reward, False, truncated, info


class Fickle(Rolling):
    """What it shows depends on how many of its kind there were."""

    lives = 0

    def __init__(self):
        super().__init__()
        type(self).lives += 1
        self.handle.life = type(self).lives

    def step(self, action):
        obs, *rest = super().step(action)
        return obs + 1e-3 * self.handle.life, *rest


REPEATED = "; when it is resumed, the episode is repeated up to there"


@pytest.mark.parametrize("kind", ["Closed", "LateClosed"])
def test_their_episode_is_repeated_when_they_are_resumed(tmp_path, caplog, kind):
    item = course(f"toy_worlds:{kind}-v0")
    with caplog.at_level(logging.WARNING, "narl"):
        expected, _ = train(item, tmp_path / "whole")
    problem = f"{kind}-v0: its attribute 'handle' is a toy_worlds.Handle"
    assert [record.getMessage() for record in caplog.records] == [problem + REPEATED]
    run, resumed = train_with_stops(item, tmp_path / "parts", 120, 173, 250)
    assert resumed == [120, 173, 250]
    assert_same_outcome(run, expected)


def test_episodes_longer_than_an_epoch_end_when_they_should(tmp_path):
    item = course(seeds=(0, 4))
    expected, _ = train(item, tmp_path / "whole", make_env=long_closed)
    assert expected.metrics["episodes"] == [2, 2]
    run, resumed = train_with_stops(item, tmp_path / "parts", 97, 215, make_env=long_closed)
    assert resumed == [97, 215]
    assert_same_outcome(run, expected)


def test_how_often_checkpoints_are_written_has_no_influence(tmp_path):
    runs = [
        train(course(), tmp_path / str(every), make_env=long_closed, checkpoint_every=every)[0]
        for every in (1, 3)
    ]
    assert_same_outcome(*runs)


def test_one_that_cannot_be_repeated_goes_on_with_a_new_episode(tmp_path, caplog):
    item = course(seeds=(0, 4))
    with pytest.raises(Stopped):
        train(item, tmp_path, make_env=Fickle, **stop_at(150))
    resumed = []
    with caplog.at_level(logging.WARNING, "narl"):
        run, _ = train(item, tmp_path, make_env=Fickle, on_resume=resumed.append)
    assert (resumed, run.metrics["steps"]) == ([150], 300)
    assert [line for line in caplog.messages if "seeds" in line] == [
        "Fickle (seeds 0, 4): the same seed and actions did not lead to the same episode; a new "
        "one begins, and what follows differs from a training that was not stopped"
    ]


def test_only_the_lanes_that_are_named_are_cut(tmp_path):
    with contextlib.closing(Training(course().settings, course(seeds=(0, 4)).specs())) as training:
        for _ in range(5):
            training.advance()
        before, returns = training.export(), list(training.books.episode_return)
        training.cut_episodes([1])
        after = training.export()
        assert after.obs[0].tobytes() == before.obs[0].tobytes()
        assert after.obs[1].tobytes() != before.obs[1].tobytes()
        assert training.books.episode_return == [returns[0], 0.0]
        training.cut_episodes()
        assert training.export().obs[1].tobytes() == after.obs[1].tobytes()  # seed of this step
        assert training.export().obs[0].tobytes() != after.obs[0].tobytes()


# --- large checkpoints, and the time they take ------------------------------------------------


def test_checkpoints_in_the_background_change_nothing(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "BACKGROUND", 0)
    monkeypatch.setattr(checkpoint, "LARGE", 1000)
    run, resumed = train_with_stops(course(), tmp_path, 37, 200)
    assert resumed == [37, 200]
    assert_same_outcome(run, whole)


def test_a_write_that_fails_in_the_background_ends_the_training(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "BACKGROUND", 0)
    write = checkpoint._write_npz

    def full(path, arrays):
        if "000000200" in str(path):
            raise OSError(28, "No space left on device")
        return write(path, arrays)

    monkeypatch.setattr(checkpoint, "_write_npz", full)
    with pytest.raises(OSError, match="checkpoint step-000000200 was not saved: No space left"):
        train(course(), tmp_path)
    assert [path.name for path in checkpoints(tmp_path, course())] == ["step-000000100"]


def test_a_stop_that_would_take_too_long_leaves_the_checkpoint_before(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(courses, "PATIENCE", 0.0)
    with pytest.raises(Stopped, match=r"^stopped at step 150, the last checkpoint is of step 100$"):
        train(course(), tmp_path, **stop_at(150))
    run, _ = train(course(), tmp_path)
    assert_same_outcome(run, whole)


def test_seconds_add_up_over_processes(tmp_path, monkeypatch):
    train_one = Training.__init__

    def slow_to_compile(training, *given, **named):
        train_one(training, *given, **named)
        training.runner.compile_seconds += 1000.0

    monkeypatch.setattr(Training, "__init__", slow_to_compile)
    run, _ = train_with_stops(course(), tmp_path, 50, 150)
    seconds = run.metrics["seconds"]
    assert 3000.0 <= seconds["compile"] < 4000.0
    assert 0.0 < seconds["checkpoint"] < seconds["total"]


def test_epochs_are_counted_from_the_beginning_of_the_training(tmp_path):
    """Not from where it was resumed."""
    item, seen = course(steps=500), []

    def look(row):
        seen.append([int(path.name[5:]) for path in checkpoints(tmp_path, item)])

    with pytest.raises(Stopped):
        train(item, tmp_path, checkpoint_every=2, **stop_at(350))
    train(item, tmp_path, on_epoch=look, checkpoint_every=2)
    assert seen == [[350, 400], [350, 400]]


# --- what is said of unfinished trainings -----------------------------------------------------


@pytest.fixture
def unfinished(tmp_path):
    with pytest.raises(Stopped):
        train(course(), tmp_path / "runs", **stop_at(130))
    (found,) = list_unfinished_runs(tmp_path / "runs")
    return found


def test_an_unfinished_training_is_located(unfinished):
    root = unfinished.path.parent
    for given in (unfinished.id, unfinished.id[:-4], f"{unfinished.id}.part", "train-sac"):
        assert locate_run(root, given) == unfinished
    assert locate_run(root / "elsewhere", str(unfinished.path)) == unfinished
    with pytest.raises(InputError, match=r"run: unknown value 'tabular'; did you mean 'train-sac"):
        locate_run(root, "tabular")
    with pytest.raises(InputError, match="holds no runs"):
        locate_run(root / "elsewhere", "train")
    assert unfinished.holder is None
    with lock_folder(unfinished.path):
        assert unfinished.holder is not None


def test_of_a_damaged_journal_the_rows_that_can_be_read_are_shown(unfinished):
    assert [row["step"] for row in unfinished.rows()] == [100]
    _a_key(unfinished.path / "progress.jsonl")
    assert (unfinished.rows(), unfinished.last_row()) == ([], None)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda content: content | {"narl": "0.0.9"}, "narl 0.0.9 began it and this is"),
        (lambda content: content | {"config": {}}, "training.json does not fit the folder's name"),
        (lambda content: {}, "training.json cannot be read"),
    ],
)
def test_one_that_cannot_be_continued_says_why(unfinished, change, line):
    file = unfinished.path / "training.json"
    file.write_text(json.dumps(change(json.loads(file.read_text()))))
    (problem,) = open_unfinished_run(unfinished.path).problems
    assert line in problem
    assert dataclasses.replace(unfinished, problems=()).step == 130
