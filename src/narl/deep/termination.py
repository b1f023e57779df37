"""Known termination of episodes, as functions of the transition; model rollouts need them.

Each function is the rule of Gymnasium's environment of that name (v4 and v5 agree), written over
observations. Gymnasium tests the simulator's state; the observation leaves out x (and y), so that
index 0 of an observation is the height z, except for InvertedPendulum and the tasks of classic
control (CartPole, MountainCar and its continuous version), which keep x.

MBPO's rules differ from Gymnasium's in two places, and Gymnasium's hold here: Humanoid's bounds on
z are strict, and a height that is NaN ends the episode. One rule cannot be told from an
observation: Hopper's limit of 100 also holds for velocities, which are observed clipped to ±10.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from narl.errors import InputError

Obs = Float[Array, "*batch D"]
Action = Float[Array, "*batch A"]
Ends = Bool[Array, "*batch"]
TerminationFn = Callable[[Obs, Action, Obs], Ends]
"""(obs, action, next_obs) → done, over any leading axes, in the environment's units."""

_EXAMPLE = "lambda obs, action, next_obs: next_obs[..., 0] < 0.7"

_ANT_STATE = 27
"""Entries of an Ant's position (without x and y) and velocity; contact forces may follow."""


def never(obs: Obs, action: Action, next_obs: Obs) -> Ends:
    """Return False: no transition ends the episode (HalfCheetah, Pendulum, narl's tasks)."""
    return jnp.zeros(next_obs.shape[:-1], dtype=bool)


def inverted_pendulum(obs: Obs, action: Action, next_obs: Obs) -> Ends:
    """Return whether |θ| > 0.2 or any entry is not finite."""
    return ~jnp.isfinite(next_obs).all(axis=-1) | (jnp.abs(next_obs[..., 1]) > 0.2)


def hopper(obs: Obs, action: Action, next_obs: Obs) -> Ends:
    """Return whether the hopper is unhealthy.

    Healthy: 0.7 < z < ∞, |θ| < 0.2, and all entries but z within ±100 (NaN is not).
    """
    z, angle = next_obs[..., 0], next_obs[..., 1]
    bounded = (jnp.abs(next_obs[..., 1:]) < 100.0).all(axis=-1)
    return ~(bounded & (z > 0.7) & (z < jnp.inf) & (jnp.abs(angle) < 0.2))


def walker2d(obs: Obs, action: Action, next_obs: Obs) -> Ends:
    """Return whether the walker is unhealthy; healthy: 0.8 < z < 2 and |θ| < 1."""
    z, angle = next_obs[..., 0], next_obs[..., 1]
    return ~((z > 0.8) & (z < 2.0) & (jnp.abs(angle) < 1.0))


def ant(obs: Obs, action: Action, next_obs: Obs) -> Ends:
    """Return whether the ant is unhealthy.

    Healthy: 0.2 ≤ z ≤ 1, and position and velocity are finite (contact forces do not count).
    """
    z = next_obs[..., 0]
    finite = jnp.isfinite(next_obs[..., :_ANT_STATE]).all(axis=-1)
    return ~(finite & (z >= 0.2) & (z <= 1.0))


def humanoid(obs: Obs, action: Action, next_obs: Obs) -> Ends:
    """Return whether the humanoid is unhealthy; healthy: 1 < z < 2."""
    z = next_obs[..., 0]
    return ~((z > 1.0) & (z < 2.0))


def mountain_car_continuous(obs: Obs, action: Action, next_obs: Obs) -> Ends:
    """Return whether the car is at the goal, x ≥ .45, and does not roll back, v ≥ 0."""
    return (next_obs[..., 0] >= 0.45) & (next_obs[..., 1] >= 0.0)


def mountain_car(obs: Obs, action: Action, next_obs: Obs) -> Ends:
    """Return whether the car is at the goal, x ≥ .5, and does not roll back, v ≥ 0."""
    return (next_obs[..., 0] >= 0.5) & (next_obs[..., 1] >= 0.0)


def cart_pole(obs: Obs, action: Action, next_obs: Obs) -> Ends:
    """Return whether |x| > 2.4 or |θ| > 12°."""
    x, angle = next_obs[..., 0], next_obs[..., 2]
    return (jnp.abs(x) > 2.4) | (jnp.abs(angle) > math.radians(12.0))


def acrobot(obs: Obs, action: Action, next_obs: Obs) -> Ends:
    """Return whether the tip is above the line: −cos θ₁ − cos(θ₁ + θ₂) > 1."""
    cos_1, sin_1, cos_2, sin_2 = (next_obs[..., i] for i in range(4))
    return -cos_1 - (cos_1 * cos_2 - sin_1 * sin_2) > 1.0


def check_termination(termination: Any, *, names_allowed: bool = True) -> None:
    """Refuse a value that is neither a function nor the name of a kind of termination."""
    if not callable(termination) and not (names_allowed and isinstance(termination, str)):
        raise InputError(
            f"termination: {type(termination).__name__} given; it must be a function, such as "
            f"{_EXAMPLE}"
        )


def batched_termination(
    function: Callable[..., Any], obs_dim: int, action_dim: int
) -> TerminationFn:
    """Return a user's termination for batches; it may be written for one transition or many."""
    dims = (obs_dim, action_dim, obs_dim)

    def try_shape(*batch: int) -> Any:
        """Return the shape of the result for a batch, or the error that the function raises."""
        inputs = [jax.ShapeDtypeStruct((*batch, dim), jnp.float32) for dim in dims]
        try:
            return jax.eval_shape(lambda *x: jnp.asarray(function(*x)), *inputs).shape
        except Exception as error:
            return error

    def as_flags(obs: Array, action: Array, next_obs: Array) -> Array:
        done = jnp.asarray(function(obs, action, next_obs))
        return jnp.reshape(done, obs.shape[:-1]).astype(bool)

    single = try_shape()
    if single in ((), (1,)):
        return jax.vmap(as_flags)
    if try_shape(3) in ((3,), (3, 1)):
        return as_flags
    is_error = isinstance(single, Exception)
    text = " ".join(str(single).split())[:150] or type(single).__name__
    raise InputError(
        "termination: the function must take (obs, action, next_obs) as JAX arrays and give a "
        f"boolean, such as {_EXAMPLE} ({text if is_error else f'it gives shape {text}'})"
    )
