"""Courses that share one program: each as if it had been trained alone."""

import dataclasses
import functools
import shutil

import jax
import numpy as np
import pytest

from narl import storage
from narl.deep.plan import Group, course_from
from narl.deep.replicas import VmapLanes
from narl.deep.trainer import Training
from narl.deep.training_run import Course, Stopped, train, train_together
from narl.errors import InputError
from narl.experiments.experiment import batches
from narl.storage.unfinished import STAGED, list_unfinished_runs
from short_courses import cache, course, journal, programs  # noqa: F401

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cache")]

NARROW = course(algo="narl", seeds=(0, 4), radius=0.1)
WIDE = course(algo="narl", seeds=(0,), radius=None)
MBPO = course(algo="mbpo", seeds=(4,))


def stop_at(stop, items, root):
    """Trains them together up to a step."""
    now = [0]

    def on_step(step):
        now[0] = step

    with pytest.raises(Stopped):
        train_together(items, root, on_step=on_step, should_stop=lambda: now[0] == stop)


def assert_as_alone(run, alone):
    """Equal to the last bit, but for the times and for how many lanes there were."""
    arrays, own = run.arrays(), alone.arrays()
    assert sorted(arrays) == sorted(own)
    for name, array in arrays.items():
        assert array.tobytes() == own[name].tobytes(), name
    assert journal(run) == journal(alone)
    drop = {"seconds", "lanes"}
    assert {k: v for k, v in run.metrics.items() if k not in drop} == {
        k: v for k, v in alone.metrics.items() if k not in drop
    }
    assert run.config == alone.config
    assert run.id == alone.id


@pytest.fixture(scope="module")
def alone(tmp_path_factory, cache):  # noqa: F811
    root = tmp_path_factory.mktemp("alone")
    return [train(item, root)[0] for item in (NARROW, WIDE, MBPO)]


def test_a_course_among_others_is_what_it_is_alone(alone, tmp_path):
    made = train_together([NARROW, WIDE, MBPO], tmp_path)
    assert [found for _, found in made] == [False] * 3
    for (run, _), expected in zip(made, alone, strict=True):
        assert run.metrics["lanes"] == 4
        assert_as_alone(run, expected)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(run.id for run, _ in made)
    again = train_together([NARROW, WIDE, MBPO], tmp_path)
    assert [found for _, found in again] == [True] * 3


def test_those_that_are_finished_are_found_and_the_others_trained(alone, tmp_path):
    train(WIDE, tmp_path)
    made = train_together([NARROW, WIDE, MBPO], tmp_path)
    assert [found for _, found in made] == [False, True, False]
    for (run, _), expected in zip(made, alone, strict=True):
        assert_as_alone(run, expected)


def test_a_group_is_continued(alone, tmp_path):
    items = [NARROW, WIDE, MBPO]
    stop_at(173, items, tmp_path)
    resumed = []
    made = train_together(items, tmp_path, on_resume=resumed.append)
    assert resumed == [173]
    for (run, _), expected in zip(made, alone, strict=True):
        assert_as_alone(run, expected)


@pytest.fixture(scope="module")
def racing(tmp_path_factory, cache):  # noqa: F811
    """Three courses with a bar that one reaches in the first epoch and another does not; alone."""
    three = course(algo="narl", seeds=(0, 1, 2), radius=None)
    first = journal(train(three, tmp_path_factory.mktemp("look"))[0])[0]["eval_return"]
    settings = dataclasses.replace(three.settings, solved_return=sorted(first)[-1])
    items = [Course(settings, (seed,), until_solved=True) for seed in (0, 1, 2)]
    alone = [train(item, tmp_path_factory.mktemp("single"))[0] for item in items]
    assert min(run.metrics["steps"] for run in alone) == 100
    assert max(run.metrics["steps"] for run in alone) > 100
    return items, alone


def test_a_course_that_is_solved_first_ends_there(racing, tmp_path):
    items, alone = racing
    made = train_together(items, tmp_path)
    for (run, _), expected in zip(made, alone, strict=True):
        assert_as_alone(run, expected)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(run.id for run in alone)


@pytest.mark.parametrize("stop", [100, 150])
def test_so_it_does_when_the_others_are_stopped_and_continued(racing, tmp_path, stop):
    items, alone = racing
    stop_at(stop, items, tmp_path)
    # Meanwhile somebody trains one of them by itself: the group is found nevertheless.
    solved = min(range(3), key=lambda i: alone[i].metrics["steps"])
    train(items[solved], tmp_path)
    resumed = []
    made = train_together(items, tmp_path, on_resume=resumed.append)
    assert resumed == [stop]
    assert [found for _, found in made] == [i == solved for i in range(3)]
    for (run, _), expected in zip(made, alone, strict=True):
        assert_as_alone(run, expected)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(run.id for run in alone)


@pytest.mark.parametrize("lost", [True, False])
def test_a_course_that_was_done_and_is_damaged_since_is_trained_again(racing, tmp_path, lost):
    items, alone = racing
    stop_at(150, items, tmp_path)
    (left,) = list_unfinished_runs(tmp_path)
    for kept in (left.path / STAGED).iterdir():
        content = bytearray((kept / "arrays.npz").read_bytes())
        content[len(content) // 2] ^= 1
        if lost:
            shutil.rmtree(kept)
        else:
            (kept / "arrays.npz").write_bytes(content)
    made = train_together(items, tmp_path)
    for (run, found), expected in zip(made, alone, strict=True):
        assert not found
        assert storage.load_run(run.path).problems == ()
        assert_as_alone(run, expected)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(run.id for run in alone)


def test_killed_while_the_first_of_its_runs_was_put_into_place(racing, tmp_path):
    """It is in the store then, and no longer in the folder of the unfinished training."""
    items, alone = racing
    stop_at(150, items, tmp_path)
    (left,) = list_unfinished_runs(tmp_path)
    (kept,) = (left.path / STAGED).iterdir()
    kept.rename(tmp_path / kept.name)
    made = train_together(items, tmp_path)
    assert [found for _, found in made] == [run.id == kept.name for run in alone]
    for (run, _), expected in zip(made, alone, strict=True):
        assert_as_alone(run, expected)


def test_lanes_of_one_batch_go_on_without_those_that_are_done(tmp_path, monkeypatch):
    """As on an accelerator: stopped after one was done, and continued, to the last bit."""
    batched = functools.partial(Training, runner=VmapLanes)
    monkeypatch.setattr("narl.deep.training_run.Training", batched)
    three = course(algo="narl", seeds=(0, 1, 2), radius=None)
    first = journal(train(three, tmp_path / "look")[0])[0]["eval_return"]
    settings = dataclasses.replace(three.settings, solved_return=max(first))
    items = [Course(settings, (seed,), until_solved=True) for seed in (0, 1, 2)]
    whole = train_together(items, tmp_path / "whole")
    steps = [run.metrics["steps"] for run, _ in whole]
    assert min(steps) == 100
    assert max(steps) > 150
    stop_at(150, items, tmp_path / "parts")
    parts = train_together(items, tmp_path / "parts")
    for (run, _), (expected, _) in zip(parts, whole, strict=True):
        assert_as_alone(run, expected)


def test_a_damaged_journal_of_a_group_is_restored(racing, tmp_path, caplog):
    """One of them is done by then."""
    items, alone = racing
    stop_at(150, items, tmp_path)
    (left,) = list_unfinished_runs(tmp_path)
    (left.path / "progress.jsonl").write_bytes(b'{"epoch": 1}\n')
    assert left.rows() == []
    made = train_together(items, tmp_path)
    assert [line.partition(";")[0] for line in caplog.messages] == [
        "progress.jsonl is damaged or was changed"
    ]
    for (run, _), expected in zip(made, alone, strict=True):
        assert_as_alone(run, expected)


def test_a_lane_that_is_done_stops_nobody(racing, tmp_path, monkeypatch):
    items, alone = racing
    retire = Training.retire

    def retire_and_break(self, lanes):
        retire(self, lanes)
        learner = jax.tree.map(np.copy, self.export())
        learner.sac.critic[0].b[lanes] = np.nan
        self.restore(learner)

    monkeypatch.setattr(Training, "retire", retire_and_break)
    made = train_together(items, tmp_path)
    for (run, _), expected in zip(made, alone, strict=True):
        assert_as_alone(run, expected)


def test_only_one_shape_can_be_trained_together():
    for other in (
        course(algo="sac"),
        course(algo="narl", members=3),
        course(algo="narl", steps=400),
    ):
        with pytest.raises(InputError, match="cannot be trained together"):
            Group((NARROW, other))
    with pytest.raises(InputError, match="2 trainings together"):
        course_from(Group((NARROW, WIDE)).config())


def test_trainings_of_one_shape_form_a_batch():
    cells = {"a": NARROW, "b": course(algo="narl", members=3), "c": WIDE, "d": MBPO}
    assert batches(cells) == [("a", "c", "d"), ("b",)]
