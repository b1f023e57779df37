"""The replicas on the device: their state, and the functions of `Algorithm` as programs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from narl.deep.algorithm import ACT_USES, UPDATE_USES, Algorithm, StepInfo
from narl.deep.device_queue import DeviceQueue
from narl.deep.finite_check import FiniteCheck
from narl.deep.replicas import Program, Replicas

MOST_UNROLLED = 100
"""Updates per step up to which a GPU is sent all of a step's updates at once."""


class Result(NamedTuple):
    """The result to come of a program that was begun."""

    future: Future[Any]
    check: Callable[[Any], None] | None = None

    def get(self) -> Any:
        """Wait for the result; return it as NumPy arrays once its numbers are checked."""
        result = jax.tree.map(np.asarray, self.future.result())
        if self.check is not None:
            self.check(result)
        return result


class Device:
    """Runs the functions of `Algorithm` for all replicas, in the order in which they are called.

    Every function returns a `Result` at once, so that the host can go on.
    """

    def __init__(
        self, algorithm: Algorithm, replicas: Replicas, state: Any, check: FiniteCheck
    ) -> None:
        self.replicas, self._check = replicas, check
        self._queue = DeviceQueue(state)
        act = algorithm.act
        self._act_randomly = replicas.map(functools.partial(act, random=True), ACT_USES)
        self._act = replicas.map(functools.partial(act, random=False), ACT_USES)
        uses_all = algorithm.config.optimism_at == "update"
        self._update = replicas.map(
            algorithm.update,
            () if uses_all else UPDATE_USES,
            unrolled=algorithm.config.updates_per_step <= MOST_UNROLLED,
        )
        self._assess = replicas.map(algorithm.assess)
        self._fit_model = replicas.map(algorithm.fit_model)
        self._imagine = replicas.map(algorithm.imagine)

    def compile(self, algorithm: Algorithm, info: StepInfo) -> None:
        """Begin to compile every program side by side, while the first steps are random."""
        state, config, num_replicas = self.state(), algorithm.config, self.replicas.num_replicas
        observed = np.zeros((num_replicas, 2 * algorithm.obs_dim + 3), np.float32)
        starts = np.zeros((num_replicas, config.eval_episodes, algorithm.obs_dim), np.float32)
        programs: list[tuple[Program, Any]] = [
            (self._act_randomly, observed),
            (self._act, observed),
            (self._update, None),
            (self._assess, starts),
        ]
        if config.uses_model:
            programs += [(self._fit_model, None), (self._imagine, None)]
        for program, own in programs:
            program.compile_for(state, own, info)

    def act(self, observed: Float[np.ndarray, "N O"], info: StepInfo, *, random: bool) -> Result:
        """Begin `Algorithm.act`; the result is the next action of every replica."""
        program = self._act_randomly if random else self._act
        return Result(self._queue.submit(program, observed, info))

    def update(self, info: StepInfo) -> Result:
        """Begin `Algorithm.update`; the result is the critics' loss of every replica."""
        return Result(self._queue.submit(self._update, None, info), self._check.update)

    def fit_model(self, info: StepInfo) -> Result:
        """Begin `Algorithm.fit_model`; the result is a `FitReport`."""
        return Result(self._queue.submit(self._fit_model, None, info), self._check.fit_model)

    def imagine(self, info: StepInfo) -> Result:
        """Begin `Algorithm.imagine`; the result is an `Imagined`."""
        return Result(self._queue.submit(self._imagine, None, info), self._check.imagine)

    def assess(self, starts: Float[np.ndarray, "N B D"], info: StepInfo) -> Result:
        """Begin `Algorithm.assess`; the result is an `Assessment`."""
        return Result(self._queue.submit(self._assess, starts, info), self._check.assess)

    def state(self) -> Any:
        """Wait for everything that was begun and return the state of the replicas."""
        return self._queue.wait()

    def replace(self, state: Any) -> None:
        """Go on with another state, once everything that was begun is done."""
        self._queue.replace(state)

    def deactivate(self, replicas: Collection[int]) -> None:
        """Spend as little as possible on these replicas; their results do not matter any more."""
        self.replace(self.replicas.deactivate(self.state(), replicas))

    def close(self) -> None:
        """End the thread of the queue."""
        self._queue.close()
