"""The time that a training still takes: its kinds of steps, how many remain, how long each takes.

A step that fits the models or evaluates the policies takes far longer than the others.
"""

from __future__ import annotations

import statistics
from collections import deque
from typing import NamedTuple

RANDOM, USUAL, EVALUATION, MODELS = "random", "usual", "evaluating", "training the models"
"""The kinds of steps; the last two are words for people as well."""
KINDS = (RANDOM, USUAL, EVALUATION, MODELS)
WINDOW, LONG_WINDOW = 5, 300
"""Steps whose seconds are averaged: of those that fit or evaluate, and of the others."""
STALLED = 10.0
"""A usual step that takes so many times the median waited for the compiler and is left out."""


class StepSchedule(NamedTuple):
    """The steps of a training at which models are fitted and policies are evaluated."""

    learn_after: int = 0
    """Steps before the first update."""
    epoch_length: int = 0
    """Steps between two evaluations; 0: there are none."""
    first_fit: int = 0
    model_every: int = 0
    """Steps between two fits of the models; 0: there are none."""

    def kind(self, step: int) -> str:
        """Return the kind of a step, counted from 1."""
        after = step - self.first_fit
        if self.model_every and after >= 0 and after % self.model_every == 0:
            return MODELS
        if self.epoch_length and step % self.epoch_length == 0:
            return EVALUATION
        return RANDOM if step <= self.learn_after else USUAL

    def count_kinds(self, after: int, last: int) -> dict[str, int]:
        """Return how many steps of each kind there are after a step, the last one included.

        Evaluations that fall on a fit are counted as fits if all of them do.
        """
        models = self._num_fits(last) - self._num_fits(after)
        evaluations = 0
        if self.epoch_length:
            evaluations = last // self.epoch_length - after // self.epoch_length
        every = self.model_every
        if every and self.epoch_length % every == 0 and self.first_fit % every == 0:
            evaluations = max(evaluations - models, 0)
        random = max(min(self.learn_after, last) - after, 0)
        usual = max(last - after - random - models - evaluations, 0)
        return dict(zip(KINDS, (random, usual, evaluations, models), strict=True))

    def _num_fits(self, step: int) -> int:
        if not self.model_every or step < self.first_fit:
            return 0
        return (step - self.first_fit) // self.model_every + 1


class StepTimes:
    """Seconds of the steps so far by kind, and the estimate of the seconds left."""

    def __init__(self, schedule: StepSchedule, last_step: int) -> None:
        self._schedule, self._last_step = schedule, last_step
        self.clear()

    def clear(self) -> None:
        """Remove the recorded durations of all steps."""
        self._seconds = {
            kind: deque[float](maxlen=WINDOW if kind in (EVALUATION, MODELS) else LONG_WINDOW)
            for kind in KINDS
        }
        self._num_seen = dict.fromkeys(KINDS, 0)

    def add(self, step: int, seconds: float) -> None:
        """Count the seconds of a step."""
        kind = self._schedule.kind(step)
        self._num_seen[kind] += 1
        if kind in (EVALUATION, MODELS) and self._num_seen[kind] == 2:
            self._seconds[kind].clear()  # the first of its kind waited for the compiler
        self._seconds[kind].append(seconds)

    def seconds_left(self, step: int) -> float | None:
        """Return the seconds from a step to the end; None while some kind was not seen yet."""
        total = 0.0
        for kind, number in self._schedule.count_kinds(step, self._last_step).items():
            if not number:
                continue
            if not self._seconds[kind]:
                return None
            total += number * self._typical(kind)
        return total

    def _typical(self, kind: str) -> float:
        seconds = self._seconds[kind]
        most = STALLED * statistics.median(seconds)
        return statistics.fmean(x for x in seconds if x <= most)
