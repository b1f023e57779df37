"""Counters that the host keeps during a training: steps, episodes, solved tasks, seconds."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any

TIMED = ("env", "model", "rollout", "sac", "eval", "checkpoint")
"""The parts of a training whose seconds are counted."""


@dataclasses.dataclass
class Counters:
    """Counts per replica, and what the metrics of the running epoch need."""

    step: int = 0
    """Environment steps of every replica so far."""
    episode_return: list[float] = dataclasses.field(default_factory=list)
    """Return so far of the running episode."""
    finished: list[list[float]] = dataclasses.field(default_factory=list)
    """Returns of the episodes that ended in this epoch."""
    num_episodes: list[int] = dataclasses.field(default_factory=list)
    solved_step: list[int | None] = dataclasses.field(default_factory=list)
    """Step of the first evaluation whose return counts as solved."""
    confirmed_step: list[int | None] = dataclasses.field(default_factory=list)
    """Step of the first evaluation whose mean of ten episodes reached the threshold."""
    reports: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Reports of the fits ("fit") and rollouts ("selections") of this epoch."""
    seconds: dict[str, float] = dataclasses.field(default_factory=lambda: dict.fromkeys(TIMED, 0.0))

    @contextlib.contextmanager
    def time(self, part: str, compile_seconds: Callable[[], float]) -> Iterator[None]:
        """Add the seconds of a block to one part, without those spent waiting for a compiler."""
        begin = time.perf_counter() - compile_seconds()
        try:
            yield
        finally:
            self.seconds[part] += time.perf_counter() - compile_seconds() - begin


def new_counters(num_replicas: int) -> Counters:
    """Return the counters of a training that has not begun."""
    return Counters(
        episode_return=[0.0] * num_replicas,
        finished=[[] for _ in range(num_replicas)],
        num_episodes=[0] * num_replicas,
        solved_step=[None] * num_replicas,
        confirmed_step=[None] * num_replicas,
    )
