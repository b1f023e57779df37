"""Random damage to every kind of file: it is noticed, or it changes nothing."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from random import Random

from fault_artifacts import Artifacts, readers
from fault_tally import Tally, call_narl, check_answer, check_status, refused_in_one_line

from narl import storage


def _flip(content: bytes, random: Random, num_bits: int = 1) -> bytes:
    changed = bytearray(content or b"\0")
    for _ in range(num_bits):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _zero(content: bytes, random: Random) -> bytes:
    begin = random.randrange(len(content) + 1)
    size = min(random.randrange(1, 5000), len(content) - begin)
    return content[:begin] + bytes(size) + content[begin + size :]


def _double(content: bytes, random: Random) -> bytes:
    begin = random.randrange(len(content) + 1)
    return content[:begin] + content[begin // 2 : begin] + content[begin:]


BYTES = {
    "a bit flipped": _flip,
    "eight bits flipped": lambda content, random: _flip(content, random, 8),
    "cut short": lambda content, random: content[: random.randrange(len(content) + 1)],
    "bytes added": lambda content, random: content + random.randbytes(random.randrange(1, 50)),
    "zeroed": _zero,
    "a part doubled": _double,
    "random bytes": lambda content, random: random.randbytes(len(content)),
    "empty": lambda content, random: b"",
}
"""Damage to the content of a file."""
PLACES = {
    "deleted": lambda path: None,
    "a folder": lambda path: path.mkdir(),
    "a pipe": lambda path: os.mkfifo(path),
    "a dangling link": lambda path: path.symlink_to("nowhere"),
    "a link to an endless device": lambda path: path.symlink_to("/dev/zero"),
}
"""What stands in the place of a file."""


def mutate(path: Path, random: Random) -> str:
    """Damage a file in a random way, and return in which."""
    kind = random.choice([*BYTES, *BYTES, *PLACES])
    if kind in BYTES:
        path.write_bytes(BYTES[kind](path.read_bytes(), random))
    else:
        path.unlink()
        PLACES[kind](path)
    return kind


def try_mutations(made: Artifacts, number: int, folder: Path, seed: int = 0) -> Tally:
    """Damage one file after another; whatever is read is what was written, or an error."""
    tally, random = Tally("mutations of files"), Random(seed)
    whole = {path.relative_to(made.folder): read(path) for path, read in readers(made).items()}
    whole_lists = _listed(made)
    older = older_checkpoint(made, folder)
    kinds = _kinds_of_files(made)
    for i in range(number):
        copy = made.copy_to(folder / "copy")
        relative = random.choice(kinds[random.choice(sorted(kinds))])
        with tally.trial(f"{i} {relative}", seconds=60):
            kind = mutate(copy.folder / relative, random)
            tally_name = f"{relative} {kind}"
            for path, read in readers(copy).items():
                artifact = path.relative_to(copy.folder)
                if artifact not in (relative, *relative.parents):
                    continue
                found = None
                with refused_in_one_line():
                    found = read(path)
                if found is None:
                    continue
                expected = [whole[artifact]]
                if path == copy.unfinished:
                    expected.append(older)
                if path == copy.agent and found["state"] is None:
                    found = found | {"state": whole[artifact]["state"]}
                if path == copy.sweeps:
                    found = _with_lost_notes(found, whole[artifact], relative)
                assert found in expected, f"SILENT: {tally_name}"
            if copy.sweeps in (copy.folder / relative).parents:
                check_status(copy.runs)
            _check_list(_listed(copy), whole_lists, relative, tally_name)
    return tally


def _check_list(found: dict, whole: dict, damaged: Path, how: str) -> None:
    """Check that the list of runs has the others as they were, and the damaged one with problems.

    A run without its first file is not listed. A damaged log of metrics leaves the rows that can be
    read.
    """
    for name, summary in whole.items():
        is_damaged = damaged.parts[:1] == ("runs",) and damaged.parts[1].startswith(name)
        if found.get(name) == summary:
            continue
        assert is_damaged, f"list: {how} {name}"
        if name not in found:
            assert damaged.name in (storage.MANIFEST, storage.TRAINING_FILE), f"gone: {how} {name}"
        else:
            is_log = damaged.name == storage.METRICS_LOG
            assert found[name]["problems"] or is_log, f"list: {how} {name}"
    assert found.keys() <= whole.keys(), f"list: {how} {found.keys() - whole.keys()}"


def _kinds_of_files(made: Artifacts) -> dict[str, list[Path]]:
    """Return the files by their names, so that every kind is damaged equally often."""
    kinds: dict[str, list[Path]] = {}
    for path in sorted(path for path in made.folder.rglob("*") if path.is_file()):
        name = "sweep.json" if path.name.startswith("sweep-") else path.name
        kinds.setdefault(name, []).append(path.relative_to(made.folder))
    return kinds


def _with_lost_notes(found: dict, whole: dict, file: Path) -> dict:
    """Return the states of a sweep's runs with those that a damaged file no longer tells.

    Without its notes a run that is not done has not failed; it is begun again. Without the record
    of a sweep nothing is listed.
    """
    if file.name.startswith("sweep-"):
        return found or whole
    run_id = file.parent.name
    if whole[run_id]["state"] == "done" or found[run_id]["state"] not in ("unfinished", "waiting"):
        return found
    return found | {run_id: whole[run_id]}


def _listed(made: Artifacts) -> dict[str, dict]:
    """Return the runs as `narl runs` lists them; a damaged one must not disturb the others."""
    answer = call_narl("runs", "--json", "--runs", str(made.runs))
    check_answer(answer, (0,))
    runs = json.loads(answer.out)["runs"]
    changing = ("path", "time", "process")
    return {run["run"]: {k: v for k, v in run.items() if k not in changing} for run in runs}


def older_checkpoint(made: Artifacts, folder: Path) -> dict:
    """Return what is read of the unfinished training where its newest checkpoint is lost."""
    copy = made.copy_to(folder / "copy")
    *others, newest = sorted((copy.unfinished / storage.CHECKPOINTS).iterdir())
    if others:
        shutil.rmtree(newest)
    return readers(copy)[copy.unfinished](copy.unfinished)
