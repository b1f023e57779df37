"""Atomic writes, manifests and locks of files and folders.

A file or folder is written under a hidden name beside its final one, flushed to disk and renamed,
so that it is complete under its final name. A folder has a manifest: the size and SHA-256 of every
other file.
"""

import contextlib
import errno
import fcntl
import hashlib
import json
import math
import os
import shutil
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

from narl.errors import InputError

MANIFEST, LOCK = "manifest.json", ".lock"
_PARTIAL = ".partial-"
Digest = dict[str, Any]
"""Size and SHA-256 of a file."""


# --- files ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def partial_file(path: Path) -> Iterator[Path]:
    """Yield a hidden path of the same suffix to write to; rename it to `path` at the end.

    Folders above `path` are created. After an error nothing is left and `path` is as before.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = _partial_path(path)
    try:
        yield partial
        _flush(partial)
        partial.replace(path)
        _flush(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def write_file(path: Path, content: bytes) -> None:
    """Write or replace a file, completely or not at all."""
    with partial_file(path) as partial:
        partial.write_bytes(content)


def create_file(path: Path, content: bytes) -> Digest:
    """Write a new file to disk, for `write_folder`, and return its digest."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return checksum(content)


def checksum(content: bytes) -> Digest:
    """Return the size and SHA-256 of a file's content."""
    return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def check_writable(field: str, folder: Path, advice: str) -> None:
    """Raise an error that names the field if a folder cannot be created or written to."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        raise InputError(f"{field}: {folder} is not a folder; {advice}")
    probe = _partial_path(folder / "probe")
    try:  # permissions alone do not tell: the file system may refuse, also to root
        probe.mkdir()
        probe.rmdir()
    except OSError:
        raise InputError(f"{field}: {folder} is not writable; {advice}") from None


def _partial_path(path: Path) -> Path:
    return path.with_name(f"{_PARTIAL}{uuid.uuid4().hex}{path.suffix}")


def _flush(path: Path) -> None:
    """Write a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- folders --------------------------------------------------------------------------------------


def _replace_always(existing: Path) -> bool:
    return False


def write_folder(
    final: Path,
    write: Callable[[Path], Mapping[str, Digest]],
    fields: Mapping[str, Any] | None = None,
    keep: Callable[[Path], bool] = _replace_always,
) -> None:
    """Write a folder and its manifest, completely or not at all.

    `write` creates the files in the folder that it is called with and returns their digests;
    `fields` are further entries of the manifest. A folder that exists already is replaced, unless
    `keep` is true for its path. Several processes may write the same folder at once.
    """
    final.parent.mkdir(parents=True, exist_ok=True)
    partial = _partial_path(final)
    try:
        partial.mkdir()
        digests = dict(write(partial))
        create_file(partial / MANIFEST, json_bytes({**(fields or {}), "files": digests}))
        _flush(partial)
        publish_folder(partial, final, keep)
    finally:
        remove_tree(partial)


def publish_folder(
    folder: Path, final: Path, keep: Callable[[Path], bool] = _replace_always
) -> None:
    """Rename a complete folder to its final name, in place of another unless `keep` is true."""
    replaced: list[Path] = []
    while True:
        try:
            folder.rename(final)
            break
        except OSError as error:
            occupied = error.errno in (errno.EEXIST, errno.ENOTEMPTY) or final.is_symlink()
            if not occupied:
                raise
        if keep(final):
            break
        hidden = _partial_path(final)
        with contextlib.suppress(FileNotFoundError):  # another process may have moved it first
            final.rename(hidden)
            replaced.append(hidden)
    _flush(final.parent)
    for hidden in replaced:
        remove_tree(hidden)


def remove_folder(path: Path) -> None:
    """Hide a folder, then delete it, so that a crash leaves no half of it under its name."""
    hidden = _partial_path(path)
    with contextlib.suppress(FileNotFoundError):
        path.rename(hidden)
    remove_tree(hidden)


def remove_tree(path: Path) -> None:
    """Delete a folder, a link or a file, as far as that is possible."""
    if path.is_symlink() or path.is_file():
        path.unlink(missing_ok=True)
    else:
        shutil.rmtree(path, ignore_errors=True)


def clear_folder(folder: Path) -> None:
    """Delete everything in a folder except its lock."""
    for path in folder.iterdir():
        if path.name != LOCK:
            remove_tree(path)


def remove_partials(folder: Path, min_age: float = -math.inf) -> None:
    """Delete what killed writers left in a folder, if it is at least `min_age` seconds old."""
    for path in folder.glob(f"{_PARTIAL}*"):
        with contextlib.suppress(OSError):  # the writer may have finished meanwhile
            if time.time() - path.stat().st_mtime >= min_age:
                remove_tree(path)


@dataclass(frozen=True)
class OpenFolder:
    """The readable files of a folder; `problems` is empty if they agree with the manifest."""

    files: dict[str, BufferedReader]
    problems: tuple[str, ...]

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        self.files[name].seek(0)
        return self.files[name].read()


@contextlib.contextmanager
def open_folder(
    folder: Path, required: Collection[str], fields: Mapping[str, Any] | None = None
) -> Iterator[OpenFolder]:
    """Open the files of a folder that `write_folder` wrote, and compare them with its manifest.

    `required` files must be there; `fields` must be the further entries of the manifest.
    """
    problems: list[str] = []
    files: dict[str, BufferedReader] = {}
    manifest: dict[str, Any] = {"files": {}}
    with contextlib.ExitStack() as stack:
        try:
            manifest = _parse_manifest((folder / MANIFEST).read_bytes())
        except OSError as error:
            problems.append(f"{MANIFEST} cannot be read ({error.strerror})")
        except (ValueError, TypeError, KeyError, AttributeError):
            problems.append(f"{MANIFEST} is damaged")
        for name in dict.fromkeys([*required, *manifest["files"]]):
            try:
                files[name] = stack.enter_context((folder / name).open("rb"))
            except OSError as error:
                problems.append(f"{name} cannot be read ({error.strerror})")
        if manifest["files"]:
            digests = _digests(files)
            different = [name for name in files if digests[name] != manifest["files"].get(name)]
            problems += [f"{name} differs from its checksum" for name in different]
        for field, value in (fields or {}).items():
            if not problems and manifest.get(field) != value:
                problems.append(f"{MANIFEST} is of {field} {manifest.get(field)}, not {value}")
        if not problems and manifest.keys() != {*(fields or {}), "files"}:
            problems.append(f"{MANIFEST} is damaged")
        yield OpenFolder(files, tuple(problems))


def _parse_manifest(content: bytes) -> dict[str, Any]:
    """Return a manifest that lists files; raise an error if it is damaged."""
    manifest = dict(json.loads(content))
    names = manifest["files"].keys()
    if not names or any("/" in name or not name.isprintable() for name in names):
        raise ValueError("a file name is wrong")
    if content != json_bytes(manifest):
        raise ValueError("not written by write_folder")
    return manifest


def _digests(files: Mapping[str, BufferedReader]) -> dict[str, Digest | None]:
    """Return the digest of each open file, computed side by side; None if reading fails."""

    def digest(file: BufferedReader) -> Digest | None:
        try:
            sha = hashlib.file_digest(file, "sha256").hexdigest()
            return {"size": file.tell(), "sha256": sha}
        except OSError:
            return None

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return dict(zip(files, threads.map(digest, files.values()), strict=True))


# --- locks ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Keep other processes from writing to a folder, which is created where it is missing.

    The system frees the lock when the process ends in any way; the lock's file remains. The
    process id in the file is only for messages.
    """
    while True:
        descriptor = _open_lock(folder)
        try:
            _lock_descriptor(descriptor, folder)
            # The last holder may have deleted the folder after the lock was opened here.
            if not _is_file_at(descriptor, folder / LOCK):
                continue
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
            yield
            return
        finally:
            os.close(descriptor)


def _open_lock(folder: Path) -> int:
    """Return a descriptor of the lock's file, which is created where it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise InputError(
            f"run folder: {folder} cannot be written to ({error.strerror}); choose another"
        ) from error


def _lock_descriptor(descriptor: int, folder: Path) -> None:
    """Lock an open file; raise an error that names the process which holds the lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        process = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
        raise InputError(
            f"run folder: process {process or '(unknown)'} is writing to {folder}; "
            "wait until it ends, or stop it"
        ) from None


def _is_file_at(descriptor: int, path: Path) -> bool:
    """Return whether an open file is the one that the path names now."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def lock_holder(folder: Path) -> int | None:
    """Return the id of the process that holds the lock of a folder, if there is one."""
    lock = folder / LOCK
    try:
        process = int(lock.read_text())
    except (OSError, ValueError):
        return None
    try:
        os.kill(process, 0)  # the lock is tried only if the process still exists
    except PermissionError:
        return process
    except (OSError, OverflowError):
        return None
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return process
    return None


# --- JSON -----------------------------------------------------------------------------------------


def to_json_values(field: str, value: Any, non_finite: str = "refuse") -> Any:
    """Return a value as JSON represents it: NumPy scalars as numbers, arrays and tuples as lists.

    A number that is not finite is an error, or with `non_finite="null"` becomes None.
    """
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise InputError(f"{field}: key {key!r} given; keys must be strings")
        return {key: to_json_values(f"{field}.{key}", value[key], non_finite) for key in value}
    if isinstance(value, list | tuple):
        return [to_json_values(f"{field}[{i}]", item, non_finite) for i, item in enumerate(value)]
    if not isinstance(value, str | int | float | None) and hasattr(value, "tolist"):
        return to_json_values(field, value.tolist(), non_finite)
    if isinstance(value, float) and not math.isfinite(value):
        if non_finite == "null":
            return None
        raise InputError(f"{field}: {value} given; must be a finite number")
    if isinstance(value, float):
        return float(value)
    if value is None or isinstance(value, str | bool | int):
        return value
    raise InputError(f"{field}: a {type(value).__name__} given; must be a JSON value")


def json_bytes(value: Any) -> bytes:
    """Return a value as indented JSON in UTF-8."""
    return (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()
