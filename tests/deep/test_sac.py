"""Losses, targets and updates of the soft actor-critic on numbers worked out by hand."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm
from tiny import affine_actor, affine_critic, assert_same, differs, make_sac

from narl.deep import sac as module
from narl.deep.sac import Batch, Noise, SacSettings, draw_noise

init_sac = jax.jit(module.init_sac, static_argnums=(1, 2, 3))
soft_value = jax.jit(module.soft_value, static_argnums=3)
td_target = jax.jit(module.td_target, static_argnums=3)
critic_loss = jax.jit(module.critic_loss)
actor_loss = jax.jit(module.actor_loss)
alpha_loss = jax.jit(module.alpha_loss)
update = jax.jit(module.update, static_argnums=3)
update_many = jax.jit(module.update_many, static_argnums=3)

KEY = jax.random.key(7)
# Q_1 = s + 2a + 1 and Q_2 = 2s − a; the target critics are Q'_1 = 10s + a and Q'_2 = 9s + 2a + 3.
CRITIC = affine_critic([[1.0, 2.0], [2.0, -1.0]], [1.0, 0.0])
TARGET = affine_critic([[10.0, 1.0], [9.0, 2.0]], [0.0, 3.0])
# mean = s/2; with a standard deviation of e^−20 the action is tanh(s/2).
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
HALF = SacSettings(target_entropy=-1.0, discount=0.5)
QUICK = SacSettings(target_entropy=-1.0, polyak=0.25, learning_rate=0.01)


def drawn_by_hand(noise, obs, std=0.7):
    """Action and log density of WIDE."""
    noise, obs = np.asarray(noise, np.float64), np.asarray(obs, np.float64)
    u = 0.5 * obs + std * noise
    action = np.tanh(u)
    log_prob = norm.logpdf(u, 0.5 * obs, std) - np.log1p(-(action**2))
    return action[:, 0], log_prob[:, 0]


def test_target_without_entropy():
    sac = make_sac(SHARP, CRITIC, TARGET, alpha=0.0)
    target = td_target(NOISE, sac, BATCH, HALF)
    a = math.tanh(1.0)
    # s' = 2: Q'_1 = 20 + a is less than Q'_2 = 21 + 2a. The second transition is the last one.
    np.testing.assert_allclose(target, [3.0 + 0.5 * (20.0 + a), -1.0], rtol=1e-6)


def test_target_with_entropy():
    sac = make_sac(WIDE, CRITIC, TARGET, alpha=0.3)
    batch = BATCH._replace(done=jnp.zeros(2))
    a, log_prob = drawn_by_hand(NOISE, BATCH.next_obs)
    s = np.array([2.0, 4.0])
    following = np.minimum(10 * s + a, 9 * s + 2 * a + 3)
    expected = np.array([3.0, -1.0]) + 0.5 * (following - 0.3 * log_prob)
    np.testing.assert_allclose(td_target(NOISE, sac, batch, HALF), expected, rtol=1e-5)


def test_done_masks_whatever_follows():
    sac = make_sac(WIDE, CRITIC, TARGET)
    far = BATCH._replace(next_obs=BATCH.next_obs + jnp.array([[0.0], [100.0]]))
    near, moved = (td_target(NOISE, sac, batch, HALF) for batch in (BATCH, far))
    assert_same(near, moved)
    assert near[1] == -1.0


def test_critic_loss():
    # Q_1 = [3, 2] and Q_2 = [1.5, 4.5]; the target is [1, 4].
    loss, mean = critic_loss(CRITIC, BATCH, jnp.array([1.0, 4.0]))
    assert loss == pytest.approx(0.5 * ((4 + 4) / 2 + (0.25 + 0.25) / 2))
    assert mean == pytest.approx((3 + 2 + 1.5 + 4.5) / 4)


def test_actor_loss():
    loss, log_prob = actor_loss(WIDE, NOISE, CRITIC, jnp.log(jnp.float32(0.3)), BATCH.obs)
    a, by_hand = drawn_by_hand(NOISE, BATCH.obs)
    s = np.array([1.0, 2.0])
    q = np.minimum(s + 2 * a + 1, 2 * s - a)
    assert loss == pytest.approx(np.mean(0.3 * by_hand - q), rel=1e-5)
    assert log_prob == pytest.approx(by_hand.mean(), rel=1e-5)


def test_actor_climbs_the_smaller_twin():
    """Without entropy the gradient is −(1 − a²)·∂min Q/∂a: that of Q_2 for large s."""
    obs = jnp.array([[0.2]])
    grad, _ = jax.grad(actor_loss, has_aux=True)(
        SHARP, NOISE[:1], CRITIC, jnp.float32(-jnp.inf), obs
    )
    a = math.tanh(0.1)
    assert 2 * 0.2 - a < 0.2 + 2 * a + 1
    assert grad[0].b[0] == pytest.approx((1 - a**2) * 1.0, rel=1e-5)


def test_alpha_loss():
    loss = alpha_loss(jnp.log(jnp.float32(0.5)), jnp.float32(0.8), -1.0)
    assert loss == pytest.approx(-math.log(0.5) * (0.8 - 1.0))
    # log π = 2 is an entropy of −2, less than the −1 aimed at: α has to grow.
    assert jax.grad(alpha_loss)(jnp.float32(0.0), jnp.float32(2.0), -1.0) == -1.0
    assert jax.grad(alpha_loss)(jnp.float32(0.0), jnp.float32(-2.0), -1.0) == 3.0


def test_first_target_is_the_critic():
    sac = init_sac(KEY, 3, 2, SacSettings(target_entropy=-2.0, hidden=(4,)))
    assert_same(sac.critic, sac.target)
    assert sac.log_alpha == 0.0
    assert [part.w.shape for part in sac.actor] == [(3, 4), (4, 4)]
    assert [part.w.shape for part in sac.critic] == [(2, 5, 4), (2, 4, 1)]


def test_critic_stays_where_it_is_right_while_the_actor_moves():
    """With a TD error of 0 only the actor's loss could move the critic: it must not."""
    twins = affine_critic([[1.0, 2.0], [1.0, 2.0]], [1.0, 1.0])
    batch = BATCH._replace(reward=jnp.array([3.0, 2.0]), done=jnp.ones(2))
    sac = make_sac(WIDE, twins)
    new, losses = update(Noise(NOISE, -NOISE), sac, batch, QUICK)
    assert losses.critic_loss == 0.0
    assert_same(new.critic, twins)
    assert_same(new.target, twins)
    assert differs(new.actor, sac.actor)


def test_update_moves_each_part_by_its_own_loss():
    sac = make_sac(WIDE, CRITIC, TARGET, alpha=0.3, settings=QUICK)
    new, losses = update(Noise(NOISE, 2 * NOISE), sac, BATCH, QUICK)
    target = td_target(NOISE, sac, BATCH, QUICK)

    def moved(old, grad):  # Adam's first step is lr·g/(|g| + 1e-8)
        return jax.tree.map(lambda w, g: w - 0.01 * g / (jnp.abs(g) + 1e-8), old, grad)

    def close(a, b):
        jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-6), a, b)

    critic_grad, _ = jax.grad(critic_loss, has_aux=True)(CRITIC, BATCH, target)
    close(new.critic, moved(CRITIC, critic_grad))
    actor_args = (2 * NOISE, new.critic, sac.log_alpha, BATCH.obs)
    (loss, log_prob), actor_grad = jax.value_and_grad(actor_loss, has_aux=True)(WIDE, *actor_args)
    close(new.actor, moved(WIDE, actor_grad))
    close(new.log_alpha, moved(sac.log_alpha, -(log_prob - 1.0)))
    close(new.target, jax.tree.map(lambda c, t: 0.75 * t + 0.25 * c, new.critic, TARGET))
    assert losses.actor_loss == pytest.approx(float(loss), rel=1e-5)
    assert losses.entropy == pytest.approx(-float(log_prob), rel=1e-5)
    assert losses.temperature == pytest.approx(0.3, rel=1e-6)
    assert losses.alpha_loss == pytest.approx(-math.log(0.3) * (float(log_prob) - 1.0), rel=1e-4)
    assert losses.q_value == pytest.approx(2.75)


def test_updates_in_one_scan_are_updates_one_after_the_other():
    start = make_sac(WIDE, CRITIC, TARGET, alpha=0.3, settings=QUICK)
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


def test_soft_value_is_of_the_online_twins():
    sac = make_sac(WIDE, CRITIC, TARGET, alpha=0.3)
    obs = jnp.array([[0.5], [3.0], [-2.0]])
    a, log_prob = drawn_by_hand(jax.random.normal(KEY, (3, 1)), obs)
    s = np.array([0.5, 3.0, -2.0])
    expected = np.minimum(s + 2 * a + 1, 2 * s - a) - 0.3 * log_prob
    np.testing.assert_allclose(soft_value(KEY, sac, obs), expected, rtol=1e-5)


def test_soft_value_averages_over_actions():
    sac = make_sac(WIDE, CRITIC, TARGET, alpha=0.3)
    obs = jnp.array([[0.5], [3.0]])
    each = [soft_value(key, sac, obs) for key in jax.random.split(KEY, 3)]
    assert not np.allclose(each[0], each[1])
    np.testing.assert_allclose(soft_value(KEY, sac, obs, 3), np.mean(each, axis=0), rtol=1e-5)


def test_soft_value_of_many_actions_is_the_expectation():
    """With Q = 0 and α = 1 the soft value is the policy's entropy."""
    sac = make_sac(WIDE, affine_critic([[0.0, 0.0]] * 2, [0.0, 0.0]))
    value = soft_value(KEY, sac, jnp.zeros((1, 1)), 20_000)
    u = np.linspace(-6.0, 6.0, 100_001)
    density = norm.pdf(u, 0.0, 0.7)
    surprise = np.log1p(-(np.tanh(u) ** 2)) - norm.logpdf(u, 0.0, 0.7)
    assert value[0] == pytest.approx(np.trapezoid(density * surprise, u), abs=0.02)
