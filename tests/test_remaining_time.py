"""The kinds of a training's steps, and the estimate of the time left."""

from collections import Counter

import pytest

from narl.deep.checked_config import make_config
from narl.remaining_time import EVALUATION, KINDS, MODELS, RANDOM, USUAL, StepSchedule, StepTimes

SCHEDULES = [
    StepSchedule(),
    StepSchedule(learn_after=30, epoch_length=25),
    StepSchedule(learn_after=30, epoch_length=40, first_fit=20, model_every=20),
]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("after", "last"), [(0, 200), (17, 90), (40, 41), (120, 120)])
def test_counts_are_those_of_the_steps_one_by_one(schedule, after, last):
    kinds = Counter(schedule.kind(step) for step in range(after + 1, last + 1))
    counts = schedule.count_kinds(after, last)
    assert sum(counts.values()) == last - after
    assert counts[MODELS] == kinds[MODELS]
    for kind in (RANDOM, USUAL, EVALUATION):  # a fit or an evaluation may fall on a random step
        assert abs(counts[kind] - kinds[kind]) <= 2, kind


def test_schedule_is_that_of_the_configuration():
    config = make_config("Hopper-v5", "narl", initial_steps=500, epoch_length=100, model_every=50)
    assert config.step_schedule == StepSchedule(500, 100, 500, 50)
    assert make_config("Hopper-v5", "sac").step_schedule.model_every == 0


def test_first_fit_and_stalled_steps_do_not_count():
    times = StepTimes(StepSchedule(model_every=10, first_fit=10), last_step=100)
    for step in range(1, 21):
        times.add(step, 60.0 if step == 10 else 2.0 if step == 20 else 30.0 if step == 5 else 0.5)
    left = times.seconds_left(20)
    assert left == pytest.approx(8 * 2.0 + 72 * 0.5)


def test_time_left_is_unknown_until_every_kind_was_seen():
    times = StepTimes(StepSchedule(learn_after=2), last_step=10)
    times.add(1, 0.1)
    assert times.seconds_left(1) is None
    times.add(3, 0.5)
    assert times.seconds_left(8) == pytest.approx(1.0)
    times.clear()
    assert times.seconds_left(8) is None
    assert set(KINDS) == {RANDOM, USUAL, EVALUATION, MODELS}
