"""Configurations of tabular runs: their records and ids, and runs that are found again."""

import dataclasses
import json

import numpy as np
import pytest
from variants import unoptimised

from narl.errors import InputError
from narl.tabular import (
    Config,
    deep_sea,
    make_config,
    make_mdp,
    run,
    run_config,
    save_npz,
)
from narl.tabular.runner import Record
from narl.tabular.stored_run import metrics

SMALL = {"env": "deep-sea", "size": 3, "episodes": 6, "seeds": range(3)}

pytestmark = pytest.mark.usefixtures("fast_compile")


@pytest.fixture
def config() -> Config:
    return make_config("greedy", **SMALL)


@pytest.fixture(scope="module")
def trace():
    with unoptimised():
        return run("greedy", deep_sea(3), 6, range(3))


# --- configurations ------------------------------------------------------------------------


def test_make_config_separates_run_and_agent_options():
    config = make_config("narl-ucrl", "deep-sea", size=12, seeds=[0, 1], noised="both", c=2)
    assert (config.agent, config.env, config.size) == ("narl-ucrl", "deep-sea", 12)
    assert (config.seeds, config.episodes) == ((0, 1), 1000)
    assert (config.options.noised, config.options.c, config.options.members) == ("both", 2, 10)


def test_record_spells_out_every_option():
    record = make_config("narl-ucrl", "riverswim", preset="paper", c=0.5, seeds="4:6").record()
    assert {name: record[name] for name in ("experiment", "agent", "env", "horizon")} == {
        "experiment": "tabular",
        "agent": "narl-ucrl",
        "env": "riverswim",
        "horizon": 20,
    }
    assert (record["episodes"], record["seeds"], record["env_seed"]) == (1000, [4, 5], 0)
    assert record["until_solved"] is False
    for name, value in {"c": 0.5, "members": 10, "noised": "both", "clip": "none"}.items():
        assert record["options"][name] == value
    json.dumps(record, allow_nan=False)


@pytest.mark.parametrize(
    ("agent", "options", "other_options"),
    [
        ("ucrl2", {"preset": "paper"}, {"clip": "none"}),
        ("narl-ucrl", {"c": 1, "seeds": [0, 1]}, {"seeds": (0, 1), "c": 1.0}),
        ("opsrl", {"members": np.int64(10), "episodes": np.int32(1000)}, {}),
    ],
)
def test_run_id_is_the_same_for_the_same_values(agent, options, other_options):
    configs = [make_config(agent, "riverswim", **given) for given in (options, other_options)]
    assert configs[0].run_id == configs[1].run_id


def test_run_id_changes_with_every_field():
    changes = [
        {},
        {"agent": "psrl", "c": None},
        {"c": 0.5},
        {"noise": "bootstrap", "c": None},
        {"preset": "paper"},
        {"episodes": 7},
        {"seeds": (0, 2)},
        {"seeds": (1, 0)},
        {"size": 4},
        {"until_solved": True},
        {"env": "riverswim"},
        {"env": "riverswim", "horizon": 5},
        {"env": "stochastic-chain"},
        {"env": "random-mdp"},
        {"env": "random-mdp", "env_seed": 1},
    ]
    ids = set()
    for change in changes:
        given = {"agent": "narl-ucrl", **SMALL, "seeds": (0, 1), "c": 0.1} | change
        ids.add(make_config(**{k: v for k, v in given.items() if v is not None}).run_id)
    assert len(ids) == len(changes)


def test_run_id_depends_on_the_numbers_of_a_file_and_not_on_its_place(tmp_path):
    tables = {
        "p": np.full((2, 1, 2), 0.5),
        "r": np.zeros((2, 1)),
        "r_std": np.ones((2, 1)),
        "p0": np.array([0.5, 0.5]),
    }
    changes = {
        "p": np.array([[[0.25, 0.75]], [[0.5, 0.5]]]),
        "r": np.array([[0.0], [1e-9]]),
        "r_std": np.zeros((2, 1)),
        "p0": np.array([1.0, 0.0]),
    }

    def id_of(name: str, **change) -> str:
        path = save_npz(tmp_path / name, make_mdp(**tables | change, horizon=3, name="mine"))
        return make_config("greedy", path).run_id

    first = id_of("a.npz")
    assert id_of("a.npz") == id_of("b.npz") == first
    assert len({first, *(id_of("a.npz", **{k: v}) for k, v in changes.items())}) == 5


def test_run_id_depends_on_the_rule_for_solved(tmp_path):
    def id_of(mdp) -> str:
        return make_config("greedy", save_npz(tmp_path / "sea.npz", mdp)).run_id

    sea, rules = deep_sea(3), ((0.9, 1), (0.8, 1), (0.9, 5))
    assert len({id_of(dataclasses.replace(sea, solved_rule=rule)) for rule in rules}) == 3
    # Without bad episodes the rule has no effect.
    plain = dataclasses.replace(sea, bad=None)
    assert len({id_of(dataclasses.replace(plain, solved_rule=rule)) for rule in rules}) == 1


# --- running and finding again -------------------------------------------------------------


def test_run_config_saves_the_trace(config, trace, tmp_path):
    saved, found = run_config(config, tmp_path)
    assert not found
    assert saved.config == config.record()
    assert saved.id == config.run_id
    arrays = saved.arrays()
    assert set(arrays) == {"regret", "value", "trajectory_gap", "realised_return", "bad"}
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, getattr(trace, name).astype(np.float32))
    assert saved.metrics["episodes"] == 6
    assert saved.metrics["regret"] == metrics(trace)["regret"]
    assert saved.metrics["solved_episode"] == trace.solved_episode


def test_run_config_finds_a_finished_run_unless_fresh(config, tmp_path):
    first, _ = run_config(config, tmp_path)
    stamp = (first.path / "manifest.json").stat().st_mtime_ns
    episodes = []
    second, found = run_config(config, tmp_path, progress=episodes.append)
    assert found
    assert second == first
    assert episodes == []
    assert (second.path / "manifest.json").stat().st_mtime_ns == stamp
    third, found = run_config(config, tmp_path, fresh=True, progress=episodes.append)
    assert not found
    assert episodes == [6]
    assert third.id == first.id
    assert third.environment["time"] > first.environment["time"]
    assert [path.name for path in tmp_path.iterdir()] == [first.id]
    np.testing.assert_array_equal(third.arrays()["regret"], second.arrays()["regret"])


def test_run_config_repeats_a_damaged_run(config, tmp_path):
    saved, _ = run_config(config, tmp_path)
    (saved.path / "arrays.npz").write_bytes(b"torn")
    again, found = run_config(config, tmp_path)
    assert not found
    assert again.arrays()["regret"].shape == (3, 6)


def test_run_config_takes_the_mdp_of_the_caller(config, tmp_path, monkeypatch):
    mdp = config.make_mdp()
    monkeypatch.setattr("narl.tabular.envs.make", None)  # building it again would fail
    assert run_config(config, tmp_path, mdp=mdp)[0].config["horizon"] == 3


def test_metrics_are_figures_over_seeds_of_sums_over_episodes(trace):
    summary = metrics(trace)
    worst = trace.regret.sum(axis=1).argmax()
    for name in ("regret", "optimism", "estimation_error"):
        by_seed = getattr(trace, name).sum(axis=1)
        totals = np.sort(by_seed)
        expected = {"median": totals[1], "q25": totals[:2].mean(), "q75": totals[1:].mean()}
        expected |= {"mean": totals.mean(), "worst": by_seed[worst]}
        assert summary[name] == pytest.approx(expected)
    assert set(summary["seconds"]) == {"compile", "run"}
    assert summary["solved_episode"] == trace.solved_episode
    assert "solved_episode" not in metrics(dataclasses.replace(trace, bad=None))


def test_metrics_that_are_nan_are_saved_as_null(config, trace, tmp_path, monkeypatch):
    value = trace.value.copy()
    value[1, 2] = np.nan
    broken = dataclasses.replace(trace, value=value)
    monkeypatch.setattr("narl.tabular.stored_run.run", lambda *args, **options: broken)
    saved, _ = run_config(config, tmp_path)
    undefined = dict.fromkeys(("median", "q25", "q75", "mean"))
    for name in ("optimism", "estimation_error"):
        assert saved.metrics[name].items() >= undefined.items()
    assert saved.metrics["regret"] == metrics(trace)["regret"]
    text = (saved.path / "metrics.json").read_text(encoding="utf-8")
    assert json.loads(text, parse_constant=pytest.fail)["optimism"] == saved.metrics["optimism"]
    np.testing.assert_array_equal(saved.arrays()["value"], value.astype(np.float32))
    assert run_config(config, tmp_path)[1]


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("agent", {"agent": "gredy"}),
        ("option", {"episode": 3}),
        ("episodes", {"episodes": 0}),
        ("c", {"c": 1.0}),
    ],
)
def test_wrong_configurations_are_refused_and_nothing_is_written(field, change, tmp_path):
    with pytest.raises(InputError) as caught:
        run_config(make_config(**{"agent": "greedy", **SMALL, **change}), tmp_path)
    assert str(caught.value).startswith(f"{field}: ")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_scores_that_do_not_fit_into_memory_are_refused(tmp_path, monkeypatch):
    """Each of the scores takes 4 + 8 + 8 bytes, per seed and episode."""
    config = make_config("psrl", "riverswim", episodes=30, seeds=(0, 1))
    needed = 20 * len(Record._fields) * 2 * 30
    monkeypatch.setattr("narl.tabular.stored_run.available_host_memory", lambda: needed - 1)
    with pytest.raises(InputError, match=r"^memory: the scores of all seeds and episodes need "):
        run_config(config, tmp_path)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr("narl.tabular.stored_run.available_host_memory", lambda: needed)
    run_config(config, tmp_path)
