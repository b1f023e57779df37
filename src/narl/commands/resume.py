"""`narl resume`: continue a training that was stopped, was killed or failed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from tyro.conf import Positional

from narl.commands.arguments import (
    RunsFolder,
    Switch,
    errors_as_typed,
    parse,
    runs_folder,
    value,
)
from narl.errors import InputError

EXAMPLE = "narl resume train-narl-hopper-v5"


@dataclasses.dataclass(frozen=True)
class Resume:
    """Continue an unfinished training from its last checkpoint.

    The result is that of a training that was never interrupted, bit for bit on the same machine.
    """

    run: Annotated[Positional[str], value("RUN")]
    """id of the run, beginning of the id, or its folder (ID.part)"""
    tensorboard: Annotated[str | None, value("DIR")] = None
    """write metrics for TensorBoard to this folder (needs narl[tensorboard])"""
    wandb: Annotated[str | None, value("PROJECT")] = None
    """write metrics to this project of Weights & Biases (needs narl[wandb])"""
    runs: RunsFolder = None
    """folder of the runs"""
    json: Switch = False
    """print one JSON object on stdout, everything else on stderr"""


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status."""
    args = parse(Resume, "narl resume", arguments, EXAMPLE)
    from narl.commands.training_console import TrainingConsole, print_training, training_result
    from narl.console import note, print_json
    from narl.deep.checked_config import config_from_record
    from narl.storage import UnfinishedRun, locate_run

    root = runs_folder(args.runs)
    run = locate_run(root, args.run, unfinished_first=True)
    if isinstance(run, UnfinishedRun) and run.problems:
        raise InputError(
            f"run {run.id}: {'; '.join(run.problems)}; train it anew (the `narl train` that "
            f"began it, with --fresh), or remove it (`narl runs remove {run.path.name}`)"
        )
    config = config_from_record(run.config)
    if not isinstance(run, UnfinishedRun):
        note(f"{run.id} is finished; there is nothing to continue")
        if args.json:
            print_json(training_result(run, was_found=True, resumed_from=None))
        else:
            print_training(run, was_found=True, again="`narl train … --fresh`")
        return 0
    folder = run.path.resolve().parent
    runs = args.runs if folder == root.resolve() else folder
    console = TrainingConsole(runs, args.json, args.tensorboard, args.wandb)
    with errors_as_typed(Resume):
        return console.train(config, checkpoint_every=run.checkpoint_every, unfinished=True)
