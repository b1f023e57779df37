"""Policies: actions in the environment's own units, for one observation or a batch."""

import contextlib
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box
from quick_trainings import quick_agent, quick_config

import narl
import toy_worlds
from narl.deep.device_programs import Device
from narl.deep.policy import act_in_numpy
from narl.deep.trainer import Trainer
from narl.errors import InputError

OBS = np.array([0.3, -0.2])
BATCH = np.random.default_rng(0).normal(size=(7, 2))


def test_policy_before_learning_is_that_of_the_first_state(monkeypatch):
    monkeypatch.setattr(Device, "compile", lambda self, algorithm, info: None)
    agent = quick_agent(seeds=[5, 9])
    with contextlib.closing(Trainer([quick_config(seeds=(5, 9))])) as trainer:
        first = trainer.to_host().sac.actor
    for i, seed in enumerate((5, 9)):
        for layer, expected in zip(agent.policy.actor(seed), first, strict=True):
            np.testing.assert_array_equal(layer.w, expected.w[i])
            np.testing.assert_array_equal(layer.b, expected.b[i])


def test_repr_of_a_policy_describes_it_without_its_weights(untrained):
    lines = repr(untrained.policy).splitlines()
    seeds = untrained.policy.seeds
    assert lines[0] == f"policy of {len(seeds)} seed{'s' * (len(seeds) != 1)}"
    facts = {line.split("  ")[1]: line.split("  ", 2)[2].strip() for line in lines[1:]}
    assert facts["observations"] == "shape (2,)"
    assert facts["actions"] == "Box(-2.0, 2.0, (1,), float32)"
    hidden = untrained.config.hidden
    assert facts["hidden layers"] == ", ".join(map(str, hidden))
    assert "array" not in repr(untrained.policy)


def test_action_has_shape_bounds_and_type_of_the_environment(untrained):
    action, state = untrained.predict(OBS)
    assert (action.shape, action.dtype, state) == ((1,), np.float32, None)
    assert untrained.policy.interface.action_space.contains(action)
    mode = act_in_numpy(untrained.policy.actor(), OBS.astype(np.float32))
    np.testing.assert_allclose(action, 2 * mode, rtol=1e-6)  # the bounds are ±2
    # Stable-Baselines3's evaluate_policy gives further arguments.
    again = untrained.predict(OBS, state=None, episode_start=np.ones(1, bool), deterministic=True)
    assert again == (action, state)


def test_batch_of_observations_gives_a_batch_of_actions(untrained):
    batch, _ = untrained.predict(BATCH)
    alone = np.stack([untrained.predict(obs)[0] for obs in BATCH])
    np.testing.assert_allclose(batch, alone, rtol=1e-5, atol=1e-6)
    assert untrained.predict(BATCH[:1])[0].shape == (1, 1)
    assert untrained.predict(BATCH.tolist())[0].shape == (7, 1)


def test_each_seed_has_a_policy(untrained):
    first, second = (untrained.predict(OBS, seed=seed)[0] for seed in (3, 8))
    assert first != second
    assert untrained.predict(OBS)[0] == first
    with pytest.raises(InputError, match="seed: 4 was not trained; it must be one of 3, 8"):
        untrained.predict(OBS, seed=4)


def test_draws_spread_around_the_mode_as_the_policy_says(untrained):
    draws = untrained.predict(np.tile(OBS, (4000, 1)), deterministic=False)[0][:, 0] / 2
    *hidden, last = untrained.policy.actor()
    x = OBS.astype(np.float32)
    for layer in hidden:
        x = np.maximum(x @ layer.w + layer.b, 0)
    mean, log_std = x @ last.w + last.b
    raw = np.arctanh(np.clip(draws, -0.999999, 0.999999))
    assert np.median(raw) == pytest.approx(mean, abs=5 * np.exp(log_std) / np.sqrt(4000))
    spread = np.subtract(*np.percentile(raw, [75, 25])) / 1.349
    assert spread == pytest.approx(np.exp(log_std), rel=0.1)


@pytest.mark.parametrize(
    ("obs", "line"),
    [
        (np.zeros(3), r"obs: shape \(3,\) given; it must be \(2,\), or \('N', 2\) for N of them"),
        (np.zeros((0, 2)), r"obs: shape \(0, 2\) given"),
        (np.zeros((2, 2, 2)), r"obs: shape \(2, 2, 2\) given"),
        (["a", "b"], "obs: list given; it must be an array of numbers"),
        ([0.0, np.nan], "obs: it holds numbers that are not finite"),
        ([[0.0, 1.0], [2.0]], "obs: list of parts that differ in shape given"),
        ((np.zeros(2), {}), r"obs: observation and info given; .* obs, info = env.reset\(\)"),
    ],
)
def test_wrong_observation_is_refused(untrained, obs, line):
    with pytest.raises(InputError, match=line):
        untrained.predict(obs)


class Odd(toy_worlds.Toy):
    """Observations are tables of small integers, actions are integers with other bounds."""

    def __init__(self):
        super().__init__()
        self.observation_space = Box(0, 10, (2, 3), np.int16)
        self.action_space = Box(np.array([[-3], [2]]), np.array([[5], [4]]), (2, 1), np.int64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.full((2, 3), 4, np.int16), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.total_steps += 1
        return np.full((2, 3), self.total_steps % 10, np.int16), 0.0, False, False, {}


def test_odd_spaces_are_kept_by_prediction_evaluation_and_saving(tmp_path):
    agent, obs = quick_agent(env=Odd, eval_horizon=3), np.full((2, 3), 7, np.int16)
    action, many = agent.predict(obs)[0], agent.predict(np.stack([obs] * 4))[0]
    assert (action.shape, action.dtype, many.shape) == ((2, 1), np.int64, (4, 2, 1))
    assert agent.policy.interface.action_space.contains(action)
    again = narl.load(agent.save(tmp_path / "odd"))
    np.testing.assert_array_equal(again.predict(obs)[0], action)
    assert again.policy.interface.action_space == agent.policy.interface.action_space
    assert agent.evaluate(2).lengths == [3, 3]


@pytest.mark.parametrize("env", ["Ant-v5", "Humanoid-v4"])
def test_longer_observations_are_cut_where_the_preset_leaves_out_their_end(env):
    agent = narl.SAC(env, hidden=(8,))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*is out of date.*", DeprecationWarning)
        usual = gymnasium.make(env)
    obs = usual.reset(seed=4)[0]
    usual.close()
    cut = obs[: agent.policy.interface.obs_shape[0]]
    assert cut.size < obs.size
    action = agent.predict(cut)[0]
    np.testing.assert_array_equal(agent.predict(obs)[0], action)
    assert agent.predict(np.stack([obs, obs]))[0].shape == (2, *action.shape)
