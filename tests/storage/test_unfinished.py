"""Unfinished runs are listed with their problems, and every run is found by id or folder."""

import dataclasses
import json
import os
from pathlib import Path

import numpy as np
import pytest

from narl import storage
from narl.errors import InputError
from narl.storage import (
    CHECKPOINTS,
    METRICS_LOG,
    PART_SUFFIX,
    TRAINING_FILE,
    MetricsLog,
    find_run_folder,
)

CONFIG = {"experiment": "train", "algo": "sac", "env": "Toy-v0", "seeds": [0, 1]}


def begin(root, config=CONFIG):
    path = root / f"{storage.run_id(config)}{PART_SUFFIX}"
    storage.record_config(path, config, checkpoint_every=3)
    return storage.open_unfinished_run(path)


@pytest.fixture
def unfinished(tmp_path):
    """An unfinished run with checkpoints at steps 10 and 20."""
    run = begin(tmp_path / "runs")
    for step in (10, 20):
        arrays = {"a": np.arange(step)}
        storage.save_checkpoint(run.path / CHECKPOINTS, step, arrays, {}, run=run.id)
    return run


def damage(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_unfinished_run_is_opened_and_listed(unfinished):
    root = unfinished.path.parent
    assert (unfinished.config, unfinished.checkpoint_every) == (CONFIG, 3)
    assert (unfinished.id, unfinished.step) == (storage.run_id(CONFIG), 20)
    later = begin(root, CONFIG | {"algo": "mbpo"})
    os.utime(unfinished.path, (0, 0))
    os.utime(unfinished.path / CHECKPOINTS, (0, 0))
    (root / f"notes{PART_SUFFIX}").mkdir()
    assert storage.list_unfinished_runs(root) == [later, unfinished]
    assert unfinished.time == "1970-01-01T00:00:00.000000+00:00"
    assert (later.step, later.problems) == (0, ())
    assert storage.list_unfinished_runs(root / "nowhere") == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda content: content | {"narl": "0.0.9"}, "narl 0.0.9 began it and this is"),
        (lambda content: content | {"config": {}}, "training.json does not fit the folder's name"),
        (lambda content: {}, "training.json cannot be read"),
    ],
)
def test_run_that_cannot_be_continued_has_a_problem(unfinished, change, problem):
    file = unfinished.path / TRAINING_FILE
    content = change(storage.without_checksum(json.loads(file.read_text())))
    file.write_text(json.dumps(storage.with_checksum(content)))
    (listed,) = storage.list_unfinished_runs(unfinished.path.parent)
    assert listed.problems[0].startswith(problem)
    assert listed.step == 20


def test_run_without_intact_checkpoint_has_problems_unless_locked(unfinished):
    newest, before = sorted((unfinished.path / CHECKPOINTS).iterdir(), reverse=True)
    damage(newest / "arrays.npz")
    assert storage.open_unfinished_run(unfinished.path).problems == ()
    damage(before / "arrays.npz")
    assert storage.open_unfinished_run(unfinished.path).problems == (
        "no checkpoint is intact",
        "step-000000020: arrays.npz differs from its checksum",
        "step-000000010: arrays.npz differs from its checksum",
    )
    with storage.lock_folder(unfinished.path):
        assert unfinished.holder == os.getpid()
        assert storage.open_unfinished_run(unfinished.path).problems == ()


@pytest.mark.parametrize(
    "line", [b'{"stXp": 2, "r": [1, 2]}', b'{"step": 2, "r": [1], "q": [1, 2]}']
)
def test_damaged_rows_are_left_out(unfinished, line):
    log = MetricsLog(unfinished.path / METRICS_LOG)
    assert (unfinished.rows(), unfinished.last_row()) == ([], None)
    log.append({"step": 1, "r": [0.5, None], "q": [1, 2]})
    log.path.write_bytes(log.lines() + line + b"\n{torn")
    assert [row["step"] for row in unfinished.rows(("step", "r"))] == [1]
    assert unfinished.last_row(("step",)) == log.rows()[0]
    assert unfinished.rows(("step", "other")) == []


def test_remove_deletes_unless_locked(unfinished):
    with (
        storage.lock_folder(unfinished.path),
        pytest.raises(InputError, match=f"process {os.getpid()} is writing to"),
    ):
        storage.remove_unfinished_run(unfinished.path)
    assert unfinished.step == 20
    storage.remove_unfinished_run(unfinished.path)
    assert not unfinished.path.exists()


def test_run_is_located_by_id_beginning_or_folder(unfinished, tmp_path):
    root, other = unfinished.path.parent, tmp_path / "elsewhere"
    for text in (unfinished.id, unfinished.id[:-4], f"{unfinished.id}{PART_SUFFIX}", "train-sac"):
        assert storage.find_run(root, text) == unfinished
    assert storage.find_run(other, str(unfinished.path)) == unfinished
    run = storage.save_run(root, CONFIG | {"algo": "mbpo"}, {}, {})
    assert storage.find_run(root, "train-mbpo") == run
    assert storage.find_run(other, str(run.path)) == run
    with pytest.raises(InputError, match="give more of the id"):
        storage.find_run(root, "train")
    for text in ("tabular", "", "..", str(root)):
        with pytest.raises(InputError, match=r"run: unknown value .*train-sac"):
            storage.find_run(root, text)
    with pytest.raises(InputError, match="holds no runs"):
        storage.find_run(other, "train")


def test_finished_run_comes_before_an_unfinished_one_of_its_id(unfinished):
    root = unfinished.path.parent
    run = storage.save_run(root, CONFIG, {}, {})
    for text in (run.id, "train"):
        assert storage.find_run(root, text) == run
        assert storage.find_run(root, text, unfinished_first=True) == unfinished
    assert storage.find_run(root, f"{run.id}{PART_SUFFIX}") == unfinished


def test_damaged_runs_are_located(unfinished, monkeypatch):
    root = unfinished.path.parent
    run = storage.save_run(root, CONFIG | {"algo": "mbpo"}, {}, {})
    (run.path / "manifest.json").unlink()
    (unfinished.path / TRAINING_FILE).unlink()
    monkeypatch.chdir(root.parent)
    for path in (run.path, unfinished.path):
        for text in (path.name, f"runs/{path.name}"):
            assert find_run_folder(root, text).resolve() == path
        assert find_run_folder(root, path.name[:10]) == path
    with pytest.raises(InputError, match=r"is damaged: manifest\.json cannot be read"):
        storage.find_run(root, run.id)
    assert storage.find_run(root, unfinished.id) == dataclasses.replace(
        unfinished, config={}, checkpoint_every=1, problems=(f"{TRAINING_FILE} cannot be read",)
    )


def test_run_in_a_folder_of_another_name_is_located_by_its_folder(tmp_path):
    run = storage.save_run_at(tmp_path / "saved", CONFIG, {}, {})
    assert storage.find_run(tmp_path, str(run.path)) == run


@pytest.mark.parametrize("every", [0, -3])
def test_checkpoints_after_no_epoch_are_a_problem(unfinished, every):
    storage.record_config(unfinished.path, CONFIG, every)
    (listed,) = storage.list_unfinished_runs(unfinished.path.parent)
    assert listed.problems == (
        f"{TRAINING_FILE} has checkpoint_every {every}; it must be at least 1",
    )


def test_every_flipped_bit_of_the_configuration_is_noticed(unfinished):
    file = unfinished.path / TRAINING_FILE
    content = file.read_bytes()
    for place in range(0, len(content), 3):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        file.write_bytes(damaged)
        found = storage.open_unfinished_run(unfinished.path)
        same = (found.config, found.checkpoint_every) == (CONFIG, 3)
        assert found.problems or same, place  # white space may change


def test_checkpoints_of_another_run_are_a_problem(unfinished):
    storage.save_checkpoint(unfinished.path / CHECKPOINTS, 30, {"a": np.arange(3)}, {}, run="run-x")
    (listed,) = storage.list_unfinished_runs(unfinished.path.parent)
    line = f"step-000000030 is of run run-x, not of {unfinished.id}"
    assert listed.problems == ("no checkpoint is intact", line)


def test_checkpoint_without_the_id_of_a_run_is_a_problem(unfinished):
    storage.save_checkpoint(unfinished.path / CHECKPOINTS, 30, {"a": np.arange(3)}, {})
    (listed,) = storage.list_unfinished_runs(unfinished.path.parent)
    line = f"step-000000030 has no id of a run, so it may not be of {unfinished.id}"
    assert listed.problems == ("no checkpoint is intact", line)


@pytest.mark.parametrize(
    "special", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")]
)
@pytest.mark.parametrize("name", [METRICS_LOG, TRAINING_FILE, ".lock", CHECKPOINTS])
def test_pipes_folders_and_devices_do_not_disturb_the_list(unfinished, special, name):
    other = begin(unfinished.path.parent, CONFIG | {"algo": "mbpo"})
    path = unfinished.path / name
    if path.exists():
        path.rename(unfinished.path / "moved")
    special(path)
    listed = storage.list_unfinished_runs(unfinished.path.parent)
    assert {run.path for run in listed} == {other.path, unfinished.path}
    for run in listed:
        assert isinstance(run.rows(), list)
        assert run.time
        assert run.step in (0, 20)


def test_times_beyond_the_calendar_are_shown(unfinished):
    os.utime(unfinished.path, (1e15, 1e15))
    assert unfinished.time[:4] in ("9999", "2446")  # the latest of some file systems


@pytest.mark.parametrize("text", ["x" * 300, "a\0b", "x" * 5000, "a/" * 3000])
def test_names_that_no_run_can_have_are_refused_in_one_line(unfinished, text):
    with pytest.raises(InputError, match="unknown value"):
        storage.find_run(unfinished.path.parent, text)
