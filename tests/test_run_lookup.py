"""Runs and pretrained policies are found by the same names on the command line and in Python."""

import json
import shutil
from pathlib import Path

import matplotlib as mpl
import pytest

import narl
from narl import storage
from narl.errors import InputError
from narl.run_lookup import command_line, find_policy, find_run, pretrained_policies

ROOT = Path(__file__).resolve().parents[1]
RUN = ROOT / "tests" / "storage" / "fixtures" / "train-sac-pendulum-v1-f773e86ad6"
NAMES = ("latest", RUN.name, "train-sac", "f773e86ad6")
"""Names of the one run in the fixture `runs`."""


@pytest.fixture
def runs(tmp_path, monkeypatch) -> Path:
    """A working folder of one training in the folder `runs`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NARL_RUNS", raising=False)
    shutil.copytree(RUN, tmp_path / "runs" / RUN.name)
    return Path("runs")


def test_pretrained_policies_are_those_of_the_clone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = pretrained_policies()
    cards = {path.parent.name for path in (ROOT / "policies").glob("*/README.md")}
    assert set(found) == cards
    assert found["hopper"] == ROOT / "policies" / "hopper"


def test_pretrained_policies_of_an_installed_package_are_in_the_working_folder(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "narl.run_lookup.__file__", str(tmp_path / "lib" / "narl" / "run_lookup.py")
    )
    assert pretrained_policies() == {}
    with pytest.raises(InputError, match="policies: none here; they are found in the folder of"):
        find_policy(Path("runs"), "hopper")
    shutil.copytree(RUN, tmp_path / "policies" / "swing")
    (tmp_path / "policies" / "empty").mkdir()
    assert find_policy(Path("runs"), "swing") == (Path("policies/swing"), True)
    assert set(pretrained_policies()) == {"swing"}


def test_eval_and_load_take_the_name_of_a_policy(call):
    answer = call("eval", "inverted-pendulum", "--episodes", "1", "--json")
    assert answer.status == 0, answer.err
    result = json.loads(answer.out)
    assert result["path"] == str(ROOT / "policies" / "inverted-pendulum")
    agent = narl.load("inverted-pendulum")
    assert agent.evaluate(1).returns == result["seeds"][0]["returns"]


def test_folder_takes_precedence_over_a_policy_of_the_same_name(runs):
    shutil.copytree(RUN, "hopper")
    assert find_policy(runs, "hopper") == (Path("hopper"), True)
    assert narl.load("hopper").config.env == "Pendulum-v1"
    Path("sparse-pendulum").mkdir()
    with pytest.raises(InputError, match="the folder sparse-pendulum holds no policy"):
        find_policy(runs, "sparse-pendulum")


def test_run_takes_precedence_over_a_policy_of_the_same_name(runs, monkeypatch):
    monkeypatch.setattr("narl.run_lookup.pretrained_policies", lambda: {"train-sac": Path("other")})
    assert find_policy(runs, "train-sac") == (runs / RUN.name, True)


@pytest.mark.parametrize("command", ["eval", "play"])
def test_unknown_name_is_one_line_with_the_policies(call, command):
    answer = call(command, "hoper")
    assert (answer.status, answer.out) == (2, "")
    assert answer.err.count("\n") == 1
    listed = ", ".join(pretrained_policies())
    assert answer.err.endswith(
        "'hoper' is not there; the folder runs holds no runs; did you mean 'hopper'? pretrained "
        f"policies: {listed}\n"
    )


@pytest.mark.parametrize("command", ["eval", "report", "resume", "runs remove --yes"])
def test_misspelled_latest_is_suggested(call, command):
    shutil.copytree(RUN, Path("runs") / RUN.name)
    answer = call(*command.split(), "latset")
    assert answer.status == 2
    assert "; did you mean 'latest'?" in answer.err


@pytest.mark.parametrize(
    ("words", "options", "command"),
    [
        (["runs"], {"runs": Path("runs")}, "narl runs"),
        (["report", "my runs/x"], {}, "narl report 'my runs/x'"),
        (["eval", "x"], {"trust": True}, "narl eval x --trust-env-module"),
        (["eval", "x"], {"runs": Path("my runs")}, "narl eval x --runs 'my runs'"),
    ],
)
def test_command_line_names_what_is_not_the_default(monkeypatch, words, options, command):
    monkeypatch.delenv("NARL_RUNS", raising=False)
    assert command_line(*words, **options) == command
    monkeypatch.setenv("NARL_RUNS", "my runs")
    assert "--runs 'my runs'" not in command_line(*words, **options)


def test_load_of_an_unknown_name_lists_the_policies_and_that_of_a_path_does_not(runs):
    with pytest.raises(
        InputError,
        match=r"'hoper'.*did you mean 'hopper'\? pretrained policies: half-cheetah, hopper, ",
    ):
        narl.load("hoper")
    with pytest.raises(InputError, match=r"^folder: here/hopper is not there; give one"):
        narl.load("here/hopper")


@pytest.mark.parametrize("name", NAMES)
def test_load_takes_the_names_of_a_run(runs, name):
    assert narl.load(name).num_steps == storage.load_run(RUN).metrics["steps"]


@pytest.mark.parametrize("name", NAMES)
def test_plot_takes_the_names_of_a_run(runs, name):
    mpl.use("Agg")
    axes = narl.plot(name)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["sac"]
    mpl.pyplot.close("all")


def test_folder_of_another_name_is_not_a_run(runs):
    shutil.copytree(RUN, "saved")
    line = r"run: saved does not have the name of a run \(train-sac-.+\); if it is a saved agent, "
    with pytest.raises(InputError, match=f"^{line}narl.load and `narl eval` take it$"):
        find_run(runs, "saved")


def test_load_and_plot_look_into_the_folder_of_the_variable(runs, monkeypatch):
    runs.rename("elsewhere")
    for use, kind in ((narl.load, "trainings"), (narl.plot, "runs")):
        with pytest.raises(InputError, match=f"the folder runs holds no {kind}; name another"):
            use("latest")
    monkeypatch.setenv("NARL_RUNS", "elsewhere")
    assert narl.load("latest").algo == "sac"
    assert find_run(storage.default_root(), "latest").id == RUN.name


def test_latest_is_the_latest_training_where_only_trainings_can_be_used(runs):
    config = {"experiment": "tabular", "agent": "x", "env": "y", "seeds": [0], "options": {}}
    later = storage.save_run(runs, config, {"regret": {}, "episodes": 1}, {"regret": [[1.0]]})
    assert find_run(runs, "latest").id == later.id
    assert find_run(runs, "latest", of_training=True).id == RUN.name
    assert narl.load("latest").algo == "sac"
