"""Trainings that are not finished: folders `<id>.part` beside the runs.

Such a folder holds what is trained (course.json), the journal, and the newest checkpoints.
Looking at them needs no JAX.
"""

import difflib
import fcntl
import json
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from narl import __version__, storage
from narl.errors import InputError, unknown
from narl.storage.checkpoints import damage_of
from narl.storage.folder import json_bytes, remove_tree
from narl.storage.lock import LOCK, hold
from narl.storage.metrics_log import NAME as JOURNAL
from narl.storage.metrics_log import MetricsLog, rows_from_bytes, valid_lines

PART, COURSE, CHECKPOINTS = ".part", "course.json", "checkpoints"
STAGED = "finished"
"""Of several trainings together, those that are done already."""


@dataclass(frozen=True)
class UnfinishedRun:
    """One of them. `problems` is empty for one that can be continued."""

    path: Path
    config: dict[str, Any]
    checkpoint_every: int
    problems: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The id that the run will have."""
        return self.path.name.removesuffix(PART)

    @property
    def step(self) -> int:
        """Of the newest checkpoint; 0 where there is none."""
        names = (path.name for path in (self.path / CHECKPOINTS).glob("step-*"))
        return max((int(name[5:]) for name in names if name[5:].isdecimal()), default=0)

    @property
    def time(self) -> str:
        """When something was last written."""
        places = (self.path / JOURNAL, self.path / CHECKPOINTS, self.path)
        latest = max(place.stat().st_mtime for place in places if place.exists())
        return datetime.fromtimestamp(latest, UTC).isoformat(timespec="microseconds")

    @property
    def holder(self) -> int | None:
        """The process that is training it now."""
        return _holder(self.path / LOCK)

    def rows(self) -> list[dict[str, Any]]:
        """The journal so far, as far as it can be read."""
        seeds, settings = self.config.get("seeds") or (), self.config.get("settings") or {}
        lines, last = MetricsLog(self.path / JOURNAL).lines(), settings.get("steps", 0)
        return rows_from_bytes(valid_lines(lines, ["epoch", "eval_return"], len(seeds), last))

    def last_row(self) -> dict[str, Any] | None:
        """The last epoch."""
        return next(reversed(self.rows()), None)


def record_config(part: Path, config: dict[str, Any], checkpoint_every: int) -> None:
    """Writes down what is trained, whole or not at all."""
    content = {"config": config, "narl": __version__, "checkpoint_every": checkpoint_every}
    unfinished = part / f".{COURSE}"
    unfinished.write_bytes(json_bytes(content))
    os.replace(unfinished, part / COURSE)


def open_unfinished_run(path: Path) -> UnfinishedRun:
    """The training in a folder."""
    try:
        content = json.loads((path / COURSE).read_bytes())
        config, version = dict(content["config"]), str(content["narl"])
        every = int(content["checkpoint_every"])
    except (OSError, ValueError, TypeError, KeyError):
        return UnfinishedRun(path, {}, 1, (f"{COURSE} cannot be read",))
    problems: tuple[str, ...] = ()
    if version != __version__:
        problems = (f"narl {version} began it and this is {__version__}",)
    elif path.resolve().name != f"{storage.run_id(config)}{PART}":
        problems = (f"{COURSE} does not fit the folder's name",)
    elif _holder(path / LOCK) is None and (causes := damage_of(path / CHECKPOINTS)):
        problems = ("no checkpoint is intact", *causes)
    return UnfinishedRun(path, config, every, problems)


def list_unfinished_runs(root: Path) -> list[UnfinishedRun]:
    """Every unfinished training under the root, the latest first."""
    found = [open_unfinished_run(path) for path in _folders(root)]
    return sorted(found, key=lambda one: (one.time, one.id), reverse=True)


def _folders(root: Path) -> list[Path]:
    name = re.compile(r"[a-z0-9-]+-[0-9a-f]{10}" + re.escape(PART))
    paths = root.iterdir() if root.is_dir() else ()
    return [path for path in paths if name.fullmatch(path.name) and path.is_dir()]


def locate(
    root: Path, given: str, *, unfinished_first: bool = False
) -> storage.Run | UnfinishedRun:
    """A finished run or an unfinished training: by its folder, its id, or the beginning of one.

    Both may be there under one id, after a fresh training that was stopped: then the finished
    one is meant, unless ``unfinished_first``, and `<id>.part` is the other.
    """
    folder = Path(given)
    if (folder / COURSE).is_file():
        return open_unfinished_run(folder)
    if (folder / storage.MANIFEST).is_file():
        return _load(folder)
    runs, parts = storage.list_run_ids(root), [path.name for path in _folders(root)]
    if given in parts:
        return open_unfinished_run(root / given)
    ids = sorted({*runs, *(part.removesuffix(PART) for part in parts)})
    if not ids:
        raise InputError(f"run: {given!r} is not there; {root} holds no runs")
    fitting = [given] if given in ids else [id_ for id_ in ids if given and id_.startswith(given)]
    if not fitting:
        raise unknown("run", given, difflib.get_close_matches(given, ids, n=5, cutoff=0.0))
    if len(fitting) > 1:
        raise InputError(f"run: {given!r} fits {', '.join(fitting)}; give more of the id")
    (id_,) = fitting
    if f"{id_}{PART}" in parts and (unfinished_first or id_ not in runs):
        return open_unfinished_run(root / f"{id_}{PART}")
    return storage.load_run(root, id_)


def _load(folder: Path) -> storage.Run:
    """The run in a folder; one that `Agent.save` made is none, whatever its name is."""
    if "own_env" in storage.load_run_at(folder).config:
        raise InputError(
            f"run: {folder} is a saved agent, not a run; narl.load takes it up again, "
            "`narl eval` evaluates it"
        )
    return storage.load_run(folder)


def remove_unfinished_run(path: Path) -> None:
    """Deletes an unfinished training, unless a process is training it."""
    with hold(path):
        remove_tree(path)


def _holder(lock: Path) -> int | None:
    """Who holds a lock; a lock is tried only where the process named in it still runs."""
    try:
        number = int(lock.read_text())
        os.kill(number, 0)
    except PermissionError:
        return number
    except (OSError, ValueError):
        return None
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return number
    return None
