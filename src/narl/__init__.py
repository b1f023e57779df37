"""Optimistic model-based reinforcement learning on JAX.

`import narl` is quick: a public name, and JAX with it, is imported when it is first used.
Where Gymnasium is loaded already, narl's environments are registered with it.
"""

from typing import TYPE_CHECKING

from narl.lazy_names import import_after, lazy_names

if TYPE_CHECKING:
    from narl import (
        decomposition,
        deep,
        experiments,
        optimism,
        paper,
        report,
        stats,
        storage,
        tabular,
        theory,
    )
    from narl.deep import (
        HUCRL,
        MBPO,
        NARL,
        SAC,
        SOMBRL,
        Agent,
        KeepBest,
        MaxInfo,
        NonFiniteError,
        SaveEvery,
        StopAtReturn,
        StopWhenNoBetter,
        Thompson,
        load,
        tensorboard_logger,
        wandb_logger,
    )
    from narl.errors import EnvironmentFault, InputError
    from narl.plotting import plot
    from narl.tabular import run

__version__ = "0.2.0"

__all__ = [
    "HUCRL",
    "MBPO",
    "NARL",
    "SAC",
    "SOMBRL",
    "Agent",
    "EnvironmentFault",
    "InputError",
    "KeepBest",
    "MaxInfo",
    "NonFiniteError",
    "SaveEvery",
    "StopAtReturn",
    "StopWhenNoBetter",
    "Thompson",
    "__version__",
    "decomposition",
    "deep",
    "experiments",
    "load",
    "optimism",
    "paper",
    "plot",
    "report",
    "run",
    "stats",
    "storage",
    "tabular",
    "tensorboard_logger",
    "theory",
    "wandb_logger",
]

_SUBMODULES = (
    *("decomposition", "deep", "experiments", "optimism", "paper"),
    *("report", "stats", "storage", "tabular", "theory"),
)
_MODULES = {
    **dict.fromkeys(__all__, "narl.deep"),
    **{name: f"narl.{name}" for name in _SUBMODULES},
    **dict.fromkeys(("EnvironmentFault", "InputError"), "narl.errors"),
    "plot": "narl.plotting",
    "run": "narl.tabular",
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)

# The environments are known to Gymnasium in every order of imports, and Gymnasium is not loaded.
import_after("gymnasium", "narl.gymnasium_registration")
