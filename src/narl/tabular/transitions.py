"""Transition probabilities over stored successors, and expectations under them.

In most MDPs few states can follow a pair (s,a): in Deep Sea one or two of 784. Therefore B slots
per pair are stored, and the states that they stand for; ``successors=None`` is the dense case
B = S. The slots are a layout of memory: estimates and plans are the same either way.
"""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from narl.errors import InputError

MAX_TABLE = 2**29
"""Largest dense table of an agent, with its members: 2 GiB in float32."""
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


def check_table_size(*shape: int) -> None:
    """Refuse a dense table that does not fit into memory, before it is made."""
    num_entries = math.prod(shape)
    if num_entries > MAX_TABLE:
        raise InputError(
            f"env: the agent needs a table of {num_entries:.1e} numbers per seed, more than "
            f"{MAX_TABLE:.1e}; take a smaller MDP, fewer members or an agent without such tables"
        )


def dense(p: Dynamics, num_states: int) -> Float[Array, "*M S A S"]:
    """Return the full table, for planners that need every entry."""
    check_table_size(*p.spread.shape, num_states)
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
    num_slots = int(np.count_nonzero(reachable, axis=-1).max())
    if not slots_save_work(num_slots, num_states):
        return None
    successors = np.full((*p.shape[:2], num_slots), num_states, dtype=np.int32)
    s, a, following = np.nonzero(reachable)  # row by row, the states of a row in ascending order
    successors[s, a, _rank(s * p.shape[1] + a)] = following
    return successors


def slots_save_work(num_slots: int, num_states: int) -> bool:
    """Return whether slots are faster than a dense product of the same table."""
    return 4 * num_slots <= num_states


def take_slots(p: np.ndarray, successors: np.ndarray | None) -> np.ndarray:
    """Return the entries of a dense table at the stored successors (0 in unused slots)."""
    if successors is None:
        return p
    used = successors < p.shape[-1]
    picked = np.take_along_axis(p, np.where(used, successors, 0), axis=-1)
    return np.where(used, picked, 0.0)


def tidy_slots(prob: np.ndarray, successors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return slots with each reachable state once, in ascending order, then unused slots.

    The probabilities of a state that several slots of a pair name are summed in their order; slots
    of probability 0 become unused (state S, one past the end).
    """
    num_states, num_actions, num_slots = prob.shape
    order = np.argsort(successors, axis=-1, kind="stable")
    states = np.take_along_axis(successors, order, axis=-1)
    chances = np.take_along_axis(prob, order, axis=-1)
    for slot in range(num_slots - 1, 0, -1):
        repeated = states[..., slot] == states[..., slot - 1]
        chances[..., slot - 1] += np.where(repeated, chances[..., slot], 0.0)
        chances[..., slot] = np.where(repeated, 0.0, chances[..., slot])
    s, a, used = np.nonzero(chances > 0)
    rank = _rank(s * num_actions + a)
    tidy = np.full((num_states, num_actions, int(rank.max()) + 1), num_states, dtype=np.int32)
    tidy_prob = np.zeros(tidy.shape)
    tidy[s, a, rank] = states[s, a, used]
    tidy_prob[s, a, rank] = chances[s, a, used]
    return tidy_prob, tidy


def _rank(group: np.ndarray) -> np.ndarray:
    """Return the position of each entry within its group; equal entries stand side by side."""
    index = np.arange(len(group))
    begins = np.flatnonzero(np.diff(group, prepend=-1))
    return index - np.repeat(begins, np.diff(begins, append=len(group)))


def dense_rows(prob: np.ndarray, successors: np.ndarray, num_states: int) -> np.ndarray:
    """Return the rows [..., S] of a dense table from their slots [..., B], in float64."""
    rows = np.zeros((*prob.shape[:-1], num_states))
    *at, slot = np.nonzero(successors < num_states)
    rows[(*at, successors[(*at, slot)])] = prob[(*at, slot)]
    return rows


def expect_rows(prob: np.ndarray, successors: np.ndarray | None, v: np.ndarray) -> np.ndarray:
    """Return E[v(s')] of rows of slots [..., B], or of dense rows [..., S], in float64."""
    if successors is None:
        return prob @ v
    return (prob * np.append(v, 0.0)[successors]).sum(-1)
