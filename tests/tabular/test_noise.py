"""Dynamics noise: what is revealed along a basis is what the vectors themselves would give."""

import functools

import brute
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from layouts import f32, quick, slow
from scipy.optimize import brentq, minimize
from scipy.stats import ks_2samp, kstest, norm

from narl.tabular.noise import (
    Noise,
    as_reveal,
    gaussian_dynamics,
    member_dynamics,
    per_stage,
    plain,
    project_to_simplex,
    revealed,
)
from narl.tabular.planning import naevi
from narl.tabular.sampling import normal
from narl.tabular.transitions import Dynamics, dense

# A KS test with a fixed key either holds for good or not; 1e-3 leaves room for one bad draw.
LEAST_P = 1e-3


@functools.partial(quick, static_argnames=("make", "rest"))
def all_stages(make, z, sigma, vectors, rest):
    reveal = make(z, sigma, *rest)

    def stage(carry, now):
        inner, carry = reveal.inner(carry, *now)
        return carry, inner

    return jax.lax.scan(stage, reveal.carry, (jnp.arange(len(vectors)), vectors), reverse=True)[1]


def products(make, z, sigma, vectors, *rest):
    """⟨ξ, v⟩ for the vectors, met from the last stage to the first as planning does: [H,M,S,A]."""
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


def assert_covariance(found, expected, num_samples):
    """Every entry within five standard errors of a Gaussian sample covariance."""
    sample = found @ found.T / num_samples
    variances = np.diag(expected)
    error = np.sqrt((np.outer(variances, variances) + expected**2) / num_samples)
    assert (np.abs(sample - expected) <= 5 * error + 1e-6).all()


KINDS = ["general", "dependent", "zero", "constant", "alike"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("measure", ["signed", "centred"])
def test_revealed_products_have_the_covariance_of_the_plain_ones(kind, measure):
    vectors = vectors_of(kind)
    members, num_states, num_actions = 4000, 6, 1
    sigma = np.array([[0.0], [0.5], [1.0], [1.0], [1.0], [2.0]])
    z = normal(jax.random.key(0), (4, members, num_states, num_actions))
    found = products(revealed, z, sigma, vectors, num_states, measure)
    assert np.isfinite(found).all()
    centred = vectors - vectors.mean(-1, keepdims=True) if measure == "centred" else vectors
    gram = centred @ centred.T
    for s in range(num_states):
        assert_covariance(found[:, :, s, 0], sigma[s, 0] ** 2 * gram, members)
    # The pairs are independent of each other (s = 2, 3, 4 have the same σ).
    cross = found[:, :, 2, 0] @ found[:, :, 3, 0].T / members
    scale = np.sqrt(np.outer(np.diag(gram), np.diag(gram)) / members)
    assert (np.abs(cross) <= 5 * scale + 1e-6).all()


@pytest.mark.parametrize("kind", KINDS)
def test_revealed_products_are_linear_in_the_vectors(kind):
    """The products are those of one vector ξ: linear relations among the v carry over."""
    vectors = vectors_of(kind)
    z = normal(jax.random.key(1), (4, 50, 6, 1))
    found = products(revealed, z, np.ones((6, 1)), vectors, 6, "signed")
    # Some ξ solves V ξ = products, to rounding.
    flat = found.reshape(4, -1)
    xi, *_ = np.linalg.lstsq(vectors, flat, rcond=1e-6)
    np.testing.assert_allclose(vectors @ xi, flat, atol=2e-4 * np.abs(flat).max())


@pytest.mark.parametrize("measure", [slow("signed"), "centred"])
def test_more_stages_than_states(measure):
    vectors = np.random.default_rng(0).uniform(0, 1, (7, 3))
    z = normal(jax.random.key(2), (7, 3000, 3, 1))
    found = products(revealed, z, np.ones((3, 1)), vectors, 3, measure)
    centred = vectors - vectors.mean(-1, keepdims=True) if measure == "centred" else vectors
    assert_covariance(found.reshape(7, -1), centred @ centred.T, 9000)


def test_per_stage_products_are_independent_across_stages():
    vectors = vectors_of("dependent")
    z = normal(jax.random.key(3), (4, 5000, 6, 1))
    for measure in ("signed", "centred"):
        found = products(per_stage, z, np.full((6, 1), 0.7), vectors, measure)
        centred = vectors - vectors.mean(-1, keepdims=True) if measure == "centred" else vectors
        expected = 0.49 * np.diag((centred**2).sum(-1))
        assert_covariance(found.reshape(4, -1), expected, 30000)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("measure", ["signed", "centred"])
@pytest.mark.parametrize("size", [1e12, 1e15, 1e28])
def test_values_whose_squares_overflow_are_scaled_and_put_back(kind, measure, size):
    """Without a clip values reach 1e30: the products of size·v are size times those of v."""
    vectors = vectors_of(kind)
    z = normal(jax.random.key(6), (4, 20, 6, 1))
    sigma = np.full((6, 1), 0.3)
    for make, rest in ((revealed, (6, measure)), (per_stage, (measure,))):
        small = products(make, z, sigma, vectors, *rest)
        large = products(make, z, sigma, size * vectors, *rest)
        assert np.isfinite(large).all()
        assert np.abs(small).max() > 0.1
        np.testing.assert_allclose(large / size, small, rtol=0, atol=1e-4 * np.abs(small).max())


def test_huge_and_ordinary_values_in_one_plan():
    """The directions met before stay in use, whatever the size of the values after them."""
    vectors = vectors_of("dependent")
    sizes = np.array([1e25, 1e3, 1e18, 1.0])[:, None]
    z = normal(jax.random.key(7), (4, 20, 6, 1))
    found = products(revealed, z, np.ones((6, 1)), sizes * vectors, 6, "signed")
    expected = products(revealed, z, np.ones((6, 1)), vectors, 6, "signed")
    scaled = found / sizes[..., None, None]
    np.testing.assert_allclose(scaled, expected, rtol=0, atol=1e-3 * np.abs(expected).max())


def test_the_maximum_over_members_has_its_distribution():
    vectors = np.random.default_rng(5).uniform(0, 3, (2, 1000))
    z = normal(jax.random.key(4), (2, 5, 1000, 2))
    found = products(revealed, z, np.full((1000, 2), 0.5), vectors, 1000, "signed")
    for inner, v in zip(found, vectors, strict=True):
        best = inner.max(0).ravel() / (0.5 * np.linalg.norm(v))
        assert kstest(best, lambda x: norm.cdf(x) ** 5).pvalue > LEAST_P


def plans(dynamics_of, instance, keys, clip):
    """Ṽ and Q̃^0 of NAEVI over many keys."""
    p, r, p0, sigma = instance
    xi_r = jnp.zeros((1, *r.shape))

    @quick
    @jax.vmap
    def plan(key):
        noise = Noise(xi_r, dynamics_of(key, sigma))
        return naevi(p, r, noise, p0, 4, clip=clip, clip_reward=False)

    result = plan(keys)
    return np.asarray(result.value), np.asarray(result.q)


def instance():
    rng = np.random.default_rng(8)
    p = brute.random_kernel(rng, 12, 2)
    r = rng.uniform(0, 1, (12, 2))
    sigma = rng.uniform(0.02, 0.3, (12, 2))
    return tuple(map(f32, (p, r, np.full(12, 1 / 12), sigma)))


@pytest.mark.parametrize(
    ("measure", "clip"),
    [
        ("signed", "none"),
        slow("signed", "horizon"),
        slow("centred", "none"),
        slow("centred", "horizon"),
    ],
)
def test_planning_with_revealed_noise_is_planning_with_plain_noise(measure, clip):
    shape = (3, 12, 2)

    def by_plain(key, sigma):
        return plain(normal(key, (*shape, 12)) * sigma[..., None], measure)

    def by_reveal(key, sigma):
        return revealed(normal(key, (4, *shape)), sigma, 12, measure)

    key_plain, key_revealed = jax.random.split(jax.random.key(5))
    one = plans(by_plain, instance(), jax.random.split(key_plain, 4000), clip)
    two = plans(by_reveal, instance(), jax.random.split(key_revealed, 4000), clip)
    assert ks_2samp(one[0], two[0]).pvalue > LEAST_P
    for h, s, a in [(0, 0, 0), (0, 5, 1), (1, 3, 0), (2, 11, 1)]:
        assert ks_2samp(one[1][:, h, s, a], two[1][:, h, s, a]).pvalue > LEAST_P
    # Shared noise ties the stages together: their correlation is part of the distribution.
    both = [np.corrcoef(q[:, 0, 2, 0], q[:, 1, 2, 0])[0, 1] for q in (one[1], two[1])]
    assert abs(both[0] - both[1]) < 0.08
    assert both[0] > 0.3


@pytest.mark.parametrize(
    ("measure", "fresh", "horizon"),
    [
        ("signed", False, 4),
        slow("signed", False, 20),
        slow("centred", False, 4),
        ("centred", False, 20),
        ("signed", True, 4),
        slow("centred", True, 20),
        slow("simplex", False, 4),
        ("simplex", True, 20),
    ],
)
def test_gaussian_dynamics_draws_what_it_says(measure, fresh, horizon):
    """Whichever way it takes (S = 12 on either side of H), the first product has its law."""
    p, _, _, sigma = instance()
    p_hat = Dynamics(p, jnp.zeros((12, 2)))
    members = 800
    v = np.random.default_rng(1).uniform(0, 3, 12)

    @quick
    def two_stages(key, sigma, p_hat, v):
        options = {"measure": measure, "fresh": fresh}
        reveal = gaussian_dynamics(key, sigma, p_hat, members, horizon, **options)
        inner, carry = reveal.inner(reveal.carry, jnp.int32(horizon - 1), v)
        return inner, reveal.inner(carry, jnp.int32(horizon - 2), v)[0]

    inner, again = two_stages(jax.random.key(6), sigma, p_hat, f32(v))
    assert inner.shape == (members, 12, 2)
    if measure == "simplex":
        xi = (
            np.random.default_rng(2).normal(size=(members, 12, 2, 12))
            * np.asarray(sigma)[..., None]
        )
        expected = (np.asarray(project_to_simplex(f32(np.asarray(p) + xi))) - np.asarray(p)) @ v
        for s, a in [(0, 0), (7, 1)]:
            assert ks_2samp(np.asarray(inner)[:, s, a], expected[:, s, a]).pvalue > LEAST_P
        assert (np.asarray(inner) <= v.max() - np.asarray(p) @ v + 1e-4).all()
    else:
        length = np.linalg.norm(v - v.mean() if measure == "centred" else v)
        unit = np.asarray(inner) / (np.asarray(sigma) * length)
        assert kstest(unit.ravel(), "norm").pvalue > LEAST_P
        correlation = np.corrcoef(unit.reshape(members, -1).T)
        assert np.abs(correlation - np.eye(24)).max() < 6 / np.sqrt(members)
    # The same vector at another stage: the same product, or with fresh noise an unrelated one.
    pairs = np.asarray(inner)[:, 3, 0], np.asarray(again)[:, 3, 0]
    if fresh:
        assert abs(np.corrcoef(*pairs)[0, 1]) < 0.2
    else:
        np.testing.assert_allclose(*pairs, atol=1e-4)


def test_gaussian_dynamics_takes_a_scale_per_member():
    p, _, _, _ = instance()
    p_hat = Dynamics(p, jnp.zeros((12, 2)))
    sigma = np.zeros((5, 12, 2))
    sigma[3, 4] = 1.0

    @functools.partial(quick, static_argnums=0)
    def first_products(horizon, key, sigma):
        reveal = gaussian_dynamics(key, sigma, p_hat, 5, horizon)
        return reveal.inner(reveal.carry, jnp.int32(0), jnp.arange(12.0))[0]

    for horizon in (4, 20):
        inner = first_products(horizon, jax.random.key(7), f32(sigma))
        assert ((np.asarray(inner) != 0) == (sigma != 0)).all()


def test_member_dynamics_replaces_the_estimate():
    rng = np.random.default_rng(4)
    members = brute.random_kernel(rng, 5, 2), brute.random_kernel(rng, 5, 2)
    p_hat = Dynamics(f32(brute.random_kernel(rng, 5, 2)), jnp.zeros((5, 2)))
    p_members = Dynamics(f32(np.stack(members)), jnp.zeros((2, 5, 2)))
    reveal = member_dynamics(p_members, p_hat, None)
    v = rng.uniform(0, 3, 5)
    inner, _ = reveal.inner(reveal.carry, jnp.int32(0), f32(v))
    for m in range(2):
        expected = members[m] @ v - np.asarray(dense(p_hat, 5)) @ v
        np.testing.assert_allclose(inner[m], expected, atol=1e-5)
    extra = plain(f32(rng.normal(size=(2, 5, 2, 5))))
    noisy, _ = member_dynamics(p_members, p_hat, extra).inner(None, jnp.int32(0), f32(v))
    noise, _ = extra.inner(None, jnp.int32(0), f32(v))
    np.testing.assert_allclose(noisy, inner + noise, atol=1e-5)


def test_tables_and_none_are_reveals_too():
    v = jnp.array([1.0, 2.0])
    nothing, _ = as_reveal(None, 2).inner(None, jnp.int32(0), v)
    assert (np.broadcast_to(nothing, (3, 2, 4)) == 0).all()
    xi = np.arange(8.0).reshape(2, 2, 1, 2)
    inner, _ = as_reveal(xi, 2).inner(None, jnp.int32(0), v)
    np.testing.assert_allclose(inner[..., 0], [[2, 8], [14, 20]])
    reveal = plain(f32(xi))
    assert as_reveal(reveal, 2) is reveal


# --- projection -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "nearest"),
    [
        ([0.2, 0.3, 0.5], [0.2, 0.3, 0.5]),
        ([2.0, 0.0, 0.0], [1.0, 0.0, 0.0]),
        ([0.0, 0.0, 0.0], [1 / 3, 1 / 3, 1 / 3]),
        ([-5.0, -5.0, -5.0], [1 / 3, 1 / 3, 1 / 3]),
        ([1.0, 1.0, 0.0], [0.5, 0.5, 0.0]),
        ([0.9, 0.5, -3.0], [0.7, 0.3, 0.0]),
        ([7.0], [1.0]),
    ],
)
def test_projection_by_hand(x, nearest):
    np.testing.assert_allclose(quick(project_to_simplex)(f32(x)), nearest, atol=1e-6)


def test_projection_solves_its_quadratic_program():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6, 5))
    ours = np.asarray(quick(project_to_simplex)(f32(x)))
    for row, found in zip(x, ours, strict=True):
        program = minimize(
            lambda y, row=row: ((y - row) ** 2).sum(),
            np.full(5, 0.2),
            jac=lambda y, row=row: 2 * (y - row),
            bounds=[(0, None)] * 5,
            constraints={"type": "eq", "fun": lambda y: y.sum() - 1},
            options={"ftol": 1e-12},
        )
        np.testing.assert_allclose(found, program.x, atol=1e-4)


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("size", [slow(1), slow(2), slow(12), 784])
def test_projection_is_a_shift_and_a_cut(size, scale):
    x = np.random.default_rng(size).normal(size=(4, size)) * scale
    ours = np.asarray(quick(project_to_simplex)(f32(x)))
    assert (ours >= 0).all()
    np.testing.assert_allclose(ours.sum(-1), 1, atol=1e-5 * max(1, scale))
    for row, found in zip(x, ours, strict=True):
        low, high = row.min() - 1, row.max()
        tau = brentq(lambda t, row=row: np.maximum(row - t, 0).sum() - 1, low, high, xtol=1e-13)
        np.testing.assert_allclose(found, np.maximum(row - tau, 0), atol=1e-5 * max(1, scale))
