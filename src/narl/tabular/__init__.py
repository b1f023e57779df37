"""The tabular half of the paper: MDPs, agents, exact regret."""

from narl.tabular.agent import Agent
from narl.tabular.envs import (
    ENVIRONMENTS,
    deep_sea,
    make,
    random_mdp,
    riverswim,
    stochastic_chain,
)
from narl.tabular.io import from_gymnasium, load_npz, save_npz, to_gymnasium
from narl.tabular.mdp import TabularMDP, evaluate, make_mdp, policy_value, solve
from narl.tabular.planning import Plan, extended_value_iteration, naevi, navi, value_iteration
from narl.tabular.registry import AGENTS, PRESETS, agent_options
from narl.tabular.run import Trace, run, solved_at

__all__ = [
    "AGENTS",
    "ENVIRONMENTS",
    "PRESETS",
    "Agent",
    "Plan",
    "TabularMDP",
    "Trace",
    "agent_options",
    "deep_sea",
    "evaluate",
    "extended_value_iteration",
    "from_gymnasium",
    "load_npz",
    "make",
    "make_mdp",
    "naevi",
    "navi",
    "policy_value",
    "random_mdp",
    "riverswim",
    "run",
    "save_npz",
    "solve",
    "solved_at",
    "stochastic_chain",
    "to_gymnasium",
    "value_iteration",
]
