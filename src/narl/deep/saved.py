"""What a folder holds of an agent: a finished run, a saved agent, an unfinished training."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from narl import storage
from narl.deep.config import Settings
from narl.deep.memory import check_memory
from narl.deep.policy import Policy, interface_from, interface_of, policy_from
from narl.deep.run_artifacts import sees_first_entries
from narl.deep.spaces import Spaces
from narl.deep.trainer import Training
from narl.deep.training_run import course_from, open_course
from narl.errors import InputError
from narl.storage.checkpoints import load_checkpoint
from narl.storage.metrics_log import NAME as JOURNAL
from narl.storage.unfinished import CHECKPOINTS, COURSE, open_unfinished_run

_log = logging.getLogger("narl")

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
    no_state: str = "no data were saved; save with data=True"
    """Why it is not there, otherwise, and what would be right."""


def read_saved(path: Path) -> Saved:
    """Reads a folder, once its checksums are right."""
    if (path / COURSE).is_file():
        return _of_unfinished(path)
    if path.is_file():
        raise InputError(f"folder: {path} is a file; give the folder that was saved")
    if path.is_dir() and not (path / storage.MANIFEST).is_file():
        raise InputError(
            f"folder: {path} holds no saved agent; give one that agent.save or narl train made"
        )
    return _of_run(path)


def _of_run(path: Path) -> Saved:
    run = storage.load_run_at(path)
    arrays = run.arrays()
    seeds = tuple(run.config.get("seeds") or ())
    policy = policy_from(arrays, seeds, interface_from(arrays))
    lines = run.extra(JOURNAL).decode().splitlines()
    rows = [json.loads(line) for line in lines]
    saved = Saved(run.config, policy, _networks(arrays), rows, int(run.metrics["steps"]), None)
    if not (path / CHECKPOINTS).is_dir():
        return saved
    try:
        found = load_checkpoint(path / CHECKPOINTS)
    except InputError:  # what is damaged has been said
        _log.warning("%s: its data are damaged; the policy is loaded, but cannot learn on", path)
        return saved._replace(no_state="the data that were saved are damaged; load another")
    return saved._replace(state=(found.arrays, found.notes))


def _of_unfinished(path: Path) -> Saved:
    unfinished = open_unfinished_run(path)
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


def room(settings: Settings, total: int, state: State | None) -> int:
    """For how many steps the buffers are made of a training that is to come to ``total``.

    At first no more than asked for: then they are those of `narl train`. Whoever goes on will
    do so again, and another size would be compiled anew: from then on a power of two, with as
    much to come as there has been.
    """
    if state is None and total > settings.learn_after:
        return total
    if state is not None and total <= (kept := state[0][_ROWS].shape[1]):
        return int(kept)
    return _power_of_two(2 * max(total, settings.learn_after))


def roomy(
    settings: Settings, total: int, state: State | None, spaces: Spaces, seeds: Sequence[int]
) -> Settings:
    """Settings with `room` for more, or for these steps alone where memory is short."""
    least = max(total, settings.learn_after + 1)
    dims = spaces.obs_dim, spaces.action_dim
    large = dataclasses.replace(settings, steps=room(settings, total, state))
    try:
        check_memory(large, *dims, len(seeds))
    except InputError:
        small = dataclasses.replace(settings, steps=least)
        check_memory(small, *dims, len(seeds))
        return small
    return large


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


_ROWS = "learner.real.rows"


def with_room(arrays: Mapping[str, np.ndarray], training: Training) -> dict[str, np.ndarray]:
    """A checkpoint's arrays for a training with room for more steps.

    The ring of real transitions then has another length. It has not come round yet; or else its
    length is that of the settings, and stays.
    """
    rows, capacity = arrays[_ROWS], training.settings.real_capacity
    grown = ((0, 0), (0, capacity - rows.shape[1]), (0, 0))
    return {**arrays, _ROWS: np.pad(rows, grown)}
