"""Transition probabilities over stored successors, and expectations under them.

In most MDPs few states can follow a pair (s,a): in Deep Sea one or two of 784. Therefore B slots
per pair are stored, and the states that they stand for; ``successors=None`` is the dense case
B = S. The slots are a layout of memory: estimates and plans are the same either way.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

Table = Array | np.ndarray
"""An array that a caller gives: NumPy's or JAX's."""


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Dynamics:
    """P(s,a) as probabilities of the stored successors and a share that is uniform over states."""

    prob: Float[Array, "*M S A B"]
    spread: Float[Array, "*M S A"]
    """The share that is uniform over all S states: 1 for a pair without data (the N=0 rule)."""
    successors: Int[Array, "S A B"] | None = None
    """The state of each slot, S (one past the end) in unused slots; None when B = S."""


def as_dynamics(p: Dynamics | Float[Table, "*M S A S"]) -> Dynamics:
    """Return a dense table as `Dynamics`; a `Dynamics` is returned unchanged."""
    if isinstance(p, Dynamics):
        return p
    p = jnp.asarray(p)
    return Dynamics(p, jnp.zeros(p.shape[:-1], p.dtype))


def slot_values(v: Float[Array, " S"], successors: Int[Array, "S A B"] | None) -> Array:
    """Return v at the state of each slot, in a shape that multiplies `Dynamics.prob`."""
    return v if successors is None else v.at[successors].get(mode="fill", fill_value=0.0)


def expect(p: Dynamics, v: Float[Array, " S"]) -> Float[Array, "*M S A"]:
    """Return E_{s' ~ P(s,a)}[v(s')] for every pair (and every member)."""
    if p.successors is None:
        return p.prob @ v + p.spread * v.mean()
    return (p.prob * slot_values(v, p.successors)).sum(-1) + p.spread * v.mean()


def dense(p: Dynamics, num_states: int) -> Float[Array, "*M S A S"]:
    """Return the full table, for planners that need every entry."""
    if p.successors is None:
        table = p.prob
    else:
        one_hot = p.successors[..., None] == jnp.arange(num_states)
        table = (p.prob[..., None] * one_hot).sum(-2)
    return table + p.spread[..., None] / num_states


def reachable_states(p: np.ndarray) -> np.ndarray | None:
    """Return the states reachable from each pair as slots; None where slots would not save work."""
    num_states = p.shape[0]
    reachable = p > 0
    num_slots = int(reachable.sum(-1).max())
    if 4 * num_slots > num_states:
        return None  # a dense product is faster than gathering
    # A stable sort on "unreachable" lists the reachable states first, in ascending order.
    order = np.argsort(~reachable, axis=-1, kind="stable")[..., :num_slots]
    used = np.take_along_axis(reachable, order, axis=-1)
    return np.where(used, order, num_states).astype(np.int32)


def take_slots(p: np.ndarray, successors: np.ndarray | None) -> np.ndarray:
    """Return the entries of a dense table at the stored successors (0 in unused slots)."""
    if successors is None:
        return p
    used = successors < p.shape[-1]
    picked = np.take_along_axis(p, np.where(used, successors, 0), axis=-1)
    return np.where(used, picked, 0.0)
