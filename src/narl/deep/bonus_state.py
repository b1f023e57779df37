"""State of the bonuses: running statistics of the members' disagreement, per replica."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from narl.deep.networks import Network


class Moments(NamedTuple):
    """Running count, mean and sum of squared deviations of a stream of numbers."""

    num: Float[Array, ""]
    mean: Float[Array, ""]
    squares: Float[Array, ""]

    @property
    def std(self) -> Float[Array, ""]:
        """The standard deviation so far; 1 where nothing was seen or nothing varies."""
        variance = self.squares / jnp.maximum(self.num, 1.0)
        # In float32 the mean of a constant is not quite that constant.
        rounding = jnp.maximum(1e-8, 1e-6 * jnp.abs(self.mean))
        return jnp.where(variance > rounding**2, jnp.sqrt(variance), 1.0)

    def standardise(self, values: Float[Array, " B"]) -> Float[Array, " B"]:
        """Return (values − mean) / std."""
        return (values - self.mean) / self.std

    def add(self, values: Float[Array, " B"]) -> Moments:
        """Return the moments after adding the finite ones of these values."""
        finite = jnp.isfinite(values)
        more = finite.sum().astype(jnp.float32)
        mean = finite_mean(values)
        num = jnp.maximum(self.num + more, 1.0)
        difference = mean - self.mean
        offsets = jnp.where(finite, values - mean, 0.0)
        squares = (offsets**2).sum() + difference**2 * self.num * more / num
        return Moments(self.num + more, self.mean + difference * more / num, self.squares + squares)


def finite_mean(values: Float[Array, " B"]) -> Float[Array, ""]:
    """Return the mean of the finite numbers; 0 if there are none."""
    finite = jnp.isfinite(values)
    return jnp.where(finite, values, 0.0).sum() / jnp.maximum(finite.sum(), 1)


class BonusState(NamedTuple):
    """Running statistics of what the members disagree on, and the tuned weight of MaxInfo."""

    disagreement: Moments
    information: Moments
    first_disagreement: Float[Array, ""]
    """Mean disagreement after the first fit, or the largest so far with ``noise_unit="largest"``.

    It is the unit of noise on rewards, and 0 before the first fit.
    """
    log_weight: Float[Array, ""]
    """Logarithm of MaxInfo's weight α₂."""
    past_actor: Network
    """The policy at the last imagination, which MaxInfo compares with."""
    episode: Int[Array, ""]
    """Real episodes that have ended."""


def init_bonus_state(actor: Network) -> BonusState:
    """Return the state before the first fit."""
    zero = jnp.float32(0.0)
    none = Moments(zero, zero, zero)
    return BonusState(none, none, zero, zero, actor, jnp.int32(0))
