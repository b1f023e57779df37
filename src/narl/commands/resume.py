"""`narl resume`: continue a training that was stopped, was killed or failed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional

from narl.commands.arguments import (
    EnvTimeout,
    EnvWorkers,
    GoOnWithAnyCode,
    JsonSwitch,
    RunsFolder,
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
from narl.errors import InputError
from narl.run_lookup import RUN_HELP, command_line, find_run

if TYPE_CHECKING:
    from narl.storage import Run

EXAMPLE = "narl resume train-narl-hopper-v5"


@dataclasses.dataclass(frozen=True)
class Resume:
    """Continue an unfinished training from its last checkpoint.

    The result is that of a training that was never interrupted, bit for bit on the same machine.
    """

    run: Annotated[Positional[str], value("RUN", help=RUN_HELP)]
    env_workers: EnvWorkers = None
    env_timeout: EnvTimeout = None
    tensorboard: TensorBoardFolder = None
    wandb: WandbProject = None
    trust_env_module: TrustModule = False
    any_code: GoOnWithAnyCode = False
    runs: RunsFolder = None
    json: JsonSwitch = False


def show_finished(run: Run, as_json: bool) -> None:
    """Print a finished run that was not trained now."""
    from narl.commands.training_console import print_training, training_result
    from narl.console import print_json

    if as_json:
        print_json(training_result(run, was_found=True, resumed_from=None))
    else:
        print_training(run, was_found=True, again="`narl train … --fresh`")


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status."""
    args = parse(Resume, "narl resume", arguments, EXAMPLE)
    from narl.commands.training_console import TrainingConsole
    from narl.console import note
    from narl.deep.checked_config import check_config, config_from_record
    from narl.deep.env_code import env_module_problem
    from narl.deep.run_artifacts import not_written_by_narl
    from narl.storage import UnfinishedRun

    root = runs_folder(args.runs)
    run = find_run(root, args.run, unfinished_first=True, of_training=True)
    if isinstance(run, UnfinishedRun) and run.problems:
        remove = command_line("runs", "remove", run.path.name, runs=run.path.parent)
        raise InputError(
            f"run {run.id}: {'; '.join(run.problems)}; train it anew (the `narl train` that "
            f"began it, with --fresh), or remove it (`{remove}`)"
        )
    with not_written_by_narl(f"run {run.id}:", "remove it"):
        config = config_from_record(run.config)
        check_config(config)
    if args.trust_env_module:
        import_from_working_folder()
    elif isinstance(run, UnfinishedRun) and (problem := env_module_problem(config.env)):
        raise InputError(problem)
    if not isinstance(run, UnfinishedRun):
        note(f"{run.id} is finished; there is nothing to continue")
        show_finished(run, args.json)
        return 0
    folder = run.path.resolve().parent
    runs = args.runs if folder == root.resolve() else folder
    console = TrainingConsole(runs, args.json, args.tensorboard, args.wandb)
    with errors_as_typed(Resume):
        return console.train(
            config,
            checkpoint_every=run.checkpoint_every,
            keep_data=run.keep_data,
            unfinished=True,
            any_code=args.any_code,
            parts=environment_parts(args.env_workers, args.env_timeout),
        )
