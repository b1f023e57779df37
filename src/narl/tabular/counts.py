"""The data of an agent as counts and sums, and the estimates r̂ and P̂ made from them."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from narl.paper import implements
from narl.tabular.mdp import Episode
from narl.tabular.problem import Problem
from narl.tabular.transitions import Dynamics


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Stats:
    """Sufficient statistics of the data D: N(s,a), Σr and transition counts, perhaps per member."""

    visits: Float[Array, "*M S A"]
    reward_sum: Float[Array, "*M S A"]
    transitions: Float[Array, "*M S A B"]


def empty_stats(problem: Problem, *lead: int) -> Stats:
    """Return the statistics of no data; ``lead`` are the sizes of leading member axes."""
    shape = (*lead, problem.num_states, problem.num_actions)
    return Stats(jnp.zeros(shape), jnp.zeros(shape), jnp.zeros((*shape, problem.num_slots)))


def one_hot_pairs(problem: Problem, episode: Episode) -> Float[Array, "H SA"]:
    """Return one-hot rows of the pairs (s_h, a_h), which turn sums over h into matrix products.

    XLA's scatter makes one update after the other on the CPU; a product makes all at once.
    """
    index = episode.states[:-1] * problem.num_actions + episode.actions
    return jax.nn.one_hot(index, problem.num_states * problem.num_actions)


def record_episode(
    stats: Stats, problem: Problem, episode: Episode, weights: Float[Array, "*M H"] | None = None
) -> Stats:
    """Return the statistics with an episode added.

    ``weights`` says how often each member counts each step (bootstrap masks).
    """
    if weights is None:
        weights = jnp.ones(problem.horizon)
    rows = one_hot_pairs(problem, episode)
    if problem.successors is None:
        slots = jax.nn.one_hot(episode.states[1:], problem.num_states)
    else:
        reachable = problem.successors[episode.states[:-1], episode.actions]
        slots = (reachable == episode.states[1:, None]).astype(jnp.float32)
    moves = jnp.einsum("...h,hp,hb->...pb", weights, rows, slots)
    return Stats(
        stats.visits + (weights @ rows).reshape(stats.visits.shape),
        stats.reward_sum + ((weights * episode.rewards) @ rows).reshape(stats.visits.shape),
        stats.transitions + moves.reshape(stats.transitions.shape),
    )


@implements("sec:n0")
def estimate_model(stats: Stats, problem: Problem) -> tuple[Float[Array, "*M S A"], Dynamics]:
    """Return r̂ and P̂; where there is no data, r̂ = 0 and P̂ is uniform."""
    n = jnp.maximum(stats.visits, 1.0)
    spread = (stats.visits == 0).astype(jnp.float32)
    p_hat = Dynamics(stats.transitions / n[..., None], spread, problem.successors)
    return stats.reward_sum / n, p_hat
