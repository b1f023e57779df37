"""Posterior samples: the Gamma sampler, Dirichlet dynamics, Normal rewards."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agent_data import f32, make_data, quick, slow
from scipy import stats as scipy_stats
from scipy.special import gammaln
from scipy.stats import kstest

from narl.tabular import posterior
from narl.tabular.counts import Counts
from narl.tabular.posterior import gamma, log_gamma, sample_dynamics, sample_rewards

# Keys are fixed: a KS test that passes once passes always.
MIN_PVALUE = 1e-3
SHAPES = np.concatenate([np.geomspace(1e-3, 0.9, 8), [1.0], 1 + np.geomspace(1e-3, 1e5, 12)])


@pytest.fixture(scope="module")
def log_draws():
    """20 000 draws of log Gamma for every shape, in one call."""
    shapes = jnp.broadcast_to(f32(SHAPES), (20000, len(SHAPES)))
    draw = quick(lambda key: log_gamma(key, shapes))
    draws = [np.asarray(draw(jax.random.key(seed)), dtype=float) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(draws[0], draws[1])
    assert (draws[0] != draws[2]).mean() > 0.99
    return draws[0]


def test_log_gamma_has_its_distribution(log_draws):
    assert np.isfinite(log_draws).all()
    for column, shape in zip(log_draws.T, np.float32(SHAPES).astype(float), strict=True):
        # Draws of a small shape differ only in their logarithm: P(X ≤ x) → x^a/Γ(a+1) as x → 0.
        tiny = column < -80
        cdf = np.exp(shape * np.minimum(column, -80) - gammaln(shape + 1))
        cdf = np.where(tiny, cdf, scipy_stats.gamma(shape).cdf(np.exp(np.maximum(column, -80))))
        assert kstest(cdf, "uniform").pvalue > MIN_PVALUE / len(SHAPES)  # many tests at once


@pytest.mark.slow
def test_gamma_of_shape_one_has_no_outlier_from_a_zero_draw(monkeypatch):
    # Uniform draws are multiples of 2^-23; the draw 0 must not become -log(1e-38) = 87.
    lowest = []

    def least_of(key, shape, least=0.0):
        lowest.append(least)
        return jnp.full(shape, max(least, 0.0), jnp.float32)

    monkeypatch.setattr(posterior, "uniform", least_of)
    draws = np.asarray(gamma(jax.random.key(2), jnp.ones(3)))
    assert lowest
    # The draw that stands for (0, 2^-23) lies inside this interval.
    assert ((draws > 23 * np.log(2)) & (draws < 25 * np.log(2))).all()


def test_gamma_elements_are_independent(log_draws):
    ranks = scipy_stats.rankdata(log_draws, axis=0)
    between = np.corrcoef(ranks.T) - np.eye(len(SHAPES))
    assert np.abs(between).max() < 5 / np.sqrt(len(ranks))
    for ahead in (1, 2, 100):
        for column in ranks.T:
            serial = np.corrcoef(column[:-ahead], column[ahead:])[0, 1]
            assert abs(serial) < 5 / np.sqrt(len(ranks))


@functools.partial(quick, static_argnames=("alpha0", "members"))
def draw(key, counts, problem, alpha0, members):
    return sample_dynamics(key, counts, problem, alpha0, members)


@pytest.mark.slow
@pytest.mark.parametrize("alpha0", [1.0, 0.4])
def test_sampled_dynamics_are_dirichlet_in_both_layouts(alpha0):
    data = make_data(0)
    transitions = data.counts[2]
    alpha = alpha0 + transitions
    total = alpha.sum(-1, keepdims=True)
    mean = alpha / total
    deviation = np.sqrt(mean * (1 - mean) / (total + 1))
    for seed, (problem, counts) in enumerate(data.layouts):
        members = 2000
        p = np.asarray(draw(jax.random.key(seed), counts, problem, alpha0, members))
        assert p.shape == (members, 12, 2, 12)
        assert (p >= 0).all()
        np.testing.assert_allclose(p.sum(-1), 1, atol=1e-5)
        assert (np.abs(p.mean(0) - mean) < 5 * deviation / np.sqrt(members)).all()
        uniform = scipy_stats.beta(alpha, total - alpha).cdf(p)
        pvalues = kstest(uniform, "uniform", axis=0).pvalue
        # 288 tests at once: none absurd, and spread as p-values are.
        assert pvalues.min() > 1e-5
        assert np.mean(pvalues < 0.1) < 0.2
        # Entries of a row are correlated as those of a Dirichlet; rows are independent.
        s, a = np.argwhere(transitions.sum(-1) > 0)[0]
        t, u = np.argsort(-mean[s, a])[:2]
        odds = mean[s, a] / (1 - mean[s, a])
        found = np.corrcoef(p[:, s, a, t], p[:, s, a, u])[0, 1]
        assert found == pytest.approx(-np.sqrt(odds[t] * odds[u]), abs=5 / np.sqrt(members))
        across_pairs = np.corrcoef(p[..., 3].reshape(members, -1).T)
        assert np.abs(across_pairs - np.eye(24)).max() < 6 / np.sqrt(members)
        across_members = np.corrcoef(uniform[:-1].ravel(), uniform[1:].ravel())[0, 1]
        assert abs(across_members) < 5 / np.sqrt(uniform.size)


@pytest.mark.parametrize(
    ("layout", "alpha0"),
    [(0, 0.01), slow(1, 0.001)],
)
def test_sampled_dynamics_with_a_small_prior_weight_are_distributions(layout, alpha0):
    # The Gamma draws themselves are all 0 in float32.
    data = make_data(2, shape=(4, 2, 4), num_slots=1)
    unseen = data.counts[0] == 0
    assert unseen.any()
    problem, counts = data.layouts[layout]
    p = np.asarray(draw(jax.random.key(6), counts, problem, alpha0, 2000))
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p.sum(-1), 1, atol=1e-5)
    # Nearly all mass on one of the four states, on each as often.
    assert p[:, unseen].max(-1).mean() > 0.9
    frequency = (p[:, unseen] > 0.5).mean(0)
    np.testing.assert_allclose(frequency, 0.25, atol=5 * np.sqrt(0.1875 / 2000))


def test_sampled_rewards_have_the_normal_posterior():
    visits = f32([[0, 1], [4, 1000]])
    reward_sum = f32([[0, 2], [-2, 700]])
    counts = Counts(visits, reward_sum, jnp.zeros((2, 2, 2)))
    members = 20000
    mu0, tau0, tau = 0.5, 2.0, 3.0
    r = np.asarray(sample_rewards(jax.random.key(7), counts, mu0, tau0, tau, members))
    assert r.shape == (members, 2, 2)
    precision = np.array([[2, 5], [14, 3002]])
    mean = np.array([[1, 7], [-5, 2101]]) / precision
    for s, a in np.ndindex(2, 2):
        law = scipy_stats.norm(mean[s, a], precision[s, a] ** -0.5)
        assert kstest(r[:, s, a], law.cdf).pvalue > MIN_PVALUE
    between = np.corrcoef(r.reshape(members, 4).T) - np.eye(4)
    assert np.abs(between).max() < 5 / np.sqrt(members)
