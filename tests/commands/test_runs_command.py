"""`narl runs`: the list of tabular runs and trainings, one run in detail, and removal."""

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from narl import storage
from narl.commands.runs_table import options_that_differ
from short_trainings import flip_bit

# --- tabular runs -----------------------------------------------------------------------------


@pytest.fixture
def tabular_runs(tmp_path) -> list[storage.Run]:
    """Three runs, as `narl tabular` stores them."""
    runs = []
    for agent, c in (("narl-ucrl", 0.1), ("narl-ucrl", 1.5), ("psrl", None)):
        config = {"experiment": "tabular", "agent": agent, "env": "riverswim", "horizon": 20}
        config |= {"seeds": [0, 1], "options": {"c": c, "members": 10, "none": None}}
        regret = {"median": 32.5, "q25": 30.0, "q75": 40.0, "mean": 36.0, "worst": 50.0}
        metrics = {"regret": regret, "episodes": 7, "solved_episode": [3, None]}
        runs.append(storage.save_run(tmp_path / "runs", config, metrics, {"regret": [[1.0, 2.0]]}))
    return runs


def test_json_lists_runs_newest_first(call, tabular_runs):
    result = json.loads(call("runs", "list", "--json").out)
    assert result["root"] == "runs"
    assert [run["run"] for run in result["runs"]] == [run.id for run in reversed(tabular_runs)]
    newest = tabular_runs[2]
    assert result["runs"][0] == {
        "run": newest.id,
        "path": str(Path("runs") / newest.id),
        "time": newest.environment["time"],
        "agent": "psrl",
        "env": "riverswim",
        "episodes": 7,
        "seeds": [0, 1],
        "options": {"c": None, "members": 10, "none": None},
        "regret": {"median": 32.5, "q25": 30.0, "q75": 40.0, "mean": 36.0, "worst": 50.0},
        "problems": [],
    }
    assert json.loads(call("runs", "--json").out) == result


def test_text_has_a_line_per_run_with_the_options_that_differ(call, tabular_runs):
    answer = call("runs")
    assert call("runs", "list") == answer
    lines = answer.out.splitlines()
    assert len(lines) == 4
    figures = ["7", "2", "32.50", "36.00", "50.00"]
    assert lines[1].split()[:6] == [tabular_runs[2].id, *figures]
    assert lines[2].rstrip().endswith("c=1.5")
    assert lines[3].rstrip().endswith("c=0.1")
    assert "members" not in answer.out


def test_empty_folder_is_said_to_be_empty(call, tmp_path):
    assert "runs holds no runs yet" in call("runs").out
    assert json.loads(call("runs", "--json").out) == {"root": "runs", "runs": []}
    assert list(tmp_path.iterdir()) == []


def test_damaged_run_is_listed_and_removed_but_not_shown(call, tabular_runs):
    damaged = tabular_runs[0]
    (damaged.path / "metrics.json").write_text("{}")
    result = json.loads(call("runs", "--json").out)
    assert result["runs"][2]["problems"] == ["metrics.json differs from its checksum"]
    assert "damaged" in call("runs").out
    answer = call("runs", "show", damaged.id)
    assert answer.status == 2
    assert "is damaged: metrics.json differs from its checksum; remove it" in answer.err
    assert call("runs", "remove", damaged.id, "--yes").status == 0
    assert not damaged.path.exists()


def test_run_is_shown_with_its_results_and_arrays(call, tabular_runs):
    run = tabular_runs[1]
    for name in (run.id, run.id[:-3], str(run.path)):
        result = json.loads(call("runs", "show", name, "--json").out)
        assert (result["run"], result["config"], result["metrics"]) == (
            *(run.id, run.config, run.metrics),
        )
        assert result["environment"] == run.environment
        assert result["arrays"] == {"regret": {"shape": [1, 2], "dtype": "float64"}}
    rows = [line.split(maxsplit=1) for line in call("runs", "show", run.id).out.splitlines()]
    rows = [[cell.strip() for cell in row] for row in rows]
    for row in (["agent", "narl-ucrl"], ["options.c", "1.5"], ["regret.median", "32.5"]):
        assert row in rows
    assert ["solved_episode", "3, -"] in rows


def test_runs_are_removed_together_or_not_at_all(call, tabular_runs):
    first, second, third = tabular_runs
    answer = call("runs", "remove", first.id, "tabular-narl", "--yes")
    assert answer.status == 2
    assert "give more of the id" in answer.err
    assert all(run.path.is_dir() for run in tabular_runs)
    names = ["tabular-psrl", str(second.path), second.id]
    answer = call("runs", "remove", *names, "--yes", "--json")
    assert json.loads(answer.out) == {"removed": [third.id, second.id]}
    assert [run.path.is_dir() for run in tabular_runs] == [True, False, False]
    answer = call("runs", "remove", str(first.path), "--runs", "other", "--yes")
    assert answer.status == 2
    assert "is not in other; name its folder with --runs" in answer.err


def test_removal_needs_a_yes(call, tabular_runs, monkeypatch):
    run = tabular_runs[0]
    answer = call("runs", "remove", run.id)
    assert answer.status == 2
    assert "--yes: missing" in answer.err
    for typed, remains in (("n\n", True), ("", True), ("y\n", False)):
        terminal = SimpleNamespace(isatty=lambda: True, readline=lambda typed=typed: typed)
        monkeypatch.setattr("sys.stdin", terminal)
        answer = call("runs", "remove", run.id, "--json")
        assert answer.status == 0
        assert run.id in answer.err
        assert run.path.is_dir() is remains
        assert answer.out == ("" if remains else json.dumps({"removed": [run.id]}) + "\n")


def test_options_differ_among_runs_of_one_kind():
    summaries = [
        {"algo": "narl", "env": "A", "settings": {"radius": 0.1, "hidden": [8, 8]}},
        {"algo": "narl", "env": "A", "settings": {"radius": None, "hidden": [8, 4]}},
        {"algo": "narl", "env": "B", "settings": {"radius": 5.0, "hidden": [8, 8]}},
        {"agent": "narl", "env": "A", "options": {"radius": 7.0}},
    ]
    assert options_that_differ(summaries) == [
        *("radius=0.1 hidden=8,8", "radius=none hidden=8,4", "", ""),
    ]


# --- trainings --------------------------------------------------------------------------------


def listed_runs(call) -> dict[str, dict]:
    """Return the runs of `narl runs --json` by name."""
    return {run["run"]: run for run in json.loads(call("runs", "--json").out)["runs"]}


@pytest.mark.slow
def test_trainings_are_listed_with_their_progress(call, trainings):
    runs = listed_runs(call)
    assert set(runs) == {trainings.tabular, trainings.finished, trainings.unfinished}
    finished, unfinished = runs[trainings.finished], runs[trainings.unfinished]
    for run in (finished, unfinished):
        assert set(run) - {"process"} == {
            *("run", "path", "time", "algo", "env", "seeds", "steps", "settings", "unfinished"),
            *("step", "final_return", "solved_step", "problems"),
        }
    assert (finished["unfinished"], finished["step"]) == (False, 300)
    assert finished["solved_step"] == [100, 100]
    assert (unfinished["unfinished"], unfinished["step"], unfinished["steps"]) == (True, 200, 300)
    assert (unfinished["process"], unfinished["solved_step"]) == (None, [None])
    assert unfinished["path"] == str(Path("runs") / trainings.unfinished)


@pytest.mark.slow
def test_trainings_have_a_table_of_their_own(call, trainings, monkeypatch):
    lines = call("runs").out.splitlines()
    assert [lines[0].split()[0], lines[1].split()[0]] == ["run", trainings.tabular]
    assert lines[2] == ""
    assert lines[3].split()[:5] == ["training", "step", "seeds", "return", "solved"]
    unfinished, finished = lines[4].split(), lines[5].split()
    assert (unfinished[:3], unfinished[4]) == ([trainings.unfinished, "200/300", "1"], "0/1")
    assert (finished[:3], finished[4]) == ([trainings.finished, "300", "2"], "2/2")
    assert "unfinished" in unfinished
    assert "buffer=5000" in unfinished
    assert "hidden" not in lines[4]

    monkeypatch.setattr(
        "narl.commands.runs_table.stdout", lambda: Console(file=sys.stdout, width=60)
    )
    lines = call("runs").out.splitlines()
    start = lines.index(trainings.unfinished)
    assert lines[start + 1].startswith("  step 200/300, seeds 1, return ")
    assert lines[start + 3] == "  unfinished"


@pytest.mark.slow
def test_training_in_progress_names_its_process_and_is_not_removed(call, trainings):
    part = trainings.root / trainings.unfinished
    with storage.lock_folder(part):
        assert listed_runs(call)[part.name]["process"] == os.getpid()
        assert f"in process {os.getpid()}" in call("runs").out
        answer = call("runs", "remove", part.name, "--yes")
    assert answer.status == 2
    assert f"process {os.getpid()} is writing to" in answer.err
    assert part.is_dir()


@pytest.mark.slow
def test_training_is_shown_with_its_last_epoch_or_its_arrays(call, trainings):
    name = trainings.unfinished
    result = json.loads(call("runs", "show", name.removesuffix(".part"), "--json").out)
    assert (result["run"], result["step"], result["unfinished"]) == (name, 200, True)
    assert result["config"]["settings"]["buffer"] == 5000
    assert result["last_epoch"]["step"] == 200
    rows = [line.split() for line in call("runs", "show", name).out.splitlines()]
    for row in ([name], ["step", "200"], ["steps", "300"], ["settings.buffer", "5000"]):
        assert row in rows
    result = json.loads(call("runs", "show", trainings.finished, "--json").out)
    assert (result["config"]["algo"], result["metrics"]["steps"]) == ("sac", 300)
    assert result["arrays"]["sac.actor.0.w"] == {"shape": [2, 2, 16], "dtype": "float32"}


@pytest.mark.slow
def test_training_without_an_intact_checkpoint_is_listed_shown_and_removed(call, trainings):
    part = trainings.root / trainings.unfinished
    for checkpoint in (part / storage.CHECKPOINTS).iterdir():
        flip_bit(checkpoint)
    assert len(listed_runs(call)[part.name]["problems"]) == 3
    (line,) = [line for line in call("runs").out.splitlines() if part.name in line]
    assert "no checkpoint is intact" in line
    assert "checksum" not in line
    assert "differs from its checksum" in call("runs", "show", part.name).out
    assert call("runs", "remove", part.name, "--yes").out == f"removed {part.name}\n"
