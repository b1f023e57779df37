"""Run folders: whole or absent, found again, and honest about damage."""

import errno
import json
import logging
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from narl import __version__, storage
from narl.errors import InputError
from narl.storage.provenance import commit_of_checkout

SOURCE = Path(__file__).parent.parent / "src"
CONFIG = {"agent": "narl-ucrl", "env": "riverswim", "episodes": 10, "seeds": [0, 1], "c": 0.1}
METRICS = {"regret": {"median": 32.5, "q25": np.float32(1.5)}, "solved": [np.int64(3), None]}
ARRAYS = {"regret": np.arange(6.0).reshape(2, 3), "file": np.array([1, 2]), "x": np.float32(3)}


@pytest.fixture
def saved(tmp_path):
    return storage.save_run(tmp_path, CONFIG, METRICS, ARRAYS, device="cpu", seconds=1.23456)


def _program(code: str, *arguments: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        stderr=subprocess.PIPE,
    )


def _finish(program: subprocess.Popen) -> tuple[int, bytes]:
    _, errors = program.communicate(timeout=60)
    return program.returncode, errors


def test_a_saved_run_comes_back_as_it_was(saved, tmp_path):
    found = storage.find_run(tmp_path, CONFIG)
    assert found == saved == storage.load_run(tmp_path, saved.id) == storage.load_run(saved.path)
    assert found.config == CONFIG
    assert found.metrics == {"regret": {"median": 32.5, "q25": 1.5}, "solved": [3, None]}
    arrays = found.arrays()
    assert list(arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == np.asarray(array).dtype
    assert storage.verify(found) == []


def test_the_folder_holds_the_five_files_and_nothing_else_is_left(saved, tmp_path):
    assert [path.name for path in tmp_path.iterdir()] == [saved.id]
    assert sorted(path.name for path in saved.path.iterdir()) == [
        "arrays.npz",
        "config.json",
        "environment.json",
        "manifest.json",
        "metrics.json",
    ]
    manifest = json.loads((saved.path / "manifest.json").read_text())
    assert manifest["files"]["config.json"]["size"] == (saved.path / "config.json").stat().st_size


def test_the_environment_says_what_ran_where(saved):
    environment = saved.environment
    assert environment["narl"] == __version__
    assert environment["numpy"] == np.__version__
    assert environment["python"] == ".".join(map(str, sys.version_info[:3]))
    assert environment["device"] == "cpu"
    assert environment["seconds"] == 1.235
    assert environment["time"].endswith("+00:00")
    assert {"jax", "jaxlib", "platform", "commit"} <= set(environment)


def test_jax_is_not_imported():
    code = "import sys, narl.storage.runs, narl.stats, narl.paper; sys.exit('jax' in sys.modules)"
    assert _finish(_program(code)) == (0, b"")


def test_the_id_is_a_slug_and_a_digest_of_the_configuration():
    assert storage.run_id(CONFIG).startswith("narl-ucrl-riverswim-")
    assert len(storage.run_id(CONFIG).removeprefix("narl-ucrl-riverswim-")) == 10
    assert storage.run_id({}).startswith("run-")
    assert storage.run_id({"env": "a folder/My.npz"}).startswith("a-folder-my-npz-")
    reordered = dict(reversed(CONFIG.items()))
    assert storage.run_id(reordered) == storage.run_id(CONFIG)
    same = CONFIG | {"seeds": (0, np.int32(1)), "c": np.float64(0.1)}
    assert storage.run_id(same) == storage.run_id(CONFIG)


@pytest.mark.parametrize("change", [{"episodes": 11}, {"c": 0.2}, {"seeds": [1, 0]}, {"new": None}])
def test_another_configuration_has_another_id(change):
    assert storage.run_id(CONFIG | change) != storage.run_id(CONFIG)


def test_another_version_has_another_id(monkeypatch):
    before = storage.run_id(CONFIG)
    monkeypatch.setattr(store, "__version__", "99.0")
    assert storage.run_id(CONFIG) != before


def test_saving_again_keeps_the_first_unless_replaced(saved, tmp_path):
    kept = storage.save_run(tmp_path, CONFIG, {"regret": 1}, {})
    assert kept == saved
    replaced = storage.save_run(tmp_path, CONFIG, {"regret": 1}, {}, replace=True)
    assert replaced.metrics == {"regret": 1}
    assert replaced.arrays() == {}
    assert [path.name for path in tmp_path.iterdir()] == [saved.id]


def test_the_same_arrays_make_the_same_bytes(saved, tmp_path):
    first = (saved.path / "arrays.npz").read_bytes()
    storage.save_run(tmp_path, CONFIG, METRICS, ARRAYS, replace=True)
    assert (saved.path / "arrays.npz").read_bytes() == first


def test_non_finite_metrics_become_null(tmp_path):
    metrics = {"a": float("nan"), "b": [np.inf, 1.0], "c": np.array([np.nan, 2.0])}
    run = storage.save_run(tmp_path, CONFIG, metrics, {"a": np.array([np.nan])})
    assert run.metrics == {"a": None, "b": [None, 1.0], "c": [None, 2.0]}
    assert np.isnan(run.arrays()["a"]).all()
    json.loads((run.path / "metrics.json").read_text(), parse_constant=pytest.fail)


@pytest.mark.parametrize(
    ("config", "metrics", "arrays", "line"),
    [
        ({"c": float("nan")}, {}, {}, "config.c: nan"),
        ({"a": {"b": [1, object()]}}, {}, {}, "config.a.b[1]: a object"),
        ({1: 2}, {}, {}, "config: key 1"),
        ({}, {"x": {2: 3}}, {}, "metrics.x: key 2"),
        ({}, {"x": 1j}, {}, "metrics.x: a complex"),
        ({}, {}, {"a": np.array([object()])}, "arrays.a: dtype object"),
        ({}, {}, {"a/b": np.zeros(2)}, "arrays: name 'a/b'"),
        ({}, {}, {"": np.zeros(2)}, "arrays: name ''"),
    ],
)
def test_what_cannot_be_kept_is_refused_before_anything_is_written(
    config, metrics, arrays, line, tmp_path
):
    with pytest.raises(InputError) as caught:
        storage.save_run(tmp_path / "runs", config, metrics, arrays)
    assert str(caught.value).startswith(line)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("name", [*runs.FILES, storage.MANIFEST])
@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "delete", "append"])
def test_every_damage_is_noticed_and_the_run_counts_as_absent(
    name, damage, saved, tmp_path, caplog
):
    file = saved.path / name
    content = bytearray(file.read_bytes())
    if damage == "flip":
        # In the manifest a flip inside a digest; elsewhere in the middle.
        at = content.index(b'"sha256": "') + 15 if name == storage.MANIFEST else len(content) // 2
        content[at] ^= 1
    elif damage == "truncate":
        content = content[: len(content) // 2]
    elif damage == "empty":
        content = bytearray()
    else:
        content += b"x"
    file.unlink()
    if damage != "delete":
        file.write_bytes(content)

    assert storage.verify(saved) != []
    with caplog.at_level(logging.WARNING, "narl"):
        assert storage.find_run(tmp_path, CONFIG) is None
    assert len(caplog.records) == 1
    assert saved.id in caplog.text
    with pytest.raises(InputError, match="is damaged"):
        storage.load_run(tmp_path, saved.id)
    with pytest.raises(InputError, match="is damaged"):
        saved.arrays()
    (listed,) = storage.list_runs(tmp_path)
    assert listed.problems

    again = storage.save_run(tmp_path, CONFIG, METRICS, ARRAYS)
    assert storage.verify(again) == []
    assert [path.name for path in tmp_path.iterdir()] == [saved.id]


def test_every_single_bit_flip_of_the_arrays_is_noticed(tmp_path):
    run = storage.save_run(tmp_path, CONFIG, {}, {"x": np.arange(4.0)})
    file = run.path / "arrays.npz"
    content = file.read_bytes()
    for at in range(0, len(content), 7):
        flipped = bytearray(content)
        flipped[at] ^= 1 << (at % 8)
        file.write_bytes(flipped)
        with pytest.raises(InputError, match="differs from its checksum"):
            run.arrays()


def test_a_renamed_folder_does_not_pass_for_another_run(saved, tmp_path, caplog):
    other = CONFIG | {"episodes": 99}
    saved.path.rename(tmp_path / storage.run_id(other))
    assert storage.find_run(tmp_path, other) is None
    assert "does not fit its configuration" in caplog.text


def test_runs_are_listed_newest_first_and_strangers_are_left_out(tmp_path):
    ids = [storage.save_run(tmp_path, {"episodes": n}, {}, {}).id for n in range(4)]
    (tmp_path / "notes").mkdir()
    (tmp_path / "file-0123456789").write_text("not a folder")
    (tmp_path / ".partial-run-0123456789-aa").mkdir()
    assert [run.id for run in storage.list_runs(tmp_path)] == ids[::-1]
    assert storage.list_runs(tmp_path / "nowhere") == []


def test_a_unique_beginning_of_the_id_is_enough(saved, tmp_path):
    assert storage.load_run(tmp_path, saved.id[:12]) == saved
    second = storage.save_run(tmp_path, CONFIG | {"c": 1.0}, {}, {})
    with pytest.raises(InputError, match="give more of the id") as caught:
        storage.load_run(tmp_path, "narl-")
    assert saved.id in str(caught.value)
    assert second.id in str(caught.value)


@pytest.mark.parametrize("call", [storage.load_run, storage.remove_run])
@pytest.mark.parametrize("given", ["narl-ucrI", "", "..", "../x", "/"])
def test_an_unknown_id_is_refused_with_the_nearest(call, given, saved, tmp_path):
    with pytest.raises(InputError, match=f"run: unknown value .*{saved.id}"):
        call(tmp_path, given)
    assert storage.verify(saved) == []


def test_an_id_in_an_empty_root_is_refused(tmp_path):
    with pytest.raises(InputError, match="holds no runs"):
        storage.load_run(tmp_path, "x")
    with pytest.raises(InputError, match="is not a folder"):
        storage.load_run(tmp_path / "gone")


def test_remove_takes_away_one_run(saved, tmp_path):
    other = storage.save_run(tmp_path, {}, {}, {})
    assert storage.remove_run(tmp_path, saved.id[:-2]) == saved.id
    assert [path.name for path in tmp_path.iterdir()] == [other.id]
    assert storage.find_run(tmp_path, CONFIG) is None


def test_default_root_is_runs_here_or_the_variable(monkeypatch, tmp_path):
    monkeypatch.delenv("NARL_RUNS", raising=False)
    assert storage.default_root() == Path("runs")
    monkeypatch.setenv("NARL_RUNS", str(tmp_path))
    assert storage.default_root() == tmp_path


def test_a_root_that_is_a_file_is_refused(tmp_path):
    file = tmp_path / "file"
    file.write_text("mine")
    for root in (file, file / "below"):
        for call in (storage.check_root, lambda root: storage.save_run(root, CONFIG, {}, {})):
            with pytest.raises(InputError, match="is not a folder") as caught:
                call(root)
            assert "\n" not in str(caught.value)
    for call in (storage.list_runs, lambda root: storage.find_run(root, CONFIG)):
        with pytest.raises(InputError, match="is not a folder"):
            call(file)
    assert file.read_text() == "mine"


@pytest.mark.parametrize("code", [errno.EACCES, errno.EROFS, errno.EPERM])
def test_a_root_that_is_not_writable_is_refused(code, tmp_path, monkeypatch):
    def refuse(self, *args, **kwargs):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(InputError, match="is not writable"):
        storage.save_run(tmp_path / "runs", CONFIG, METRICS, ARRAYS)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(InputError, match="is not writable"):
        storage.check_root(tmp_path / "runs")


def test_check_root_accepts_what_save_will_make(tmp_path):
    assert storage.check_root(tmp_path / "a" / "b") == tmp_path / "a" / "b"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("replaces", [False, True])
@pytest.mark.parametrize("at", range(1, 8))
def test_a_full_disk_leaves_nothing_half_written(at, replaces, tmp_path, monkeypatch):
    before = storage.save_run(tmp_path, CONFIG, METRICS, ARRAYS) if replaces else None
    calls = []
    fsync = os.fsync

    def fill(descriptor):
        calls.append(descriptor)
        if len(calls) == at:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", fill)
    # Five files, the folder, and, after the rename, the root: seven flushes.
    with pytest.raises(OSError, match=r"was not saved: No space left on device") as caught:
        storage.save_run(tmp_path, CONFIG, {"regret": 1}, {}, replace=replaces)
    assert caught.value.errno == errno.ENOSPC
    monkeypatch.undo()
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    found = storage.find_run(tmp_path, CONFIG)
    if at < 7:
        assert found == before
    else:
        assert found.metrics == {"regret": 1}


def test_an_interrupted_save_leaves_nothing(tmp_path, monkeypatch):
    def interrupt(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        storage.save_run(tmp_path, CONFIG, METRICS, ARRAYS)
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, signal, sys
from narl import storage
calls, fsync = [], os.fsync
def die(descriptor):
    calls.append(descriptor)
    if len(calls) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    fsync(descriptor)
os.fsync = die
storage.save_run(sys.argv[1], {"episodes": 1}, {"regret": 2}, {"x": [1.0, 2.0]})
"""


@pytest.mark.parametrize("at", [1, 4, 6, 7])
def test_a_save_that_is_killed_is_ignored_and_later_cleaned(at, tmp_path):
    assert _finish(_program(KILLED, str(tmp_path), str(at)))[0] == -signal.SIGKILL
    run = storage.find_run(tmp_path, {"episodes": 1})
    if at == 7:  # after the rename: the run is there, whole
        assert run.metrics == {"regret": 2}
        return
    (leftover,) = tmp_path.iterdir()
    assert run is None
    assert storage.list_runs(tmp_path) == []

    again = storage.save_run(tmp_path, {"episodes": 1}, {"regret": 3}, {})
    assert leftover.exists()  # it is young: it could be a save in progress elsewhere
    old = time.time() - 2 * runs.STALE_SECONDS
    os.utime(leftover, (old, old))
    other = storage.save_run(tmp_path, {"episodes": 2}, {}, {})
    assert {path.name for path in tmp_path.iterdir()} == {again.id, other.id}


RACE = """
import sys, time
from narl import storage
root, writer, start = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
time.sleep(max(0.0, start - time.time()))
for n in range(15):
    run = storage.save_run(root, {"n": n}, {"writer": writer}, {"x": [writer] * 1000})
    assert not run.problems, run.problems
    assert (run.arrays()["x"] == run.metrics["writer"]).all()
"""


@pytest.mark.slow
def test_processes_that_save_the_same_run_at_once_all_succeed(tmp_path):
    start = str(time.time() + 1.0)
    programs = [_program(RACE, str(tmp_path), str(writer), start) for writer in range(3)]
    for program in programs:
        assert _finish(program) == (0, b"")
    assert [run.problems for run in storage.list_runs(tmp_path)] == [()] * 15
    assert len(list(tmp_path.iterdir())) == 15


def test_replacing_at_once_leaves_one_whole_run(tmp_path):
    def replace(writer):
        storage.save_run(
            tmp_path, CONFIG, {"writer": writer}, {"x": np.full(50, writer)}, replace=True
        )

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(replace, range(40)))
    (run,) = storage.list_runs(tmp_path)
    assert run.problems == ()
    assert (run.arrays()["x"] == run.metrics["writer"]).all()
    assert [path.name for path in tmp_path.iterdir()] == [run.id]


def test_the_commit_is_left_out_where_there_is_no_git(monkeypatch):
    def missing(*args, **kwargs):
        raise FileNotFoundError("git")

    monkeypatch.setattr(subprocess, "run", missing)
    assert commit_of_checkout() is None
