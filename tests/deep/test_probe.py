"""Whole trainings on environments whose values and best actions are known."""

import contextlib
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import Bandit, Endless, Guess, TwoSteps
from tiny import tiny_config

from narl.deep.networks import mode_action, twin_values
from narl.deep.trainer import Trainer
from narl.deep.user_parts import UserParts

pytestmark = pytest.mark.slow

DISCOUNT = 0.9
QUICK = tiny_config(
    algo="sac",
    steps=150,
    epoch_length=150,
    initial_steps=50,
    learn_after=50,
    updates_per_step=20,
    batch=32,
    hidden=(32,),
    learning_rate=3e-3,
    discount=DISCOUNT,
    polyak=0.05,
    # So little entropy that values are those of the rewards alone, and it stays so.
    initial_temperature=1e-6,
    target_entropy=-1e6,
    eval_episodes=3,
)
WITH_MODEL = replace(
    QUICK,
    algo="narl",
    steps=250,
    epoch_length=50,
    real_share=0.1,
    model_every=50,
    model_width=32,
    most_model_epochs=60,
    rollout_batch=200,
    rollout_schedule=(0, 1, 1, 1),
    draw="mean",
    eval_horizon=5,
)


def train(env, config=QUICK, **parts):
    """Return the state of the only replica after the training, and the last metrics."""
    metrics = None
    with contextlib.closing(Trainer([config], UserParts(env=env, **parts))) as trainer:
        while not trainer.is_over:
            metrics = trainer.step()
        state = trainer.to_host()
    return jax.tree.map(lambda x: jnp.asarray(x[0]), state), metrics


def values(state, *observations):
    """Return both critics' values of three actions for these observations."""
    obs = jnp.repeat(jnp.array(observations)[:, None], 3, axis=0)
    action = jnp.tile(jnp.array([[-0.8], [0.0], [0.8]]), (len(observations), 1))
    both = twin_values(state.sac.critic, obs, action)
    return np.asarray(both).reshape(2, len(observations), 3)


def modes(state, *observations):
    return np.asarray(mode_action(state.sac.actor, jnp.array(observations)[:, None]))[:, 0]


def test_values_discounted_and_ended_with_episode():
    state, metrics = train(TwoSteps)
    learned = values(state, 0.0, 1.0)
    np.testing.assert_allclose(learned[:, 0], DISCOUNT, atol=0.03)
    np.testing.assert_allclose(learned[:, 1], 1.0, atol=0.03)
    assert metrics["eval_returns"] == [[1.0] * 3]
    assert metrics["updates"] == [2000]
    assert state.real.size == 150


def test_time_limit_is_no_termination():
    """1/(1 − 0.9) = 10; were the limit of 3 steps a termination, it would be 2.71 at most."""
    state, metrics = train(Endless, replace(QUICK, steps=250, polyak=0.1))
    np.testing.assert_allclose(values(state, 0.0), 10.0, atol=0.1)
    assert metrics["eval_length"] == [3.0]


def test_policy_finds_best_action_for_observation():
    state, _ = train(Guess, replace(QUICK, steps=300))
    observations = (-0.8, -0.4, 0.0, 0.4, 0.8)
    np.testing.assert_allclose(modes(state, *observations), np.array(observations) / 2, atol=0.12)


def test_entropy_reaches_target_around_best_action():
    config = replace(QUICK, initial_temperature=0.1, target_entropy=-1.0, steps=400)
    state, metrics = train(Bandit, config)
    assert metrics["entropy"][0] == pytest.approx(-1.0, abs=0.1)
    np.testing.assert_allclose(modes(state, 0.0), 0.5, atol=0.05)


def ends_after_second_step(obs, action, next_obs):
    """Return whether s' = s = 1, the rule of TwoSteps."""
    return (obs[..., 0] > 0.5) & (next_obs[..., 0] > 0.5)


@pytest.mark.parametrize(
    ("algo", "termination", "rule"),
    [("mbpo", "known", ends_after_second_step), ("narl", "learned", None)],
)
def test_imagined_transitions_give_same_values(algo, termination, rule):
    """Nine tenths of every batch are imagined."""
    config = replace(WITH_MODEL, algo=algo, termination=termination)
    state, metrics = train(TwoSteps, config, termination=rule)
    learned = values(state, 0.0, 1.0)
    np.testing.assert_allclose(learned[:, 0], DISCOUNT, atol=0.12)
    np.testing.assert_allclose(learned[:, 1], 1.0, atol=0.12)
    # The return inside the model is that of the environment; without an end it would be 4.
    assert metrics["model_return"][0] == pytest.approx(1.0, abs=0.2)
    assert metrics["estimation_error"][0] == pytest.approx(0.0, abs=0.2)
