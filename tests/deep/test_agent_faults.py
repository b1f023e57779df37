"""Callbacks, and what is left of an agent when learning fails."""

import numpy as np
import pytest
from quick_trainings import quick_agent

import narl
import toy_worlds
from narl.deep.callbacks import as_callback
from narl.deep.trainer import Trainer
from narl.errors import InputError

BROKEN = "toy_worlds:Broken-v0"
slow = pytest.mark.slow


def saved_arrays(agent, path):
    """Return the bytes of every array that is saved of an agent."""
    arrays = narl.storage.load_run_at(agent.save(path)).arrays()
    return {name: array.tobytes() for name, array in arrays.items()}


# --- callbacks --------------------------------------------------------------------------------


@slow
def test_all_callbacks_of_a_list_are_called_and_any_of_them_stops(cache):
    calls, agent = [], quick_agent()

    def first(row):
        calls.append(("first", row["step"]))
        return np.bool_(row["step"] < 40)

    agent.learn(60, [first, lambda row: calls.append(("second", row["step"]))])
    assert calls == [(name, step) for step in (20, 40) for name in ("first", "second")]
    assert agent.num_steps == 40


@pytest.mark.parametrize(
    ("callbacks", "continues"),
    [
        (None, True),
        ([], True),
        (lambda row: None, True),
        (lambda row: 0, True),
        (print, True),
        (lambda row: False, False),
        (lambda row: np.False_, False),
        (lambda row: np.array(False), False),
        ((lambda row: True, lambda row: False), False),
    ],
)
def test_only_false_ends_learning(callbacks, continues):
    assert as_callback(callbacks)({"step": 1}) is continues


class NotCallable:
    """Such as a callback of another library."""


@pytest.mark.parametrize(
    ("callback", "line"),
    [
        ("print", "callback: str given; it must be a function that takes the row of an epoch, or"),
        (NotCallable(), "callback: NotCallable given"),
        ([print, None], "callback: NoneType given"),
        (iter([print]), "callback: .*iterator given"),
        (lambda: None, r"callback: <lambda> cannot be called with the row of an epoch \(too many"),
        (lambda a, b: None, r"callback: <lambda> cannot be called with .* \(missing a required"),
    ],
)
def test_wrong_callback_is_refused_before_learning_begins(callback, line):
    agent = quick_agent()
    with pytest.raises(InputError, match=line) as refused:
        agent.learn(60, callback)
    assert "\n" not in str(refused.value)
    assert agent.num_steps == 0


# --- steps that fail --------------------------------------------------------------------------


@slow
@pytest.mark.parametrize(
    ("algo", "what", "error", "cause"),
    [
        ("sac", "huge", narl.NonFiniteError, "is inf"),
        ("sac", "interrupt", KeyboardInterrupt, "KeyboardInterrupt"),
        ("narl", "raise", narl.EnvironmentFault, "the simulator"),
    ],
)
def test_networks_of_the_last_epoch_stay_after_a_fault(
    cache, monkeypatch, tmp_path, algo, what, error, cause
):
    expected = saved_arrays(quick_agent(algo).learn(60, lambda row: False), tmp_path / "expected")
    assert ("ensemble.ranked" in expected, "sac.critic.0.w" in expected) == (algo == "narl", True)
    monkeypatch.setitem(toy_worlds.FAULTS, "what", what)
    monkeypatch.setitem(toy_worlds.FAULTS, "at", 35)
    agent = quick_agent(algo, BROKEN)
    with pytest.raises(error):
        agent.learn(60)
    assert (agent.num_steps, len(agent.history)) == (20, 1)
    arrays = saved_arrays(agent, tmp_path / "saved")
    assert arrays == expected
    with pytest.raises(InputError, match="learn: an earlier step failed") as refused:
        agent.learn(20)
    line = str(refused.value)
    assert cause in line
    assert "step 20" in line
    assert line.endswith("make a new one, or load one that was saved with data=True")
    with pytest.raises(InputError, match="data: there is none; an earlier step failed"):
        agent.save(tmp_path / "data", data=True)
    assert not (tmp_path / "data").exists()


@slow
def test_networks_that_are_not_finite_are_not_kept(cache, monkeypatch, tmp_path):
    agent = quick_agent().learn(60, lambda row: False)
    expected = saved_arrays(agent, tmp_path / "expected")

    def broken(trainer):
        raise narl.NonFiniteError(f"step {trainer.counters.step}: sac.critic.0.w is nan")

    monkeypatch.setattr(Trainer, "check_policies", broken)
    with pytest.raises(narl.NonFiniteError, match=r"step 40: sac\.critic\.0\.w is nan"):
        agent.learn(40)
    assert saved_arrays(agent, tmp_path / "saved") == expected
    assert agent.num_steps == 20
