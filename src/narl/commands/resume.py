"""`narl resume`: continue a training that was stopped, killed or went wrong."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from tyro.conf import Positional

from narl.commands.arguments import RunsFolder, Switch, parse, value
from narl.errors import InputError

EXAMPLE = "narl resume train-narl-hopper-v5"


@dataclasses.dataclass(frozen=True)
class Resume:
    """Continue an unfinished training from its last checkpoint.

    The result is that of a training that was never interrupted, bit for bit on the same machine.
    """

    run: Annotated[Positional[str], value("RUN")]
    """its id, the beginning of it, or its folder (ID.part)"""
    tensorboard: Annotated[str | None, value("DIR")] = None
    """folder for TensorBoard (needs narl[tensorboard])"""
    wandb: Annotated[str | None, value("PROJECT")] = None
    """project of Weights & Biases (needs narl[wandb])"""
    runs: RunsFolder = None
    """folder of the runs"""
    json: Switch = False
    """one JSON object on stdout, everything else on stderr"""


def main(arguments: Sequence[str]) -> int:
    """Runs the command."""
    config = parse(Resume, "narl resume", arguments, EXAMPLE)
    from narl.commands.console import note, print_json
    from narl.commands.training import Wishes, follow, refuse_other_runs, result, show
    from narl.storage.unfinished import UnfinishedRun, locate

    wishes = Wishes(
        runs=config.runs,
        unfinished=True,
        tensorboard=config.tensorboard,
        wandb=config.wandb,
        json=config.json,
    )
    found = locate(wishes.root, config.run, unfinished_first=True)
    if not isinstance(found, UnfinishedRun):
        refuse_other_runs(found)
        note(f"{found.id} is finished; there is nothing to continue")
        if config.json:
            print_json(result(found, True, []))
        else:
            show(found, True, again="`narl train … --fresh`")
        return 0
    if found.problems:
        raise InputError(
            f"run {found.id}: {'; '.join(found.problems)}; train it anew (the `narl train` that "
            f"began it, with --fresh), or remove it (`narl runs remove {found.path.name}`)"
        )
    from narl.deep.training_run import course_from

    root = found.path.resolve().parent
    own = config.runs if root == wishes.root.resolve() else root
    wishes = dataclasses.replace(wishes, runs=own, checkpoint_every=found.checkpoint_every)
    return follow(course_from(found.config), wishes)
