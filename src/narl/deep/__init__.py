"""The deep half: NARL, its rivals, MBPO and SAC, many seeds in one program.

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

from narl.lazy_names import import_on_first_use

if TYPE_CHECKING:
    from narl.deep.agent import Agent as Agent
    from narl.deep.algorithm_registry import ALGORITHMS as ALGORITHMS
    from narl.deep.algorithm_registry import register_algorithm as register_algorithm
    from narl.deep.bonus import BonusFn as BonusFn
    from narl.deep.callbacks import KeepBest as KeepBest
    from narl.deep.callbacks import SaveEvery as SaveEvery
    from narl.deep.callbacks import StopAtReturn as StopAtReturn
    from narl.deep.callbacks import StopWhenNoBetter as StopWhenNoBetter
    from narl.deep.checked_config import make_config as make_config
    from narl.deep.config import Config as Config
    from narl.deep.ensemble import Prediction as Prediction
    from narl.deep.evaluation import Evaluation as Evaluation
    from narl.deep.finite_check import NonFiniteError as NonFiniteError
    from narl.deep.load_agent import load as load
    from narl.deep.loggers import tensorboard_logger as tensorboard_logger
    from narl.deep.loggers import wandb_logger as wandb_logger
    from narl.deep.named_agents import HUCRL as HUCRL
    from narl.deep.named_agents import MBPO as MBPO
    from narl.deep.named_agents import NARL as NARL
    from narl.deep.named_agents import SAC as SAC
    from narl.deep.named_agents import SOMBRL as SOMBRL
    from narl.deep.named_agents import MaxInfo as MaxInfo
    from narl.deep.named_agents import Thompson as Thompson
    from narl.deep.policy import Policy as Policy
    from narl.deep.presets import Preset as Preset
    from narl.deep.presets import find_preset as find_preset
    from narl.deep.selection import Candidates as Candidates
    from narl.deep.selection import Selected as Selected
    from narl.deep.selection import SelectFn as SelectFn
    from narl.deep.selection import SelectParams as SelectParams
    from narl.deep.selection import take_members as take_members
    from narl.deep.training_run import run_training as run_training
    from narl.deep.training_session import TrainingStopped as TrainingStopped
    from narl.deep.user_parts import UserParts as UserParts
    from narl.errors import EnvironmentFault as EnvironmentFault

import_on_first_use(__name__)
