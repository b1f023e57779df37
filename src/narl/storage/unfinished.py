"""Unfinished runs, and the look-up of any run.

An unfinished run is a folder `<root>/<id>.part/` of training.json (its configuration), the metrics
log, the newest checkpoints, and those of several runs in one program that are finished already.
"""

import contextlib
import os
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from narl import __version__
from narl.storage.checkpoints import checkpoint_problems, newest_step
from narl.storage.files import (
    SCHEMA,
    json_bytes,
    newer_schema,
    read_json,
    with_checksum,
    without_checksum,
    write_file,
)
from narl.storage.folder import MANIFEST, TRAINING_FILE, remove_folder
from narl.storage.folder_lock import lock_folder, lock_holder
from narl.storage.metrics_log import METRICS_LOG, MetricsLog
from narl.storage.runs import (
    Run,
    id_of,
    is_run_id,
    list_run_ids,
    load_run,
    load_run_at,
    match_id,
    run_id,
)

PART_SUFFIX = ".part"
CHECKPOINTS, FINISHED_FOLDER = "checkpoints", "finished"
"""Names in the folder of an unfinished run."""
_LATEST = datetime(9999, 1, 1, tzinfo=UTC).timestamp()


@dataclass(frozen=True)
class UnfinishedRun:
    """An unfinished run on disk; `problems` is empty if it can be continued."""

    path: Path
    config: dict[str, Any]
    checkpoint_every: int
    problems: tuple[str, ...] = ()
    narl: str = __version__
    """The version of narl that began it; another one can load it, but not continue it."""
    keep_data: bool = False
    """Whether the finished run keeps the data from which it can be extended."""

    @property
    def id(self) -> str:
        """The id that the finished run will have."""
        return self.path.name.removesuffix(PART_SUFFIX)

    @property
    def step(self) -> int:
        """The step of the newest checkpoint; 0 if there is none."""
        return newest_step(self.path / CHECKPOINTS)

    @property
    def time(self) -> str:
        """The time of the last write."""
        latest = 0.0
        for path in (self.path / METRICS_LOG, self.path / CHECKPOINTS, self.path):
            with contextlib.suppress(OSError):  # it is not there, or not any more
                latest = max(latest, min(os.lstat(path).st_mtime, _LATEST))
        return datetime.fromtimestamp(latest, UTC).isoformat(timespec="microseconds")

    @property
    def holder(self) -> int | None:
        """The process that is writing to the folder now."""
        return lock_holder(self.path)

    def rows(self, columns: Collection[str] = ()) -> list[dict[str, Any]]:
        """Return the rows of the metrics log that have these columns.

        A damaged row is left out; so is one whose lists are not equally long.
        """
        return [
            row
            for row in MetricsLog(self.path / METRICS_LOG).rows()
            if row.keys() >= {*columns}
            and len({len(value) for value in row.values() if isinstance(value, list)}) <= 1
        ]

    def last_row(self, columns: Collection[str] = ()) -> dict[str, Any] | None:
        """Return the last of the `rows`, if there is one."""
        return next(reversed(self.rows(columns)), None)


def record_config(
    path: Path, config: dict[str, Any], checkpoint_every: int, keep_data: bool = False
) -> None:
    """Write the configuration of an unfinished run to its folder."""
    content = {"schema": SCHEMA, "config": config, "narl": __version__}
    content |= {"checkpoint_every": checkpoint_every, "keep_data": keep_data}
    write_file(path / TRAINING_FILE, json_bytes(with_checksum(content)))


def open_unfinished_run(path: Path) -> UnfinishedRun:
    """Return the unfinished run in a folder, with its problems."""
    try:
        content = without_checksum(read_json(path / TRAINING_FILE))
        if newer := newer_schema(content):
            return UnfinishedRun(path, {}, 1, (newer,))
        if type(content.get("schema", 0)) is not int:
            raise TypeError("the number of the format is not a whole number")
        config, version = dict(content["config"]), str(content["narl"])
        every, keep_data = int(content["checkpoint_every"]), content.get("keep_data") is True
        id_ = id_of(config, version)
    except (OSError, ValueError, TypeError, KeyError):
        return UnfinishedRun(path, {}, 1, (f"{TRAINING_FILE} cannot be read",))
    problems: tuple[str, ...] = ()
    if every < 1:
        problems = (f"{TRAINING_FILE} has checkpoint_every {every}; it must be at least 1",)
    elif version != __version__:
        problems = (f"narl {version} began it and this is {__version__}",)
    elif path.resolve().name != f"{id_}{PART_SUFFIX}":
        problems = (f"{TRAINING_FILE} does not fit the folder's name",)
    # A process that holds the lock may be replacing damaged checkpoints.
    elif lock_holder(path) is None and (causes := checkpoint_problems(path / CHECKPOINTS, id_)):
        problems = ("no checkpoint is intact", *causes)
    return UnfinishedRun(path, config, max(every, 1), problems, version, keep_data)


def list_unfinished_runs(root: Path | str) -> list[UnfinishedRun]:
    """Return every unfinished run under a root, the latest first."""
    ids = _unfinished_ids(Path(root))
    runs = [open_unfinished_run(Path(root) / f"{id_}{PART_SUFFIX}") for id_ in ids]
    return sorted(runs, key=lambda run: (run.time, run.id), reverse=True)


def begun_groups(
    root: Path, known: Collection[str], missing: Collection[str], busy: bool = True
) -> list[list[str]]:
    """Return the ids of runs that were begun together, or one alone, and can be continued so.

    Every group has only ids that are ``known``, and a ``missing`` one that is in no earlier group.
    Groups to which a process is writing now count only if ``busy``.
    """
    groups, left = [], {*missing}
    for run in list_unfinished_runs(root) if left and root.is_dir() else ():
        ids = [run_id(record) for record in run.config.get("configs", ())] or [run.id]
        can_be_continued = not run.problems and run.step > 0 and (busy or run.holder is None)
        if can_be_continued and left & {*ids} and {*ids} <= {*known}:
            groups.append(ids)
            left -= {*ids}
    return groups


def remove_unfinished_run(path: Path) -> None:
    """Delete an unfinished run, unless a process is writing to it."""
    with lock_folder(path):
        remove_folder(path)


def find_run(root: Path | str, text: str, *, unfinished_first: bool = False) -> Run | UnfinishedRun:
    """Return the run with this id, beginning of an id or folder of any name.

    `find_run_folder` says which one it is.
    """
    path = find_run_folder(root, text, unfinished_first=unfinished_first)
    if path.name.endswith(PART_SUFFIX) or os.path.isfile(path / TRAINING_FILE):
        return open_unfinished_run(path)
    return load_run(path) if is_run_id(path.name) else load_run_at(path)


def find_run_folder(root: Path | str, text: str, *, unfinished_first: bool = False) -> Path:
    """Return the folder of the run with this id, beginning of an id or folder, without reading it.

    A finished and an unfinished run of one id may both be there, after a fresh training that was
    stopped: the id then means the finished one, unless `unfinished_first`; `<id>.part` always
    means the unfinished one.
    """
    root, folder = Path(root), Path(text)
    # Unlike methods of Path, these functions take names that are too long for a file, too.
    if os.path.isfile(folder / TRAINING_FILE) or os.path.isfile(folder / MANIFEST):
        return folder
    is_named_as_run = is_run_id(folder.name.removesuffix(PART_SUFFIX))
    if is_named_as_run and os.path.isdir(folder) and folder.parent.resolve() == root.resolve():
        return folder  # its files are damaged
    finished, unfinished = list_run_ids(root), _unfinished_ids(root)
    if text.removesuffix(PART_SUFFIX) in unfinished and text.endswith(PART_SUFFIX):
        return root / text
    id_ = match_id(root, text, sorted({*finished, *unfinished}))
    if id_ in unfinished and (unfinished_first or id_ not in finished):
        return root / f"{id_}{PART_SUFFIX}"
    return root / id_


def _unfinished_ids(root: Path) -> list[str]:
    paths = root.glob(f"*{PART_SUFFIX}")
    ids = [path.name.removesuffix(PART_SUFFIX) for path in paths if path.is_dir()]
    return [id_ for id_ in ids if is_run_id(id_)]
