"""Noise Augmented UCBVI (Algorithm 1 with Eq. 4): all optimism enters through the reward."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from narl import theory
from narl.optimism import optimistic
from narl.paper import implements
from narl.tabular.agent import Agent
from narl.tabular.counts import Stats, empty, estimate, pairs, record
from narl.tabular.mdp import Episode
from narl.tabular.planning import Plan, navi, steps_to_go
from narl.tabular.problem import Problem
from narl.tabular.sampling import coins, normal


@dataclasses.dataclass(frozen=True)
class NarlUcbvi:
    """Noise Augmented UCBVI: reward noise on the scale of the value function (Eq. 4)."""

    noise: Literal["gaussian", "theorem", "fake-reward"] = "gaussian"
    """gaussian: variance c·H²/N; theorem: σ = 2Hβ_r of Theorem 2; fake-reward: the bootstrap over
    a buffer filled with ±1 rewards (§3.3.1)."""
    c: float = 1.0
    """Variance of the gaussian noise is c·H²/N(s,a)."""
    members: int | None = None
    """M_r; 10 by default, Theorem 2's number for noise="theorem"."""
    running_min: bool = True
    """Take the minimum with the previous episode's Q̃ (Eq. 4)."""
    fakes: int | None = None
    """M_B, fake rewards of each sign per real one; Theorem 3's H·log(T) by default."""
    rescaled: bool = True
    """fake-reward: undo the fakes' pull towards 0, so that the mean is r; False is as printed."""
    epsilon: float = 0.1
    """Theorems 2 and 3 hold with probability 1 − ε."""
    corrected: bool = False
    """Take the σ, M_r and M_B that the proofs need, not the printed ones."""


class FakeState(NamedTuple):
    """Sums over the rewards, real and fake, that each member's coins selected."""

    selected: Float[Array, "M S A"]
    total: Float[Array, "M S A"]


class UcbviState(NamedTuple):
    """The buffer D, the last Q̃, and the fake rewards where there are any."""

    stats: Stats
    q: Float[Array, "H S A"]
    """Q̃_{k−1}, for the running minimum."""
    fake: FakeState | None


def resolve(options: NarlUcbvi, problem: Problem) -> NarlUcbvi:
    """Fills in what depends on the problem: M_r of Theorem 2 and M_B of Theorem 3."""
    num_steps = float(problem.num_episodes) * problem.horizon
    members, fakes = options.members, options.fakes
    sizes = (problem.num_states, problem.num_actions, problem.horizon)
    delta = theory.delta_of(options.epsilon, int(num_steps))
    if options.noise == "theorem" and members is None:
        tail: theory.Tail = "exact" if options.corrected else "paper"
        members = theory.members_r(delta, *sizes, corrected=options.corrected, tail=tail)
    if options.noise == "fake-reward" and fakes is None:
        fakes = theory.fake_pairs(delta, *sizes, int(num_steps), corrected=options.corrected)
    return dataclasses.replace(options, members=members or 10, fakes=fakes)


def toss(key: PRNGKeyArray, num_coins: int, shape: tuple[int, ...]) -> Int[Array, "..."]:
    """Binomial(num_coins, ½), exactly, as the number of ones among random bits."""
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
    """Adds M_B fake rewards of each sign per unit of ``weight`` to every member's selection."""
    key_plus, key_minus = jax.random.split(key)
    shape = fake.selected.shape
    plus, minus = toss(key_plus, fakes, shape), toss(key_minus, fakes, shape)
    return FakeState(fake.selected + weight * (plus + minus), fake.total + weight * (plus - minus))


def _observe_fakes(
    key: PRNGKeyArray, options: NarlUcbvi, problem: Problem, fake: FakeState, episode: Episode
) -> FakeState:
    """Each step adds its reward and 2·M_B fakes; every member tosses a coin for each of them."""
    assert options.members is not None
    assert options.fakes is not None
    key_real, key_plus, key_minus = jax.random.split(key, 3)
    shape = (options.members, problem.horizon)
    real = coins(key_real, shape)
    plus = toss(key_plus, options.fakes, shape).astype(jnp.float32)
    minus = toss(key_minus, options.fakes, shape).astype(jnp.float32)
    rows = pairs(problem, episode)
    count = ((real + plus + minus) @ rows).reshape(fake.selected.shape)
    total = ((real * episode.rewards + plus - minus) @ rows).reshape(fake.selected.shape)
    return FakeState(fake.selected + count, fake.total + total)


def _sample_rewards(
    key: PRNGKeyArray, options: NarlUcbvi, problem: Problem, state: UcbviState, r_hat: Array
) -> Float[Array, "M S A"]:
    """r̃^m: the noisy rewards before the maximum over members (Eq. 3)."""
    if state.fake is not None:
        assert options.fakes is not None
        # One set of fakes per visit and one at the start: n real rewards among 2·M_B·(n+1) fakes.
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
    """Algorithm 1, UCBVI branch; ``options`` come from `resolve`."""
    faked = options.noise == "fake-reward"

    def init(key: PRNGKeyArray, problem: Problem) -> UcbviState:
        sizes = (problem.num_states, problem.num_actions)
        fake = None
        if faked:
            assert options.fakes is not None
            zeros = jnp.zeros((options.members or 1, *sizes))
            fake = add_fakes(key, options.fakes, FakeState(zeros, zeros), jnp.float32(1.0))
        return UcbviState(empty(problem), steps_to_go(problem.horizon, *sizes), fake)

    def plan(key: PRNGKeyArray, problem: Problem, state: UcbviState) -> tuple[Plan, UcbviState]:
        r_hat, p_hat = estimate(state.stats, problem)
        r_tilde = optimistic(_sample_rewards(key, options, problem, state, r_hat)).value
        # An unvisited pair is worth H−h: the cap does the rest.
        r_tilde = jnp.where(state.stats.visits == 0, float(problem.horizon), r_tilde)
        plan = navi(p_hat, r_tilde, state.q, problem.p0, problem.horizon)
        return plan, state._replace(q=plan.q) if options.running_min else state

    def observe(
        key: PRNGKeyArray, problem: Problem, state: UcbviState, episode: Episode
    ) -> UcbviState:
        fake = state.fake
        if fake is not None:
            fake = _observe_fakes(key, options, problem, fake, episode)
        return UcbviState(record(state.stats, problem, episode), state.q, fake)

    return Agent(init, plan, observe)
