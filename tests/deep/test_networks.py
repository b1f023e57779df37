"""The squashed Gaussian against numerical integration and SciPy; networks against NumPy."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm, truncnorm
from tiny import affine_actor

from narl.deep import networks
from narl.deep.networks import LOG_STD_RANGE, ActionGaussian, action_gaussian, narrow_product
from narl.deep.policy import act_in_numpy

squash, draw_action = jax.jit(networks.squash), jax.jit(networks.draw_action)
mode_action, twin_values = jax.jit(networks.mode_action), jax.jit(networks.twin_values)
init_normalised = functools.partial(networks.init_critic, normalised=True)
init_actor, init_critic = (
    jax.jit(init, static_argnums=(1, 2, 3)) for init in (networks.init_actor, networks.init_critic)
)
glorot, truncated_normal = (
    jax.jit(init, static_argnums=(1, 2)) for init in (networks.glorot, networks.truncated_normal)
)


def log_density(mean, std, u):
    """Return log p(tanh u) of the squashed Gaussian, in float64 and without cancellation."""
    u = np.asarray(u, np.float64)
    log_slope = math.log(4.0) - 2.0 * (np.abs(u) + np.log1p(np.exp(-2.0 * np.abs(u))))
    return norm.logpdf(u, mean, std) - log_slope


def policy_of(mean, std, num_rows):
    ones = jnp.ones((num_rows, 1))
    return ActionGaussian(mean * ones, math.log(std) * ones)


@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.0), (-0.7, 0.1), (0.3, 2.0)])
def test_squashed_density_integrates_to_one(mean, std):
    u = np.linspace(mean - 8 * std, mean + 8 * std, 20_001)
    noise = jnp.asarray((u - mean) / std, jnp.float32)[:, None]
    drawn = squash(policy_of(mean, std, u.size), noise)
    density = np.exp(np.asarray(drawn.log_prob, np.float64))
    assert np.trapezoid(density, np.tanh(u)) == pytest.approx(1.0, abs=1e-4)
    np.testing.assert_allclose(drawn.action[:, 0], np.tanh(u), atol=1e-6)


def test_log_prob_equals_change_of_variables_summed_over_actions():
    rng = np.random.default_rng(0)
    mean, noise = rng.normal(size=(2, 50, 3))
    log_std = rng.uniform(-2.0, 0.5, (50, 3))
    mean32, log_std32, noise32 = (jnp.asarray(x, jnp.float32) for x in (mean, log_std, noise))
    drawn = squash(ActionGaussian(mean32, log_std32), noise32)
    action = np.tanh(mean + np.exp(log_std) * noise)
    expected = norm.logpdf(np.arctanh(action), mean, np.exp(log_std)) - np.log1p(-(action**2))
    np.testing.assert_allclose(drawn.log_prob, expected.sum(-1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("u", [-20.0, 9.5])
def test_log_prob_and_gradient_exact_where_tanh_rounds_to_one(u):
    def log_prob(noise):
        return squash(policy_of(0.0, 1.0, 1), noise).log_prob[0]

    noise = jnp.full((1, 1), u)
    assert jnp.abs(jnp.tanh(noise)) == 1.0
    value, slope = jax.jit(jax.value_and_grad(log_prob))(noise)
    assert value == pytest.approx(log_density(0.0, 1.0, u), rel=1e-6)
    # d/du [−u²/2 − log(1 − tanh² u)] = −u + 2 tanh u.
    assert slope[0, 0] == pytest.approx(-u + 2 * math.tanh(u), rel=1e-5)


def test_log_std_clipped_to_range():
    for log_std, expected in ((50.0, 2.0), (-50.0, -20.0), (-1.5, -1.5)):
        gaussian = action_gaussian(affine_actor([[1.0]], [0.25], log_std), jnp.ones((2, 1)))
        assert gaussian.log_std.tolist() == [[expected]] * 2
        assert gaussian.mean.tolist() == [[1.25]] * 2
    assert LOG_STD_RANGE == (-20.0, 2.0)


def test_drawn_actions_have_mean_and_std_of_policy():
    obs = jnp.zeros((20_000, 1))
    drawn = draw_action(jax.random.key(0), affine_actor([[0.0]], [0.4], math.log(0.3)), obs)
    u = np.arctanh(np.asarray(drawn.action, np.float64))
    assert u.mean() == pytest.approx(0.4, abs=0.01)
    assert u.std() == pytest.approx(0.3, abs=0.01)
    np.testing.assert_allclose(drawn.log_prob, log_density(0.4, 0.3, u[:, 0]), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("hidden", [(16, 16), (5,)])
def test_act_in_numpy_equals_mode_action(hidden):
    actor = init_actor(jax.random.key(3), 4, 2, hidden)
    obs = np.random.default_rng(1).normal(size=(20, 4)).astype(np.float32)
    on_host = jax.tree.map(np.asarray, actor)
    for row, mode in zip(obs, mode_action(actor, jnp.asarray(obs)), strict=True):
        np.testing.assert_allclose(act_in_numpy(on_host, row), mode, atol=1e-6)


def test_narrow_product_has_gradients_of_matrix_product():
    rng = np.random.default_rng(3)
    x, w, weights = (
        jnp.asarray(rng.normal(size=shape), jnp.float32)
        for shape in [(3, 5, 4), (3, 4, 2), (3, 5, 2)]
    )

    def gradients(product):
        return jax.jit(jax.grad(lambda x, w: (product(x, w) * weights).sum(), argnums=(0, 1)))(x, w)

    pairs = zip(gradients(narrow_product), gradients(jnp.matmul), strict=True)
    for narrow, plain in pairs:
        np.testing.assert_allclose(narrow, plain, rtol=1e-5, atol=1e-6)


def test_normalised_critic_by_hand():
    critic = init_normalised(jax.random.key(5), 2, 1, (3,))
    obs, action = jnp.array([[1.0, -2.0], [30.0, 5.0]]), jnp.array([[0.5], [-1.0]])
    values = np.asarray(twin_values(critic, obs, action))
    plain = networks.init_critic(jax.random.key(5), 2, 1, (3,))
    for name in ("w", "b"):  # the same weights at the beginning
        assert all(
            (getattr(a, name) == getattr(b, name)).all() for a, b in zip(critic, plain, strict=True)
        )
    x = np.concatenate([obs, action], axis=-1)
    for twin in range(2):
        first, last = ([np.asarray(part[twin]) for part in layer] for layer in critic)
        hidden = x @ first[0] + first[1]
        hidden = (hidden - hidden.mean(1, keepdims=True)) / hidden.std(1, keepdims=True)
        expected = np.maximum(hidden, 0.0) @ last[0] + last[1]
        np.testing.assert_allclose(values[twin], expected[:, 0], rtol=1e-4)


def test_initial_weights_have_stated_spread():
    w = np.asarray(glorot(jax.random.key(0), 300, 100))
    assert np.abs(w).max() <= math.sqrt(6 / 400)
    assert w.var() == pytest.approx(2 / 400, rel=0.03)
    w = np.asarray(truncated_normal(jax.random.key(1), 100, 300))
    assert np.abs(w).max() <= 2 / (2 * math.sqrt(100))
    # Cutting at two standard deviations takes 12 % off the spread.
    assert w.std() == pytest.approx(truncnorm.std(-2, 2) / (2 * math.sqrt(100)), rel=0.02)
    actor = init_actor(jax.random.key(2), 3, 2, (5,))
    assert [part.w.shape for part in actor] == [(3, 5), (5, 4)]
    assert all(not part.b.any() for part in actor)
