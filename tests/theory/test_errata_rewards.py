"""Lemmas 2, 3 and 6 and Corollaries 1 to 3: the noised reward and the ensemble size M_r."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from narl import theory
from theory.frequency import agrees, exceeds, is_at_most

NUM_STATES, NUM_ACTIONS, HORIZON = 6, 2, 20
PAIRS = NUM_STATES * NUM_ACTIONS
DELTA = 1.25e-6  # ε = .1, K = 1000


def worst_case(rng, runs, members):
    """r̃^m − r for r̂ = r − β_r, the edge of E, and σ = 2β_r; β_r = 1 is the unit."""
    return -1.0 + 2.0 * rng.standard_normal((runs, members))


def test_gaussian_tail_lower_bound_holds():
    rng = np.random.default_rng(0)
    draws = rng.normal(0.0, 1.5, size=400_000)
    for t in (0.2, 1.0, 2.0, 4.0):
        frequency = draws > t
        assert agrees(frequency, float(theory.gaussian_tail(t, 1.5)))
        assert frequency.mean() > float(theory.gaussian_tail_lower_bound(t, 1.5))
    t = np.linspace(0.01, 30.0, 3000)
    assert (theory.gaussian_tail_lower_bound(t) <= theory.gaussian_tail(t)).all()


def test_one_member_is_optimistic_with_the_exact_tail():
    optimistic = worst_case(np.random.default_rng(1), 400_000, 1) >= 0
    assert agrees(optimistic, float(theory.anticoncentration(2.0, corrected=True)))
    assert not is_at_most(optimistic, 0.1)  # Lemma 3's 1/10 is right, and loose


def test_p_of_gamma_is_a_lower_bound():
    gamma = np.linspace(0.2, 20.0, 500)
    printed, exact = (theory.anticoncentration(gamma, corrected=c) for c in (False, True))
    assert (printed <= exact).all()
    assert float(theory.anticoncentration(2.0)) >= 0.1


def test_failure_is_that_no_member_is_optimistic():
    members = 5
    fails = (worst_case(np.random.default_rng(2), 400_000, members) < 0).all(axis=1)
    exact = float(theory.gaussian_tail(0.5))
    assert agrees(fails, theory.failure_probability(members, exact, corrected=True))
    assert is_at_most(fails, theory.failure_probability(members, corrected=True))  # (9/10)^M
    for probability in (0.1, exact):
        assert exceeds(fails, theory.failure_probability(members, probability))  # p^M


def test_printed_members_r_fails_on_riverswim():
    allowed = DELTA / (2 * PAIRS * HORIZON)
    members = theory.members_r(DELTA, NUM_STATES, NUM_ACTIONS, HORIZON)
    fails = (worst_case(np.random.default_rng(3), 200_000, members) < 0).all(axis=1)
    assert members == 7
    assert exceeds(fails, allowed)
    assert agrees(fails, norm.cdf(0.5) ** 7)  # .0756, where 2.6e-9 is allowed


@pytest.mark.parametrize(("tail", "probability"), [("paper", 0.1), ("exact", norm.sf(0.5))])
def test_corrected_members_r_is_enough_and_no_larger_than_needed(tail, probability):
    allowed = DELTA / (2 * PAIRS * HORIZON)
    members = theory.members_r(DELTA, NUM_STATES, NUM_ACTIONS, HORIZON, corrected=True, tail=tail)
    assert theory.failure_probability(members, probability, corrected=True) <= allowed
    assert theory.failure_probability(members - 1, probability, corrected=True) > allowed


def test_members_r_by_simulation_at_a_large_delta():
    # S = A = H = 1 and δ = .02: one pair must be optimistic with probability 1 − .01.
    rng = np.random.default_rng(4)
    sizes = {
        "printed": theory.members_r(0.02, 1, 1, 1),
        "exact": theory.members_r(0.02, 1, 1, 1, corrected=True, tail="exact"),
        "paper": theory.members_r(0.02, 1, 1, 1, corrected=True),
    }
    fails = {name: (worst_case(rng, 100_000, m) < 0).all(axis=1) for name, m in sizes.items()}
    assert sizes == {"printed": 2, "exact": 13, "paper": 44}
    assert exceeds(fails["printed"], 0.01)
    assert is_at_most(fails["exact"], 0.01)
    assert is_at_most(fails["paper"], 0.01)


def test_printed_members_r_does_not_follow_from_the_printed_failure_probability_either():
    # (1/10)^M ≤ 1/x needs log x / log 10, and log 10 = 2.30 < 3.
    allowed = DELTA / (2 * PAIRS * HORIZON)
    members = theory.members_r(DELTA, NUM_STATES, NUM_ACTIONS, HORIZON)
    assert theory.failure_probability(members) > allowed
    assert theory.failure_probability(9) <= allowed


def test_unvisited_pairs_with_unit_noise_need_more_members():
    # r̂ = 0, ξ ~ N(0,1), r = 1: the tail is Φ̄(1), above Lemma 3's 1/10 but below Φ̄(½).
    rng = np.random.default_rng(5)
    optimistic = rng.standard_normal(400_000) >= 1.0
    assert agrees(optimistic, float(theory.gaussian_tail(1.0)))
    assert not is_at_most(optimistic, 0.1)
    assert is_at_most(optimistic, 0.2)
    allowed = DELTA / (2 * PAIRS * HORIZON)
    dimensions = (DELTA, NUM_STATES, NUM_ACTIONS, HORIZON)
    exact = theory.members_r(*dimensions, corrected=True, tail="exact")
    unvisited = theory.members_r(*dimensions, corrected=True, tail="unvisited")
    assert theory.failure_probability(exact, norm.sf(1.0), corrected=True) > allowed
    assert theory.failure_probability(unvisited, norm.sf(1.0), corrected=True) <= allowed
    # The convention N = 0 → 1 (L780) brings Φ̄(½) back: σ_r(0) = 2β_r(1) with β_r(1) > 1 ≥ r.
    sigma = float(theory.sigma_r(0, DELTA, NUM_STATES, NUM_ACTIONS))
    assert float(theory.gaussian_tail(1.0, sigma)) >= float(theory.gaussian_tail(0.5))


def test_distance_of_one_member_lacks_sqrt_2():
    members, delta = 10, 0.05
    claimed = delta / (PAIRS * members)
    noise = np.abs(np.random.default_rng(6).standard_normal(2_000_000)) * 2.0
    printed = theory.estimation_radius(delta, NUM_STATES, NUM_ACTIONS, members) - 1.0
    corrected = theory.estimation_radius(delta, NUM_STATES, NUM_ACTIONS, members, corrected=True)
    assert exceeds(noise >= printed, claimed)  # .0025 against .0004
    assert is_at_most(noise >= corrected - 1.0, claimed)


@pytest.mark.parametrize("edge", [-1.0, 1.0])
def test_distance_of_the_largest_member_lacks_sqrt_2(edge):
    members, delta = 10, 0.05
    arguments = (delta, NUM_STATES, NUM_ACTIONS, members)
    rng = np.random.default_rng(7)
    gap = np.abs(edge + 2.0 * rng.standard_normal((400_000, members)).max(axis=1))
    corrected = gap >= theory.estimation_radius(*arguments, corrected=True)
    assert is_at_most(corrected, delta / PAIRS)
    if edge > 0:  # r̂ = r + β_r, the worst case
        assert exceeds(gap >= theory.estimation_radius(*arguments), delta / PAIRS)


@pytest.mark.parametrize(("members", "times"), [(7, 709), (10, 840)])
def test_sqrt_2_is_missing_by_orders_of_magnitude_at_small_delta(members, times):
    claimed = DELTA / (PAIRS * members)
    arguments = (DELTA, NUM_STATES, NUM_ACTIONS, members)
    printed, corrected = (
        2 * norm.sf((theory.estimation_radius(*arguments, corrected=c) - 1.0) / 2.0)
        for c in (False, True)
    )
    assert printed == pytest.approx(times * claimed, rel=1e-3)
    assert corrected <= claimed


def test_term_b_forgets_the_noise():
    # L836 bounds r̃ − r on E by √2·β_r(N, δ). But r̃ is a maximum of M_r draws of σ = 2β_r(N, δ').
    n, delta = 100, 0.05
    members = theory.members_r(delta, NUM_STATES, NUM_ACTIONS, HORIZON)
    beta = float(theory.beta_r(n, delta / (2 * PAIRS)))
    rng = np.random.default_rng(8)
    gap = beta * 2.0 * rng.standard_normal((200_000, members)).max(axis=1)  # r̂ = r
    assert (gap > math.sqrt(2.0) * float(theory.beta_r(n, delta))).mean() > 0.5
    radius = theory.estimation_radius(delta, NUM_STATES, NUM_ACTIONS, members, corrected=True)
    assert is_at_most(gap > radius * beta, delta / PAIRS)
