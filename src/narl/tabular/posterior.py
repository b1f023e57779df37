"""Posterior sampling of MDPs: Dirichlet dynamics and Normal mean rewards (PSRL's priors).

`jax.random.gamma` runs one rejection loop per element and dominates everything else. Here the
candidates of several rounds are drawn at once and the first accepted one is taken; a loop that
almost never runs finishes the rest, so the draw stays exact.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from narl.tabular.problem import Problem
from narl.tabular.stats import Stats

TINY = float(jnp.finfo(jnp.float32).tiny)
ROUNDS = 3
"""Candidates drawn at once; with shape ≥ 1 each is accepted with probability ≥ 0.95."""


def _candidates(key: PRNGKeyArray, shape: Array, rounds: int) -> tuple[Array, Array]:
    """Marsaglia and Tsang's proposals for Gamma(shape), shape ≥ 1, and which are accepted."""
    key_x, key_u = jax.random.split(key)
    x = jax.random.normal(key_x, (rounds, *shape.shape))
    u = jax.random.uniform(key_u, (rounds, *shape.shape), minval=TINY)
    d = shape - 1.0 / 3.0
    cube = (1.0 + x * jax.lax.rsqrt(9.0 * d)) ** 3
    log_cube = jnp.log(jnp.maximum(cube, TINY))
    accepted = (cube > 0) & (jnp.log(u) < 0.5 * x * x + d - d * cube + d * log_cube)
    return d * cube, accepted


def gamma(
    key: PRNGKeyArray, shape: Float[Array, "*B"], *, below_one: bool = False
) -> Float[Array, "*B"]:
    """Gamma(shape, 1), exactly, for shape ≥ 1, or any shape > 0 with ``below_one``."""
    key_first, key_rest, key_boost = jax.random.split(key, 3)
    # Gamma(a) = Gamma(a + 1)·U^{1/a} serves the shapes that the proposals do not.
    raised = jnp.where(shape < 1.0, shape + 1.0, shape) if below_one else shape
    draws, accepted = _candidates(key_first, raised, ROUNDS)
    value, done = draws[-1], accepted.any(0)
    for round_ in reversed(range(ROUNDS)):
        value = jnp.where(accepted[round_], draws[round_], value)

    def unfinished(state: tuple) -> Array:
        return ~state[1].all()

    def again(state: tuple) -> tuple:
        value, done, count = state
        (draw,), (ok,) = _candidates(jax.random.fold_in(key_rest, count), raised, 1)
        return jnp.where(done, value, draw), done | ok, count + 1

    value, _, _ = jax.lax.while_loop(unfinished, again, (value, done, 0))
    if not below_one:
        return value
    boost = jax.random.uniform(key_boost, shape.shape, minval=TINY)
    return jnp.where(shape < 1.0, value * boost ** (1.0 / shape), value)


def sample_dynamics(
    key: PRNGKeyArray, stats: Stats, problem: Problem, alpha0: float, members: int
) -> Float[Array, "M S A S"]:
    """P^m(s,a) ~ Dirichlet(α0 + counts(s,a)) over all states: normalised Gamma draws."""
    key_seen, key_rest = jax.random.split(key)
    shape = (members, problem.num_states, problem.num_actions, problem.num_states)
    counts = jnp.broadcast_to(stats.transitions, (members, *stats.transitions.shape))
    if problem.successors is None:
        weights = gamma(key_seen, alpha0 + counts, below_one=alpha0 < 1.0)
    else:
        # Only stored successors can have counts; every other state keeps its prior Gamma(α0).
        slots = gamma(key_seen, alpha0 + counts, below_one=alpha0 < 1.0)
        if alpha0 == 1.0:
            rest = jax.random.exponential(key_rest, shape)
        else:
            rest = gamma(key_rest, jnp.full(shape, alpha0), below_one=alpha0 < 1.0)
        weights = rest
        for b in range(problem.num_slots):
            here = problem.successors[..., b, None] == jnp.arange(problem.num_states)
            weights = jnp.where(here, slots[..., b, None], weights)
    return weights / weights.sum(-1, keepdims=True)


def sample_rewards(
    key: PRNGKeyArray, stats: Stats, mu0: float, tau0: float, tau: float, members: int
) -> Float[Array, "M S A"]:
    """Mean rewards from the Normal posterior: prior N(μ0, 1/τ0), noise precision τ."""
    precision = tau0 + tau * stats.visits
    mean = (mu0 * tau0 + tau * stats.reward_sum) / precision
    z = jax.random.normal(key, (members, *mean.shape))
    return mean + z * jax.lax.rsqrt(precision)
