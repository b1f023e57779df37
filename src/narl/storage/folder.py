"""Folders: written completely or not at all, and verified by a manifest.

A file or folder is written under a hidden name beside its final one, flushed to disk and renamed,
so that it is complete under its final name. A folder has a manifest: its format, the size and
SHA-256 of every other file, and a checksum of its own.
"""

import contextlib
import ctypes
import errno
import hashlib
import math
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

from narl.errors import InputError
from narl.storage.files import (
    PARTIAL,
    SCHEMA,
    Digest,
    create_file,
    flush,
    json_bytes,
    make_folder,
    naming_errors,
    newer_schema,
    open_file,
    parse_json,
    partial_path,
    read_file,
    with_checksum,
    without_checksum,
)
from narl.storage.folder_lock import LOCK

MANIFEST, TRAINING_FILE = "manifest.json", "training.json"
_AT_WORKING_FOLDER, _EXCHANGE = -100, 2
"""Arguments of Linux's renameat2: paths are relative to the working folder; swap two of them."""


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
    partial = partial_path(final)
    with naming_errors(final):
        make_folder(final.parent)
        try:
            partial.mkdir()
            digests = dict(write(partial))
            manifest = with_checksum({"schema": SCHEMA, **(fields or {}), "files": digests})
            create_file(partial / MANIFEST, json_bytes(manifest))
            flush(partial)
            publish_folder(partial, final, keep)
        finally:
            remove_tree(partial)


def publish_folder(
    folder: Path, final: Path, keep: Callable[[Path], bool] = _replace_always
) -> None:
    """Rename a complete folder to its final name, in place of another unless `keep` is true.

    Where the system can swap folders, one of them has the final name at every moment.
    """
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
        if folder.name.startswith(PARTIAL) and _swap(folder, final):
            replaced.append(folder)
            break
        hidden = partial_path(final)
        with contextlib.suppress(FileNotFoundError):  # another process may have moved it first
            final.rename(hidden)
            replaced.append(hidden)
    flush(final.parent)
    for hidden in replaced:
        remove_tree(hidden)


def _swap(folder: Path, other: Path) -> bool:
    """Swap two folders in one step; return False where the system cannot, or one is a link."""
    rename = getattr(ctypes.CDLL(None), "renameat2", None)
    if rename is None or other.is_symlink():
        return False
    paths = os.fsencode(folder), os.fsencode(other)
    return bool(rename(_AT_WORKING_FOLDER, paths[0], _AT_WORKING_FOLDER, paths[1], _EXCHANGE) == 0)


def remove_folder(path: Path) -> None:
    """Hide a folder, then delete it, so that a crash leaves no half of it under its name."""
    hidden = partial_path(path)
    with contextlib.suppress(FileNotFoundError):
        path.rename(hidden)
    remove_tree(hidden)


def remove_tree(path: Path) -> None:
    """Delete a folder, a link or a file, as far as that is possible."""
    if path.is_symlink() or path.is_file():
        path.unlink(missing_ok=True)
    else:
        shutil.rmtree(path, ignore_errors=True)


def refuse_links(folder: Path) -> None:
    """Raise an error if a folder that is to be written to holds links, which lead elsewhere."""
    for path in folder.iterdir():
        if path.is_symlink():
            raise InputError(f"run folder: {path} is a symbolic link; remove it")


def clear_folder(folder: Path) -> None:
    """Delete everything in a folder except its lock."""
    for path in folder.iterdir():
        if path.name != LOCK:
            remove_tree(path)


def remove_partials(folder: Path, min_age: float = -math.inf) -> None:
    """Delete what killed writers left in a folder, if it is at least `min_age` seconds old."""
    for path in folder.glob(f"{PARTIAL}*"):
        with contextlib.suppress(OSError):  # the writer may have finished meanwhile
            if time.time() - path.stat().st_mtime >= min_age:
                remove_tree(path)


@dataclass(frozen=True)
class OpenFolder:
    """The readable files of a folder; `problems` is empty if they agree with the manifest."""

    files: dict[str, BufferedReader]
    problems: tuple[str, ...]
    manifest: dict[str, Any]
    intact: frozenset[str]
    """The files that agree with the manifest."""

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        self.files[name].seek(0)
        return self.files[name].read()


@contextlib.contextmanager
def open_folder(
    folder: Path,
    required: Collection[str],
    fields: Mapping[str, Any] | None = None,
    optional: Collection[str] = (),
) -> Iterator[OpenFolder]:
    """Open the files of a folder that `write_folder` wrote, and compare them with its manifest.

    `required` files must be there; `fields` must be the further entries of the manifest, beside
    those named `optional`.
    """
    problems: list[str] = []
    files: dict[str, BufferedReader] = {}
    manifest: dict[str, Any] = {"files": {}}
    with contextlib.ExitStack() as stack:
        try:
            manifest = _parse_manifest(read_file(folder / MANIFEST))
        except OSError as error:
            problems.append(f"{MANIFEST} cannot be read ({error.strerror})")
        except (ValueError, TypeError, KeyError, AttributeError):
            problems.append(f"{MANIFEST} is damaged")
        if newer := newer_schema(manifest):
            yield OpenFolder({}, (newer,), {}, frozenset())
            return
        for name in dict.fromkeys([*required, *manifest["files"]]):
            try:
                files[name] = stack.enter_context(open_file(folder / name))
            except OSError as error:
                problems.append(f"{name} cannot be read ({error.strerror})")
        intact = frozenset(_intact(files, manifest["files"]))
        if manifest["files"]:
            problems += [
                f"{name} differs from its checksum" for name in files if name not in intact
            ]
        for field, value in (fields or {}).items():
            if not problems and manifest.get(field) != value:
                problems.append(f"{MANIFEST} is of {field} {manifest.get(field)}, not {value}")
        others = manifest.keys() - {"schema", *optional}
        if not problems and others != {*(fields or {}), "files"}:
            problems.append(f"{MANIFEST} is damaged")
        yield OpenFolder(files, tuple(problems), manifest, intact)


def _parse_manifest(content: bytes) -> dict[str, Any]:
    """Return a manifest that lists files; raise an error if it is damaged."""
    signed = parse_json(content)
    manifest = without_checksum(signed)
    schema = manifest.get("schema", 1)
    if content != json_bytes(signed) or type(schema) is not int or schema < 1:
        raise ValueError("not written by write_folder")
    if newer_schema(manifest):
        return manifest
    names = manifest["files"].keys()
    if not names or any("/" in name or not name.isprintable() for name in names):
        raise ValueError("a file name is wrong")
    return manifest


def _intact(files: Mapping[str, BufferedReader], digests: Mapping[str, Any]) -> Iterator[str]:
    """Yield the files that have their digests; they are read side by side."""

    def is_intact(name: str) -> bool:
        digest, file = digests.get(name), files[name]
        try:
            size = os.fstat(file.fileno()).st_size
            if not isinstance(digest, dict) or digest.get("size") != size:
                return False
            return digest == {
                "size": size,
                "sha256": hashlib.file_digest(file, "sha256").hexdigest(),
            }
        except OSError:
            return False

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        found = zip(files, threads.map(is_intact, files), strict=True)
        yield from (name for name, is_right in found if is_right)
