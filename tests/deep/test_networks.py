"""The squashed Gaussian against numerical integration and SciPy; networks against NumPy."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm, truncnorm
from tiny import affine_actor, layer

from narl.deep import networks as nets
from narl.deep.evaluation import numpy_mode
from narl.deep.networks import LOG_STD_RANGE, Policy, apply_network, policy

squash, draw_action = jax.jit(nets.squash), jax.jit(nets.draw_action)
mode_action, twin_values = jax.jit(nets.mode_action), jax.jit(nets.twin_values)
glorot = jax.jit(nets.glorot, static_argnums=(1, 2))
truncated_normal = jax.jit(nets.truncated_normal, static_argnums=(1, 2))
init_network = jax.jit(nets.init_network, static_argnums=1)
init_actor = jax.jit(nets.init_actor, static_argnums=(1, 2, 3))
init_critic = jax.jit(nets.init_critic, static_argnums=(1, 2, 3))


def log_density(mean, std, u):
    """log p(tanh u) of the squashed Gaussian, in float64 and without cancellation."""
    u = np.asarray(u, np.float64)
    log_slope = math.log(4.0) - 2.0 * (np.abs(u) + np.log1p(np.exp(-2.0 * np.abs(u))))
    return norm.logpdf(u, mean, std) - log_slope


def as_policy(mean, std, num_rows):
    full = jnp.full((num_rows, 1), 1.0)
    return Policy(mean * full, math.log(std) * full)


@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.0), (1.2, 0.5), (-0.7, 0.1), (0.3, 2.0)])
def test_density_integrates_to_one(mean, std):
    u = np.linspace(mean - 8 * std, mean + 8 * std, 20_001)
    noise = jnp.asarray((u - mean) / std, jnp.float32)[:, None]
    drawn = squash(as_policy(mean, std, u.size), noise)
    density = np.exp(np.asarray(drawn.log_prob, np.float64))
    assert np.trapezoid(density, np.tanh(u)) == pytest.approx(1.0, abs=1e-4)
    np.testing.assert_allclose(drawn.action[:, 0], np.tanh(u), atol=1e-6)


def test_log_prob_is_that_of_the_change_of_variables():
    rng = np.random.default_rng(0)
    mean, log_std = rng.normal(size=(50, 3)), rng.uniform(-2.0, 0.5, (50, 3))
    noise = rng.normal(size=(50, 3))
    drawn = squash(
        Policy(jnp.asarray(mean, jnp.float32), jnp.asarray(log_std, jnp.float32)),
        jnp.asarray(noise, jnp.float32),
    )
    action = np.tanh(mean + np.exp(log_std) * noise)
    expected = norm.logpdf(np.arctanh(action), mean, np.exp(log_std)) - np.log1p(-(action**2))
    np.testing.assert_allclose(drawn.log_prob, expected.sum(-1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("u", [-20.0, 9.5, 20.0])
def test_log_prob_is_right_where_tanh_is_one_in_float32(u):
    def log_prob(noise):
        return squash(as_policy(0.0, 1.0, 1), noise).log_prob[0]

    noise = jnp.full((1, 1), u)
    assert jnp.abs(jnp.tanh(noise)) == 1.0
    assert log_prob(noise) == pytest.approx(log_density(0.0, 1.0, u), rel=1e-6)
    # d/du [−u²/2 − log(1 − tanh² u)] = −u + 2 tanh u.
    assert jax.jit(jax.grad(log_prob))(noise)[0, 0] == pytest.approx(
        -u + 2 * math.tanh(u), rel=1e-5
    )


def test_log_prob_sums_over_the_actions():
    drawn = squash(Policy(jnp.zeros((1, 2)), jnp.zeros((1, 2))), jnp.array([[0.5, -1.0]]))
    expected = log_density(0.0, 1.0, 0.5) + log_density(0.0, 1.0, -1.0)
    assert drawn.log_prob[0] == pytest.approx(expected, rel=1e-6)


def test_log_std_is_clipped():
    for log_std, expected in ((50.0, 2.0), (-50.0, -20.0), (-1.5, -1.5)):
        given = policy(affine_actor([[1.0]], [0.25], log_std), jnp.ones((2, 1)))
        assert given.log_std.tolist() == [[expected]] * 2
        assert given.mean.tolist() == [[1.25]] * 2
    assert LOG_STD_RANGE == (-20.0, 2.0)


def test_mode_is_tanh_of_the_mean():
    actor = affine_actor([[1.0, 0.0], [0.0, 2.0]], [0.5, -0.5], log_std=2.0)
    mode = mode_action(actor, jnp.array([[1.0, 1.0], [0.0, -1.0]]))
    np.testing.assert_allclose(mode, np.tanh([[1.5, 1.5], [0.5, -2.5]]), rtol=1e-6)


def test_draws_have_the_mean_and_spread_of_the_policy():
    obs = jnp.zeros((20_000, 1))
    drawn = draw_action(jax.random.key(0), affine_actor([[0.0]], [0.4], math.log(0.3)), obs)
    u = np.arctanh(np.asarray(drawn.action, np.float64))
    assert u.mean() == pytest.approx(0.4, abs=0.01)
    assert u.std() == pytest.approx(0.3, abs=0.01)
    np.testing.assert_allclose(drawn.log_prob, log_density(0.4, 0.3, u[:, 0]), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("hidden", [(16, 16), (5,)])
def test_numpy_mode_is_mode_action(hidden):
    actor = init_actor(jax.random.key(3), 4, 2, hidden)
    obs = np.random.default_rng(1).normal(size=(20, 4)).astype(np.float32)
    expected = mode_action(actor, jnp.asarray(obs))
    on_host = jax.tree.map(np.asarray, actor)
    for row, mode in zip(obs, expected, strict=True):
        np.testing.assert_allclose(numpy_mode(on_host, row), mode, atol=1e-6)


def test_apply_network_is_the_loop_over_copies():
    rng = np.random.default_rng(2)
    ws, bs = (
        [rng.normal(size=(3, 2, 4)), rng.normal(size=(3, 4, 1))],
        [
            rng.normal(size=(3, 4)),
            rng.normal(size=(3, 1)),
        ],
    )
    x = rng.normal(size=(3, 5, 2))
    network = tuple(layer(w, b) for w, b in zip(ws, bs, strict=True))
    out = apply_network(network, jnp.asarray(x, jnp.float32))
    for m in range(3):
        hidden = np.maximum(x[m] @ ws[0][m] + bs[0][m], 0.0)
        np.testing.assert_allclose(out[m], hidden @ ws[1][m] + bs[1][m], rtol=1e-4, atol=1e-5)


def test_twins_are_two_networks_of_observation_and_action():
    critic = init_critic(jax.random.key(0), 2, 1, (6,))
    obs, action = jnp.array([[0.1, -0.2], [1.0, 2.0]]), jnp.array([[0.5], [-1.0]])
    both = twin_values(critic, obs, action)
    assert both.shape == (2, 2)
    assert not np.allclose(both[0], both[1])
    for i in range(2):
        alone = jax.tree.map(lambda x, i=i: x[i], critic)
        x = jnp.concatenate([obs, action], axis=1)
        np.testing.assert_allclose(both[i], apply_network(alone, x)[:, 0], rtol=1e-5, atol=1e-6)


@pytest.mark.slow
def test_first_weights():
    w = np.asarray(glorot(jax.random.key(0), 300, 100))
    assert np.abs(w).max() <= math.sqrt(6 / 400)
    assert w.var() == pytest.approx(2 / 400, rel=0.03)
    w = np.asarray(truncated_normal(jax.random.key(1), 100, 300))
    assert np.abs(w).max() <= 2 / (2 * math.sqrt(100))
    # Cutting at two standard deviations takes 12 % off the spread.
    assert w.std() == pytest.approx(truncnorm.std(-2, 2) / (2 * math.sqrt(100)), rel=0.02)
    network = init_network(jax.random.key(2), (3, 4, 5))
    assert [part.w.shape for part in network] == [(3, 4), (4, 5)]
    assert all(not part.b.any() for part in network)
