"""Augmentation noise ξ for rewards and dynamics (§3.2, §3.3.1, §5).

Reward noise is an array [M,S,A]. Dynamics noise enters only through the products
⟨ξ^m(s,a), Ṽ^{h+1}⟩, so it is a function that computes these products stage by stage. `from_vectors`
holds the noise vectors themselves; `lazy_products` and `per_stage_products` draw only the numbers
that the products need, with the same distribution.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from narl.tabular.options import Measure
from narl.tabular.sampling import normal
from narl.tabular.transitions import Dynamics, check_table_size, dense, expect


class NoiseProducts(NamedTuple):
    """The products ⟨ξ^m(s,a), v⟩ for the value vectors v of planning, in the order of planning."""

    carry: Any
    """The first argument of the first call of `product`; a call returns that of the next call."""
    product: Callable[[Any, Int[Array, ""], Float[Array, " S"]], tuple[Float[Array, "M S A"], Any]]


class Noise(NamedTuple):
    """The noise ξ_k that Eq. 2 adds to r̂ and P̂.

    Example:
        >>> xi = np.random.default_rng(0).normal(size=(10, 6, 2))  # ten members
        >>> noise = narl.tabular.Noise(reward=xi, dynamics=None)
        >>> noise.reward.max(axis=0).shape
        (6, 2)
    """

    reward: Float[Array, "M S A"]
    """Noise of every member on the reward of every pair."""
    dynamics: NoiseProducts | Float[Array, "M S A S"] | None
    """Noise of every member on the dynamics, or a way to compute its products; None: no noise."""


def as_products(dynamics: NoiseProducts | Array | None, num_states: int) -> NoiseProducts:
    """Return a table of noise vectors, or None for no noise, as `NoiseProducts`."""
    if isinstance(dynamics, NoiseProducts):
        return dynamics
    if dynamics is None:
        return NoiseProducts(None, lambda carry, h, v: (jnp.zeros((1, num_states, 1)), carry))
    return from_vectors(jnp.asarray(dynamics))


def from_vectors(xi: Float[Array, "M S A S"], measure: Measure = "signed") -> NoiseProducts:
    """Return the products with given noise vectors, M·S·A·S numbers."""
    if measure == "centred":
        xi = xi - xi.mean(-1, keepdims=True)
    return NoiseProducts(None, lambda carry, h, v: (xi @ v, carry))


def project_to_simplex(x: Float[Array, "*B S"]) -> Float[Array, "*B S"]:
    """Return the nearest distribution in Euclidean distance, row by row."""
    size = x.shape[-1]
    descending = -jnp.sort(-x, axis=-1)
    excess = (jnp.cumsum(descending, axis=-1) - 1.0) / jnp.arange(1, size + 1)
    support = (descending > excess).sum(-1, keepdims=True)
    threshold = jnp.take_along_axis(excess, support - 1, axis=-1)
    return jnp.maximum(x - threshold, 0.0)


def simplex_products(xi: Float[Array, "M S A S"], p_hat: Dynamics) -> NoiseProducts:
    """Return the products with the noise that is left of ξ once P̂ + ξ is projected."""
    p = dense(p_hat, xi.shape[-1])
    return from_vectors(project_to_simplex(p + xi) - p)


def _scaled(v: Float[Array, " S"]) -> tuple[Float[Array, " S"], Float[Array, ""]]:
    """Return v divided by a factor, and the factor: without a clip the squares of v overflow."""
    largest = jnp.abs(v).max()
    scale = jnp.where(largest > 1e15, largest, 1.0)
    return v / scale, scale


def lazy_products(
    z: Float[Array, "H M S A"], sigma: Float[Array, "*M S A"], num_states: int, measure: Measure
) -> NoiseProducts:
    """Return σ·⟨ζ, v⟩ for ζ ~ N(0, I), drawn along a Gram–Schmidt basis of the vectors v so far.

    A Gaussian vector has independent N(0,1) coordinates in every orthonormal basis, also in one
    that is extended by each new v: coordinate z[i] belongs to the i-th new direction. H·M·S·A
    numbers replace M·S·A·S, and the products with all H value vectors keep their joint
    distribution.
    """
    num_stages = z.shape[0]

    def product(carry: tuple, h: Array, v: Array) -> tuple[Array, tuple]:
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
        noise = jnp.tensordot(coordinates, z, axes=1) * sigma * scale
        return noise, (basis.at[count].set(direction), count + 1)

    return NoiseProducts((jnp.zeros((num_stages, num_states)), 0), product)


def per_stage_products(
    z: Float[Array, "H M S A"], sigma: Float[Array, "*M S A"], measure: Measure
) -> NoiseProducts:
    """Return σ·⟨ζ_h, v⟩ for a new ζ_h ~ N(0, I) at every stage: one number N(0, ‖v‖²) each."""

    def product(carry: None, h: Array, v: Array) -> tuple[Array, None]:
        v, scale = _scaled(v - v.mean() if measure == "centred" else v)
        return z[h] * (sigma * jnp.linalg.norm(v)) * scale, carry

    return NoiseProducts(None, product)


def gaussian_dynamics(
    key: PRNGKeyArray,
    sigma: Float[Array, "*M S A"],
    p_hat: Dynamics,
    members: int,
    horizon: int,
    *,
    measure: Measure = "signed",
    fresh: bool = False,
) -> NoiseProducts:
    """Return the products with ξ^m(s,a) ~ N(0, σ²(s,a)·I), drawn in the cheapest equivalent way.

    ``fresh`` draws new noise at every stage.
    """
    num_states, num_actions = sigma.shape[-2:]
    shape = (members, num_states, num_actions)
    if measure == "simplex":
        check_table_size(*shape, num_states)
        if fresh:
            keys = jax.random.split(key, horizon)

            def product(carry: None, h: Array, v: Array) -> tuple[Array, None]:
                xi = normal(keys[h], (*shape, num_states)) * sigma[..., None]
                return simplex_products(xi, p_hat).product(None, h, v)[0], carry

            return NoiseProducts(None, product)
        return simplex_products(normal(key, (*shape, num_states)) * sigma[..., None], p_hat)
    if fresh:
        return per_stage_products(normal(key, (horizon, *shape)), sigma, measure)
    if num_states <= horizon:
        return from_vectors(normal(key, (*shape, num_states)) * sigma[..., None], measure)
    return lazy_products(normal(key, (horizon, *shape)), sigma, num_states, measure)


def member_dynamics(
    p_members: Dynamics, p_hat: Dynamics, empty: NoiseProducts | None
) -> NoiseProducts:
    """Return the products that put each member's P̂^m in place of P̂: E_{P̂^m}[v] − E_P̂[v].

    ``empty`` is the noise of members that have no data at (s,a); its σ is 0 elsewhere.
    """
    extra = empty if empty is not None else as_products(None, p_hat.prob.shape[-3])

    def product(carry: Any, h: Array, v: Array) -> tuple[Array, Any]:
        noise, carry = extra.product(carry, h, v)
        return expect(p_members, v) - expect(p_hat, v) + noise, carry

    return NoiseProducts(extra.carry, product)
