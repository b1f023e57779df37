"""What an agent is: three pure functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxtyping import PRNGKeyArray

from narl.tabular.mdp import Episode
from narl.tabular.planning import Plan
from narl.tabular.problem import Problem

State = Any


class Agent(NamedTuple):
    """A learner. Write your own with three functions and hand it to `narl.tabular.run`.

    The state is any pytree of arrays whose shapes never change. An agent plays the policy that is
    greedy in ``plan.q``; ties are broken at random by the runner.
    """

    init: Callable[[PRNGKeyArray, Problem], State]
    plan: Callable[[PRNGKeyArray, Problem, State], tuple[Plan, State]]
    observe: Callable[[PRNGKeyArray, Problem, State, Episode], State]
