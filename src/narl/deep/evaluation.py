"""Deterministic episodes of the policy, on the host.

The actor is a small network: NumPy answers in a twentieth of the time that a call to an
accelerator takes, and an evaluation is a thousand answers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from narl.deep.environment import HostEnv
from narl.deep.networks import Network


class Evaluation(NamedTuple):
    """What the episodes gave."""

    returns: list[float]
    lengths: list[int]
    truncated: list[bool]
    """Whether the environment cut an episode that had not terminated."""


def numpy_mode(actor: Network, obs: Float[np.ndarray, " D"]) -> Float[np.ndarray, " A"]:
    """tanh(mean), as `nets.mode_action` gives it."""
    x = obs
    for layer in actor[:-1]:
        x = np.maximum(x @ layer.w + layer.b, 0.0)
    mean = x @ actor[-1].w + actor[-1].b
    return np.tanh(mean[: mean.shape[0] // 2])


def evaluate(
    actor: Network,
    env: HostEnv,
    num_episodes: int,
    seed: int,
    horizon: int,
    frames: list[Any] | None = None,
) -> Evaluation:
    """``num_episodes`` episodes of at most ``horizon`` steps; with ``frames``, pictures of them."""
    returns, lengths, truncated = [], [], []
    for of_episode in _episode_seeds(seed, num_episodes):
        obs = env.reset(seed=of_episode)
        total, length, over, cut = 0.0, 0, False, False
        while not over and length < horizon:
            if frames is not None:
                frames.append(env.render())
            step = env.step(numpy_mode(actor, obs))
            obs, over = step.obs, step.terminated or step.truncated
            cut = step.truncated and not step.terminated
            total, length = total + step.reward, length + 1
        returns.append(total)
        lengths.append(length)
        truncated.append(cut)
    return Evaluation(returns, lengths, truncated)


def first_observations(env: HostEnv, num_episodes: int, seed: int) -> Float[np.ndarray, "B D"]:
    """Where the episodes of `evaluate` begin."""
    return np.stack([env.reset(seed=one) for one in _episode_seeds(seed, num_episodes)])


def _episode_seeds(seed: int, num_episodes: int) -> list[int]:
    """One per episode: where it begins depends on no other."""
    later = (np.random.SeedSequence([seed, i]) for i in range(1, num_episodes))
    return [seed, *(int(words.generate_state(1)[0]) for words in later)]


def evaluation_seed(seed: int, step: int) -> int:
    """The seed of an evaluation: the same whenever the run comes to this step."""
    return int(np.random.SeedSequence([seed, step]).generate_state(1)[0])
