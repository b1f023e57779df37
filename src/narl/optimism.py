"""Optimism over an ensemble, as both halves of the paper use it (Eq. 2, Eq. 3, §6.1)."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from narl.paper import implements


class Choice(NamedTuple):
    """The chosen members along the leading axis, one for every position of the other axes."""

    value: Float[Array, "..."]
    member: Int[Array, "..."]
    admitted: Bool[Array, "M ..."]
    """Whether each member lies within the radius (without a radius, all do)."""


@implements("eq:3", "sec:6.1")
def optimistic(
    values: Float[Array, "M ..."],
    radius: float | Float[Array, "..."] | None = None,
    *,
    judged: Float[Array, "M ..."] | None = None,
    above_only: bool | Bool[Array, ""] = False,
    among: Bool[Array, "M ..."] | None = None,
) -> Choice:
    """Return max_m values[m] over the members within μ_M ± ε_M.

    With ``radius=None`` every member is admitted (Eq. 2). If the radius excludes all members, the
    one closest to the mean is chosen, of equally close ones (always so with two members) the one of
    largest value; the paper does not define this case. ``judged`` are the
    numbers whose distance from their mean counts, by default the values themselves. With
    ``above_only`` members below the mean are admitted at any distance. Only members ``among`` which
    one is chosen count, also in the mean; by default all do.
    """
    if radius is None:
        admitted = jnp.ones(values.shape, bool) if among is None else among
        score = values if among is None else jnp.where(among, values, -jnp.inf)
    else:
        judged = values if judged is None else judged
        offset = judged - judged.mean(axis=0, where=among)
        distance = jnp.abs(offset)
        # The mean is rounded; equal values must be admitted by every radius.
        largest = jnp.abs(judged).max(axis=0, initial=0.0, where=among)
        rounding = 4.0 * jnp.finfo(values.dtype).eps * largest
        slack = jnp.where(jnp.isfinite(rounding), rounding, 0.0)
        admitted = distance <= radius + slack
        admitted |= jnp.asarray(above_only) & (offset <= 0.0)
        if among is not None:
            admitted &= among
            distance = jnp.where(among, distance, jnp.inf)
        closest = distance <= distance.min(axis=0) + slack
        considered = jnp.where(admitted.any(axis=0), admitted, closest)
        score = jnp.where(considered, values, -jnp.inf)
    member = jnp.argmax(score, axis=0)
    value = jnp.take_along_axis(values, member[None], axis=0)[0]
    return Choice(value, member, admitted)
