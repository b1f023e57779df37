"""The tabular half of the paper: MDPs, planners, agents and exact regret.

`import narl.tabular` is quick: a public name, and JAX with it, is imported when it is first used.
"""

from typing import TYPE_CHECKING

from narl.lazy_names import import_on_first_use

if TYPE_CHECKING:
    from narl.tabular.agent import Agent as Agent
    from narl.tabular.agent_registry import AGENTS as AGENTS
    from narl.tabular.checked_mdp import make_mdp as make_mdp
    from narl.tabular.checked_options import agent_options as agent_options
    from narl.tabular.config import Config as Config
    from narl.tabular.config import make_config as make_config
    from narl.tabular.counts import Counts as Counts
    from narl.tabular.counts import empty_counts as empty_counts
    from narl.tabular.counts import estimate_model as estimate_model
    from narl.tabular.counts import record_episode as record_episode
    from narl.tabular.envs import ENVIRONMENTS as ENVIRONMENTS
    from narl.tabular.envs import deep_sea as deep_sea
    from narl.tabular.envs import make as make
    from narl.tabular.envs import random_mdp as random_mdp
    from narl.tabular.envs import riverswim as riverswim
    from narl.tabular.envs import six_arms as six_arms
    from narl.tabular.envs import stochastic_chain as stochastic_chain
    from narl.tabular.exact_values import evaluate as evaluate
    from narl.tabular.exact_values import policy_value as policy_value
    from narl.tabular.exact_values import solve as solve
    from narl.tabular.io import from_gymnasium as from_gymnasium
    from narl.tabular.io import load_npz as load_npz
    from narl.tabular.io import save_npz as save_npz
    from narl.tabular.io import to_gymnasium as to_gymnasium
    from narl.tabular.mdp import Episode as Episode
    from narl.tabular.mdp import TabularMDP as TabularMDP
    from narl.tabular.mdp import scale_rewards as scale_rewards
    from narl.tabular.noise import Noise as Noise
    from narl.tabular.options import PRESETS as PRESETS
    from narl.tabular.planning import Plan as Plan
    from narl.tabular.planning import extended_value_iteration as extended_value_iteration
    from narl.tabular.planning import naevi as naevi
    from narl.tabular.planning import navi as navi
    from narl.tabular.planning import value_iteration as value_iteration
    from narl.tabular.problem import Problem as Problem
    from narl.tabular.runner import run as run
    from narl.tabular.stored_run import run_config as run_config
    from narl.tabular.trace import Trace as Trace
    from narl.tabular.trace import solved_at as solved_at

import_on_first_use(__name__)
