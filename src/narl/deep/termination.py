"""When an episode ends, as a function of the transition: what a model rollout has to know.

Each function is the rule of Gymnasium's environment of that name (v4 and v5 agree), written over
observations. Gymnasium tests the simulator's state; the observation leaves out x (and y), so index
0 of an observation is the height z, except for InvertedPendulum, which keeps its cart's x.

MBPO's rules differ in two places, where Gymnasium is followed: Humanoid's bounds on z are strict
there, and a height that is NaN ends the episode. One thing cannot be seen in an observation:
Hopper's limit of 100 also holds for velocities, which are observed clipped to ±10.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

Termination = Callable[
    [Float[Array, "*batch D"], Float[Array, "*batch A"], Float[Array, "*batch D"]],
    Bool[Array, "*batch"],
]
"""(obs, action, next_obs) → done, over any leading axes; observations as the environment gives
them, and actions too: neither is scaled."""

_ANT_STATE = 27
"""An Ant's position without x, y and its velocity; contact forces may follow them."""


def never(
    obs: Float[Array, "*batch D"],
    action: Float[Array, "*batch A"],
    next_obs: Float[Array, "*batch D"],
) -> Bool[Array, "*batch"]:
    """No transition ends the episode (HalfCheetah, Pendulum; any task with a time limit only)."""
    return jnp.zeros(next_obs.shape[:-1], dtype=bool)


def inverted_pendulum(
    obs: Float[Array, "*batch D"],
    action: Float[Array, "*batch A"],
    next_obs: Float[Array, "*batch D"],
) -> Bool[Array, "*batch"]:
    """Done if |θ| > 0.2 or anything is not finite."""
    return ~jnp.isfinite(next_obs).all(axis=-1) | (jnp.abs(next_obs[..., 1]) > 0.2)


def hopper(
    obs: Float[Array, "*batch D"],
    action: Float[Array, "*batch A"],
    next_obs: Float[Array, "*batch D"],
) -> Bool[Array, "*batch"]:
    """Healthy: 0.7 < z < ∞, |θ| < 0.2, and all but z within ±100 (NaN is not)."""
    z, angle = next_obs[..., 0], next_obs[..., 1]
    bounded = (jnp.abs(next_obs[..., 1:]) < 100.0).all(axis=-1)
    return ~(bounded & (z > 0.7) & (z < jnp.inf) & (jnp.abs(angle) < 0.2))


def half_cheetah(
    obs: Float[Array, "*batch D"],
    action: Float[Array, "*batch A"],
    next_obs: Float[Array, "*batch D"],
) -> Bool[Array, "*batch"]:
    """Never done."""
    return never(obs, action, next_obs)


def walker2d(
    obs: Float[Array, "*batch D"],
    action: Float[Array, "*batch A"],
    next_obs: Float[Array, "*batch D"],
) -> Bool[Array, "*batch"]:
    """Healthy: 0.8 < z < 2 and |θ| < 1; nothing else counts."""
    z, angle = next_obs[..., 0], next_obs[..., 1]
    return ~((z > 0.8) & (z < 2.0) & (jnp.abs(angle) < 1.0))


def ant(
    obs: Float[Array, "*batch D"],
    action: Float[Array, "*batch A"],
    next_obs: Float[Array, "*batch D"],
) -> Bool[Array, "*batch"]:
    """Healthy: 0.2 ≤ z ≤ 1 and position and velocity are finite (contact forces do not count)."""
    z = next_obs[..., 0]
    finite = jnp.isfinite(next_obs[..., :_ANT_STATE]).all(axis=-1)
    return ~(finite & (z >= 0.2) & (z <= 1.0))


def humanoid(
    obs: Float[Array, "*batch D"],
    action: Float[Array, "*batch A"],
    next_obs: Float[Array, "*batch D"],
) -> Bool[Array, "*batch"]:
    """Healthy: 1 < z < 2; nothing else counts."""
    z = next_obs[..., 0]
    return ~((z > 1.0) & (z < 2.0))
