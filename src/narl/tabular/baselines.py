"""The rivals of Table 1: UCRL2, UCBVI, PSRL, OPSRL, RLSVI, and the greedy floor."""

from __future__ import annotations

import dataclasses
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from narl import theory
from narl.paper import implements
from narl.tabular.agent import Agent
from narl.tabular.counts import Stats, empty, estimate, record
from narl.tabular.mdp import Episode
from narl.tabular.planning import (
    Clip,
    Plan,
    backward_induction,
    extended_value_iteration,
    value_iteration,
)
from narl.tabular.posterior import sample_dynamics, sample_rewards
from narl.tabular.problem import Problem
from narl.tabular.sampling import normal
from narl.tabular.transitions import Dynamics, expect


class CountState(NamedTuple):
    """The buffer D and the number k of episodes seen."""

    stats: Stats
    episode: Float[Array, ""]


def _init(key: PRNGKeyArray, problem: Problem) -> CountState:
    return CountState(empty(problem), jnp.float32(0.0))


def _observe(
    key: PRNGKeyArray, problem: Problem, state: CountState, episode: Episode
) -> CountState:
    return CountState(record(state.stats, problem, episode), state.episode + 1.0)


@dataclasses.dataclass(frozen=True)
class Greedy:
    """Certainty equivalence: plan with r̂ and P̂, no exploration. The floor."""


def greedy(options: Greedy) -> Agent:
    """Value iteration on the estimates."""

    def plan(key: PRNGKeyArray, problem: Problem, state: CountState) -> tuple[Plan, CountState]:
        r_hat, p_hat = estimate(state.stats, problem)
        return value_iteration(p_hat, r_hat, problem.p0, problem.horizon), state

    return Agent(_init, plan, _observe)


@dataclasses.dataclass(frozen=True)
class Ucrl2:
    """UCRL2: extended value iteration over L1 confidence sets (Jaksch et al. 2010)."""

    delta: float = 0.05
    """Failure probability δ of the confidence sets."""
    scale: float = 1.0
    """Multiplies both confidence widths; 1 is the paper's baseline."""
    clip: Clip = "horizon"
    """Clip Ṽ^h to [0, H−h], or not at all (as in the paper's baseline code)."""


@dataclasses.dataclass(frozen=True)
class Ucrl2Tabularl:
    """UCRL2 as the paper's baseline code computes it: each backup's slack stays in P̂."""

    delta: float = 0.05
    """Failure probability δ of the confidence sets."""
    scale: float = 1.0
    """Multiplies both confidence widths; 1 is the paper's baseline."""
    compounding: bool = True
    """False mends the slip and keeps the rest (priors, no clip): the baseline code with a copy."""


def _widths(
    problem: Problem, state: CountState, delta: float, scale: float
) -> tuple[Float[Array, "S A"], Float[Array, "S A"]]:
    """√(4 ln(2SA(k+1)/δ)/n) for rewards and √S times that for dynamics, n = max(N, 1)."""
    n = jnp.maximum(state.stats.visits, 1.0)
    size = problem.num_states * problem.num_actions
    log_term = jnp.log(2.0 * size * (state.episode + 1.0) / delta)
    r_width = scale * jnp.sqrt(4.0 * log_term / n)
    return r_width, r_width * jnp.sqrt(1.0 * problem.num_states)


def ucrl2(options: Ucrl2) -> Agent:
    """Replans every episode; unless ``clip="none"``, r̃ ≤ max(1, r̂) and Ṽ^h ≤ H−h.

    r̂ itself is left alone: where rewards are noisy it may exceed 1.
    """

    def plan(key: PRNGKeyArray, problem: Problem, state: CountState) -> tuple[Plan, CountState]:
        r_hat, p_hat = estimate(state.stats, problem)
        r_width, p_width = _widths(problem, state, options.delta, options.scale)
        if options.clip == "horizon":
            r_width = jnp.minimum(r_width, jnp.maximum(1.0 - r_hat, 0.0))
        plan = extended_value_iteration(
            p_hat, r_hat, r_width, p_width, problem.p0, problem.horizon, clip=options.clip
        )
        return plan, state

    return Agent(_init, plan, _observe)


def ucrl2_tabularl(options: Ucrl2Tabularl) -> Agent:
    """The baseline of Fig. 1(a, b): posterior means, no clip, and P̂ written to while planning."""

    def plan(key: PRNGKeyArray, problem: Problem, state: CountState) -> tuple[Plan, CountState]:
        # Its estimates are posterior means: Normal(0, 1) for rewards, Dirichlet(1, …, 1) for P.
        visits = state.stats.visits
        r_hat = state.stats.reward_sum / (1.0 + visits)
        total = problem.num_states + visits
        p_hat = Dynamics(
            state.stats.transitions / total[..., None],
            problem.num_states / total,
            problem.successors,
        )
        r_width, p_width = _widths(problem, state, options.delta, options.scale)
        plan = extended_value_iteration(
            p_hat,
            r_hat,
            r_width,
            p_width,
            problem.p0,
            problem.horizon,
            compounding=options.compounding,
        )
        return plan, state

    return Agent(_init, plan, _observe)


@dataclasses.dataclass(frozen=True)
class Ucbvi:
    """UCBVI: an exploration bonus on Q (Azar et al. 2017)."""

    bonus: Literal["hoeffding", "bernstein"] = "hoeffding"
    """Which bonus: on the range of the value function, or on its variance under P̂."""
    constants: Literal["practical", "theory"] = "practical"
    """practical: √(2 ln(2+k)/n) per unit of range; theory: the constants of the proofs."""
    scale: float = 1.0
    """Multiplies the bonus."""
    delta: float = 0.05
    """Failure probability δ; for constants="theory" alone."""


def _hoeffding(options: Ucbvi, problem: Problem, state: CountState, to_go: Array) -> Array:
    """b = (H−h)·√(2 ln(2+k)/n), or 7HL/√n with L = ln(5SAT/δ) (Azar et al., bonus 1)."""
    n = jnp.maximum(state.stats.visits, 1.0)
    if options.constants == "theory":
        return theory.ucbvi_bonus(
            n,
            options.delta,
            problem.num_states,
            problem.num_actions,
            problem.horizon,
            problem.num_episodes,
        )
    return to_go * jnp.sqrt(2.0 * jnp.log(2.0 + state.episode) / n)


def _bernstein(
    options: Ucbvi, problem: Problem, state: CountState, variance: Array, to_go: Array
) -> Array:
    """Practical: √(2·Var·l/n) + (H−h)·l/n + √(2·l/n), l = ln(2+k). Theory: Azar et al., bonus 2,
    whose last term is bounded here by its cap √(8H²/n).

    The reward's own uncertainty is that of one step; the variance term covers the steps after it.
    """
    n = jnp.maximum(state.stats.visits, 1.0)
    if options.constants == "theory":
        num_steps = problem.num_episodes * problem.horizon
        size = problem.num_states * problem.num_actions
        log_term = jnp.log(5.0 * size * num_steps / options.delta)
        first = jnp.sqrt(8.0 * log_term * variance / n)
        second = 14.0 * problem.horizon * log_term / (3.0 * n)
        return first + second + jnp.sqrt(8.0 * problem.horizon**2 / n)
    log_term = jnp.log(2.0 + state.episode)
    range_term = to_go * log_term / n
    return jnp.sqrt(2.0 * variance * log_term / n) + range_term + jnp.sqrt(2.0 * log_term / n)


def _variance(p_hat: Dynamics, v: Float[Array, " S"]) -> Float[Array, "S A"]:
    """Var_P̂(s,a)[v], from the largest value: E[v²] − E[v]² cancels where v is large and even."""
    below = v - v.max()
    return jnp.maximum(expect(p_hat, below**2) - expect(p_hat, below) ** 2, 0.0)


def ucbvi(options: Ucbvi) -> Agent:
    """Q̃_h = min(H−h, r̂ + b + E_P̂[Ṽ_{h+1}]); an unvisited pair is worth H−h."""

    def plan(key: PRNGKeyArray, problem: Problem, state: CountState) -> tuple[Plan, CountState]:
        r_hat, p_hat = estimate(state.stats, problem)
        unseen = state.stats.visits == 0

        def backup(_: None, h: Array, v: Array) -> tuple[Array, None]:
            to_go = problem.horizon - h
            mean = expect(p_hat, v)
            if options.bonus == "bernstein":
                bonus = _bernstein(options, problem, state, _variance(p_hat, v), to_go)
            else:
                bonus = _hoeffding(options, problem, state, to_go)
            q = jnp.minimum(r_hat + options.scale * bonus + mean, to_go)
            return jnp.where(unseen, 1.0 * to_go, q), None

        return backward_induction(backup, None, problem.p0, problem.horizon), state

    return Agent(_init, plan, _observe)


@dataclasses.dataclass(frozen=True)
class Psrl:
    """PSRL: plan in one MDP drawn from the posterior (Osband et al. 2013)."""

    alpha0: float = 1.0
    """Dirichlet prior weight of each next state."""
    mu0: float = 0.0
    """Prior mean of the rewards."""
    tau0: float = 1.0
    """Prior precision of the mean reward."""
    tau: float = 1.0
    """Precision of the reward noise that the posterior assumes."""


@dataclasses.dataclass(frozen=True)
class Opsrl(Psrl):
    """OPSRL: the largest Q over several MDPs drawn from the posterior."""

    members: int = 10
    """Number of MDPs drawn per episode."""


def _posterior_agent(options: Psrl, members: int) -> Agent:
    def plan(key: PRNGKeyArray, problem: Problem, state: CountState) -> tuple[Plan, CountState]:
        key_r, key_p = jax.random.split(key)
        r = sample_rewards(
            key_r, state.stats, options.mu0, options.tau0, options.tau, members=members
        )
        p = sample_dynamics(key_p, state.stats, problem, options.alpha0, members)

        def solve(p: Array, r: Array) -> Plan:
            return value_iteration(p, r, problem.p0, problem.horizon)

        plans = jax.vmap(solve)(p, r)
        q = plans.q.max(0)
        return Plan(q, problem.p0 @ q[0].max(-1)), state

    return Agent(_init, plan, _observe)


def psrl(options: Psrl) -> Agent:
    """Posterior sampling: one draw."""
    return _posterior_agent(options, 1)


def opsrl(options: Opsrl) -> Agent:
    """Optimistic posterior sampling: the elementwise maximum of Q over the draws."""
    return _posterior_agent(options, options.members)


@dataclasses.dataclass(frozen=True)
class Rlsvi:
    """RLSVI: randomised value functions, fresh Gaussian noise on every Q_h (Russo 2019)."""

    constants: Literal["practical", "theory"] = "practical"
    """practical: noise variance c·(H−h)/(n+1); theory: β_k = ½·S·H³·ln(2HSAk) over (n+1)."""
    c: float = 0.1
    """Scale of the practical noise."""
    clip: Clip = "none"
    """Clip Ṽ^h to [0, H−h], or not at all (as analysed)."""


@implements("table:1")
def rlsvi(options: Rlsvi) -> Agent:
    """Q_h = (Σr + ΣV_{h+1}(s'))/(n+1) + w_h, w_h ~ N(0, β/(n+1)): a regression with prior 0."""

    def plan(key: PRNGKeyArray, problem: Problem, state: CountState) -> tuple[Plan, CountState]:
        stats, horizon = state.stats, problem.horizon
        shrunk = stats.visits + 1.0
        r_bar = stats.reward_sum / shrunk
        p_bar = Dynamics(
            stats.transitions / shrunk[..., None], jnp.zeros_like(shrunk), problem.successors
        )
        z = normal(key, (horizon, *shrunk.shape))
        size = problem.num_states * problem.num_actions
        beta_k = (
            0.5
            * problem.num_states
            * horizon**3
            * jnp.log(2.0 * horizon * size * (state.episode + 1.0))
        )

        def backup(_: None, h: Array, v: Array) -> tuple[Array, None]:
            beta = beta_k if options.constants == "theory" else options.c * (horizon - h)
            return r_bar + expect(p_bar, v) + z[h] * jnp.sqrt(beta / shrunk), None

        return backward_induction(backup, None, problem.p0, horizon, options.clip), state

    return Agent(_init, plan, _observe)
