"""The tabular half of the paper: MDPs, planners, agents and exact regret.

`import narl.tabular` is quick: a public name, and JAX with it, is imported when it is first used.
"""

from typing import TYPE_CHECKING

from narl.lazy_names import lazy_names

if TYPE_CHECKING:
    from narl.tabular.agent import Agent
    from narl.tabular.agent_registry import AGENTS
    from narl.tabular.checked_mdp import make_mdp
    from narl.tabular.checked_options import agent_options
    from narl.tabular.config import Config, make_config
    from narl.tabular.counts import Counts, empty_counts, estimate_model, record_episode
    from narl.tabular.envs import (
        ENVIRONMENTS,
        deep_sea,
        make,
        random_mdp,
        riverswim,
        six_arms,
        stochastic_chain,
    )
    from narl.tabular.exact_values import evaluate, policy_value, solve
    from narl.tabular.io import from_gymnasium, load_npz, save_npz, to_gymnasium
    from narl.tabular.mdp import Episode, TabularMDP, scale_rewards
    from narl.tabular.noise import Noise
    from narl.tabular.options import PRESETS
    from narl.tabular.planning import Plan, extended_value_iteration, naevi, navi, value_iteration
    from narl.tabular.problem import Problem
    from narl.tabular.runner import run
    from narl.tabular.stored_run import run_config
    from narl.tabular.trace import Trace, solved_at

__all__ = [
    "AGENTS",
    "ENVIRONMENTS",
    "PRESETS",
    "Agent",
    "Config",
    "Counts",
    "Episode",
    "Noise",
    "Plan",
    "Problem",
    "TabularMDP",
    "Trace",
    "agent_options",
    "deep_sea",
    "empty_counts",
    "estimate_model",
    "evaluate",
    "extended_value_iteration",
    "from_gymnasium",
    "load_npz",
    "make",
    "make_config",
    "make_mdp",
    "naevi",
    "navi",
    "policy_value",
    "random_mdp",
    "record_episode",
    "riverswim",
    "run",
    "run_config",
    "save_npz",
    "scale_rewards",
    "six_arms",
    "solve",
    "solved_at",
    "stochastic_chain",
    "to_gymnasium",
    "value_iteration",
]

_NAMES = {
    "agent": ("Agent",),
    "checked_mdp": ("make_mdp",),
    "checked_options": ("agent_options",),
    "config": ("Config", "make_config"),
    "counts": ("Counts", "empty_counts", "estimate_model", "record_episode"),
    "envs": (
        *("ENVIRONMENTS", "deep_sea", "make"),
        *("random_mdp", "riverswim", "six_arms", "stochastic_chain"),
    ),
    "exact_values": ("evaluate", "policy_value", "solve"),
    "io": ("from_gymnasium", "load_npz", "save_npz", "to_gymnasium"),
    "mdp": ("Episode", "TabularMDP", "scale_rewards"),
    "noise": ("Noise",),
    "options": ("PRESETS",),
    "planning": ("Plan", "extended_value_iteration", "naevi", "navi", "value_iteration"),
    "problem": ("Problem",),
    "agent_registry": ("AGENTS",),
    "runner": ("run",),
    "stored_run": ("run_config",),
    "trace": ("Trace", "solved_at"),
}
_MODULES = {name: f"narl.tabular.{module}" for module, names in _NAMES.items() for name in names}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
