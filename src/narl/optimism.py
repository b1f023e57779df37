"""Optimism over an ensemble, as both halves of the paper use it (Eq. 2, Eq. 3, §6.1)."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from narl.paper import implements

__all__ = ["Choice", "optimistic"]


class Choice(NamedTuple):
    """The chosen members along the leading axis, one for every position of the other axes.

    Example:
        >>> choice = narl.optimism.optimistic(jnp.array([1.0, 3.0, 2.0]))
        >>> float(choice.value), int(choice.member), choice.admitted.tolist()
        (3.0, 1, [True, True, True])
    """

    value: Float[Array, "..."]
    """The value of the chosen member."""
    member: Int[Array, "..."]
    """The index of the chosen member."""
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
    one is chosen count, also in the mean; by default all do. A radius also leaves out members whose
    value is not finite, unless all are.

    Args:
        values: The values [M, …] among which is chosen, members first.
        radius: The radius ε_M around the mean; None admits every member.
        judged: Numbers [M, …] whose distance from their mean counts; by default ``values``.
        above_only: Whether members below the mean are admitted at any distance.
        among: A mask [M, …] of the members that can be chosen; by default all.

    Example:
        >>> values = jnp.array([0.0, 1.0, 5.0])  # the mean is 2
        >>> choice = narl.optimism.optimistic(values, radius=1.5)
        >>> float(choice.value), choice.admitted.tolist()
        (1.0, [False, True, False])
        >>> choice = narl.optimism.optimistic(values, radius=1.5, above_only=True)
        >>> float(choice.value), choice.admitted.tolist()
        (1.0, [True, True, False])
    """
    if radius is None:
        admitted = jnp.ones(values.shape, bool) if among is None else among
        score = values if among is None else jnp.where(among, values, -jnp.inf)
    else:
        judged = values if judged is None else judged
        # A member without a finite value would leave the others without a mean.
        finite = jnp.isfinite(values) & jnp.isfinite(judged)
        mean = judged.mean(axis=0, where=among)
        among = finite if among is None else among & finite
        mean = jnp.where(jnp.isfinite(mean), mean, judged.mean(axis=0, where=among))
        offset = judged - mean
        distance = jnp.abs(offset)
        # The mean is rounded; equal values must be admitted by every radius.
        largest = jnp.abs(judged).max(axis=0, initial=0.0, where=among)
        rounding = 4.0 * jnp.finfo(values.dtype).eps * largest
        slack = jnp.where(jnp.isfinite(rounding), rounding, 0.0)
        admitted = distance <= radius + slack
        admitted |= jnp.asarray(above_only) & (offset <= 0.0)
        admitted &= among
        distance = jnp.where(among, distance, jnp.inf)
        closest = distance <= distance.min(axis=0) + slack
        considered = jnp.where(admitted.any(axis=0), admitted, closest)
        score = jnp.where(considered, values, -jnp.inf)
    member = jnp.argmax(score, axis=0)
    value = jnp.take_along_axis(values, member[None], axis=0)[0]
    return Choice(value, member, admitted)
