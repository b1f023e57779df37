"""Counters that the host keeps during a training: steps, episodes, solved tasks, seconds."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import jax
import numpy as np

from narl.deep.rollout import SelectionSums
from narl.deep.selection_diagnostics import FitDiagnostics

Method = TypeVar("Method", bound=Callable[..., Any])
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

    def add_reward(self, replica: int, reward: float, ends_episode: bool) -> None:
        """Count the reward of a step, and the episode if the step was its last one."""
        self.episode_return[replica] += reward
        if ends_episode:
            self.finished[replica].append(self.episode_return[replica])
            self.num_episodes[replica] += 1
            self.episode_return[replica] = 0.0

    def add_imagined(self, sums: SelectionSums, diagnostics: FitDiagnostics) -> None:
        """Add the reports of an imagination to those of this epoch.

        The diagnostics have one entry per fit, along an axis after that of the replicas.
        """
        fits, earlier = jax.tree.map(lambda x: x[:, None], diagnostics), self.reports
        if "selections" in earlier:
            sums = jax.tree.map(np.add, earlier["selections"], sums)
            fits = jax.tree.map(
                lambda a, b: np.concatenate([a, b], axis=1), earlier["diagnostics"], fits
            )
        self.reports |= {"selections": sums, "diagnostics": fits}

    def begin_epoch(self) -> None:
        """Forget what only the metrics of the last epoch needed."""
        self.finished, self.reports = [[] for _ in self.finished], {}

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


def timed(part: str) -> Callable[[Method], Method]:
    """Return a decorator that adds the seconds of a trainer's method to one part."""

    def decorate(method: Method) -> Method:
        @functools.wraps(method)
        def timed_method(trainer: Any, *arguments: Any) -> Any:
            with trainer.counters.time(part, lambda: trainer.replicas.compiler.seconds):
                return method(trainer, *arguments)

        return cast(Method, timed_method)

    return decorate
