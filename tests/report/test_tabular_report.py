"""Runs of `narl tabular` as sections of a report."""

import dataclasses
import shlex

import numpy as np
import pytest
from html_reader import HtmlReader

from narl import storage
from narl.commands.tabular import COMMAND
from narl.report.page import compose_page
from narl.report.tabular_report import command_of, tabular_sections
from narl.tabular import riverswim, save_npz
from narl.tabular.config import make_config
from narl.tabular.stored_run import run_config


def stored(root, agent="psrl", env="riverswim", **options) -> storage.Run:
    given = {"episodes": 8, "seeds": (0, 1)} | options
    return run_config(make_config(agent, env, **given), root)[0]


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> list[storage.Run]:
    root = tmp_path_factory.mktemp("runs")
    return [stored(root), stored(root, tau=3.0), stored(root, env="deep-sea", size=3)]


def test_runs_of_one_environment_share_their_charts(runs):
    river, sea = tabular_sections(runs)
    assert (river.title, sea.title) == (
        "riverswim, 20 steps per episode",
        "deep_sea-3, 3 steps per episode",
    )
    assert river.runs == [runs[0].id, runs[1].id]
    charts = {chart.id: chart for chart in river.charts}
    assert list(charts) == ["regret", "optimism", "estimation-error"]
    labels = [series.label for series in charts["regret"].series]
    assert labels == ["psrl, tau=1", "psrl, tau=3"]
    arrays, v_star = runs[0].arrays(), runs[0].metrics["v_star"]
    for name, scores in (
        ("regret", arrays["regret"]),
        ("optimism", v_star - arrays["value"]),
    ):
        sums = np.median(scores.astype(np.float64).cumsum(axis=1), axis=0)
        np.testing.assert_allclose(charts[name].series[0].y, sums)


def test_table_has_the_regret_at_the_end(runs):
    river, sea = tabular_sections(runs)
    (table,) = river.tables
    last = runs[0].arrays()["regret"].astype(np.float64).sum(axis=1)
    first = dict(zip(table.columns, table.rows[0], strict=True))
    assert (first["run"], first["seeds"], first["episodes"]) == ("psrl, tau=1", 2, 8)
    assert first["median"] == pytest.approx(np.median(last))
    assert first["worst seed"] == pytest.approx(last.max())
    assert "solved by" not in table.columns
    assert sea.tables[0].columns[-1] == "solved by"


@pytest.mark.parametrize(
    ("options", "command"),
    [
        ({}, "narl tabular psrl riverswim --seeds 0:2 --episodes 8"),
        ({"tau": 3.0, "size": 4}, "narl tabular psrl riverswim --seeds 0:2 --episodes 8 --size 4"),
        ({"horizon": 7}, "--horizon 7"),
        ({"agent": "narl-ucrl", "clip_reward": False}, "--no-clip-reward"),
        ({"env": "random-mdp", "env_seed": 3, "size": 4}, "random-mdp --seeds 0:2 --episodes 8"),
        ({"env": "stochastic-chain", "scale_rewards": True}, "--scale-rewards"),
    ],
)
def test_section_names_the_command_that_runs_the_same_again(tmp_path, options, command):
    run = stored(tmp_path, **options)
    (section,) = tabular_sections([run])
    assert command in section.introduction[0].command


@pytest.mark.parametrize(
    "options",
    [
        {"agent": "narl-ucrl", "preset": "paper"},
        {"agent": "narl-ucrl", "preset": "paper", "clip_reward": True, "members": 3},
        {"agent": "narl-ucrl", "noise": "bootstrap", "empty": "none"},
        {"env": "deep-sea", "size": 4, "until_solved": True, "seeds": (3, 5)},
        {"agent": "ucbvi", "bonus": "bernstein", "scale": 0.003, "horizon": 6},
        {"env": "random-mdp", "env_seed": 2, "preset": "strong-prior"},
    ],
)
def test_command_of_a_configuration_gives_the_same_configuration(options):
    given = {"agent": "psrl", "env": "riverswim"} | options
    config = make_config(**given)
    words = shlex.split(command_of(config))
    assert words[:4] == ["narl", "tabular", given["agent"], given["env"]]
    assert make_config(**COMMAND.parse(words[2:])[0]) == config


def test_command_leaves_out_defaults_but_seeds_and_episodes():
    config = make_config("narl-ucrl", "riverswim", c=0.005, members=3)
    expected = "narl tabular narl-ucrl riverswim --seeds 0:20 --episodes 1000 --members 3"
    assert command_of(config) == expected


def test_run_of_a_file_names_the_command_that_shows_it(tmp_path):
    mdp = dataclasses.replace(riverswim(3), name="mine")
    save_npz(tmp_path / "my.npz", mdp)
    run = stored(tmp_path, env=str(tmp_path / "my.npz"))
    (section,) = tabular_sections([run])
    assert section.introduction[0].command == f"narl runs show {run.id} --runs {tmp_path}"


def test_page_of_tabular_runs_does_not_call_them_trainings(runs):
    reader = HtmlReader(compose_page(tabular_sections(runs[:1])))
    assert reader.texts("p", "kicker") == ["narl · report of runs"]
    assert reader.texts("p", "lead") == ["1 run, 3 charts"]
