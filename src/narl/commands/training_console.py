"""A training on the console: progress, interrupts, loggers and the printed result.

`narl train` and `narl resume` share it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from narl.commands.arguments import runs_folder
from narl.compilation import enable_cache
from narl.console import (
    TrainingBar,
    duration,
    make_table,
    note,
    print_json,
    stdout,
    warnings_as_notes,
)
from narl.deep.config import Config
from narl.deep.env_code import foreign_module
from narl.deep.finite_check import NonFiniteError
from narl.deep.loggers import Logger, tensorboard_logger, wandb_logger
from narl.deep.training_run import run_training
from narl.display import counted, figure, mean_figure
from narl.errors import EnvironmentFault, Failure, system_error_line
from narl.interrupts import STOPPING, run_with_checkpoint
from narl.run_lookup import command_line
from narl.storage import PART_SUFFIX, Run, UnfinishedRun


def resume_command(run_id: str, env_id: str, runs: Path | None) -> str:
    """Return the command that continues a training, as it can be typed.

    ``runs`` is the folder of the runs as it was given; None: the default.
    """
    return command_line("resume", run_id, runs=runs, trust=bool(foreign_module(env_id)))


class TrainingConsole(NamedTuple):
    """A command that trains: how the training is shown, logged and stored."""

    runs: Path | None = None
    """The folder of the runs as it was given; None: the default."""
    json: bool = False
    tensorboard: str | None = None
    wandb: str | None = None

    def train(self, config: Config, **options: Any) -> int:
        """Train with a progress bar, print the result and return the exit status.

        The ``options`` are those of `run_training`.
        """
        resumed_from: list[int] = []
        with self._explained_errors(config):
            run, was_found = self._run_training(config, resumed_from, options)
        if self.json:
            step = resumed_from[0] if resumed_from else None
            print_json(training_result(run, was_found, step))
        else:
            print_training(run, was_found, resumed=bool(resumed_from))
        return 0

    def _run_training(
        self, config: Config, resumed_from: list[int], options: dict[str, Any]
    ) -> tuple[Run, bool]:
        """Return the run, and whether it was found; the step of a resumed one is appended."""
        enable_cache()
        loggers: list[Logger] = []
        with contextlib.ExitStack() as stack:
            stack.enter_context(warnings_as_notes())
            label, schedule = f"{config.algo} {config.env}", config.step_schedule
            bar = stack.enter_context(TrainingBar(label, config.steps, schedule=schedule))

            def on_start() -> None:
                for logger in self._open_loggers(config):
                    loggers.append(stack.enter_context(logger))

            def on_resume(step: int) -> None:
                note(f"continues from step {step}")
                bar.begin(step)
                resumed_from.append(step)

            def on_epoch(metrics: dict[str, Any]) -> None:
                bar.end_epoch(metrics)
                for logger in loggers:
                    logger(metrics)

            def train(should_stop: Callable[[], bool]) -> tuple[Run, bool]:
                (result,) = run_training(
                    [config],
                    runs_folder(self.runs),
                    on_start=on_start,
                    on_resume=on_resume,
                    on_epoch=on_epoch,
                    on_step=bar.advance,
                    should_stop=should_stop,
                    **options,
                )
                return result

            resume = f"`{resume_command(config.run_id, config.env, self.runs)}`"

            def stopping() -> str:
                return STOPPING if bar.has_stepped else "stopping …"  # without a new checkpoint

            def at_once() -> str:
                step = self._kept_step(config)
                kept = f"the checkpoint of step {step} is kept" if step else "no checkpoint yet"
                does = "continues from there" if step else "begins anew"
                return f"interrupted; {kept}; the same command or {resume} {does}"

            return run_with_checkpoint(train, f"{resume} continues", at_once, stopping)

    def _open_loggers(self, config: Config) -> Iterator[Logger]:
        """Yield the loggers that were asked for."""
        if self.tensorboard is not None:
            folder = Path(self.tensorboard) / config.run_id
            yield tensorboard_logger(folder, seeds=config.seeds)
        if self.wandb is not None:
            yield wandb_logger(
                self.wandb, seeds=config.seeds, config=config.record(), run=config.run_id
            )

    @contextlib.contextmanager
    def _explained_errors(self, config: Config) -> Iterator[None]:
        """Add the command that continues the training to faults."""
        try:
            yield
        except BrokenPipeError:
            raise
        except (NonFiniteError, EnvironmentFault, OSError) as fault:
            remaining = self._remaining(config)
            raise Failure(f"{system_error_line(fault) or fault}; {remaining}") from fault

    def _remaining(self, config: Config) -> str:
        """Describe the checkpoint from which a training that failed can continue."""
        resume = resume_command(config.run_id, config.env, self.runs)
        step, part = self._kept_step(config), self._part(config)
        if not step:
            return "there was no checkpoint yet"
        return f"the checkpoint of step {step} is kept in {part}, `{resume}` tries again from there"

    def _part(self, config: Config) -> Path:
        """Return the folder of the unfinished training."""
        return runs_folder(self.runs) / f"{config.run_id}{PART_SUFFIX}"

    def _kept_step(self, config: Config) -> int:
        """Return the step of the newest checkpoint; 0 if there is none."""
        return UnfinishedRun(self._part(config), {}, 1).step


def training_result(run: Run, was_found: bool, resumed_from: int | None) -> dict[str, Any]:
    """Return the JSON object that `--json` prints of a finished training."""
    return {
        "algo": run.config["algo"],
        "env": run.config["env"],
        "seeds": run.config["seeds"],
        **run.metrics,
        "run": run.id,
        "path": str(run.path),
        "found": was_found,
        "resumed_from": resumed_from,
    }


def print_training(
    run: Run, was_found: bool, again: str = "--fresh", resumed: bool = False
) -> None:
    """Print a finished training for people; ``again`` is the option that trains it again.

    The times are those of all commands that worked on it, which is said where it was ``resumed``.
    """
    config, metrics = run.config, run.metrics
    can_be_solved = config.get("settings", {}).get("solved_return") is not None
    solved_column = ["solved at step"] if can_be_solved else []
    columns = ("seed", *solved_column, "final return", "best return", "at step")
    table = make_table(*columns, numbers=columns)
    final, best = metrics["final_return"], _best_returns(run)
    for seed, solved_step, last, (most, step) in zip(
        config["seeds"], metrics["solved_step"], final, best, strict=True
    ):
        solved = ["-" if solved_step is None else str(solved_step)] if can_be_solved else []
        table.add_row(str(seed), *solved, figure(last), figure(most), str(step))
    console = stdout()
    console.print(
        f"{config['algo']} on {config['env']}: {metrics['steps']} steps, "
        f"{metrics['updates']} updates, mean return {mean_figure(metrics['final_return'])}"
    )
    console.print(table)
    if reason := _reason_of_early_stop(run):
        console.print(f"stopped early: {reason}")
    if was_found:
        console.print(f"found, not trained again ({again} trains it again)")
    else:
        console.print(_times(metrics["seconds"], " in all, earlier commands included" * resumed))
    path = str(run.path)
    console.print(f"kept in {path}; `{command_line('report', path)}` draws it", soft_wrap=True)
    if any(figure(most) != figure(last) for last, (most, _) in zip(final, best, strict=True)):
        command = command_line("eval", path, "--best", trust=bool(foreign_module(config["env"])))
        text = f"`{command}` takes the policies of the best returns, not the last"
        console.print(text, soft_wrap=True)


def _best_returns(run: Run) -> list[tuple[float | None, int | str]]:
    """Return the largest return of every seed's evaluations, and its step."""
    arrays = run.arrays()
    best: list[tuple[float | None, int | str]] = []
    for returns in arrays["eval_return"].T:
        known = np.where(np.isfinite(returns), returns, -np.inf)
        place = int(known.argmax())
        is_known = np.isfinite(known[place])
        found = (float(known[place]), int(arrays["step"][place])) if is_known else (None, "-")
        best.append(found)
    return best


def _reason_of_early_stop(run: Run) -> str:
    """Return why a training ended before its last step; "" if it did not."""
    settings, metrics = run.config.get("settings", {}), run.metrics
    if metrics["steps"] >= settings.get("steps", 0):
        return ""
    if run.config.get("until_solved") and None not in metrics["solved_step"]:
        return f"every seed has reached the return {settings['solved_return']:g}"
    if (patience := settings.get("stop_when_no_better")) is not None:
        return f"{counted(patience, 'evaluation')} in turn no better than the best one"
    return ""


def _times(seconds: dict[str, float], which: str) -> str:
    """Return the total time, and in brackets the activities that took at least a second."""
    long = {name: part for name, part in seconds.items() if name != "total" and part >= 1}
    parts = ", ".join(f"{name} {duration(part)}" for name, part in long.items())
    return f"{duration(seconds['total'])}{which}{f' ({parts})' if parts else ''}"
