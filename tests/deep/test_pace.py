"""Evaluations by threads or by one alone: whichever is quicker, with the same episodes."""

import threading

import numpy as np
import pytest
from probes import Drift
from tiny import tiny_settings

from narl.deep import examination
from narl.deep.examination import RETRY, TELLING, Pace
from narl.deep.trainer import LaneSpec, Training

SHARED_IS_SLOW = {True: 2.0, False: 1.0}


def follow(pace, cost, num, steps=TELLING):
    """What is chosen, time after time, where a step costs so much."""
    chosen = []
    for _ in range(num):
        chosen.append(pace.shared)
        pace.note(steps, cost[pace.shared] * steps)
    return chosen


@pytest.mark.parametrize("slow", [True, False])
def test_both_are_tried_and_the_quicker_one_stays(slow):
    cost = {slow: 2.0, not slow: 1.0}
    chosen = follow(Pace(), cost, RETRY)
    assert set(chosen[:2]) == {True, False}
    assert chosen[2:] == [not slow] * (RETRY - 2)


def test_the_slower_one_is_tried_again_and_may_have_become_the_quicker():
    pace = Pace()
    follow(pace, SHARED_IS_SLOW, RETRY)
    assert follow(pace, SHARED_IS_SLOW, 3) == [True, False, False]
    follow(pace, SHARED_IS_SLOW, RETRY - 3)
    assert follow(pace, {True: -0.5, False: 1.0}, 3) == [True, True, True]


def test_one_slow_moment_does_not_decide():
    pace = Pace()
    follow(pace, SHARED_IS_SLOW, 10)
    pace.note(TELLING, 2.5 * TELLING)  # the quicker one, disturbed: (1 + 2.5) / 2 < 2
    assert not pace.shared


def test_a_short_evaluation_says_nothing():
    pace = Pace()
    first = pace.shared
    follow(pace, SHARED_IS_SLOW, 10, steps=TELLING - 1)
    assert pace.shared == first


class Watched(Drift):
    """Remembers who steps it."""

    threads: set

    def step(self, action):
        self.threads.add(threading.get_ident())
        return super().step(action)


def test_the_episodes_do_not_depend_on_it(monkeypatch):
    monkeypatch.setattr(examination, "num_cores", lambda: 2)
    monkeypatch.setattr(examination, "TELLING", 1)
    monkeypatch.setattr(Watched, "threads", set(), raising=False)
    lanes = (LaneSpec(3, "sac", None), LaneSpec(4, "sac", None))
    training = Training(tiny_settings(algo="sac"), lanes, make_env=Watched)
    actors = training.runner.export(training.state, lambda learner: learner.sac.actor)
    found, mine = [], threading.get_ident()
    # By threads at first, then by this one alone: an evaluation is what it learns from.
    for by_me in (False, True):
        Watched.threads.clear()
        found.append(training._examiner.examine(actors, training.books)[0])
        assert (Watched.threads == {mine}) == by_me
        assert (mine in Watched.threads) == by_me
    training.close()
    assert found[0] == found[1]
    assert len(found[0]) == 2
    assert not np.isnan([evaluation.returns for evaluation in found[0]]).any()
    assert found[0][0].returns != found[0][1].returns
