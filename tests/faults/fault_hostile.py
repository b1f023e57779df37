"""Artifacts made to do harm, with valid checksums: refused in one line, in bounded time and memory.

Nothing outside is written to, nothing is executed, and `narl runs` lists the other runs as usual.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import pickle
import resource
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from fault_artifacts import Artifacts, readers, sign_again
from fault_commands import VALID, without_work
from fault_mutations import older_checkpoint
from fault_tally import Tally, call_narl, check_answer, check_status, refused_in_one_line

import narl
from narl import storage
from narl.deep.checked_config import config_from_record
from narl.deep.training_run import run_training
from narl.sweeps.run_notes import recorded_runs
from narl.sweeps.run_task import run_task

MOST_MEMORY = 2 << 30
"""Bytes by which the memory of the process may grow."""
VALUES: list[Any] = [
    *(None, True, -1, 0, 10**30, 10**400, 1.5, "", "x", "\ud800", "a\0b", "../../x", "x" * 5000),
    *([], {}, [[]], {"a": 1}, [None], ["x"], {"": {}}),
]
"""Values that stand where others are expected."""


class _Touch:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.path),)


def _raw_json(random: Random) -> bytes:
    """Return JSON, or nearly, that parsers may stumble over."""
    depth = random.choice([60, 990, 100_000])
    choices = [
        *(b'{"a": NaN}', b'{"a": 1e999}', b'{"a": -Infinity}', b'{"a": "\\ud800"}', b"[]", b"3"),
        *(b'"x"', b"null", b"", b"\xff\xfe", b'{"a": 1, "a": 2}', b'{"a": ' + b"9" * 5000 + b"}"),
        *(b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth),
        b"\xef\xbb\xbf{}",
    ]
    return random.choice(choices)


def _replace_value(value: Any, random: Random) -> Any:
    """Return JSON in which one value, at any depth, is replaced by one that is not expected."""
    if isinstance(value, dict) and value and random.random() < 0.8:
        key = random.choice(sorted(value))
        return {**value, key: _replace_value(value[key], random)}
    if isinstance(value, list) and value and random.random() < 0.5:
        index = random.randrange(len(value))
        return [*value[:index], _replace_value(value[index], random), *value[index + 1 :]]
    return random.choice(VALUES)


def _write_json(path: Path, random: Random) -> None:
    """Put hostile JSON into a file, or a wrong value into its JSON."""
    if random.random() < 0.4:
        path.write_bytes(_raw_json(random))
        return
    value = _replace_value(json.loads(path.read_bytes()), random)
    if isinstance(value, dict) and storage.files.CHECKSUM in value:
        value.pop(storage.files.CHECKSUM)
        with contextlib.suppress(ValueError):  # half a letter
            value = storage.with_checksum(value)
    path.write_bytes(json.dumps(value).encode())


def _header(descr: str, shape: str) -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"
    text = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode("latin1")


def _hostile_npz(random: Random, canary: Path) -> tuple[bytes, bool]:
    """Return an archive that would take much memory, run code or confuse its reader.

    Also return whether it must be refused.
    """
    objects = io.BytesIO()
    np.lib.format.write_array(objects, np.array([1, None]), allow_pickle=True)
    payload = _header("'|O'", "(1,)") + pickle.dumps([_Touch(canary)])
    sound = ("p", _header("'<f8'", "(1,)") + bytes(8))
    must_fail = [
        [("p", objects.getvalue())],
        [("p", payload)],
        [("p", _header("'<f8'", "(99999999999999,)") + b"x")],
        [("p", _header("'<f8'", "(99999999, 99999999, 99999999, 99999999)"))],
        [("p", _header("'<f8'", "(-2, -3)") + bytes(48))],
        [("p", _header("'<f8'", "(" * 3000 + ")" * 3000))],
        [("p", _header("[('a', '<f8')]", "(1,)") + bytes(8))],
        [("p", b"\x93NUMPY\x09\x00" + bytes(50))],
        [("p", b"no array")],
        [sound] * 2,
    ]
    may_pass = [
        [("p", _header("'<U0'", "(10000000000,)"))],  # no bytes at all
        [("../../evil", sound[1])],  # names of arrays are no names of files
    ]
    members: list[tuple[str, bytes]] = random.choice([*must_fail, *may_pass])
    if random.random() < 0.25:
        declares_more = random.random() < 0.5
        return _bomb(declares_more), declares_more
    buffer = io.BytesIO()
    warnings.filterwarnings("ignore", "Duplicate name")
    with zipfile.ZipFile(buffer, "w", random.choice([0, 8])) as archive:
        for name, content in members:
            archive.writestr(f"{name}.npy", content)
    return buffer.getvalue(), members in must_fail


@functools.cache
def _bomb(declares_more: bool) -> bytes:
    """Return a small archive that unpacks to 256 MB, or says that it unpacks to 4 GB."""
    size, buffer = 1 << 28, io.BytesIO()
    header = _header("'<f8'", f"({size // 8},)")
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("p.npy", header + bytes(size))
    sizes = [(size + len(header)).to_bytes(4, "little"), (0xFFFFFF00).to_bytes(4, "little")]
    return buffer.getvalue().replace(*sizes) if declares_more else buffer.getvalue()


def _change_manifest(folder: Path, random: Random) -> bool:
    """Give a manifest a name that leads elsewhere, a format of the future, or wrong entries.

    Return whether it must be refused: a run or a step may be read from elsewhere.
    """
    file = folder / storage.MANIFEST
    manifest = storage.without_checksum(json.loads(file.read_bytes()))
    files = manifest["files"]
    name = random.choice(
        ["../outside", "/etc/passwd", "a\0", "x" * 300, ".", "", "é\u202e", "\ud800"]
    )
    changes = [
        {"files": {**files, name: next(iter(files.values()))}},
        {"schema": random.choice([2, 99, 10**30, -1, 0, "1", True, None, [1]])},
        {"files": random.choice(VALUES)},
        {"files": {key: random.choice(VALUES) for key in files}},
        {"run": random.choice(VALUES)},
        {"step": random.choice(VALUES)},
    ]
    change = random.choice(changes)
    manifest |= change
    try:
        file.write_bytes(storage.json_bytes(storage.with_checksum(manifest)))
    except ValueError:
        file.write_bytes(json.dumps(manifest).encode())
    return bool(change.keys() & {"files", "schema"})


def _put_special(path: Path, random: Random, outside: Path) -> None:
    """Put a link, a pipe or a device in the place of a file or folder."""
    if path.is_dir():
        path.rename(path.with_name("moved-away"))
    else:
        path.unlink(missing_ok=True)
    kind = random.choice(["link", "dangling", "device", "pipe", "loop", "directory"])
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        targets = {"link": outside, "device": "/dev/zero", "loop": path.name}
        path.symlink_to(targets.get(kind, "nowhere"))


def _hostile_toml(random: Random) -> bytes:
    """Return a grid that is no TOML, or has entries of wrong types, or far too many runs."""
    depth = random.choice([60, 990, 100_000])
    numbers = ",".join(map(str, range(2000))).encode()
    choices = [
        *(b"half = []", b"half = {}", b"half = 1", b"grid = 3", b"grid = [1]", b"[grid]\na=1"),
        *(b"env = 2020-01-01", b"env = nan", b"env = []", b"env = [[]]", b"env = ''", b"= 1"),
        *(b"\xff", b"\0", b"", b"a = " + b"[" * depth + b"]" * depth, b"x.y.z = 1\n" * 1000),
        *(b"env = 'evil:X-v0'", b"env = '../../x'", b"env = 'Pendulum-v1'\nsteps = " + b"9" * 5000),
        b"[" + b"a." * depth + b"b]\nenv = 1",
        b"env = 'Pendulum-v1'\nseeds = [" + numbers + b"]\nradius = [1.5, [], {}]",
        b"env = 'Pendulum-v1'\nseeds = '0:99999999999'",
        b"env = 'Pendulum-v1'\nsteps = [" + numbers + b"]\nbatch = [" + numbers + b"]",
        b"half = 'tabular'\nagent = 'psrl'\nenv = '/dev/zero'",
        b"env = 'Pendulum-v1'\nhidden = [[-1], ['x'], [1e400]]\nkeep_data = 1",
    ]
    return random.choice(choices)


def make_hostile(copy: Artifacts, random: Random, outside: Path) -> tuple[str, Path | None]:
    """Make one of the artifacts hostile; return how, and the file if it must be refused."""
    must_fail = False
    checkpoint = max((copy.unfinished / storage.CHECKPOINTS).iterdir())
    folders = [copy.finished, checkpoint, *copy.agent.glob(f"{storage.CHECKPOINTS}/*")]
    if copy.kept is not None:
        folders += [copy.kept, *copy.kept.glob(f"{storage.CHECKPOINTS}/*")]
    folder = random.choice([*folders, *copy.folder.glob("agent")])
    notes = sorted(path for path in copy.sweeps.rglob("*") if path.is_file())
    kind = random.choice(["json", "npz", "manifest", "special", "file", "notes", "grid"])
    if kind == "json":
        names = [path for path in folder.glob("*.json") if path.name != storage.MANIFEST]
        path = random.choice([*names, copy.unfinished / storage.TRAINING_FILE, copy.outcome])
        _write_json(path, random)
        if path.parent == folder:
            sign_again(folder)
    elif kind == "npz":
        path = random.choice([folder / "arrays.npz", copy.mdp])
        content, must_fail = _hostile_npz(random, outside.parent / "executed")
        path.write_bytes(content)
        if path != copy.mdp:
            sign_again(folder)
    elif kind == "manifest":
        path = folder / storage.MANIFEST
        must_fail = _change_manifest(folder, random)
    elif kind == "special":
        parts = [
            copy.unfinished / name for name in (storage.CHECKPOINTS, storage.METRICS_LOG, ".lock")
        ]
        places = [*notes, *copy.sweeps.iterdir(), copy.sweeps, copy.grid]
        path = random.choice([*folder.iterdir(), *parts, copy.outcome, copy.mdp, *places])
        _put_special(path, random, outside)
    elif kind == "notes":
        path = random.choice([path for path in notes if path.suffix == ".json"])
        _write_json(path, random)
    elif kind == "grid":
        path = copy.grid
        path.write_bytes(_hostile_toml(random))
    else:
        path = copy.unfinished / random.choice([".lock", storage.METRICS_LOG])
        digits = b"9" * random.choice([3, 30, 5000])
        path.write_bytes(random.choice([digits, _raw_json(random), b"\0" * 100]))
    return f"{kind} {path.relative_to(copy.folder)}", path if must_fail else None


def try_hostile(
    made: Artifacts, number: int, folder: Path, seed: int = 0, *, trains: bool = True
) -> Tally:
    """Open hostile artifacts in every way that narl has; with `trains`, also continue trainings."""
    tally, random = Tally("hostile artefacts"), Random(seed)
    config = config_from_record(storage.open_unfinished_run(made.unfinished).config)
    whole = {path.relative_to(made.folder): read(path) for path, read in readers(made).items()}
    older = older_checkpoint(made, folder)
    for i in range(number):
        copy, outside = made.copy_to(folder / "copy"), folder / "outside"
        outside.write_text("precious")
        what = f"{i}"
        with tally.trial(what, seconds=60):
            how, refused = make_hostile(copy, random, outside)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            for path, read in readers(copy).items():
                found = None
                with _harmless(f"{how}: {path.name}"):
                    found = read(path)
                if (
                    refused is not None
                    and found is not None
                    and path in (refused, *refused.parents)
                ):
                    artifact = path.relative_to(copy.folder)
                    if path == copy.agent and found["state"] is None:
                        found = found | {"state": whole[artifact]["state"]}
                    others = [older] if path == copy.unfinished else []
                    assert found in [whole[artifact], *others], f"{how}: {path.name} was accepted"
            check_listing(copy, how)
            if i % 20 == 4 or any(
                name in how for name in ("sweeps", "grid", copy.kept_id or "grid")
            ):
                _check_sweeps(copy, how)
            if i % 10 == 9:  # drawing takes long
                words = ["report", copy.finished.name, "--out", str(folder / "r.html")]
                check_answer(call_narl(*words, "--runs", str(copy.runs)))
            if trains and copy.unfinished.name in how:
                with _harmless(f"{how}: train"):
                    _begin_training(config, copy.runs)
            grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
            assert grown < MOST_MEMORY, f"{how}: {grown / 1e9:.1f} GB of memory"
            assert outside.read_text() == "precious", f"{how}: a file outside was changed"
            assert not (folder / "executed").exists(), f"{how}: it was executed"
    return tally


def check_listing(copy: Artifacts, how: str) -> None:
    """Check that `narl runs` lists the runs that nobody has touched."""
    answer = call_narl("runs", "--json", "--runs", str(copy.runs))
    check_answer(answer, (0,))
    runs = {run["run"]: run["problems"] for run in json.loads(answer.out)["runs"]}
    tabular = [name for name in runs if name.startswith("tabular")]
    assert len(tabular) == 2, how
    assert not any(runs[name] for name in tabular), how
    check_answer(call_narl("runs", "--runs", str(copy.runs)), (0,))


def _check_sweeps(copy: Artifacts, how: str) -> None:
    """Show and plan sweeps, begin a run of one as a worker, and extend the kept run."""
    check_status(copy.runs)
    runs = f"--runs={copy.runs}"
    with without_work():
        for words in (
            ["sweep", str(copy.grid), "--dry-run", runs],
            ["sweep", "Pendulum-v1", "--algo=sac", runs],
            ["train", "--extend", copy.kept_id or copy.finished_id, "--steps=80", runs],
        ):
            answer = call_narl(*words)
            if VALID in answer.err:
                continue
            if answer.status == 1 and f"narl: {copy.folder}" in answer.err:
                continue  # an error of the system that names a file
            check_answer(answer)
        for run in recorded_runs(copy.runs):
            with _harmless(f"{how}: worker"), contextlib.redirect_stderr(io.StringIO()):
                run_task([run], copy.runs)


def _begin_training(config: narl.deep.Config, root: Path) -> None:
    """Begin a training again, up to its first step."""
    with contextlib.suppress(narl.deep.TrainingStopped):
        run_training([config], root, should_stop=lambda: True)


@contextlib.contextmanager
def _harmless(how: str) -> Iterator[None]:
    """Allow an InputError of one line, and an error of the system that names a file."""
    try:
        with refused_in_one_line():
            yield
    except OSError as error:
        if not error.filename:
            raise
    except Exception as error:
        raise AssertionError(f"{how}: {type(error).__name__}: {error}") from error
