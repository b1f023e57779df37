"""Checkpoints: the newest states of a long computation, verified before they are loaded.

A checkpoint is a folder `step-000012345` of arrays (not compressed: they are large and do not
shrink), notes.json and the manifest, which also has the step and the id of the run. The caller of
`save_checkpoint` must hold the lock of the folder of checkpoints (`lock_folder`).
"""

import logging
import os
import re
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from narl.errors import InputError
from narl.storage.arrays import ARRAYS, check_array, read_arrays, write_arrays
from narl.storage.files import (
    SCHEMA,
    Digest,
    create_file,
    json_bytes,
    parse_json,
    to_json_values,
)
from narl.storage.first_format import sign_of_another_run
from narl.storage.folder import (
    open_folder,
    remove_folder,
    remove_partials,
    write_folder,
)

NOTES = "notes.json"
BACKGROUND = 1 << 28
"""Bytes from which on a checkpoint is written in the background."""

_NAME = re.compile(r"step-(\d{9,})")
_log = logging.getLogger("narl")
Arrays = Mapping[str, np.ndarray] | Callable[[], Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class Checkpoint:
    """An intact checkpoint; `skipped` names newer ones that are damaged, and why."""

    step: int
    arrays: dict[str, np.ndarray]
    notes: dict[str, Any]
    path: Path
    skipped: tuple[str, ...] = ()
    run: str | None = None
    """The id of the run whose state this is; None: it was not recorded."""
    schema: int = SCHEMA
    """The format of the checkpoint; 0: it is older than numbers of formats and than ids."""


class _Damaged(Exception):
    """The reason why a checkpoint cannot be used."""


def save_checkpoint(
    folder: Path,
    step: int,
    arrays: Mapping[str, np.ndarray],
    notes: Mapping[str, Any],
    keep: int = 2,
    known: Collection[Path] = (),
    run: str | None = None,
) -> Path:
    """Write a checkpoint, then delete all but the newest `keep` intact ones; return its path.

    It can be loaded for the same `run` only; without one, for no run. A checkpoint of the same step
    is replaced. One of a later step that is intact belongs to another computation and is an error,
    since it would be loaded instead. Checkpoints that are `known` to be intact are not read again.
    The notes are JSON values; NaN belongs in the arrays.
    """
    if step < 0:
        raise InputError(f"checkpoint: step {step} given; must be at least 0")
    if keep < 1:
        raise InputError(f"checkpoint: keep {keep} given; must be at least 1")
    for name, array in arrays.items():
        check_array(name, array)
    content = json_bytes(to_json_values("notes", notes))
    _refuse_earlier_step(folder, step)
    final = folder / f"step-{step:09d}"

    def write(partial: Path) -> dict[str, Digest]:
        return {**write_arrays(partial, arrays), NOTES: create_file(partial / NOTES, content)}

    try:
        remove_partials(folder)
        write_folder(final, write, {"step": int(step)} | ({} if run is None else {"run": run}))
    except OSError as error:
        reason = f"checkpoint {final.name} was not saved: {error.strerror}"
        raise OSError(error.errno, reason, error.filename) from error
    _prune(folder, {final, *known}, keep)
    return final


def load_checkpoint(
    folder: Path, advice: str = "train again", run: str | None = None
) -> Checkpoint:
    """Return the newest intact checkpoint; newer ones that are damaged are skipped with a warning.

    If there is none, or if it is of another `run` or of none, the error ends with the `advice`.
    """
    skipped: list[str] = []
    for path in _newest_first(folder):
        try:
            checkpoint = _read(path)
            if cause := _other_run(checkpoint, run):
                raise InputError(f"checkpoint: {path} {cause}; remove it, or {advice}")
            return replace(checkpoint, skipped=tuple(skipped))
        except _Damaged as cause:
            _log.warning("checkpoint %s is damaged and not used: %s", path.name, cause)
            skipped.append(f"{path.name}: {cause}")
    reason = "; ".join(skipped) or "none is there"
    raise InputError(f"checkpoint: no intact one in {folder} ({reason}); {advice}")


def has_checkpoints(folder: Path) -> bool:
    """Return whether a folder has checkpoints, intact or not."""
    return bool(_newest_first(folder))


def newest_step(folder: Path) -> int:
    """Return the step of the newest checkpoint, intact or not; 0 if there is none."""
    return max((_step(path) or 0 for path in _newest_first(folder)), default=0)


def checkpoint_problems(folder: Path, run: str | None = None) -> list[str]:
    """Return why none of the checkpoints can be used; empty if one can, or none is there.

    Large checkpoints take long to read and count as intact here.
    """
    causes: list[str] = []
    for path in _newest_first(folder):
        try:
            if sum(os.lstat(file).st_size for file in path.glob("*")) >= BACKGROUND:
                return []
            checkpoint = _read(path, verify_only=True)
            if checkpoint.schema == 0:  # its content may show of which run it is
                checkpoint = _read(path)
            cause = _other_run(checkpoint, run)
        except (_Damaged, OSError) as error:
            causes.append(f"{path.name}: {error}")
            continue
        return [f"{path.name} {cause}"] if cause else []
    return causes


def _other_run(checkpoint: Checkpoint, run: str | None) -> str:
    """Say why a checkpoint is not one of this run; empty if it is, or nothing shows the contrary.

    One that is older than ids of runs is compared with the folder around its own.
    """
    if run is None or checkpoint.run == run:
        return ""
    if checkpoint.run is not None:
        return f"is of run {checkpoint.run}, not of {run}"
    if checkpoint.schema == 0:
        return sign_of_another_run(checkpoint.arrays, checkpoint.path.parent.parent)
    return f"has no id of a run, so it may not be of {run}"


class Checkpoints:
    """The checkpoints of one computation; a large one is written while the computation goes on."""

    def __init__(self, folder: Path, keep: int = 2, run: str | None = None) -> None:
        self.folder, self.keep, self.run = folder, keep, run
        self.last = self.kept = 0
        """The steps of the newest checkpoint, and of the newest one that is on disk."""
        self.seconds = 0.0
        """The time that the last checkpoint took, in the background or not."""
        self._known: set[Path] = set()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="narl-checkpoint")
        self._writing: Future[Path] | None = None

    def load(self, advice: str = "begin anew with --fresh") -> Checkpoint:
        """Return the newest intact checkpoint; see `load_checkpoint`."""
        checkpoint = load_checkpoint(self.folder, advice, self.run)
        self._known.add(checkpoint.path)
        self.last = self.kept = checkpoint.step
        return checkpoint

    def save(self, step: int, arrays: Arrays, notes: Mapping[str, Any], size: int) -> None:
        """Write a checkpoint of `size` bytes, in the background if that is large.

        Nobody may write to the arrays from now on. A function that returns the arrays is called
        in the background.
        """
        self.wait()
        self.last = step
        self._writing = self._writer.submit(self._write, step, arrays, notes)
        if size < BACKGROUND:
            self.wait()

    def _write(self, step: int, arrays: Arrays, notes: Any) -> Path:
        begin, known = time.perf_counter(), frozenset(self._known)
        arrays = arrays() if callable(arrays) else arrays
        path = save_checkpoint(self.folder, step, arrays, notes, self.keep, known, self.run)
        self.seconds = time.perf_counter() - begin
        return path

    def check(self) -> None:
        """Raise the error of a background write that has failed."""
        if self._writing is not None and self._writing.done():
            self.wait()

    def wait(self) -> None:
        """Wait until everything is on disk; raise the error if writing failed."""
        if (writing := self._writing) is not None:
            wait([writing])  # after an interrupt here, the write still counts as unfinished
            self._writing = None
            self._known.add(writing.result())
            self.kept = self.last

    def close(self) -> None:
        """Wait, and only log an error: the computation has ended for another reason."""
        try:
            self.wait()
        except Exception as error:
            _log.warning("%s", error)
        self._writer.shutdown()


def _step(path: Path) -> int | None:
    """Return the step in the name of a checkpoint; None if it is not the name of one."""
    match = _NAME.fullmatch(path.name)
    return int(match[1]) if match and path.name == f"step-{int(match[1]):09d}" else None


def _newest_first(folder: Path) -> list[Path]:
    """Return the paths that look like checkpoints; wrong names come first, to be warned of."""

    def order(path: Path) -> tuple[bool, int, str]:
        step = _step(path)
        return step is None, step or 0, path.name

    return sorted(folder.glob("step-*"), key=order, reverse=True)


def _read(path: Path, verify_only: bool = False) -> Checkpoint:
    """Return the checkpoint at a path; nothing of it is parsed before all of it is verified."""
    step = _step(path)
    if step is None:
        raise _Damaged("its name is not step- and the step in nine digits")
    with open_folder(path, (ARRAYS, NOTES), {"step": step}, optional=("run",)) as content:
        if content.problems:
            raise _Damaged(content.problems[0])
        run, schema = content.manifest.get("run"), content.manifest.get("schema", 0)
        if verify_only:
            return Checkpoint(step, {}, {}, path, run=run, schema=schema)
        try:
            notes = dict(parse_json(content.read(NOTES)))
            arrays = read_arrays([file for name, file in content.files.items() if name != NOTES])
        except (OSError, TypeError, ValueError) as error:
            raise _Damaged(f"{ARRAYS} cannot be read ({error})") from error
        return Checkpoint(step, arrays, notes, path, run=run, schema=schema)


def _cause(path: Path) -> str:
    """Return why the checkpoint cannot be used; empty if it is intact."""
    try:
        _read(path, verify_only=True)
    except _Damaged as cause:
        return str(cause)
    return ""


def _refuse_earlier_step(folder: Path, step: int) -> None:
    for path in _newest_first(folder):
        if (_step(path) or 0) > step and not _cause(path):
            raise InputError(
                f"checkpoint: step {step} given and {folder} already holds {path.name}; "
                "resume it, or choose another folder"
            )


def _prune(folder: Path, known: Collection[Path], keep: int) -> None:
    """Delete all but the newest `keep` intact checkpoints; `known` ones are intact."""
    intact = 0
    for path in _newest_first(folder):
        if _step(path) is None:
            continue
        if intact < keep:
            if path in known or not (cause := _cause(path)):
                intact += 1
                continue
            _log.warning("checkpoint %s is damaged and removed: %s", path.name, cause)
        remove_folder(path)
