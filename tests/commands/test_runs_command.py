"""`narl runs`: the list of tabular runs and trainings, one run in detail, and removal."""

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from narl import storage
from narl.commands.run_details import compare
from narl.commands.runs_table import changed_options
from narl.deep.checked_config import make_config
from narl.deep.config import ENV_CODE
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


def test_text_has_a_line_per_run_with_the_options_that_were_changed(call, tabular_runs):
    answer = call("runs")
    assert call("runs", "list") == answer
    lines = answer.out.splitlines()
    assert len(lines) == 4
    figures = ["7", "2", "32.50", "36.00", "50.00"]
    assert lines[1].split()[:6] == [tabular_runs[2].id, *figures]
    assert lines[2].rstrip().endswith("c=1.5 none=none")
    assert lines[3].rstrip().endswith("c=0.1 none=none")
    assert "members=10" not in "".join(lines[2:])  # the default of narl-ucrl


def names_in(answer) -> list[str]:
    return [run["run"] for run in json.loads(answer.out)["runs"]]


def test_list_is_filtered_by_environment_and_algorithm(call, tabular_runs):
    first, second, third = (run.id for run in tabular_runs)
    assert names_in(call("runs", "--algo", "NARL-UCRL", "--json")) == [second, first]
    assert names_in(call("runs", "list", "--env", "River", "--json")) == [third, second, first]
    assert names_in(call("runs", "--env", "river", "--algo", "psrl", "--json")) == [third]
    assert names_in(call("runs", "--algo", "narl", "--json")) == []
    for words, known in (
        ("--algo narl", "algorithms: narl-ucrl, psrl"),
        ("--env nothing", "environments: riverswim"),
        ("--env river --algo x", "environments: riverswim; algorithms: narl-ucrl, psrl"),
    ):
        shown = " ".join(call("runs", *words.split()).out.split())
        assert shown == f"none of the 3 runs in runs fits {words}; {known}"
    assert call("runs", "--algo", "psrl").out.count("\n") == 2


def terminal(monkeypatch, columns: int) -> None:
    """Print runs as in a terminal of this width."""
    console = lambda: Console(file=sys.stdout, width=columns)  # noqa: E731
    monkeypatch.setattr("narl.commands.runs_table.stdout", console)


@pytest.mark.parametrize("columns", [80, 100])
def test_list_fits_the_terminal(call, tabular_runs, monkeypatch, columns):
    terminal(monkeypatch, columns)
    lines = call("runs").out.splitlines()
    assert max(map(len, lines)) <= columns
    digits = [run.id[-10:] for run in reversed(tabular_runs)]
    rows = [line.split() for line in lines if line.split()[0] in digits]
    assert [row[:5] for row in rows] == [
        [digits[0], "psrl", "riverswim", "7", "2"],
        [digits[1], "narl-ucrl", "riverswim", "7", "2"],
        [digits[2], "narl-ucrl", "riverswim", "7", "2"],
    ]
    assert "  c=1.5 none=none" in [line.rstrip() for line in lines]


def test_run_is_named_by_the_end_of_its_id_or_latest(call, tabular_runs):
    for name, run in (("latest", tabular_runs[2]), (tabular_runs[0].id[-10:], tabular_runs[0])):
        assert json.loads(call("runs", "show", name, "--json").out)["run"] == run.id
    answer = call("runs", "show", "latest", "--runs", "empty")
    assert answer.status == 2
    assert answer.err == (
        "narl: RUN: the folder empty holds no runs; name another (--runs, NARL_RUNS)\n"
    )


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
    shown = call("runs", "show", run.id)
    assert shown.out.endswith(f"\nall of it: narl runs show {run.id} --all\n")
    Path("runs").rename("kept")
    elsewhere = call("runs", "show", run.id, "--runs", "kept")
    assert elsewhere.out.endswith(f"\nall of it: narl runs show {run.id} --all --runs kept\n")
    Path("kept").rename("runs")
    rows = rows_of(shown)
    for row in (["agent", "narl-ucrl"], ["c", "1.5"], ["episodes", "7"]):
        assert row in rows
    assert ["regret", "median 32.50, mean 36.00, worst seed 50.00"] in rows
    assert not any(row[0].startswith("members") for row in rows if row)
    rows = rows_of(call("runs", "show", run.id, "--all"))
    for row in (["agent", "narl-ucrl"], ["options.members", "10"], ["regret.median", "32.5"]):
        assert row in rows
    assert ["solved_episode", "3, -"] in rows


def rows_of(answer) -> list[list[str]]:
    """Return names and facts of `narl runs show`."""
    rows = [line.split(maxsplit=1) for line in answer.out.splitlines()]
    return [[cell.strip() for cell in row] for row in rows]


def test_runs_are_compared_by_results_and_options(call, tabular_runs):
    names = [tabular_runs[0].id, tabular_runs[1].id[-10:], "latest"]
    result = json.loads(call("runs", "compare", *names, "--json").out)
    assert result["runs"] == [run.id for run in tabular_runs]
    assert result["results"]["agent"] == ["narl-ucrl", "narl-ucrl", "psrl"]
    assert result["options"]["c"] == ["0.1", "1.5", "none"]
    lines = call("runs", "compare", *names).out.splitlines()
    assert ["c", "0.1", "1.5", "none"] in [line.split() for line in lines]
    assert "narl report" not in "".join(lines)  # which has intervals of trainings only
    # psrl has no number of members by default, but all three runs have the same.
    assert list(result["options"]) == ["c"]
    answer = call("runs", "compare", "latest")
    assert answer.status == 2
    assert "RUN: 1 given; two or more are compared" in answer.err


def test_comparison_shows_numbers_of_models_and_changed_code():
    runs = [
        storage.Run(Path(algo), algo, make_config("Hopper-v5", algo).record(), {}, {ENV_CODE: code})
        for algo, code in (("narl", "1a"), ("mbpo", "2b"), ("sac", "2b"))
    ]
    options = compare(runs)["options"]
    assert options["members"] == ["3", "7", ""]
    assert not {"seeds", "until_solved", "exclude_by"} & set(options)
    assert options["code of the environment"] == ["1a", "2b", "2b"]
    assert "code of the environment" not in compare(runs[1:])["options"]


def test_comparison_of_unequal_lengths_says_so(call):
    steps = {"mbpo": 2400, "narl": 3000, "sac": 2400}
    for algo, number in steps.items():
        metrics = {"steps": number, "final_return": [1.0]}
        storage.save_run("runs", make_config("Hopper-v5", algo).record(), metrics, {})
    short, long, other = (f"train-{algo}" for algo in steps)
    lines = call("runs", "compare", short, long).out.splitlines()
    assert lines[-1].startswith("the numbers of steps differ, and each return is that of its own")
    equal = call("runs", "compare", short, other).out
    assert "the numbers of steps" not in equal
    assert equal.endswith("`narl report RUN...` gives differences with intervals\n")
    Path("runs/sweeps").mkdir()
    Path("runs/sweeps/sweep-0123456789.json").write_text("{}")
    everything = sorted(map(str, Path("runs").glob("*")))  # as the shell expands runs/*
    assert call("runs", "compare", *everything).status == 0


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
    assert call("runs", "rm", first.id, "--yes").out == f"removed {first.id}\n"


@pytest.mark.parametrize("name", ["", " ", "."])
def test_empty_name_removes_nothing(call, tabular_runs, name):
    for run in tabular_runs[1:]:
        storage.remove_run("runs", run.id)
    answer = call("runs", "remove", name, "--yes")
    assert (answer.status, answer.out) == (2, "")
    assert answer.err.count("\n") == 1
    assert tabular_runs[0].path.is_dir()


def test_folder_that_is_no_run_is_not_removed(call, tabular_runs, tmp_path):
    other = tmp_path / "runs" / "thesis.part"
    other.mkdir()
    (other / "chapter.txt").write_text("words")
    for name in ("runs/thesis.part", "thesis.part", "thesis"):
        answer = call("runs", "remove", name, "--yes")
        assert (answer.status, answer.out) == (2, "")
    (other / storage.TRAINING_FILE).write_text("{}")
    answer = call("runs", "remove", "runs/thesis.part", "--yes")
    assert answer.status == 2
    assert "does not have the name of a run" in answer.err
    assert (other / "chapter.txt").is_file()


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


def test_changed_options_are_those_that_no_default_or_preset_gives():
    config = make_config("Hopper-v5", "narl", radius=None, hidden=(8, 4), steps=7000, seeds="0:3")
    assert changed_options(config.record()) == {"radius": None, "hidden": (8, 4), "steps": 7000}
    assert changed_options(make_config("Hopper-v5").record()) == {}
    unreadable = {"experiment": "train", "settings": {"radius": 7.0}}
    assert changed_options(unreadable) == {"radius": 7.0}
    own = json.loads(json.dumps(config.record()))
    own["algo"] = own["settings"]["algo"] = "hopeful"  # registered in another program
    assert changed_options(own) == {"radius": None, "hidden": [8, 4], "steps": 7000}
    begun = make_config("Pendulum-v1", "mbpo", initial_steps=20).record()
    begun["algo"] = begun["settings"]["algo"] = "hopeful"
    assert changed_options(begun) == {"initial_steps": 20}  # updates begin with them
    begun["settings"]["learn_after"] = 30
    assert changed_options(begun) == {"initial_steps": 20, "learn_after": 30}
    tabular = {"experiment": "tabular", "agent": "psrl", "options": {"tau": 1.0, "mu0": 0.5}}
    assert changed_options(tabular) == {"mu0": 0.5}


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
    assert (unfinished[:3], unfinished[4]) == ([trainings.unfinished, "200/300", "1"], "-")
    assert (finished[:3], finished[4]) == ([trainings.finished, "300", "2"], "2/2")
    assert "unfinished" in unfinished
    assert "buffer=5000" in unfinished
    assert "learning_rate" not in lines[4]

    terminal(monkeypatch, 80)
    lines = [line.rstrip() for line in call("runs").out.splitlines()]
    assert max(map(len, lines)) <= 80
    digits = trainings.unfinished.removesuffix(".part")[-10:]
    (start,) = [i for i, line in enumerate(lines) if line.startswith(digits)]
    assert lines[start].split()[1:5] == ["sac", "toy_worlds:Toy-v0", "200/300", "1"]
    assert lines[start + 1] == "  unfinished"
    assert "buffer=5000" in " ".join(lines[start + 2 : start + 5])


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
    rows = [line.split() for line in call("runs", "show", name, "--all").out.splitlines()]
    for row in ([name], ["step", "200"], ["steps", "300"], ["settings.buffer", "5000"]):
        assert row in rows
    shown = call("runs", "show", name)
    assert ["buffer", "5000"] in rows_of(shown)
    assert ["checkpoint", "step 200 of 300"] in rows_of(shown)
    shown = call("runs", "show", trainings.finished).out
    assert len(shown.splitlines()) < 50
    assert "opt" not in shown.replace("options", "").replace("optax", "")
    assert "solved at step" in shown
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
