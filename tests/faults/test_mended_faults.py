"""Faults that `make faults` has found, each in a small form."""

import json
import os
from pathlib import Path

import pytest
from fault_artifacts import GRID, make_quick_artifacts, read_sweeps, sign_again
from fault_commands import without_work
from fault_tally import call_narl, check_answer

import narl
from narl import storage
from narl.errors import InputError
from narl.storage.folder_lock import LOCK, FolderLocked, lock_folder
from narl.sweeps.estimate import estimate
from narl.sweeps.grid import read_grid_file
from narl.sweeps.run_notes import WORKER, RunNotes
from narl.sweeps.run_task import run_task
from narl.sweeps.status import SweepStatus
from sweeps.small_sweeps import tabular_runs

LONG = "x" * 300


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Artifacts of every kind but a saved agent; their folder is the working folder."""
    artifacts = make_quick_artifacts(tmp_path / "made")
    monkeypatch.chdir(artifacts.folder)
    monkeypatch.delenv("NARL_RUNS", raising=False)
    return artifacts


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["doctor", "--runs", LONG], "is no name of a file"),
        (["runs", "--runs", LONG], "is no name of a file"),
        (["report", "latest", "--out", "."], "is no .html file; such as report.html"),
        (["sweep", "Pendulum-v1", "--csv", "results"], "results is no .csv file"),
        (
            ["sweep", "--status", "--csv", "grid.toml"],
            "grid.toml is no .csv file; such as grid.csv",
        ),
        (["sweep", "Pendulum-v1", "--csv", LONG], "is no name of a file"),
        (["sweep", "Pendulum-v1", "--csv", "x.csv", "--dry-run"], "it has no effect where nothing"),
    ],
)
def test_wrong_place_is_refused_in_one_line(made, words, line):
    with without_work():
        answer = call_narl(*words)
    check_answer(answer, (2,))
    assert line in answer.err


@pytest.mark.parametrize("words", [["sweep", "Pendulum-v1"], ["reproduce", "fig1a"]])
def test_printed_commands_can_be_json(made, words):
    options = ["--executor", "print", "--scale=smoke"][: 3 if words[0] == "reproduce" else 2]
    with without_work():
        printed = call_narl(*words, *options)
        answer = call_narl(*words, *options, "--json")
    assert json.loads(answer.out) == {"commands": printed.out.splitlines()}
    assert printed.out.startswith(f"narl {words[0]} {words[1]}")


def test_whole_number_of_a_float_option_leads_to_the_same_run():
    ids = {narl.deep.make_config("Pendulum-v1", radius=radius).run_id for radius in (1, 1.0)}
    assert len(ids) == 1


# --- files of sweeps ------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", ["sweep-*.json", f"*/{WORKER}", "*/failure.json"])
def test_flipped_bits_in_files_of_sweeps_are_noticed(made, pattern):
    whole, file = read_sweeps(made.sweeps), sorted(made.sweeps.glob(pattern))[0]
    content = file.read_bytes()
    for place in range(0, len(content), 41):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        file.write_bytes(damaged)
        found = read_sweeps(made.sweeps)
        if pattern.startswith("sweep-"):
            assert found in ({}, whole), place
        else:  # a run without its notes is not done; it is begun again
            states = {run: status["state"] for run, status in found.items()}
            run = file.parent.name
            assert states[run] in (whole[run]["state"], "unfinished", "waiting"), place
            assert found[run]["error"] in (whole[run]["error"], None), place
            assert {**found, run: whole[run]} == whole, place


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_lock_that_is_no_file_does_not_count_as_a_lease(tmp_path, make, capsys):
    (run,) = tabular_runs(1)
    notes = RunNotes(tmp_path, run.id)
    notes.note_worker(step=1)
    make(notes.folder / LOCK)
    assert not notes.is_leased  # a sweep would wait for its end for ever
    run_task([run], tmp_path)
    assert "cannot be written to" in notes.failure()["error"]
    assert notes.has_failed
    assert "failed" in capsys.readouterr().err


def test_leased_run_is_seen_without_a_file_being_written(tmp_path):
    notes = RunNotes(tmp_path, "run-0123456789")
    notes.note_worker(step=1)
    assert not notes.is_leased
    assert [path.name for path in notes.folder.iterdir()] == [WORKER]
    with notes.lease() as is_mine:
        assert is_mine
        assert notes.is_leased
        with notes.lease() as is_mine_too:
            assert not is_mine_too
        with pytest.raises(FolderLocked):
            lock_folder(notes.folder).__enter__()


@pytest.mark.parametrize(
    "wrong",
    [
        {"final_return": 3, "seconds": 1},
        {"final_return": ["x"], "seconds": {"run": "x"}},
        {"episodes": "x", "seconds": {"run": 1.0}},
        {"episodes": 0, "seconds": {"run": 1.0, "compile": None}},
    ],
)
def test_run_with_wrong_metrics_is_done_and_no_example(tmp_path, wrong):
    first, second = tabular_runs(2)
    storage.save_run(tmp_path, first.config.record(), wrong, {})
    states = SweepStatus([first, second], tmp_path).read()
    assert [(x.state, x.step, x.mean_return) for x in states] == [
        ("done", 0, None),
        ("waiting", 0, None),
    ]
    assert estimate([second], tmp_path).num_examples == 0


def test_run_of_a_newer_format_is_listed_and_not_replaced(tmp_path, monkeypatch):
    first, second = tabular_runs(2)
    with monkeypatch.context() as patch:
        patch.setattr(storage.folder, "SCHEMA", 2)
        storage.save_run(tmp_path, first.config.record(), {}, {})
    states = SweepStatus([first, second], tmp_path).read()
    assert [x.state for x in states] == ["failed", "waiting"]
    assert "it has format 2" in states[0].error
    with pytest.raises(InputError, match="it has format 2"):
        run_task([first], tmp_path)


# --- grids ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        *(b"half = []", b"half = {a = 1}", b"half = 1", b"steps = " + b"9" * 5000, b"\xff"),
        b"a = " + b"[" * 100_000 + b"]" * 100_000,
    ],
)
def test_grid_with_hostile_content_is_refused_in_one_line(tmp_path, content):
    (tmp_path / "grid.toml").write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_grid_file(tmp_path / "grid.toml")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_grid_that_is_no_file_is_refused(tmp_path, make):
    make(tmp_path / "grid.toml")
    with pytest.raises(InputError, match=r"give a TOML file$"):
        read_grid_file(tmp_path / "grid.toml")


def test_grid_behind_a_link_is_read(tmp_path):
    (tmp_path / "target").write_text(GRID)
    (tmp_path / "grid.toml").symlink_to("target")
    half, grids = read_grid_file(tmp_path / "grid.toml")
    assert (half.name, len(grids)) == ("train", 2)


@pytest.mark.parametrize("name", ["final_return", "solved_step", "seconds"])
def test_results_of_wrong_types_are_a_problem_of_one_run(made, name):
    """The checksums fit, as of a file that was changed on purpose."""
    file = made.finished / "metrics.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {name: -1}))
    sign_again(made.finished)
    answer = call_narl("runs", "--json")
    check_answer(answer, (0,))
    problems = {run["run"]: run["problems"] for run in json.loads(answer.out)["runs"]}
    expected = [] if name == "seconds" else [f"{name} is of a wrong type"]
    assert problems[made.finished_id] == expected
    assert sum(bool(lines) for lines in problems.values()) == len(expected)
    check_answer(call_narl("runs"), (0,))
    check_answer(call_narl("runs", "show", made.finished_id), (0,))
