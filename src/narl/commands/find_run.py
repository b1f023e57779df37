"""The look-up of what a user names on the command line: a run, or a policy to play."""

from __future__ import annotations

import os
import re
from pathlib import Path

from narl import storage
from narl.errors import InputError
from narl.storage import (
    MANIFEST,
    PART_SUFFIX,
    TRAINING_FILE,
    Run,
    UnfinishedRun,
    list_run_ids,
    list_runs,
    list_unfinished_runs,
)

RUN_HELP = "id of a run, its beginning or its last ten digits, its folder, or latest"
_DIGITS = re.compile(r"[0-9a-f]{4,10}")


def find_run(root: Path, text: str, *, unfinished_first: bool = False) -> Run | UnfinishedRun:
    """Return the run that a text names; see `RUN_HELP`."""
    return storage.find_run(root, _name(root, text), unfinished_first=unfinished_first)


def find_run_folder(root: Path, text: str) -> Path:
    """Return the folder of the run that a text names, without reading it."""
    return storage.find_run_folder(root, _name(root, text))


def find_policy(root: Path, text: str) -> tuple[Path, bool]:
    """Return the folder that holds a policy, and whether its training is finished.

    A policy is named as a run is, or by the folder of a saved agent.
    """
    if text.strip() and os.path.isfile(Path(text) / MANIFEST):
        return Path(text), True
    try:
        run = find_run(root, text)
    except InputError:
        if text.strip() and os.path.isdir(text) and not os.path.isfile(Path(text) / TRAINING_FILE):
            raise InputError(
                f"run: the folder {text} holds no policy (no {MANIFEST}); give the id of a run, or "
                "a folder that agent.save or narl train made"
            ) from None
        raise
    if not isinstance(run, UnfinishedRun):
        return run.path, True
    if not run.step:
        raise InputError(f"run: {run.path.name} has no checkpoint yet; wait for its first epoch")
    return run.path, False


def _name(root: Path, text: str) -> str:
    """Return the id or folder that a text stands for."""
    if not text.strip():
        raise InputError("RUN: it is empty; give the id of a run (`narl runs` lists them)")
    if text == "latest":
        return _latest(root)
    if os.path.dirname(text) and not os.path.exists(text):
        raise InputError(f"RUN: no such folder: {text}; `narl runs` lists the runs by id")
    if _DIGITS.fullmatch(text):
        parts = [path.name for path in root.glob(f"*{PART_SUFFIX}")] if root.is_dir() else []
        names = [*list_run_ids(root), *parts]
        fitting = [name for name in names if name.removesuffix(PART_SUFFIX).endswith(text)]
        if len(fitting) == 1:
            return fitting[0]
    return text


def _latest(root: Path) -> str:
    """Return the name of the newest run, finished or not."""
    times = {run.path.name: run.time for run in list_unfinished_runs(root)}
    times |= {run.id: str(run.environment.get("time", "")) for run in list_runs(root)}
    if not times:
        raise InputError(f"RUN: the folder {root} holds no runs; --runs DIR names another folder")
    return max(times, key=lambda name: times[name])
