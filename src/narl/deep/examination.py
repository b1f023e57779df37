"""Evaluations of a training: deterministic episodes, and who has solved the task by them."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from narl.deep.config import Settings
from narl.deep.counters import Books, LaneSpec
from narl.deep.environment import HostEnv
from narl.deep.evaluation import Evaluation, evaluate, evaluation_seed, first_observations
from narl.deep.replicas import num_cores

CONFIRMING = 10
"""Episodes whose mean confirms that a task is solved."""
TELLING = 500
"""Steps from which on the time that an evaluation took says something."""
RETRY = 50
"""After so many of them the slower way is tried again."""


class Pace:
    """Whether threads share the lanes of an evaluation: what has been quicker so far.

    MuJoCo lets other threads run while it steps. Where a step is short, as InvertedPendulum's is,
    handing over costs more than that gains: threads take twice as long there as one alone.
    Either way gives the same episodes.
    """

    def __init__(self) -> None:
        self.shared = True
        self._seconds = {True: 0.0, False: 0.0}
        """Per step; nothing is quicker than what was never tried."""
        self._num = 0

    def note(self, steps: int, seconds: float) -> None:
        """How long an evaluation took; decides how the next one is done.

        Other work on the machine comes and goes: half of the figure is the latest, and now and
        then the slower way is tried again.
        """
        if steps < TELLING:
            return
        before, now = self._seconds[self.shared], seconds / steps
        self._seconds[self.shared] = (before + now) / 2 if before else now
        self._num += 1
        quicker = min(self._seconds, key=lambda shared: self._seconds[shared])
        self.shared = quicker if self._num % RETRY else not quicker


class Examiner:
    """Examines the lanes of a training, each in an environment of its own."""

    def __init__(
        self, settings: Settings, specs: Sequence[LaneSpec], envs: Sequence[HostEnv], horizon: int
    ) -> None:
        self._settings, self._specs, self._envs = settings, specs, envs
        self._horizon = horizon
        self._pace = Pace()

    def _seed(self, lane: int, step: int) -> int:
        return evaluation_seed(self._specs[lane].seed, step)

    def starts(self, step: int) -> Float[np.ndarray, "N B D"]:
        """First observations of the evaluation at this step."""
        episodes, each = self._settings.eval_episodes, enumerate(self._envs)
        return np.stack([first_observations(env, episodes, self._seed(i, step)) for i, env in each])

    def examine(
        self, actors: Any, books: Books, retired: Collection[int] = ()
    ) -> tuple[list[Evaluation], dict[str, Any]]:
        """The evaluations of all lanes, and what confirms them; books are kept of both.

        For those that are retired an empty one stands in.
        """
        episodes = self._settings.eval_episodes
        lanes = [i for i in range(len(self._specs)) if i not in retired]
        begin = time.perf_counter()
        made = self._episodes(actors, episodes, lanes, books.step)
        self._pace.note(sum(sum(one.lengths) for one in made), time.perf_counter() - begin)
        found = dict(zip(lanes, made, strict=True))
        nothing = Evaluation([math.nan] * episodes, [0] * episodes, [False] * episodes)
        evaluations = [found.get(i, nothing) for i in range(len(self._specs))]
        returns = [float(np.mean(evaluation.returns)) for evaluation in evaluations]
        solved = _note_solved(self._settings, books, returns)
        return evaluations, self._confirm(actors, [i for i in solved if i in found], books)

    def _episodes(self, actors: Any, num: int, lanes: Sequence[int], step: int) -> list[Evaluation]:
        def one(i: int) -> Evaluation:
            actor = jax.tree.map(lambda x: x[i], actors)
            return evaluate(actor, self._envs[i], num, self._seed(i, step), self._horizon)

        many = min(len(lanes), num_cores())
        if many < 2 or not self._pace.shared:
            return [one(i) for i in lanes]
        with ThreadPoolExecutor(many) as threads:
            return list(threads.map(one, lanes))

    def _confirm(self, actors: Any, lanes: Sequence[int], books: Books) -> dict[str, Any]:
        """Ten episodes where the task has been solved, until their mean reaches the threshold.

        One episode may have been lucky. The threshold is the environment's own, such as 950 for
        InvertedPendulum, or what counts as solved where it has none.
        """
        means: list[float | None] = [None] * len(self._specs)
        spec = self._envs[0].env.spec
        threshold = None if spec is None else spec.reward_threshold
        threshold = self._settings.solved_return if threshold is None else threshold
        found = self._episodes(actors, CONFIRMING, lanes, books.step)
        for i, evaluation in zip(lanes, found, strict=True):
            mean = means[i] = float(np.mean(evaluation.returns))
            if threshold is not None and mean >= threshold:
                books.confirmed_step[i] = books.step
        return {"mean10": means, "confirmed_step": list(books.confirmed_step)}


def _note_solved(settings: Settings, books: Books, returns: Sequence[float]) -> list[int]:
    """Writes down who has solved the task now; gives those that are yet to be confirmed."""
    target = settings.solved_return
    for i, value in enumerate(returns):
        if target is not None and value >= target and books.solved_step[i] is None:
            books.solved_step[i] = books.step
    both = enumerate(zip(books.solved_step, books.confirmed_step, strict=True))
    return [i for i, (solved, sure) in both if solved is not None and sure is None]
