"""Checkpoints are loaded bit for bit, or skipped with the reason."""

import contextlib
import json
import os
import shutil
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from narl.errors import InputError
from narl.storage import arrays as npz
from narl.storage import checkpoints
from narl.storage.checkpoints import (
    Checkpoints,
    checkpoint_problems,
    has_checkpoints,
    load_checkpoint,
    newest_step,
    save_checkpoint,
)
from narl.storage.files import checksum, json_bytes

NOTES = {"epoch": 3, "generator": 2**127 + 1, "offset": 170, "name": "ε", "none": None, "x": 0.1}
LARGE = 10_000
"""Bytes; more than what is written in the foreground in these tests."""


def state(step: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(step)
    return {
        "buffer.obs": rng.normal(size=(40, 3)).astype(np.float32),
        "count": np.array(step),
        "key": rng.integers(0, 2**32, size=2, dtype=np.uint32),
    }


def large_state(step: int) -> dict[str, np.ndarray]:
    return state(step) | {f"rows.{i}": np.full((i + 1, 100), step, np.float32) for i in range(3)}


def assert_same(left: dict, right: dict) -> None:
    assert sorted(left) == sorted(right)
    for name in left:
        assert left[name].dtype == right[name].dtype, name
        assert left[name].shape == right[name].shape, name
        assert left[name].tobytes() == right[name].tobytes(), name


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def flip_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


@pytest.fixture
def two(tmp_path):
    """A folder with checkpoints at steps 1 and 2."""
    for step in (1, 2):
        save_checkpoint(tmp_path, step, state(step), {**NOTES, "step": step})
    return tmp_path


@pytest.fixture
def small_limits(monkeypatch):
    """Arrays of 400 bytes are large, checkpoints of 1000 are written in the background."""
    monkeypatch.setattr(npz, "LARGE", 400)
    monkeypatch.setattr(checkpoints, "BACKGROUND", 1000)


def test_checkpoint_is_loaded_bit_for_bit(tmp_path, monkeypatch):
    monkeypatch.setattr(npz, "CHUNK", 64)
    # NaN with two payloads and both signs, -0.0, infinities, a subnormal
    bits = [0x7FC00001, 0xFFC12345, 0x80000000, 0x7F800000, 0xFF800000, 1, 0x3F800000]
    arrays = {
        "odd": np.array(bits, np.uint32).view(np.float32),
        "scalar": np.array(7, np.int64),
        "empty": np.zeros((0, 4), np.float32),
        "flags": np.array([[True], [False]]),
        "fortran": np.asfortranarray(np.arange(6, dtype=np.int16).reshape(2, 3)),
        "strided": np.arange(20, dtype=np.float64)[::3],
        "big.endian": np.arange(3, dtype=">f4"),
        "half": np.array([1.5, np.nan], np.float16),
        "longer-than-a-chunk": np.arange(1001, dtype=np.int16),
        "x": np.arange(2),
        "x.npy": np.arange(3),
    }
    path = save_checkpoint(tmp_path / "run" / "checkpoints", 12345, arrays, NOTES)
    assert path == tmp_path / "run" / "checkpoints" / "step-000012345"
    assert names(path) == ["arrays.npz", "manifest.json", "notes.json"]
    loaded = load_checkpoint(path.parent)
    assert (loaded.step, loaded.path, loaded.skipped) == (12345, path, ())
    assert loaded.notes == NOTES
    assert_same(loaded.arrays, arrays)


def test_archive_is_read_by_numpy(two):
    with np.load(two / "step-000000002" / "arrays.npz", allow_pickle=False) as arrays:
        assert_same(dict(arrays), state(2))


def test_large_arrays_have_files_of_their_own(tmp_path, small_limits):
    path = save_checkpoint(tmp_path, 1, large_state(1), NOTES)
    files = ["arrays-1.npz", "arrays-2.npz", "arrays-3.npz", "arrays-4.npz", "arrays.npz"]
    assert names(path) == [*files, "manifest.json", "notes.json"]
    loaded = load_checkpoint(tmp_path)
    assert loaded.notes == NOTES
    assert_same(loaded.arrays, large_state(1))
    listed = json.loads((path / "manifest.json").read_text())["files"]
    assert listed == {name: checksum((path / name).read_bytes()) for name in [*files, "notes.json"]}


@pytest.mark.parametrize("name", ["arrays.npz", "arrays-4.npz", "notes.json", "manifest.json"])
def test_flipped_bits_are_noticed_and_the_previous_checkpoint_used(
    tmp_path, small_limits, name, caplog
):
    for step in (1, 2):
        save_checkpoint(tmp_path, step, large_state(step), {"step": step})
    file = tmp_path / "step-000000002" / name
    content, rng = file.read_bytes(), np.random.default_rng(0)
    for place in rng.integers(len(content), size=15):
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        file.write_bytes(damaged)
        caplog.clear()
        loaded = load_checkpoint(tmp_path)
        assert (loaded.step, loaded.notes) == (1, {"step": 1}), place
        assert_same(loaded.arrays, large_state(1))
        (skipped,) = loaded.skipped
        if name != "manifest.json":
            assert skipped == f"step-000000002: {name} differs from its checksum"
        assert caplog.messages == [
            "checkpoint {} is damaged and not used: {}".format(*skipped.split(": ", 1))
        ]
    file.write_bytes(content)
    assert load_checkpoint(tmp_path).step == 2


def write_no_archive(path: Path) -> None:
    """Replace the archive by other bytes and give them the right checksum."""
    (path / "arrays.npz").write_bytes(b"no archive")
    digests = {name: checksum((path / name).read_bytes()) for name in ("arrays.npz", "notes.json")}
    (path / "manifest.json").write_bytes(json_bytes({"step": 2, "files": digests}))


@pytest.mark.parametrize(
    ("damage", "cause"),
    [
        (lambda path: (path / "arrays.npz").unlink(), "arrays.npz cannot be read (No such file"),
        (write_no_archive, "arrays.npz cannot be read (File is not a zip file)"),
        (lambda path: path.rename(path.with_name("step-000000009")), "is of step 2, not 9"),
        (lambda path: path.rename(path.with_name("step-2")), "its name is not step- and the"),
        (lambda path: path.rename(path.with_name("step-best")), "its name is not step- and the"),
        (lambda path: (shutil.rmtree(path), path.write_text("")), "(Not a directory)"),
    ],
)
def test_damaged_checkpoint_is_skipped_with_its_cause(two, damage, cause):
    damage(two / "step-000000002")
    loaded = load_checkpoint(two)
    assert loaded.step == 1
    assert cause in loaded.skipped[0]


def test_error_without_an_intact_checkpoint_says_why_and_what_to_do(two):
    assert not has_checkpoints(two / "nowhere")
    assert newest_step(two / "nowhere") == 0
    with pytest.raises(InputError, match=r"no intact one in .*nowhere \(none is there\); sing$"):
        load_checkpoint(two / "nowhere", "sing")
    for step in (1, 2):
        flip_bit(two / f"step-00000000{step}" / "arrays.npz")
    with pytest.raises(InputError, match=r"^checkpoint: .*\(step-000000002: .*; step-000000001: "):
        load_checkpoint(two)
    assert has_checkpoints(two)
    assert newest_step(two) == 2


def test_problems_are_listed_if_no_checkpoint_can_be_used(two, monkeypatch):
    assert checkpoint_problems(two) == checkpoint_problems(two / "nowhere") == []
    flip_bit(two / "step-000000002" / "arrays.npz")
    assert checkpoint_problems(two) == []
    flip_bit(two / "step-000000001" / "arrays.npz")
    assert checkpoint_problems(two) == [
        f"step-00000000{step}: arrays.npz differs from its checksum" for step in (2, 1)
    ]
    monkeypatch.setattr(checkpoints, "BACKGROUND", 100)
    assert checkpoint_problems(two) == []  # large checkpoints are not read


def test_newest_intact_checkpoints_are_kept(two, caplog):
    flip_bit(two / "step-000000002" / "arrays.npz")
    (two / "step-notes").mkdir()
    save_checkpoint(two, 3, state(3), {}, keep=2)
    assert names(two) == ["step-000000001", "step-000000003", "step-notes"]
    save_checkpoint(two, 10**9, state(3), {}, keep=2)
    assert names(two) == ["step-000000003", "step-1000000000", "step-notes"]
    assert caplog.messages == [
        "checkpoint step-000000002 is damaged and removed: arrays.npz differs from its checksum"
    ]


def test_earlier_step_is_refused_beside_an_intact_later_one(two):
    with pytest.raises(InputError, match=r"step 1 given and .* already holds step-000000002"):
        save_checkpoint(two, 1, state(1), {})
    save_checkpoint(two, 2, state(3), {})  # the same step is replaced
    assert_same(load_checkpoint(two).arrays, state(3))
    flip_bit(two / "step-000000002" / "arrays.npz")
    save_checkpoint(two, 1, state(4), {})
    assert names(two) == ["step-000000001"]
    assert_same(load_checkpoint(two).arrays, state(4))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step": -1}, "checkpoint: step -1 given; must be at least 0"),
        ({"keep": 0}, "checkpoint: keep 0 given; must be at least 1"),
        ({"arrays": {"a b": np.zeros(1)}}, "array name 'a b' given; use letters, digits, _ . -"),
        ({"arrays": {"a": np.array(["text"])}}, "array a: dtype <U4 given; must be NumPy's"),
        ({"notes": {"best": float("inf")}}, "notes.best: inf given; must be a finite number"),
        ({"notes": {"env": "\udc80"}}, r"notes.env: '\udc80' given; it must be text in UTF-8"),
    ],
)
def test_wrong_input_is_refused_before_anything_is_written(tmp_path, change, message):
    right = {"step": 1, "arrays": state(1), "notes": NOTES, "keep": 2}
    with pytest.raises(InputError) as error:
        save_checkpoint(tmp_path, **{**right, **change})
    assert message in str(error.value)
    assert names(tmp_path) == []


def test_full_disk_is_one_line_and_leaves_the_earlier_checkpoints(two, fail_fsync):
    fail_fsync()
    with pytest.raises(OSError, match="checkpoint step-000000003 was not saved: No space"):
        save_checkpoint(two, 3, state(3), {})
    assert names(two) == ["step-000000001", "step-000000002"]
    assert load_checkpoint(two).step == 2


KILLED = """
from narl.storage import arrays, checkpoints

folder, function, count = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
owners = {"fsync": os, "write": arrays._HashedFile, "rename": pathlib.Path}
kill_at(owners[function], function, count)
checkpoints.BACKGROUND = 0
saved = storage.Checkpoints(folder, keep=1)
saved.load()
saved.save(2, {"a": np.full(1000, 2.0)}, {"step": 2}, 24)
saved.wait()
"""


@pytest.mark.parametrize(
    ("function", "count", "survivor"),
    [
        ("write", 4, 1),  # within the archive
        ("fsync", 1, 1),  # the archive is written, not flushed
        ("fsync", 4, 1),  # all files are complete, the folder is not flushed
        ("fsync", 5, 2),  # after the rename
        ("rename", 2, 2),  # before the old one is removed
    ],
)
def test_kill_in_the_background_leaves_a_checkpoint(
    tmp_path, run_killed, function, count, survivor
):
    save_checkpoint(tmp_path, 1, {"a": np.full(1000, 1.0)}, {"step": 1})
    run_killed(KILLED, tmp_path, function, count)
    loaded = load_checkpoint(tmp_path)
    assert (loaded.step, loaded.notes, loaded.skipped) == (survivor, {"step": survivor}, ())
    np.testing.assert_array_equal(loaded.arrays["a"], np.full(1000, float(survivor)))
    save_checkpoint(tmp_path, 3, state(3), {}, keep=1)
    assert names(tmp_path) == ["step-000000003"]  # the rest of the killed save is gone


@pytest.fixture
def gate(monkeypatch):
    """A gate before which writers wait; they then raise its `error`, if there is one."""
    gate = SimpleNamespace(opened=threading.Event(), reached=threading.Event(), error=None)
    write = checkpoints.write_arrays

    def waiting(*arguments):
        gate.reached.set()
        assert gate.opened.wait(20)
        if gate.error is not None:
            raise gate.error
        return write(*arguments)

    monkeypatch.setattr(checkpoints, "write_arrays", waiting)
    return gate


def test_large_checkpoint_is_written_in_the_background(tmp_path, small_limits, gate):
    with contextlib.closing(Checkpoints(tmp_path)) as saved:
        saved.save(1, lambda: large_state(1), NOTES, LARGE)
        assert gate.reached.wait(20)
        saved.check()  # no error yet
        assert (saved.last, saved.kept) == (1, 0)
        assert not has_checkpoints(tmp_path)
        threading.Timer(0.05, gate.opened.set).start()
        saved.save(2, large_state(2), {}, LARGE)  # waits for the previous one
        assert (saved.last, saved.kept) == (2, 1)
        saved.wait()
        assert (saved.last, saved.kept) == (2, 2)
        assert saved.seconds > 0.0
    assert names(tmp_path) == ["step-000000001", "step-000000002"]
    assert_same(load_checkpoint(tmp_path).arrays, large_state(2))


def check_until_error(saved: Checkpoints) -> None:
    for _ in range(2000):
        saved.check()
        time.sleep(0.01)


@pytest.mark.parametrize(
    "call", [check_until_error, lambda saved: saved.save(2, large_state(2), {}, LARGE)]
)
def test_error_in_the_background_is_raised_by_the_next_call(tmp_path, small_limits, gate, call):
    gate.error = OSError(28, "No space left on device")
    with contextlib.closing(Checkpoints(tmp_path)) as saved:
        saved.save(1, large_state(1), {}, LARGE)
        gate.opened.set()
        with pytest.raises(OSError, match="checkpoint step-000000001 was not saved: No space"):
            call(saved)
        assert saved.kept == 0
        gate.error = None
        saved.save(3, large_state(3), {}, LARGE)
    assert names(tmp_path) == ["step-000000003"]  # closing waited for it


def test_error_in_the_background_is_logged_after_another_error(
    tmp_path, small_limits, gate, caplog
):
    gate.error = OSError(28, "No space left on device")
    gate.opened.set()
    saved = Checkpoints(tmp_path)
    saved.save(1, large_state(1), {}, LARGE)
    saved.close()
    (message,) = caplog.messages
    assert "checkpoint step-000000001 was not saved: No space left on device" in message


def test_written_and_loaded_checkpoints_are_not_read_again(two, monkeypatch):
    read, original = [], checkpoints._read

    def recorded(path, verify_only=False):
        read.append(path.name)
        return original(path, verify_only)

    monkeypatch.setattr(checkpoints, "_read", recorded)
    with contextlib.closing(Checkpoints(two)) as saved:
        assert saved.load().step == 2
        for step in (3, 4, 5):
            saved.save(step, state(step), {}, 100)
            assert saved.kept == step  # a small checkpoint is on disk when save returns
    assert read == ["step-000000002"]
    assert names(two) == ["step-000000004", "step-000000005"]


# --- other runs, other formats, hostile content -----------------------------------------------


def test_checkpoint_of_another_run_is_refused_and_kept(tmp_path):
    for step, run in ((1, "run-a"), (2, "run-b")):
        save_checkpoint(tmp_path, step, state(step), NOTES, run=run)
    assert load_checkpoint(tmp_path, run="run-b").run == "run-b"
    line = r"step-000000002 is of run run-b, not of run-a; remove it, or train again$"
    with pytest.raises(InputError, match=line):
        load_checkpoint(tmp_path, run="run-a")
    assert checkpoint_problems(tmp_path, "run-a") == [
        "step-000000002 is of run run-b, not of run-a"
    ]
    assert checkpoint_problems(tmp_path, "run-b") == []
    assert names(tmp_path) == ["step-000000001", "step-000000002"]


def test_checkpoint_without_the_id_of_a_run_is_refused_for_a_run(two):
    assert load_checkpoint(two).run is None
    cause = "step-000000002 has no id of a run, so it may not be of run-a"
    with pytest.raises(InputError, match=rf"{cause}; remove it, or train again$"):
        load_checkpoint(two, run="run-a")
    assert checkpoint_problems(two, "run-a") == [cause]
    assert names(two) == ["step-000000001", "step-000000002"]


def test_checkpoint_older_than_ids_of_runs_is_loaded_where_nothing_shows_another_run(two):
    for path in two.iterdir():
        manifest = json.loads((path / "manifest.json").read_bytes())
        older = {name: manifest[name] for name in ("step", "files")}
        (path / "manifest.json").write_bytes(json_bytes(older))
    loaded = load_checkpoint(two, run="run-a")
    assert (loaded.step, loaded.run, loaded.schema) == (2, None, 0)
    assert checkpoint_problems(two, "run-a") == []


def write_objects(path: Path) -> None:
    np.savez(path / "arrays.npz", a=np.array([1, None]))


def write_huge_shape(path: Path) -> None:
    content = (path / "arrays.npz").read_bytes()
    assert content.count(b"(40, 3)") == 1
    (path / "arrays.npz").write_bytes(content.replace(b"(40, 3)", b"(94, 3)"))


def write_deep_notes(path: Path) -> None:
    (path / "notes.json").write_bytes(b"[" * 100_000 + b"]" * 100_000)


def write_list(path: Path) -> None:
    (path / "notes.json").write_bytes(b"[1]")


@pytest.mark.parametrize(
    "damage",
    [
        write_objects,
        write_huge_shape,
        write_deep_notes,
        write_list,
        lambda path: (path / "manifest.json").write_bytes(b"[" * 100_000),
        lambda path: ((path / "notes.json").unlink(), (path / "notes.json").symlink_to("gone")),
        lambda path: ((path / "notes.json").unlink(), os.mkfifo(path / "notes.json")),
        lambda path: (shutil.rmtree(path), path.symlink_to("gone")),
    ],
)
def test_hostile_checkpoint_falls_back_to_the_one_before(two, damage):
    path = two / "step-000000002"
    damage(path)
    if damage.__name__.startswith("write"):  # give what is there a manifest that fits
        files = ("arrays.npz", "notes.json")
        digests = {each: checksum((path / each).read_bytes()) for each in files}
        (path / "manifest.json").write_bytes(json_bytes({"step": 2, "files": digests}))
    loaded = load_checkpoint(two)
    assert loaded.step == 1
    assert loaded.skipped[0].startswith("step-000000002: ")
    assert checkpoint_problems(two) == []
