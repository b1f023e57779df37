"""The type of an agent: three pure functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import PRNGKeyArray

from narl.tabular.mdp import Episode
from narl.tabular.planning import Plan
from narl.tabular.problem import Problem

State = Any


class Agent(NamedTuple):
    """A learner as three functions; `narl.tabular.run` also takes an agent of your own.

    The state is any pytree of arrays whose shapes never change. The policy that is played is
    greedy in ``plan.q``, with ties broken at random.

    Example:
        >>> def random_plan(key, problem, state):
        ...     shape = problem.horizon, problem.num_states, problem.num_actions
        ...     return narl.tabular.Plan(jax.random.uniform(key, shape), problem.p0.sum()), state
        >>> random_agent = narl.tabular.Agent(
        ...     init=lambda key, problem: None,
        ...     plan=random_plan,
        ...     observe=lambda key, problem, state, episode: state,
        ... )
        >>> trace = narl.tabular.run(random_agent, narl.tabular.riverswim(), num_episodes=10)
        >>> bool((trace.regret > 0).all())
        True
    """

    init: Callable[[PRNGKeyArray, Problem], State]
    """(key, problem) → the first state."""
    plan: Callable[[PRNGKeyArray, Problem, State], tuple[Plan, State]]
    """(key, problem, state) → (`Plan`, state), before every episode."""
    observe: Callable[[PRNGKeyArray, Problem, State, Episode], State]
    """(key, problem, state, `Episode`) → state, after every episode."""
