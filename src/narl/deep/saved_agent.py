"""The content of a folder that holds an agent: a saved one, or that of a run of `narl train`."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from narl import __version__, storage
from narl.deep.checked_config import check_config, config_from_record
from narl.deep.config import ENV_CODE, Config
from narl.deep.env_code import env_module_problem
from narl.deep.metrics import CURVES, curves, rows_of_replicas
from narl.deep.policy import Policy, interface_from, policy_from
from narl.deep.run_artifacts import not_written_by_narl, only_networks
from narl.deep.snapshot import STATE, State, with_prefix
from narl.deep.training_environment import look_at_env
from narl.deep.training_session import LOG
from narl.errors import InputError
from narl.storage.checkpoints import load_checkpoint, save_checkpoint
from narl.storage.folder import TRAINING_FILE
from narl.storage.metrics_log import METRICS_LOG, rows_from_bytes, rows_to_bytes
from narl.storage.unfinished import CHECKPOINTS, open_unfinished_run

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
    env_code: str = ""
    """The hash of the environment's code (see `narl.deep.env_code`); empty: not recorded."""


def only_policy(saved: SavedAgent, seed: int) -> SavedAgent:
    """Return what acting needs of an agent: the actor of one seed, and its learning curve.

    Critics, models and the diagnostics of the models are left out.
    """
    actor = saved.policy.actor(seed)  # refuses a seed that was not trained
    policy = Policy((seed,), jax.tree.map(lambda x: x[None], actor), saved.policy.interface)
    place = saved.policy.seeds.index(seed)
    columns = ("epoch", "step", *CURVES, "solved_step")
    rows = [{name: row[name] for name in columns if name in row} for row in saved.history]
    config = dataclasses.replace(saved.config, seeds=policy.seeds)
    return saved._replace(
        record=saved.record | config.record(),
        config=config,
        policy=policy,
        networks={},
        history=[rows_of_replicas(row, slice(place, place + 1)) for row in rows],
        state=None,
    )


def write_saved_agent(
    folder: Path | str, saved: SavedAgent, provenance: Mapping[str, Any] | None = None
) -> Path:
    """Write an agent into a folder, with its state as a checkpoint if there is one.

    ``provenance`` takes the place of what is recorded of this machine and its software.
    """
    last = saved.history[-1] if saved.history else {}

    def save_state(partial: Path) -> None:
        if saved.state is not None:
            id_ = storage.run_id(saved.record)
            save_checkpoint(partial / CHECKPOINTS, saved.num_steps, *saved.state, run=id_)

    run = storage.save_run_at(
        folder,
        saved.record,
        {
            "steps": saved.num_steps,
            "final_return": last.get("eval_return"),
            "solved_step": last.get("solved_step"),
        },
        saved.networks | saved.policy.arrays() | curves(saved.history),
        device=jax.devices()[0].device_kind,
        extras={METRICS_LOG: rows_to_bytes(saved.history)},
        provenance=({ENV_CODE: saved.env_code} if saved.env_code else {}) | {**(provenance or {})},
        checkpoint=save_state,
    )
    return run.path


def read_saved_agent(
    folder: Path, typed_env: str | None = None, trust_env_module: bool = False
) -> SavedAgent:
    """Read an agent from a folder, after its checksums were verified.

    The environment of an unfinished training is opened, for its spaces: a module is imported for
    this only if the user has typed the id, or trusts the module.
    """
    if os.path.isfile(folder / TRAINING_FILE):
        with not_written_by_narl(f"folder: {folder}", "give another"):
            return _read_unfinished(folder, typed_env, trust_env_module)
    if os.path.isfile(folder):
        raise InputError(f"folder: {folder} is a file; give the folder that was saved")
    if os.path.isdir(folder) and not os.path.isfile(folder / storage.MANIFEST):
        raise InputError(
            f"folder: {folder} holds no saved agent; give one that agent.save or narl train made"
        )
    with not_written_by_narl(f"folder: {folder}", "give another"):
        return _read_finished(folder)


def _checked_config(record: dict[str, Any]) -> Config:
    """Return the recorded configuration, once its values are known to be valid."""
    config = config_from_record(record)
    check_config(config)
    return config


def _read_finished(folder: Path) -> SavedAgent:
    run = storage.load_run_at(folder)
    config, arrays = _checked_config(run.config), run.arrays()
    saved = SavedAgent(
        record=run.config,
        config=config,
        policy=policy_from(arrays, config.seeds, interface_from(arrays)),
        networks=only_networks(arrays),
        history=rows_from_bytes(run.extra(METRICS_LOG)),
        num_steps=int(run.metrics["steps"]),
        state=None,
        env_code=str(run.environment.get(ENV_CODE, "")),
    )
    if not (folder / CHECKPOINTS).is_dir():
        return saved
    try:
        checkpoint = load_checkpoint(folder / CHECKPOINTS, run=run.id_of_config)
    except InputError as error:
        _log.warning(
            "%s: its data are damaged; the policy is loaded, but cannot learn (%s)", folder, error
        )
        return saved._replace(no_state="the data that were saved are damaged; load another")
    return saved._replace(state=(checkpoint.arrays, checkpoint.notes))


def _read_unfinished(folder: Path, typed_env: str | None, trust_env_module: bool) -> SavedAgent:
    unfinished = open_unfinished_run(folder)
    if unfinished.problems and unfinished.narl == __version__:
        raise InputError(f"run {unfinished.id}: {'; '.join(unfinished.problems)}")
    config = _checked_config(unfinished.config)
    problem = "" if trust_env_module or typed_env == config.env else env_module_problem(config.env)
    if problem:
        raise InputError(problem)
    checkpoint = load_checkpoint(folder / CHECKPOINTS, run=unfinished.id)
    interface, _ = look_at_env(config)
    networks = only_networks(with_prefix(checkpoint.arrays, STATE))
    return SavedAgent(
        record=unfinished.config,
        config=config,
        policy=policy_from(networks, config.seeds, interface),
        networks=networks,
        # The log's copy in the checkpoint was verified, unlike the file itself.
        history=rows_from_bytes(checkpoint.arrays[LOG].tobytes()),
        num_steps=checkpoint.step,
        state=(checkpoint.arrays, checkpoint.notes),
        env_code=str(checkpoint.notes.get(ENV_CODE, "")),
    )
