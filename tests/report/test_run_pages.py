"""The pages of runs: commands, options, ids computed again, and the numbers of every seed."""

import dataclasses
import importlib
import shlex
import sys
from pathlib import Path
from types import ModuleType

import pytest

import narl
from narl.commands import tabular, train
from narl.deep.checked_config import make_config
from narl.experiments import EXPERIMENTS
from narl.report.contents import Outcome, TabularRun, Training
from narl.report.tabular_report import command_of
from narl.report.training_summary import command_of as training_command
from narl.tabular.config import make_config as make_tabular_config

DOCS = Path(__file__).resolve().parents[2] / "docs"
COMMANDS = [
    "narl train InvertedPendulum-v4 --preset paper --steps 3000 --radius none --seeds 3,5",
    "narl train Hopper-v5 --algo mbpo --hidden 64,64 --no-scale-targets --discount 0.9",
    "narl tabular narl-ucrl deep-sea --seeds 0:3 --size 5 --until-solved --preset paper",
    "narl tabular psrl riverswim --tau 100 --horizon 7",
]


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    """The script that makes the pages."""
    sys.path.insert(0, str(DOCS))
    try:
        return importlib.import_module("run_pages")
    finally:
        sys.path.remove(str(DOCS))


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_read_as_the_command_line_reads_them(pages: ModuleType, command: str) -> None:
    words = shlex.split(command)[2:]
    if "train" in command:
        expected = make_config(**train.COMMAND.parse(words)[0])
    else:
        expected = make_tabular_config(**tabular.COMMAND.parse(words)[0])
    config = pages.read_command(command)
    assert config == expected
    assert pages.run_id(config, narl.__version__) == config.run_id
    assert pages.run_id(config, "0.0.1") != config.run_id


def tabular_outcome() -> Outcome:
    """Return an outcome of two runs; the command of the second is not that of its id."""
    config = make_tabular_config("ucrl2", "riverswim", seeds=(4, 6), episodes=5, scale=0.5)
    scores = {"regret": [1.0, 3.0], "optimism": [-2.0, -4.0], "solved_episode": [7.0, None]}
    first = TabularRun("UCRL2", config.run_id, command_of(config), [4, 6], 5, scores)
    return Outcome(
        id="fig1c",
        title="Title",
        scale="paper",
        command="narl reproduce fig1c --scale paper",
        about="About.",
        charts=[],
        tables=[],
        claims=[],
        runs=["a", "b"],
        tabular_runs=[first, dataclasses.replace(first, run="ucrl2-0123456789")],
        environment={"narl": narl.__version__, "jax": "2", "device": "cpu"},
    )


def test_page_of_tabular_runs_has_scores_and_means(pages: ModuleType) -> None:
    outcome = tabular_outcome()
    page = pages.run_page(outcome)
    first, second = page.split("## Run ")[1:]
    assert "`narl tabular ucrl2 riverswim --seeds 4,6 --episodes 5 --scale 0.5`" in first
    assert "Options: `--episodes 5` `--scale 0.5`\n" in first
    assert "[`tabular_runs[0]`](../../results/fig1c-paper.json)" in first
    table = first.partition("```text\n")[2].partition("\n```")[0].splitlines()
    assert [line.split() for line in table] == [
        ["seed", "regret", "optimism", "solved", "episode"],
        ["4", "1", "−2", "7"],
        ["6", "3", "−4", "–"],
        ["mean", "2", "−3", "–"],
    ]
    assert "*Solved episode*" in page
    assert "*Close from episode*" not in page
    assert "| [1. UCRL2](#run-1) | 2 | −3 |" in page
    assert "1 of 2 ids are the stored ones" in page
    assert "The others differ (2): " in page
    now = f"The id that this command leads to now: `{outcome.tabular_runs[0].run}`"
    assert now not in first
    assert now in second


def test_page_of_many_runs_has_a_line_of_regrets_for_each(
    pages: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "MOST_TABLES", 1)
    page = pages.run_page(tabular_outcome())
    assert pages.REGRETS in page
    assert pages.TABULAR not in page
    assert page.count("```text\n1, 3\n```") == 2


def test_page_of_trainings_has_the_curve_and_the_options_of_the_preset(pages: ModuleType) -> None:
    config = make_config("InvertedPendulum-v4", "mbpo", seeds=(0, 1))
    training = Training(
        label="MBPO",
        run=config.run_id,
        command=training_command(config),
        seeds=[0, 1],
        steps=[250, 500, 750],
        returns=[[10.0, 1000.0, 400.0], [20.0, 30.0, None]],
        seconds=12.3,
        replicas=30,
        device="NVIDIA H200",
    )
    outcome = dataclasses.replace(
        tabular_outcome(), id="fig3a", tabular_runs=[], trainings=[training]
    )
    page = pages.run_page(outcome)
    assert "the ids of all 1 runs are the stored ones" in page
    assert "750 steps, 12 s with 30 replicas on NVIDIA H200, [`trainings[0]`](" in page
    assert "`--solved-return 1000`" in page  # from the preset
    assert "`narl train InvertedPendulum-v4 --algo mbpo --seeds 0:2`" in page
    table = page.partition("```text\n")[2].partition("\n```")[0].splitlines()
    assert [line.split() for line in table] == [
        ["step", "seed", "0", "seed", "1", "mean"],
        ["250", "10", "20", "15"],
        ["500", "1,000", "30", "515"],
        ["750", "400", "–", "–"],
        ["mean", "470", "–", "–"],
        ["solved", "500", "–", "–"],
    ]
    assert "| [1. MBPO](#run-1) | 400 (400) |" in page


def test_runs_of_an_outcome_without_scores_are_the_cells_of_its_experiment(
    pages: ModuleType,
) -> None:
    cells = EXPERIMENTS["fair"].cells("smoke")
    runs = [cell.run_id for cell in cells.values()]
    outcome = dataclasses.replace(
        tabular_outcome(), id="fair", scale="smoke", runs=runs, tabular_runs=[]
    )
    listed = pages.list_runs(outcome)
    assert [run.label for run in listed.tabular_runs] == list(cells)
    page = pages.run_page(listed)
    assert f"the ids of all {len(cells)} runs are the stored ones" in page  # swept ones too
    assert pages.NO_SCORES in page
    assert pages.SWEPT in page
    assert "```" not in page
    _, first, *_ = page.split("## Run ")
    assert f"run `{runs[0]}`, 20 episodes, swept: `c`\n" in first
    assert "--seeds 2000,2001,900,901 --episodes 20 --c 4e-05`" in first
    assert pages.list_runs(listed) == listed
