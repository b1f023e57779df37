"""The probabilistic ensemble: predictions, loss and draws, by hand and against NumPy."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import affine_ensemble, assert_same, constant_ensemble, differs, layer, tiny_config

from narl.deep import ensemble as module
from narl.deep.ensemble import BLOCK, DECAY, Scale, Weights, decays

init_ensemble = jax.jit(module.init_ensemble, static_argnums=(1, 2, 3))
predict, model_loss = jax.jit(module.predict), jax.jit(module.model_loss)
gradient, holdout_error = jax.jit(jax.grad(module.model_loss)), jax.jit(module.holdout_error)
weighted_loss = jax.jit(module.model_loss, static_argnums=5)
weighted_gradient = jax.jit(jax.grad(module.model_loss), static_argnums=5)
predict_members = jax.jit(module.predict_members, static_argnums=4)


def softplus(x):
    return np.logaddexp(0.0, x)


def numpy_predict(weights, scale, x):
    """Return mean and log variance member by member, layer by layer, in float64."""
    weights, scale = jax.tree.map(lambda a: np.asarray(a, np.float64), (weights, scale))
    means, logvars = [], []
    high, low = weights.max_logvar, weights.min_logvar
    for m in range(len(x)):
        h = (x[m] - scale.mean) / scale.std
        for i, part in enumerate(weights.network):
            h = h @ part.w[m] + part.b[m]
            if i + 1 < len(weights.network):
                h = h / (1.0 + np.exp(-h))
        mean, raw = np.split(h, 2, axis=-1)
        capped = high - softplus(high - raw)
        means.append(mean)
        logvars.append(low + softplus(capped - low))
    return np.stack(means), np.stack(logvars)


def numpy_loss(weights, scale, x, y, present):
    """Return the loss as a loop over members and the rows that are present."""
    mean, logvar = numpy_predict(weights, scale, x)
    total = 0.01 * np.sum(np.asarray(weights.max_logvar - weights.min_logvar, float))
    for m in range(len(mean)):
        error = (mean[m] - y[m]) ** 2 / np.exp(logvar[m]) + logvar[m]
        total += np.mean(error[present > 0])
        for rate, part in zip(DECAY, weights.network, strict=True):
            total += rate * 0.5 * np.sum(np.asarray(part.w[m], float) ** 2)
    return total


def random_ensemble():
    """Return weights and scale of three members, and inputs and targets for each of them."""
    rng = np.random.default_rng(0)
    network = tuple(
        layer(rng.normal(size=(3, i, o)), rng.normal(size=(3, o)))
        for i, o in itertools.pairwise((3, 5, 5, 5, 5, 6))
    )
    bounds = jnp.asarray(rng.uniform(0.0, 2.0, 3), jnp.float32)
    scale = Scale(jnp.array([1.0, -2.0, 0.5]), jnp.array([2.0, 0.5, 3.0]))
    x, y = rng.normal(size=(2, 3, 6, 3)).astype(np.float32)
    return Weights(network, bounds, -1.0 - bounds), scale, x, y


def test_predictions_equal_numpy():
    weights, scale, x, _ = random_ensemble()
    gaussian = predict(weights, scale, x)
    mean, logvar = numpy_predict(weights, scale, x)
    np.testing.assert_allclose(gaussian.mean, mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(gaussian.logvar, logvar, rtol=1e-4, atol=1e-5)
    same_inputs = predict(weights, scale, x[0])
    np.testing.assert_allclose(same_inputs.mean[0], mean[0], rtol=1e-4, atol=1e-5)
    assert same_inputs.mean.shape == mean.shape


def test_loss_by_hand():
    """Two members predict constants, with a variance of 1 and of e."""
    model = constant_ensemble([[1.0, 2.0], [0.0, 0.0]], logvar=[[0.0] * 2, [1.0] * 2])
    targets = jnp.array([[[1.0, 4.0], [0.0, 2.0]], [[1.0, 1.0], [2.0, 0.0]]])
    # Member 0: errors² (0, 4), (1, 0), mean 5/4. Member 1: (1, 1), (4, 0), mean 3/2, over e, + 1.
    likelihood = 5 / 4 + (3 / 2) / np.e + 1.0
    bounds = 0.01 * 2 * 200.0  # two outputs; the members share their bounds
    # First layers: [I, −I], four ones each. Last layers: no weights.
    decay = 0.5 * 2.5e-5 * 4 * 2
    loss = model_loss(model.weights, model.scale, jnp.zeros((2, 2, 2)), targets, jnp.ones(2))
    assert loss == pytest.approx(likelihood + bounds + decay, rel=1e-6)


@pytest.mark.parametrize("beta", [0.5, 1.0])
def test_errors_weighted_by_variance_by_hand(beta):
    """Squared errors 4 and 9, log variances 0 and 2; the second row of targets is padding.

    With β = 1 the gradient of a mean is that of least squares: the error itself, of two outputs.
    """
    model = constant_ensemble([[2.0, 0.0], [0.0, 0.0]], logvar=[[0.0, 2.0], [0.0, 2.0]])
    targets = jnp.array([[[0.0, 3.0], [9e3, 9e3]], [[0.0, 0.0], [9e3, 9e3]]])
    given = (model.weights, model.scale, jnp.zeros((2, 2, 2)), targets, jnp.array([1.0, 0.0]))
    weight = np.exp(2.0 * beta)
    likelihood = (4.0 + weight * (9.0 * np.exp(-2.0) + 2.0)) / 2 + weight * 2.0 / 2
    bounds = 0.01 * 200.0 * (1.0 + weight)
    decay = 0.5 * 2.5e-5 * 4 * 2
    assert weighted_loss(*given, beta) == pytest.approx(likelihood + bounds + decay, rel=1e-5)
    slope = weighted_gradient(*given, beta).network[-1].b[0, :2]
    np.testing.assert_allclose(slope, [2.0, -3.0 * np.exp(2.0 * (beta - 1.0))], rtol=1e-4)


def test_loss_equals_numpy_and_ignores_padding():
    weights, scale, x, y = random_ensemble()
    present = np.array([1.0, 1.0, 0.0, 1.0, 0.0, 0.0], np.float32)
    expected = numpy_loss(weights, scale, x, y, present)
    assert model_loss(weights, scale, x, y, present) == pytest.approx(expected, rel=1e-4)
    x[:, present == 0.0], y[:, present == 0.0] = 1e3, -1e3
    assert model_loss(weights, scale, x, y, present) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_forms_for_a_gpu_have_the_same_loss_and_gradients(beta, monkeypatch):
    weights, scale, *rows = random_ensemble()
    x, y, present = map(jnp.asarray, (*rows, np.float32([1, 1, 0, 1, 0, 0])))

    def compute():
        loss = jax.value_and_grad(lambda w: module.model_loss(w, scale, x, y, present, beta))
        return loss(weights), module.holdout_error(weights, scale, x[0], y[0], present)

    plain = compute()
    monkeypatch.setattr(module, "BLOCK", 2)
    monkeypatch.setattr(module, "GPU_BLOCK", 4)
    monkeypatch.setattr(module, "_on_cpu", lambda: False)
    for one, other in zip(jax.tree.leaves(plain), jax.tree.leaves(compute()), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_decay_by_layer():
    assert decays(4) == (2.5e-5, 5e-5, 7.5e-5, 7.5e-5, 1e-4) == DECAY
    assert decays(1) == (2.5e-5, 1e-4)
    assert decays(2) == (2.5e-5, 5e-5, 1e-4)
    assert decays(3) == (2.5e-5, 5e-5, 7.5e-5, 1e-4)
    assert decays(6) == (2.5e-5, 5e-5, 7.5e-5, 7.5e-5, 7.5e-5, 7.5e-5, 1e-4)


def test_gradient_of_member_depends_on_own_rows_only():
    weights, scale, x, y = random_ensemble()
    # JAX may still be reading x and y, which are about to change.
    before = jax.block_until_ready(gradient(weights, scale, x, y, jnp.ones(6)))
    x[1] += 1.0
    y[2] += 2.0
    after = gradient(weights, scale, x, y, jnp.ones(6))
    for m in range(3):
        own = [jax.tree.map(lambda g, m=m: g[m], grad.network) for grad in (before, after)]
        assert differs(*own) == (m > 0)


def test_holdout_error_by_hand():
    model = constant_ensemble([[1.0, 2.0], [0.0, 0.0]])
    targets = jnp.array([[1.0, 4.0], [0.0, 2.0], [9e3, 9e3]])
    present = jnp.array([1.0, 1.0, 0.0])
    error = holdout_error(model.weights, model.scale, jnp.zeros((3, 2)), targets, present)
    # Errors² (0, 4), (1, 0) and (1, 16), (0, 4).
    np.testing.assert_allclose(error, [5 / 4, 21 / 4], rtol=1e-6)


@pytest.mark.parametrize("num_present", [1, BLOCK, BLOCK + 1, 700])
def test_holdout_error_predicts_only_blocks_with_present_rows(num_present):
    """An input that is not a number would spoil the error if it were predicted."""
    weights, scale, *_ = random_ensemble()
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(2, 700, 3)).astype(np.float32)
    expected = (np.asarray(predict(weights, scale, x).mean)[:, :num_present] - y[:num_present]) ** 2
    x[-(-num_present // BLOCK) * BLOCK :] = np.nan
    present = (np.arange(700) < num_present).astype(np.float32)
    error = holdout_error(weights, scale, x, y, present)
    np.testing.assert_allclose(error, expected.mean((1, 2)), rtol=1e-5)


def test_bounds_are_drawn_together_once_against_the_likelihoods_of_all_members():
    """With a log variance v at the upper bound H its gradient is that of H − softplus(H − raw).

    Here raw = H, so v = H − log 2 and dv/dH = 1/2; the lower bound is far away.
    """
    model = constant_ensemble([[0.0, 0.0]] * 3, logvar=1.0)
    weights = model.weights._replace(max_logvar=jnp.ones(2), min_logvar=jnp.full(2, -50.0))
    targets = jnp.array([[[0.0, 3.0]], [[1.0, 0.0]], [[2.0, 0.0]]])
    grad = gradient(weights, model.scale, jnp.zeros((3, 1, 2)), targets, jnp.ones(1))
    # d/dv of (e² exp(−v) + v)/2 for the squared errors 0, 1, 4 of the reward and 9, 0, 0.
    variance = np.exp(1.0) / 2
    likelihood = 0.5 * np.array([3 - 5 / variance, 3 - 9 / variance]) / 2
    np.testing.assert_allclose(grad.max_logvar, 0.01 + likelihood, rtol=1e-4)
    np.testing.assert_allclose(grad.min_logvar, [-0.01, -0.01], rtol=1e-4)


def test_collapsed_share_counts_outputs_whose_bounds_crossed():
    model = constant_ensemble([[0.0, 0.0]])
    for high, share in (([1.0, 1.0], 0.0), ([1.0, -3.0], 0.5), ([-3.0, -2.1], 1.0)):
        weights = model.weights._replace(max_logvar=jnp.array(high), min_logvar=jnp.full(2, -2.0))
        assert module.collapsed_share(weights) == share


CONFIG = tiny_config()


def test_means_predicted_exactly():
    # reward = s + 2a, change = 3a − 1; the second member twice as much of everything.
    matrix, offset = np.array([[1.0, 0.0], [2.0, 3.0]]), np.array([0.0, -1.0])
    model = affine_ensemble([matrix, 2 * matrix], [offset, 2 * offset])
    obs, action = jnp.array([[1.0], [5.0]]), jnp.array([[0.5], [-1.0]])
    means = predict_members(jax.random.key(0), model, obs, action, CONFIG).mean
    np.testing.assert_allclose(means.reward, [[2.0, 3.0], [4.0, 6.0]], rtol=1e-6)
    np.testing.assert_allclose(means.next_obs[..., 0], [[1.5, 1.0], [2.0, -3.0]], rtol=1e-6)


def test_scaled_targets_returned_in_own_units():
    model = constant_ensemble([[0.5, -1.0]])._replace(
        target_scale=Scale(jnp.array([10.0, 1.0]), jnp.array([4.0, 3.0]))
    )
    obs, action = jnp.array([[7.0], [0.0]]), jnp.zeros((2, 1))
    prediction = predict_members(jax.random.key(0), model, obs, action, CONFIG).mean
    np.testing.assert_allclose(prediction.reward, [[10.0 + 4.0 * 0.5] * 2])
    np.testing.assert_allclose(prediction.next_obs[0, :, 0], np.array([7.0, 0.0]) + 1.0 - 3.0)


def test_draws_have_members_mean_and_variance():
    logvar = [np.log([0.04, 0.25]), np.log([1.0, 0.01])]
    model = constant_ensemble([[1.0, 2.0], [-1.0, 0.0]], logvar=logvar)
    obs = jnp.full((20_000, 1), 10.0)
    drawn = predict_members(jax.random.key(1), model, obs, jnp.zeros((20_000, 1)), CONFIG).draw
    both = np.stack([drawn.reward, drawn.next_obs[..., 0]])
    np.testing.assert_allclose(both.mean(-1), [[1.0, -1.0], [12.0, 10.0]], atol=0.03)
    np.testing.assert_allclose(both.std(-1), [[0.2, 1.0], [0.5, 0.1]], rtol=0.03)
    # Reward and state of one member, and the members, are drawn independently.
    np.testing.assert_allclose(np.corrcoef(both.reshape(4, -1)), np.eye(4), atol=0.04)


def test_disagreement_and_information_by_hand():
    """The means are apart by 2 and 6 in native units: standard deviations 1 and 3.

    In units of the data, 4 and 2, these are 1/4 and 3/2. The aleatoric variances are e^0·2² and
    e^1·3² on average over the members.
    """
    logvar = [[0.0, np.log(np.e - 1.0)], [0.0, np.log(np.e + 1.0)]]
    model = constant_ensemble([[0.5, 1.0], [-0.5, -1.0]], logvar=logvar)._replace(
        target_scale=Scale(jnp.array([7.0, 8.0]), jnp.array([2.0, 3.0])),
        output_std=jnp.array([4.0, 2.0]),
    )
    obs = jnp.zeros((3, 1))
    forecast = predict_members(jax.random.key(0), model, obs, obs, CONFIG)
    np.testing.assert_allclose(forecast.disagreement, (1 / 4 + 3 / 2) / 2, rtol=1e-6)
    expected = (np.log1p(1.0 / 4.0) + np.log1p(9.0 / (9.0 * np.e))) / 2
    np.testing.assert_allclose(forecast.information, expected, rtol=1e-5)


def test_members_that_agree_have_no_disagreement():
    obs = jnp.zeros((2, 1))
    for outputs in ([[0.3, -0.7]], [[0.3, -0.7]] * 3):
        model = constant_ensemble(outputs, logvar=0.0)
        forecast = predict_members(jax.random.key(0), model, obs, obs, CONFIG)
        np.testing.assert_allclose(forecast.disagreement, 0.0, atol=1e-6)
        np.testing.assert_allclose(forecast.information, 0.0, atol=1e-6)


def test_reward_learned_as_symlog_is_predicted_in_its_own_units():
    model = constant_ensemble([[np.log(101.0), 0.0], [-np.log(3.0), 0.0], [0.0, 0.0]])
    config, obs = tiny_config(reward_transform="symlog"), jnp.zeros((1, 1))
    mean = predict_members(jax.random.key(0), model, obs, obs, config).mean
    np.testing.assert_allclose(mean.reward[:, 0], [100.0, -2.0, 0.0], rtol=1e-5)
    x = jnp.array([-50.0, -0.1, 0.0, 3.0])
    np.testing.assert_allclose(module.symexp(module.symlog(x)), x, rtol=1e-5)


def test_untrained_members_differ_and_have_no_error_yet():
    model = init_ensemble(jax.random.key(5), 2, 1, tiny_config(members=3, model_width=5))
    assert_same(model.weights.max_logvar, np.full(3, 0.5, np.float32))
    assert_same(model.weights.min_logvar, np.full(3, -10.0, np.float32))
    shapes = [part.w.shape for part in model.weights.network]
    assert shapes == [(3, 3, 5), (3, 5, 5), (3, 5, 6)]
    first = np.asarray(model.weights.network[0].w)
    assert not np.allclose(first[0], first[1])
    assert model.ranked.tolist() == [0, 1, 2]
    assert np.isinf(model.holdout_error).all()
