"""Dynamics noise: products drawn along a basis have the law of products with noise vectors."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from agent_data import f32, quick, slow
from scipy.optimize import brentq
from scipy.stats import ks_2samp, kstest

from narl.tabular.noise import (
    as_products,
    from_vectors,
    gaussian_dynamics,
    lazy_products,
    member_dynamics,
    per_stage_products,
    project_to_simplex,
)
from narl.tabular.sampling import normal
from narl.tabular.transitions import Dynamics, dense

# Keys are fixed: a KS test that passes once passes always.
MIN_PVALUE = 1e-3


@functools.partial(quick, static_argnames=("make", "rest"))
def all_stages(make, z, sigma, vectors, rest):
    noise = make(z, sigma, *rest)

    def stage(carry, stage_and_vector):
        product, carry = noise.product(carry, *stage_and_vector)
        return carry, product

    return jax.lax.scan(stage, noise.carry, (jnp.arange(len(vectors)), vectors), reverse=True)[1]


def products(make, z, sigma, vectors, *rest):
    """Return ⟨ξ, v⟩ for the vectors, from the last stage to the first as in planning: [H,M,S,A]."""
    return np.asarray(all_stages(make, z, f32(sigma), f32(vectors), rest))


def vectors_of(kind, num_states=6):
    rng = np.random.default_rng(3)
    v = rng.uniform(0, 3, (4, num_states))
    if kind == "dependent":
        v[2] = 0.5 * v[3]
        v[0] = v[1] - 2 * v[3]
    if kind == "zero":
        v[3] = 0
        v[1] = 0
    if kind == "constant":
        v[2] = 1.5
        v[0] = 0.3
    if kind == "alike":  # as values are a few steps before convergence
        v[1:] = v[0] + 1e-3 * v[1:]
    return v


def centre(vectors, measure):
    return vectors - vectors.mean(-1, keepdims=True) if measure == "centred" else vectors


def assert_covariance(samples, expected, num_samples):
    """Check that every covariance is within five standard errors of its expectation."""
    sample = samples @ samples.T / num_samples
    variances = np.diag(expected)
    error = np.sqrt((np.outer(variances, variances) + expected**2) / num_samples)
    assert (np.abs(sample - expected) <= 5 * error + 1e-6).all()


KINDS = ["general", "dependent", "zero", "constant", "alike"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("measure", ["signed", "centred"])
def test_lazy_products_have_the_covariance_of_vector_products(kind, measure):
    vectors = vectors_of(kind)
    members, num_states, num_actions = 4000, 6, 1
    sigma = np.array([[0.0], [0.5], [1.0], [1.0], [1.0], [2.0]])
    z = normal(jax.random.key(0), (4, members, num_states, num_actions))
    found = products(lazy_products, z, sigma, vectors, num_states, measure)
    assert np.isfinite(found).all()
    centred = centre(vectors, measure)
    gram = centred @ centred.T
    for s in range(num_states):
        assert_covariance(found[:, :, s, 0], sigma[s, 0] ** 2 * gram, members)
    # The pairs are independent of each other (s = 2, 3, 4 have the same σ).
    cross = found[:, :, 2, 0] @ found[:, :, 3, 0].T / members
    scale = np.sqrt(np.outer(np.diag(gram), np.diag(gram)) / members)
    assert (np.abs(cross) <= 5 * scale + 1e-6).all()


@pytest.mark.parametrize("kind", KINDS)
def test_lazy_products_are_linear_in_the_vectors(kind):
    vectors = vectors_of(kind)
    z = normal(jax.random.key(1), (4, 50, 6, 1))
    found = products(lazy_products, z, np.ones((6, 1)), vectors, 6, "signed")
    # Some ξ solves V ξ = products, to rounding.
    flat = found.reshape(4, -1)
    xi, *_ = np.linalg.lstsq(vectors, flat, rcond=1e-6)
    np.testing.assert_allclose(vectors @ xi, flat, atol=2e-4 * np.abs(flat).max())


@pytest.mark.parametrize("measure", ["signed", "centred"])
def test_lazy_products_with_more_stages_than_states(measure):
    vectors = np.random.default_rng(0).uniform(0, 1, (7, 3))
    z = normal(jax.random.key(2), (7, 3000, 3, 1))
    found = products(lazy_products, z, np.ones((3, 1)), vectors, 3, measure)
    centred = centre(vectors, measure)
    assert_covariance(found.reshape(7, -1), centred @ centred.T, 9000)


def test_per_stage_products_are_independent_across_stages():
    vectors = vectors_of("dependent")
    z = normal(jax.random.key(3), (4, 5000, 6, 1))
    for measure in ("signed", "centred"):
        found = products(per_stage_products, z, np.full((6, 1), 0.7), vectors, measure)
        centred = centre(vectors, measure)
        expected = 0.49 * np.diag((centred**2).sum(-1))
        assert_covariance(found.reshape(4, -1), expected, 30000)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("measure", ["signed", "centred"])
def test_products_scale_with_values_whose_squares_overflow(kind, measure):
    vectors = vectors_of(kind)
    z = normal(jax.random.key(6), (4, 20, 6, 1))
    sigma = np.full((6, 1), 0.3)
    for make, rest in ((lazy_products, (6, measure)), (per_stage_products, (measure,))):
        small = products(make, z, sigma, vectors, *rest)
        assert np.abs(small).max() > 0.1
        for size in (1e12, 1e28):
            large = products(make, z, sigma, size * vectors, *rest)
            assert np.isfinite(large).all()
            np.testing.assert_allclose(large / size, small, rtol=0, atol=1e-4 * np.abs(small).max())


def test_lazy_products_of_huge_and_ordinary_values_share_directions():
    vectors = vectors_of("dependent")
    sizes = np.array([1e25, 1e3, 1e18, 1.0])[:, None]
    z = normal(jax.random.key(7), (4, 20, 6, 1))
    found = products(lazy_products, z, np.ones((6, 1)), sizes * vectors, 6, "signed")
    expected = products(lazy_products, z, np.ones((6, 1)), vectors, 6, "signed")
    scaled = found / sizes[..., None, None]
    np.testing.assert_allclose(scaled, expected, rtol=0, atol=1e-3 * np.abs(expected).max())


def instance():
    rng = np.random.default_rng(8)
    p = reference.random_kernel(rng, 12, 2)
    r = rng.uniform(0, 1, (12, 2))
    sigma = rng.uniform(0.02, 0.3, (12, 2))
    return tuple(map(f32, (p, r, np.full(12, 1 / 12), sigma)))


@pytest.mark.parametrize(
    ("measure", "fresh", "horizon"),
    [
        ("signed", False, 4),
        ("centred", False, 20),
        ("signed", True, 4),
        slow("simplex", True, 20),
    ],
)
def test_gaussian_dynamics_have_the_law_of_their_measure(measure, fresh, horizon):
    # S = 12 lies between the two horizons, for which the noise is drawn in different ways.
    p, _, _, sigma = instance()
    p_hat = Dynamics(p, jnp.zeros((12, 2)))
    members = 800
    v = np.random.default_rng(1).uniform(0, 3, 12)

    @quick
    def two_stages(key, sigma, p_hat, v):
        options = {"measure": measure, "fresh": fresh}
        noise = gaussian_dynamics(key, sigma, p_hat, members, horizon, **options)
        product, carry = noise.product(noise.carry, jnp.int32(horizon - 1), v)
        return product, noise.product(carry, jnp.int32(horizon - 2), v)[0]

    product, again = two_stages(jax.random.key(6), sigma, p_hat, f32(v))
    assert product.shape == (members, 12, 2)
    if measure == "simplex":
        xi = (
            np.random.default_rng(2).normal(size=(members, 12, 2, 12))
            * np.asarray(sigma)[..., None]
        )
        expected = (np.asarray(project_to_simplex(f32(np.asarray(p) + xi))) - np.asarray(p)) @ v
        for s, a in [(0, 0), (7, 1)]:
            assert ks_2samp(np.asarray(product)[:, s, a], expected[:, s, a]).pvalue > MIN_PVALUE
        assert (np.asarray(product) <= v.max() - np.asarray(p) @ v + 1e-4).all()
    else:
        length = np.linalg.norm(v - v.mean() if measure == "centred" else v)
        unit = np.asarray(product) / (np.asarray(sigma) * length)
        assert kstest(unit.ravel(), "norm").pvalue > MIN_PVALUE
        correlation = np.corrcoef(unit.reshape(members, -1).T)
        assert np.abs(correlation - np.eye(24)).max() < 6 / np.sqrt(members)
    # The same vector at another stage: the same product, or an independent one with new noise.
    pairs = np.asarray(product)[:, 3, 0], np.asarray(again)[:, 3, 0]
    if fresh:
        assert abs(np.corrcoef(*pairs)[0, 1]) < 0.2
    else:
        np.testing.assert_allclose(*pairs, atol=1e-4)


def test_gaussian_dynamics_take_a_scale_per_member():
    p, _, _, _ = instance()
    p_hat = Dynamics(p, jnp.zeros((12, 2)))
    sigma = np.zeros((5, 12, 2))
    sigma[3, 4] = 1.0

    @functools.partial(quick, static_argnums=0)
    def first_products(horizon, key, sigma):
        noise = gaussian_dynamics(key, sigma, p_hat, 5, horizon)
        return noise.product(noise.carry, jnp.int32(0), jnp.arange(12.0))[0]

    for horizon in (4, 20):
        product = first_products(horizon, jax.random.key(7), f32(sigma))
        assert ((np.asarray(product) != 0) == (sigma != 0)).all()


def test_member_dynamics_replace_the_estimate():
    rng = np.random.default_rng(4)
    members = reference.random_kernel(rng, 5, 2), reference.random_kernel(rng, 5, 2)
    p_hat = Dynamics(f32(reference.random_kernel(rng, 5, 2)), jnp.zeros((5, 2)))
    p_members = Dynamics(f32(np.stack(members)), jnp.zeros((2, 5, 2)))
    noise = member_dynamics(p_members, p_hat, None)
    v = rng.uniform(0, 3, 5)
    product, _ = noise.product(noise.carry, jnp.int32(0), f32(v))
    for m in range(2):
        expected = members[m] @ v - np.asarray(dense(p_hat, 5)) @ v
        np.testing.assert_allclose(product[m], expected, atol=1e-5)
    extra = from_vectors(f32(rng.normal(size=(2, 5, 2, 5))))
    noisy, _ = member_dynamics(p_members, p_hat, extra).product(None, jnp.int32(0), f32(v))
    added, _ = extra.product(None, jnp.int32(0), f32(v))
    np.testing.assert_allclose(noisy, product + added, atol=1e-5)


def test_as_products_accepts_tables_and_none():
    v = jnp.array([1.0, 2.0])
    product, _ = as_products(None, 2).product(None, jnp.int32(0), v)
    assert (np.broadcast_to(product, (3, 2, 4)) == 0).all()
    xi = np.arange(8.0).reshape(2, 2, 1, 2)
    product, _ = as_products(xi, 2).product(None, jnp.int32(0), v)
    np.testing.assert_allclose(product[..., 0], [[2, 8], [14, 20]])
    products_of_xi = from_vectors(f32(xi))
    assert as_products(products_of_xi, 2) is products_of_xi


# --- projection -------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.01, 100.0])
@pytest.mark.parametrize("size", [2, 784])
def test_projection_subtracts_and_cuts(size, scale):
    x = np.random.default_rng(size).normal(size=(4, size)) * scale
    ours = np.asarray(quick(project_to_simplex)(f32(x)))
    assert (ours >= 0).all()
    np.testing.assert_allclose(ours.sum(-1), 1, atol=1e-5 * max(1, scale))
    for row, found in zip(x, ours, strict=True):
        low, high = row.min() - 1, row.max()
        tau = brentq(lambda t, row=row: np.maximum(row - t, 0).sum() - 1, low, high, xtol=1e-13)
        np.testing.assert_allclose(found, np.maximum(row - tau, 0), atol=1e-5 * max(1, scale))
