"""§3.3.1 and Theorem 3: the bootstrap with fake rewards."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.stats import norm

from narl import theory
from narl.tabular import random_mdp, solve
from theory.frequency import agrees, exceeds, is_at_most

# RiverSwim at paper scale
NUM_STATES, NUM_ACTIONS, HORIZON, NUM_STEPS, DELTA = 6, 2, 20, 20_000, 1.25e-6
DIMENSIONS = (DELTA, NUM_STATES, NUM_ACTIONS, HORIZON, NUM_STEPS)
R = 0.8


def bootstrap_means(rng, shape, n, num_pairs):
    """Means over a Bernoulli(½) mask of n rewards R and M_B(n+1) fakes of either sign."""
    real = rng.binomial(n, 0.5, size=shape)
    plus = rng.binomial(num_pairs * (n + 1), 0.5, size=shape)
    minus = rng.binomial(num_pairs * (n + 1), 0.5, size=shape)
    return (R * real + plus - minus) / (real + plus + minus)


def test_fakes_shrink_the_mean_for_good():
    num_pairs = theory.fake_pairs(*DIMENSIONS)
    rng = np.random.default_rng(0)
    for n in (10, 1000, 100_000):
        means = bootstrap_means(rng, 20_000, n, num_pairs)
        shrunk = R * float(theory.fake_reward_shrinkage(num_pairs, n))
        assert abs(means.mean() - shrunk) <= 5 * means.std() / math.sqrt(means.size)
    assert shrunk == pytest.approx(R / (1 + 2 * num_pairs), rel=1e-4)
    assert shrunk < 0.0026 * R  # 1/399 of the reward is left


def test_common_factor_leaves_the_greedy_policy_unchanged():
    mdp = random_mdp(6, 3, horizon=5, seed=1)
    share = float(theory.fake_reward_shrinkage(199))
    assert share == pytest.approx(1 / 399)
    shrunk = dataclasses.replace(mdp, r=share * mdp.r)
    before, after = solve(mdp), solve(shrunk)
    np.testing.assert_array_equal(before.q_star.argmax(-1), after.q_star.argmax(-1))
    np.testing.assert_allclose(after.q_star, share * before.q_star)


@pytest.mark.parametrize("members", [7, 54, 188])
def test_bootstrap_with_fakes_is_not_optimistic_until_rescaled(members):
    num_pairs, n = theory.fake_pairs(*DIMENSIONS), 100
    means = bootstrap_means(np.random.default_rng(1), (5000, members), n, num_pairs)
    fails = means.max(axis=1) < R
    assert exceeds(fails, norm.cdf(0.5) ** members)
    assert fails.all()
    rescaled = means / float(theory.fake_reward_shrinkage(num_pairs, n))
    assert is_at_most(rescaled.max(axis=1) < R, 0.51**members)


def test_rescaled_bootstrap_is_centred_with_known_spread():
    num_pairs, n = theory.fake_pairs(*DIMENSIONS), 400
    means = bootstrap_means(np.random.default_rng(2), 100_000, n, num_pairs)
    rescaled = means / float(theory.fake_reward_shrinkage(num_pairs, n))
    assert abs(rescaled.mean() - R) <= 5 * rescaled.std() / math.sqrt(rescaled.size)
    assert rescaled.std() == pytest.approx(math.sqrt(2 * num_pairs / n), rel=0.02)


def test_number_of_fakes_is_too_small_for_ucbvi():
    # To stand in for Theorem 2's noise a member must reach r̂ + Hβ_r with probability 1/10.
    n = 2000
    radius = HORIZON * float(theory.beta_r(n, DELTA / (2 * NUM_STATES * NUM_ACTIONS * HORIZON)))
    rng = np.random.default_rng(3)
    reached = {}
    for corrected in (False, True):
        num_pairs = theory.fake_pairs(*DIMENSIONS, corrected=corrected)
        means = bootstrap_means(rng, 100_000, n, num_pairs)
        rescaled = means / float(theory.fake_reward_shrinkage(num_pairs, n))
        reached[corrected] = rescaled >= R + radius
    assert not reached[False].any()  # 4e-7 each by the normal approximation
    assert not is_at_most(reached[True], 0.1)
    assert reached[True].mean() > norm.sf(0.5)


def test_mask_can_be_empty():
    # Σx_i = 0 leaves 0/0; with a buffer of n rewards it has probability 2^−n.
    rng = np.random.default_rng(4)
    for n in (1, 2, 5):
        empty = (rng.random((200_000, n)) < 0.5).sum(axis=1) == 0
        assert agrees(empty, 2.0**-n)


def test_mask_and_sampling_with_replacement_are_different_noise():
    # Half of the data with replacement has √2 times the spread of the Bernoulli(½) mask.
    rng = np.random.default_rng(5)
    rewards = rng.standard_normal(200)
    mask = rng.random((20_000, 200)) < 0.5
    masked = (mask @ rewards) / mask.sum(axis=1)
    drawn = rng.choice(rewards, size=(20_000, 100)).mean(axis=1)
    assert masked.std() == pytest.approx(rewards.std() / math.sqrt(200), rel=0.03)
    assert drawn.std() == pytest.approx(math.sqrt(2) * masked.std(), rel=0.03)
