"""Losses, targets and updates of the soft actor-critic on numbers worked out by hand."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm
from tiny import affine_actor, affine_critic, assert_same, differs, make_sac, tiny_config

from narl.deep import sac as module
from narl.deep.sac import Batch, Noise, draw_noise

init_sac = jax.jit(module.init_sac, static_argnums=(1, 2, 3))
soft_value = jax.jit(module.soft_value, static_argnums=3)
td_target = jax.jit(module.td_target, static_argnums=(3, 4))
critic_loss, actor_loss, alpha_loss = map(
    jax.jit, (module.critic_loss, module.actor_loss, module.alpha_loss)
)
update = jax.jit(module.update, static_argnums=3)
update_many = jax.jit(module.update_many, static_argnums=3)

KEY = jax.random.key(7)
# Q_1 = s + 2a + 1 and Q_2 = 2s − a; the target critics are Q'_1 = 10s + a and Q'_2 = 9s + 2a + 3.
CRITIC = affine_critic([[1.0, 2.0], [2.0, -1.0]], [1.0, 0.0])
TARGET = affine_critic([[10.0, 1.0], [9.0, 2.0]], [0.0, 3.0])
# The mean is s/2; with a standard deviation of e^−20 the action is tanh(s/2).
SHARP = affine_actor([[0.5]], [0.0], -20.0)
WIDE = affine_actor([[0.5]], [0.0], math.log(0.7))
BATCH = Batch(
    obs=jnp.array([[1.0], [2.0]]),
    action=jnp.array([[0.5], [-0.5]]),
    reward=jnp.array([3.0, -1.0]),
    next_obs=jnp.array([[2.0], [4.0]]),
    done=jnp.array([0.0, 1.0]),
)
NOISE = jnp.array([[0.5], [-1.5]])
HALF = tiny_config(discount=0.5)
QUICK = tiny_config(polyak=0.25, learning_rate=0.01)


def drawn_by_hand(noise, obs, std=0.7):
    """Return action and log density of WIDE."""
    noise, obs = np.asarray(noise, np.float64), np.asarray(obs, np.float64)
    u = 0.5 * obs + std * noise
    action = np.tanh(u)
    log_prob = norm.logpdf(u, 0.5 * obs, std) - np.log1p(-(action**2))
    return action[:, 0], log_prob[:, 0]


def test_td_target_with_entropy_by_hand():
    sac = make_sac(WIDE, CRITIC, TARGET, alpha=0.3)
    a, log_prob = drawn_by_hand(NOISE, BATCH.next_obs)
    s = np.array([2.0, 4.0])
    following = np.minimum(10 * s + a, 9 * s + 2 * a + 3) - 0.3 * log_prob
    expected = np.array([3.0, -1.0]) + 0.5 * following
    goes_on = BATCH._replace(done=jnp.zeros(2))
    np.testing.assert_allclose(td_target(NOISE, sac, goes_on, HALF), expected, rtol=1e-5)
    expected[1] = -1.0
    np.testing.assert_allclose(td_target(NOISE, sac, BATCH, HALF), expected, rtol=1e-5)


def choose_largest(reward, values):
    """Choose as ESPI does without a radius: the largest reward and the largest value."""
    return reward.max(0), values.max(0)


def test_td_target_with_candidates_takes_chosen_reward_and_value_by_hand():
    """Three candidates of two rows; an ended one has the value 0, whatever its state."""
    sac = make_sac(WIDE, CRITIC, TARGET, alpha=0.3)
    next_obs = jnp.array([[[2.0], [1.0], [-9.0]], [[4.0], [-1.0], [-2.0]]])
    reward = jnp.array([[3.0, 5.0, 4.0], [-1.0, -2.0, -3.0]])
    done = jnp.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    batch = BATCH._replace(reward=reward, next_obs=next_obs, done=done)
    target = td_target(NOISE, sac, batch, HALF, choose_largest)

    def value(row, s):  # the noise is that of the row, for all its candidates
        a, log_prob = drawn_by_hand(NOISE[row : row + 1], np.array([[s]]))
        return (np.minimum(10 * s + a, 9 * s + 2 * a + 3) - 0.3 * log_prob).item()

    assert value(0, 2.0) > max(value(0, 1.0), value(0, -9.0))
    assert max(value(1, -1.0), value(1, -2.0)) < 0.0
    np.testing.assert_allclose(target, [5.0 + 0.5 * value(0, 2.0), -1.0], rtol=1e-5)


def test_candidates_that_agree_give_the_plain_target():
    sac = make_sac(WIDE, CRITIC, TARGET, alpha=0.3)
    repeated = BATCH._replace(
        reward=jnp.stack([BATCH.reward] * 3, axis=1),
        next_obs=jnp.stack([BATCH.next_obs] * 3, axis=1),
        done=jnp.stack([BATCH.done] * 3, axis=1),
    )
    chosen = td_target(NOISE, sac, repeated, HALF, choose_largest)
    np.testing.assert_allclose(chosen, td_target(NOISE, sac, BATCH, HALF), rtol=1e-6)


def test_critic_loss_by_hand():
    # Q_1 = [3, 2] and Q_2 = [1.5, 4.5]; the target is [1, 4].
    loss, mean = critic_loss(CRITIC, BATCH, jnp.array([1.0, 4.0]))
    assert loss == pytest.approx(0.5 * ((4 + 4) / 2 + (0.25 + 0.25) / 2))
    assert mean == pytest.approx((3 + 2 + 1.5 + 4.5) / 4)


def test_actor_loss_by_hand():
    loss, log_prob = actor_loss(WIDE, NOISE, CRITIC, jnp.log(jnp.float32(0.3)), BATCH.obs)
    a, expected_log_prob = drawn_by_hand(NOISE, BATCH.obs)
    s = np.array([1.0, 2.0])
    q = np.minimum(s + 2 * a + 1, 2 * s - a)
    assert loss == pytest.approx(np.mean(0.3 * expected_log_prob - q), rel=1e-5)
    assert log_prob == pytest.approx(expected_log_prob.mean(), rel=1e-5)


def test_actor_gradient_follows_smaller_critic():
    """Without entropy the gradient is −(1 − a²)·∂min Q/∂a, here that of Q_2."""
    gradient = jax.grad(actor_loss, has_aux=True)
    grad, _ = gradient(SHARP, NOISE[:1], CRITIC, jnp.float32(-jnp.inf), jnp.array([[0.2]]))
    a = math.tanh(0.1)
    assert 2 * 0.2 - a < 0.2 + 2 * a + 1
    assert grad[0].b[0] == pytest.approx((1 - a**2) * 1.0, rel=1e-5)


def test_alpha_loss_and_gradient_by_hand():
    loss = alpha_loss(jnp.log(jnp.float32(0.5)), jnp.float32(0.8), -1.0)
    assert loss == pytest.approx(-math.log(0.5) * (0.8 - 1.0))
    # log π = 2 is an entropy of −2, less than the −1 aimed at: α has to grow.
    assert jax.grad(alpha_loss)(jnp.float32(0.0), jnp.float32(2.0), -1.0) == -1.0
    assert jax.grad(alpha_loss)(jnp.float32(0.0), jnp.float32(-2.0), -1.0) == 3.0


def test_initial_target_equals_critic():
    sac = init_sac(KEY, 3, 2, tiny_config(hidden=(4,), initial_temperature=2.0))
    assert_same(sac.critic, sac.target)
    assert sac.log_alpha == pytest.approx(math.log(2.0))
    assert [part.w.shape for part in sac.actor] == [(3, 4), (4, 4)]
    assert [part.w.shape for part in sac.critic] == [(2, 5, 4), (2, 4, 1)]


def test_exact_critic_unchanged_while_actor_moves():
    """With a TD error of 0 only the actor's loss could change the critics: it must not."""
    twins = affine_critic([[1.0, 2.0], [1.0, 2.0]], [1.0, 1.0])
    batch = BATCH._replace(reward=jnp.array([3.0, 2.0]), done=jnp.ones(2))
    sac = make_sac(WIDE, twins)
    new, losses = update(Noise(NOISE, -NOISE), sac, batch, QUICK)
    assert losses.critic_loss == 0.0
    assert_same((new.critic, new.target), (twins, twins))
    assert differs(new.actor, sac.actor)


def test_update_moves_each_part_by_its_own_loss():
    sac = make_sac(WIDE, CRITIC, TARGET, alpha=0.3, config=QUICK)
    new, losses = update(Noise(NOISE, 2 * NOISE), sac, BATCH, QUICK)
    target = td_target(NOISE, sac, BATCH, QUICK)

    def moved(old, grad):  # Adam's first step is lr·g/(|g| + 1e-8)
        return jax.tree.map(lambda w, g: w - 0.01 * g / (jnp.abs(g) + 1e-8), old, grad)

    def check_close(a, b):
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6), a, b)

    critic_grad, _ = jax.grad(critic_loss, has_aux=True)(CRITIC, BATCH, target)
    check_close(new.critic, moved(CRITIC, critic_grad))
    actor_args = (2 * NOISE, new.critic, sac.log_alpha, BATCH.obs)
    (loss, log_prob), actor_grad = jax.value_and_grad(actor_loss, has_aux=True)(WIDE, *actor_args)
    check_close(new.actor, moved(WIDE, actor_grad))
    # The target entropy is minus the number of actions, −1.
    check_close(new.log_alpha, moved(sac.log_alpha, -(log_prob - 1.0)))
    check_close(new.target, jax.tree.map(lambda c, t: 0.75 * t + 0.25 * c, new.critic, TARGET))
    assert losses.actor_loss == pytest.approx(float(loss), rel=1e-5)
    assert losses.entropy == pytest.approx(-float(log_prob), rel=1e-5)
    assert losses.temperature == pytest.approx(0.3, rel=1e-6)
    assert losses.alpha_loss == pytest.approx(-math.log(0.3) * (float(log_prob) - 1.0), rel=1e-4)
    assert losses.q_value == pytest.approx(2.75)


def test_updates_in_one_scan_equal_updates_one_by_one():
    start = make_sac(WIDE, CRITIC, TARGET, alpha=0.3, config=QUICK)
    batches = jax.tree.map(lambda x: jnp.stack([x, 2 * x, x - 1]), BATCH)
    batches = batches._replace(done=jnp.zeros((3, 2)))
    together, mean = update_many(KEY, start, batches, QUICK)
    sac, losses = start, []
    for i, key in enumerate(jax.random.split(KEY, 3)):
        batch = jax.tree.map(lambda x, i=i: x[i], batches)
        sac, loss = update(draw_noise(key, (2, 1)), sac, batch, QUICK)
        losses.append(loss)
    for a, b in zip(jax.tree.leaves(together), jax.tree.leaves(sac), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)
    assert together.actor_opt[0].count == 3
    for name, value in mean._asdict().items():
        expected = np.mean([getattr(loss, name) for loss in losses])
        assert value == pytest.approx(expected, rel=1e-4), name


def test_noise_is_normal_and_independent():
    noise = draw_noise(KEY, (5000, 2))
    drawn = np.concatenate([np.asarray(part) for part in noise], axis=1)
    np.testing.assert_allclose(np.cov(drawn.T), np.eye(4), atol=0.06)
    np.testing.assert_allclose(drawn.mean(0), np.zeros(4), atol=0.06)


def test_soft_value_takes_smaller_critic_and_averages_over_actions():
    sac = make_sac(WIDE, CRITIC, TARGET, alpha=0.3)
    obs, s = jnp.array([[0.5], [3.0], [-2.0]]), np.array([0.5, 3.0, -2.0])

    def by_hand(key):
        a, log_prob = drawn_by_hand(jax.random.normal(key, (3, 1)), obs)
        return np.minimum(s + 2 * a + 1, 2 * s - a) - 0.3 * log_prob

    np.testing.assert_allclose(soft_value(KEY, sac, obs), by_hand(KEY), rtol=1e-5)
    three = [by_hand(key) for key in jax.random.split(KEY, 3)]
    np.testing.assert_allclose(soft_value(KEY, sac, obs, 3), np.mean(three, axis=0), rtol=1e-5)


def test_soft_values_of_candidates_share_the_noise_of_a_row():
    sac = make_sac(WIDE, CRITIC, TARGET, alpha=0.3)
    obs = jnp.array([[[0.5], [3.0]], [[0.5], [-2.0]]])
    for num_samples in (1, 3):
        values = soft_value(KEY, sac, obs, num_samples)
        np.testing.assert_allclose(values[0], soft_value(KEY, sac, obs[0], num_samples), rtol=1e-5)
        assert values[0, 0] == values[1, 0]
        assert values[0, 1] != values[1, 1]


def test_soft_value_of_many_actions_is_expectation():
    """With Q = 0 and α = 1 the soft value is the policy's entropy."""
    sac = make_sac(WIDE, affine_critic([[0.0, 0.0]] * 2, [0.0, 0.0]))
    value = soft_value(KEY, sac, jnp.zeros((1, 1)), 20_000)
    u = np.linspace(-6.0, 6.0, 100_001)
    surprise = np.log1p(-(np.tanh(u) ** 2)) - norm.logpdf(u, 0.0, 0.7)
    entropy = np.trapezoid(norm.pdf(u, 0.0, 0.7) * surprise, u)
    assert value[0] == pytest.approx(entropy, abs=0.02)
