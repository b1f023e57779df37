"""Finished runs are saved completely, found again, and verified."""

import errno
import io
import json
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from narl import __version__, storage
from narl.errors import InputError
from narl.storage import runs
from narl.storage.files import checksum
from narl.storage.provenance import commit_of_checkout

CONFIG = {"agent": "narl-ucrl", "env": "riverswim", "episodes": 10, "seeds": [0, 1], "c": 0.1}
METRICS = {"regret": {"q25": np.float32(1.5), "nan": np.nan}, "list": [np.int64(3), -np.inf]}
ARRAYS = {"regret": np.array([[1.0, np.nan]]), "file": np.array([1, 2]), "x": np.float32(3)}


@pytest.fixture
def saved(tmp_path):
    extras = {"progress.jsonl": b"{}\n"}
    return storage.save_run(tmp_path, CONFIG, METRICS, ARRAYS, seconds=1.23456, extras=extras)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def flip_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_saved_run_is_loaded_unchanged(saved, tmp_path):
    run = storage.find_run_of_config(tmp_path, CONFIG)
    assert run == saved == storage.load_run(tmp_path, saved.id) == storage.load_run(saved.path)
    assert run.config == CONFIG
    assert run.metrics == {"regret": {"q25": 1.5, "nan": None}, "list": [3, None]}
    assert run.extra("progress.jsonl") == b"{}\n"
    with pytest.raises(InputError, match=r"other\.txt is not in its folder"):
        run.extra("other.txt")
    arrays = run.arrays()
    assert list(arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == np.asarray(array).dtype
    assert names(tmp_path) == [saved.id]
    assert names(saved.path) == sorted([*runs.FILES, "manifest.json", "progress.jsonl"])


def test_environment_records_versions_device_and_time(saved, monkeypatch):
    environment = saved.environment
    assert environment["narl"] == __version__
    assert environment["numpy"] == np.__version__
    assert environment["python"] == ".".join(map(str, sys.version_info[:3]))
    assert (environment["device"], environment["seconds"]) == ("cpu", 1.235)
    assert environment["time"].endswith("+00:00")
    assert {"jax", "jaxlib", "platform", "commit"} <= set(environment)

    def missing(*args, **kwargs):
        raise FileNotFoundError("git")

    monkeypatch.setattr(subprocess, "run", missing)
    assert commit_of_checkout() is None


def test_storage_imports_no_jax_and_no_other_package_of_narl(start_program):
    code = "import sys, narl.storage; print(*(m for m in sys.modules if m.startswith('narl.')))"
    code += "; sys.exit('jax' in sys.modules)"
    program = start_program(code)
    modules, errors = program.communicate(timeout=60)
    assert (program.returncode, errors) == (0, "")
    packages = {module.split(".")[1] for module in modules.split()}
    assert packages <= {"display", "errors", "lazy_names", "storage"}


def test_run_id_is_a_slug_and_a_digest_of_the_configuration(monkeypatch):
    monkeypatch.setattr(runs, "__version__", "0.1.0")
    assert storage.run_id(CONFIG) == "narl-ucrl-riverswim-4c27d9e1e5"
    assert storage.run_id({}).startswith("run-")
    assert storage.run_id({"env": "a folder/My.npz"}).startswith("a-folder-my-npz-")
    assert storage.run_id(dict(reversed(CONFIG.items()))) == storage.run_id(CONFIG)
    same = CONFIG | {"seeds": (0, np.int32(1)), "c": np.float64(0.1)}
    assert storage.run_id(same) == storage.run_id(CONFIG)
    changes = ({"episodes": 11}, {"c": 0.2}, {"seeds": [1, 0]}, {"new": None}, {})
    ids = {storage.run_id(CONFIG | change) for change in changes}
    monkeypatch.setattr(runs, "__version__", "99.0")
    assert len({*ids, storage.run_id(CONFIG)}) == 6


def test_intact_run_is_kept_unless_replaced(saved, tmp_path):
    assert storage.save_run(tmp_path, CONFIG, {"regret": 1}, {}) == saved
    replaced = storage.save_run(tmp_path, CONFIG, {"regret": 1}, {}, replace=True)
    assert (replaced.metrics, replaced.arrays()) == ({"regret": 1}, {})
    assert names(tmp_path) == [saved.id]


def test_moved_run_is_found_in_the_other_root(saved, tmp_path):
    first = storage.save_run(tmp_path / "other", CONFIG, {"regret": 1}, {})
    assert storage.move_run(saved, tmp_path / "other") == first
    assert saved.path.is_dir()
    moved = storage.move_run(saved, tmp_path / "other", replace=True)
    assert moved.metrics == saved.metrics
    assert not saved.path.exists()
    assert names(tmp_path / "other") == [saved.id]


def test_arrays_are_the_bytes_that_numpy_would_write(tmp_path):
    arrays = {
        "fortran": np.asfortranarray(np.arange(600.0).reshape(20, 30)),
        "strided": np.arange(20.0)[::3],
        "transposed": np.arange(24).reshape(2, 3, 4).transpose(2, 0, 1),
        "empty": np.zeros((0, 4)),
        "text": np.array(["a", "bcd"]),
        "time": np.array(["2020-01-01"], "datetime64[D]"),
        "scalar": np.float32(3),
    }
    expected = io.BytesIO()
    with zipfile.ZipFile(expected, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)
    run = storage.save_run(tmp_path, CONFIG, {}, arrays)
    assert (run.path / "arrays.npz").read_bytes() == expected.getvalue()
    for name, array in run.arrays().items():
        np.testing.assert_array_equal(array, arrays[name])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"config": {"c": np.nan}}, "config.c: nan"),
        ({"metrics": {"x": {2: 3}}}, "metrics.x: key 2"),
        ({"arrays": {"a": np.array([object()])}}, "array a: dtype object"),
        ({"arrays": {"a/b": np.zeros(2)}}, "array name 'a/b'"),
    ],
)
def test_wrong_input_is_refused_before_anything_is_written(change, message, tmp_path):
    with pytest.raises(InputError) as error:
        storage.save_run(tmp_path / "runs", **{"config": {}, "metrics": {}, "arrays": {}, **change})
    assert str(error.value).startswith(message)
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", [*runs.FILES, "manifest.json", "progress.jsonl"])
def test_damaged_run_is_listed_not_used_and_saved_anew(name, saved, tmp_path, caplog):
    flip_bit(saved.path / name)
    assert storage.find_run_of_config(tmp_path, CONFIG) is None
    assert len(caplog.records) == 1
    assert saved.id in caplog.text
    for read in (lambda: storage.load_run(tmp_path, saved.id), saved.arrays):
        with pytest.raises(InputError, match=f"run {saved.id} is damaged: "):
            read()
    (listed,) = storage.list_runs(tmp_path)
    if name != "manifest.json":
        assert listed.problems == (f"{name} differs from its checksum",)
    assert listed.problems
    again = storage.save_run(tmp_path, CONFIG, METRICS, ARRAYS)
    assert again.problems == ()
    assert names(tmp_path) == [saved.id]


def test_empty_run_folder_is_listed_with_its_problems(tmp_path):
    (tmp_path / "run-0123456789").mkdir()
    (listed,) = storage.list_runs(tmp_path)
    assert (listed.config, listed.metrics, listed.environment) == ({}, {}, {})
    assert len(listed.problems) == 5


def test_renamed_folder_is_not_used_for_another_configuration(saved, tmp_path, caplog):
    other = CONFIG | {"episodes": 99}
    saved.path.rename(tmp_path / storage.run_id(other))
    assert storage.find_run_of_config(tmp_path, other) is None
    assert "does not fit its configuration" in caplog.text


def test_runs_are_listed_newest_first_without_other_files(tmp_path):
    ids = [storage.save_run(tmp_path, {"episodes": n}, {}, {}).id for n in range(3)]
    (tmp_path / "notes").mkdir()
    (tmp_path / "file-0123456789").write_text("not a folder")
    (tmp_path / ".partial-run-0123456789-aa").mkdir()
    assert [run.id for run in storage.list_runs(tmp_path)] == ids[::-1]
    assert storage.list_runs(tmp_path / "nowhere") == []


def test_unique_beginning_of_an_id_is_enough(saved, tmp_path):
    assert storage.load_run(tmp_path, saved.id[:12]) == saved
    second = storage.save_run(tmp_path, CONFIG | {"c": 1.0}, {}, {})
    with pytest.raises(InputError, match="give more of the id") as error:
        storage.load_run(tmp_path, "narl-")
    assert saved.id in str(error.value)
    assert second.id in str(error.value)
    assert storage.remove_run(tmp_path, saved.id[:-2]) == saved.id
    assert names(tmp_path) == [second.id]


@pytest.mark.parametrize("call", [storage.load_run, storage.remove_run])
@pytest.mark.parametrize("text", ["narl-ucrI", "", "..", "../x", "/"])
def test_unknown_id_is_refused_with_the_nearest(call, text, saved, tmp_path):
    with pytest.raises(InputError, match=f"run: unknown value .*{saved.id}"):
        call(tmp_path, text)
    assert storage.list_run_ids(tmp_path) == [saved.id]
    with pytest.raises(InputError, match="holds no runs"):
        call(tmp_path / "nowhere", text)


def test_run_is_saved_at_any_folder_and_replaces_only_a_run(tmp_path):
    path = tmp_path / "My agent.v2"
    for regret in (1, 2):
        run = storage.save_run_at(path, CONFIG, {"regret": regret}, ARRAYS)
        assert run == storage.load_run_at(path)
        assert run.metrics == {"regret": regret}
    path.rename(tmp_path / "renamed")
    assert storage.load_run_at(tmp_path / "renamed").config == CONFIG
    flip_bit(tmp_path / "renamed" / "metrics.json")
    with pytest.raises(InputError, match=r"run renamed is damaged: metrics\.json"):
        storage.load_run_at(tmp_path / "renamed")
    with pytest.raises(InputError, match="is not there"):
        storage.load_run_at(path)
    for other, problem in ((tmp_path, "holds other files"), (tmp_path / "file", "is a file")):
        (tmp_path / "file").write_text("mine")
        with pytest.raises(InputError, match=problem):
            storage.save_run_at(other, CONFIG, {}, {})
    assert names(tmp_path) == ["file", "renamed"]


def test_root_is_runs_or_the_variable_and_may_be_new(monkeypatch, tmp_path):
    monkeypatch.delenv("NARL_RUNS", raising=False)
    assert storage.default_root() == Path("runs")
    monkeypatch.setenv("NARL_RUNS", str(tmp_path / "a" / "b"))
    assert storage.check_root(storage.default_root()) == tmp_path / "a" / "b"
    assert names(tmp_path) == []


def test_root_that_is_a_file_is_refused_in_one_line(tmp_path):
    file = tmp_path / "file"
    file.write_text("mine")
    writing = [storage.check_root, lambda root: storage.save_run(root, CONFIG, {}, {})]
    reading = [storage.list_runs, lambda root: storage.find_run_of_config(root, CONFIG)]
    for root, calls in ((file, writing + reading), (file / "below", writing)):
        for call in calls:
            with pytest.raises(InputError, match=r"^runs folder: .* is not a folder; .*NARL_"):
                call(root)
    assert file.read_text() == "mine"


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS])
def test_root_that_is_not_writable_is_refused_in_one_line(code, tmp_path, monkeypatch):
    def refuse(self, *args, **kwargs):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(InputError, match=r"^runs folder: .* is not writable; .*\(NARL_RUNS\)$"):
        storage.save_run(tmp_path / "runs", CONFIG, METRICS, ARRAYS)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(InputError, match="is not writable"):
        storage.check_root(tmp_path / "runs")


def test_full_disk_is_one_line_and_leaves_nothing(tmp_path, fail_fsync):
    fail_fsync(3)
    with pytest.raises(OSError, match=r"run narl-.* was not saved: No space left") as error:
        storage.save_run(tmp_path, CONFIG, METRICS, ARRAYS)
    assert error.value.errno == errno.ENOSPC
    assert names(tmp_path) == []


KILLED = """
kill_at(os, "fsync", int(sys.argv[2]))
storage.save_run(sys.argv[1], {"episodes": 1}, {"regret": 2}, {"x": [1.0, 2.0]})
"""


# Five files, the folder and, after the rename, the root: seven flushes.
@pytest.mark.parametrize("count", [6, 7])
def test_killed_save_is_ignored_and_cleaned_when_old(count, tmp_path, run_killed):
    run_killed(KILLED, tmp_path, count)
    run = storage.find_run_of_config(tmp_path, {"episodes": 1})
    if count == 7:
        assert run.metrics == {"regret": 2}
        return
    (leftover,) = tmp_path.iterdir()
    assert run is None
    assert storage.list_runs(tmp_path) == []
    again = storage.save_run(tmp_path, {"episodes": 1}, {"regret": 3}, {})
    assert leftover.exists()  # it is young: another process could be saving
    old = time.time() - 2 * runs.STALE_SECONDS
    os.utime(leftover, (old, old))
    other = storage.save_run(tmp_path, {"episodes": 2}, {}, {})
    assert {*names(tmp_path)} == {again.id, other.id}


RACE = """
import sys, time
from narl import storage
root, writer, start = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
time.sleep(max(0.0, start - time.time()))
for n in range(8):
    run = storage.save_run(root, {"n": n}, {"writer": writer}, {"x": [writer] * 1000})
    assert not run.problems, run.problems
    assert (run.arrays()["x"] == run.metrics["writer"]).all()
"""


def test_processes_that_save_the_same_runs_at_once_all_succeed(tmp_path, start_program):
    start = time.time() + 0.8
    programs = [start_program(RACE, tmp_path, writer, start) for writer in range(2)]
    for program in programs:
        assert (program.communicate(timeout=60)[1], program.returncode) == ("", 0)
    assert [run.problems for run in storage.list_runs(tmp_path)] == [()] * 8
    assert len(names(tmp_path)) == 8


# --- hostile and foreign runs -----------------------------------------------------------------


def rewrite(run: storage.Run, name: str, content: bytes) -> None:
    """Replace a file of a run and give the run a manifest that fits."""
    (run.path / name).write_bytes(content)
    manifest = storage.without_checksum(json.loads((run.path / "manifest.json").read_bytes()))
    manifest["files"][name] = checksum(content)
    signed = storage.json_bytes(storage.with_checksum(manifest))
    (run.path / "manifest.json").write_bytes(signed)


@pytest.mark.parametrize("name", ["config.json", "metrics.json", "environment.json"])
@pytest.mark.parametrize(
    "content", [b'{"a": NaN}', b'{"a": 1e999}', b'{"a": "\\ud800"}', b"[" * 100_000, b"3", b""]
)
def test_one_hostile_run_is_listed_as_damaged_and_the_others_as_usual(
    name, content, saved, tmp_path
):
    other = storage.save_run(tmp_path, CONFIG | {"c": 0.2}, {}, {})
    rewrite(saved, name, content)
    listed = {run.id: run.problems for run in storage.list_runs(tmp_path)}
    assert listed[other.id] == ()
    assert listed[saved.id] == (f"{name} is not JSON",)


@pytest.mark.parametrize(
    "special", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")]
)
def test_run_with_a_pipe_a_folder_or_a_device_is_listed_as_damaged(special, saved, tmp_path):
    for name in ("config.json", "arrays.npz", "manifest.json"):
        (saved.path / name).unlink()
        special(saved.path / name)
        (listed,) = storage.list_runs(tmp_path)
        assert any(problem.startswith(f"{name} cannot be read") for problem in listed.problems)


def test_arrays_of_objects_and_bombs_are_refused_in_one_line(saved):
    objects, bomb = io.BytesIO(), io.BytesIO()
    np.savez(objects, a=np.array([1, None]))
    rewrite(saved, "arrays.npz", objects.getvalue())
    with pytest.raises(InputError, match=r"arrays\.npz cannot be read \(a cannot be read: Object"):
        saved.arrays()
    np.savez_compressed(bomb, a=np.zeros(100_000))
    with pytest.raises(ValueError, match=r"its arrays need 8\.0e\+05 bytes"):
        storage.read_npz(bomb, most_bytes=10_000)


def test_flipped_bits_of_an_archive_without_checksum_are_noticed():
    file = io.BytesIO()
    np.savez(file, a=np.arange(1000.0))
    content = bytearray(file.getvalue())
    content[4000] ^= 1
    with pytest.raises(ValueError, match="a cannot be read: Bad CRC-32"):
        storage.read_npz(io.BytesIO(content), is_verified=False)


def test_run_set_aside_has_an_id_of_its_own(saved, tmp_path):
    moved = storage.move_run_to_id(saved, {"env_code": "abc"})
    assert (moved.problems, moved.config) == ((), CONFIG | {"env_code": "abc"})
    assert (moved.metrics, moved.environment) == (saved.metrics, saved.environment)
    assert moved.extra("progress.jsonl") == b"{}\n"
    assert names(tmp_path) == [moved.id]


KILLED_SAVE = """
def more(folder):
    storage.save_checkpoint(folder / "checkpoints", 2, {"x": np.full(9, 2)}, {})

kill_at(os, sys.argv[2], int(sys.argv[3]))
storage.save_run_at(sys.argv[1], {"n": 2}, {}, {"x": np.full(9, 2)}, checkpoint=more)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(
    ("function", "count"), [("fsync", 1), ("fsync", 4), ("fsync", 8), ("fsync", 12), ("rename", 9)]
)
def test_kill_while_a_run_and_its_checkpoint_are_replaced_leaves_one_pair(
    tmp_path, run_killed, function, count
):
    def more(folder: Path) -> None:
        storage.save_checkpoint(folder / "checkpoints", 1, {"x": np.full(9, 1)}, {})

    path = tmp_path / "agent"
    storage.save_run_at(path, {"n": 1}, {}, {"x": np.full(9, 1)}, checkpoint=more)
    run_killed(KILLED_SAVE, path, function, count)
    run, checkpoint = storage.load_run_at(path), storage.load_checkpoint(path / "checkpoints")
    assert run.config["n"] == run.arrays()["x"][0] == checkpoint.step == checkpoint.arrays["x"][0]
    assert (run.config["n"] == 2) == (function == "rename")
