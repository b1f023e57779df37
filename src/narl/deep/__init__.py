"""The deep half: NARL, MBPO and SAC, many seeds in one program.

`import narl.deep` is quick: a public name, and JAX with it, is imported when it is first used.

Who calls whom in a training:

- `training_run.run_training` makes run folders; `narl train`, sweeps and experiments call it. It
  opens a `trainer.Trainer` and a `training_session.TrainingSession`.
- The `TrainingSession` steps that trainer and writes metrics, checkpoints and the finished runs.
- `Agent.learn` calls `agent_training.AgentTraining`, which opens a `Trainer` without a run folder.
- Both step it with `training_session.train_epochs`, which calls `Trainer.step`; that calls the
  functions of `algorithm` on the device, in the order of Algorithm 1.
"""

from typing import TYPE_CHECKING

from narl.lazy_names import lazy_names

if TYPE_CHECKING:
    from narl.deep.agent import Agent
    from narl.deep.algorithm_registry import ALGORITHMS, register_algorithm
    from narl.deep.bonus import BonusFn
    from narl.deep.callbacks import KeepBest, SaveEvery, StopAtReturn, StopWhenNoBetter
    from narl.deep.checked_config import make_config
    from narl.deep.config import Config
    from narl.deep.ensemble import Prediction
    from narl.deep.evaluation import Evaluation
    from narl.deep.finite_check import NonFiniteError
    from narl.deep.load_agent import load
    from narl.deep.loggers import tensorboard_logger, wandb_logger
    from narl.deep.named_agents import HUCRL, MBPO, NARL, SAC, SOMBRL, MaxInfo, Thompson
    from narl.deep.policy import Policy
    from narl.deep.presets import Preset, find_preset
    from narl.deep.selection import (
        Candidates,
        Selected,
        SelectFn,
        SelectParams,
        take_members,
    )
    from narl.deep.training_run import run_training
    from narl.deep.training_session import TrainingStopped
    from narl.deep.user_parts import UserParts
    from narl.errors import EnvironmentFault

__all__ = [
    "ALGORITHMS",
    "HUCRL",
    "MBPO",
    "NARL",
    "SAC",
    "SOMBRL",
    "Agent",
    "BonusFn",
    "Candidates",
    "Config",
    "EnvironmentFault",
    "Evaluation",
    "KeepBest",
    "MaxInfo",
    "NonFiniteError",
    "Policy",
    "Prediction",
    "Preset",
    "SaveEvery",
    "SelectFn",
    "SelectParams",
    "Selected",
    "StopAtReturn",
    "StopWhenNoBetter",
    "Thompson",
    "TrainingStopped",
    "UserParts",
    "find_preset",
    "load",
    "make_config",
    "register_algorithm",
    "run_training",
    "take_members",
    "tensorboard_logger",
    "wandb_logger",
]

_NAMES = {
    "agent": ("Agent",),
    "algorithm_registry": ("ALGORITHMS", "register_algorithm"),
    "bonus": ("BonusFn",),
    "callbacks": ("KeepBest", "SaveEvery", "StopAtReturn", "StopWhenNoBetter"),
    "config": ("Config",),
    "ensemble": ("Prediction",),
    "evaluation": ("Evaluation",),
    "finite_check": ("NonFiniteError",),
    "load_agent": ("load",),
    "loggers": ("tensorboard_logger", "wandb_logger"),
    "checked_config": ("make_config",),
    "named_agents": ("HUCRL", "MBPO", "NARL", "SAC", "SOMBRL", "MaxInfo", "Thompson"),
    "policy": ("Policy",),
    "presets": ("Preset", "find_preset"),
    "selection": ("Candidates", "SelectFn", "SelectParams", "Selected", "take_members"),
    "training_session": ("TrainingStopped",),
    "training_run": ("run_training",),
    "user_parts": ("UserParts",),
}
_MODULES = {name: f"narl.deep.{module}" for module, names in _NAMES.items() for name in names}
_MODULES["EnvironmentFault"] = "narl.errors"

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
