"""Which member's step is taken: any, an elite one (MBPO), or the optimistic one (NARL)."""

from __future__ import annotations

import dataclasses
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from narl.deep.ensemble import Prediction
from narl.optimism import Choice, optimistic
from narl.paper import implements

RANDOM, OPTIMISTIC = 0, 1
"""How a lane selects; traced, so that lanes of both kinds share one program."""


@dataclasses.dataclass(frozen=True)
class SelectionSettings:
    """Where the paper is silent (see docs/decisions.md)."""

    joint: bool = False
    """One maximum of r + γV instead of one for the reward and one for the next state."""
    fallback: Literal["closest", "random"] = "closest"
    """Who is taken when the radius excludes every member."""
    draw: Literal["sample", "mean"] = "sample"
    """What a member contributes: a draw from its Gaussian, or the mean."""
    value_samples: int = 1
    """Actions behind the soft value of a next state (App. E)."""


class Selected(NamedTuple):
    """The step that is taken."""

    reward: Float[Array, " B"]
    next_obs: Float[Array, "B D"]
    member: Int[Array, " B"]
    """Whose next state it is."""
    reward_member: Int[Array, " B"]
    fallback: Bool[Array, " B"]
    """Whether the radius excluded every member, for the reward or for the next state."""


def take(per_member: Float[Array, "M B *D"], member: Int[Array, " B"]) -> Float[Array, "B *D"]:
    """Each position's entry of its member."""
    return per_member[member, jnp.arange(member.shape[0])]


@implements("sec:6.1-elite")
def select_elite(
    key: PRNGKeyArray,
    prediction: Prediction,
    ranked: Int[Array, " M"],
    num_elites: Int[Array, ""] | int,
) -> Selected:
    """A member drawn uniformly among the best ``num_elites``, anew at every step (MBPO)."""
    num_rows = prediction.reward.shape[1]
    member = ranked[jax.random.randint(key, (num_rows,), 0, num_elites)]
    return Selected(
        reward=take(prediction.reward, member),
        next_obs=take(prediction.next_obs, member),
        member=member,
        reward_member=member,
        fallback=jnp.zeros(num_rows, bool),
    )


@implements("eq:2", "sec:6.1-selection", "app:e")
def select_optimistic(
    key: PRNGKeyArray,
    prediction: Prediction,
    values: Float[Array, "M B"],
    radius: Float[Array, ""] | float,
    settings: SelectionSettings,
    discount: float,
) -> Selected:
    """r̃ = max_m r^(m) (term A) and the next state of largest soft value (term B), within ε_M.

    The radius is an absolute distance from the mean over the members, for rewards and for values
    alike; infinity admits everybody.
    """
    key_reward, key_value = jax.random.split(key)
    if settings.joint:
        both = optimistic(prediction.reward + discount * values, radius)
        member, excluded = _decide(key_value, both, settings)
        reward_member = member
    else:
        term_a = optimistic(prediction.reward, radius)
        term_b = optimistic(values, radius)
        reward_member, excluded_a = _decide(key_reward, term_a, settings)
        member, excluded_b = _decide(key_value, term_b, settings)
        excluded = excluded_a | excluded_b
    return Selected(
        reward=take(prediction.reward, reward_member),
        next_obs=take(prediction.next_obs, member),
        member=member,
        reward_member=reward_member,
        fallback=excluded,
    )


def _decide(
    key: PRNGKeyArray, choice: Choice, settings: SelectionSettings
) -> tuple[Int[Array, " B"], Bool[Array, " B"]]:
    """The member, and whether the radius had excluded them all."""
    excluded = ~choice.admitted.any(axis=0)
    if settings.fallback == "closest":  # what `optimistic` itself does
        return choice.member, excluded
    anyone = jax.random.randint(key, choice.member.shape, 0, choice.admitted.shape[0])
    return jnp.where(excluded, anyone, choice.member), excluded
