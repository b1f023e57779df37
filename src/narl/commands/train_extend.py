"""`narl train --extend RUN --steps N`: go on with a finished training to more steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from narl.commands.arguments import (
    EnvTimeout,
    EnvWorkers,
    GoOnWithAnyCode,
    JsonSwitch,
    RunsFolder,
    Switch,
    TensorBoardFolder,
    TrustModule,
    WandbProject,
    environment_parts,
    errors_as_typed,
    import_from_working_folder,
    parse,
    runs_folder,
    value,
)
from narl.commands.resume import show_finished
from narl.commands.train import CheckpointEvery
from narl.deep.config import CHECKPOINT_EVERY
from narl.errors import InputError
from narl.run_lookup import RUN_HELP, find_run

EXAMPLE = "narl train --extend train-narl-hopper-v5 --steps 200000"


@dataclasses.dataclass(frozen=True)
class Extend:
    """Go on with a finished training that was run with --keep-data, to more steps.

    The result is a new run: that of the same configuration with N steps, bit for bit on the same
    machine. All other options are those of the run and cannot be given.
    """

    extend: Annotated[str, value("RUN", help=RUN_HELP)]
    steps: Annotated[int, value("N")]
    """environment steps of each seed in all, those of the run included"""
    checkpoint_every: CheckpointEvery = CHECKPOINT_EVERY
    keep_data: Switch = False
    """keep the data again, so that the new run can be extended too"""
    env_workers: EnvWorkers = None
    env_timeout: EnvTimeout = None
    tensorboard: TensorBoardFolder = None
    wandb: WandbProject = None
    trust_env_module: TrustModule = False
    any_code: GoOnWithAnyCode = False
    runs: RunsFolder = None
    json: JsonSwitch = False


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status."""
    args = parse(Extend, "narl train --extend RUN", arguments, EXAMPLE)
    from narl import storage
    from narl.commands.training_console import TrainingConsole, resume_command
    from narl.console import note
    from narl.deep.env_code import env_module_problem
    from narl.deep.extended_run import begin_extended_run, extended_config
    from narl.validation import check_count

    root = runs_folder(args.runs)
    run = find_run(root, args.extend, of_training=True)
    folder = run.path.resolve().parent
    runs = args.runs if folder == root.resolve() else folder
    with errors_as_typed(Extend):
        if isinstance(run, storage.UnfinishedRun):
            resume = resume_command(run.id, str(run.config.get("env", "")), runs)
            raise InputError(f"extend: {run.id} is not finished; `{resume}` first")
        every = check_count("checkpoint_every", args.checkpoint_every)
        parts = environment_parts(args.env_workers, args.env_timeout)
        config = extended_config(run, args.steps)
        if (longer := storage.find_run_of_config(runs_folder(runs), config.record())) is not None:
            note(f"a run of {config.steps} steps is there already; nothing is trained")
            show_finished(longer, args.json)
            return 0
        if args.trust_env_module:
            import_from_working_folder()
        elif problem := env_module_problem(config.env):
            raise InputError(problem)
        begin_extended_run(run, config, keep_data=args.keep_data)
        console = TrainingConsole(runs, args.json, args.tensorboard, args.wandb)
        return console.train(
            config,
            checkpoint_every=every,
            keep_data=args.keep_data,
            any_code=args.any_code,
            parts=parts,
        )
