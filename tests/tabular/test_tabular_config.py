"""Studies: what decides a run is spelled out, kept, and found again."""

import dataclasses
import json

import numpy as np
import pytest
from every_agent import unoptimised

from narl import storage
from narl.errors import InputError
from narl.tabular import deep_sea, make_mdp, riverswim, run, save_npz
from narl.tabular.config import Study, execute, metrics, study

SMALL = {"env": "riverswim", "size": 3, "horizon": 4, "episodes": 6, "seeds": range(3)}


@pytest.fixture(autouse=True)
def briefly():
    with unoptimised():
        yield


@pytest.fixture
def item() -> Study:
    return study("greedy", **SMALL)


def id_of(item: Study) -> str:
    return storage.run_id(item.config())


# --- configurations ------------------------------------------------------------------------


def test_names_that_are_no_field_are_options_of_the_agent():
    given = study("narl-ucrl", env="deep-sea", size=12, seeds=[0, 1], noise="bootstrap", c=2)
    assert given == Study(
        agent="narl-ucrl",
        env="deep-sea",
        size=12,
        seeds=(0, 1),
        options=(("c", 2), ("noise", "bootstrap")),
    )


def test_the_configuration_spells_out_every_option():
    config = study("narl-ucrl", preset="paper", c=0.5, seeds=[4, 5], episodes=7).config()
    assert config["agent"] == "narl-ucrl"
    assert config["env"] == "riverswim"
    assert config["horizon"] == 20
    assert config["episodes"] == 7
    assert config["seeds"] == [4, 5]
    assert config["until_solved"] is False
    assert config["options"]["c"] == 0.5
    assert config["options"]["members"] == 10
    assert config["options"]["noised"] == "both"
    assert config["options"]["clip"] == "none"
    json.dumps(config, allow_nan=False)


def test_a_preset_and_its_options_spelled_out_are_one_run():
    spelled = study("ucrl2", clip="none")
    assert id_of(study("ucrl2", preset="paper")) == id_of(spelled)
    assert id_of(study("ucrl2")) != id_of(spelled)


def test_the_same_values_in_another_order_or_type_are_one_run():
    one = study("narl-ucrl", c=1, noise="gaussian", seeds=[0, 1])
    other = study("narl-ucrl", seeds=(0, 1), noise="gaussian", c=1.0)
    assert id_of(one) == id_of(other)
    assert id_of(study("opsrl", members=np.int64(10))) == id_of(study("opsrl"))


@pytest.mark.parametrize(
    "change",
    [
        {"c": 0.5},
        {"noise": "bootstrap"},
        {"preset": "paper"},
        {"episodes": 7},
        {"seeds": (0, 2)},
        {"seeds": (1, 0)},
        {"size": 4},
        {"horizon": 5},
        {"env": "stochastic-chain"},
    ],
    ids=str,
)
def test_whatever_changes_the_numbers_changes_the_id(change):
    base = {**SMALL, "seeds": (0, 1)}
    assert id_of(study("narl-ucrl", **base)) != id_of(study("narl-ucrl", **{**base, **change}))


def test_the_agent_changes_the_id():
    assert id_of(study("psrl", **SMALL)) != id_of(study("greedy", **SMALL))


def test_stopping_early_changes_the_id():
    ids = {id_of(study("greedy", env="deep-sea", until_solved=flag)) for flag in (True, False)}
    assert len(ids) == 2


def test_the_seed_of_a_random_environment_changes_the_id():
    assert len({id_of(study("greedy", env="random-mdp", env_seed=seed)) for seed in (0, 1)}) == 2


@pytest.mark.parametrize("field", ["p", "r", "r_std", "p0"])
def test_other_numbers_under_the_same_name_change_the_id(field, tmp_path):
    tables = {
        "p": np.full((2, 1, 2), 0.5),
        "r": np.zeros((2, 1)),
        "r_std": np.ones((2, 1)),
        "p0": np.array([0.5, 0.5]),
    }
    other = {
        "p": np.array([[[0.25, 0.75]], [[0.5, 0.5]]]),
        "r": np.array([[0.0], [1e-9]]),
        "r_std": np.zeros((2, 1)),
        "p0": np.array([1.0, 0.0]),
    }
    path = tmp_path / "mine.npz"
    ids = []
    for given in (tables, tables, tables | {field: other[field]}):
        save_npz(path, make_mdp(**given, horizon=3, name="mine"))
        ids.append(id_of(study("greedy", env=str(path))))
    assert ids[0] == ids[1] != ids[2]


def test_another_rule_for_solved_changes_the_id(tmp_path):
    sea, ids = deep_sea(3), []
    for rule in ((0.9, 1), (0.8, 1), (0.9, 5)):
        path = save_npz(tmp_path / "sea.npz", dataclasses.replace(sea, solved_rule=rule))
        ids.append(id_of(study("greedy", env=str(path))))
    assert len(set(ids)) == 3
    # Without bad episodes nothing is ever solved, by whatever rule.
    plain = [dataclasses.replace(sea, bad=None, solved_rule=rule) for rule in ((0.9, 1), (0.8, 1))]
    paths = [save_npz(tmp_path / "plain.npz", mdp) for mdp in plain]
    assert len({id_of(study("greedy", env=str(path))) for path in paths}) == 1


def test_where_a_file_lies_does_not_change_the_id(tmp_path):
    paths = tmp_path / "a.npz", tmp_path / "b.npz"
    mdp = make_mdp(np.ones((1, 1, 1)), [[0.5]], [1], horizon=2, name="mine")
    for path in paths:
        save_npz(path, mdp)
    assert len({id_of(study("greedy", env=str(path))) for path in paths}) == 1


# --- running and finding again -------------------------------------------------------------


def test_what_is_kept_is_what_was_run(item, tmp_path):
    kept, found = execute(item, tmp_path)
    assert not found
    assert kept.config == item.config()
    trace = run("greedy", riverswim(3, 4), 6, range(3))
    arrays = kept.arrays()
    assert set(arrays) == {"regret", "value", "trajectory_gap", "realised_return"}
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, getattr(trace, name).astype(np.float32))
    assert kept.metrics["episodes"] == 6
    assert kept.metrics["v_star"] == pytest.approx(trace.v_star)
    assert kept.metrics["regret"]["median"] == pytest.approx(np.median(trace.regret.sum(1)))


def test_running_twice_finds_the_finished_run(item, tmp_path):
    first, found_first = execute(item, tmp_path)
    stamp = (first.path / "manifest.json").stat().st_mtime_ns
    called = []
    second, found_second = execute(item, tmp_path, progress=called.append)
    assert (found_first, found_second) == (False, True)
    assert second == first
    assert called == []
    assert (second.path / "manifest.json").stat().st_mtime_ns == stamp
    assert len(list(tmp_path.iterdir())) == 1


def test_fresh_runs_again_and_replaces(item, tmp_path):
    first, _ = execute(item, tmp_path)
    called = []
    second, found = execute(item, tmp_path, fresh=True, progress=called.append)
    assert not found
    assert called == [6]
    assert second.id == first.id
    assert second.environment["time"] > first.environment["time"]
    assert [path.name for path in tmp_path.iterdir()] == [first.id]
    np.testing.assert_array_equal(second.arrays()["regret"], first.arrays()["regret"])


def test_a_damaged_run_is_run_again(item, tmp_path):
    kept, _ = execute(item, tmp_path)
    (kept.path / "arrays.npz").write_bytes(b"torn")
    again, found = execute(item, tmp_path)
    assert not found
    assert again.arrays()["regret"].shape == (3, 6)


@pytest.mark.slow
def test_deep_sea_keeps_which_episodes_were_bad(tmp_path):
    kept, _ = execute(study("greedy", env="deep-sea", size=4, episodes=5), tmp_path)
    trace = run("greedy", deep_sea(4), 5)
    np.testing.assert_array_equal(kept.arrays()["bad"], trace.bad)
    assert kept.metrics["solved_episode"] == trace.solved_episode
    json.dumps(kept.metrics)


def test_metrics_are_medians_and_quartiles_of_the_cumulative_values():
    trace = run("greedy", riverswim(3, 4), 6, range(3))
    summary = metrics(trace)
    for name in ("regret", "optimism", "estimation_error"):
        totals = np.sort(getattr(trace, name).sum(axis=1))
        assert summary[name]["median"] == pytest.approx(totals[1])
        assert summary[name]["q25"] == pytest.approx(totals[:2].mean())
        assert summary[name]["q75"] == pytest.approx(totals[1:].mean())
    assert set(summary["seconds"]) == {"compile", "run"}
    assert "solved_episode" not in summary


def test_figures_that_are_no_number_are_kept_as_null(item, tmp_path, monkeypatch):
    """Ṽ_k of one seed is NaN: its terms have no median, the regret still has one."""
    trace = run("greedy", riverswim(3, 4), 6, range(3))
    value = trace.value.copy()
    value[1, 2] = np.nan
    broken = dataclasses.replace(trace, value=value)
    monkeypatch.setattr("narl.tabular.config.run", lambda *args, **options: broken)
    kept, found = execute(item, tmp_path)
    assert not found
    nothing = {"median": None, "q25": None, "q75": None}
    assert kept.metrics["optimism"] == nothing
    assert kept.metrics["estimation_error"] == nothing
    median = np.median(trace.regret.sum(axis=1))
    assert kept.metrics["regret"]["median"] == pytest.approx(median)
    text = (kept.path / "metrics.json").read_text(encoding="utf-8")
    assert "NaN" not in text
    assert json.loads(text)["optimism"] == nothing
    np.testing.assert_array_equal(kept.arrays()["value"], value.astype(np.float32))
    assert execute(item, tmp_path)[0].metrics == kept.metrics  # found, and whole


@pytest.mark.parametrize(
    ("field", "agent", "given"),
    [
        ("agent", "gredy", {}),
        ("env", "greedy", {"env": "riverswin"}),
        ("size", "greedy", {"size": 1}),
        ("c", "greedy", {"c": 1.0}),
        ("episodes", "greedy", {"episodes": 0}),
        ("seeds", "greedy", {"seeds": ()}),
        ("seeds", "greedy", {"seeds": (1, 1)}),
        ("seeds", "greedy", {"seeds": (-1,)}),
        ("preset", "greedy", {"preset": "papr"}),
        ("until_solved", "greedy", {"until_solved": True}),
    ],
)
def test_a_mistake_is_named_and_nothing_is_written(field, agent, given, tmp_path):
    with pytest.raises(InputError) as caught:
        execute(study(agent, **{**SMALL, **given}), tmp_path)
    assert str(caught.value).startswith(f"{field}: ")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
