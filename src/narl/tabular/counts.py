"""The data buffer D as sufficient statistics: counts, sums, and the rules for N(s,a) = 0."""

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
    """N(s,a), Σr and the transition counts; a member axis M may lead."""

    visits: Float[Array, "*M S A"]
    reward_sum: Float[Array, "*M S A"]
    transitions: Float[Array, "*M S A B"]


def empty(problem: Problem, *lead: int) -> Stats:
    """No data; ``lead`` adds member axes."""
    shape = (*lead, problem.num_states, problem.num_actions)
    return Stats(jnp.zeros(shape), jnp.zeros(shape), jnp.zeros((*shape, problem.num_slots)))


def pairs(problem: Problem, episode: Episode) -> Float[Array, "H SA"]:
    """One-hot rows of the pairs (s_h, a_h): sums over h become small matrix products.

    XLA's scatter runs one update after the other on the CPU; products of one-hot rows do not.
    """
    index = episode.states[:-1] * problem.num_actions + episode.actions
    return jax.nn.one_hot(index, problem.num_states * problem.num_actions)


def record(
    stats: Stats, problem: Problem, episode: Episode, weights: Float[Array, "*M H"] | None = None
) -> Stats:
    """D ∪ episode. ``weights`` says how often each member takes each step (bootstrap masks)."""
    if weights is None:
        weights = jnp.ones(problem.horizon)
    rows = pairs(problem, episode)
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
def estimate(stats: Stats, problem: Problem) -> tuple[Float[Array, "*M S A"], Dynamics]:
    """r̂ and P̂; without data r̂ = 0 and P̂ is uniform."""
    n = jnp.maximum(stats.visits, 1.0)
    spread = (stats.visits == 0).astype(jnp.float32)
    p_hat = Dynamics(stats.transitions / n[..., None], spread, problem.successors)
    return stats.reward_sum / n, p_hat
