"""Finished runs: configuration, environment, metrics and arrays in a folder with checksums.

A run is a folder `<root>/<id>/` of config.json, environment.json, metrics.json, arrays.npz and
manifest.json. The id is a readable part and the first 10 hexadecimal digits of the SHA-256 over the
canonical JSON of {"config", "narl" version}: the same configuration finds its finished run again.

JSON has no NaN: a number in the configuration that is not finite is an error, in the metrics it
becomes null (one undefined figure does not spoil a finished run; arrays keep every value).
"""

import contextlib
import difflib
import errno
import hashlib
import json
import logging
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from narl import __version__
from narl.display import Described, Description, describe_results
from narl.errors import InputError, unknown
from narl.storage.arrays import ARRAYS, compressed_npz, read_npz
from narl.storage.files import (
    NEWER,
    Digest,
    check_name,
    check_writable,
    create_file,
    json_bytes,
    parse_json,
    to_json_values,
)
from narl.storage.folder import (
    MANIFEST,
    OpenFolder,
    open_folder,
    publish_folder,
    remove_folder,
    remove_partials,
    write_folder,
)
from narl.storage.provenance import describe_environment

CONFIG, ENVIRONMENT, METRICS = "config.json", "environment.json", "metrics.json"
FILES = (CONFIG, ENVIRONMENT, METRICS, ARRAYS)
SLUG_FIELDS = ("experiment", "agent", "algo", "env")
"""Fields of the configuration that make the readable part of an id."""
STALE_SECONDS = 3600.0
"""A hidden folder of this age is not of a save in progress and is deleted."""

_ID = re.compile(r"[a-z0-9-]+-[0-9a-f]{10}")
_log = logging.getLogger("narl")


@dataclass(frozen=True, repr=False)
class Run(Described):
    """A run folder on disk; `problems` is empty if it is intact, and unreadable parts are {}."""

    path: Path
    id: str
    config: dict[str, Any]
    metrics: dict[str, Any]
    environment: dict[str, Any]
    problems: tuple[str, ...] = ()

    def _describe(self) -> Description:
        facts = describe_results(self.config, self.metrics) | {
            "time": str(self.environment.get("time", ""))[:16].replace("T", " "),
            "folder": str(self.path),
            "problems": "; ".join(self.problems),
        }
        return Description(f"Run {self.id}", facts)

    @property
    def id_of_config(self) -> str:
        """The id that the configuration leads to; `save_run_at` gives folders other names."""
        return id_of(self.config, str(self.environment.get("narl")))

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays by name, once they are verified."""
        with self._open_intact() as folder:
            try:
                return read_npz(folder.files[ARRAYS])
            except ValueError as error:
                raise _damaged(self.id, [f"{ARRAYS} cannot be read ({error})"]) from error

    def extra(self, name: str) -> bytes:
        """Return a further file that was saved with the run, once it is verified."""
        with self._open_intact() as folder:
            if name not in folder.files:
                raise InputError(f"run {self.id}: {name} is not in its folder")
            return folder.read(name)

    @contextlib.contextmanager
    def _open_intact(self) -> Iterator[OpenFolder]:
        with open_folder(self.path, FILES) as folder:
            if folder.problems:
                raise _damaged(self.id, folder.problems)
            yield folder


def default_root() -> Path:
    """Return the folder of the runs: the variable NARL_RUNS, or `runs` in the working folder."""
    return Path(os.environ.get("NARL_RUNS") or "runs")


def check_root(root: Path | str) -> Path:
    """Return the root if runs can be saved there; to be called before a long computation."""
    check_writable("runs folder", Path(root), "choose another (NARL_RUNS)")
    return Path(root)


def run_id(config: Mapping[str, Any]) -> str:
    """Return the id of a configuration under this version of narl."""
    return id_of(to_json_values("config", config), __version__)


def find_run_of_config(root: Path | str, config: Mapping[str, Any]) -> Run | None:
    """Return the finished run of a configuration, if there is an intact one."""
    path = _folder(root) / run_id(config)
    if not path.is_dir():
        return None
    run = _open(path)
    if run.problems and run.problems[0].startswith(NEWER):
        raise _damaged(run.id, run.problems)  # or else it would be replaced
    if run.problems:
        _log.warning("run %s is damaged and not used: %s", run.id, "; ".join(run.problems))
        return None
    return run


def save_run(
    root: Path | str,
    config: Mapping[str, Any],
    metrics: Mapping[str, Any],
    arrays: Mapping[str, Any],
    *,
    device: str = "cpu",
    seconds: float | None = None,
    replace: bool = False,
    extras: Mapping[str, bytes] | None = None,
    provenance: Mapping[str, Any] | None = None,
    checkpoint: Callable[[Path], Any] | None = None,
) -> Run:
    """Save a finished run, with `extras` as further files by name, and return it.

    `provenance` is added to what is recorded of the machine and the software. `checkpoint` writes
    more into the folder that it is called with, before the folder is complete.

    An intact run of the same id stays and is returned, unless `replace`.
    """
    final = Path(root) / run_id(config)
    environment = describe_environment(device, seconds) | {**(provenance or {})}
    contents = _contents(config, metrics, arrays, environment, extras)
    if not replace and final.is_dir() and not (run := _open(final)).problems:
        return run
    run = _write(final, contents, replace, checkpoint=checkpoint)
    remove_partials(final.parent, STALE_SECONDS)
    return run


def move_run(run: Run, root: Path | str, replace: bool = False) -> Run:
    """Move a run to another root on the same disk and return it."""
    final = Path(root) / run.id
    publish_folder(run.path, final, keep=lambda existing: not replace and _is_intact(existing))
    return _open(final)


def move_run_to_id(run: Run, entries: Mapping[str, Any]) -> Run:
    """Rename a run to the id of its configuration plus these entries; return the renamed run."""
    with run._open_intact() as folder:
        contents = {name: folder.read(name) for name in folder.files}
    config = run.config | {**entries}
    contents[CONFIG] = json_bytes(to_json_values("config", config))
    moved = _write(run.path.parent / id_of(config, str(run.environment["narl"])), contents, False)
    remove_folder(run.path)
    return moved


def save_run_at(
    path: Path | str,
    config: Mapping[str, Any],
    metrics: Mapping[str, Any],
    arrays: Mapping[str, Any],
    *,
    device: str = "cpu",
    extras: Mapping[str, bytes] | None = None,
    provenance: Mapping[str, Any] | None = None,
    checkpoint: Callable[[Path], Any] | None = None,
) -> Run:
    """Save a run to a folder of any name, in place of an earlier one, and return it.

    `checkpoint` writes more into the folder that it is called with, before the folder is complete.
    """
    path = Path(path)
    check_name("folder", path, "choose another name")
    if path.exists() and not path.is_dir():
        raise InputError(f"folder: {path} is a file; choose another name")
    if path.is_dir() and not (path / MANIFEST).is_file() and any(path.iterdir()):
        raise InputError(f"folder: {path} holds other files; choose another name")
    environment = describe_environment(device, None) | {**(provenance or {})}
    contents = _contents(config, metrics, arrays, environment, extras)
    return _write(path, contents, replace=True, any_name=True, checkpoint=checkpoint)


def load_run_at(path: Path | str) -> Run:
    """Return the intact run in a folder of any name."""
    path = Path(path)
    if not path.is_dir():
        raise InputError(f"folder: {path} is not there; give one that was saved")
    return _open_intact(path, any_name=True)


def load_run(root: Path | str, id: str | None = None) -> Run:
    """Return an intact run by its id or a unique beginning of it; without an id, by its folder."""
    path = Path(root) if id is None else Path(root) / match_id(root, id, list_run_ids(root))
    if not path.is_dir():
        raise InputError(f"run: {path} is not a folder; give a run's folder or its id")
    return _open_intact(path)


def list_runs(root: Path | str) -> list[Run]:
    """Return every run under a root, newest first; damaged ones have `problems`."""
    runs = [_open(Path(root) / id_) for id_ in list_run_ids(root)]
    return sorted(runs, key=lambda run: (str(run.environment.get("time", "")), run.id))[::-1]


def list_run_ids(root: Path | str) -> list[str]:
    """Return the id of every run under a root, without reading the runs."""
    paths = _folder(root).iterdir() if _folder(root).is_dir() else ()
    return sorted(path.name for path in paths if _ID.fullmatch(path.name) and path.is_dir())


def remove_run(root: Path | str, id: str) -> str:
    """Delete a run, given its id or a unique beginning of it, and return the id."""
    id_ = match_id(root, id, list_run_ids(root))
    remove_folder(Path(root) / id_)
    return id_


def match_id(root: Path | str, text: str, ids: Collection[str]) -> str:
    """Return the id in a root that equals the text, or that alone begins with it."""
    if text in ids:
        return text
    if not ids:
        raise InputError(f"run: {text!r} is not there; the folder {root} holds no runs")
    matching = [id_ for id_ in ids if text and id_.startswith(text)]
    if not matching:
        near = difflib.get_close_matches(text, ids, n=5, cutoff=0.0)
        problem = unknown("run", text, near)
        more = f"; these are the nearest of {len(ids)} runs" if len(ids) > len(near) else ""
        raise InputError(f"{problem}{more}")
    if len(matching) > 1:
        raise InputError(f"run: {text!r} fits {', '.join(matching)}; give more of the id")
    return matching[0]


def is_run_id(name: str) -> bool:
    """Return whether a name has the form of an id."""
    return _ID.fullmatch(name) is not None


def id_of(config: dict[str, Any], version: str) -> str:
    """Return the id of a configuration, as JSON represents it, under a version of narl."""
    canonical = json.dumps(
        {"config": config, "narl": version},
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=False,
        allow_nan=False,
    )
    words = " ".join(config[field] for field in SLUG_FIELDS if isinstance(config.get(field), str))
    slug = re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:60].strip("-")
    return f"{slug or 'run'}-{hashlib.sha256(canonical.encode()).hexdigest()[:10]}"


def _folder(root: Path | str) -> Path:
    check_name("runs folder", Path(root), "choose another (NARL_RUNS)")
    if Path(root).exists() and not Path(root).is_dir():
        raise InputError(f"runs folder: {root} is not a folder; choose another (NARL_RUNS)")
    return Path(root)


def _open(path: Path, any_name: bool = False) -> Run:
    """Return the run in a folder, with its problems."""
    parts: dict[str, dict[str, Any]] = {}
    with open_folder(path, FILES) as folder:
        problems = list(folder.problems)
        for name in (CONFIG, METRICS, ENVIRONMENT):
            try:
                parts[name] = dict(
                    parse_json(folder.read(name) if name in folder.intact else b"{}")
                )
            except (OSError, ValueError, TypeError):
                parts[name] = {}
                problems = problems or [f"{name} is not JSON"]
    config, metrics, environment = parts.values()
    expected = id_of(config, str(environment.get("narl")))
    if not problems and not any_name and path.name != expected:
        problems = [f"the folder's name does not fit its configuration ({expected})"]
    return Run(path, path.name, config, metrics, environment, tuple(problems))


def _open_intact(path: Path, any_name: bool = False) -> Run:
    """Return the run in a folder; raise an error if the run is damaged."""
    run = _open(path, any_name)
    if run.problems:
        raise _damaged(run.id, run.problems)
    return run


def _is_intact(path: Path) -> bool:
    return not _open(path).problems


def _damaged(id: str, problems: Collection[str]) -> InputError:
    if any(problem.startswith(NEWER) for problem in problems):
        return InputError(f"run {id}: {'; '.join(problems)}")
    return InputError(f"run {id} is damaged: {'; '.join(problems)}; remove it and run again")


def _contents(
    config: Mapping[str, Any],
    metrics: Mapping[str, Any],
    arrays: Mapping[str, Any],
    environment: Mapping[str, Any],
    extras: Mapping[str, bytes] | None,
) -> dict[str, bytes]:
    """Return every file of a run, except the manifest, by name."""
    return {
        CONFIG: json_bytes(to_json_values("config", config)),
        ENVIRONMENT: json_bytes(to_json_values("environment", environment)),
        METRICS: json_bytes(to_json_values("metrics", metrics, non_finite="null")),
        ARRAYS: compressed_npz(arrays),
        **(extras or {}),
    }


def _write(
    path: Path,
    contents: Mapping[str, bytes],
    replace: bool,
    any_name: bool = False,
    checkpoint: Callable[[Path], Any] | None = None,
) -> Run:
    """Write a run folder and return the run; errors name the run or the root."""
    final = path.absolute()
    root = final.parent

    def write(partial: Path) -> dict[str, Digest]:
        if checkpoint is not None:
            checkpoint(partial)
        return {name: create_file(partial / name, contents[name]) for name in contents}

    try:
        write_folder(final, write, keep=lambda existing: not replace and _is_intact(existing))
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            problem = "is not writable"
        elif error.errno in (errno.EEXIST, errno.ENOTDIR) and not root.is_dir():
            problem = "is not a folder"
        else:
            reason = f"run {final.name} was not saved: {error.strerror}"
            raise OSError(error.errno, reason, error.filename) from error
        raise InputError(f"runs folder: {root} {problem}; choose another (NARL_RUNS)") from error
    return _open(path, any_name)
