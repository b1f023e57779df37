"""The baselines of Table 1: UCRL2, UCBVI, PSRL, OPSRL, RLSVI and greedy planning."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from narl import theory
from narl.paper import implements
from narl.tabular.agent import Agent
from narl.tabular.counts import Counts, empty_counts, estimate_model, record_episode
from narl.tabular.mdp import Episode
from narl.tabular.options import Greedy, Opsrl, Psrl, Rlsvi, Ucbvi, Ucrl2, Ucrl2Tabularl
from narl.tabular.planning import (
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

    stats: Counts
    episode: Float[Array, ""]


def _init(key: PRNGKeyArray, problem: Problem) -> CountState:
    return CountState(empty_counts(problem), jnp.float32(0.0))


def _observe(
    key: PRNGKeyArray, problem: Problem, state: CountState, episode: Episode
) -> CountState:
    return CountState(record_episode(state.stats, problem, episode), state.episode + 1.0)


def greedy(options: Greedy) -> Agent:
    """Return the agent that plans with the estimates r̂ and P̂."""

    def plan(key: PRNGKeyArray, problem: Problem, state: CountState) -> tuple[Plan, CountState]:
        r_hat, p_hat = estimate_model(state.stats, problem)
        return value_iteration(p_hat, r_hat, problem.p0, problem.horizon), state

    return Agent(_init, plan, _observe)


def _widths(
    problem: Problem, state: CountState, delta: float, scale: float
) -> tuple[Float[Array, "S A"], Float[Array, "S A"]]:
    """Return √(4 ln(2SA(k+1)/δ)/n) for rewards and √S times as much for P, with n = max(N, 1)."""
    n = jnp.maximum(state.stats.visits, 1.0)
    size = problem.num_states * problem.num_actions
    log_term = jnp.log(2.0 * size * (state.episode + 1.0) / delta)
    r_width = scale * jnp.sqrt(4.0 * log_term / n)
    return r_width, r_width * jnp.sqrt(1.0 * problem.num_states)


def ucrl2(options: Ucrl2) -> Agent:
    """Return UCRL2, which plans anew in every episode.

    Unless ``clip="none"``, r̃ ≤ max(1, r̂) and Ṽ^h ≤ H−h. r̂ is not clipped: it may exceed 1 where
    rewards are noisy.
    """

    def plan(key: PRNGKeyArray, problem: Problem, state: CountState) -> tuple[Plan, CountState]:
        r_hat, p_hat = estimate_model(state.stats, problem)
        r_width, p_width = _widths(problem, state, options.delta, options.scale)
        if options.clip == "horizon":
            r_width = jnp.minimum(r_width, jnp.maximum(1.0 - r_hat, 0.0))
        plan = extended_value_iteration(
            p_hat, r_hat, r_width, p_width, problem.p0, problem.horizon, clip=options.clip
        )
        return plan, state

    return Agent(_init, plan, _observe)


def ucrl2_tabularl(options: Ucrl2Tabularl) -> Agent:
    """Return the baseline of Fig. 1(a, b): posterior means, no clip, slack that stays in P̂."""

    def plan(key: PRNGKeyArray, problem: Problem, state: CountState) -> tuple[Plan, CountState]:
        # The estimates are posterior means: prior N(0, 1) for rewards, Dirichlet(1, …, 1) for P.
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


def _hoeffding(options: Ucbvi, problem: Problem, state: CountState, to_go: Array) -> Array:
    """Return (H−h)·√(2 ln(2+k)/n), or 7HL/√n with L = ln(5SAT/δ) (Azar et al., bonus 1)."""
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
    """Return the bonus that depends on the variance of the value function under P̂.

    Practical: √(2·Var·l/n) + (H−h)·l/n + √(2·l/n) with l = ln(2+k); the last term covers the reward
    of this step, the others the steps after it. Theory: bonus 2 of Azar et al., with the cap
    √(8H²/n) in place of the last term.
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


def _simplified(options: Ucbvi, state: CountState, to_go: Array) -> Array:
    """Return scale/√n + (H−h)/n, the bonus of rlberry's UCBVI."""
    n = jnp.maximum(state.stats.visits, 1.0)
    return options.scale / jnp.sqrt(n) + to_go / n


def _variance(p_hat: Dynamics, v: Float[Array, " S"]) -> Float[Array, "S A"]:
    """Return Var_P̂(s,a)[v]; relative to the largest value, for E[v²] − E[v]² cancels otherwise."""
    below = v - v.max()
    return jnp.maximum(expect(p_hat, below**2) - expect(p_hat, below) ** 2, 0.0)


def ucbvi(options: Ucbvi) -> Agent:
    """Return UCBVI: Q̃_h = min(H−h, r̂ + b + E_P̂[Ṽ_{h+1}]), and H−h for unvisited pairs."""

    def plan(key: PRNGKeyArray, problem: Problem, state: CountState) -> tuple[Plan, CountState]:
        r_hat, p_hat = estimate_model(state.stats, problem)
        unseen = state.stats.visits == 0

        def backup(_: None, h: Array, v: Array) -> tuple[Array, None]:
            to_go = problem.horizon - h
            mean = expect(p_hat, v)
            if options.bonus == "simplified":
                bonus = _simplified(options, state, to_go)
            elif options.bonus == "bernstein":
                variance = _variance(p_hat, v)
                bonus = options.scale * _bernstein(options, problem, state, variance, to_go)
            else:
                bonus = options.scale * _hoeffding(options, problem, state, to_go)
            q = jnp.minimum(r_hat + bonus + mean, to_go)
            return jnp.where(unseen, 1.0 * to_go, q), None

        return backward_induction(backup, None, problem.p0, problem.horizon), state

    return Agent(_init, plan, _observe)


def resolve(options: Psrl, problem: Problem) -> Psrl:
    """Return the options with the prior weight 1/S filled in where none is given."""
    alpha0 = 1.0 / problem.num_states if options.alpha0 is None else options.alpha0
    return dataclasses.replace(options, alpha0=alpha0)


def _posterior_agent(options: Psrl, members: int) -> Agent:
    """Return the agent that takes the largest Q over MDPs drawn from the posterior."""
    assert options.alpha0 is not None
    alpha0 = options.alpha0

    def plan(key: PRNGKeyArray, problem: Problem, state: CountState) -> tuple[Plan, CountState]:
        key_r, key_p = jax.random.split(key)
        r = sample_rewards(
            key_r, state.stats, options.mu0, options.tau0, options.tau, members=members
        )
        p = sample_dynamics(key_p, state.stats, problem, alpha0, members)

        def solve(p: Array, r: Array) -> Plan:
            return value_iteration(p, r, problem.p0, problem.horizon)

        plans = jax.vmap(solve)(p, r)
        q = plans.q.max(0)
        return Plan(q, problem.p0 @ q[0].max(-1)), state

    return Agent(_init, plan, _observe)


def psrl(options: Psrl) -> Agent:
    """Return posterior sampling: one MDP per episode."""
    return _posterior_agent(options, 1)


def opsrl(options: Opsrl) -> Agent:
    """Return optimistic posterior sampling: the elementwise maximum of Q over several MDPs."""
    return _posterior_agent(options, options.members)


@implements("table:1")
def rlsvi(options: Rlsvi) -> Agent:
    """Return RLSVI: Q_h = (Σr + ΣV_{h+1}(s'))/(n+1) + w_h with w_h ~ N(0, β/(n+1))."""

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
