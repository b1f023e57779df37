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
    by_id, left = {run.id: run for run in runs}, {run.id: run for run in missing}
    begun = storage.begun_groups(root, by_id, left)
    tasks: list[Task] = [tuple(by_id[id_] for id_ in ids) for ids in begun]
    for task in tasks:
        for run in task:
            left.pop(run.id, None)
    for run in list(left.values()):
        if (RunNotes(root, run.id).failure() or {}).get("together", 1) > 1:
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
