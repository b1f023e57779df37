"""Whole trainings on environments whose values and best actions are known."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import Bandit, Endless, Guess, OneStep, TwoSteps
from tiny import tiny_settings

from narl.deep.networks import mode_action, twin_values
from narl.deep.trainer import LaneSpec, Training

pytestmark = pytest.mark.slow

DISCOUNT = 0.9
QUICK = tiny_settings(
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
    # So little entropy that values are those of the rewards alone; and it stays so.
    initial_temperature=1e-6,
    target_entropy=-1e6,
    eval_episodes=3,
)


def trained(env, settings=QUICK, **rest):
    """The learner of one lane and the last line of the journal."""
    training = Training(
        settings, [LaneSpec(0, settings.algo, settings.radius)], make_env=env, **rest
    )
    row = None
    while not training.is_over:
        row = training.advance()
    learner = jax.tree.map(lambda x: jnp.asarray(x[0]), training.export())
    training.close()
    return learner, row


def values(learner, *states):
    """Both critics' values of three actions in these states."""
    obs = jnp.repeat(jnp.array(states)[:, None], 3, axis=0)
    action = jnp.tile(jnp.array([[-0.8], [0.0], [0.8]]), (len(states), 1))
    return np.asarray(twin_values(learner.sac.critic, obs, action)).reshape(2, len(states), 3)


def modes(learner, *states):
    return np.asarray(mode_action(learner.sac.actor, jnp.array(states)[:, None]))[:, 0]


def test_values_are_discounted_and_end_with_the_episode():
    learner, row = trained(TwoSteps)
    given = values(learner, 0.0, 1.0)
    np.testing.assert_allclose(given[:, 0], DISCOUNT, atol=0.03)
    np.testing.assert_allclose(given[:, 1], 1.0, atol=0.03)
    assert row["eval_returns"] == [[1.0] * 3]
    assert row["updates"] == [2000]
    assert learner.real.size == 150


def test_the_value_of_the_last_step_is_its_reward():
    learner, _ = trained(OneStep)
    np.testing.assert_allclose(values(learner, 0.0), 1.0, atol=0.02)


def test_a_time_limit_is_no_end():
    """1/(1 − 0.9) = 10; were the limit of 3 steps an end, it would be 2.71 at most."""
    learner, row = trained(Endless, replace(QUICK, steps=250, polyak=0.1))
    np.testing.assert_allclose(values(learner, 0.0), 10.0, atol=0.1)
    assert row["eval_length"] == [3.0]


def test_the_policy_finds_the_best_action():
    learner, row = trained(Bandit)
    np.testing.assert_allclose(modes(learner, 0.0), 0.5, atol=0.05)
    assert row["eval_return"][0] > -0.01
    np.testing.assert_allclose(values(learner, 0.0)[:, 0], [[-1.69, -0.25, -0.09]] * 2, atol=0.15)


def test_the_policy_depends_on_what_it_sees():
    learner, _ = trained(Guess, replace(QUICK, steps=300))
    states = (-0.8, -0.4, 0.0, 0.4, 0.8)
    np.testing.assert_allclose(modes(learner, *states), np.array(states) / 2, atol=0.12)


def test_entropy_reaches_its_target():
    """The temperature makes the policy as wide as it is told to, around the best action."""
    settings = replace(QUICK, initial_temperature=0.1, target_entropy=-1.0, steps=400)
    learner, row = trained(Bandit, settings)
    assert row["entropy"][0] == pytest.approx(-1.0, abs=0.1)
    np.testing.assert_allclose(modes(learner, 0.0), 0.5, atol=0.05)


MODELLED = replace(
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


@pytest.mark.parametrize("algo", ["narl", "mbpo"])
def test_imagined_transitions_teach_the_same(algo):
    """Nine tenths of every batch are imagined; the episode ends where s' = s = 1."""

    def ends(obs, action, next_obs):
        return (obs[..., 0] > 0.5) & (next_obs[..., 0] > 0.5)

    settings = replace(MODELLED, algo=algo, termination="known")
    learner, row = trained(TwoSteps, settings, termination=ends)
    given = values(learner, 0.0, 1.0)
    np.testing.assert_allclose(given[:, 0], DISCOUNT, atol=0.12)
    np.testing.assert_allclose(given[:, 1], 1.0, atol=0.12)
    # The model's return of an episode is that of the environment; without an end it would be 4.
    assert row["model_return"][0] == pytest.approx(1.0, abs=0.2)
    assert row["estimation_error"][0] == pytest.approx(0.0, abs=0.2)


def test_a_learned_ending_teaches_the_same():
    settings = replace(MODELLED, termination="learned")
    learner, row = trained(TwoSteps, settings)
    given = values(learner, 0.0, 1.0)
    np.testing.assert_allclose(given[:, 0], DISCOUNT, atol=0.12)
    np.testing.assert_allclose(given[:, 1], 1.0, atol=0.12)
    assert row["model_return"][0] == pytest.approx(1.0, abs=0.2)
