"""A training as arrays and notes, and back: what a checkpoint holds.

Of the imagined transitions only those that count are kept, "imagined.<lane>", the oldest first.
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

from narl.deep.algorithm import Learner
from narl.deep.counters import Books
from narl.deep.ensemble_fit import FitReport
from narl.deep.replay_buffer import Replay, row_width
from narl.deep.replicas import Lanes
from narl.deep.rollout import Selections
from narl.deep.trainer import Training
from narl.errors import InputError
from narl.storage.checkpoints import LEAF, check_array

REPORTS: dict[str, Any] = {"fit": FitReport, "selections": Selections}
PIECE = 1 << 25
"""Bytes that are fetched from the device at a time."""
_NO_ROWS: Any = np.zeros(0, np.float32)
"""Stands for the imagined rows, which are stored by themselves."""
_log = logging.getLogger("narl")


class Snapshot(NamedTuple):
    """Everything that a training needs to go on from a moment, bit for bit."""

    notes: dict[str, Any]
    size: int
    """Bytes of the arrays, at most."""
    arrays: Callable[[], dict[str, np.ndarray]]
    """They have memory of their own; another thread may ask for them while the training goes on."""


def snapshot(training: Training) -> Snapshot:
    """The present moment.

    An accelerator copies its state, where it has room for that, and the arrays are fetched from the
    copy when they are asked for; otherwise they are fetched now.
    """
    runner, state = training.runner, training.state
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(state))
    reports = {k: v._asdict() for k, v in training.books.reports.items()}
    of_envs: dict[str, np.ndarray] = {}
    captured = []
    for i, env in enumerate(training.envs):
        kept = env.capture()
        captured.append(kept["json"])
        of_envs |= {f"env.{i}.{name}": array for name, array in kept["arrays"].items()}
    books = dataclasses.asdict(training.books)
    books["reports"] = sorted(training.books.reports)
    notes = {"books": books, "envs": captured}
    later = runner.batched and _has_room(size)
    kept_state = _copied(state) if later else state

    def arrays() -> dict[str, np.ndarray]:
        return _arrays_of(runner, kept_state, reports) | of_envs

    if later:
        return Snapshot(notes, size, arrays)
    made = arrays()
    return Snapshot(notes, size, lambda: made)


def capture(training: Training) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and notes of this moment."""
    taken = snapshot(training)
    return taken.arrays(), taken.notes


def _arrays_of(runner: Lanes, state: Any, reports: Any) -> dict[str, np.ndarray]:
    learner = _without_rows(runner, state)
    sizes = np.asarray(learner.model.size)
    most = int(sizes.max())
    rows = runner.export(state, lambda one: newest_rows(one.model, most))
    tree = {"learner": learner, "reports": reports}
    arrays = {name: _owned(array) for name, array in flatten_tree(tree).items()}
    for i, size in enumerate(sizes):
        arrays[f"imagined.{i}"] = rows[i, most - size :]
    return arrays


@jax.jit
def _copied(state: Any) -> Any:
    """A state that stays, whatever becomes of this one."""
    return jax.tree.map(jnp.copy, state)


def _has_room(size: int) -> bool:
    """Whether the device could have held so many bytes more, and some, at its fullest."""
    stats = jax.devices()[0].memory_stats() or {}
    fullest = stats.get("peak_bytes_in_use", stats.get("bytes_in_use", 0))
    return stats.get("bytes_limit", math.inf) - fullest > 1.1 * size


def _without_rows(runner: Lanes, state: Any) -> Learner:
    """The state as NumPy arrays, but for the imagined rows."""

    def part(learner: Learner) -> Learner:
        return learner._replace(model=learner.model._replace(rows=_NO_ROWS))

    return part(runner.export(state, part))


def _owned(array: np.ndarray) -> np.ndarray:
    """The array, or a copy where its memory is not NumPy's: JAX may use that again."""
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    return array if root.flags.owndata else array.copy()


def reinstate(
    training: Training,
    arrays: Mapping[str, np.ndarray],
    notes: Mapping[str, Any],
    retired: Collection[int] = (),
) -> None:
    """Brings a fresh training to where `capture` was called.

    Where an environment cannot be brought there, its lane begins a new episode, with a warning.
    Those of lanes that are to be ``retired`` are left alone.
    """
    kept = dict(notes["books"])
    reports = {name: _report(name, arrays) for name in kept.pop("reports")}
    own = {
        name.removeprefix("learner."): array
        for name, array in arrays.items()
        if name.startswith("learner.")
    }
    learner = unflatten_tree(_without_rows(training.runner, training.state), own)
    imagined = [arrays[f"imagined.{i}"] for i in range(len(training.specs))]
    programs = training.programs
    shape = (training.settings.model_capacity, row_width(programs.obs_dim, programs.action_dim))
    rows = put_back(np.asarray(learner.model.num_added), imagined, shape)
    training.restore(learner._replace(model=learner.model._replace(rows=rows)))
    training.books = Books(**kept, reports=reports)
    training.books.seconds = Books().seconds | training.books.seconds
    lost = []
    for i, (env, state) in enumerate(zip(training.envs, notes["envs"], strict=True)):
        if i in retired:
            continue
        mine = f"env.{i}."
        own = {k.removeprefix(mine): v for k, v in arrays.items() if k.startswith(mine)}
        if not env.restore({"json": state, "arrays": own}):
            lost.append(i)
    if lost:
        _warn_of_new_episodes(training, lost)
        training.cut_episodes(lost)


def _report(name: str, arrays: Mapping[str, np.ndarray]) -> Any:
    kind = REPORTS[name]
    return kind(**{field: arrays[f"reports.{name}.{field}"] for field in kind._fields})


def newest_rows(replay: Replay, num: int) -> Float[np.ndarray, "... K W"]:
    """The newest ``num`` rows of one ring or of many, the oldest of them first.

    An accelerator gathers them, a piece at a time, so that only they are fetched and little memory
    is needed beside the rings. A ring that has fewer is filled up with others before them.
    """
    if all(device.platform == "cpu" for device in replay.rows.devices()):
        return _rows_on_host(np.asarray(replay.rows), np.asarray(replay.num_added), num)
    return _rows_in_pieces(replay, num)


def _rows_on_host(
    rows: Float[np.ndarray, "... C W"], num_added: Any, num: int
) -> Float[np.ndarray, "... K W"]:
    """As they lie there: one stretch, or two where the ring comes round."""
    if rows.ndim == 3:
        both = zip(rows, num_added, strict=True)
        return np.stack([_rows_on_host(*one, num) for one in both])
    begin = (int(num_added) - num) % rows.shape[0]
    first = rows[begin : begin + num]
    return np.concatenate([first, rows[: num - len(first)]])


def _rows_in_pieces(replay: Replay, num: int) -> Float[np.ndarray, "... K W"]:
    *lanes, capacity, width = replay.rows.shape
    found = np.empty((*lanes, num, width), replay.rows.dtype)
    # One length for all pieces, whatever their number: nothing is compiled again.
    length = max(1, min(capacity, PIECE // (math.prod((*lanes, width)) * found.itemsize)))
    for begin in range(0, num, length):
        first = replay.num_added - num + begin
        piece = np.asarray(_gather(replay.rows, first, length))
        found[..., begin : begin + length, :] = piece[..., : num - begin, :]
    return found


@functools.partial(jax.jit, static_argnames="length")
def _gather(
    rows: Float[Array, "... C W"], first: Int[Array, "..."], length: int
) -> Float[Array, "... K W"]:
    """Rows of rings from ``first`` on."""
    if rows.ndim == 3:
        return jax.vmap(lambda *one: _gather(*one, length))(rows, first)
    return rows[(first + jnp.arange(length)) % rows.shape[0]]


def put_back(
    num_added: Int[np.ndarray, " N"],
    newest: Sequence[Float[np.ndarray, "_ W"]],
    shape: tuple[int, int],
) -> Float[np.ndarray, "N C W"]:
    """Rings of a shape with those rows where they were; what does not count is 0."""
    capacity, width = shape
    rings = np.zeros((len(newest), *shape), np.float32)
    for i, rows in enumerate(newest):
        size = rows.shape[0]
        if size > capacity or rows.shape[1:] != (width,):
            raise InputError(
                f"checkpoint: imagined.{i} has shape {rows.shape}; same settings needed"
            )
        rings[i, (int(num_added[i]) - size + np.arange(size)) % capacity] = rows
    return rings


def _warn_of_new_episodes(training: Training, lanes: Sequence[int]) -> None:
    seeds = ", ".join(str(training.envs[i].seed) for i in lanes)
    _log.warning(
        "%s (seed%s %s): the same seed and actions did not lead to the same episode; a new one "
        "begins, and what follows differs from a training that was not stopped",
        training.envs[lanes[0]].name,
        "s" if len(lanes) > 1 else "",
        seeds,
    )


def same_bits(a: Any, b: Any) -> bool:
    """Whether two states are equal to the last bit, NaN included."""
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(np.asarray(x).tobytes() == np.asarray(y).tobytes() for x, y in pairs)


# --- trees ----------------------------------------------------------------------------------


def flatten_tree(tree: Any) -> dict[str, np.ndarray]:
    """The leaves of a JAX pytree by name ("actor.0.w"); a typed random key is its key data.

    On the CPU the arrays share memory with the leaves; JAX then copies a leaf that is donated
    instead of writing into it.
    """
    arrays: dict[str, np.ndarray] = {}
    for name, leaf in _leaves(tree):
        array = np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)
        check_array(name, array)
        arrays[name] = array
    return arrays


def unflatten_tree(like: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """The tree of which `arrays` are the leaves, in the structure and on the devices of `like`.

    The leaves of `like` say what is expected: JAX arrays or `jax.ShapeDtypeStruct` become JAX
    arrays, NumPy arrays and Python numbers stay such. Names, shapes and types must all agree.
    Values are copied bit for bit; a weak type becomes a strong one.
    """
    wanted = _leaves(like)
    if spare := sorted(set(arrays) - {name for name, _ in wanted}):
        raise InputError(f"checkpoint: {spare[0]} is in it and not expected; same settings needed")
    leaves = []
    for name, leaf in wanted:
        if name not in arrays:
            raise InputError(f"checkpoint: {name} is missing; same settings needed")
        leaves.append(_restore(name, leaf, arrays[name]))
    return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(like), leaves)


def _leaves(tree: Any) -> list[tuple[str, Any]]:
    named: dict[str, Any] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        name = jax.tree_util.keystr(path, simple=True, separator=".") or "value"
        if name in named:
            raise InputError(f"checkpoint: two leaves are called {name}; rename one")
        if not LEAF.fullmatch(name):
            raise InputError(f"checkpoint: leaf {name!r} given; use letters, digits, _ . -")
        named[name] = leaf
    return list(named.items())


def _restore(name: str, like: Any, array: np.ndarray) -> Any:
    if _is_key(like):
        data = _restore(name, jax.eval_shape(jax.random.key_data, like), array)
        keys = jax.random.wrap_key_data(data, impl=_key_impl(like))
        return jax.device_put(keys, like.sharding) if getattr(like, "committed", False) else keys
    scalar = isinstance(like, bool | int | float | complex)
    expected = np.asarray(like) if scalar else like
    for field in ("shape", "dtype"):
        found, right = getattr(array, field), getattr(expected, field)
        if found != right:
            raise InputError(f"checkpoint: {name} has {field} {found}; expected {right}")
    if scalar:
        return type(like)(array.item())
    if isinstance(like, np.ndarray | np.generic):
        return array.copy()[()] if isinstance(like, np.generic) else array.copy()
    device = like.sharding if getattr(like, "committed", False) else None
    leaf = jax.device_put(array.copy(), device)  # JAX may keep the memory it is given
    if leaf.dtype != array.dtype:
        raise InputError(f"checkpoint: {name} has dtype {array.dtype}; needs jax_enable_x64")
    return leaf


def _is_key(leaf: Any) -> bool:
    dtype = getattr(leaf, "dtype", None)
    return dtype is not None and jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)


def _key_impl(like: Any) -> Any:
    """The generator of typed keys, of which `like` may have only shape and type."""
    found: list[Any] = []
    jax.eval_shape(lambda keys: found.append(jax.random.key_impl(keys)), like)
    return found[0]
