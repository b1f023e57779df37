"""Noise Augmented UCBVI (Algorithm 1 with Eq. 4): only rewards carry noise."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from narl import theory
from narl.optimism import optimistic
from narl.paper import implements
from narl.tabular.agent import Agent
from narl.tabular.counts import Counts, empty_counts, estimate_model, one_hot_pairs, record_episode
from narl.tabular.mdp import Episode
from narl.tabular.options import NarlUcbvi
from narl.tabular.planning import Plan, navi, steps_to_go
from narl.tabular.problem import Problem
from narl.tabular.sampling import coins, normal
from narl.theory.ensemble_sizes import Tail


class FakeState(NamedTuple):
    """The number and the sum of the rewards, real and fake, that each member selected."""

    selected: Float[Array, "M S A"]
    total: Float[Array, "M S A"]


class UcbviState(NamedTuple):
    """The data D, the Q̃ of the previous episode, and the fake rewards if the agent uses them."""

    stats: Counts
    q: Float[Array, "H S A"]
    """Q̃_{k−1}, for the running minimum."""
    fake: FakeState | None


def resolve(options: NarlUcbvi, problem: Problem) -> NarlUcbvi:
    """Return the options with M_r (by Theorem 2) and M_B (by Theorem 3) filled in."""
    num_steps = float(problem.num_episodes) * problem.horizon
    members, fakes = options.members, options.fakes
    sizes = (problem.num_states, problem.num_actions, problem.horizon)
    delta = theory.delta_of(options.epsilon, int(num_steps))
    if options.noise == "theorem" and members is None:
        tail: Tail = "exact" if options.corrected else "paper"
        members = theory.members_r(delta, *sizes, corrected=options.corrected, tail=tail)
    if options.noise == "fake-reward" and fakes is None:
        fakes = theory.fake_pairs(delta, *sizes, int(num_steps), corrected=options.corrected)
    return dataclasses.replace(options, members=members or 10, fakes=fakes)


def count_heads(key: PRNGKeyArray, num_coins: int, shape: tuple[int, ...]) -> Int[Array, "..."]:
    """Return exact draws of Binomial(num_coins, ½): the number of ones among random bits."""
    num_words, rest = -(-num_coins // 32), num_coins % 32
    words = jax.random.bits(key, (num_words * math.prod(shape),), jnp.uint32)
    words = words.reshape(num_words, *shape)
    if rest:
        words = words.at[-1].set(words[-1] & jnp.uint32((1 << rest) - 1))
    return jax.lax.population_count(words).astype(jnp.int32).sum(0)


@implements("sec:3.3.1", "theorem:3")
def add_fakes(
    key: PRNGKeyArray, fakes: int, fake: FakeState, weight: Float[Array, "..."]
) -> FakeState:
    """Return the state with M_B fake rewards of each sign added per unit of ``weight``."""
    key_plus, key_minus = jax.random.split(key)
    shape = fake.selected.shape
    plus, minus = count_heads(key_plus, fakes, shape), count_heads(key_minus, fakes, shape)
    return FakeState(fake.selected + weight * (plus + minus), fake.total + weight * (plus - minus))


def _observe_fakes(
    key: PRNGKeyArray, options: NarlUcbvi, problem: Problem, fake: FakeState, episode: Episode
) -> FakeState:
    """Return the state with the episode's rewards added, and 2·M_B fake rewards for each.

    Every member selects each of the rewards with probability ½.
    """
    assert options.members is not None
    assert options.fakes is not None
    key_real, key_plus, key_minus = jax.random.split(key, 3)
    shape = (options.members, problem.horizon)
    real = coins(key_real, shape)
    plus = count_heads(key_plus, options.fakes, shape).astype(jnp.float32)
    minus = count_heads(key_minus, options.fakes, shape).astype(jnp.float32)
    rows = one_hot_pairs(problem, episode)
    count = ((real + plus + minus) @ rows).reshape(fake.selected.shape)
    total = ((real * episode.rewards + plus - minus) @ rows).reshape(fake.selected.shape)
    return FakeState(fake.selected + count, fake.total + total)


def _sample_rewards(
    key: PRNGKeyArray, options: NarlUcbvi, problem: Problem, state: UcbviState, r_hat: Array
) -> Float[Array, "M S A"]:
    """Return the noisy rewards r̃^m of all members (Eq. 3)."""
    if state.fake is not None:
        assert options.fakes is not None
        # Fakes are added at every visit and at the start: n real rewards and 2·M_B·(n+1) fakes.
        n = jnp.maximum(state.stats.visits, 1.0)
        scale = 1.0 + 2.0 * options.fakes * (1.0 + 1.0 / n) if options.rescaled else 1.0
        return scale * state.fake.total / jnp.maximum(state.fake.selected, 1.0)
    n = jnp.maximum(state.stats.visits, 1.0)
    if options.noise == "theorem":
        delta = options.epsilon / (4.0 * problem.num_episodes * problem.horizon)
        sizes = (problem.num_states, problem.num_actions)
        sigma = theory.sigma_r_ucbvi(n, delta, *sizes, problem.horizon, corrected=options.corrected)
    else:
        sigma = problem.horizon * jnp.sqrt(options.c / n)
    return r_hat + sigma * normal(key, (options.members or 1, *r_hat.shape))


@implements("alg:1", "theorem:2")
def narl_ucbvi(options: NarlUcbvi) -> Agent:
    """Return the agent of Algorithm 1, UCBVI branch; ``options`` come from `resolve`."""
    faked = options.noise == "fake-reward"

    def init(key: PRNGKeyArray, problem: Problem) -> UcbviState:
        sizes = (problem.num_states, problem.num_actions)
        fake = None
        if faked:
            assert options.fakes is not None
            zeros = jnp.zeros((options.members or 1, *sizes))
            fake = add_fakes(key, options.fakes, FakeState(zeros, zeros), jnp.float32(1.0))
        return UcbviState(empty_counts(problem), steps_to_go(problem.horizon, *sizes), fake)

    def plan(key: PRNGKeyArray, problem: Problem, state: UcbviState) -> tuple[Plan, UcbviState]:
        r_hat, p_hat = estimate_model(state.stats, problem)
        r_tilde = optimistic(_sample_rewards(key, options, problem, state, r_hat)).value
        # Unvisited pairs are worth H−h: `navi` caps the reward H.
        r_tilde = jnp.where(state.stats.visits == 0, float(problem.horizon), r_tilde)
        plan = navi(p_hat, r_tilde, state.q, problem.p0, problem.horizon)
        return plan, state._replace(q=plan.q) if options.running_min else state

    def observe(
        key: PRNGKeyArray, problem: Problem, state: UcbviState, episode: Episode
    ) -> UcbviState:
        fake = state.fake
        if fake is not None:
            fake = _observe_fakes(key, options, problem, fake, episode)
        return UcbviState(record_episode(state.stats, problem, episode), state.q, fake)

    return Agent(init, plan, observe)
