"""Posterior samples of MDPs: Dirichlet dynamics and Normal mean rewards (PSRL's priors).

`jax.random.gamma` runs one rejection loop per element and takes most of the time of an agent. Here
the candidates of several rounds are drawn at once and the first accepted one is taken; a loop that
seldom runs draws the elements that are left, so that the distribution is exact.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from narl.paper import implements
from narl.tabular.counts import Counts
from narl.tabular.problem import Problem
from narl.tabular.sampling import exponential, normal, uniform
from narl.tabular.transitions import check_table_size

TINY = float(jnp.finfo(jnp.float32).tiny)
HALF_STEP = 2.0**-24
"""Half of the distance between neighbouring uniform draws; it replaces the draw 0."""
ROUNDS = 2
"""Candidates drawn at once; with shape ≥ 2 each is accepted with probability ≥ 0.98."""


def _candidates(key: PRNGKeyArray, shape: Float[Array, " B"]) -> tuple[Array, Array]:
    """Return Marsaglia and Tsang's proposals for Gamma(shape), shape ≥ 1, and which are accepted.

    For shape 1 the uniform draw gives an Exp(1), which is always accepted.
    """
    key_x, key_u = jax.random.split(key)
    x, u = normal(key_x, shape.shape), uniform(key_u, shape.shape, HALF_STEP)
    log_u = jnp.log(u)
    d = shape - 1.0 / 3.0
    cube = (1.0 + x * jax.lax.rsqrt(9.0 * d)) ** 3
    log_cube = jnp.log(jnp.maximum(cube, TINY))
    accepted = (cube > 0) & (log_u < 0.5 * x * x + d - d * cube + d * log_cube)
    is_one = shape == 1.0
    return jnp.where(is_one, -log_u, d * cube), accepted | is_one


def gamma(key: PRNGKeyArray, shape: Float[Array, "*B"]) -> Float[Array, "*B"]:
    """Return exact draws of Gamma(shape, 1) for shape ≥ 1."""
    key_first, key_rest = jax.random.split(key)
    flat = shape.reshape(-1)
    value, done = jnp.zeros_like(flat), jnp.zeros(flat.shape, bool)
    for key_round in jax.random.split(key_first, ROUNDS):
        draw, accepted = _candidates(key_round, flat)
        value, done = jnp.where(done, value, draw), done | accepted

    def unfinished(state: tuple) -> Array:
        return ~state[1].all()

    def again(state: tuple) -> tuple:
        value, done, count = state
        draw, accepted = _candidates(jax.random.fold_in(key_rest, count), flat)
        return jnp.where(done, value, draw), done | accepted, count + 1

    value, _, _ = jax.lax.while_loop(unfinished, again, (value, done, 0))
    return value.reshape(shape.shape)


def log_gamma(key: PRNGKeyArray, shape: Float[Array, "*B"]) -> Float[Array, "*B"]:
    """Return log X with X ~ Gamma(shape, 1), for any shape > 0; X underflows for small shapes.

    Shapes below 1, which `gamma` does not cover, use Gamma(a) = Gamma(a + 1)·U^{1/a}.
    """
    key_draw, key_boost = jax.random.split(key)
    draw = gamma(key_draw, jnp.where(shape < 1.0, shape + 1.0, shape))
    boost = jnp.log(uniform(key_boost, shape.shape, TINY)) / shape
    return jnp.log(draw) + jnp.where(shape < 1.0, boost, 0.0)


@implements("sec:posterior")
def sample_dynamics(
    key: PRNGKeyArray, stats: Counts, problem: Problem, alpha0: float, members: int
) -> Float[Array, "M S A S"]:
    """Return P^m(s,a) ~ Dirichlet(α0 + counts(s,a)) over all states: normalised Gamma draws."""
    key_seen, key_rest = jax.random.split(key)
    shape = (members, problem.num_states, problem.num_actions, problem.num_states)
    check_table_size(*shape)
    counts = jnp.broadcast_to(stats.transitions, (members, *stats.transitions.shape))
    draw = gamma if alpha0 >= 1.0 else log_gamma
    if problem.successors is None:
        weights = draw(key_seen, alpha0 + counts)
    else:
        # Only stored successors can have counts; all other states have their prior Gamma(α0).
        slots = draw(key_seen, alpha0 + counts)
        if alpha0 == 1.0:
            weights = exponential(key_rest, shape)
        else:
            weights = draw(key_rest, jnp.full(shape, alpha0))
        for b in range(problem.num_slots):
            here = problem.successors[..., b, None] == jnp.arange(problem.num_states)
            weights = jnp.where(here, slots[..., b, None], weights)
    if alpha0 < 1.0:
        weights = jnp.exp(weights - weights.max(-1, keepdims=True))
    # A product, because XLA orders a plain sum by the number of seeds, and then the last bits of a
    # seed's draws would depend on the other seeds.
    return weights / (weights @ jnp.ones(problem.num_states))[..., None]


def sample_rewards(
    key: PRNGKeyArray, stats: Counts, mu0: float, tau0: float, tau: float, members: int
) -> Float[Array, "M S A"]:
    """Return mean rewards from the Normal posterior: prior N(μ0, 1/τ0), noise precision τ."""
    precision = tau0 + tau * stats.visits
    mean = (mu0 * tau0 + tau * stats.reward_sum) / precision
    z = normal(key, (members, *mean.shape))
    return mean + z * jax.lax.rsqrt(precision)
