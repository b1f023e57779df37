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
    """

    init: Callable[[PRNGKeyArray, Problem], State]
    plan: Callable[[PRNGKeyArray, Problem, State], tuple[Plan, State]]
    observe: Callable[[PRNGKeyArray, Problem, State, Episode], State]
