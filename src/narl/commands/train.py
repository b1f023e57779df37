"""`narl train`: train one algorithm on one environment, with many seeds at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from narl.commands.arguments import RunsFolder, Switch, value
from narl.commands.config_arguments import ConfigCommand
from narl.deep.config import Config
from narl.options import option_fields
from narl.validation import check_count

EXAMPLE = "narl train InvertedPendulum-v5 --algo narl --members 3 --radius 0.1 --seeds 0:5"
HINTS = {
    "--total-timesteps": "the number of steps is given with --steps",
    "--timesteps": "the number of steps is given with --steps",
    "--video": "train first, then record a video with `narl eval RUN --video F.mp4`",
}


@dataclasses.dataclass(frozen=True)
class TrainArguments:
    """Train a policy on a Gymnasium environment with Box observations and actions.

    - ENV is like Hopper-v5, or my_package:MyEnv-v0 if the package my_package registers it.
    - An option that is left out has the value of the environment's preset (InvertedPendulum,
      Hopper, HalfCheetah, Walker2d, Ant, Humanoid, MountainCarContinuous and the tasks narl/…), or
      else its default.
    - An option with algorithms in brackets has an effect with these algorithms only.
    - A checkpoint is written after every epoch and after Ctrl-C. The same command, or narl resume,
      continues from there. A finished run is stored, and found when the command is repeated.
    """

    checkpoint_every: Annotated[int, value("N", "(default: 1)")] = 1
    """epochs between two checkpoints"""
    tensorboard: Annotated[str | None, value("DIR")] = None
    """write metrics for TensorBoard to this folder (needs narl[tensorboard])"""
    wandb: Annotated[str | None, value("PROJECT")] = None
    """write metrics to this project of Weights & Biases (needs narl[wandb])"""
    runs: RunsFolder = None
    """folder of the runs"""
    fresh: Switch = False
    """train again, even if the run is there, finished or not"""
    json: Switch = False
    """print one JSON object on stdout, everything else on stderr"""


COMMAND = ConfigCommand("narl train", EXAMPLE, TrainArguments, option_fields(Config), HINTS)


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status."""
    options, args = COMMAND.parse(arguments)
    with COMMAND.errors_as_typed():
        checkpoint_every = check_count("checkpoint_every", args.checkpoint_every)
        from narl.commands.training_console import TrainingConsole
        from narl.deep.checked_config import make_config

        console = TrainingConsole(args.runs, args.json, args.tensorboard, args.wandb)
        config = make_config(**options)
        return console.train(config, checkpoint_every=checkpoint_every, fresh=args.fresh)
