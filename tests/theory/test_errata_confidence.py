"""Lemma 1 / Lemma 4: what the radii β_r and β_P cover, and what they do not."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from narl import theory
from theory.frequency import exceeds, is_at_most

COUNTS = np.arange(1, 1501)
DELTA = 0.05


def deviations(samples):
    """|mean of the first n samples| for every n, one row per run."""
    return np.abs(samples.cumsum(axis=1)) / COUNTS


def test_beta_r_covers_bounded_rewards_for_all_counts_at_once():
    rng = np.random.default_rng(0)
    errors = deviations((rng.random((4000, COUNTS.size)) < 0.5) - 0.5)
    left = (errors >= np.asarray(theory.beta_r(COUNTS, DELTA))).any(axis=1)
    assert is_at_most(left, DELTA)


def test_beta_p_covers_the_dynamics_for_all_counts_at_once():
    rng = np.random.default_rng(1)
    p = np.array([0.4, 0.3, 0.2, 0.1])
    states = rng.choice(4, size=(1000, COUNTS.size), p=p)
    visits = (states[..., None] == np.arange(4)).cumsum(axis=1)
    errors = np.abs(visits / COUNTS[:, None] - p).sum(axis=-1)
    left = (errors >= np.asarray(theory.beta_p(COUNTS, DELTA, 4))).any(axis=1)
    assert is_at_most(left, DELTA)


def test_beta_r_is_too_small_for_sub_gaussian_rewards():
    rng = np.random.default_rng(2)
    errors = deviations(rng.standard_normal((4000, COUNTS.size)))
    printed = (errors >= np.asarray(theory.beta_r(COUNTS, DELTA))).any(axis=1)
    corrected = (errors >= np.asarray(theory.beta_r(COUNTS, DELTA, corrected=True))).any(axis=1)
    assert exceeds(printed, DELTA)
    assert printed.mean() > 0.2
    assert is_at_most(corrected, DELTA)


def test_beta_r_lacks_sqrt_2_even_for_one_fixed_count():
    # N(0,1) rewards, n = 1, δ' = .001: exact probabilities, no sampling.
    radius = float(theory.beta_r(1, 0.001))
    assert 2 * norm.sf(radius) > 4.8 * 0.001
    assert 2 * norm.sf(math.sqrt(2) * radius) <= 0.001
    large = np.array([10, 1000, 100_000])
    gain = np.asarray(theory.beta_r(large, 0.001, corrected=True) / theory.beta_r(large, 0.001))
    np.testing.assert_allclose(gain, np.sqrt(2 * (1 + 1 / large)), rtol=1e-6)
    # The mixture bound has no 2 in its logarithm: √2·β_r covers it from n = 27 on in the example.
    n, delta = np.arange(1.0, 2000), 1.25e-6 / 24
    mixture = np.sqrt(2 * (1 + 1 / n) * np.log(np.sqrt(n + 1) / delta) / n)
    covered = math.sqrt(2) * np.asarray(theory.beta_r(n, delta)) >= mixture
    np.testing.assert_array_equal(covered, n >= 27)


def test_lemma_1_says_for_all_where_it_needs_for_some():
    # A radius far too small satisfies the printed "P(∀n: error ≥ radius) ≤ δ", yet the event E,
    # in which every error is below the radius, never happens. With β_r it does.
    rng = np.random.default_rng(3)
    errors = deviations((rng.random((2000, COUNTS.size)) < 0.5) - 0.5)
    outside = errors >= 0.01 / np.sqrt(COUNTS)
    assert is_at_most(outside.all(axis=1), DELTA)
    assert exceeds(outside.any(axis=1), DELTA)
    assert outside.any(axis=1).mean() > 0.99
    assert is_at_most((errors >= np.asarray(theory.beta_r(COUNTS, DELTA))).any(axis=1), DELTA)


def test_dynamics_radius_of_theorem_1_is_not_the_one_of_event_e():
    # P̂ on the edge of E, at distance β_P(N, δ/(2SA)), is outside the printed β_P(N, δ/(SA)).
    n, num_states, num_actions = 1000, 2, 2
    pairs = num_states * num_actions
    edge = float(theory.beta_p(n, DELTA / (2 * pairs), num_states))
    p = np.array([0.5, 0.5])
    p_hat = p + np.array([edge, -edge]) / 2
    assert p_hat.min() > 0
    distance = np.abs(p_hat - p).sum()
    printed = float(theory.sigma_p(n, DELTA, num_states, num_actions)) / 2
    corrected = float(theory.sigma_p(n, DELTA, num_states, num_actions, corrected=True)) / 2
    assert distance > printed * 1.01
    assert distance == pytest.approx(corrected, rel=1e-6)
