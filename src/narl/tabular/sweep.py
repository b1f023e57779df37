"""Sweeps of one number among an agent's options: all values and seeds in one compiled program.

Options are constants of an agent's program, so that every value of c or of a scale is compiled
anew. Here the swept option is part of the agent's state instead, and each replica has its own.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from narl.tabular.agent import Agent
from narl.tabular.agent_registry import AGENTS
from narl.tabular.mdp import Episode, TabularMDP
from narl.tabular.options import AgentOptions
from narl.tabular.planning import Plan
from narl.tabular.problem import Problem, make_problem
from narl.tabular.runner import Trace, run_seeds

_SPECS = {spec.options: spec for spec in AGENTS.values()}


class SweptState(NamedTuple):
    """The value of the swept option, and the state of the agent with this value."""

    value: Float[Array, ""]
    state: Any


def run_sweep(
    swept: str,
    options: Sequence[AgentOptions],
    mdp: TabularMDP,
    num_episodes: int,
    seeds: Sequence[int],
    progress: Callable[[int], None] | None = None,
) -> list[Trace]:
    """Return a trace for each of several options, which differ in the number ``swept`` only.

    The result for one value does not depend on the other values. It may differ in the last bits
    from that of `narl.tabular.run`, where the value is a constant of the program.
    """
    with jax.enable_x64(False):
        problem = make_problem(mdp, num_episodes)
    resolve = _SPECS[type(options[0])].resolve
    first = options[0] if resolve is None else resolve(options[0], problem)
    values = np.repeat([getattr(each, swept) for each in options], len(seeds))

    def with_values(states: Any) -> SweptState:
        return SweptState(jnp.asarray(values, jnp.float32), states)

    # The value of the first options is not used; a common one lets equal programs be found again.
    agent = _swept_agent(dataclasses.replace(first, **{swept: 1.0}), swept)
    tiled = np.tile(np.asarray(seeds, np.uint32), len(options))
    trace = run_seeds(agent, mdp, problem, num_episodes, tiled, progress, extend=with_values)
    return [_part(trace, index, len(seeds)) for index in range(len(options))]


@functools.cache
def _swept_agent(options: AgentOptions, swept: str) -> Agent:
    """Return the agent whose functions take a `SweptState`; ``init`` gives the state inside."""
    build = _SPECS[type(options)].build

    def with_value(value: Array) -> Agent:
        changed: dict[str, Any] = {swept: value}
        return build(dataclasses.replace(options, **changed))

    def plan(key: PRNGKeyArray, problem: Problem, state: SweptState) -> tuple[Plan, SweptState]:
        result, inner = with_value(state.value).plan(key, problem, state.state)
        return result, SweptState(state.value, inner)

    def observe(
        key: PRNGKeyArray, problem: Problem, state: SweptState, episode: Episode
    ) -> SweptState:
        inner = with_value(state.value).observe(key, problem, state.state, episode)
        return SweptState(state.value, inner)

    return Agent(build(options).init, plan, observe)


def _part(trace: Trace, index: int, num_seeds: int) -> Trace:
    """Return the trace of one value; the seconds are its share of the whole."""
    rows = slice(index * num_seeds, (index + 1) * num_seeds)
    share = num_seeds / len(trace.seeds)
    changed: dict[str, Any] = {
        field.name: getattr(trace, field.name)[rows]
        for field in dataclasses.fields(trace)
        if isinstance(getattr(trace, field.name), np.ndarray)
    }
    changed["compile_seconds"] = trace.compile_seconds * share
    changed["run_seconds"] = trace.run_seconds * share
    return dataclasses.replace(trace, **changed)
