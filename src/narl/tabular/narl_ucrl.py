"""Noise Augmented UCRL (Algorithm 1 with Eq. 2), the agent the paper's experiments call NARL."""

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
from narl.tabular.noise import Measure, Noise, Reveal, gaussian_dynamics, member_dynamics
from narl.tabular.planning import Clip, Plan, naevi
from narl.tabular.posterior import sample_dynamics, sample_rewards
from narl.tabular.problem import Problem
from narl.tabular.sampling import coins, normal
from narl.tabular.transitions import Dynamics, as_dynamics


@dataclasses.dataclass(frozen=True)
class NarlUcrl:
    """Noise Augmented UCRL: optimism by noise on r̂ and P̂ (Eq. 2)."""

    noise: Literal["gaussian", "theorem", "bootstrap", "dirichlet"] = "gaussian"
    """gaussian: variance c/N; theorem: Theorem 1's scales and M; bootstrap: members with half of
    the data each; dirichlet: posterior samples."""
    noised: Literal["reward", "dynamics", "both"] | None = None
    """Which parts carry noise; by default the reward alone for gaussian, both for the others."""
    measure: Measure = "signed"
    """How P̂ + ξ is treated: signed measure, ξ centred to sum 0, or projected to the simplex."""
    c: float = 0.005
    """Variance of the gaussian noise is c/N(s,a), and 1 where N = 0. The paper prints c = 1."""
    members: int = 10
    """M, the number of noise vectors or bootstrap members."""
    members_r: int | None = None
    """M_r, for the rewards, where it differs from M."""
    members_p: int | None = None
    """M_P, for the dynamics, where it differs from M."""
    clip: Clip = "horizon"
    """Clip Ṽ^h to [0, H−h] (the appendix needs it), or not at all."""
    clip_reward: bool = True
    """Clip r̃ to [0, 1] (the appendix's first assumption)."""
    per_stage: bool = False
    """Draw dynamics noise afresh at every stage h (the optimism proof needs it)."""
    empty: Literal["normal", "one", "none"] = "normal"
    """bootstrap: what a member without data at (s,a) adds there. normal: N(0,1) to the reward and
    N(0,I) to the dynamics (the N=0 rule); one: reward 1; none: nothing, so r̂ = 0, P̂ uniform."""
    epsilon: float = 0.1
    """Theorem 1 holds with probability 1 − ε; for noise="theorem" alone."""
    corrected: bool = False
    """noise="theorem": the scales, M_r, M_P and fresh noise per stage that the proof needs,
    instead of the printed ones."""


PAPER = NarlUcrl(noised="both", measure="signed", c=1.0, clip="none", clip_reward=False)
"""The Gaussian agent of the paper's experiments, as printed."""


class MemberState(NamedTuple):
    """The buffer D, and the share of it that each bootstrap member sees."""

    stats: Stats
    members: Stats


def resolve(options: NarlUcrl, problem: Problem) -> NarlUcrl:
    """Fills in what depends on the problem: Theorem 1's M_r and M_P, and the noised parts."""
    noised = options.noised or ("reward" if options.noise == "gaussian" else "both")
    members_r, members_p = options.members_r, options.members_p
    if options.noise == "theorem":
        sizes = (problem.num_states, problem.num_actions, problem.horizon)
        delta = theory.delta_of(options.epsilon, float(problem.num_episodes) * problem.horizon)
        # Unvisited pairs carry N(0,1) noise, whose tail decides the corrected numbers.
        tail: theory.Tail = "unvisited" if options.corrected else "paper"
        fixed = options.corrected
        members_r = members_r or theory.members_r(delta, *sizes, corrected=fixed, tail=tail)
        members_p = members_p or theory.members_p(delta, *sizes, corrected=fixed, tail=tail)
    return dataclasses.replace(
        options,
        noised=noised,
        per_stage=options.per_stage or (options.noise == "theorem" and options.corrected),
        members_r=members_r or options.members,
        members_p=members_p or options.members,
    )


def _scales(
    options: NarlUcrl, problem: Problem, visits: Float[Array, "S A"]
) -> tuple[Float[Array, "S A"], Float[Array, "S A"]]:
    """σ_r and σ_P of the Gaussian noise; N(0,1) and N(0,I) where N = 0."""
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
    key: PRNGKeyArray, options: NarlUcrl, problem: Problem, stats: Stats, p_hat: Dynamics
) -> Noise:
    key_r, key_p = jax.random.split(key)
    sigma_r, sigma_p = _scales(options, problem, stats.visits)
    reward = jnp.zeros((1, *sigma_r.shape))
    dynamics: Reveal | None = None
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
    """Members differ by their data; one without data at (s,a) follows the N=0 rule there."""
    key_r, key_p = jax.random.split(key)
    r_members, p_members = estimate(state.members, problem)
    no_data = state.members.visits == 0
    reward = jnp.zeros((1, *r_hat.shape))
    dynamics: Reveal | None = None
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


def _dirichlet(
    key: PRNGKeyArray,
    options: NarlUcrl,
    problem: Problem,
    stats: Stats,
    r_hat: Float[Array, "S A"],
    p_hat: Dynamics,
) -> Noise:
    """ξ = posterior sample − estimate: optimistic posterior sampling with separate maxima."""
    key_r, key_p = jax.random.split(key)
    reward = jnp.zeros((1, *r_hat.shape))
    dynamics: Reveal | None = None
    if options.noised != "dynamics":
        reward = sample_rewards(key_r, stats, 0.0, 1.0, 1.0, options.members_r or 1) - r_hat
    if options.noised != "reward":
        p = sample_dynamics(key_p, stats, problem, 1.0, options.members_p or 1)
        dynamics = member_dynamics(as_dynamics(p), p_hat, None)
    return Noise(reward, dynamics)


@implements("alg:1", "theorem:1")
def narl_ucrl(options: NarlUcrl) -> Agent:
    """Algorithm 1, UCRL2 branch; ``options`` come from `resolve`."""
    bootstrapped = options.noise == "bootstrap"

    def init(key: PRNGKeyArray, problem: Problem) -> Stats | MemberState:
        stats = empty(problem)
        return MemberState(stats, empty(problem, options.members)) if bootstrapped else stats

    def plan(
        key: PRNGKeyArray, problem: Problem, state: Stats | MemberState
    ) -> tuple[Plan, Stats | MemberState]:
        stats = state.stats if isinstance(state, MemberState) else state
        r_hat, p_hat = estimate(stats, problem)
        if isinstance(state, MemberState):
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
        key: PRNGKeyArray, problem: Problem, state: Stats | MemberState, episode: Episode
    ) -> Stats | MemberState:
        if not isinstance(state, MemberState):
            return record(state, problem, episode)
        # One coin per transition and member, tossed on arrival: "50 % of the data".
        mask = coins(key, (options.members, problem.horizon))
        return MemberState(
            record(state.stats, problem, episode),
            record(state.members, problem, episode, mask),
        )

    return Agent(init, plan, observe)
