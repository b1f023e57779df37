"""Courses that share one program: each as if it had been trained alone."""

import dataclasses

import pytest

from narl.deep.course import Stopped, train, train_together
from narl.deep.plan import Group, course_from
from narl.errors import InputError
from narl.experiments.experiment import batches
from short_courses import cache, course, journal, programs  # noqa: F401

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("cache")]

NARROW = course(algo="narl", seeds=(0, 4), radius=0.1)
WIDE = course(algo="narl", seeds=(0,), radius=None)
MBPO = course(algo="mbpo", seeds=(4,))


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
    now = [0]

    def on_step(step):
        now[0] = step

    items = [NARROW, WIDE, MBPO]
    with pytest.raises(Stopped):
        train_together(items, tmp_path, on_step=on_step, should_stop=lambda: now[0] == 173)
    resumed = []
    made = train_together(items, tmp_path, on_resume=resumed.append)
    assert resumed == [173]
    for (run, _), expected in zip(made, alone, strict=True):
        assert_as_alone(run, expected)


def test_a_course_that_is_solved_first_ends_there(tmp_path):
    """The others go on; it is kept as it was, also when they are stopped and continued."""
    easy = course(algo="narl", seeds=(0, 1), until_solved=True, solved_return=-1e9)
    # Which of them solves it when is up to the returns: one that all reach at once, and one
    # that depends on the seed.
    alone = train(easy, tmp_path / "alone")[0]
    assert alone.metrics["steps"] == 100
    returns = [row["eval_return"] for row in journal(train(WIDE, tmp_path / "look")[0])]
    bar = max(max(values) for values in returns) + 1.0
    hard = dataclasses.replace(WIDE.settings, solved_return=bar)
    never = dataclasses.replace(WIDE, settings=hard, until_solved=True)
    with pytest.raises(InputError, match="cannot be trained together"):
        Group((easy, never))
    among = [dataclasses.replace(never, seeds=(seed,)) for seed in (0, 1, 2)]
    single = [train(item, tmp_path / "single")[0] for item in among]
    made = train_together(among, tmp_path / "together")
    for (run, _), expected in zip(made, single, strict=True):
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
