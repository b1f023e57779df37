"""The optimistic choice in the target of an update, as ESPI makes it (``optimism_at="update"``).

Imagined transitions are then stored with one candidate per member for what follows: its reward, its
next observation and whether the episode ends there. Every update chooses among the candidates anew,
with the critics of that moment.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from narl.deep.replay_buffer import unpack, unpack_candidates
from narl.deep.sac import Batch, DrawChooseFn
from narl.deep.selection import Candidates, SelectParams, choose_or_draw
from narl.deep.termination import TerminationFn


def all_candidates(
    candidates: Candidates, bonus: Float[Array, " B"], is_terminal: TerminationFn
) -> Batch:
    """Return the imagined transitions of all members, from which the update will choose."""
    obs, action, scored = candidates.obs, candidates.action, candidates.scored
    next_obs = jnp.moveaxis(scored.next_obs, 0, 1)
    ends = jax.vmap(lambda after: is_terminal(obs, action, after))(scored.next_obs)
    reward = scored.reward.T + bonus[:, None]
    return Batch(obs, action, reward, next_obs, ends.T.astype(jnp.float32))


def join_candidates(
    real: Float[Array, "G R W"], imagined: Float[Array, "G I V"], obs_dim: int, members: int
) -> Batch:
    """Return packed real transitions, each repeated as all its candidates, and imagined ones."""
    plain = unpack(real, obs_dim)
    repeated = plain._replace(
        reward=jnp.repeat(plain.reward[..., None], members, axis=-1),
        next_obs=jnp.repeat(plain.next_obs[..., None, :], members, axis=-2),
        done=jnp.repeat(plain.done[..., None], members, axis=-1),
    )
    others = unpack_candidates(imagined, obs_dim, members)
    return jax.tree.map(lambda a, b: jnp.concatenate([a, b], axis=1), repeated, others)


def target_choice(ranked: Int[Array, " M"], params: SelectParams) -> DrawChooseFn:
    """Return the function that takes the optimistic reward and value among the candidates."""

    def choose(key: PRNGKeyArray, reward: Array, values: Array) -> tuple[Array, Array]:
        choice = choose_or_draw(key, reward, values, ranked, params)
        rows = jnp.arange(reward.shape[1])
        return reward[choice.reward_member, rows], values[choice.member, rows]

    return choose
