"""The loop of Algorithm 1 for many seeds in one compiled program, scored with exact regret."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Unpack

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt

from narl.console import episode_progress
from narl.errors import InputError
from narl.paper import implements
from narl.tabular.agent import Agent
from narl.tabular.agent_registry import agent_name, make_agent
from narl.tabular.checked_options import agent_options
from narl.tabular.envs import refuse_swapped
from narl.tabular.exact_values import solve
from narl.tabular.mdp import AnyArray, Episode, TabularMDP, find_mdp
from narl.tabular.option_types import AgentSettings
from narl.tabular.options import AgentOptions
from narl.tabular.problem import Problem, World, make_problem, make_world
from narl.tabular.sampling import uniform
from narl.tabular.trace import Trace, solved_at
from narl.tabular.transitions import expect
from narl.validation import check_count, check_seeds

CHUNK = 250
"""Largest number of episodes per compiled call: progress is shown between the calls."""
TIE = 1e-6
"""Largest relative difference of two values that float32 rounding may have caused."""


class Record(NamedTuple):
    """The scores of one episode."""

    regret: Float[Array, "*B"]
    """V(π*) − V(π_k), exactly."""
    value: Float[Array, "*B"]
    """Ṽ_k(π_k), the agent's own estimate."""
    trajectory_gap: Float[Array, "*B"]
    """Σ_h V*_h(s_h) − Q*_h(s_h,a_h) along the episode played; its mean is the regret."""
    realised_return: Float[Array, "*B"]
    """Σ_h r_h."""
    bad: Float[Array, "*B"]
    """1 if the episode took an action marked bad (Deep Sea), else 0."""


def greedy_policy(key: PRNGKeyArray, q: Float[Array, "H S A"]) -> Int[Array, "H S"]:
    """Return argmax_a q, with ties broken uniformly at random.

    Values within `TIE` of the largest are tied. Optimistic agents often give several actions the
    largest possible value; rounding, which differs between processors, would decide there.
    """
    best = q.max(-1, keepdims=True)
    tied = (q == best) | (q >= best - TIE * jnp.abs(best))
    rank = jnp.cumsum(tied, axis=-1)
    count = rank[..., -1:]
    u = uniform(key, q.shape[:-1])[..., None]
    pick = 1 + jnp.minimum((u * count).astype(jnp.int32), count - 1)
    return jnp.argmax(tied & (rank == pick), axis=-1)


def play(key: PRNGKeyArray, world: World, policy: Int[Array, "H S"]) -> Episode:
    """Return one episode of ``policy`` in the true MDP."""
    horizon = policy.shape[0]
    key_move, key_reward = jax.random.split(key)
    u = jax.random.uniform(key_move, (horizon + 1,))
    z = jax.random.normal(key_reward, (horizon,))
    successors = world.p.successors

    def step(s: Array, now: tuple[Array, Array]) -> tuple[Array, tuple[Array, Array]]:
        actions, u = now
        a = actions[s]
        slot = (u >= world.cumulative[s, a]).sum()
        successor = slot if successors is None else successors[s, a, slot]
        return successor.astype(jnp.int32), (s, a)

    start = (u[-1] >= world.p0_cumulative).sum().astype(jnp.int32)
    last, (states, actions) = jax.lax.scan(step, start, (policy, u[:-1]))
    rewards = world.r[states, actions] + world.r_std[states, actions] * z
    return Episode(jnp.append(states, last), actions, rewards)


@implements("def:regret", "eq:1")
def exact_regret(world: World, policy: Int[Array, "H S"]) -> Float[Array, ""]:
    """Return V(π*) − V(π) as the sum of the gaps of π: E_π Σ_h (V*_h − Q*_h)(s_h, a_h).

    Evaluating π and subtracting gives the same number with cancellation. Here no term is negative,
    so that the regret of an optimal policy is exactly 0 in float32.
    """

    def backup(cost: Array, now: tuple[Array, Array]) -> tuple[Array, None]:
        actions, gap = now
        total = gap + expect(world.p, cost)
        return jnp.take_along_axis(total, actions[:, None], axis=-1)[:, 0], None

    zero = jnp.zeros_like(world.p0)
    cost, _ = jax.lax.scan(backup, zero, (policy, world.gap), reverse=True)
    return world.p0 @ cost


def run_episode(
    key: PRNGKeyArray, agent: Agent, problem: Problem, world: World, state: Any
) -> tuple[Any, Record]:
    """Plan, play one episode and learn from it; return the agent's state and the scores."""
    key_plan, key_ties, key_play, key_learn = jax.random.split(key, 4)
    plan, state = agent.plan(key_plan, problem, state)
    policy = greedy_policy(key_ties, plan.q)
    episode = play(key_play, world, policy)
    state = agent.observe(key_learn, problem, state, episode)
    visited = (episode.states[:-1], episode.actions)
    bad = jnp.float32(0.0) if world.bad is None else world.bad[visited].max()
    gap = world.gap[(jnp.arange(problem.horizon), *visited)].sum()
    score = Record(exact_regret(world, policy), plan.value, gap, episode.rewards.sum(), bad)
    return state, score


@functools.partial(jax.jit, static_argnames="agent")
def _start(agent: Agent, problem: Problem, seeds: UInt[Array, " N"]) -> tuple[Array, Any]:
    def one(seed: Array) -> tuple[Array, Any]:
        key_init, key_episodes = jax.random.split(jax.random.key(seed))
        return key_episodes, agent.init(key_init, problem)

    return jax.vmap(one)(seeds)


@functools.partial(jax.jit, static_argnames=("agent", "length"), donate_argnames="states")
def _advance(
    agent: Agent,
    problem: Problem,
    world: World,
    keys: Array,
    states: Any,
    first: Array,
    length: int,
) -> tuple[Any, Record]:
    """Run ``length`` episodes of every seed, from episode ``first`` on."""

    def step(states: Any, k: Array) -> tuple[Any, Record]:
        def one(key: PRNGKeyArray, state: Any) -> tuple[Any, Record]:
            # The key depends on the number of the episode, so that chunks do not change the draws.
            return run_episode(jax.random.fold_in(key, k), agent, problem, world, state)

        return jax.vmap(one)(keys, states)

    states, record = jax.lax.scan(step, states, first + jnp.arange(length))
    return states, jax.tree.map(lambda x: x.T, record)


def run(
    agent: str | AgentOptions | Agent,
    mdp: TabularMDP | str | os.PathLike[str],
    num_episodes: int = 1000,
    seeds: Iterable[int] | str = range(1),
    *,
    preset: str | None = None,
    progress: Callable[[int], None] | bool | None = None,
    until_solved: bool = False,
    **options: Unpack[AgentSettings],
) -> Trace:
    """Run an agent for ``num_episodes`` episodes with every seed; score each episode exactly.

    A seed gives the same scores alone or among others.

    Args:
        agent: A name of `AGENTS`, the checked options of an agent (`agent_options`), or an `Agent`
            of your own.
        mdp: The environment: an MDP, or a name such as "riverswim" (see `make`).
        num_episodes: Episodes of every seed.
        seeds: The seeds, which run in one program: numbers, or a text such as "0:20".
        preset: A name of `PRESETS`, such as "paper".
        progress: Called with the number of episodes done; True shows a bar, which is the default
            in a terminal and in a notebook; False shows nothing.
        until_solved: Whether to stop once every seed has solved Deep Sea.
        **options: Options of the named agent.

    Returns:
        The `Trace` with the scores.

    Example:
        >>> mdp = narl.tabular.riverswim()
        >>> trace = narl.tabular.run("narl-ucrl", mdp, num_episodes=200, seeds=range(5))
        >>> bool(trace.regret[:, -1].mean() < 0.1)  # the last episode is nearly optimal
        True
    """
    seed_array = np.array(check_seeds(seeds), dtype=np.uint32)
    num_episodes = check_count("episodes", num_episodes)
    if isinstance(mdp, str | os.PathLike):
        refuse_swapped(agent, mdp)
    mdp = find_mdp(mdp)
    if until_solved and mdp.bad is None:
        raise InputError(f"until_solved: {mdp.name} has no 'bad' episodes; it is for deep_sea")
    # float32 throughout, also where a user has switched JAX to 64 bits.
    with jax.enable_x64(False):
        problem = make_problem(mdp, num_episodes)
    name, complete, found = _find_agent(agent, preset, options, problem)
    stop_rule = mdp.solved_rule if until_solved else None
    label = f"{name or 'agent'} on {mdp.name}"
    with episode_progress(label, num_episodes, progress) as on_progress:
        trace = run_seeds(found, mdp, problem, num_episodes, seed_array, on_progress, stop_rule)
    return dataclasses.replace(trace, agent=name, options=complete)


def _find_agent(
    agent: str | AgentOptions | Agent, preset: str | None, options: Any, problem: Problem
) -> tuple[str, dict[str, Any], Agent]:
    """Return the name of an agent (empty for a user's own), its complete options, and the agent."""
    name = agent if isinstance(agent, str) else ""
    if isinstance(agent, str):
        agent = agent_options(agent, preset, **options)
    elif options or preset:
        raise InputError(
            "options: only the name of an agent takes them; build them into your own agent"
        )
    if isinstance(agent, AgentOptions):
        complete = dataclasses.asdict(agent)
        return name or agent_name(agent), complete, make_agent(agent, problem)
    if not isinstance(agent, Agent):
        raise InputError(f"agent: a {type(agent).__name__} given; it must be a name or an Agent")
    return "", {}, agent


def run_seeds(
    agent: Agent,
    mdp: TabularMDP,
    problem: Problem,
    num_episodes: int,
    seeds: UInt[np.ndarray, " N"],
    progress: Callable[[int], None] | None = None,
    stop_rule: tuple[float, int] | None = None,
    extend: Callable[[Any], Any] = lambda states: states,
) -> Trace:
    """Run an agent with checked arguments; ``extend`` is applied to the first states of all seeds.

    ``stop_rule`` is the rule for "solved" by which the run stops early.
    """
    solution = solve(mdp)
    # GPUs otherwise round the factors of a product to 10 bits (TF32): "exact" would mean 1e-3.
    with jax.enable_x64(False), jax.default_matmul_precision("highest"):
        world = make_world(mdp, solution, problem)
        chunks, seconds = _run_chunks(
            agent, problem, world, num_episodes, seeds, progress, stop_rule, extend
        )
    joined = jax.tree.map(
        lambda *xs: np.concatenate(xs, axis=1)[:, :num_episodes].astype(np.float64), *chunks
    )
    return Trace(
        seeds=seeds,
        v_star=solution.value,
        regret=joined.regret,
        value=joined.value,
        trajectory_gap=joined.trajectory_gap,
        realised_return=joined.realised_return,
        bad=None if world.bad is None else joined.bad,
        solved_rule=mdp.solved_rule,
        compile_seconds=seconds[0],
        run_seconds=seconds[1],
        env=mdp.name,
    )


def _run_chunks(
    agent: Agent,
    problem: Problem,
    world: World,
    num_episodes: int,
    seeds: UInt[np.ndarray, " N"],
    progress: Callable[[int], None] | None,
    stop_rule: tuple[float, int] | None,
    extend: Callable[[Any], Any],
) -> tuple[list[Record], tuple[float, float]]:
    """Return the scores of all chunks, and the seconds of compiling and of running."""
    num_chunks = math.ceil(num_episodes / CHUNK)
    # Equal chunks share one program; the few episodes beyond the last are dropped.
    length = math.ceil(num_episodes / num_chunks)
    begin = time.perf_counter()
    keys, states = _start(agent, problem, jnp.asarray(seeds))
    states = extend(states)
    program = _advance.lower(agent, problem, world, keys, states, jnp.int32(0), length).compile()
    compiled = time.perf_counter()
    chunks: list[Record] = []
    for chunk in range(num_chunks):
        states, record = program(problem, world, keys, states, jnp.int32(chunk * length))
        chunks.append(jax.tree.map(np.asarray, record))
        if progress is not None:
            progress(min((chunk + 1) * length, num_episodes))
        if stop_rule is not None and _all_solved([c.bad for c in chunks], stop_rule):
            break
    return chunks, (compiled - begin, time.perf_counter() - compiled)


def _all_solved(bad: Sequence[AnyArray], rule: tuple[float, int]) -> bool:
    return all(solved_at(row, *rule) is not None for row in np.concatenate(bad, axis=1))
