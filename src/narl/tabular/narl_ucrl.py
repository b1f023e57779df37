"""Noise Augmented UCRL (Algorithm 1 with Eq. 2), called NARL in the paper's experiments."""

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
from narl.tabular.noise import Noise, NoiseProducts, gaussian_dynamics, member_dynamics
from narl.tabular.options import NarlUcrl
from narl.tabular.planning import Plan, naevi
from narl.tabular.posterior import sample_dynamics, sample_rewards
from narl.tabular.problem import Problem
from narl.tabular.sampling import coins, exponential, normal
from narl.tabular.transitions import Dynamics, as_dynamics
from narl.theory.ensemble_sizes import Tail


class MemberState(NamedTuple):
    """The data D, and the part of it that each bootstrap member has."""

    stats: Counts
    members: Counts


def resolve(options: NarlUcrl, problem: Problem) -> NarlUcrl:
    """Return the options with M_r, M_P (perhaps Theorem 1's) and the noised parts filled in."""
    members_r, members_p = options.members_r, options.members_p
    if options.noise == "theorem":
        sizes = (problem.num_states, problem.num_actions, problem.horizon)
        delta = theory.delta_of(options.epsilon, float(problem.num_episodes) * problem.horizon)
        # Unvisited pairs carry N(0,1) noise, whose tail decides the corrected numbers.
        tail: Tail = "unvisited" if options.corrected else "paper"
        fixed = options.corrected
        members_r = members_r or theory.members_r(delta, *sizes, corrected=fixed, tail=tail)
        members_p = members_p or theory.members_p(delta, *sizes, corrected=fixed, tail=tail)
    return dataclasses.replace(
        options,
        noised=options.noised_parts,
        per_stage=options.per_stage or (options.noise == "theorem" and options.corrected),
        members_r=members_r or options.members,
        members_p=members_p or options.members,
    )


def _scales(
    options: NarlUcrl, problem: Problem, visits: Float[Array, "S A"]
) -> tuple[Float[Array, "S A"], Float[Array, "S A"]]:
    """Return σ_r and σ_P of the Gaussian noise; both are 1 where N = 0."""
    n = jnp.maximum(visits, 1.0)
    if options.noise == "theorem":
        sizes = (problem.num_states, problem.num_actions)
        delta = options.epsilon / (4.0 * problem.num_episodes * problem.horizon)
        sigma_r = theory.sigma_r(n, delta, *sizes, corrected=options.corrected)
        sigma_p = theory.sigma_p(n, delta, *sizes, corrected=options.corrected)
    else:
        sigma_r = sigma_p = jnp.sqrt(options.c / n)
    unseen = visits == 0
    return jnp.where(unseen, 1.0, sigma_r), jnp.where(unseen, 1.0, sigma_p)


def _gaussian(
    key: PRNGKeyArray, options: NarlUcrl, problem: Problem, stats: Counts, p_hat: Dynamics
) -> Noise:
    """Return Gaussian noise on rewards and dynamics, as far as they are to carry noise."""
    key_r, key_p = jax.random.split(key)
    sigma_r, sigma_p = _scales(options, problem, stats.visits)
    reward = jnp.zeros((1, *sigma_r.shape))
    dynamics: NoiseProducts | None = None
    if options.noised != "dynamics":
        reward = sigma_r * normal(key_r, (options.members_r or 1, *sigma_r.shape))
    if options.noised != "reward":
        dynamics = gaussian_dynamics(
            key_p,
            sigma_p,
            p_hat,
            options.members_p or 1,
            problem.horizon,
            measure=options.measure,
            fresh=options.per_stage,
        )
    return Noise(reward, dynamics)


def _bootstrap(
    key: PRNGKeyArray,
    options: NarlUcrl,
    problem: Problem,
    state: MemberState,
    r_hat: Float[Array, "S A"],
    p_hat: Dynamics,
) -> Noise:
    """Return the differences between the members' estimates and r̂, P̂.

    A member without data at (s,a) follows the N=0 rule (or ``options.empty``) there.
    """
    key_r, key_p = jax.random.split(key)
    r_members, p_members = estimate_model(state.members, problem)
    no_data = state.members.visits == 0
    reward = jnp.zeros((1, *r_hat.shape))
    dynamics: NoiseProducts | None = None
    if options.noised != "dynamics":
        z = normal(key_r, r_members.shape) if options.empty == "normal" else 1.0
        unknown = no_data if options.empty != "none" else jnp.zeros_like(no_data)
        reward = jnp.where(unknown, z, r_members) - r_hat
    if options.noised != "reward":
        unseen = None
        if options.empty == "normal":
            unseen = gaussian_dynamics(
                key_p,
                no_data.astype(jnp.float32),
                p_hat,
                options.members,
                problem.horizon,
                measure=options.measure,
                fresh=options.per_stage,
            )
        dynamics = member_dynamics(p_members, p_hat, unseen)
    return Noise(reward, dynamics)


def _bootstrap_with_prior(
    key: PRNGKeyArray,
    options: NarlUcrl,
    problem: Problem,
    state: MemberState,
    r_hat: Float[Array, "S A"],
    p_hat: Dynamics,
) -> Noise:
    """Return the differences between the estimates of members with a prior and r̂, P̂ (ours).

    Each member adds one transition of weight 1 to its data at every pair: to a state drawn
    uniformly, with a N(0,1) reward, both drawn anew in every episode. So no pair ever becomes
    certain, and no member is without data.
    """
    key_r, key_p = jax.random.split(key)
    data = state.members
    total = data.visits + 1.0
    reward = jnp.zeros((1, *r_hat.shape))
    dynamics: NoiseProducts | None = None
    if options.noised != "dynamics":
        reward = (data.reward_sum + normal(key_r, total.shape)) / total - r_hat
    if options.noised != "reward":
        p_members = Dynamics(
            data.transitions / total[..., None], jnp.zeros_like(total), problem.successors
        )
        drawn = jax.random.randint(key_p, (total.size,), 0, problem.num_states)
        drawn = drawn.reshape(total.shape)
        prior = NoiseProducts(None, lambda carry, h, v: (v[drawn] / total, carry))
        dynamics = member_dynamics(p_members, p_hat, prior)
    return Noise(reward, dynamics)


def _dirichlet(
    key: PRNGKeyArray,
    options: NarlUcrl,
    problem: Problem,
    stats: Counts,
    r_hat: Float[Array, "S A"],
    p_hat: Dynamics,
) -> Noise:
    """Return posterior samples minus r̂, P̂: optimistic posterior sampling with separate maxima."""
    key_r, key_p = jax.random.split(key)
    reward = jnp.zeros((1, *r_hat.shape))
    dynamics: NoiseProducts | None = None
    if options.noised != "dynamics":
        reward = sample_rewards(key_r, stats, 0.0, 1.0, 1.0, options.members_r or 1) - r_hat
    if options.noised != "reward":
        p = sample_dynamics(key_p, stats, problem, 1.0, options.members_p or 1)
        dynamics = member_dynamics(as_dynamics(p), p_hat, None)
    return Noise(reward, dynamics)


@implements("alg:1", "theorem:1")
def narl_ucrl(options: NarlUcrl) -> Agent:
    """Return the agent of Algorithm 1, UCRL2 branch; ``options`` come from `resolve`."""
    bootstrapped = options.noise in ("bootstrap", "bootstrap-prior")
    with_prior = options.noise == "bootstrap-prior"

    def init(key: PRNGKeyArray, problem: Problem) -> Counts | MemberState:
        stats = empty_counts(problem)
        return MemberState(stats, empty_counts(problem, options.members)) if bootstrapped else stats

    def plan(
        key: PRNGKeyArray, problem: Problem, state: Counts | MemberState
    ) -> tuple[Plan, Counts | MemberState]:
        stats = state.stats if isinstance(state, MemberState) else state
        r_hat, p_hat = estimate_model(stats, problem)
        if isinstance(state, MemberState) and with_prior:
            noise = _bootstrap_with_prior(key, options, problem, state, r_hat, p_hat)
        elif isinstance(state, MemberState):
            noise = _bootstrap(key, options, problem, state, r_hat, p_hat)
        elif options.noise == "dirichlet":
            noise = _dirichlet(key, options, problem, stats, r_hat, p_hat)
        else:
            noise = _gaussian(key, options, problem, stats, p_hat)
        plan = naevi(
            p_hat,
            r_hat,
            noise,
            problem.p0,
            problem.horizon,
            clip=options.clip,
            clip_reward=options.clip_reward,
        )
        return plan, state

    def observe(
        key: PRNGKeyArray, problem: Problem, state: Counts | MemberState, episode: Episode
    ) -> Counts | MemberState:
        if not isinstance(state, MemberState):
            return record_episode(state, problem, episode)
        # One fair coin per transition and member: "50 % of the data"; with a prior, Exp(1).
        draw = exponential if with_prior else coins
        weights = draw(key, (options.members, problem.horizon))
        return MemberState(
            record_episode(state.stats, problem, episode),
            record_episode(state.members, problem, episode, weights),
        )

    return Agent(init, plan, observe)
