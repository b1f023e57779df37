"""The notes of a sweep beside the runs: who works on a run, its log, and why it failed.

They lie in `<runs>/sweeps/<run id>/`. The run folders decide what is done; these notes are for
leases and for people. The lease of a run is the lock of its folder, which the system frees when
the process ends in any way.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import socket
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from narl import __version__, storage
from narl.errors import InputError
from narl.storage.files import read_json, remove_file
from narl.storage.folder_lock import FolderLocked, is_locked
from narl.sweeps.planned_run import SweepRun, runs_from_json, runs_to_json

SWEEPS, LOG = "sweeps", "log.txt"
WORKER, FAILURE = "worker.json", "failure.json"
_log = logging.getLogger("narl")
NOTE_SECONDS = 2.0
"""Seconds between two notes of a worker about its progress."""


class RunNotes:
    """The notes about one run of a sweep."""

    def __init__(self, root: Path, run_id: str, log: Path | None = None) -> None:
        self.folder = root / SWEEPS / run_id
        self.log = log or self.folder / LOG
        """The file to which a worker on the run writes; those in one program share one."""
        self._noted = 0.0

    @contextlib.contextmanager
    def lease(self) -> Iterator[bool]:
        """Hold the lease of the run; yield False where another process holds it.

        A folder that cannot be written to is an InputError.
        """
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(storage.lock_folder(self.folder))
            except FolderLocked:
                yield False
                return
            yield True

    @property
    def is_leased(self) -> bool:
        """Whether a process, on whichever machine, is working on the run."""
        return (self.folder / WORKER).exists() and is_locked(self.folder)

    def note_worker(self, **fields: Any) -> None:
        """Write who works on the run and how far it is, unless the last note is very recent."""
        now = time.monotonic()
        if now - self._noted < NOTE_SECONDS and fields.get("step", 0) > 0:
            return
        self._noted = now
        who = {"host": socket.gethostname(), "process": os.getpid(), "time": _now()}
        who["log"] = str(self.log)
        _write(self.folder / WORKER, who | fields)

    def note_failure(self, **fields: Any) -> None:
        """Write why the run failed; `together` says with how many others it was trained."""
        content = {"time": _now(), "log": str(self.log)} | fields
        _write(self.folder / FAILURE, content)

    def worker(self) -> dict[str, Any] | None:
        """Return the last note of the worker that began the run, if it has not ended it."""
        return _read(self.folder / WORKER)

    def failure(self) -> dict[str, Any] | None:
        """Return why the run failed, if it did."""
        return _read(self.folder / FAILURE)

    @property
    def has_failed(self) -> bool:
        """Whether the run failed by itself, and not only together with others."""
        return (self.failure() or {}).get("together") == 1

    def clear_failure(self) -> None:
        """Forget an earlier failure."""
        remove_file(self.folder / FAILURE)

    def clear_worker(self) -> None:
        """Note that nobody works on the run any more."""
        remove_file(self.folder / WORKER)


def record_sweep(root: Path, runs: Sequence[SweepRun]) -> Path:
    """Write down the runs of a sweep, for `narl sweep --status`; return the file."""
    digest = hashlib.sha256(" ".join(sorted(run.id for run in runs)).encode()).hexdigest()[:10]
    path = root / SWEEPS / f"sweep-{digest}.json"
    _write(path, {"narl": __version__, "runs": runs_to_json(runs), "time": _now()})
    return path


def without_notes(names: Sequence[str]) -> list[str]:
    """Return what names runs, without the folder of these notes, which FOLDER/* names too."""
    return [x for x in names if Path(x).name != SWEEPS or not any(Path(x).glob("sweep-*.json"))]


def recorded_runs(root: Path) -> list[SweepRun]:
    """Return the runs of every sweep that was executed in a folder of runs, each once."""
    runs: dict[str, SweepRun] = {}
    for path in sorted((root / SWEEPS).glob("sweep-*.json")):
        content = _read(path)
        version = content.get("narl", __version__) if isinstance(content, dict) else __version__
        if version != __version__:  # its runs have other ids now
            _log.warning("%s is a sweep of narl %s; it is left out", path, version)
            continue
        try:
            entries = runs_from_json((content or {})["runs"])
        except (AttributeError, LookupError, TypeError, ValueError, InputError):
            _log.warning("%s is damaged or of another version of narl; it is left out", path)
            continue
        runs |= {run.id: run for run in entries}
    return list(runs.values())


def _write(path: Path, content: dict[str, Any]) -> None:
    storage.write_file(path, storage.json_bytes(storage.with_checksum(content)))


def _read(path: Path) -> dict[str, Any] | None:
    """Return the JSON of a file; None if it is not there or is damaged."""
    try:
        return storage.without_checksum(read_json(path))
    except (OSError, ValueError):
        return None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
