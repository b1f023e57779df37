"""The host loop: the first state, faults that stop it, and the metrics of an epoch."""

import contextlib
import copy
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from probes import Drift
from quick_trainings import quick_config

from narl.deep.device_programs import Device
from narl.deep.finite_check import FiniteCheck, NonFiniteError
from narl.deep.trainer import Trainer
from narl.deep.user_parts import UserParts
from narl.errors import InputError
from toy_worlds import Toy

CONFIGS = (quick_config("narl", seeds=(3,)), quick_config("narl", seeds=(4,), radius=None))


@pytest.fixture
def without_programs(monkeypatch):
    """Trainers that are only looked at, without the time of compiling."""
    monkeypatch.setattr(Device, "compile", lambda self, algorithm, info: None)


def change_state(trainer, change):
    """Change the state of a trainer on the host."""
    state = jax.tree.map(np.copy, trainer.to_host())
    change(state)
    trainer.from_host(state)


# --- the first state --------------------------------------------------------------------------


@pytest.mark.slow
def test_every_replica_has_the_parameters_of_its_configuration(without_programs, cache):
    configs = (
        quick_config("narl", seeds=(3, 4)),
        quick_config("narl", seeds=(3,), radius=None),
        quick_config("mbpo", seeds=(3,), elites=1),
        quick_config("mbpo", seeds=(4,)),
    )
    with contextlib.closing(Trainer(configs)) as trainer:
        state = trainer.to_host()
        assert trainer.seeds == [3, 4, 3, 3, 4]
    np.testing.assert_allclose(state.params.numbers.radius[:3], [0.1, 0.1, np.inf])
    assert state.params.numbers.num_elites[3:].tolist() == [1, 2]
    narl, mbpo = state.params.step_rule[0], state.params.step_rule[3]
    assert state.params.step_rule.tolist() == [narl, narl, narl, mbpo, mbpo]
    assert narl != mbpo
    # The first action and the networks depend on the seed alone.
    assert state.action[[0, 2]].tolist() == state.action[[3, 3]].tolist()
    assert state.action[0] != state.action[1]


def test_configurations_of_other_shapes_are_refused():
    others = (
        quick_config("sac"),
        quick_config("narl", members=3),
        quick_config("narl", steps=80),
    )
    for other in others:
        with pytest.raises(InputError, match="configs: they cannot be trained together"):
            Trainer((CONFIGS[0], other))


def test_failed_start_closes_the_environments(monkeypatch):
    closed = []

    class Watched(Drift):
        def close(self):
            closed.append(self)

    monkeypatch.setattr(Trainer, "_init_state", lambda self, indices: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        Trainer(CONFIGS, UserParts(env=Watched))
    assert len(closed) == 4


# --- faults -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shared_trainer(cache):
    """A trainer after its first updates, with copies of its state and counters."""
    with contextlib.closing(Trainer(CONFIGS)) as trainer:
        while trainer.counters.step <= CONFIGS[0].learn_after:
            trainer.step()
        yield trainer, jax.tree.map(np.copy, trainer.to_host()), copy.deepcopy(trainer.counters)


@pytest.fixture
def trainer(shared_trainer):
    """The trainer after its first updates, as if no test had used it."""
    trainer, state, counters = shared_trainer
    trainer.inactive.clear()
    trainer.deactivate(slice(0))
    trainer.from_host(state)
    trainer.counters, trainer._update, trainer._fit = copy.deepcopy(counters), None, None
    return trainer


def break_critic(state):
    state.sac.critic[0].b[1] = np.nan


def break_weights(state):
    state.ensemble.weights.network[0].b[1] = np.nan


def break_scale(state):
    state.ensemble.target_scale.std[1] = np.inf


def step_twice(trainer):
    """Take a step with an update, and the next one, which looks at its loss."""
    trainer.step()
    trainer.step()


def imagine(trainer):
    """Fill the model buffer with the model as it is, without another fit."""
    trainer._imagine()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "program", "cause"),
    [
        (break_critic, Trainer.check_policies, r"sac\.critic\.0\.b is nan"),
        (break_critic, step_twice, "critic_loss is nan"),
        (break_weights, Trainer._fit_model, r"the model's holdout error is (nan|inf)"),
        (break_scale, imagine, r"all \d+ imagined steps are not finite"),
    ],
)
def test_number_that_is_not_finite_is_named(trainer, change, program, cause):
    change_state(trainer, change)
    with pytest.raises(
        NonFiniteError, match=rf"step 2\d: narl, radius None, seed 4: {cause}"
    ) as fault:
        program(trainer)
    assert "\n" not in str(fault.value)


def test_steps_that_are_not_finite_stop_a_training_only_if_none_is_finite():
    trainer = SimpleNamespace(active=[0], seeds=[3, 4], replica_configs=[CONFIGS[0]] * 2)
    trainer.counters = SimpleNamespace(step=7)
    sums = SimpleNamespace(nonfinite=np.array([3.0, 5.0]), steps=np.array([1.0, 0.0]))
    imagined = SimpleNamespace(sums=sums)
    FiniteCheck(trainer).imagine(imagined)
    trainer.active = [0, 1]
    line = "^step 7: seed 4: all 5 imagined steps are not finite$"
    with pytest.raises(NonFiniteError, match=line):
        FiniteCheck(trainer).imagine(imagined)


@pytest.mark.slow
def test_inactive_replica_stops_no_other_one(trainer):
    trainer.deactivate(slice(1, 2))
    change_state(trainer, break_critic)
    before = trainer.counters.step
    step_twice(trainer)
    trainer.check_policies()
    assert trainer.counters.step == before + 2


# --- metrics ----------------------------------------------------------------------------------


class Truncating(Toy):
    """Rewards every step with 1 and truncates its episodes after 3, without a wrapper."""

    def reset(self, *, seed=None, options=None):
        self.length = 0
        return super().reset(seed=seed)

    def step(self, action):
        obs, _, _, _, info = super().step(action)
        self.length += 1
        return obs, 1.0, False, self.length == 3, info


@pytest.mark.slow
def test_environment_that_truncates_its_episodes_is_imagined_as_long(cache):
    config = quick_config("narl", seeds=(3, 4))
    with contextlib.closing(Trainer([config], UserParts(env=Truncating))) as trainer:
        assert trainer.horizon == config.eval_horizon
        while (row := trainer.step()) is None or not trainer.is_over:
            pass
    assert (row["eval_return"], row["eval_length"]) == ([3.0, 3.0], [3.0, 3.0])
    # The return of a poor model, but over 3 steps and not over 40.
    np.testing.assert_allclose(row["model_return"], 3.0, atol=3.0)
    np.testing.assert_allclose(row["mean_model_return"], 3.0, atol=3.0)
    # Two fits in the epoch; the last one's errors are the epoch's.
    for name in ("fit_holdout_error", "fit_distance", "fit_selected_none"):
        assert np.shape(row[name]) == (2, 2, config.num_members)
    last = [errors[-1] for errors in row["fit_holdout_error"]]
    assert last == row["holdout_error"]
    np.testing.assert_allclose(np.mean(row["fit_distance"], axis=1), row["distance"], rtol=1e-5)
    np.testing.assert_allclose(np.sum(row["fit_selected_0.1"], axis=2), 1.0, rtol=1e-5)
    # Of two members the chosen one is as far above their mean as the other one is below.
    share, gain = (np.array(row[f"optimistic_{name}"]) for name in ("share", "gain"))
    assert ((share >= 0.0) & (share <= 1.0)).all()
    np.testing.assert_allclose(gain, 2.0 * share - 1.0, atol=0.05)
