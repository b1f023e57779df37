"""Buffers of fixed size on the device: a ring of packed rows, one gather per batch."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from narl.deep.sac import Batch


class Replay(NamedTuple):
    """A ring: row ``num_added % capacity`` is written next, over the oldest one."""

    rows: Float[Array, "C W"]
    """Transitions side by side: obs, action, reward, next_obs, done."""
    num_added: Int[Array, ""]
    size: Int[Array, ""]
    """Number of rows that count: the newest ones."""

    @property
    def capacity(self) -> int:
        """The largest number of rows."""
        return self.rows.shape[0]


def row_width(obs_dim: int, action_dim: int, candidates: int = 1) -> int:
    """Return the numbers per transition, with one or more candidates for what follows."""
    return obs_dim + action_dim + candidates * (obs_dim + 2)


def make_replay(capacity: int, obs_dim: int, action_dim: int, candidates: int = 1) -> Replay:
    """Return an empty ring of transitions."""
    rows = jnp.zeros((capacity, row_width(obs_dim, action_dim, candidates)))
    return Replay(rows, jnp.int32(0), jnp.int32(0))


def pack(batch: Batch) -> Float[Array, "... W"]:
    """Return transitions as packed rows; candidates for what follows stand side by side."""
    shape = (*batch.action.shape[:-1], -1)
    parts = (batch.obs, batch.action, batch.reward, batch.next_obs, batch.done)
    return jnp.concatenate([part.reshape(shape) for part in parts], axis=-1)


def unpack_candidates(rows: Float[Array, "... W"], obs_dim: int, candidates: int) -> Batch:
    """Return packed rows as transitions with an axis of candidates for what follows."""
    end = rows.shape[-1] - candidates * (obs_dim + 2)
    after = end + candidates
    next_obs = rows[..., after : after + candidates * obs_dim]
    return Batch(
        obs=rows[..., :obs_dim],
        action=rows[..., obs_dim:end],
        reward=rows[..., end:after],
        next_obs=next_obs.reshape(*rows.shape[:-1], candidates, obs_dim),
        done=rows[..., -candidates:],
    )


def unpack(rows: Float[Array, "... W"], obs_dim: int) -> Batch:
    """Return packed rows as transitions."""
    end = rows.shape[-1] - obs_dim - 2
    return Batch(
        obs=rows[..., :obs_dim],
        action=rows[..., obs_dim:end],
        reward=rows[..., end],
        next_obs=rows[..., end + 1 : -1],
        done=rows[..., -1],
    )


def add_one(replay: Replay, row: Float[Array, " W"]) -> Replay:
    """Add one transition to the ring."""
    at = replay.num_added % replay.capacity
    rows = jax.lax.dynamic_update_index_in_dim(replay.rows, row, at, 0)
    return _counted(replay, rows, 1, replay.capacity)


def add_where(
    replay: Replay,
    rows: Float[Array, "B W"],
    kept: Bool[Array, " B"],
    limit: int | Int[Array, ""],
) -> Replay:
    """Add the rows that are ``kept``, without gaps; then only the newest ``limit`` rows count.

    There must not be more rows than the ring holds. A row that a limit has excluded stays excluded
    when the limit grows.
    """
    order = jnp.cumsum(kept)
    at = (replay.num_added + order - 1) % replay.capacity
    # Rows that are not kept go beyond the end, where they are dropped; their places are unique.
    at = jnp.where(kept, at, replay.capacity + jnp.arange(kept.shape[0]))
    written = replay.rows.at[at].set(rows, mode="drop", unique_indices=True)
    return _counted(replay, written, order[-1], limit)


def _counted(
    replay: Replay, rows: Float[Array, "C W"], more: int | Int[Array, ""], limit: int | Array
) -> Replay:
    capacity = replay.capacity
    num_added = replay.num_added + more
    # The counter stays below 2·capacity: int32 would overflow after 2³¹ imagined transitions.
    num_added = jnp.where(num_added < 2 * capacity, num_added, num_added % capacity + capacity)
    size = jnp.minimum(replay.size + more, jnp.minimum(limit, capacity))
    return Replay(rows, num_added.astype(jnp.int32), size.astype(jnp.int32))


def sample(key: PRNGKeyArray, replay: Replay, shape: tuple[int, ...]) -> Float[Array, "*N W"]:
    """Draw rows uniformly, with replacement."""
    age = jax.random.randint(key, shape, 0, jnp.maximum(replay.size, 1))
    return replay.rows[(replay.num_added - 1 - age) % replay.capacity]
