"""What `narl train` and `narl resume` share: a training that people watch and may stop."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from narl.errors import Failure, InputError

if TYPE_CHECKING:
    from narl.deep.loggers import Logger
    from narl.deep.training_run import Course
    from narl.storage.runs import Run


@dataclasses.dataclass(frozen=True)
class Wishes:
    """How a training is to be carried out; the result does not depend on it."""

    runs: Path | None = None
    checkpoint_every: int = 1
    fresh: bool = False
    unfinished: bool = False
    """Continue what was begun, even if a finished run is there."""
    tensorboard: str | None = None
    wandb: str | None = None
    json: bool = False

    @property
    def root(self) -> Path:
        from narl.storage.runs import default_root

        return default_root() if self.runs is None else self.runs


def follow(course: Course, wishes: Wishes) -> int:
    """Trains, shows how it goes and what came out; the exit status."""
    from narl.commands.console import print_json

    begun: list[int] = []
    kept = find(course, wishes)
    found = kept is not None
    if kept is None:
        kept = carry_out(course, wishes, begun.append)
    if wishes.json:
        print_json(result(kept, found, begun))
    else:
        show(kept, found)
    return 0


def find(course: Course, wishes: Wishes) -> Run | None:
    """The finished run, unless another is wanted."""
    from narl import storage

    if wishes.fresh or wishes.unfinished:
        return None
    return storage.find_run(storage.check_root(wishes.root), course.config())


def carry_out(course: Course, wishes: Wishes, on_resume: Callable[[int], None]) -> Run:
    """The run, trained to its end; interrupts and faults say how it goes on."""
    from narl.commands.console import note, warnings_as_notes
    from narl.commands.interrupts import Interrupted, stoppable
    from narl.commands.training_bar import TrainingBar
    from narl.compilation import enable_cache
    from narl.deep.environment import EnvironmentFault
    from narl.deep.trainer import Fault
    from narl.deep.training_run import Stopped, check_course, train

    check_course(course)
    enable_cache()
    settings, again = course.settings, resume_command(course, wishes)
    with contextlib.ExitStack() as stack:
        stack.enter_context(warnings_as_notes())
        callbacks = [stack.enter_context(each) for each in loggers(course, wishes)]
        bar = stack.enter_context(TrainingBar(f"{settings.algo} {settings.env}", settings.steps))

        def resumed(step: int) -> None:
            note(f"continues from step {step}")
            bar.begin(step)
            on_resume(step)

        def on_epoch(row: dict[str, Any]) -> None:
            bar.end_epoch(row)
            for callback in callbacks:
                callback(row)

        def work(should_stop: Callable[[], bool]) -> Run:
            kept, _ = train(
                course,
                wishes.root,
                on_epoch=on_epoch,
                on_step=bar.advance,
                on_resume=resumed,
                should_stop=should_stop,
                checkpoint_every=wishes.checkpoint_every,
                fresh=wishes.fresh,
                unfinished=wishes.unfinished,
            )
            return kept

        try:
            return stoppable(work, lambda: note("stopping: a checkpoint is written …"))
        except Stopped as stop:
            # What is still being compiled would keep the interpreter from ending.
            kind = Interrupted if is_compiling() else KeyboardInterrupt
            raise kind(f"{stop}; `{again}` continues") from None
        except Interrupted:
            raise Interrupted(
                f"interrupted; the last checkpoint is kept, the same command or `{again}` continues"
            ) from None
        except BrokenPipeError:
            raise
        except (Fault, EnvironmentFault, OSError) as fault:
            left = what_is_left(course, wishes, again)
            raise Failure(f"{in_words(fault)}; {left}") from fault


def is_compiling() -> bool:
    """Whether a program is compiled in the background (see `narl.deep.replicas`)."""
    return any(thread.name.startswith("narl-compile") for thread in threading.enumerate())


def loggers(course: Course, wishes: Wishes) -> list[Logger]:
    """What else is told of every epoch."""
    from narl.deep.loggers import tensorboard_logger, wandb_logger

    found = []
    if wishes.tensorboard is not None:
        folder = Path(wishes.tensorboard) / course.id
        found.append(tensorboard_logger(folder, seeds=course.seeds))
    if wishes.wandb is not None:
        found.append(
            wandb_logger(wishes.wandb, seeds=course.seeds, config=course.config(), run=course.id)
        )
    return found


def resume_command(course: Course, wishes: Wishes) -> str:
    """What continues it."""
    where = "" if wishes.runs is None else f" --runs {wishes.runs}"
    return f"narl resume {course.id}{where}"


def in_words(fault: Exception) -> str:
    """What went wrong, such as a disk that is full."""
    if isinstance(fault, OSError) and fault.strerror:
        return f"{fault.filename}: {fault.strerror}" if fault.filename else fault.strerror
    return str(fault)


def what_is_left(course: Course, wishes: Wishes, again: str) -> str:
    """What a fault has not destroyed."""
    from narl.storage.unfinished import PART, UnfinishedRun

    part = wishes.root / f"{course.id}{PART}"
    step = UnfinishedRun(part, {}, 1).step
    if not step:
        return "there was no checkpoint yet"
    return f"the checkpoint of step {step} is kept in {part}, `{again}` tries again from there"


def result(kept: Run, found: bool, begun: list[int]) -> dict[str, Any]:
    """What --json prints."""
    config = kept.config
    return {
        "algo": config["algo"],
        "env": config["env"],
        "seeds": config["seeds"],
        **kept.metrics,
        "run": kept.id,
        "path": str(kept.path),
        "found": found,
        "resumed_from": begun[0] if begun else None,
    }


def show(kept: Run, found: bool, again: str = "--fresh") -> None:
    """What a person sees at the end; ``again`` is what would train it again."""
    from rich.table import Table

    from narl.commands.console import stdout
    from narl.commands.training_bar import duration, mean_return

    config, metrics = kept.config, kept.metrics
    table = Table(box=None, pad_edge=False)
    for column in ("seed", "solved at step", "final return"):
        table.add_column(column, justify="right")
    pairs = zip(config["seeds"], metrics["solved_step"], metrics["final_return"], strict=True)
    for seed, solved, final in pairs:
        table.add_row(str(seed), "-" if solved is None else str(solved), f"{final:.1f}")
    console = stdout()
    console.print(
        f"{config['algo']} on {config['env']}: {metrics['steps']} steps, "
        f"{metrics['updates']} updates, mean return {mean_return(metrics['final_return'])}"
    )
    console.print(table)
    seconds = metrics["seconds"]
    if found:
        console.print(f"found, not trained again ({again} trains it again)")
    else:
        spent = {name: part for name, part in seconds.items() if name != "total" and part >= 1}
        parts = ", ".join(f"{name} {duration(part)}" for name, part in spent.items())
        console.print(f"{duration(seconds['total'])}{f' ({parts})' if parts else ''}")
    console.print(f"kept in {kept.path}; `narl report {kept.path}` draws it", soft_wrap=True)


def refuse_other_runs(run: Run) -> None:
    """A run of `narl tabular` has no policy."""
    if run.config.get("experiment") != "train":
        raise InputError(f"run: {run.id} is no training; `narl train` makes one")
