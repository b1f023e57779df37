"""Evaluation of policies: deterministic episodes on the host, and which seeds solved the task.

Actions are computed in NumPy: for a small network this takes a twentieth of the time of a call to
an accelerator, and an evaluation computes about a thousand of them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from narl.deep.config import Config
from narl.deep.counters import Counters
from narl.deep.env_state import derived_seed
from narl.deep.environment import HostEnv, Step
from narl.deep.networks import Network
from narl.deep.policy import act_in_numpy

if TYPE_CHECKING:
    from narl.deep.environment_pool import ReplicaEnvironments

NUM_CONFIRMING = 10
"""Episodes whose mean confirms that a task is solved."""


class Evaluation(NamedTuple):
    """Returns and lengths of deterministic episodes, as `Agent.evaluate` gives them.

    Example:
        >>> evaluation = narl.deep.Evaluation([1.0, 3.0], [10, 12], [False, True])
        >>> sum(evaluation.returns) / len(evaluation.returns)
        2.0
    """

    returns: list[float]
    """The sum of the rewards of every episode."""
    lengths: list[int]
    """The number of steps of every episode."""
    truncated: list[bool]
    """Whether the environment cut an episode that had not terminated."""


class Episodes(NamedTuple):
    """Deterministic episodes that a policy is to play."""

    actor: Network
    num_episodes: int
    seed: int
    horizon: int
    """The largest number of steps in an episode."""


def play_episode(actor: Network, env: HostEnv, seed: int, horizon: int) -> Iterator[Step]:
    """Yield the steps of one deterministic episode of at most ``horizon`` steps."""
    obs = env.reset(seed=seed)
    for _ in range(horizon):
        step = env.step(act_in_numpy(actor, obs, discrete=env.spaces.discrete))
        yield step
        if step.terminated or step.truncated:
            return
        obs = step.obs


def evaluate(
    actor: Network, env: HostEnv, num_episodes: int, seed: int, horizon: int
) -> Evaluation:
    """Play ``num_episodes`` deterministic episodes and return what they gave."""
    evaluation = Evaluation([], [], [])
    for episode_seed in _episode_seeds(seed, num_episodes):
        total, length, truncated = 0.0, 0, False
        for step in play_episode(actor, env, episode_seed, horizon):
            total, length = total + step.reward, length + 1
            truncated = step.truncated and not step.terminated
        evaluation.returns.append(total)
        evaluation.lengths.append(length)
        evaluation.truncated.append(truncated)
    return evaluation


def first_observations(env: HostEnv, num_episodes: int, seed: int) -> Float[np.ndarray, "B D"]:
    """Return the observations with which the episodes of `evaluate` begin."""
    return np.stack([env.reset(seed=each) for each in _episode_seeds(seed, num_episodes)])


def _episode_seeds(seed: int, num_episodes: int) -> list[int]:
    """Return one seed per episode: where an episode begins depends on no other episode."""
    return [seed, *(derived_seed(seed, i) for i in range(1, num_episodes))]


def evaluation_seed(seed: int, step: int) -> int:
    """Return the seed of an evaluation: the same whenever the training comes to this step."""
    return derived_seed(seed, step)


class Evaluator:
    """Evaluates the replicas of a training, each in an environment of its own."""

    def __init__(
        self, config: Config, seeds: Sequence[int], envs: ReplicaEnvironments, horizon: int
    ) -> None:
        self._config, self._seeds, self._envs = config, seeds, envs
        self._horizon = horizon

    def starts(self, step: int) -> Float[np.ndarray, "N B D"]:
        """Return the first observations of the evaluation at this step."""
        seeds = {i: evaluation_seed(seed, step) for i, seed in enumerate(self._seeds)}
        starts = self._envs.first_observations(seeds, self._config.eval_episodes)
        return np.stack(list(starts.values()))

    def evaluate(
        self, actors: Any, counters: Counters, active: Sequence[int]
    ) -> tuple[list[Evaluation], dict[str, Any]]:
        """Evaluate the active replicas and count which of them have solved the task.

        Return an evaluation per replica, empty ones for the others, and the figures that confirm
        the solved ones.
        """
        num_episodes = self._config.eval_episodes
        played = self._play(actors, num_episodes, active, counters.step)
        empty = Evaluation([math.nan] * num_episodes, [0] * num_episodes, [False] * num_episodes)
        evaluations = [played.get(i, empty) for i in range(len(self._seeds))]
        target = self._config.solved_return
        for i, evaluation in played.items():
            solved = target is not None and float(np.mean(evaluation.returns)) >= target
            if solved and counters.solved_step[i] is None:
                counters.solved_step[i] = counters.step
        return evaluations, self._confirm(actors, counters, active)

    def _confirm(
        self, actors: Any, counters: Counters, active: Sequence[int]
    ) -> dict[str, list[float | None] | list[int | None]]:
        """Play ten episodes with replicas that solved the task, until their mean confirms it.

        One episode may have been lucky. The threshold is the environment's own, such as 950 for
        InvertedPendulum, or the return that counts as solved where there is none.
        """
        solved, confirmed = counters.solved_step, counters.confirmed_step
        unconfirmed = [i for i in active if solved[i] is not None and confirmed[i] is None]
        spec = self._envs.example.env.spec
        threshold = None if spec is None else spec.reward_threshold
        threshold = self._config.solved_return if threshold is None else threshold
        means: list[float | None] = [None] * len(self._seeds)
        played = self._play(actors, NUM_CONFIRMING, unconfirmed, counters.step, fresh=True)
        for i, evaluation in played.items():
            mean = means[i] = float(np.mean(evaluation.returns))
            if threshold is not None and mean >= threshold:
                confirmed[i] = counters.step
        return {"mean10": means, "confirmed_step": list(confirmed)}

    def _play(
        self,
        actors: Any,
        num_episodes: int,
        replicas: Collection[int],
        step: int,
        *,
        fresh: bool = False,
    ) -> dict[int, Evaluation]:
        """Evaluate replicas; with ``fresh``, on other seeds than the evaluation at this step."""

        def episodes(i: int) -> Episodes:
            actor = jax.tree.map(lambda x: x[i], actors)
            seed = evaluation_seed(self._seeds[i], step)
            seed = evaluation_seed(seed, 1) if fresh else seed
            return Episodes(actor, num_episodes, seed, self._horizon)

        return self._envs.evaluate({i: episodes(i) for i in replicas})
