"""Optimism over an ensemble: the choice both halves of the paper make (Eq. 2, Eq. 3, §6.1)."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from narl.paper import implements


class Choice(NamedTuple):
    """The member chosen along the leading axis, for every remaining position."""

    value: Float[Array, "..."]
    member: Int[Array, "..."]
    admitted: Bool[Array, "M ..."]
    """Which members lie within the radius (all of them without one)."""


@implements("eq:3", "sec:6.1")
def optimistic(
    values: Float[Array, "M ..."], radius: float | Float[Array, ""] | None = None
) -> Choice:
    """max_m values[m] over the members inside μ_M ± ε_M.

    With ``radius=None`` every member is admitted (Eq. 2). When the radius excludes them all, the
    member closest to the mean is taken: the cautious reading of a case the paper leaves open.
    """
    if radius is None:
        admitted = jnp.ones(values.shape, bool)
        score = values
    else:
        distance = jnp.abs(values - values.mean(axis=0))
        # The mean is rounded: equal values lie on it, however small the radius.
        rounding = 4.0 * jnp.finfo(values.dtype).eps * jnp.abs(values).max(axis=0)
        admitted = distance <= radius + jnp.where(jnp.isfinite(rounding), rounding, 0.0)
        none_admitted = ~admitted.any(axis=0)
        score = jnp.where(admitted, values, -jnp.inf)
        score = jnp.where(none_admitted, -distance, score)
    member = jnp.argmax(score, axis=0)
    value = jnp.take_along_axis(values, member[None], axis=0)[0]
    return Choice(value, member, admitted)
