"""Augmentation noise ξ for rewards and dynamics (§3.2, §3.3.1, §5).

Reward noise is an array [M,S,A]. Dynamics noise only ever enters as ⟨ξ^m(s,a), Ṽ^{h+1}⟩, so it is
a function that reveals those products stage by stage. `plain` holds the vectors themselves and is
the oracle; `revealed` and `per_stage` draw only what the products need.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from narl.tabular.sampling import normal
from narl.tabular.transitions import Dynamics, dense, expect

Measure = Literal["signed", "centred", "simplex"]


class Reveal(NamedTuple):
    """⟨ξ^m(s,a), v⟩ for the vectors v that planning comes upon, in the order it does."""

    carry: Any
    inner: Callable[[Any, Int[Array, ""], Float[Array, " S"]], tuple[Float[Array, "M S A"], Any]]


class Noise(NamedTuple):
    """ξ_k: what Eq. 2 adds to r̂ and P̂."""

    reward: Float[Array, "M S A"]
    dynamics: Reveal | Float[Array, "M S A S"] | None


def as_reveal(dynamics: Reveal | Array | None, num_states: int) -> Reveal:
    """A table of vectors, or none, as a `Reveal`."""
    if isinstance(dynamics, Reveal):
        return dynamics
    if dynamics is None:
        return Reveal(None, lambda carry, h, v: (jnp.zeros((1, num_states, 1)), carry))
    return plain(jnp.asarray(dynamics))


def plain(xi: Float[Array, "M S A S"], measure: Measure = "signed") -> Reveal:
    """The vectors themselves: M·S·A·S numbers."""
    if measure == "centred":
        xi = xi - xi.mean(-1, keepdims=True)
    return Reveal(None, lambda carry, h, v: (xi @ v, carry))


def project_to_simplex(x: Float[Array, "*B S"]) -> Float[Array, "*B S"]:
    """The nearest distribution in Euclidean distance, row by row."""
    size = x.shape[-1]
    descending = -jnp.sort(-x, axis=-1)
    excess = (jnp.cumsum(descending, axis=-1) - 1.0) / jnp.arange(1, size + 1)
    support = (descending > excess).sum(-1, keepdims=True)
    threshold = jnp.take_along_axis(excess, support - 1, axis=-1)
    return jnp.maximum(x - threshold, 0.0)


def simplex(xi: Float[Array, "M S A S"], p_hat: Dynamics) -> Reveal:
    """P̂ + ξ pulled back to the nearest distribution; the noise is what remains of ξ."""
    p = dense(p_hat, xi.shape[-1])
    return plain(project_to_simplex(p + xi) - p)


def _scaled(v: Float[Array, " S"]) -> tuple[Float[Array, " S"], Float[Array, ""]]:
    """v and a factor to put back: without a clip values reach 1e30, whose squares overflow."""
    largest = jnp.abs(v).max()
    scale = jnp.where(largest > 1e15, largest, 1.0)
    return v / scale, scale


def revealed(
    z: Float[Array, "H M S A"], sigma: Float[Array, "*M S A"], num_states: int, measure: Measure
) -> Reveal:
    """σ·⟨ζ, v⟩ for ζ ~ N(0, I), drawn along a Gram–Schmidt basis of the v's met so far.

    A Gaussian vector has independent N(0,1) coordinates in every orthonormal basis, also in one
    chosen as we go: coordinate z[i] belongs to the i-th new direction. H·M·S·A numbers replace
    M·S·A·S, and the products with all H value vectors keep their joint distribution.
    """
    num_stages = z.shape[0]

    def inner(carry: tuple, h: Array, v: Array) -> tuple[Array, tuple]:
        basis, count = carry
        v, scale = _scaled(v - v.mean() if measure == "centred" else v)
        # Two passes: one leaves rounding errors along the old directions.
        first = basis @ v
        residual = v - first @ basis
        second = basis @ residual
        residual = residual - second @ basis
        norm, length = jnp.linalg.norm(residual), jnp.linalg.norm(v)
        is_new = norm > 1e-5 * length
        direction = jnp.where(is_new, residual / jnp.where(is_new, norm, 1.0), 0.0)
        coordinates = (first + second).at[count].add(jnp.where(is_new, norm, 0.0))
        product = jnp.tensordot(coordinates, z, axes=1) * sigma * scale
        return product, (basis.at[count].set(direction), count + 1)

    return Reveal((jnp.zeros((num_stages, num_states)), 0), inner)


def per_stage(
    z: Float[Array, "H M S A"], sigma: Float[Array, "*M S A"], measure: Measure
) -> Reveal:
    """Fresh ζ_h ~ N(0, I) at every stage: ⟨ζ_h, v⟩ ~ N(0, ‖v‖²), one number each."""

    def inner(carry: None, h: Array, v: Array) -> tuple[Array, None]:
        v, scale = _scaled(v - v.mean() if measure == "centred" else v)
        return z[h] * (sigma * jnp.linalg.norm(v)) * scale, carry

    return Reveal(None, inner)


def gaussian_dynamics(
    key: PRNGKeyArray,
    sigma: Float[Array, "*M S A"],
    p_hat: Dynamics,
    members: int,
    horizon: int,
    *,
    measure: Measure = "signed",
    fresh: bool = False,
) -> Reveal:
    """ξ^m(s,a) ~ N(0, σ²(s,a)·I), the cheapest way that is equal in distribution."""
    num_states, num_actions = sigma.shape[-2:]
    shape = (members, num_states, num_actions)
    if measure == "simplex":
        if fresh:
            keys = jax.random.split(key, horizon)

            def inner(carry: None, h: Array, v: Array) -> tuple[Array, None]:
                xi = normal(keys[h], (*shape, num_states)) * sigma[..., None]
                return simplex(xi, p_hat).inner(None, h, v)[0], carry

            return Reveal(None, inner)
        return simplex(normal(key, (*shape, num_states)) * sigma[..., None], p_hat)
    if fresh:
        return per_stage(normal(key, (horizon, *shape)), sigma, measure)
    if num_states <= horizon:
        return plain(normal(key, (*shape, num_states)) * sigma[..., None], measure)
    return revealed(normal(key, (horizon, *shape)), sigma, num_states, measure)


def member_dynamics(p_members: Dynamics, p_hat: Dynamics, empty: Reveal | None) -> Reveal:
    """Each member's own P̂^m in place of P̂ + ξ^m: ⟨ξ^m, v⟩ = E_{P̂^m}[v] − E_P̂[v].

    ``empty`` adds the noise of members that have no data at (s,a) (its σ is 0 elsewhere).
    """
    extra = empty if empty is not None else as_reveal(None, p_hat.prob.shape[-3])

    def inner(carry: Any, h: Array, v: Array) -> tuple[Array, Any]:
        noise, carry = extra.inner(carry, h, v)
        return expect(p_members, v) - expect(p_hat, v) + noise, carry

    return Reveal(extra.carry, inner)
