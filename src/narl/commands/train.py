"""`narl train`: train one algorithm on one environment, with many seeds at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from narl.commands.arguments import (
    EnvTimeout,
    EnvWorkers,
    JsonSwitch,
    RunsFolder,
    Switch,
    TensorBoardFolder,
    WandbProject,
    environment_parts,
    import_from_working_folder,
    value,
)
from narl.commands.config_arguments import ConfigCommand
from narl.deep.checked_config import OTHER_NAMES
from narl.deep.config import CHECKPOINT_EVERY, Config
from narl.errors import InputError
from narl.options import option_fields, options_of
from narl.validation import check_count

EXAMPLE = "narl train InvertedPendulum-v5 --algo narl --members 3 --radius 0.1 --seeds 0:5"
HINTS = {
    f"--{other.replace('_', '-')}": f"it is called --{name.replace('_', '-')}"
    for other, name in OTHER_NAMES.items()
} | {
    "--timesteps": "it is called --steps",
    "--seed": "it is called --seeds",
    "--env": "the environment comes first, without a name: narl train Hopper-v5",
    "--video": "train first, then record a video with `narl eval RUN --video F.mp4`",
}
CheckpointEvery = Annotated[
    int | None,
    value("N", f"(default: {CHECKPOINT_EVERY})", help="epochs between two checkpoints"),
]


@dataclasses.dataclass(frozen=True)
class TrainArguments:
    """Train a policy on a Gymnasium environment with Box observations and Box or Discrete actions.

    - ENV is like Hopper-v5, or my_module:MyEnv-v0 if my_module registers it: an installed package,
      or a file my_module.py in this folder.
    - An option that is left out has the value of the environment's preset (InvertedPendulum,
      Hopper, HalfCheetah, Walker2d, Ant, Humanoid, MountainCarContinuous, CartPole, Acrobot,
      MountainCar, LunarLander and the tasks narl/…), or else its default.
    - An option with algorithms in brackets has an effect with these algorithms only.
    - A checkpoint is written after every epoch and after Ctrl-C. The same command, or narl resume,
      continues from there. A finished run is stored, and found when the command is repeated.
    - narl train --extend RUN --steps N goes on with a finished run that has its data (--keep-data);
      see narl train --extend --help.
    """

    stop_at_return: Annotated[float | None, value("X")] = dataclasses.field(
        default=None, metadata={"group": options_of(Config)["stop_when_no_better"].group}
    )
    """stop when every seed has reached this return in some evaluation; short for --solved-return X
    --until-solved"""
    checkpoint_every: CheckpointEvery = None
    checkpoint_steps: Annotated[int | None, value("N")] = None
    """environment steps between two checkpoints instead, rounded up to whole epochs"""
    env_workers: EnvWorkers = None
    env_timeout: EnvTimeout = None
    keep_data: Switch = False
    """keep buffers and optimisers in the run's folder, so that --extend can go on with it"""
    tensorboard: TensorBoardFolder = None
    wandb: WandbProject = None
    runs: RunsFolder = None
    fresh: Switch = False
    """train again, even if the run is there, finished or not"""
    any_code: Switch = False
    """take the run, finished or not, even if other code of a user's environment has made it"""
    json: JsonSwitch = False


COMMAND = ConfigCommand("narl train", EXAMPLE, TrainArguments, option_fields(Config), HINTS)


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status."""
    if any(argument.partition("=")[0] == "--extend" for argument in arguments):
        from narl.commands import train_extend

        return train_extend.main(arguments)
    options, args = COMMAND.parse(arguments)
    import_from_working_folder()
    with COMMAND.errors_as_typed():
        from narl.commands.training_console import TrainingConsole
        from narl.deep.checked_config import make_config
        from narl.deep.make_environment import check_registered

        if args.stop_at_return is not None:
            if "solved_return" in options:
                raise InputError(
                    "stop_at_return: solved_return is given too; leave one of them out"
                )
            options |= {"solved_return": args.stop_at_return, "until_solved": True}
        console = TrainingConsole(args.runs, args.json, args.tensorboard, args.wandb)
        try:
            config = make_config(**options)
        except InputError:
            # An environment without a preset has other defaults: its id is what is wrong first.
            check_registered(options["env"])
            raise
        every = _checkpoint_epochs(args, config)
        return console.train(
            config,
            checkpoint_every=every,
            keep_data=args.keep_data,
            fresh=args.fresh,
            any_code=args.any_code,
            parts=environment_parts(args.env_workers, args.env_timeout),
        )


def _checkpoint_epochs(args: TrainArguments, config: Config) -> int:
    """Return the number of epochs between two checkpoints."""
    if args.checkpoint_steps is None:
        every = CHECKPOINT_EVERY if args.checkpoint_every is None else args.checkpoint_every
        return check_count("checkpoint_every", every)
    if args.checkpoint_every is not None:
        raise InputError("checkpoint_steps: checkpoint_every is given too; leave one of them out")
    return -(-check_count("checkpoint_steps", args.checkpoint_steps) // config.epoch_length)
