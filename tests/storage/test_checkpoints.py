"""Checkpoints come back bit for bit, or not at all."""

import contextlib
import dataclasses
import json
import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from narl.deep.checkpoint import flatten_tree
from narl.deep.checkpoint import unflatten_tree as unflatten
from narl.errors import InputError
from narl.storage import checkpoints as checkpoint
from narl.storage.checkpoints import Checkpoints, damage_of, load_checkpoint, save_checkpoint
from narl.storage.folder import checksum, json_bytes
from narl.storage.lock import hold

SOURCE = Path(__file__).parents[2] / "src"
NOTES = {"epoch": 3, "generator": 2**127 + 1, "offset": 170, "name": "ε", "none": None, "x": 0.1}


def state(step: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(step)
    return {
        "buffer.obs": rng.normal(size=(40, 3)).astype(np.float32),
        "count": np.array(step),
        "key": rng.integers(0, 2**32, size=2, dtype=np.uint32),
    }


def odd_floats() -> np.ndarray:
    """NaN with two payloads and both signs, -0.0, infinities, a subnormal."""
    bits = [0x7FC00001, 0xFFC12345, 0x80000000, 0x7F800000, 0xFF800000, 1, 0x3F800000]
    return np.array(bits, np.uint32).view(np.float32)


def assert_same(left: dict, right: dict) -> None:
    assert list(left) == list(right)
    for name in left:
        assert left[name].dtype == right[name].dtype, name
        assert left[name].shape == right[name].shape, name
        assert left[name].tobytes() == right[name].tobytes(), name


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def warnings_in(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "narl"]


def program(code: str, *arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def two(tmp_path):
    """A folder with checkpoints at steps 1 and 2."""
    for step in (1, 2):
        save_checkpoint(tmp_path, step, state(step), {**NOTES, "step": step})
    return tmp_path


def test_a_checkpoint_comes_back_bit_for_bit(tmp_path):
    arrays = {
        "odd": odd_floats(),
        "scalar": np.array(7, np.int64),
        "empty": np.zeros((0, 4), np.float32),
        "flags": np.array([[True], [False]]),
        "fortran": np.asfortranarray(np.arange(6, dtype=np.int16).reshape(2, 3)),
        "strided": np.arange(20, dtype=np.float64)[::3],
        "big.endian": np.arange(3, dtype=">f4"),
        "half": np.array([1.5, np.nan], np.float16),
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


def test_an_array_longer_than_a_chunk_comes_back(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint, "CHUNK", 64)
    arrays = {"long": np.arange(1001, dtype=np.int16), "after": np.arange(16.0)}
    save_checkpoint(tmp_path, 0, arrays, {})
    assert_same(load_checkpoint(tmp_path).arrays, arrays)


def test_the_archive_is_a_plain_npz_that_numpy_reads(two):
    archive = two / "step-000000002" / "arrays.npz"
    with np.load(archive, allow_pickle=False) as arrays:
        assert_same(dict(arrays), state(2))
    with zipfile.ZipFile(archive) as members:
        assert members.testzip() is None
        assert {info.compress_type for info in members.infolist()} == {zipfile.ZIP_STORED}


def test_the_same_state_gives_the_same_bytes(two, tmp_path):
    other = save_checkpoint(tmp_path / "other", 2, state(2), {**NOTES, "step": 2})
    for name in names(other):
        assert (other / name).read_bytes() == (two / "step-000000002" / name).read_bytes()


def test_any_flipped_bit_is_noticed_and_the_previous_checkpoint_used(two, caplog):
    latest = two / "step-000000002"
    rng = random.Random(0)
    files = sorted(latest.iterdir(), key=lambda path: path.name)
    ends = np.cumsum([path.stat().st_size for path in files])
    places = [rng.randrange(int(ends[-1])) for _ in range(40)]
    places += [
        int(end - 1 - rng.randrange(path.stat().st_size))  # 10 in each small file
        for path, end in zip(files[1:], ends[1:], strict=True)
        for _ in range(10)
    ]
    for place in places:
        which = int(np.searchsorted(ends, place, side="right"))
        content = files[which].read_bytes()
        damaged = bytearray(content)
        damaged[place - int(ends[which])] ^= 1 << rng.randrange(8)  # from the end: negative
        files[which].write_bytes(damaged)
        caplog.clear()
        loaded = load_checkpoint(two)
        assert loaded.step == 1, (files[which].name, place)
        assert loaded.notes["step"] == 1
        assert_same(loaded.arrays, state(1))
        assert [line.split(": ")[0] for line in loaded.skipped] == ["step-000000002"]
        (line,) = warnings_in(caplog)
        assert line.startswith("checkpoint step-000000002 is damaged and not used: ")
        files[which].write_bytes(content)
    assert len(places) == 60
    assert load_checkpoint(two).step == 2


def _truncate(path: Path) -> None:
    archive = path / "arrays.npz"
    archive.write_bytes(archive.read_bytes()[:-1])


def _lengthen(path: Path) -> None:
    with (path / "notes.json").open("ab") as file:
        file.write(b"\n")


def _with_manifest(text: str):
    return lambda path: (path / "manifest.json").write_text(text)


@pytest.mark.parametrize(
    ("damage", "cause"),
    [
        (_truncate, "arrays.npz differs from its checksum"),
        (_lengthen, "notes.json differs from its checksum"),
        (lambda path: (path / "arrays.npz").unlink(), "arrays.npz cannot be read (No such file"),
        (lambda path: (path / "notes.json").unlink(), "notes.json cannot be read (No such file"),
        (lambda path: (path / "manifest.json").unlink(), "manifest.json cannot be read (No such"),
        (_with_manifest(""), "manifest.json is damaged"),
        (_with_manifest("[1]"), "manifest.json is damaged"),
        (_with_manifest('{"files": 3}'), "manifest.json is damaged"),
        (lambda path: path.rename(path.with_name("step-000000009")), "does not fit its step (2)"),
        (lambda path: path.rename(path.with_name("step-2")), "its name is not step- and the"),
        (lambda path: path.rename(path.with_name("step-best")), "its name is not step- and the"),
        (lambda path: (shutil.rmtree(path), path.write_text("")), "(Not a directory)"),
    ],
)
def test_damage_is_named_and_the_previous_checkpoint_used(two, damage, cause, caplog):
    damage(two / "step-000000002")
    loaded = load_checkpoint(two)
    assert loaded.step == 1
    assert_same(loaded.arrays, state(1))
    (line,) = loaded.skipped
    assert cause in line
    (warning,) = warnings_in(caplog)
    assert warning == "checkpoint {} is damaged and not used: {}".format(*line.split(": "))
    assert caplog.records[0].levelno == logging.WARNING


def test_a_manifest_that_was_rewritten_in_other_words_is_not_believed(two):
    manifest = two / "step-000000002" / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "more": 1}))
    loaded = load_checkpoint(two)
    assert loaded.step == 1
    assert loaded.skipped == ("step-000000002: manifest.json is damaged",)


def test_an_archive_with_the_right_digest_that_is_no_archive_is_skipped(two):
    path = two / "step-000000002"
    (path / "arrays.npz").write_bytes(b"no archive")
    digests = {name: checksum((path / name).read_bytes()) for name in ("arrays.npz", "notes.json")}
    (path / "manifest.json").write_bytes(json_bytes({"step": 2, "files": digests}))
    loaded = load_checkpoint(two)
    assert loaded.step == 1
    assert loaded.skipped[0].startswith("step-000000002: arrays.npz cannot be read (")


def test_without_an_intact_checkpoint_one_line_says_why(two):
    with pytest.raises(InputError, match=r"no intact one in .*nowhere \(none is there\)"):
        load_checkpoint(two / "nowhere")
    for step in (1, 2):
        _truncate(two / f"step-00000000{step}")
    with pytest.raises(InputError, match=r"\(step-000000002: .*; step-000000001: ") as raised:
        load_checkpoint(two)
    assert "\n" not in str(raised.value)


def test_damage_is_told_only_where_no_checkpoint_can_be_used(two, monkeypatch):
    assert damage_of(two) == damage_of(two / "nowhere") == []
    _truncate(two / "step-000000002")
    assert damage_of(two) == []
    _truncate(two / "step-000000001")
    assert damage_of(two) == [
        f"step-00000000{step}: arrays.npz differs from its checksum" for step in (2, 1)
    ]
    monkeypatch.setattr(checkpoint, "BACKGROUND", 100)
    assert damage_of(two) == []  # large ones are not read for it


def test_only_the_newest_are_kept(tmp_path):
    for step in (5, 10, 15, 20):
        save_checkpoint(tmp_path, step, state(step), {}, keep=3)
    assert names(tmp_path) == ["step-000000010", "step-000000015", "step-000000020"]
    save_checkpoint(tmp_path, 10**9, state(1), {}, keep=1)
    assert names(tmp_path) == ["step-1000000000"]
    assert load_checkpoint(tmp_path).step == 10**9


def test_a_damaged_one_does_not_count_as_kept(two, caplog):
    _truncate(two / "step-000000002")
    (two / "step-notes").mkdir()
    save_checkpoint(two, 3, state(3), {}, keep=2)
    assert names(two) == ["step-000000001", "step-000000003", "step-notes"]
    assert warnings_in(caplog) == [
        "checkpoint step-000000002 is damaged and removed: arrays.npz differs from its checksum"
    ]


def test_the_same_step_is_replaced(two):
    save_checkpoint(two, 2, state(7), {"new": True})
    assert names(two) == ["step-000000001", "step-000000002"]
    assert load_checkpoint(two).notes == {"new": True}
    assert_same(load_checkpoint(two).arrays, state(7))


def test_an_earlier_step_is_refused_beside_a_later_one_that_is_intact(two):
    with pytest.raises(InputError, match=r"step 1 given and .* already holds step-000000002"):
        save_checkpoint(two, 1, state(1), {})
    assert load_checkpoint(two).step == 2
    _truncate(two / "step-000000002")
    save_checkpoint(two, 1, state(4), {})
    assert names(two) == ["step-000000001"]
    assert_same(load_checkpoint(two).arrays, state(4))


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"step": -1}, "checkpoint: step -1 given; must be at least 0"),
        ({"keep": 0}, "checkpoint: keep 0 given; must be at least 1"),
        ({"arrays": {"a b": np.zeros(1)}}, "array name 'a b' given; use letters, digits, _ . -"),
        ({"arrays": {"a/b": np.zeros(1)}}, "array name 'a/b' given; use letters, digits, _ . -"),
        ({"arrays": {"a": np.array([{}])}}, "checkpoint: a has dtype object; must be NumPy's"),
        ({"notes": {"best": float("inf")}}, "notes.best: inf given; must be a finite number"),
        ({"notes": {"best": {1}}}, "notes.best: a set given; must be a JSON value"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_written(tmp_path, change, line):
    good = {"step": 1, "arrays": state(1), "notes": NOTES, "keep": 2}
    with pytest.raises(InputError) as raised:
        save_checkpoint(tmp_path, **{**good, **change})
    assert line in str(raised.value)
    assert names(tmp_path) == []


def test_a_full_disk_leaves_the_earlier_checkpoints(two, monkeypatch):
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="checkpoint step-000000003 was not saved: No space"):
            save_checkpoint(two, 3, state(3), {})
    assert names(two) == ["step-000000001", "step-000000002"]
    assert load_checkpoint(two).step == 2


KILLED = """
import os, pathlib, signal, sys
import numpy as np
from narl.storage import checkpoints as checkpoint

folder, function, count = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
owner = {"fsync": os, "write": checkpoint._Hashed, "rename": pathlib.Path, "mkdir": os}[function]
original = getattr(owner, function)

def deadly(*arguments, **options):
    global count
    if count == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    count -= 1
    return original(*arguments, **options)

setattr(owner, function, deadly)
checkpoint.save_checkpoint(folder, 2, {"a": np.full(1000, 2.0)}, {"step": 2}, keep=1)
"""


@pytest.mark.parametrize(
    ("function", "count", "survivor"),
    [
        ("write", 0, 1),  # before the first byte
        ("write", 3, 1),  # within the archive
        ("fsync", 0, 1),  # the archive is written, not flushed
        ("fsync", 2, 1),  # the manifest is written, not flushed
        ("fsync", 3, 1),  # all files are whole, the folder is not flushed
        ("fsync", 4, 2),  # after the rename
        ("rename", 1, 1),  # before the rename
        ("rename", 2, 2),  # before the old one is removed
    ],
)
def test_kill_9_while_saving_leaves_a_checkpoint(tmp_path, function, count, survivor):
    save_checkpoint(tmp_path, 1, {"a": np.full(1000, 1.0)}, {"step": 1})
    killed = program(KILLED, str(tmp_path), function, str(count))
    _, errors = killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL, errors
    loaded = load_checkpoint(tmp_path)
    assert (loaded.step, loaded.notes, loaded.skipped) == (survivor, {"step": survivor}, ())
    np.testing.assert_array_equal(loaded.arrays["a"], np.full(1000, float(survivor)))
    save_checkpoint(tmp_path, 3, state(3), {}, keep=1)
    assert names(tmp_path) == ["step-000000003"]  # what the kill left behind is gone


HOLDER = """
import pathlib, sys
from narl.storage.lock import hold

with hold(pathlib.Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_one_process_holds_a_folder(tmp_path):
    folder = tmp_path / "run"
    holder = program(HOLDER, str(folder))
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(InputError, match=rf"process {holder.pid} is training into .*run;"):
            hold(folder).__enter__()
        holder.kill()
        holder.communicate(timeout=60)
        with hold(folder):  # the lock of a dead process is free, though its id is still there
            assert (folder / ".lock").read_text() == f"{os.getpid()}\n"
            second = program(HOLDER, str(folder))
            _, errors = second.communicate(timeout=60)
            assert second.returncode == 1
            assert f"process {os.getpid()} is training into" in errors
    finally:
        holder.kill()


def test_a_folder_is_not_held_twice_in_a_process_and_free_again_after_an_error(tmp_path):
    def fail() -> None:
        with hold(tmp_path):
            with pytest.raises(InputError, match=f"process {os.getpid()} is training"):
                hold(tmp_path).__enter__()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with hold(tmp_path):
        save_checkpoint(tmp_path, 1, state(1), {})
    assert load_checkpoint(tmp_path).step == 1


def test_a_folder_that_cannot_be_held_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"run folder: .*file cannot be written to \(File exists"):
        hold(tmp_path / "file").__enter__()


class Layer(NamedTuple):
    w: jax.Array
    b: jax.Array | None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Lane:
    actor: tuple[Layer, ...]
    key: jax.Array
    buffer: dict[str, jax.Array]
    num_steps: int
    host: np.ndarray
    name: str = dataclasses.field(metadata={"static": True}, default="lane")


def lane() -> Lane:
    return Lane(
        actor=(Layer(jnp.asarray(odd_floats()), None), Layer(jnp.ones((2, 3)), jnp.zeros(3))),
        key=jax.random.split(jax.random.key(3), 4),
        buffer={"done": jnp.array([True, False]), "at": jnp.int32(5), "bits": jnp.uint32([2**31])},
        num_steps=17,
        host=np.array([np.nan, -0.0]),
    )


LEAVES = [
    "actor.0.w",
    "actor.1.w",
    "actor.1.b",
    "key",
    "buffer.at",
    "buffer.bits",
    "buffer.done",
    "num_steps",
    "host",
]


def abstract(tree: Lane) -> Lane:
    def shape(leaf):
        is_jax = isinstance(leaf, jax.Array)
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) if is_jax else leaf

    return jax.tree_util.tree_map(shape, tree)


@pytest.mark.parametrize("like", [lambda: lane(), lambda: abstract(lane())])
def test_a_tree_comes_back_bit_for_bit(tmp_path, like):
    arrays = flatten_tree(lane())
    assert list(arrays) == LEAVES
    assert all(type(array) is np.ndarray for array in arrays.values())
    save_checkpoint(tmp_path, 1, arrays, {})
    tree = unflatten(like(), load_checkpoint(tmp_path).arrays)
    assert_same(flatten_tree(tree), arrays)
    assert jax.tree_util.tree_structure(tree) == jax.tree_util.tree_structure(lane())
    assert tree.actor[0].b is None
    assert type(tree.num_steps) is int
    assert type(tree.host) is np.ndarray
    assert isinstance(tree.buffer["done"], jax.Array)
    for restored, key in zip(tree.key, lane().key, strict=True):
        assert jax.random.normal(restored, (3,)).tolist() == jax.random.normal(key, (3,)).tolist()


def test_keys_keep_their_generator():
    keys = {"rbg": jax.random.key(1, impl="rbg"), "raw": jax.random.key_data(jax.random.key(2))}
    like = {name: jax.ShapeDtypeStruct(key.shape, key.dtype) for name, key in keys.items()}
    tree = unflatten(like, flatten_tree(keys))
    assert tree["rbg"].dtype == keys["rbg"].dtype
    assert jax.random.bits(tree["rbg"]) == jax.random.bits(keys["rbg"])
    assert tree["raw"].dtype == jnp.uint32


def test_a_tree_that_is_one_array_and_an_empty_one():
    assert list(flatten_tree(jnp.ones(2))) == ["value"]
    np.testing.assert_array_equal(unflatten(jnp.zeros(2), {"value": np.ones(2, np.float32)}), 1)
    assert flatten_tree((None, {})) == {}
    assert unflatten((None, {}), {}) == (None, {})


def test_a_restored_leaf_lies_where_the_expected_one_does():
    device = jax.devices()[0]
    like = {"free": jnp.zeros(2), "placed": jax.device_put(jnp.zeros(2), device)}
    tree = unflatten(like, flatten_tree(like))
    assert (tree["free"].committed, tree["placed"].committed) == (False, True)
    assert tree["placed"].sharding == like["placed"].sharding


def test_restored_leaves_share_no_memory_with_the_arrays():
    memory = np.empty(1024 + 16, np.float32)
    start = -memory.ctypes.data % 64 // 4  # aligned as JAX likes it, so that it could be shared
    arrays = {"jax": memory[start : start + 1024], "host": np.zeros(3)}
    arrays["jax"][:] = 1
    tree = unflatten({"jax": jnp.zeros(1024), "host": np.zeros(3)}, arrays)
    arrays["jax"][:] = 2
    arrays["host"][:] = 2
    assert float(tree["jax"].sum()) == 1024
    assert tree["host"].sum() == 0


def test_what_was_flattened_does_not_change_when_the_leaf_is_donated():
    leaf = jnp.arange(100_000.0)
    arrays = flatten_tree({"leaf": leaf})
    jax.block_until_ready(jax.jit(lambda x: x + 1, donate_argnums=0)(leaf))
    np.testing.assert_array_equal(arrays["leaf"], np.arange(100_000, dtype=np.float32))


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            {"actor.1.w": np.zeros((3, 2), np.float32)},
            "checkpoint: actor.1.w has shape (3, 2); expected (2, 3)",
        ),
        ({"actor.1.b": np.zeros(3)}, "checkpoint: actor.1.b has dtype float64; expected float32"),
        ({"key": np.zeros((3, 2), np.uint32)}, "key has shape (3, 2); expected (4, 2)"),
        ({"num_steps": np.zeros(1, np.int64)}, "num_steps has shape (1,); expected ()"),
        ({"host": np.zeros(2, np.int64)}, "host has dtype int64; expected float64"),
        ({"actor.2.w": np.zeros(1)}, "checkpoint: actor.2.w is in it and not expected"),
    ],
)
def test_arrays_that_do_not_fit_the_tree_are_named(change, line):
    with pytest.raises(InputError) as raised:
        unflatten(lane(), {**flatten_tree(lane()), **change})
    assert line in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_missing_leaf_is_named():
    arrays = flatten_tree(lane())
    del arrays["buffer.at"]
    with pytest.raises(InputError, match=r"checkpoint: buffer\.at is missing"):
        unflatten(lane(), arrays)


def test_double_precision_is_not_cut_silently():
    like = {"x": jax.ShapeDtypeStruct((2,), np.float64)}
    with pytest.raises(InputError, match="checkpoint: x has dtype float64; needs jax_enable_x64"):
        unflatten(like, {"x": np.zeros(2)})


@pytest.mark.parametrize(
    ("tree", "line"),
    [
        ({"w": jnp.zeros(2, jnp.bfloat16)}, "checkpoint: w has dtype bfloat16; must be NumPy's"),
        ({"q": jnp.zeros(2, jnp.float8_e4m3fn)}, "checkpoint: q has dtype float8_e4m3fn; must"),
        ({"name": "text"}, "checkpoint: name has dtype <U4; must be NumPy's numbers"),
        ({"a b": jnp.zeros(1)}, "checkpoint: leaf 'a b' given; use letters, digits, _ . -"),
        ({"a": {"b": 1}, "a.b": 2}, "checkpoint: two leaves are called a.b; rename one"),
    ],
)
def test_trees_that_cannot_be_kept_are_refused(tree, line):
    with pytest.raises(InputError) as raised:
        flatten_tree(tree)
    assert line in str(raised.value)


# --- large arrays and the background ----------------------------------------------------------


@pytest.fixture
def small_limits(monkeypatch):
    """Arrays of 400 bytes are large, checkpoints of 1000 are written in the background."""
    monkeypatch.setattr(checkpoint, "LARGE", 400)
    monkeypatch.setattr(checkpoint, "BACKGROUND", 1000)


LARGE = 10_000
"""Bytes; more than what is written at once in these tests."""


def large_state(step: int) -> dict[str, np.ndarray]:
    return state(step) | {f"rows.{i}": np.full((i + 1, 100), step, np.float32) for i in range(3)}


def test_large_arrays_have_files_of_their_own(tmp_path, small_limits):
    path = save_checkpoint(tmp_path, 1, large_state(1), NOTES)
    files = ["arrays-1.npz", "arrays-2.npz", "arrays-3.npz", "arrays-4.npz", "arrays.npz"]
    assert names(path) == [*files, "manifest.json", "notes.json"]
    loaded = load_checkpoint(tmp_path)
    assert loaded.notes == NOTES
    assert sorted(loaded.arrays) == sorted(large_state(1))
    for name, array in large_state(1).items():
        assert loaded.arrays[name].tobytes() == array.tobytes()
    listed = json.loads((path / "manifest.json").read_text())["files"]
    assert listed == {name: checksum((path / name).read_bytes()) for name in [*files, "notes.json"]}


@pytest.mark.parametrize("name", ["arrays.npz", "arrays-1.npz", "arrays-4.npz"])
def test_damage_to_any_of_the_files_is_noticed(tmp_path, small_limits, name):
    for step in (1, 2):
        save_checkpoint(tmp_path, step, large_state(step), {})
    file = tmp_path / "step-000000002" / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(content)
    loaded = load_checkpoint(tmp_path)
    assert loaded.step == 1
    assert loaded.skipped == (f"step-000000002: {name} differs from its checksum",)
    file.unlink()
    assert load_checkpoint(tmp_path).skipped[0].startswith(f"step-000000002: {name} cannot be read")


@pytest.mark.parametrize("name", ["../arrays.npz", "arrays-0.npz", "notes", "arrays-01.npz"])
def test_a_manifest_that_names_other_files_is_not_believed(two, name):
    manifest = two / "step-000000002" / "manifest.json"
    content = json.loads(manifest.read_text())
    content["files"][name] = content["files"]["arrays.npz"]
    manifest.write_bytes(json_bytes(content))
    assert load_checkpoint(two).skipped == ("step-000000002: manifest.json is damaged",)


class Gate:
    """Holds up whoever writes, until it is opened."""

    def __init__(self, monkeypatch):
        self.opened, self.reached = threading.Event(), threading.Event()
        self.error: OSError | None = None
        write = checkpoint._write_arrays

        def waiting(*given):
            self.reached.set()
            assert self.opened.wait(20)
            if self.error is not None:
                raise self.error
            return write(*given)

        monkeypatch.setattr(checkpoint, "_write_arrays", waiting)


@pytest.fixture
def gate(monkeypatch):
    return Gate(monkeypatch)


def test_a_large_checkpoint_is_written_in_the_background(tmp_path, small_limits, gate):
    with contextlib.closing(Checkpoints(tmp_path)) as kept:
        kept.save(1, large_state(1), NOTES, LARGE)
        assert gate.reached.wait(20)
        kept.check()  # nothing to say yet
        assert (kept.last, kept.kept) == (1, 0)
        assert not list(tmp_path.glob("step-*"))
        threading.Timer(0.05, gate.opened.set).start()
        kept.save(2, large_state(2), {}, LARGE)  # waits for the one before
        assert (kept.last, kept.kept) == (2, 1)
        kept.wait()
        assert (kept.last, kept.kept) == (2, 2)
        assert kept.seconds > 0.0
    assert names(tmp_path) == ["step-000000001", "step-000000002"]
    assert load_checkpoint(tmp_path).step == 2


def test_a_small_one_is_there_when_save_returns(tmp_path, small_limits):
    with contextlib.closing(Checkpoints(tmp_path)) as kept:
        kept.save(1, {"a": np.arange(3)}, {}, 24)
        assert kept.kept == 1
        assert names(tmp_path) == ["step-000000001"]


@pytest.mark.parametrize("when", ["check", "wait", "save"])
def test_what_goes_wrong_in_the_background_is_raised(tmp_path, small_limits, gate, when):
    gate.error = OSError(28, "No space left on device")
    with contextlib.closing(Checkpoints(tmp_path)) as kept:
        kept.save(1, large_state(1), {}, LARGE)
        gate.opened.set()

        def go_on():
            if when == "save":
                kept.save(2, large_state(2), {}, LARGE)
            elif when == "wait":
                kept.wait()
            else:
                for _ in range(2000):
                    kept.check()
                    time.sleep(0.01)

        with pytest.raises(OSError, match="checkpoint step-000000001 was not saved: No space"):
            go_on()
        assert kept.kept == 0
        gate.error = None
        kept.save(3, large_state(3), {}, LARGE)
    assert names(tmp_path) == ["step-000000003"]  # closing waited for it


def test_closing_after_another_error_says_what_went_wrong_here(
    tmp_path, small_limits, gate, caplog
):
    gate.error = OSError(28, "No space left on device")
    gate.opened.set()

    def fail():
        with contextlib.closing(Checkpoints(tmp_path)) as kept:
            kept.save(1, large_state(1), {}, LARGE)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    (line,) = warnings_in(caplog)
    assert "checkpoint step-000000001 was not saved: No space left on device" in line


def test_what_this_process_wrote_or_loaded_is_not_read_again(two, monkeypatch):
    read = []
    original = checkpoint._read

    def noted(path, verify_only=False):
        read.append(path.name)
        return original(path, verify_only)

    monkeypatch.setattr(checkpoint, "_read", noted)
    with contextlib.closing(Checkpoints(two)) as kept:
        assert kept.load().step == 2
        for step in (3, 4, 5):
            kept.save(step, state(step), {}, 100)
    assert read == ["step-000000002"]
    assert names(two) == ["step-000000004", "step-000000005"]


KILLED_BEHIND = """
import os, pathlib, signal, sys
import numpy as np
from narl.storage import checkpoints as checkpoint

checkpoint.BACKGROUND = 0
kept = checkpoint.Checkpoints(pathlib.Path(sys.argv[1]))
kept.load()
checkpoint._write_npz = lambda *given: os.kill(os.getpid(), signal.SIGKILL)
kept.save(2, {"a": np.zeros(3)}, {}, 24)
kept.wait()
"""


def test_kill_9_during_a_background_write_leaves_the_one_before(tmp_path):
    save_checkpoint(tmp_path, 1, state(1), NOTES)
    killed = program(KILLED_BEHIND, str(tmp_path))
    _, errors = killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL, errors
    loaded = load_checkpoint(tmp_path)
    assert (loaded.step, loaded.skipped) == (1, ())
