"""Optimistic model-based reinforcement learning on JAX.

`import narl` is quick: the parts below, and JAX with them, are imported when first used.
Gymnasium learns the names of narl's environments now, or as soon as it is loaded.
"""

import importlib
from typing import TYPE_CHECKING

from narl.registration import register_with_gymnasium

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
    from narl.deep.agent import MBPO, NARL, SAC, Agent, load
    from narl.deep.faults import EnvironmentFault
    from narl.deep.loggers import tensorboard_logger, wandb_logger
    from narl.deep.trainer import Fault
    from narl.errors import InputError

__version__ = "0.1.0"

__all__ = [
    "MBPO",
    "NARL",
    "SAC",
    "Agent",
    "EnvironmentFault",
    "Fault",
    "InputError",
    "__version__",
    "decomposition",
    "deep",
    "experiments",
    "load",
    "optimism",
    "paper",
    "report",
    "stats",
    "storage",
    "tabular",
    "tensorboard_logger",
    "theory",
    "wandb_logger",
]

_DEFINED_IN = {
    **dict.fromkeys(("MBPO", "NARL", "SAC", "Agent", "load"), "narl.deep.agent"),
    **dict.fromkeys(("tensorboard_logger", "wandb_logger"), "narl.deep.loggers"),
    "EnvironmentFault": "narl.deep.faults",
    "Fault": "narl.deep.trainer",
    "InputError": "narl.errors",
}


def __getattr__(name: str) -> object:
    """Import a public part of narl when it is first asked for."""
    if name not in __all__:
        raise AttributeError(f"module 'narl' has no attribute {name!r}")
    if name in _DEFINED_IN:
        found = getattr(importlib.import_module(_DEFINED_IN[name]), name)
        globals()[name] = found
        return found
    return importlib.import_module(f"narl.{name}")


def __dir__() -> list[str]:
    return sorted(__all__)


register_with_gymnasium()
