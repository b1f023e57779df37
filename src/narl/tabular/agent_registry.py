"""The agents by name, and the functions that build them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from narl.tabular import baselines, narl_ucbvi, narl_ucrl
from narl.tabular import options as agents
from narl.tabular.agent import Agent
from narl.tabular.options import AGENT_OPTIONS, AgentOptions
from narl.tabular.problem import Problem


class AgentSpec(NamedTuple):
    """An agent of the registry: the class of its options and the functions that build it."""

    options: type[AgentOptions]
    build: Callable[[Any], Agent]
    """Returns the agent for complete options."""
    resolve: Callable[[Any, Problem], Any] | None = None
    """Completes options that depend on the problem, where there are any."""


_FUNCTIONS: dict[type[AgentOptions], tuple[Any, ...]] = {
    agents.NarlUcrl: (narl_ucrl.narl_ucrl, narl_ucrl.resolve),
    agents.NarlUcbvi: (narl_ucbvi.narl_ucbvi, narl_ucbvi.resolve),
    agents.Ucrl2: (baselines.ucrl2,),
    agents.Ucrl2Tabularl: (baselines.ucrl2_tabularl,),
    agents.Ucbvi: (baselines.ucbvi,),
    agents.Psrl: (baselines.psrl, baselines.resolve),
    agents.Opsrl: (baselines.opsrl, baselines.resolve),
    agents.Rlsvi: (baselines.rlsvi,),
    agents.Greedy: (baselines.greedy,),
}

AGENTS: dict[str, AgentSpec] = {
    name: AgentSpec(options, *_FUNCTIONS[options]) for name, options in AGENT_OPTIONS.items()
}
"""The agents by name, with the class of their options; `run` takes the names."""
_SPECS = {spec.options: spec for spec in AGENTS.values()}


def make_agent(options: AgentOptions, problem: Problem) -> Agent:
    """Return the agent of these options for a problem; the same options give the same object."""
    resolve = _SPECS[type(options)].resolve
    return _build(options if resolve is None else resolve(options, problem))


def agent_name(options: AgentOptions) -> str:
    """Return the name of the agent that has these options."""
    return next(name for name, spec in AGENTS.items() if spec.options is type(options))


@functools.cache
def _build(options: AgentOptions) -> Agent:
    # Compiled programs are found again by the identity of the agent.
    return _SPECS[type(options)].build(options)
