"""Appendix B: the sums over visits behind the regret bound of Theorem 1."""

import math

import numpy as np
import pytest


def sum_over_episodes(visits):
    """Σ_k n_k/√max(1, N_k): counts are those of the beginning of the episode."""
    before = np.concatenate([[0], np.cumsum(visits)[:-1]])
    return (visits / np.sqrt(np.maximum(before, 1))).sum()


def sum_over_visits(visits):
    """Σ_ℓ 1/√ℓ + 1, as if the count grew at every visit (L845)."""
    return (1 / np.sqrt(np.arange(1, visits.sum() + 1))).sum() + 1


def test_counts_do_not_grow_within_an_episode():
    horizon = 20
    first_episode = np.array([horizon])
    assert sum_over_episodes(first_episode) == pytest.approx(20.0)
    assert sum_over_visits(first_episode) == pytest.approx(8.595, abs=1e-3)
    assert sum_over_episodes(first_episode) > 2 * sum_over_visits(first_episode)


def test_sum_over_episodes_has_a_bound_of_the_same_order():
    # Episodes with N_k < H hold at most 2H visits, each at most 1. Afterwards n_k ≤ N_k, so
    # n_k/√N_k ≤ √2·n_k/√(N_k+n_k) ≤ 2√2·(√N_{k+1} − √N_k).
    rng = np.random.default_rng(0)
    for _ in range(500):
        horizon = int(rng.integers(1, 40))
        sizes = rng.integers(0, horizon + 1, size=int(rng.integers(1, 300)))
        visits = sizes * (rng.random(sizes.size) < rng.random())
        bound = 2 * horizon + 2 * math.sqrt(2 * visits.sum())
        assert sum_over_episodes(visits) <= bound


def test_lower_order_term_is_a_sum_of_roots_not_a_harmonic_sum():
    # L974: Σ_{ℓ ≤ S²H²} 1/ℓ ≈ SH. That sum is logarithmic; with the 1/√ℓ of Δ it is 2SH.
    size = 6 * 20
    visits = np.arange(1, size**2 + 1)
    assert (1 / visits).sum() == pytest.approx(2 * math.log(size) + 0.577, abs=0.01)
    assert (1 / visits).sum() < 0.1 * size
    assert (1 / np.sqrt(visits)).sum() == pytest.approx(2 * size, rel=0.01)


def test_cap_at_one_is_owed_to_the_clip_and_not_to_the_distance():
    # L926 has ‖P̃ − P‖₁ ≤ min(C/√N, 1). Two distributions can be 2 apart, a signed P̃ further.
    assert np.abs(np.array([1.0, 0.0]) - np.array([0.0, 1.0])).sum() == 2.0
    # With Ṽ clipped to [0, H−h] the recursion of Eq. 21 holds with the cap, for any signed P̃.
    rng = np.random.default_rng(1)
    num_states, capped = 4, 0
    for _ in range(2000):
        steps_to_go = int(rng.integers(1, 10))
        p = rng.dirichlet(np.ones(num_states))
        p_tilde = p + rng.choice([0.01, 0.1, 1.0]) * rng.standard_normal(num_states)
        r_tilde = rng.random()
        v_tilde, v_hat = rng.random((2, num_states)) * (steps_to_go - 1)
        left = np.clip(r_tilde + p_tilde @ v_tilde, 0.0, steps_to_go) - (r_tilde + p @ v_hat)
        distance = np.abs(p_tilde - p).sum()
        capped += distance > 1
        assert left <= p @ (v_tilde - v_hat) + min(distance, 1.0) * steps_to_go + 1e-12
    assert capped > 200
