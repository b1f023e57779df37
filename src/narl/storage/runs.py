"""Run folders: what a run was given, what it ran on, what came out, with checksums.

A run is a folder `<root>/<id>/` of config.json, environment.json, metrics.json, arrays.npz and
manifest.json (size and SHA-256 of the other four). It is written under a hidden temporary name
beside its final place, flushed to disk and renamed, so what stands under the final name is
whole. The id is a readable slug and the first 10 hex digits of the SHA-256 over the canonical
JSON of {"config", "narl" version}: the same configuration finds its finished run again.

JSON holds no NaN: in the configuration a non-finite number is refused; in the metrics it
becomes null (a finished run is not lost over one undefined figure; arrays keep raw values).
"""

import difflib
import errno
import hashlib
import io
import json
import logging
import os
import re
import time
import uuid
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from narl import __version__
from narl.errors import InputError, unknown
from narl.storage.folder import (
    check_writable,
    checksum,
    flush_folder,
    json_bytes,
    remove_tree,
    to_json_values,
    write_new_file,
)
from narl.storage.provenance import describe_environment

FILES = ("config.json", "environment.json", "metrics.json", "arrays.npz")
MANIFEST = "manifest.json"
SLUG_FIELDS = ("experiment", "agent", "algo", "env")
STALE_SECONDS = 3600.0
"""A hidden temporary folder this old belongs to no save in progress and is removed."""

_ID = re.compile(r"[a-z0-9-]+-[0-9a-f]{10}")
_PARTIAL = ".partial-"
_log = logging.getLogger("narl")


@dataclass(frozen=True)
class Run:
    """A run on disk. `problems` is empty for an intact one; what could not be read is {}."""

    path: Path
    id: str
    config: dict[str, Any]
    metrics: dict[str, Any]
    environment: dict[str, Any]
    problems: tuple[str, ...] = ()

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays, checked against the manifest before they are parsed; never pickle."""
        problems, contents = _read(self.path)
        if problems:
            raise _damaged(self.id, problems)
        with np.load(io.BytesIO(contents["arrays.npz"]), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}

    def extra(self, name: str) -> bytes:
        """A further file that the run was kept with."""
        problems, contents = _read(self.path)
        if problems:
            raise _damaged(self.id, problems)
        if name not in contents:
            raise InputError(f"run {self.id}: it holds no {name}")
        return contents[name]


def default_root() -> Path:
    """Where runs are kept: the folder in the variable NARL_RUNS, or `runs` here."""
    return Path(os.environ.get("NARL_RUNS") or "runs")


def check_root(root: Path | str) -> Path:
    """The root, once it is clear that runs can be kept there; to be called before a long run."""
    check_writable("runs folder", Path(root), "choose another (NARL_RUNS)")
    return Path(root)


def run_id(config: Mapping[str, Any]) -> str:
    """The id of a configuration under this version of narl."""
    return _id(to_json_values("config", config), __version__)


def find_run(root: Path | str, config: Mapping[str, Any]) -> Run | None:
    """The finished run of this configuration, if there is an intact one."""
    path = _folder(root) / run_id(config)
    if not path.is_dir():
        return None
    run = _open(path)
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
) -> Run:
    """Keep a finished run. An intact one of the same id stays, unless `replace`.

    `extras` are further files, by name.
    """
    root, config = Path(root), to_json_values("config", config)
    contents, environment = _contents(config, metrics, arrays, device, seconds, extras)
    id_ = _id(dict(config), environment["narl"])
    final = root / id_
    if not replace and final.is_dir() and not (run := _open(final)).problems:
        return run
    _write(root / id_, contents, replace)
    _clean(root)
    return _open(final)


def move_run(run: Run, root: Path | str, replace: bool = False) -> Run:
    """Moves a run that was saved under another root of the same disk."""
    final = Path(root) / run.id
    _publish(run.path, final, replace)
    flush_folder(final.parent)
    return _open(final)


def save_run_at(
    path: Path | str,
    config: Mapping[str, Any],
    metrics: Mapping[str, Any],
    arrays: Mapping[str, Any],
    *,
    device: str = "cpu",
    seconds: float | None = None,
    extras: Mapping[str, bytes] | None = None,
) -> Run:
    """A run folder under a name of the user's own; one that is there is replaced."""
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise InputError(f"folder: {path} is a file; choose another name")
    if path.is_dir() and not (path / MANIFEST).is_file() and any(path.iterdir()):
        raise InputError(f"folder: {path} holds other things; choose another name")
    config = to_json_values("config", config)
    contents, _ = _contents(config, metrics, arrays, device, seconds, extras)
    _write(path.absolute(), contents, replace=True)
    return _open(path, any_name=True)


def load_run_at(path: Path | str) -> Run:
    """What `save_at` or `save` left in a folder, whatever its name is now."""
    path = Path(path)
    if not path.is_dir():
        raise InputError(f"folder: {path} is not there; give one that was saved")
    run = _open(path, any_name=True)
    if run.problems:
        raise _damaged(run.id, run.problems)
    return run


def load_run(root: Path | str, id: str | None = None) -> Run:
    """A run by its id, or a unique beginning of it; without an id, `root` is the run itself."""
    path = Path(root) if id is None else _resolve(Path(root), id)
    if not path.is_dir():
        raise InputError(f"run: {path} is not a folder; give a run's folder or its id")
    run = _open(path)
    if run.problems:
        raise _damaged(run.id, run.problems)
    return run


def list_runs(root: Path | str) -> list[Run]:
    """Every run under the root, newest first; a damaged one is listed too, with `problems`."""
    runs = [_open(path) for path in _folders(Path(root))]
    return sorted(runs, key=lambda run: (str(run.environment.get("time", "")), run.id))[::-1]


def list_run_ids(root: Path | str) -> list[str]:
    """The id of every run under the root, unread."""
    return sorted(path.name for path in _folders(Path(root)))


def remove_run(root: Path | str, id: str) -> str:
    """Delete a run, given its id or a unique beginning of it; returns the id."""
    path = _resolve(Path(root), id)
    hidden = path.with_name(f"{_PARTIAL}{path.name}-{uuid.uuid4().hex[:8]}")
    path.rename(hidden)  # first out of sight, so that a crash leaves no half of a run
    remove_tree(hidden)
    return path.name


def verify(run: Run) -> list[str]:
    """What is wrong with a run's folder now, a line each; empty when it is intact."""
    return list(_open(run.path).problems)


def _open(path: Path, any_name: bool = False) -> Run:
    problems, contents = _read(path)
    parts: dict[str, dict[str, Any]] = {}
    for name in ("config.json", "metrics.json", "environment.json"):
        try:
            parts[name] = dict(json.loads(contents.get(name, b"{}")))
        except (ValueError, TypeError):
            parts[name] = {}
            problems = [*problems, f"{name} is not JSON"]
    config, metrics, environment = parts.values()
    expected = _id(config, str(environment.get("narl")))
    if not problems and not any_name and path.name != expected:
        problems = [f"the folder's name does not fit its configuration ({expected})"]
    return Run(path, path.name, config, metrics, environment, tuple(problems))


def _read(path: Path) -> tuple[list[str], dict[str, bytes]]:
    """What differs from the manifest, and the contents of the files that could be read."""
    problems: list[str] = []
    contents: dict[str, bytes] = {}
    for name in (*FILES, MANIFEST):
        try:
            contents[name] = (path / name).read_bytes()
        except OSError as error:
            problems.append(f"{name} cannot be read ({error.strerror})")
    try:
        recorded = dict(json.loads(contents.get(MANIFEST, b""))["files"])
    except (ValueError, TypeError, KeyError):
        return [*problems, f"{MANIFEST} is damaged"], contents
    for name in (*FILES, *sorted(set(recorded) - set(FILES))):
        if name not in FILES:
            try:
                contents[name] = (path / Path(name).name).read_bytes()
            except OSError as error:
                problems.append(f"{name} cannot be read ({error.strerror})")
        if name in contents and recorded.get(name) != checksum(contents[name]):
            problems.append(f"{name} differs from its checksum")
    return problems, contents


def _contents(
    config: Mapping[str, Any],
    metrics: Mapping[str, Any],
    arrays: Mapping[str, Any],
    device: str,
    seconds: float | None,
    extras: Mapping[str, bytes] | None,
) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Every file of a run by name, and what it ran on."""
    environment = describe_environment(device, seconds)
    contents = {
        "config.json": json_bytes(config),
        "environment.json": json_bytes(environment),
        "metrics.json": json_bytes(to_json_values("metrics", metrics, non_finite="null")),
        "arrays.npz": _npz(arrays),
    }
    contents |= extras or {}
    contents[MANIFEST] = json_bytes(
        {"files": {name: checksum(contents[name]) for name in contents}}
    )
    return contents, environment


def _write(final: Path, contents: Mapping[str, bytes], replace: bool) -> None:
    """Puts a folder under its name when all of it is on the disk."""
    partial = final.with_name(f"{_PARTIAL}{final.name}-{uuid.uuid4().hex[:8]}")
    try:
        _make(partial)
        for name, content in contents.items():
            write_new_file(partial / name, content)
        flush_folder(partial)
        _publish(partial, final, replace)
        flush_folder(final.parent)
    except OSError as error:
        reason = f"run {final.name} was not saved: {error.strerror}"
        raise OSError(error.errno, reason) from error
    finally:
        remove_tree(partial)


def _folder(root: Path | str) -> Path:
    if Path(root).exists() and not Path(root).is_dir():
        raise InputError(f"runs folder: {root} is not a folder; choose another (NARL_RUNS)")
    return Path(root)


def _folders(root: Path) -> list[Path]:
    paths = root.iterdir() if _folder(root).is_dir() else ()
    return [path for path in paths if _ID.fullmatch(path.name) and path.is_dir()]


def _resolve(root: Path, id: str) -> Path:
    names = list_run_ids(root)
    if not names:
        raise InputError(f"run: {id!r} is not there; {root} holds no runs")
    fitting = [id] if id in names else [name for name in names if id and name.startswith(id)]
    if not fitting:
        raise unknown("run", id, difflib.get_close_matches(id, names, n=5, cutoff=0.0))
    if len(fitting) > 1:
        raise InputError(f"run: {id!r} fits {', '.join(fitting)}; give more of the id")
    return root / fitting[0]


def _make(partial: Path) -> None:
    try:
        partial.mkdir(parents=True)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTDIR):
            reason = "is not a folder"
        elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            reason = "is not writable"
        else:
            raise
        raise InputError(
            f"runs folder: {partial.parent} {reason}; choose another (NARL_RUNS)"
        ) from error


def _publish(partial: Path, final: Path, replace: bool) -> None:
    """Rename to the final name; of two that do so at once, one wins and both are content."""
    while True:
        try:
            partial.rename(final)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                raise
        else:
            return
        if not replace and not _open(final).problems:
            return
        aside = final.with_name(f"{_PARTIAL}{final.name}-{uuid.uuid4().hex[:8]}")
        try:
            final.rename(aside)
        except FileNotFoundError:
            continue  # another process moved it first
        remove_tree(aside)


def _clean(root: Path) -> None:
    """Remove what saves that were killed have left behind."""
    for path in root.glob(f"{_PARTIAL}*"):
        try:
            stale = time.time() - path.stat().st_mtime > STALE_SECONDS
        except OSError:
            continue
        if stale:
            remove_tree(path)


def _npz(arrays: Mapping[str, Any]) -> bytes:
    """An .npz of the arrays, the same bytes for the same values."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, value in arrays.items():
            array = np.asarray(value)
            if not re.fullmatch(r"[A-Za-z0-9_.-]+", str(name)):
                raise InputError(f"arrays: name {name!r} given; use letters, digits, _ . -")
            if array.dtype.kind not in "biufcSUmM":
                raise InputError(f"arrays.{name}: dtype {array.dtype} given; must be plain numbers")
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
    return buffer.getvalue()


def _id(config: dict[str, Any], version: str) -> str:
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


def _damaged(id: str, problems: list[str] | tuple[str, ...]) -> InputError:
    return InputError(f"run {id} is damaged: {'; '.join(problems)}; remove it and run again")
