"""Optimistic model-based reinforcement learning on JAX.

`import narl` is quick: a public name, and JAX with it, is imported when it is first used.
Where Gymnasium is loaded already, narl's environments are registered with it.
"""

from typing import TYPE_CHECKING

from narl.lazy_names import import_after, import_on_first_use

if TYPE_CHECKING:
    from narl import decomposition as decomposition
    from narl import deep as deep
    from narl import experiments as experiments
    from narl import optimism as optimism
    from narl import paper as paper
    from narl import report as report
    from narl import stats as stats
    from narl import storage as storage
    from narl import tabular as tabular
    from narl import theory as theory
    from narl.deep import HUCRL as HUCRL
    from narl.deep import MBPO as MBPO
    from narl.deep import NARL as NARL
    from narl.deep import SAC as SAC
    from narl.deep import SOMBRL as SOMBRL
    from narl.deep import Agent as Agent
    from narl.deep import KeepBest as KeepBest
    from narl.deep import MaxInfo as MaxInfo
    from narl.deep import NonFiniteError as NonFiniteError
    from narl.deep import SaveEvery as SaveEvery
    from narl.deep import StopAtReturn as StopAtReturn
    from narl.deep import StopWhenNoBetter as StopWhenNoBetter
    from narl.deep import Thompson as Thompson
    from narl.deep import load as load
    from narl.deep import tensorboard_logger as tensorboard_logger
    from narl.deep import wandb_logger as wandb_logger
    from narl.errors import EnvironmentFault as EnvironmentFault
    from narl.errors import InputError as InputError
    from narl.plotting import plot as plot
    from narl.tabular import run as run

__version__ = "0.2.0"

import_on_first_use(__name__, "__version__")

# The environments are known to Gymnasium in every order of imports, and Gymnasium is not loaded.
import_after("gymnasium", "narl.gymnasium_registration")
