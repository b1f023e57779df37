"""Checkpoints: everything that a training needs to go on, checked before it is believed.

A checkpoint is a folder `step-000012345` of arrays.npz (not compressed: buffers are large and
do not shrink), notes.json and manifest.json (the step, and size and SHA-256 of the other two).
It is written under a hidden name, flushed to disk and renamed, so what stands under the final
name is whole. Whoever saves holds the folder (`hold`): one process trains into it at a time.
"""

import contextlib
import fcntl
import hashlib
import json
import logging
import os
import re
import struct
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from narl.errors import InputError
from narl.files import as_json, digest, discard, flush_folder, plain, write_bytes

ARRAYS, NOTES, MANIFEST, LOCK = "arrays.npz", "notes.json", "manifest.json", ".lock"
CHUNK = 1 << 24
"""Bytes that are written and hashed at a time."""

_NAME = re.compile(r"step-(\d{9,})")
_LEAF = re.compile(r"[A-Za-z0-9_.-]+")
_PARTIAL = ".partial-"
_log = logging.getLogger("narl")


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was intact; `skipped` names the newer ones that were not, and why."""

    step: int
    arrays: dict[str, np.ndarray]
    notes: dict[str, Any]
    path: Path
    skipped: tuple[str, ...] = ()


class _Damaged(Exception):
    """Why a checkpoint cannot be used."""


def save_checkpoint(
    folder: Path,
    step: int,
    arrays: Mapping[str, np.ndarray],
    notes: Mapping[str, Any],
    keep: int = 2,
) -> Path:
    """Keep the state at `step`, then remove all but the newest `keep` intact checkpoints.

    One of the same step is replaced. An intact one of a later step is another training's:
    nothing is saved beside it, since it would be the one that is loaded. The notes are JSON
    values and finite numbers; what may be infinite or NaN belongs in the arrays.
    """
    if step < 0:
        raise InputError(f"checkpoint: step {step} given; must be at least 0")
    if keep < 1:
        raise InputError(f"checkpoint: keep {keep} given; must be at least 1")
    for name, array in arrays.items():
        _check_array(name, array)
    content = as_json(plain("notes", notes))
    _refuse_older(folder, step)
    name = f"step-{step:09d}"
    final, partial = folder / name, _hidden_name(folder / name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob(f"{_PARTIAL}*"):  # saves that were killed
            discard(left)
        partial.mkdir()
        digests = {ARRAYS: _write_npz(partial / ARRAYS, arrays), NOTES: digest(content)}
        write_bytes(partial / NOTES, content)
        write_bytes(partial / MANIFEST, as_json({"step": int(step), "files": digests}))
        flush_folder(partial)
        replaced = _hide(final)
        partial.rename(final)
        flush_folder(folder)
        discard(replaced)
    except OSError as error:
        raise OSError(error.errno, f"checkpoint {name} was not saved: {error.strerror}") from error
    finally:
        discard(partial)
    _prune(folder, final, keep)
    return final


def load_checkpoint(folder: Path) -> Checkpoint:
    """The newest intact checkpoint; newer ones that are damaged are skipped with a warning."""
    skipped: list[str] = []
    for path in _newest_first(folder):
        try:
            return replace(_read(path), skipped=tuple(skipped))
        except _Damaged as cause:
            _log.warning("checkpoint %s is damaged and not used: %s", path.name, cause)
            skipped.append(f"{path.name}: {cause}")
    found = "; ".join(skipped) or "none is there"
    raise InputError(f"checkpoint: no intact one in {folder} ({found}); train anew")


@contextlib.contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Keep other processes from training into the folder.

    The system frees the lock when the process ends, however it ends; the file stays. The
    process id in it is only for the message.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise InputError(
            f"run folder: {folder} cannot be written to ({error.strerror}); choose another"
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
            raise InputError(
                f"run folder: process {holder or '(unknown)'} is training into {folder}; "
                "wait until it ends, or stop it"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def flatten_tree(tree: Any) -> dict[str, np.ndarray]:
    """The leaves of a JAX pytree by name ("actor.0.w"); a typed random key is its key data.

    On the CPU the arrays share memory with the leaves; JAX then copies a leaf that is donated
    instead of writing into it.
    """
    import jax  # here, so that looking at checkpoints does not wait for JAX

    arrays: dict[str, np.ndarray] = {}
    for name, leaf in _leaves(tree):
        array = np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)
        _check_array(name, array)
        arrays[name] = array
    return arrays


def unflatten_tree(like: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """The tree of which `arrays` are the leaves, in the structure and on the devices of `like`.

    The leaves of `like` say what is expected: JAX arrays or `jax.ShapeDtypeStruct` become JAX
    arrays, NumPy arrays and Python numbers stay such. Names, shapes and types must all agree.
    Values are copied bit for bit; a weak type becomes a strong one.
    """
    import jax

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
    import jax

    named: dict[str, Any] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        name = jax.tree_util.keystr(path, simple=True, separator=".") or "value"
        if name in named:
            raise InputError(f"checkpoint: two leaves are called {name}; rename one")
        if not _LEAF.fullmatch(name):
            raise InputError(f"checkpoint: leaf {name!r} given; use letters, digits, _ . -")
        named[name] = leaf
    return list(named.items())


def _restore(name: str, like: Any, array: np.ndarray) -> Any:
    import jax

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
    import jax

    dtype = getattr(leaf, "dtype", None)
    return dtype is not None and jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)


def _key_impl(like: Any) -> Any:
    """The generator of typed keys, of which `like` may have only shape and type."""
    import jax

    found: list[Any] = []
    jax.eval_shape(lambda keys: found.append(jax.random.key_impl(keys)), like)
    return found[0]


def _check_array(name: str, array: np.ndarray) -> None:
    if not _LEAF.fullmatch(str(name)):
        raise InputError(f"checkpoint: array name {name!r} given; use letters, digits, _ . -")
    # isbuiltin is 2 for types that others registered, such as bfloat16: .npy would lose them
    if array.dtype.kind not in "biufc" or array.dtype.isbuiltin == 2:
        raise InputError(f"checkpoint: {name} has dtype {array.dtype}; must be NumPy's numbers")


class _Hashed:
    """A file written from front to back, hashed by another thread while the disk writes.

    It cannot seek, so that `zipfile` writes each byte once, as it will stay.
    """

    def __init__(self, file: IO[bytes], thread: ThreadPoolExecutor) -> None:
        self._file, self._thread, self._sha = file, thread, hashlib.sha256()
        self._size = 0
        self._updates: list[Future[None]] = []

    def write(self, data: Any) -> int:
        self._updates.append(self._thread.submit(self._sha.update, data))
        self._file.write(data)
        self._size += memoryview(data).nbytes
        return memoryview(data).nbytes

    def flush(self) -> None:
        self._file.flush()

    def digest(self) -> dict[str, Any]:
        for update in self._updates:
            update.result()
        return {"size": self._size, "sha256": self._sha.hexdigest()}


def _write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    with path.open("xb") as file, ThreadPoolExecutor(1) as thread:
        stream = _Hashed(file, thread)
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:  # type: ignore[call-overload]
            for name, value in arrays.items():
                array = np.asarray(value, order="C")
                header = np.lib.format.header_data_from_array_1_0(array)
                content = array.reshape(-1).view(np.uint8)
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array_header_1_0(member, header)
                    for start in range(0, content.size, CHUNK):
                        member.write(content[start : start + CHUNK].data)
        file.flush()
        os.fsync(file.fileno())
        return stream.digest()


def _read_npz(file: IO[bytes]) -> dict[str, np.ndarray]:
    """Each array under its name, read straight from its place in the archive.

    The members are not compressed and the digest is known to be right: `zipfile` would copy and
    check every byte again (and np.load confuses "x" with "x.npy").
    """
    arrays: dict[str, np.ndarray] = {}
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
    for member in members:
        file.seek(member.header_offset + 26)
        name_size, extra_size = struct.unpack("<HH", file.read(4))
        file.seek(name_size + extra_size, os.SEEK_CUR)
        array = np.lib.format.read_array(file, allow_pickle=False)
        arrays[member.filename.removesuffix(".npy")] = array
    return arrays


def _read(path: Path, verify_only: bool = False) -> Checkpoint:
    """The checkpoint at a path; nothing of it is parsed before every byte is known to be right."""
    match = _NAME.fullmatch(path.name)
    if not match or path.name != f"step-{int(match[1]):09d}":
        raise _Damaged("its name is not step- and the step in nine digits")
    step = int(match[1])
    try:
        with (path / ARRAYS).open("rb") as archive:
            notes, manifest = (path / NOTES).read_bytes(), (path / MANIFEST).read_bytes()
            sha = hashlib.file_digest(archive, "sha256").hexdigest()
            digests = {ARRAYS: {"size": archive.tell(), "sha256": sha}, NOTES: digest(notes)}
            if manifest != as_json({"step": step, "files": digests}):
                raise _Damaged(_difference(manifest, step, digests))
            if verify_only:
                return Checkpoint(step, {}, {}, path)
            return Checkpoint(step, _read_npz(archive), json.loads(notes), path)
    except OSError as error:
        name = Path(error.filename).name if error.filename else ARRAYS
        raise _Damaged(f"{name} cannot be read ({error.strerror})") from error
    except (ValueError, EOFError, struct.error, zipfile.BadZipFile) as error:
        raise _Damaged(f"{ARRAYS} cannot be read ({error})") from error


def _difference(manifest: bytes, step: int, digests: dict[str, Any]) -> str:
    try:
        recorded = dict(json.loads(manifest))
        files = dict(recorded["files"])
    except (ValueError, TypeError, KeyError):
        return f"{MANIFEST} is damaged"
    for name in digests:
        if files.get(name) != digests[name]:
            return f"{name} differs from its checksum"
    if recorded.get("step") != step:
        return f"its name does not fit its step ({recorded.get('step')})"
    return f"{MANIFEST} is damaged"


def _newest_first(folder: Path) -> list[Path]:
    """What looks like a checkpoint; names that are none come first, to be warned of."""

    def order(path: Path) -> tuple[bool, int, str]:
        match = _NAME.fullmatch(path.name)
        return match is None, int(match[1]) if match else 0, path.name

    return sorted(folder.glob("step-*"), key=order, reverse=True)


def _refuse_older(folder: Path, step: int) -> None:
    for path in _newest_first(folder):
        match = _NAME.fullmatch(path.name)
        if match and int(match[1]) > step and not _cause(path):
            raise InputError(
                f"checkpoint: step {step} given and {folder} already holds {path.name}; "
                "resume it, or choose another folder"
            )


def _cause(path: Path) -> str:
    """Why the checkpoint cannot be used; empty for an intact one."""
    try:
        _read(path, verify_only=True)
    except _Damaged as cause:
        return str(cause)
    return ""


def _hidden_name(path: Path) -> Path:
    return path.with_name(f"{_PARTIAL}{path.name}-{uuid.uuid4().hex[:8]}")


def _hide(path: Path) -> Path:
    """Move out of sight before it is deleted, so that a crash leaves no half of a checkpoint."""
    hidden = _hidden_name(path)
    with contextlib.suppress(FileNotFoundError):
        path.rename(hidden)
    return hidden


def _prune(folder: Path, newest: Path, keep: int) -> None:
    """Remove what is not among the newest `keep` that are intact; `newest` was just written."""
    intact = 1
    for path in _newest_first(folder):
        if path == newest or not _NAME.fullmatch(path.name):
            continue
        if intact < keep:
            if not (cause := _cause(path)):
                intact += 1
                continue
            _log.warning("checkpoint %s is damaged and removed: %s", path.name, cause)
        discard(_hide(path))
