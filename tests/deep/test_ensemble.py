"""The probabilistic ensemble: predictions, loss and draws, by hand and against NumPy."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import affine_ensemble, assert_same, constant_ensemble, differs, layer

from narl.deep import ensemble
from narl.deep.ensemble import DECAY, ModelSettings, Scale, Weights, decays

SMALL = ModelSettings(members=3, width=5, depth=2)

init_ensemble = jax.jit(ensemble.init_ensemble, static_argnums=(1, 2, 3))
predict, model_loss = jax.jit(ensemble.predict), jax.jit(ensemble.model_loss)
gradient, holdout_error = jax.jit(jax.grad(ensemble.model_loss)), jax.jit(ensemble.holdout_error)
imagine = jax.jit(ensemble.imagine, static_argnums=4)


def softplus(x):
    return np.logaddexp(0.0, x)


def numpy_predict(weights, scale, x):
    """Member by member, layer by layer, in float64."""
    weights, scale = jax.tree.map(lambda a: np.asarray(a, np.float64), (weights, scale))
    means, logvars = [], []
    for m in range(weights.max_logvar.shape[0]):
        h = (x[m] - scale.mean) / scale.std
        for i, part in enumerate(weights.network):
            h = h @ part.w[m] + part.b[m]
            if i + 1 < len(weights.network):
                h = h / (1.0 + np.exp(-h))
        mean, raw = np.split(h, 2, axis=-1)
        high, low = weights.max_logvar[m], weights.min_logvar[m]
        capped = high - softplus(high - raw)
        means.append(mean)
        logvars.append(low + softplus(capped - low))
    return np.stack(means), np.stack(logvars)


def random_ensemble():
    rng = np.random.default_rng(0)
    sizes = (3, 5, 5, 5, 5, 6)
    network = tuple(
        layer(rng.normal(size=(3, i, o)), rng.normal(size=(3, o)))
        for i, o in itertools.pairwise(sizes)
    )
    bounds = jnp.asarray(rng.uniform(0.0, 2.0, (3, 3)), jnp.float32)
    scale = Scale(jnp.array([1.0, -2.0, 0.5]), jnp.array([2.0, 0.5, 3.0]))
    x, y = rng.normal(size=(2, 3, 6, 3))
    return Weights(network, bounds, -1.0 - bounds), scale, x, y


def test_predictions_are_those_of_numpy():
    weights, scale, x, _ = random_ensemble()
    given = predict(weights, scale, jnp.asarray(x, jnp.float32))
    mean, logvar = numpy_predict(weights, scale, x)
    np.testing.assert_allclose(given.mean, mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(given.logvar, logvar, rtol=1e-4, atol=1e-5)
    # The same inputs for all members.
    shared = predict(weights, scale, jnp.asarray(x[0], jnp.float32))
    np.testing.assert_allclose(shared.mean[0], mean[0], rtol=1e-4, atol=1e-5)
    assert shared.mean.shape == mean.shape


def test_log_variance_stays_within_its_bounds():
    model = constant_ensemble([[0.0, 0.0]] * 3, logvar=[[-80.0] * 2, [0.0] * 2, [80.0] * 2])
    weights = model.weights._replace(
        max_logvar=jnp.full((3, 2), 0.5), min_logvar=jnp.full((3, 2), -10.0)
    )
    logvar = predict(weights, model.scale, jnp.zeros((1, 2))).logvar[:, 0, 0]
    assert logvar[0] == pytest.approx(-10.0, abs=1e-3)
    assert logvar[1] == pytest.approx(0.5 - softplus(0.5), abs=1e-3)
    # softplus(10.5) = 10.5 + 3e-5: the upper bound holds up to that.
    assert logvar[2] == pytest.approx(0.5, abs=1e-3)


def test_loss_by_hand():
    """Two members, [reward, change] predicted as constants, unit variance or e."""
    model = constant_ensemble([[1.0, 2.0], [0.0, 0.0]], logvar=[[0.0] * 2, [1.0] * 2])
    inputs = jnp.zeros((2, 2, 2))
    targets = jnp.array([[[1.0, 4.0], [0.0, 2.0]], [[1.0, 1.0], [2.0, 0.0]]])
    # Member 0: errors² (0, 4), (1, 0), mean 5/4. Member 1: (1, 1), (4, 0), mean 3/2, over e, + 1.
    likelihood = 5 / 4 + (3 / 2) / np.e + 1.0
    bounds = 0.01 * 4 * 200.0
    # First layers: [I, −I], four ones each. Last layers: no weights.
    decay = 0.5 * 2.5e-5 * 4 * 2
    loss = model_loss(model.weights, model.scale, inputs, targets, jnp.ones(2))
    assert loss == pytest.approx(likelihood + bounds + decay, rel=1e-6)


def numpy_loss(weights, scale, x, y, present):
    mean, logvar = numpy_predict(weights, scale, x)
    rows = [i for i, there in enumerate(present) if there]
    total = 0.0
    for m in range(len(mean)):
        terms = [(mean[m, i] - y[m, i]) ** 2 / np.exp(logvar[m, i]) + logvar[m, i] for i in rows]
        total += np.mean(terms)
        total += 0.01 * np.sum(np.asarray(weights.max_logvar[m] - weights.min_logvar[m], float))
        for rate, part in zip(DECAY, weights.network, strict=True):
            total += rate * 0.5 * np.sum(np.asarray(part.w[m], float) ** 2)
    return total


def test_loss_against_numpy_and_padding_does_not_count():
    weights, scale, x, y = random_ensemble()
    present = np.array([1.0, 1.0, 0.0, 1.0, 0.0, 0.0])
    args = (jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32), jnp.asarray(present))
    loss = model_loss(weights, scale, *args)
    assert loss == pytest.approx(numpy_loss(weights, scale, x, y, present), rel=1e-4)
    padding = jnp.asarray(present == 0.0)[:, None]
    other = jnp.where(padding, 1e3, args[0]), jnp.where(padding, -1e3, args[1])
    assert model_loss(weights, scale, *other, args[2]) == pytest.approx(float(loss), rel=1e-6)


def test_decay_by_layer():
    assert decays(4) == (2.5e-5, 5e-5, 7.5e-5, 7.5e-5, 1e-4) == DECAY
    assert decays(1) == (2.5e-5, 1e-4)
    assert decays(2) == (2.5e-5, 5e-5, 1e-4)
    assert decays(3) == (2.5e-5, 5e-5, 7.5e-5, 1e-4)
    assert decays(6) == (2.5e-5, 5e-5, 7.5e-5, 7.5e-5, 7.5e-5, 7.5e-5, 1e-4)


def test_decay_and_bounds_have_the_gradients_they_should():
    """Where likelihood has none: rows that are predicted with a variance that fits."""
    model = constant_ensemble([[0.0, 0.0]], logvar=0.0)
    targets = jnp.array([[[1.0, 1.0], [-1.0, -1.0]]])
    grad = gradient(model.weights, model.scale, jnp.zeros((1, 2, 2)), targets, jnp.ones(2))
    np.testing.assert_allclose(grad.max_logvar, 0.01, rtol=1e-4)
    np.testing.assert_allclose(grad.min_logvar, -0.01, rtol=1e-4)
    np.testing.assert_allclose(grad.network[0].w, 2.5e-5 * model.weights.network[0].w)


def test_members_do_not_touch_each_other():
    weights, scale, x, y = random_ensemble()
    x, y = jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)
    before = gradient(weights, scale, x, y, jnp.ones(6))
    after = gradient(weights, scale, x.at[1].add(1.0), y.at[2].add(2.0), jnp.ones(6))
    first = [jax.tree.map(lambda g: g[0], grad) for grad in (before, after)]
    assert_same(*first)
    for m in (1, 2):
        assert differs(*(jax.tree.map(lambda g, m=m: g[m], grad) for grad in (before, after)))


def test_holdout_error_by_hand():
    model = constant_ensemble([[1.0, 2.0], [0.0, 0.0]])
    targets = jnp.array([[1.0, 4.0], [0.0, 2.0], [9e3, 9e3]])
    error = holdout_error(
        model.weights, model.scale, jnp.zeros((3, 2)), targets, jnp.array([1.0, 1.0, 0.0])
    )
    # Errors² (0, 4), (1, 0) and (1, 16), (0, 4).
    np.testing.assert_allclose(error, [5 / 4, 21 / 4], rtol=1e-6)


def test_means_are_imagined_exactly():
    # reward = s + 2a, change = 3a − 1; the other member twice as much of everything.
    matrix, offset = np.array([[1.0, 0.0], [2.0, 3.0]]), np.array([0.0, -1.0])
    model = affine_ensemble([matrix, 2 * matrix], [offset, 2 * offset])
    obs, action = jnp.array([[1.0], [5.0]]), jnp.array([[0.5], [-1.0]])
    given = imagine(jax.random.key(0), model, obs, action, "mean")
    np.testing.assert_allclose(given.reward, [[2.0, 3.0], [4.0, 6.0]], rtol=1e-6)
    np.testing.assert_allclose(given.next_obs[..., 0], [[1.5, 1.0], [2.0, -3.0]], rtol=1e-6)
    # A variance of e^−60 is none in float32.
    drawn = imagine(jax.random.key(0), model, obs, action)
    np.testing.assert_allclose(drawn.next_obs, given.next_obs, rtol=1e-6)


def test_targets_are_brought_back_to_their_units():
    model = constant_ensemble([[0.5, -1.0]])._replace(
        target_scale=Scale(jnp.array([10.0, 1.0]), jnp.array([4.0, 3.0]))
    )
    given = imagine(jax.random.key(0), model, jnp.array([[7.0]]), jnp.zeros((1, 1)), "mean")
    assert given.reward[0, 0] == pytest.approx(10.0 + 4.0 * 0.5)
    assert given.next_obs[0, 0, 0] == pytest.approx(7.0 + 1.0 + 3.0 * -1.0)


def test_draws_have_the_members_variance():
    logvar = [np.log([0.04, 0.25]), np.log([1.0, 0.01])]
    model = constant_ensemble([[1.0, 2.0], [-1.0, 0.0]], logvar=logvar)
    obs = jnp.full((20_000, 1), 10.0)
    drawn = imagine(jax.random.key(1), model, obs, jnp.zeros((20_000, 1)))
    both = np.stack([drawn.reward, drawn.next_obs[..., 0]])
    np.testing.assert_allclose(both.mean(-1), [[1.0, -1.0], [12.0, 10.0]], atol=0.03)
    np.testing.assert_allclose(both.std(-1), [[0.2, 1.0], [0.5, 0.1]], rtol=0.03)
    # Reward and state of one member, and the members, are drawn apart.
    np.testing.assert_allclose(np.corrcoef(both.reshape(4, -1)), np.eye(4), atol=0.04)


def test_untrained_members():
    model = init_ensemble(jax.random.key(5), 2, 1, SMALL)
    assert model.weights.max_logvar.tolist() == [[0.5] * 3] * 3
    assert model.weights.min_logvar.tolist() == [[-10.0] * 3] * 3
    assert [layer.w.shape for layer in model.weights.network] == [
        *((3, 3, 5), (3, 5, 5), (3, 5, 6))
    ]
    first = np.asarray(model.weights.network[0].w)
    assert not np.allclose(first[0], first[1])
    assert model.ranked.tolist() == [0, 1, 2]
    assert np.isinf(model.holdout_error).all()
