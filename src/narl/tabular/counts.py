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
class Counts:
    """Sufficient statistics of the data D: N(s,a), Σr and transition counts, perhaps per member.

    Example:
        >>> visits = jnp.array([[2.0, 0.0]])  # one state, two actions
        >>> stats = narl.tabular.Counts(visits, visits * 0.5, transitions=visits[..., None])
        >>> float(stats.reward_sum[0, 0])
        1.0
    """

    visits: Float[Array, "*M S A"]
    """N(s,a): how often each pair was visited."""
    reward_sum: Float[Array, "*M S A"]
    """The sum of the rewards of each pair."""
    transitions: Float[Array, "*M S A B"]
    """How often each pair was followed by the state of each slot."""


def empty_counts(problem: Problem, *lead: int) -> Counts:
    """Return the statistics of no data.

    Args:
        problem: What the agent is told about the MDP.
        *lead: Sizes of leading member axes; none for one learner.

    Returns:
        `Counts` of zeros.

    Example:
        An agent calls it in its ``init``, and uses the statistics in ``plan`` and ``observe``:

        >>> from narl.tabular import Agent, Plan, empty_counts, estimate_model, record_episode
        >>> def greedy_plan(key, problem, stats):
        ...     r_hat, p_hat = estimate_model(stats, problem)
        ...     sizes = problem.p0, problem.horizon
        ...     return narl.tabular.value_iteration(p_hat, r_hat, *sizes), stats
        >>> greedy = Agent(
        ...     init=lambda key, problem: empty_counts(problem),
        ...     plan=greedy_plan,
        ...     observe=lambda key, problem, stats, episode: record_episode(
        ...         stats, problem, episode
        ...     ),
        ... )
        >>> trace = narl.tabular.run(greedy, narl.tabular.riverswim(), num_episodes=20)
        >>> trace.regret.shape
        (1, 20)
    """
    shape = (*lead, problem.num_states, problem.num_actions)
    return Counts(jnp.zeros(shape), jnp.zeros(shape), jnp.zeros((*shape, problem.num_slots)))


def one_hot_pairs(problem: Problem, episode: Episode) -> Float[Array, "H SA"]:
    """Return one-hot rows of the pairs (s_h, a_h), which turn sums over h into matrix products.

    XLA's scatter makes one update after the other on the CPU; a product makes all at once.
    """
    index = episode.states[:-1] * problem.num_actions + episode.actions
    return jax.nn.one_hot(index, problem.num_states * problem.num_actions)


def record_episode(
    stats: Counts, problem: Problem, episode: Episode, weights: Float[Array, "*M H"] | None = None
) -> Counts:
    """Return the statistics with an episode added.

    Args:
        stats: The statistics so far.
        problem: What the agent is told about the MDP.
        episode: The episode that was played.
        weights: How often each member counts each step, [M, H] (bootstrap masks); 1 by default.

    Returns:
        New `Counts`; `empty_counts` shows an agent that uses them.

    Example:
        >>> problem = narl.tabular.Problem(jnp.ones(1), jnp.float32(9), None, 1, 2, horizon=2)
        >>> stay = jnp.zeros(3, int)
        >>> episode = narl.tabular.Episode(stay, actions=stay[1:], rewards=jnp.ones(2))
        >>> stats = narl.tabular.empty_counts(problem)
        >>> narl.tabular.record_episode(stats, problem, episode).visits
        Array([[2., 0.]], dtype=float32)
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
    return Counts(
        stats.visits + (weights @ rows).reshape(stats.visits.shape),
        stats.reward_sum + ((weights * episode.rewards) @ rows).reshape(stats.visits.shape),
        stats.transitions + moves.reshape(stats.transitions.shape),
    )


@implements("sec:n0")
def estimate_model(stats: Counts, problem: Problem) -> tuple[Float[Array, "*M S A"], Dynamics]:
    """Return r̂ and P̂; where there is no data, r̂ = 0 and P̂ is uniform.

    Args:
        stats: The statistics so far.
        problem: What the agent is told about the MDP.

    Returns:
        r̂ [S, A], and P̂ as the planners take it.

    Example:
        >>> problem = narl.tabular.Problem(jnp.ones(1), jnp.float32(9), None, 1, 2, horizon=2)
        >>> visits = jnp.array([[4.0, 0.0]])
        >>> stats = narl.tabular.Counts(visits, visits / 2, visits[..., None])
        >>> r_hat, p_hat = narl.tabular.estimate_model(stats, problem)
        >>> r_hat
        Array([[0.5, 0. ]], dtype=float32)
    """
    n = jnp.maximum(stats.visits, 1.0)
    spread = (stats.visits == 0).astype(jnp.float32)
    p_hat = Dynamics(stats.transitions / n[..., None], spread, problem.successors)
    return stats.reward_sum / n, p_hat
