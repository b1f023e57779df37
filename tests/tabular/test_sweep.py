"""Sweeps of an option: one program gives what one run per value gives."""

import dataclasses

import numpy as np
import pytest
from variants import unoptimised

from narl import storage
from narl.errors import InputError
from narl.tabular import agent_options, make_config, riverswim, run
from narl.tabular.stored_run import run_configs
from narl.tabular.sweep import run_sweep


@pytest.mark.parametrize(
    ("agent", "name", "values"),
    [
        ("narl-ucrl", "c", (0.005, 0.5)),
        pytest.param("ucbvi", "scale", (0.01, 1.0), marks=pytest.mark.slow),
        pytest.param("psrl", "tau", (1.0, 1e4), marks=pytest.mark.slow),
    ],
)
def test_sweep_gives_the_scores_of_single_runs(agent, name, values):
    mdp, seeds = riverswim(horizon=6), (3, 1)
    options = [agent_options(agent, **{name: value}) for value in values]
    with unoptimised():
        swept = run_sweep(name, options, mdp, 30, seeds)
        single = [run(each, mdp, 30, seeds) for each in options]
    assert len(swept) == 2
    for ours, theirs in zip(swept, single, strict=True):
        np.testing.assert_array_equal(ours.seeds, seeds)
        np.testing.assert_allclose(ours.regret, theirs.regret, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(ours.value, theirs.value, rtol=1e-4, atol=1e-5)
    assert np.abs(swept[0].value - swept[1].value).max() > 0.01


def swept_configs(*values):
    shared = {"horizon": 3, "episodes": 4, "seeds": (0, 1), "swept": "scale"}
    return [make_config("ucrl2", "riverswim", scale=value, **shared) for value in values]


def test_configs_of_a_sweep_run_together_and_are_found_one_by_one(tmp_path, monkeypatch):
    first, second, third = swept_configs(0.1, 0.5, 1.0)
    assert first.shape == second.shape == third.shape
    assert first.run_id != second.run_id
    assert dataclasses.replace(first, swept=None).run_id != first.run_id
    with unoptimised():
        results = run_configs([first, second], tmp_path)
        assert [found for _, found in results] == [False, False]
        assert [run.config["options"]["scale"] for run, _ in results] == [0.1, 0.5]
        again = run_configs([second, third], tmp_path)
    assert [found for _, found in again] == [True, False]
    assert again[0][0].id == results[1][0].id
    assert len(storage.list_runs(tmp_path)) == 3
    assert all(run.arrays()["regret"].shape == (2, 4) for run, _ in again)


def test_swept_option_must_be_a_given_number():
    for swept, given in (("c", {}), ("members", {"members": 3}), ("clip", {"clip": "none"})):
        with pytest.raises(InputError, match=rf"^swept: '{swept}' is wrong; it must be a number"):
            make_config("narl-ucrl", "riverswim", swept=swept, **given)
