"""Discrete actions: losses and values as sums over all actions, acting, and whole trainings."""

import json
import math

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from quick_trainings import quick_agent, quick_config, train, train_until
from tiny import layer, make_context, make_sac, tiny_config

import narl
from narl.deep import networks
from narl.deep import sac as module
from narl.deep.algorithm import Algorithm
from narl.deep.algorithm_registry import ALGORITHMS
from narl.deep.environment import open_env
from narl.deep.policy import act_in_numpy, check_interface, interface_from, interface_of
from narl.deep.rollout import next_values
from narl.deep.sac import Batch, Noise
from narl.deep.training_run import run_training
from narl.errors import InputError
from short_trainings import assert_same_outcome, short_arguments

slow = pytest.mark.slow
init_sac = jax.jit(module.init_sac, static_argnums=(1, 2, 3, 4))
soft_value = jax.jit(module.soft_value, static_argnums=3)
td_target = jax.jit(module.td_target, static_argnums=(3, 4))
critic_loss, actor_loss = map(jax.jit, (module.critic_loss, module.actor_loss))
update = jax.jit(module.update, static_argnums=3)
update_many = jax.jit(module.update_many, static_argnums=3)
draw_action = jax.jit(networks.draw_action, static_argnums=3)
mode_action = jax.jit(networks.mode_action, static_argnums=2)

KEY = jax.random.key(7)
# One number observed, three actions: the logits are (s, 0, −s).
ACTOR = (layer([[1.0, 0.0, -1.0]], [0.0, 0.0, 0.0]),)
# Q_1 = (s + 1, 2s, 3) and Q_2 = (2s, s + 2, −s); the target critics are ten times as large.
SLOPES = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, -1.0]])
OFFSETS = np.array([[1.0, 0.0, 3.0], [0.0, 2.0, 0.0]])
CRITIC = (layer(SLOPES[:, None], OFFSETS),)
TARGET = (layer(10 * SLOPES[:, None], 10 * OFFSETS),)
BATCH = Batch(
    obs=jnp.array([[1.0], [2.0]]),
    action=jnp.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]),
    reward=jnp.array([3.0, -1.0]),
    next_obs=jnp.array([[2.0], [4.0]]),
    done=jnp.array([0.0, 1.0]),
)
NOTHING = jnp.zeros((2, 0))
HALF = tiny_config(discount=0.5)
QUICK = tiny_config(polyak=0.25, learning_rate=0.01)


def by_hand(s, alpha, factor=1.0):
    """Return Σ_a π(a|s)·(min_i Q_i(s,a) − α log π(a|s)) and the policy's entropy."""
    logits = np.array([s, 0.0, -s])
    probs = np.exp(logits) / np.exp(logits).sum()
    q = factor * np.minimum([s + 1, 2 * s, 3], [2 * s, s + 2, -s])
    entropy = -(probs * np.log(probs)).sum()
    return (probs * q).sum() + alpha * entropy, entropy


# --- values and losses --------------------------------------------------------------------------


def test_soft_value_is_the_sum_over_actions_by_hand():
    sac = make_sac(ACTOR, CRITIC, TARGET, alpha=0.3)
    assert sac.discrete
    states = [0.5, 3.0, -2.0]
    expected = [by_hand(s, 0.3)[0] for s in states]
    obs = jnp.array(states)[:, None]
    np.testing.assert_allclose(soft_value(KEY, sac, obs), expected, rtol=1e-5)
    # Exact: no draw and no number of draws changes it.
    again = soft_value(jax.random.key(8), sac, jnp.stack([obs, 2 * obs]), 3)
    np.testing.assert_array_equal(again[0], soft_value(KEY, sac, obs))
    np.testing.assert_allclose(again[1], [by_hand(2 * s, 0.3)[0] for s in states], rtol=1e-5)


def test_values_of_imagined_states_are_sums_over_actions():
    sac = make_sac(ACTOR, CRITIC, TARGET, alpha=0.3)
    context = make_context(None, sac)
    obs, after = jnp.zeros((2, 1)), jnp.array([[[0.5], [3.0]], [[0.5], [-2.0]]])
    values = next_values(KEY, context, obs, BATCH.action, after)
    expected = [[by_hand(s, 0.3)[0] for s in row] for row in ([0.5, 3.0], [0.5, -2.0])]
    np.testing.assert_allclose(values, expected, rtol=1e-5)


def test_td_target_takes_target_critics_by_hand():
    sac = make_sac(ACTOR, CRITIC, TARGET, alpha=0.3)
    expected = [3.0 + 0.5 * by_hand(2.0, 0.3, 10.0)[0], -1.0]
    np.testing.assert_allclose(td_target(NOTHING, sac, BATCH, HALF), expected, rtol=1e-5)


def choose_largest(reward, values):
    """Choose as ESPI does without a radius: the largest reward and the largest value."""
    return reward.max(0), values.max(0)


def test_td_target_of_candidates_by_hand():
    sac = make_sac(ACTOR, CRITIC, TARGET, alpha=0.3)
    batch = BATCH._replace(
        reward=jnp.array([[3.0, 5.0], [-1.0, -2.0]]),
        next_obs=jnp.array([[[2.0], [1.0]], [[4.0], [1.5]]]),
        done=jnp.array([[0.0, 0.0], [1.0, 0.0]]),
    )
    following = {s: by_hand(s, 0.3, 10.0)[0] for s in (1.0, 1.5, 2.0)}
    assert following[2.0] > following[1.0] > 0.0
    expected = [5.0 + 0.5 * following[2.0], -1.0 + 0.5 * following[1.5]]
    target = td_target(NOTHING, sac, batch, HALF, choose_largest)
    np.testing.assert_allclose(target, expected, rtol=1e-5)


def test_critic_loss_is_that_of_the_taken_action_by_hand():
    # Action 1 in state 1: Q = (2, 3); action 0 in state 2: Q = (3, 4). The target is (1, 4).
    loss, mean = critic_loss(CRITIC, BATCH, jnp.array([1.0, 4.0]))
    assert loss == pytest.approx(0.5 * ((1 + 1) / 2 + (4 + 0) / 2))
    assert mean == pytest.approx((2 + 3 + 3 + 4) / 4)


def test_actor_loss_and_gradient_by_hand():
    log_alpha = jnp.log(jnp.float32(0.3))
    loss, log_prob = actor_loss(ACTOR, NOTHING, CRITIC, log_alpha, BATCH.obs)
    (v1, h1), (v2, h2) = by_hand(1.0, 0.3), by_hand(2.0, 0.3)
    assert loss == pytest.approx(-(v1 + v2) / 2, rel=1e-5)
    assert log_prob == pytest.approx(-(h1 + h2) / 2, rel=1e-5)
    # Without entropy ∂(−Σ π Q)/∂logit_a = −π_a (Q_a − Σ π Q).
    grad, _ = jax.grad(actor_loss, has_aux=True)(
        ACTOR, NOTHING[:1], CRITIC, jnp.float32(-jnp.inf), jnp.array([[1.0]])
    )
    probs = np.exp([1.0, 0.0, -1.0]) / np.exp([1.0, 0.0, -1.0]).sum()
    q = np.array([2.0, 2.0, -1.0])
    np.testing.assert_allclose(grad[0].b, -probs * (q - (probs * q).sum()), rtol=1e-4)


def test_temperature_aims_at_half_of_the_largest_entropy():
    assert QUICK.entropy_target(3, discrete=True) == pytest.approx(0.5 * math.log(3))
    assert tiny_config(target_entropy=0.2).entropy_target(3, discrete=True) == 0.2
    sac = make_sac(ACTOR, CRITIC, TARGET, alpha=0.3, config=QUICK)
    new, losses = update(Noise(NOTHING, NOTHING), sac, BATCH, QUICK)
    entropy = (by_hand(1.0, 0.3)[1] + by_hand(2.0, 0.3)[1]) / 2
    assert losses.entropy == pytest.approx(entropy, rel=1e-5)
    assert entropy > 0.5 * math.log(3)  # more than is aimed at: α falls
    expected = -math.log(0.3) * (0.5 * math.log(3) - entropy)
    assert losses.alpha_loss == pytest.approx(expected, rel=1e-4)
    assert new.log_alpha == pytest.approx(math.log(0.3) - 0.01, rel=1e-5)


def test_updates_in_one_scan_need_no_noise():
    start = make_sac(ACTOR, CRITIC, TARGET, alpha=0.3, config=QUICK)
    batches = jax.tree.map(lambda x: jnp.stack([x, x]), BATCH)
    together, _ = update_many(KEY, start, batches, QUICK)
    sac = start
    for _ in range(2):
        sac, _ = update(Noise(NOTHING, NOTHING), sac, BATCH, QUICK)
    for a, b in zip(jax.tree.leaves(together), jax.tree.leaves(sac), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_networks_have_one_output_per_action():
    sac = init_sac(KEY, 4, 2, tiny_config(hidden=(5,)), True)
    assert [part.w.shape for part in sac.actor] == [(4, 5), (5, 2)]
    assert [part.w.shape for part in sac.critic] == [(2, 4, 5), (2, 5, 2)]
    assert sac.discrete
    assert not init_sac(KEY, 4, 2, tiny_config(hidden=(5,)), False).discrete


# --- acting -------------------------------------------------------------------------------------


def test_drawn_actions_have_the_probabilities_of_the_policy():
    obs = jnp.full((20_000, 1), 0.7)
    probs = np.exp([0.7, 0.0, -0.7]) / np.exp([0.7, 0.0, -0.7]).sum()
    drawn = draw_action(KEY, ACTOR, obs, True)
    assert set(np.unique(drawn.action)) == {0.0, 1.0}
    assert set(np.asarray(drawn.action.sum(-1))) == {1.0}
    np.testing.assert_allclose(drawn.action.mean(0), probs, atol=0.01)
    np.testing.assert_allclose(
        drawn.log_prob, np.log(probs)[np.argmax(drawn.action, axis=-1)], rtol=1e-5
    )
    on_host = jax.tree.map(np.asarray, ACTOR)
    rows = act_in_numpy(on_host, np.asarray(obs), np.random.default_rng(0), discrete=True)
    np.testing.assert_allclose(rows.mean(0), probs, atol=0.01)


def test_act_in_numpy_equals_mode_action():
    actor = networks.init_actor(jax.random.key(3), 4, 3, (16,), True)
    obs = np.random.default_rng(1).normal(size=(50, 4)).astype(np.float32)
    mode = np.asarray(mode_action(actor, jnp.asarray(obs), True))
    on_host = jax.tree.map(np.asarray, actor)
    np.testing.assert_array_equal(act_in_numpy(on_host, obs, discrete=True), mode)
    assert act_in_numpy(on_host, obs[0], discrete=True).tolist() == mode[0].tolist()
    assert (mode.sum(0) > 0).sum() > 1


def test_random_actions_are_uniform():
    algorithm = Algorithm(tiny_config(), 1, 3, None, 4, discrete=True)
    drawn = jax.vmap(algorithm._random_action)(jax.random.split(KEY, 6000))
    np.testing.assert_allclose(drawn.mean(0), np.full(3, 1 / 3), atol=0.02)
    assert set(np.asarray(drawn.sum(-1))) == {1.0}


# --- environments and interfaces ----------------------------------------------------------------


class Find(gymnasium.Env):
    """One step with reward 1 for one of the actions −1, 0 and 1, which the state names."""

    observation_space = Box(-1.0, 1.0, (1,), np.float32)
    action_space = Discrete(3, start=-1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.wanted = int(self.np_random.integers(-1, 2))
        return np.array([self.wanted], np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action)
        return np.array([self.wanted], np.float32), float(action == self.wanted), True, False, {}


class Other(Find):
    """The same with another first action."""

    action_space = Discrete(3)


def test_interface_is_kept_and_other_actions_are_refused():
    interface = interface_of(open_env(Find, 0))
    restored = interface_from(interface.arrays())
    assert restored.action_space == Discrete(3, start=-1)
    assert (restored.spaces.discrete, restored.spaces.action_dim) == (True, 3)
    check_interface(interface, restored, "Find")
    for env, text in ((Other, "Discrete(3)"), ("Pendulum-v1", "Box(-2.0, 2.0, (1,), float32)")):
        with pytest.raises(InputError) as refused:
            check_interface(restored, interface_of(open_env(env, 0)), "this")
        line = f"env: this has {text} actions; the agent learned with Discrete(3, start=-1)"
        assert str(refused.value) == line


def test_predict_gives_integers():
    agent = quick_agent(env="CartPole-v1")
    action, _ = agent.predict(np.zeros(4))
    assert isinstance(action, np.integer)
    batch, _ = agent.predict(np.random.default_rng(0).normal(size=(40, 4)), deterministic=False)
    assert (batch.shape, batch.dtype) == ((40,), np.int64)
    assert set(batch) == {0, 1}
    with pytest.raises(InputError, match=r"^target_entropy: 0\.7 is out of range; 2 discrete"):
        quick_agent(env="CartPole-v1", target_entropy=0.7)
    with pytest.raises(InputError, match=r"^value_samples: it has no effect with discrete"):
        narl.HUCRL("CartPole-v1", value_samples=2)
    assert narl.HUCRL("CartPole-v1", value_samples=1).config.value_samples == 1


# --- trainings ----------------------------------------------------------------------------------


@slow
def test_sac_finds_the_rewarded_action_of_every_state():
    agent = narl.SAC(
        Find,
        steps=600,
        initial_steps=100,
        epoch_length=300,
        batch=64,
        hidden=(16,),
        updates_per_step=4,
        learning_rate=0.01,
    ).learn()
    assert agent.predict(np.array([[-1.0], [0.0], [1.0]]))[0].tolist() == [-1, 0, 1]
    assert agent.evaluate(10).returns == [1.0] * 10
    entropy = agent.history[-1]["entropy"][0]
    assert entropy == pytest.approx(0.5 * math.log(3), abs=0.25)


@slow
def test_learning_goes_on_after_save_and_load(tmp_path):
    agent = quick_agent(env="CartPole-v1").learn(60)
    obs = np.random.default_rng(0).normal(size=(20, 4))
    loaded = narl.load(agent.save(tmp_path / "agent", data=True))
    assert loaded.predict(obs)[0].tolist() == agent.predict(obs)[0].tolist()
    assert loaded.evaluate(2) == agent.evaluate(2)
    assert loaded.learn(20).num_steps == 80


@slow
def test_every_algorithm_with_a_model_learns(tmp_path):
    algorithms = [name for name, spec in ALGORITHMS.items() if spec.select is not None]
    options = {"env": "CartPole-v1", "termination": "learned"}
    configs = [quick_config(name, **options) for name in algorithms]
    configs.append(quick_config("narl", noise="reward", **options))
    for run, _ in run_training(configs, tmp_path):
        assert np.isfinite(run.metrics["final_return"]).all()
        agent = narl.load(run.path)
        assert agent.evaluate(1).returns[0] >= 1.0
        assert agent.predict(np.zeros(4))[0] in (0, 1)


@slow
def test_optimism_in_the_update_works(tmp_path):
    run = train(quick_config("narl", env="Acrobot-v1", optimism_at="update"), tmp_path)
    assert np.isfinite(run.metrics["final_return"]).all()


@slow
def test_stopped_training_continues_to_the_same_result(tmp_path):
    config = quick_config(env="CartPole-v1")
    whole = train(config, tmp_path / "whole")
    train_until(33, [config], tmp_path / "parts")
    assert_same_outcome(train(config, tmp_path / "parts"), whole)


@slow
def test_commands_train_and_evaluate(call):
    trained = call("train", "CartPole-v1", "--json", *short_arguments())
    assert trained.status == 0, trained.err
    run = json.loads(trained.out)["run"]
    evaluated = call("eval", run, "--episodes", "2", "--json")
    assert evaluated.status == 0, evaluated.err
    assert len(json.loads(evaluated.out)["seeds"][0]["returns"]) == 2
