"""Callbacks: early stops, the best policy, saves on the way; and the options that stop a run."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from quick_trainings import actions_of, quick_agent, quick_config, train, train_until

import narl
from narl.deep.best_policy import BestPolicies
from narl.deep.callbacks import as_callback, mean_return, stop_rule
from narl.errors import InputError
from short_trainings import assert_same_outcome, metrics_rows

slow = pytest.mark.slow


def row(*returns, step=0):
    return {"step": step, "eval_return": list(returns)}


def test_mean_return_is_not_a_number_where_a_seed_is_missing():
    assert mean_return(row(1.0, 2.0)) == 1.5
    assert math.isnan(mean_return(row(1.0, None)))


def test_stop_at_return_waits_until_every_seed_has_reached_it_once():
    stop = narl.StopAtReturn(10)
    rows = [row(9.0, 30.0), row(None, 30.0), row(math.nan, 9.0), row(10.0, 2.0)]
    assert [stop(each) for each in rows] == [True, True, True, False]
    with pytest.raises(InputError, match="target: "):
        narl.StopAtReturn("10")


@pytest.mark.parametrize("returns", [[(9.0, 30.0), (8.0, 9.0), (10.0, 2.0)], [(1.0, 2.0)]])
def test_stop_at_return_ends_where_the_option_of_this_name_does(returns):
    option = stop_rule(quick_config(seeds=(0, 1), until_solved=True, solved_return=10.0))
    callback, solved = narl.StopAtReturn(10), [None, None]
    for step, each in enumerate(returns):
        solved = [step if x >= 10 and s is None else s for x, s in zip(each, solved, strict=True)]
        assert callback(row(*each)) == (not option({**row(*each), "solved_step": solved}))


def test_stop_at_return_counts_what_the_agent_has_reached_before():
    stop = narl.StopAtReturn(10)
    stop(row(20.0, 20.0))  # of another agent
    stop.start(SimpleNamespace(history=[row(20.0, 1.0)]))
    assert [stop(row(1.0, 1.0)), stop(row(1.0, 20.0))] == [True, False]


def test_stop_when_no_better_counts_evaluations_in_turn():
    stop = narl.StopWhenNoBetter(2, min_gain=1.0)
    returns = [0.0, 0.5, 2.0, None, 1.0]
    assert [stop(row(x)) for x in returns] == [True, True, True, True, False]
    with pytest.raises(InputError, match="num_evaluations: 0 is too small"):
        narl.StopWhenNoBetter(0)


def test_repr_of_keep_best_is_its_best_return(tmp_path):
    keep = narl.KeepBest()
    assert repr(keep) == "KeepBest: no epoch has ended yet"
    keep.mean_return, keep.step, keep.folder = 12.34, 40, tmp_path
    assert repr(keep) == f"KeepBest: mean return 12.3 at step 40, saved in {tmp_path}"


def test_best_policies_are_kept_replica_by_replica():
    best = BestPolicies()
    for step, returns, weight in (
        (1, (1.0, 5.0), 1.0),
        (2, (3.0, None), 2.0),
        (3, (2.0, 6.0), 3.0),
    ):
        best.update(row(*returns, step=step), {"sac.actor.0.w": np.full((2, 2), weight), "x": 0})
    arrays = best.arrays()
    assert arrays["best.sac.actor.0.w"].tolist() == [[2.0, 2.0], [3.0, 3.0]]
    assert arrays["best.return"].tolist() == [3.0, 6.0]
    assert arrays["best.step"].tolist() == [2, 3]
    again = BestPolicies()
    again.restore(arrays | {"other": np.zeros(2)})
    again.update(row(9.0, 0.0, step=4), {"sac.actor.0.w": np.zeros((2, 2))})
    assert again.arrays(slice(0, 1))["best.step"].tolist() == [4]
    assert arrays["best.step"].tolist() == [2, 3]  # a checkpoint may still read it


def test_callback_that_needs_the_agent_says_so():
    with pytest.raises(InputError, match=r"policy: no epoch has ended yet; give the callback to"):
        narl.KeepBest().policy  # noqa: B018
    started = []

    class Started:
        def start(self, agent):
            started.append(agent)

        def __call__(self, metrics):
            return None

    as_callback([Started(), lambda metrics: None], "agent")
    assert started == ["agent"]


@slow
def test_best_policy_is_kept_and_saved(cache, tmp_path):
    keep, save = narl.KeepBest(tmp_path / "best"), narl.SaveEvery(30, tmp_path / "all")
    actions: dict[int, bytes] = {}
    agent = quick_agent(seeds=[3, 8])

    def note_actions(metrics):
        actions[metrics["step"]] = {seed: actions_of(agent, seed) for seed in (3, 8)}

    agent.learn(60, [keep, save, note_actions])
    returns = {line["step"]: line["eval_return"] for line in agent.history}
    obs = np.random.default_rng(0).normal(size=(7, 2))
    for place, seed in enumerate((3, 8)):
        step = max(returns, key=lambda step: returns[step][place])
        assert keep.policy.act(obs, seed).tobytes() == actions[step][seed]
    assert keep.step == max(returns, key=lambda step: sum(returns[step]))
    assert actions_of(narl.load(tmp_path / "best"), 3) == actions[keep.step][3]
    assert [path.name for path in save.paths] == ["step-40"]
    assert actions_of(narl.load(save.paths[0]), 8) == actions[40][8]


@slow
def test_options_end_a_call_of_learn(cache):
    agent = quick_agent(until_solved=True, solved_return=-1e6).learn(60)
    assert agent.num_steps == 20
    patient = quick_agent(stop_when_no_better=1)
    patient.learn(60)
    returns = [line["eval_return"][0] for line in patient.history]
    worse = [i for i in range(1, len(returns)) if returns[i] <= max(returns[:i])]
    assert patient.num_steps == (20 * (worse[0] + 1) if worse else 60)


@slow
def test_training_that_gets_no_better_is_a_finished_run_also_after_a_resume(tmp_path, monkeypatch):
    """Every evaluation is given the same return, so that none after the first is better."""
    evaluate = narl.deep.evaluation.Evaluator.evaluate

    def constant(self, *arguments):
        evaluations, confirmation = evaluate(self, *arguments)
        return [each._replace(returns=[1.0]) for each in evaluations], confirmation

    monkeypatch.setattr("narl.deep.evaluation.Evaluator.evaluate", constant)
    config = quick_config(stop_when_no_better=1)
    assert config.run_id != quick_config().run_id
    assert json.dumps(config.record()) != json.dumps(quick_config().record())
    assert config.shape != quick_config(stop_when_no_better=1, seeds=(1,)).shape
    run = train(config, tmp_path / "whole")
    assert [line["step"] for line in metrics_rows(run)] == [20, 40]
    assert run.metrics["steps"] == 40
    train_until(27, [config], tmp_path / "resumed")
    assert_same_outcome(train(config, tmp_path / "resumed"), run)


def test_option_that_is_not_given_leaves_ids_as_they_were():
    assert "stop_when_no_better" not in quick_config().record()["settings"]
