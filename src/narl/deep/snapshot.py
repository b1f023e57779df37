"""The state of a training as arrays and notes, and back: the content of a checkpoint.

Only imagined transitions that can still be sampled are stored: "imagined.<replica>", oldest first.
The parameters of the replicas are not stored, because the configurations give them.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from narl.deep.algorithm import ReplicaState
from narl.deep.counters import Counters
from narl.deep.ensemble_fit import FitReport
from narl.deep.replay_buffer import Replay, row_width
from narl.deep.replicas import Replicas
from narl.deep.rollout import SelectionSums
from narl.deep.selection_diagnostics import FitDiagnostics
from narl.deep.trainer import Trainer
from narl.errors import InputError
from narl.storage.arrays import check_array

STATE = "state."
"""Prefix of the arrays of `ReplicaState` in a checkpoint."""
REPORTS: dict[str, Any] = {
    "fit": FitReport,
    "selections": SelectionSums,
    "diagnostics": FitDiagnostics,
}
_NOT_IN_OLD_REPORTS = ("optimistic_share", "optimistic_gain")
"""Diagnostics that checkpoints of earlier versions lack."""
PIECE_BYTES = 1 << 25
"""Bytes that are fetched from the device at a time."""
_NO_ROWS: Any = np.zeros(0, np.float32)
"""Placeholder for the imagined rows, which are stored by themselves."""
_NO_PARAMS: Any = None
"""Placeholder for the parameters, which are not stored."""
_log = logging.getLogger("narl")

State = tuple[dict[str, np.ndarray], dict[str, Any]]
"""Arrays and notes of a checkpoint."""


class Snapshot(NamedTuple):
    """Everything that a training needs to go on from a moment, bit for bit."""

    notes: dict[str, Any]
    size: int
    """Bytes of the arrays, at most."""
    arrays: Callable[[], dict[str, np.ndarray]]
    """Returns the arrays; another thread may call it while the training goes on."""


def take_snapshot(trainer: Trainer) -> Snapshot:
    """Return the present state of a training.

    An accelerator copies its state, where it has room for that, and the arrays are fetched from the
    copy when they are asked for; otherwise they are fetched now.
    """
    replicas, state = trainer.replicas, trainer.state()
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(state))
    counters = dataclasses.asdict(trainer.counters)
    reports = {name: report._asdict() for name, report in trainer.counters.reports.items()}
    env_states = trainer.envs.capture()
    env_arrays = {
        f"env.{i}.{name}": array
        for i, env_state in enumerate(env_states)
        for name, array in env_state["arrays"].items()
    }
    notes = {
        "counters": counters | {"reports": sorted(reports)},
        "envs": [env_state["json"] for env_state in env_states],
    }
    copies = replicas.batched and _device_has_room(size)
    kept_state = _copy(state) if copies else state

    def arrays() -> dict[str, np.ndarray]:
        return _arrays_of(replicas, kept_state, reports) | env_arrays

    if copies:
        return Snapshot(notes, size, arrays)
    fetched = arrays()
    return Snapshot(notes, size, lambda: fetched)


def capture(trainer: Trainer) -> State:
    """Return arrays and notes of the present state of a training."""
    snapshot = take_snapshot(trainer)
    return snapshot.arrays(), snapshot.notes


def _arrays_of(replicas: Replicas, state: Any, reports: Any) -> dict[str, np.ndarray]:
    host_state = _without_rows(replicas, state)
    sizes = np.asarray(host_state.model.size)
    largest = int(sizes.max())
    rows = replicas.to_host(state, lambda replica: newest_rows(replica.model, largest))
    tree = {STATE[:-1]: host_state, "reports": reports}
    arrays = {name: _owned(array) for name, array in flatten_tree(tree).items()}
    for i, size in enumerate(sizes):
        arrays[f"imagined.{i}"] = rows[i, largest - size :]
    return arrays


@jax.jit
def _copy(state: Any) -> Any:
    """Return a copy that stays when the state itself is donated to a program."""
    return jax.tree.map(jnp.copy, state)


def _device_has_room(size: int) -> bool:
    """Return whether the peak use of the device's memory leaves room for this many bytes."""
    stats = jax.devices()[0].memory_stats() or {}
    fullest = stats.get("peak_bytes_in_use", stats.get("bytes_in_use", 0))
    return stats.get("bytes_limit", math.inf) - fullest > 1.1 * size


def _without_rows(replicas: Replicas, state: Any) -> ReplicaState:
    """Return the state as NumPy arrays, without the imagined rows and the parameters."""

    def without(replica: ReplicaState) -> ReplicaState:
        return replica._replace(params=_NO_PARAMS, model=replica.model._replace(rows=_NO_ROWS))

    return without(replicas.to_host(state, without))


def _owned(array: np.ndarray) -> np.ndarray:
    """Return the array, or a copy where its memory is JAX's, which may use it again."""
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    return array if root.flags.owndata else array.copy()


def restore(
    trainer: Trainer,
    arrays: Mapping[str, np.ndarray],
    notes: Mapping[str, Any],
    inactive: Collection[int] = (),
) -> None:
    """Bring a fresh training to the state in which `capture` was called.

    Where an environment cannot be brought there, its replica begins a new episode, with a warning.
    Environments of replicas that are to be ``inactive`` are left alone.
    """
    if "counters" not in notes:
        raise InputError("checkpoint: it is of another version of narl; train again")
    counters = dict(notes["counters"])
    reports = {name: _report(name, arrays) for name in counters.pop("reports")}
    trainer.counters = Counters(**counters, reports=reports)
    like = _without_rows(trainer.replicas, trainer.state())
    stored = with_prefix(arrays, STATE).items()
    # Checkpoints of earlier versions hold the parameters too.
    state = unflatten_tree(like, {name: x for name, x in stored if not name.startswith("params.")})
    imagined = [arrays[f"imagined.{i}"] for i in range(len(trainer.seeds))]
    dims = trainer.algorithm.obs_dim, trainer.algorithm.action_dim
    width = row_width(*dims, trainer.config.num_stored_candidates)
    rows = put_rows(
        np.asarray(state.model.num_added), imagined, (trainer.config.model_capacity, width)
    )
    obs = _restore_environments(trainer, arrays, notes, inactive, np.array(state.obs))
    # The index among the parameters that says how to select depends on the device and on the
    # algorithms that are registered in this process.
    params = trainer.replicas.to_host(trainer.state(), lambda replica: replica.params)
    model = state.model._replace(rows=rows)
    trainer.from_host(state._replace(params=params, obs=obs, model=model))


def _restore_environments(
    trainer: Trainer,
    arrays: Mapping[str, np.ndarray],
    notes: Mapping[str, Any],
    inactive: Collection[int],
    obs: Float[np.ndarray, "N D"],
) -> Float[np.ndarray, "N D"]:
    """Restore the environments and return the observation on which each of them waits.

    A new episode begins with a seed of this step; its first action is the one that was drawn for
    the old episode.
    """
    lost = []
    envs = trainer.envs
    for i, env_json in enumerate(notes["envs"]):
        if i in inactive:
            continue
        if not envs.restore(i, {"json": env_json, "arrays": with_prefix(arrays, f"env.{i}.")}):
            lost.append(i)
            trainer.counters.episode_return[i] = 0.0
            obs[i] = envs.abandon_episode(i, trainer.counters.step)
    if lost:
        seeds = ", ".join(str(trainer.seeds[i]) for i in lost)
        _log.warning(
            "%s (seed%s %s): the same seed and actions did not lead to the same episode; a new "
            "one begins, and what follows differs from a training that was not stopped",
            envs.example.name,
            "s" if len(lost) > 1 else "",
            seeds,
        )
    return obs


def _report(name: str, arrays: Mapping[str, np.ndarray]) -> Any:
    kind, stored = REPORTS[name], with_prefix(arrays, f"reports.{name}.")
    if name == "diagnostics":
        unknown = np.full_like(stored["disagreement"], np.nan)
        stored = dict.fromkeys(_NOT_IN_OLD_REPORTS, unknown) | stored
    return kind(**{field: stored[field] for field in kind._fields})


# --- rings of imagined transitions ------------------------------------------------------------


def newest_rows(replay: Replay, num: int) -> Float[np.ndarray, "... K W"]:
    """Return the newest ``num`` rows of one ring or of many, the oldest of them first.

    An accelerator gathers them piece by piece, so that only these rows are fetched and little
    memory is needed beside the rings. A ring with fewer rows is filled up with others before them.
    """
    if all(device.platform == "cpu" for device in replay.rows.devices()):
        return _rows_on_host(np.asarray(replay.rows), np.asarray(replay.num_added), num)
    return _rows_in_pieces(replay, num)


def _rows_on_host(
    rows: Float[np.ndarray, "... C W"], num_added: Any, num: int
) -> Float[np.ndarray, "... K W"]:
    """Return the rows as one stretch of the ring, or two where they pass its end."""
    if rows.ndim == 3:
        rings = zip(rows, num_added, strict=True)
        return np.stack([_rows_on_host(*ring, num) for ring in rings])
    begin = (int(num_added) - num) % rows.shape[0]
    first = rows[begin : begin + num]
    return np.concatenate([first, rows[: num - len(first)]])


def _rows_in_pieces(replay: Replay, num: int) -> Float[np.ndarray, "... K W"]:
    *leading, capacity, width = replay.rows.shape
    rows = np.empty((*leading, num, width), replay.rows.dtype)
    # One length for all pieces, whatever their number: nothing is compiled again.
    row_bytes = math.prod((*leading, width)) * rows.itemsize
    length = max(1, min(capacity, PIECE_BYTES // row_bytes))
    for begin in range(0, num, length):
        piece = np.asarray(_gather(replay.rows, replay.num_added - num + begin, length))
        rows[..., begin : begin + length, :] = piece[..., : num - begin, :]
    return rows


@functools.partial(jax.jit, static_argnames="length")
def _gather(
    rows: Float[Array, "... C W"], first: Int[Array, "..."], length: int
) -> Float[Array, "... K W"]:
    """Return ``length`` rows of each ring, from ``first`` on."""
    if rows.ndim == 3:
        return jax.vmap(lambda *ring: _gather(*ring, length))(rows, first)
    return rows[(first + jnp.arange(length)) % rows.shape[0]]


def put_rows(
    num_added: Int[np.ndarray, " N"],
    newest: Sequence[Float[np.ndarray, "_ W"]],
    shape: tuple[int, int],
) -> Float[np.ndarray, "N C W"]:
    """Return rings of a shape that hold the newest rows in their places, and 0 elsewhere."""
    capacity, width = shape
    rings = np.zeros((len(newest), *shape), np.float32)
    for i, rows in enumerate(newest):
        size = rows.shape[0]
        if size > capacity or rows.shape[1:] != (width,):
            raise InputError(
                f"checkpoint: imagined.{i} has shape {rows.shape}; the same configuration is needed"
            )
        rings[i, (int(num_added[i]) - size + np.arange(size)) % capacity] = rows
    return rings


# --- trees of arrays --------------------------------------------------------------------------


def with_prefix(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """Return the arrays whose name has the prefix, under the rest of the name."""
    named = ((name, array) for name, array in arrays.items() if name.startswith(prefix))
    return {name.removeprefix(prefix): array for name, array in named}


def flatten_tree(tree: Any) -> dict[str, np.ndarray]:
    """Return the leaves of a pytree of arrays by name, such as "actor.0.w".

    On the CPU the arrays share memory with the leaves; JAX then copies a leaf that is donated
    instead of writing into it.
    """
    arrays = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        arrays[name] = np.asarray(leaf)
        check_array(name, arrays[name])
    return arrays


def unflatten_tree(like: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """Return a pytree with the structure of ``like`` and these leaves.

    Names, shapes and types must all agree with the leaves of ``like``.
    """
    expected = flatten_tree(like)
    if names := sorted(expected.keys() ^ arrays.keys()):
        problem = "is missing" if names[0] in expected else "is not expected"
        raise InputError(f"checkpoint: {names[0]} {problem}; the same configuration is needed")
    for name, leaf in expected.items():
        array = arrays[name]
        if (array.shape, array.dtype) != (leaf.shape, leaf.dtype):
            raise InputError(
                f"checkpoint: {name} is {array.dtype} {array.shape}, expected {leaf.dtype} "
                f"{leaf.shape}; the same configuration is needed"
            )
    # Copies: JAX may keep the memory that it is given.
    leaves = [arrays[name].copy() for name in expected]
    return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(like), leaves)
