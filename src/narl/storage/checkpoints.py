"""Checkpoints: everything that a training needs to go on, checked before it is believed.

A checkpoint is a folder `step-000012345` of arrays.npz (not compressed: buffers are large and
do not shrink), notes.json and manifest.json (the step, and size and SHA-256 of all others). Large
arrays have files of their own, arrays-1.npz and so on, which are hashed side by side. The folder is
written under a hidden name, flushed to disk and renamed, so what stands under the final name is
whole. Whoever saves holds the folder (see `narl.storage.lock`).
"""

import contextlib
import hashlib
import json
import logging
import os
import re
import struct
import time
import uuid
import zipfile
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from io import BufferedReader
from pathlib import Path
from typing import IO, Any

import numpy as np

from narl.errors import InputError
from narl.storage.folder import (
    checksum,
    flush_folder,
    json_bytes,
    remove_tree,
    to_json_values,
    write_new_file,
)

ARRAYS, NOTES, MANIFEST = "arrays.npz", "notes.json", "manifest.json"
CHUNK = 1 << 24
"""Bytes that are written and hashed at a time."""
LARGE = 1 << 26
"""Bytes from which on an array has a file of its own."""
BACKGROUND = 1 << 28
"""Bytes from which on a checkpoint is written while the training goes on."""

_NAME = re.compile(r"step-(\d{9,})")
LEAF = re.compile(r"[A-Za-z0-9_.-]+")
_FILE = re.compile(r"arrays(-[1-9]\d*)?\.npz")
_PARTIAL = ".partial-"
_log = logging.getLogger("narl")
Arrays = Mapping[str, np.ndarray] | Callable[[], Mapping[str, np.ndarray]]


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
    known: Collection[Path] = (),
) -> Path:
    """Keep the state at `step`, then remove all but the newest `keep` intact checkpoints.

    One of the same step is replaced. An intact one of a later step is another training's:
    nothing is saved beside it, since it would be the one that is loaded. Those that are `known`
    to be intact are not read for it. The notes are JSON values; NaN belongs in the arrays.
    """
    if step < 0:
        raise InputError(f"checkpoint: step {step} given; must be at least 0")
    if keep < 1:
        raise InputError(f"checkpoint: keep {keep} given; must be at least 1")
    for name, array in arrays.items():
        check_array(name, array)
    content = json_bytes(to_json_values("notes", notes))
    _refuse_older(folder, step)
    name = f"step-{step:09d}"
    final, partial = folder / name, _hidden_name(folder / name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.glob(f"{_PARTIAL}*"):  # saves that were killed
            remove_tree(left)
        partial.mkdir()
        digests = {**_write_arrays(partial, arrays), NOTES: checksum(content)}
        write_new_file(partial / NOTES, content)
        write_new_file(partial / MANIFEST, json_bytes({"step": int(step), "files": digests}))
        flush_folder(partial)
        replaced = _hide(final)
        partial.rename(final)
        flush_folder(folder)
        remove_tree(replaced)
    except OSError as error:
        raise OSError(error.errno, f"checkpoint {name} was not saved: {error.strerror}") from error
    finally:
        remove_tree(partial)
    _prune(folder, {final, *known}, keep)
    return final


def load_checkpoint(folder: Path, otherwise: str = "train anew") -> Checkpoint:
    """The newest intact checkpoint; newer ones that are damaged are skipped with a warning.

    Where there is none, the error says what to do ``otherwise``.
    """
    skipped: list[str] = []
    for path in _newest_first(folder):
        try:
            return replace(_read(path), skipped=tuple(skipped))
        except _Damaged as cause:
            _log.warning("checkpoint %s is damaged and not used: %s", path.name, cause)
            skipped.append(f"{path.name}: {cause}")
    found = "; ".join(skipped) or "none is there"
    raise InputError(f"checkpoint: no intact one in {folder} ({found}); {otherwise}")


def damage_of(folder: Path) -> list[str]:
    """Why none of the checkpoints can be used; empty where one can, or none is there.

    Large ones, which take long to read, are believed until they are loaded.
    """
    causes: list[str] = []
    for path in _newest_first(folder):
        if sum(file.stat().st_size for file in path.glob("*")) >= BACKGROUND:
            return []
        if not (cause := _cause(path)):
            return []
        causes.append(f"{path.name}: {cause}")
    return causes


class Checkpoints:
    """The checkpoints of one training; a large one is written while the training goes on."""

    def __init__(self, folder: Path, keep: int = 2) -> None:
        self.folder, self.keep = folder, keep
        self.last = self.kept = 0
        """The steps of the newest one, and of the newest one that is on disk."""
        self.seconds = 0.0
        """What the last one took, in the background or not."""
        self._known: set[Path] = set()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="narl-checkpoint")
        self._writing: Future[Path] | None = None

    def load(self) -> Checkpoint:
        """The newest that is intact."""
        found = load_checkpoint(self.folder, "begin anew with --fresh")
        self._known.add(found.path)
        self.last = self.kept = found.step
        return found

    def save(self, step: int, arrays: Arrays, notes: Mapping[str, Any], size: int) -> None:
        """Keeps `size` bytes, into which nobody may write now; a function is called later."""
        self.wait()
        self.last = step
        self._writing = self._writer.submit(self._write, step, arrays, notes)
        if size < BACKGROUND:
            self.wait()

    def _write(self, step: int, arrays: Arrays, notes: Any) -> Path:
        begin, known = time.perf_counter(), frozenset(self._known)
        arrays = arrays() if callable(arrays) else arrays
        path = save_checkpoint(self.folder, step, arrays, notes, self.keep, known)
        self.seconds = time.perf_counter() - begin
        return path

    def check(self) -> None:
        """Raises what went wrong in the background."""
        if self._writing is not None and self._writing.done():
            self.wait()

    def wait(self) -> None:
        """Until everything is on disk; raises what went wrong."""
        if (writing := self._writing) is not None:
            wait([writing])  # interrupted here, it is still being written
            self._writing = None
            self._known.add(writing.result())
            self.kept = self.last

    def close(self) -> None:
        """Waits too. What goes wrong here is only said: something else has ended the training."""
        try:
            self.wait()
        except Exception as error:
            _log.warning("%s", error)
        self._writer.shutdown()


def check_array(name: str, array: np.ndarray) -> None:
    """Refuses what a checkpoint cannot hold."""
    if not LEAF.fullmatch(str(name)):
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


def _write_arrays(folder: Path, arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Writes the files of arrays, a thread for each; returns size and SHA-256 of each."""
    large = [name for name, array in arrays.items() if array.nbytes >= LARGE]
    files = {ARRAYS: {name: arrays[name] for name in arrays if name not in large}}
    files |= {f"arrays-{i}.npz": {name: arrays[name]} for i, name in enumerate(large, start=1)}
    with ThreadPoolExecutor(min(len(files), os.cpu_count() or 1)) as threads:
        digests = threads.map(lambda name: _write_npz(folder / name, files[name]), files)
        return dict(zip(files, digests, strict=True))


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
        if hasattr(os, "posix_fadvise"):  # not read again soon: the next file may have its memory
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
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
        notes, manifest = (path / NOTES).read_bytes(), (path / MANIFEST).read_bytes()
        with contextlib.ExitStack() as opened:
            files = {
                name: opened.enter_context((path / name).open("rb")) for name in _listed(manifest)
            }
            threads = opened.enter_context(ThreadPoolExecutor(min(len(files), os.cpu_count() or 1)))
            digests = dict(zip(files, threads.map(_digest_file, files.values()), strict=True))
            digests[NOTES] = checksum(notes)
            if manifest != json_bytes({"step": step, "files": digests}):
                raise _Damaged(_difference(manifest, step, digests))
            if verify_only:
                return Checkpoint(step, {}, {}, path)
            arrays: dict[str, np.ndarray] = {}
            for part in threads.map(_read_npz, files.values()):
                arrays |= part
            return Checkpoint(step, arrays, json.loads(notes), path)
    except OSError as error:
        name = Path(error.filename).name if error.filename else ARRAYS
        raise _Damaged(f"{name} cannot be read ({error.strerror})") from error
    except (ValueError, EOFError, struct.error, zipfile.BadZipFile) as error:
        raise _Damaged(f"{ARRAYS} cannot be read ({error})") from error


def _listed(manifest: bytes) -> list[str]:
    """The files of arrays that a manifest names."""
    try:
        names = [name for name in dict(dict(json.loads(manifest))["files"]) if name != NOTES]
        named = ARRAYS in names and all(_FILE.fullmatch(name) for name in names)
    except (ValueError, TypeError, KeyError):
        named = False
    if not named:
        raise _Damaged(f"{MANIFEST} is damaged")
    return names


def _digest_file(file: BufferedReader) -> dict[str, Any]:
    sha = hashlib.file_digest(file, "sha256").hexdigest()
    return {"size": file.tell(), "sha256": sha}


def _difference(manifest: bytes, step: int, digests: dict[str, Any]) -> str:
    recorded = dict(json.loads(manifest))
    for name in digests:
        if dict(recorded["files"]).get(name) != digests[name]:
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


def _prune(folder: Path, known: Collection[Path], keep: int) -> None:
    """Remove what is not among the newest `keep` that are intact, as `known` are."""
    intact = 0
    for path in _newest_first(folder):
        if not _NAME.fullmatch(path.name):
            continue
        if intact < keep:
            if path in known or not (cause := _cause(path)):
                intact += 1
                continue
            _log.warning("checkpoint %s is damaged and removed: %s", path.name, cause)
        remove_tree(_hide(path))
