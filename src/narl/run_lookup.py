"""The look-up of what a user names, on the command line or in Python: a run, or a policy.

`command_line` is the way back: a command about a run, as the user can type it.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from narl import storage
from narl.errors import InputError, did_you_mean
from narl.storage import (
    MANIFEST,
    PART_SUFFIX,
    Run,
    UnfinishedRun,
    default_root,
    list_run_ids,
    list_runs,
    list_unfinished_runs,
    run_id,
)
from narl.storage.runs import is_run_id

RUN_HELP = "id of a run, its beginning or its last ten digits, its folder, or latest"
POLICY_HELP = f"{RUN_HELP}; or a saved agent's folder, or a pretrained policy such as hopper"
_DIGITS = re.compile(r"[0-9a-f]{4,10}")


def find_run(
    root: Path, text: str, *, unfinished_first: bool = False, of_training: bool = False
) -> Run | UnfinishedRun:
    """Return the run that a text names; see `RUN_HELP`.

    With ``of_training`` latest is the latest training, and not a later tabular run.
    """
    name = _name(root, text, of_training)
    with _suggesting_latest(text):
        run = storage.find_run(root, name, unfinished_first=unfinished_first)
    if isinstance(run, Run) and not is_run_id(run.id):
        raise InputError(
            f"run: {run.path} does not have the name of a run ({run_id(run.config)}); if it is a "
            "saved agent, narl.load and `narl eval` take it"
        )
    return run


def find_run_folder(root: Path, text: str) -> Path:
    """Return the folder of the run that a text names, without reading it."""
    with _suggesting_latest(text):
        return storage.find_run_folder(root, _name(root, text))


@contextlib.contextmanager
def _suggesting_latest(text: str) -> Iterator[None]:
    """Suggest latest in the error about a name that is alike."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{error}{did_you_mean(text, ['latest'])}") from error


def find_policy(root: Path, text: str) -> tuple[Path, bool]:
    """Return the folder that holds a policy, and whether its training is finished.

    A policy is named as a run is, by the folder of a saved agent, or as in `pretrained_policies`;
    a run or a folder of the same name takes precedence.
    """
    if text.strip() and os.path.isfile(Path(text) / MANIFEST):
        return Path(text), True
    try:
        storage.find_run_folder(root, _name(root, text, of_training=True))
    except InputError as error:
        return _pretrained_policy(text, error), True
    run = find_run(root, text, of_training=True)
    if not isinstance(run, UnfinishedRun):
        return run.path, True
    if not run.step:
        raise InputError(
            f"run: {run.path.name} has no checkpoint yet; wait for its first epoch, or resume it"
        )
    return run.path, False


def pretrained_policies() -> dict[str, Path]:
    """Return the folders of the policies that come with narl's repository, by name.

    They are in the clone from which narl is imported (an editable installation), or else in the
    folder `policies` of the working folder.
    """
    clone = Path(__file__).resolve().parents[2]
    root = (clone if (clone / "pyproject.toml").is_file() else Path()) / "policies"
    return {path.parent.name: path.parent for path in sorted(root.glob(f"*/{MANIFEST}"))}


def command_line(*words: str, runs: Path | None = None, trust: bool = False) -> str:
    """Return a command of narl as it can be typed.

    The folder ``runs`` of the runs is named unless it is the default; ``trust`` lets the command
    import the module of the environment.
    """
    is_default = runs is None or runs.resolve() == default_root().resolve()
    root = [] if is_default else ["--runs", str(runs)]
    return shlex.join(["narl", *words, *root, *(["--trust-env-module"] if trust else [])])


def _pretrained_policy(text: str, error: InputError) -> Path:
    """Return the folder of a pretrained policy; ``error`` says that no run has its name."""
    if text.strip() and os.path.isdir(text):
        raise InputError(
            f"run: the folder {text} holds no policy (no {MANIFEST}); give the id of a run, or a "
            "folder that agent.save or narl train made"
        )
    policies = pretrained_policies()
    if text in policies:
        return policies[text]
    if not text.strip() or os.path.dirname(text):
        raise error
    names = ", ".join(policies) or "none here; they are found in the folder of narl's clone"
    hint = did_you_mean(text, ["latest", *policies]) or ";"
    raise InputError(f"{error}{hint} pretrained policies: {names}")


def _name(root: Path, text: str, of_training: bool = False) -> str:
    """Return the id or folder that a text stands for."""
    if not text.strip():
        listed = command_line("runs", runs=root)
        raise InputError(f"RUN: it is empty; give the id of a run (`{listed}` lists them)")
    if text == "latest":
        return _latest(root, of_training)
    if os.path.dirname(text) and not os.path.exists(text):
        listed = command_line("runs", runs=root)
        raise InputError(f"RUN: no such folder: {text}; `{listed}` lists the runs by id")
    if _DIGITS.fullmatch(text):
        parts = [path.name for path in root.glob(f"*{PART_SUFFIX}")] if root.is_dir() else []
        names = [*list_run_ids(root), *parts]
        fitting = [name for name in names if name.removesuffix(PART_SUFFIX).endswith(text)]
        if len(fitting) == 1:
            return fitting[0]
    return text


def _latest(root: Path, of_training: bool) -> str:
    """Return the name of the newest run, or of the newest training, finished or not."""
    times = {run.path.name: run.time for run in list_unfinished_runs(root)}
    times |= {
        run.id: str(run.environment.get("time", ""))
        for run in list_runs(root)
        if not of_training or run.config.get("experiment") == "train"
    }
    if not times:
        kind = "trainings" if of_training else "runs"
        raise InputError(
            f"RUN: the folder {root} holds no {kind}; name another (--runs, NARL_RUNS)"
        )
    return max(times, key=lambda name: times[name])
