"""Selection among the members of the ensemble: it decides how optimistic an algorithm is.

A `SelectFn` is given what every member predicts for a batch of imagined steps and returns the steps
that are taken. To add one, write such a function and name it in `narl.deep.algorithm_registry`, or
hand it to an agent: `narl.NARL(env, select=my_function)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from narl.deep.config import Config
from narl.deep.ensemble import Prediction
from narl.optimism import Choice, optimistic
from narl.paper import implements


class Candidates(NamedTuple):
    """The imagined steps to choose from: one per member, for a batch of observations."""

    obs: Float[Array, "B D"]
    action: Float[Array, "B A"]
    prediction: Prediction
    """Reward [M, B] and next observation [M, B, D] of every member."""
    ranked: Int[Array, " M"]
    """The members by their error on held-out data, the best first."""
    values: Callable[[], Float[Array, "M B"]]
    """Computes the soft value of every member's next observation, 0 where the episode ends."""


class SelectParams(NamedTuple):
    """Parameters of a selection: numbers that may differ between replicas, and the rest."""

    radius: Float[Array, ""] | float
    """Model radius ε_M; infinity for none."""
    num_elites: Int[Array, ""] | int
    config: Config
    """The configuration of the program; algorithm, radius and elites are those of one replica."""


class Selected(NamedTuple):
    """The imagined steps that are taken."""

    reward: Float[Array, " B"]
    next_obs: Float[Array, "B D"]
    member: Int[Array, " B"]
    """The member that predicted the next observation."""
    reward_member: Int[Array, " B"]
    """The member that predicted the reward."""
    fallback: Bool[Array, " B"]
    """Whether the radius excluded every member, for the reward or for the next observation."""
    values: Float[Array, "M B"] | None = None
    """The values that the selection looked at, for the metrics; None: it looked at none."""


SelectFn = Callable[[PRNGKeyArray, Candidates, SelectParams], Selected]


def take_members(
    candidates: Candidates,
    member: Int[Array, " B"],
    reward_member: Int[Array, " B"] | None = None,
    fallback: Bool[Array, " B"] | None = None,
    values: Float[Array, "M B"] | None = None,
) -> Selected:
    """Return the steps of one chosen member per row; the reward may come from another member."""
    prediction, rows = candidates.prediction, jnp.arange(member.shape[0])
    reward_member = member if reward_member is None else reward_member
    return Selected(
        reward=prediction.reward[reward_member, rows],
        next_obs=prediction.next_obs[member, rows],
        member=member,
        reward_member=reward_member,
        fallback=jnp.zeros(rows.shape, bool) if fallback is None else fallback,
        values=values,
    )


@implements("sec:6.1-elite")
def select_elite(key: PRNGKeyArray, candidates: Candidates, params: SelectParams) -> Selected:
    """Draw a member uniformly among the best ``num_elites``, anew at every step (MBPO)."""
    num_rows = candidates.obs.shape[0]
    drawn = jax.random.randint(key, (num_rows,), 0, params.num_elites)
    return take_members(candidates, candidates.ranked[drawn])


@implements("eq:2", "sec:6.1-selection", "app:e")
def select_optimistic(key: PRNGKeyArray, candidates: Candidates, params: SelectParams) -> Selected:
    """Take r̃ = max_m r^(m) (term A) and the next state of largest value (term B), within ε_M.

    The radius is an absolute distance from the mean over the members, for rewards and for values
    alike; infinity admits every member. With ``joint`` one maximum of r + γV decides both.
    """
    key_reward, key_value = jax.random.split(key)
    config, reward = params.config, candidates.prediction.reward
    values = candidates.values()
    if config.joint:
        both = optimistic(reward + config.discount * values, params.radius)
        member, excluded = _with_fallback(key_value, both, config)
        return take_members(candidates, member, fallback=excluded, values=values)
    term_a = optimistic(reward, params.radius)
    term_b = optimistic(values, params.radius)
    reward_member, excluded_a = _with_fallback(key_reward, term_a, config)
    member, excluded_b = _with_fallback(key_value, term_b, config)
    return take_members(candidates, member, reward_member, excluded_a | excluded_b, values)


def _with_fallback(
    key: PRNGKeyArray, choice: Choice, config: Config
) -> tuple[Int[Array, " B"], Bool[Array, " B"]]:
    """Return the member, and whether the radius excluded all of them."""
    excluded = ~choice.admitted.any(axis=0)
    if config.fallback == "closest":  # the rule of `optimistic` itself
        return choice.member, excluded
    random_member = jax.random.randint(key, choice.member.shape, 0, choice.admitted.shape[0])
    return jnp.where(excluded, random_member, choice.member), excluded
