"""The driver of a sweep: gives tasks to an executor until every run is done or has failed.

The folder of runs is the truth: a task ends when its runs are in the folder, or their notes say
that they failed. Runs on which another sweep is working are waited for, and taken over should their
process die.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from narl import storage
from narl.sweeps.planned_run import SweepRun
from narl.sweeps.run_notes import RunNotes
from narl.sweeps.tasks import Task

POLL_SECONDS = 0.2
BUSY_SECONDS = 3.0
"""Seconds after which runs that another process holds are looked at again."""


class Ended(NamedTuple):
    """A task whose process has ended."""

    task: Task
    crash: str = ""
    """How the process was lost, such as "killed by signal 9"; empty if it ended by itself."""


class Executor(Protocol):
    """A place where tasks run side by side."""

    def has_room(self) -> bool:
        """Return whether another task can be started now."""

    def start(self, task: Task) -> None:
        """Begin a task and return at once; `ended` says when it is over."""

    def ended(self) -> list[Ended]:
        """Return the tasks that have ended since the last call."""

    def num_running(self) -> int:
        """Return the number of tasks that were started and have not ended."""

    def stop(self) -> None:
        """End, and stop tasks that are running; trainings leave a checkpoint where they can."""


def drive(
    tasks: Sequence[Task],
    executor: Executor,
    root: Path,
    *,
    retries: int = 2,
    on_poll: Callable[[], None] = lambda: None,
) -> None:
    """Run tasks until nothing is left to do; an interrupt stops the running ones.

    A run whose process was killed is begun again ``retries`` times, from its last checkpoint.
    """
    waiting = deque(tasks)
    later: list[tuple[float, Task]] = []
    crashes: Counter[str] = Counter()
    try:
        while waiting or later or executor.num_running():
            now = time.monotonic()
            waiting += [task for due, task in later if due <= now]
            later = [(due, task) for due, task in later if due > now]
            while waiting and executor.has_room():
                task = waiting.popleft()
                unfinished = [run for run in task if run.find_current(root) is None]
                busy = [run for run in unfinished if is_busy(run, root)]
                # Those that nobody works on need not wait for the others.
                later += [(now + BUSY_SECONDS, (run,)) for run in busy]
                if len(busy) < len(unfinished):
                    for run in unfinished:
                        if run not in busy:
                            RunNotes(root, run.id).clear_failure()
                    executor.start(tuple(run for run in task if run not in busy))
            for ended in executor.ended():
                waiting += _settle(ended, root, crashes, retries)
            on_poll()
            time.sleep(POLL_SECONDS)
    finally:
        executor.stop()


def _settle(ended: Ended, root: Path, crashes: Counter[str], retries: int) -> list[Task]:
    """Return the tasks that are left of one whose process has ended."""
    notes_of = {run.id: RunNotes(root, run.id) for run in ended.task}
    missing = [run for run in ended.task if run.find_current(root) is None]
    left = [run for run in missing if not notes_of[run.id].has_failed]
    mine = [run for run in left if not is_busy(run, root)]
    # A process that follows one run after the other was lost in the one that it had begun.
    crashes.update(run.id for run in [run for run in mine if notes_of[run.id].worker()] or mine)
    given_up = [run for run in mine if crashes[run.id] > retries]
    if len(given_up) > 1 and given_up[0].is_training:  # one of them may be to blame
        for run in given_up:
            del crashes[run.id]
        alone: list[Task] = [(run,) for run in given_up]
    else:
        alone = []
        for run in given_up:
            how = ended.crash or "it ended without a result"
            error = f"its process was lost {crashes[run.id]} times ({how})"
            notes = RunNotes(root, run.id, notes_of[ended.task[0].id].log)
            notes.note_failure(error=error, together=1)
            notes.clear_worker()
    if len(given_up) == len(left):
        return alone
    # Finished runs stay in the task: their group's checkpoint is found by all of its runs.
    over = [run for run in missing if run not in left or run in given_up]
    return [*alone, tuple(run for run in ended.task if run not in over)]


def is_busy(run: SweepRun, root: Path) -> bool:
    """Return whether another process is working on a run, in a sweep or with `narl train`."""
    if RunNotes(root, run.id).is_leased:
        return True
    part = root / f"{run.id}{storage.PART_SUFFIX}"
    return run.is_training and storage.UnfinishedRun(part, {}, 1).holder is not None
