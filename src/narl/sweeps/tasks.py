"""Tasks: the runs of a sweep in groups, each for one process.

Trainings of one `shape` share a program. Those that were begun together, or alone, stay so: only
then can they continue from their checkpoint.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import TypeAlias

from narl import storage
from narl.deep.config import Config as TrainingConfig
from narl.grouping import group_by
from narl.sweeps.planned_run import SweepRun
from narl.sweeps.run_notes import RunNotes

Task: TypeAlias = tuple[SweepRun, ...]
"""Runs for one process."""


def make_tasks(
    runs: Sequence[SweepRun], root: Path, *, group: int | None = None, num_workers: int = 1
) -> list[Task]:
    """Return the runs that are not done, in groups of those that share a program.

    A group has at most ``group`` runs; by default, as many as keep ``num_workers`` processes busy.
    Tabular runs share no program: those of a group follow each other in one process.
    """
    missing = [run for run in runs if run.find_current(root) is None]
    tasks = _begun_together(runs, missing, root)
    left = {run.id: run for run in missing}
    for task in tasks:
        for run in task:
            left.pop(run.id, None)
    for run in list(left.values()):
        if _is_begun(run, root) or (RunNotes(root, run.id).failure() or {}).get("together", 1) > 1:
            tasks.append((left.pop(run.id),))
    for alike in share_program(list(left.values())):
        size = group or math.ceil(len(alike) / num_workers)
        tasks += [tuple(alike[i : i + size]) for i in range(0, len(alike), size)]
    return tasks


def share_program(runs: Sequence[SweepRun]) -> list[list[SweepRun]]:
    """Return the runs in groups that one program can hold, and tabular runs as one group."""

    def program(run: SweepRun) -> Hashable:
        config = run.config
        alone = not isinstance(config, TrainingConfig) and config.swept is None
        return "tabular" if alone else config.shape

    return group_by(runs, program)


def _begun_together(
    runs: Sequence[SweepRun], missing: Sequence[SweepRun], root: Path
) -> list[Task]:
    """Return the groups that an earlier process began in one program and left unfinished."""
    by_id = {run.id: run for run in runs}
    left = {run.id for run in missing}
    tasks: list[Task] = []
    for unfinished in storage.list_unfinished_runs(root) if left and root.is_dir() else ():
        ids = [storage.run_id(record) for record in unfinished.config.get("configs", ())]
        usable = not unfinished.problems and unfinished.step > 0
        if usable and left & {*ids} and {*ids} <= by_id.keys():
            tasks.append(tuple(by_id[id_] for id_ in ids))
            left -= {*ids}
    return tasks


def _is_begun(run: SweepRun, root: Path) -> bool:
    """Return whether a training has checkpoints of its own."""
    part = root / f"{run.id}{storage.PART_SUFFIX}"
    return storage.has_checkpoints(part / storage.CHECKPOINTS)
