"""The content of a folder that holds an agent: a saved one, or that of a run of `narl train`."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from narl import storage
from narl.deep.checked_config import config_from_record
from narl.deep.config import EPOCH_COLUMNS, Config
from narl.deep.policy import Policy, interface_from, interface_of, policy_from
from narl.deep.presets import shortens_observations
from narl.deep.run_artifacts import only_networks
from narl.deep.snapshot import STATE, State, with_prefix
from narl.deep.training_environment import open_training_env
from narl.errors import InputError
from narl.storage.checkpoints import load_checkpoint
from narl.storage.metrics_log import PROGRESS, rows_from_bytes
from narl.storage.unfinished import CHECKPOINTS, TRAINING, open_unfinished_run

_log = logging.getLogger("narl")


class SavedAgent(NamedTuple):
    """Everything that a folder holds of an agent."""

    record: dict[str, Any]
    """The recorded configuration, and which parts were the user's own."""
    config: Config
    policy: Policy
    networks: dict[str, np.ndarray]
    history: list[dict[str, Any]]
    num_steps: int
    state: State | None
    """The state from which learning can go on; None: it was not saved."""
    no_state: str = "no data were saved; save with data=True"
    """Why there is no state, and what would be right."""


def read_saved_agent(folder: Path) -> SavedAgent:
    """Read an agent from a folder, after its checksums were verified."""
    if (folder / TRAINING).is_file():
        return _read_unfinished(folder)
    if folder.is_file():
        raise InputError(f"folder: {folder} is a file; give the folder that was saved")
    if folder.is_dir() and not (folder / storage.MANIFEST).is_file():
        raise InputError(
            f"folder: {folder} holds no saved agent; give one that agent.save or narl train made"
        )
    return _read_finished(folder)


def _read_finished(folder: Path) -> SavedAgent:
    run = storage.load_run_at(folder)
    config, arrays = config_from_record(run.config), run.arrays()
    saved = SavedAgent(
        record=run.config,
        config=config,
        policy=policy_from(arrays, config.seeds, interface_from(arrays)),
        networks=only_networks(arrays),
        history=rows_from_bytes(run.extra(PROGRESS)),
        num_steps=int(run.metrics["steps"]),
        state=None,
    )
    if not (folder / CHECKPOINTS).is_dir():
        return saved
    try:
        checkpoint = load_checkpoint(folder / CHECKPOINTS)
    except InputError:  # load_checkpoint has logged the damage
        _log.warning("%s: its data are damaged; the policy is loaded, but cannot learn", folder)
        return saved._replace(no_state="the data that were saved are damaged; load another")
    return saved._replace(state=(checkpoint.arrays, checkpoint.notes))


def _read_unfinished(folder: Path) -> SavedAgent:
    unfinished = open_unfinished_run(folder)
    if unfinished.problems:
        raise InputError(f"run {unfinished.id}: {unfinished.problems[0]}")
    config = config_from_record(unfinished.config)
    checkpoint = load_checkpoint(folder / CHECKPOINTS)
    with contextlib.closing(open_training_env(config, config.seeds[0])) as env:
        interface = interface_of(env, shortens_observations(config.env))
    networks = only_networks(with_prefix(checkpoint.arrays, STATE))
    rows = unfinished.rows(EPOCH_COLUMNS)
    rows = [row for row in rows if row["step"] <= checkpoint.step]
    return SavedAgent(
        record=unfinished.config,
        config=config,
        policy=policy_from(networks, config.seeds, interface),
        networks=networks,
        history=rows,
        num_steps=checkpoint.step,
        state=(checkpoint.arrays, checkpoint.notes),
    )
