"""Eq. 1: regret = optimism + estimation error."""

import numpy as np

from narl.decomposition import decompose


def test_decompose_by_hand():
    # V* = 3; the agent estimates 5, then 2; its policies are worth 1, then 3.
    terms = decompose(3.0, [5.0, 2.0], [1.0, 3.0])
    np.testing.assert_array_equal(terms.regret, [2, 0])
    np.testing.assert_array_equal(terms.optimism, [-2, 1])
    np.testing.assert_array_equal(terms.estimation_error, [4, -1])


def test_cumulative_sums_run_over_episodes():
    value, policy_value = np.array([[4.0, 2.0, 1.0], [0.0, 0.0, 7.0]]), np.ones((2, 3))
    total = decompose(3.0, value, policy_value).cumulative()
    np.testing.assert_array_equal(total.regret, [[2, 4, 6], [2, 4, 6]])
    np.testing.assert_array_equal(total.optimism, [[-1, 0, 2], [3, 6, 2]])
    np.testing.assert_array_equal(total.estimation_error, [[3, 4, 4], [-1, -2, 4]])


def test_decompose_computes_in_float64():
    rng = np.random.default_rng(0)
    value = rng.normal(size=1000).astype(np.float32) * 100
    policy_value = rng.random(1000).astype(np.float32)
    terms = decompose(np.float32(0.99), value, policy_value)
    assert all(term.dtype == np.float64 for term in terms)
    np.testing.assert_allclose(terms.optimism + terms.estimation_error, terms.regret, atol=1e-13)


def test_decompose_does_not_change_inputs():
    value, policy_value = np.array([5.0, 2.0]), np.array([1.0, 3.0])
    decompose(3.0, value, policy_value).cumulative()
    np.testing.assert_array_equal(value, [5, 2])
    np.testing.assert_array_equal(policy_value, [1, 3])
