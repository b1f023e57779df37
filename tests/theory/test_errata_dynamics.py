"""Lemma 7 and Corollary 4: noised dynamics, their anti-concentration and their ℓ1 norm."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from narl import theory
from theory.frequency import agrees, exceeds, is_at_most


def directions(num_states, rng):
    """Value vectors from the hardest (one-hot) to the easiest (constant)."""
    return {
        "one-hot": np.eye(num_states)[0],
        "opposed": np.eye(num_states)[0] - np.eye(num_states)[1],
        "uniform": rng.random(num_states),
        "constant": np.ones(num_states),
    }


@pytest.mark.parametrize("num_states", [2, 6, 20, 100])
def test_tail_of_the_dynamics_does_not_depend_on_the_number_of_states(num_states):
    # β_P = 1 is the unit, σ = 2. Worst allowed gap: ⟨P − P̂, v⟩ = β_P·‖v‖∞.
    rng = np.random.default_rng(num_states)
    xi = 2.0 * rng.standard_normal((50_000, num_states))
    bound = theory.dynamics_anticoncentration(num_states, corrected=True)
    for v in directions(num_states, rng).values():
        optimistic = xi @ v >= np.abs(v).max()
        exact = float(theory.gaussian_tail(np.abs(v).max() / (2 * np.linalg.norm(v))))
        assert agrees(optimistic, exact)
        assert exact >= bound - 1e-12
        assert exact > 5 * theory.dynamics_anticoncentration(num_states)  # 1/(9S): true, but loose
    assert bound == pytest.approx(norm.sf(0.5))


def test_tail_is_larger_still_because_p_and_p_hat_both_sum_to_one():
    # ⟨P − P̂, v⟩ ≤ (β/2)(max v − min v): Φ̄(¼) for v ≥ 0, Φ̄(√2/4) for any v, and also for noise
    # centred to sum to zero.
    rng = np.random.default_rng(0)
    for _ in range(300):
        num_states = int(rng.integers(2, 9))
        v = rng.standard_normal(num_states) * rng.random(num_states) ** 3
        gap = (v.max() - v.min()) / 2
        centred = v - v.mean()
        positive = v - v.min()
        assert gap / (2 * np.linalg.norm(v)) <= math.sqrt(2) / 4 + 1e-12
        assert gap / (2 * np.linalg.norm(centred)) <= math.sqrt(2) / 4 + 1e-12
        assert gap / (2 * np.linalg.norm(positive)) <= 1 / 4 + 1e-12
    xi = 2.0 * rng.standard_normal((200_000, 3))
    xi -= xi.mean(axis=1, keepdims=True)
    v = np.array([1.0, -1.0, 0.0])
    assert agrees(xi @ v >= 1.0, norm.sf(math.sqrt(2) / 4))


def test_failure_of_all_dynamics_members():
    num_states, members = 6, 9
    rng = np.random.default_rng(1)
    v = np.eye(num_states)[0]
    best = (2.0 * rng.standard_normal((100_000, members, num_states)) @ v).max(axis=1)
    fails = best < 1.0
    printed = theory.dynamics_anticoncentration(num_states)
    assert exceeds(fails, theory.failure_probability(members, printed))  # (1/(9S))^M
    assert is_at_most(fails, theory.failure_probability(members, printed, corrected=True))
    assert agrees(fails, theory.failure_probability(members, norm.sf(0.5), corrected=True))


@pytest.mark.parametrize(("tail", "expected"), [("paper", 1058), ("exact", 54)])
def test_corrected_members_p_is_enough_and_printed_is_not(tail, expected):
    delta, dimensions = 1.25e-6, (6, 2, 20)
    allowed = delta / (2 * 6 * 2 * 20)
    probability = {"paper": 1 / 54, "exact": norm.sf(0.5)}[tail]
    members = theory.members_p(delta, *dimensions, corrected=True, tail=tail)
    assert members == expected
    assert theory.failure_probability(members, probability, corrected=True) <= allowed
    assert theory.failure_probability(members - 1, probability, corrected=True) > allowed
    printed = theory.members_p(delta, *dimensions)
    assert theory.failure_probability(printed, probability, corrected=True) > 1e6 * allowed


@pytest.mark.parametrize(("num_states", "frequency"), [(6, 0.048), (20, 0.709), (100, 1.0)])
def test_l1_norm_of_the_noise_exceeds_its_bound(num_states, frequency):
    # A = 2, M_P = 10, δ = .05. Eq. 16 claims at most δ/(SAM): 4e-4, 1.3e-4, 2.5e-5.
    members, delta = 10, 0.05
    arguments = (delta, num_states, 2, members)
    claimed = delta / (num_states * 2 * members)
    rng = np.random.default_rng(num_states)
    norms = 2.0 * np.abs(rng.standard_normal((100_000, num_states))).sum(axis=1)
    printed = norms >= theory.dynamics_radius(*arguments) - 1.0
    assert printed.mean() == pytest.approx(frequency, abs=0.005)
    assert exceeds(printed, claimed)
    assert is_at_most(norms >= theory.dynamics_radius(*arguments, corrected=True) - 1.0, claimed)


def test_sqrt_2_alone_does_not_repair_the_l1_bound():
    # E‖ξ‖₁ = σS√(2/π) grows like S, the printed threshold like √(S log S).
    members, delta, num_states = 10, 0.05, 100
    threshold = math.sqrt(2) * (theory.dynamics_radius(delta, num_states, 2, members) - 1.0)
    norms = 2.0 * np.abs(np.random.default_rng(2).standard_normal((5000, num_states))).sum(axis=1)
    assert norms.mean() == pytest.approx(2 * num_states * math.sqrt(2 / math.pi), rel=0.01)
    assert (norms > threshold).mean() > 0.99


@pytest.mark.parametrize("num_states", [2, 6, 20, 100])
def test_value_radius_holds_without_the_l1_norm(num_states):
    # Corollary 4 in the only direction that is used, at r̂'s counterpart ⟨P̂ − P, v⟩ = β_P·‖v‖∞.
    members, delta = 5, 0.05
    radius = theory.value_radius(delta, num_states, 2, members)
    rng = np.random.default_rng(num_states)
    for v in directions(num_states, rng).values():
        products = rng.standard_normal((100_000, members)) * 2.0 * np.linalg.norm(v)
        gap = np.abs(np.abs(v).max() + products.max(axis=1))
        assert is_at_most(gap >= radius * np.abs(v).max(), delta / (num_states * 2))
    if num_states >= 20:
        assert radius < theory.dynamics_radius(delta, num_states, 2, members, corrected=True)


def test_signed_dynamics_turn_an_inequality_round():
    # L758: Ṽ ≥ V* does not give E_P̃[Ṽ] ≥ E_P̃[V*] when P̃ has a negative entry.
    p_tilde = np.array([1.3, -0.3])
    v_tilde, v_star = np.array([1.0, 3.0]), np.array([1.0, 1.0])
    assert (v_tilde >= v_star).all()
    assert p_tilde @ v_tilde < p_tilde @ v_star
    # With the true P the step is sound.
    rng = np.random.default_rng(3)
    p = rng.dirichlet(np.ones(5), size=1000)
    v_star = rng.random((1000, 5))
    v_tilde = v_star + rng.random((1000, 5))
    assert ((p * v_tilde).sum(1) >= (p * v_star).sum(1)).all()


def test_signed_dynamics_turn_it_round_often_at_the_scales_of_theorem_1():
    n, num_states, num_actions, delta = 100, 6, 2, 0.05
    sigma = float(theory.sigma_p(n, delta, num_states, num_actions))
    rng = np.random.default_rng(4)
    p_tilde = 1 / num_states + sigma * rng.standard_normal((50_000, num_states))
    v_star = np.linspace(0.0, 1.0, num_states)
    v_tilde = v_star + rng.random((50_000, num_states))
    assert ((p_tilde * (v_tilde - v_star)).sum(1) < 0).mean() > 0.2


def optimism_fails(rng, runs, members, fresh):
    """Whether max_m⟨P̂ + ξ^m, Ṽ^{h+1}⟩ < ⟨P, Ṽ^{h+1}⟩ at a state s, two stages from the end.

    s moves to t (reward 1, known) but P̂ says u (reward 0, known), so β_P = 2 and σ = 4. Hence
    V^{H−1} = (0, 1, 0) and Ṽ^{H−2}[s] = max_m ξ^m[t], clipped to [0, 2]; Ṽ^{H−2}[t] = 2.
    """
    xi = 4.0 * rng.standard_normal((runs, members, 2))  # entries s and t; u has value 0
    v_s = xi[:, :, 1].max(axis=1).clip(0.0, 2.0)
    if fresh:
        xi = 4.0 * rng.standard_normal((runs, members, 2))
    best = (xi[:, :, 0] * v_s[:, None] + 2.0 * xi[:, :, 1]).max(axis=1)
    return best < 2.0  # = ⟨P, Ṽ^{H−2}⟩ = V*^{H−3}[s]


@pytest.mark.parametrize("members", [1, 3, 6])
def test_noise_shared_by_the_stages_breaks_the_lemma_and_fresh_noise_does_not(members):
    # Lemma 7 is for a fixed v; here v = Ṽ^{H−2} ≥ 0, for which a member fails with at most Φ(¼).
    rng = np.random.default_rng(5)
    bound = norm.cdf(0.25) ** members
    assert exceeds(optimism_fails(rng, 200_000, members, fresh=False), bound)
    assert is_at_most(optimism_fails(rng, 200_000, members, fresh=True), bound)
