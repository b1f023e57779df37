"""What a folder holds of an agent: a finished run, a saved agent, an unfinished training."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from narl import store
from narl.deep.checkpoint import load_checkpoint
from narl.deep.course import course_from, open_course, sees_first_entries
from narl.deep.journal import NAME as JOURNAL
from narl.deep.policy import Policy, interface_from, interface_of, policy_from
from narl.deep.train import Training
from narl.deep.unfinished import CHECKPOINTS, COURSE, open_unfinished
from narl.errors import InputError

State = tuple[dict[str, np.ndarray], dict[str, Any]]
"""Arrays and notes of a checkpoint."""


class Saved(NamedTuple):
    """All of it."""

    config: dict[str, Any]
    policy: Policy
    networks: dict[str, np.ndarray]
    history: list[dict[str, Any]]
    num_steps: int
    state: State | None
    """What learning needs to go on, where it was kept."""


def read_saved(path: Path) -> Saved:
    """Reads a folder, once its checksums are right."""
    return _of_unfinished(path) if (path / COURSE).is_file() else _of_run(path)


def _of_run(path: Path) -> Saved:
    run = store.load_at(path)
    arrays = run.arrays()
    seeds = tuple(run.config.get("seeds") or ())
    policy = policy_from(arrays, seeds, interface_from(arrays))
    state = None
    if (path / CHECKPOINTS).is_dir():
        found = load_checkpoint(path / CHECKPOINTS)
        state = found.arrays, found.notes
    lines = run.extra(JOURNAL).decode().splitlines()
    rows = [json.loads(line) for line in lines]
    return Saved(run.config, policy, _networks(arrays), rows, int(run.metrics["steps"]), state)


def _of_unfinished(path: Path) -> Saved:
    unfinished = open_unfinished(path)
    if unfinished.problems:
        raise InputError(f"run {unfinished.id}: {unfinished.problems[0]}")
    course = course_from(unfinished.config)
    found = load_checkpoint(path / CHECKPOINTS)
    with contextlib.closing(open_course(course.settings, course.seeds[0])) as env:
        interface = interface_of(env, sees_first_entries(course.settings.env))
    networks = _networks({name.removeprefix("learner."): x for name, x in found.arrays.items()})
    policy = policy_from(networks, course.seeds, interface)
    rows = [row for row in unfinished.rows() if row["step"] <= found.step]
    state = found.arrays, found.notes
    return Saved(unfinished.config, policy, networks, rows, found.step, state)


def _networks(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    kinds = ("sac.", "ensemble.", "ending.")
    return {name: array for name, array in arrays.items() if name.startswith(kinds)}


def with_room(arrays: Mapping[str, np.ndarray], training: Training) -> dict[str, np.ndarray]:
    """A checkpoint's arrays for a training of more steps, or fewer.

    The ring of real transitions then has another length. It has not come round yet; or else its
    length is that of the settings, and stays.
    """
    name, capacity = "learner.real.rows", training.settings.real_capacity
    rows = arrays[name][:, :capacity]
    room = ((0, 0), (0, capacity - rows.shape[1]), (0, 0))
    return {**arrays, name: np.pad(rows, room)}
