"""The work of one process of a sweep: the runs of a task, each looked up, leased, resumed, saved.

Every executor calls `run_task`. Nothing is returned: the folder of runs says what is done, and the
notes beside it (`narl.sweeps.run_notes`) say what failed.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from narl import __version__, storage
from narl.console import note
from narl.deep.config import Config as TrainingConfig
from narl.errors import EnvironmentFault, Failure, InputError, first_line, system_error_line
from narl.grouping import group_by
from narl.sweeps.planned_run import SweepRun
from narl.sweeps.run_notes import RunNotes
from narl.tabular.config import Config as TabularConfig

Notes = dict[str, RunNotes]


class _Elsewhere(Exception):
    """Another process, outside of any sweep, is training the run now."""


def run_task(
    runs: Sequence[SweepRun], root: Path, should_stop: Callable[[], bool] = lambda: False
) -> None:
    """Do those of the runs that are not done and that no other process is working on.

    Trainings must have one `shape`; they share one program. Tabular runs follow each other. A
    failure is noted and ends nothing else: of several trainings in one program, each is tried by
    itself then. When ``should_stop`` returns True, a training writes a checkpoint and raises
    `narl.deep.training_run.TrainingStopped`.
    """
    from narl.compilation import enable_cache

    storage.check_root(root)
    enable_cache()
    log = RunNotes(root, runs[0].id).log
    for batch in group_by(runs, lambda run: run.config.shape):
        if should_stop():
            return
        with _leased(batch, root, log) as (notes_of, found, mine):
            if other := [run for run in mine if run.config.run_id != run.id]:
                _note_failure(other, _other_version(other[0]), notes_of)
            elif mine and mine[0].is_training:
                _train(mine, found, root, should_stop, notes_of)
            elif mine:
                _run_tabular(mine, root, notes_of)


def _other_version(run: SweepRun) -> InputError:
    """Return the error for a run that has another id here than where the sweep was planned."""
    return InputError(
        f"run: it is {run.config.run_id} with narl {__version__} in this process, so the sweep was "
        "planned with another version of narl, or its environment has changed; use one everywhere"
    )


@contextlib.contextmanager
def _leased(
    runs: Sequence[SweepRun], root: Path, log: Path
) -> Iterator[tuple[Notes, list[SweepRun], list[SweepRun]]]:
    """Hold the leases of runs; yield their notes, those that are done, and those to be done here.

    Runs on which another process is working are in neither list.
    """
    notes_of = {run.id: RunNotes(root, run.id, log) for run in runs}
    found: list[SweepRun] = []
    mine: list[SweepRun] = []
    with contextlib.ExitStack() as stack:
        for run in runs:
            if run.find_current(root) is not None:
                found.append(run)
                continue
            try:
                is_leased = stack.enter_context(notes_of[run.id].lease())
            except InputError as error:
                _note_failure([run], error, notes_of)
                continue
            if is_leased:
                # Another process may have finished the run before it freed the lease.
                (mine if run.find_current(root) is None else found).append(run)
        for notes in (notes_of[run.id] for run in mine):
            notes.clear_failure()
            notes.note_worker(step=0)
        yield notes_of, found, mine
        for run in mine:  # after an interrupt the notes stay, and say how far the runs are
            notes_of[run.id].clear_worker()


def _run_tabular(runs: Sequence[SweepRun], root: Path, notes_of: Notes) -> None:
    """Run a tabular configuration, or several that share a program."""
    from narl.tabular.stored_run import run_configs

    def progress(done: int) -> None:
        for run in runs:
            notes_of[run.id].note_worker(step=done)

    note(f"begins {', '.join(run.id for run in runs)}")
    configs = [run.config for run in runs if isinstance(run.config, TabularConfig)]
    try:
        run_configs(configs, root, progress=progress)
    except Exception as error:
        _note_failure(runs, error, notes_of)
    else:
        note(f"finished {', '.join(run.id for run in runs)}")


def _train(
    mine: Sequence[SweepRun],
    found: Sequence[SweepRun],
    root: Path,
    should_stop: Callable[[], bool],
    notes_of: Notes,
) -> None:
    """Train configurations in one program; after a failure, each of them by itself."""
    try:
        _train_together(mine, found, root, should_stop, notes_of)
    except _Elsewhere as error:
        note(str(error))
    except Exception as error:
        if len(mine) == 1:
            _note_failure(mine, error, notes_of)
            return
        note(f"{len(mine)} runs in one program failed: {error_line(error)}; each is tried alone")
        for run in mine:  # should this process be killed, the next one tries them alone, too
            notes_of[run.id].note_failure(error=error_line(error), together=len(mine))
        for run in mine:
            if run.find_current(root) is None:
                _train([run], [], root, should_stop, notes_of)
            if run.find_current(root) is not None:
                notes_of[run.id].clear_failure()


def _train_together(
    mine: Sequence[SweepRun],
    found: Sequence[SweepRun],
    root: Path,
    should_stop: Callable[[], bool],
    notes_of: Notes,
) -> None:
    from narl.deep.training_run import run_training
    from narl.deep.user_parts import UserParts

    steps = mine[0].length
    returns: list[float] = []

    def on_step(step: int) -> None:
        for notes in (notes_of[run.id] for run in mine):
            mean = {"return": sum(returns) / len(returns)} if returns else {}
            notes.note_worker(step=step, **mean)

    def on_epoch(metrics: dict[str, Any]) -> None:
        returns[:] = metrics["eval_return"]
        note(f"step {metrics['step']}/{steps}, return {sum(returns) / len(returns):z.1f}")

    # An unfinished group is recognised by all its configurations, finished ones included.
    configs = [run.config for run in (*found, *mine) if isinstance(run.config, TrainingConfig)]
    note(f"begins {', '.join(run.id for run in mine)}")
    try:
        run_training(
            configs,
            root,
            on_step=on_step,
            on_epoch=on_epoch,
            on_resume=lambda step: note(f"continues from step {step}"),
            should_stop=should_stop,
            parts=UserParts(env_timeout=mine[0].env_timeout),
        )
    except InputError as error:
        parts = [root / f"{run.id}{storage.PART_SUFFIX}" for run in mine]
        if any(storage.UnfinishedRun(part, {}, 1).holder for part in parts):
            raise _Elsewhere(str(error)) from None
        raise
    note(f"finished {', '.join(run.id for run in mine)}")


def _note_failure(runs: Sequence[SweepRun], error: Exception, notes_of: Notes) -> None:
    """Write why runs failed to their notes, and the traceback to the log."""
    if not isinstance(error, InputError | Failure):
        note("".join(traceback.format_exception(error)))
    line = error_line(error)
    note(f"failed {', '.join(run.id for run in runs)}: {line}")
    for run in runs:
        notes_of[run.id].note_failure(error=line, together=1)


def error_line(error: BaseException) -> str:
    """Return one line that describes an error."""
    if line := system_error_line(error):
        return line
    text = first_line(str(error))
    if isinstance(error, InputError | Failure | EnvironmentFault):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
