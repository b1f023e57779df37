"""Lemma 9 and Theorem 2: reward noise that stands in for UCBVI's bonus."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from narl import theory
from theory.frequency import agrees, exceeds, is_at_most

# RiverSwim at paper scale
NUM_STATES, NUM_ACTIONS, HORIZON, NUM_EPISODES, DELTA = 6, 2, 20, 1000, 1.25e-6
PAIRS = NUM_STATES * NUM_ACTIONS
DIMENSIONS = (DELTA, NUM_STATES, NUM_ACTIONS, HORIZON, NUM_EPISODES)


@pytest.mark.parametrize(
    ("n", "exponent"), [(1, -115.7), (100, -104.4), (10_000, -93.7), (20_000, -92.3)]
)
def test_lemma_9_is_false(n, exponent):
    # It claims 1/10. Exactly, at r̂ = r − β_r:
    bonus = float(theory.ucbvi_bonus(n, *DIMENSIONS))
    beta = float(theory.beta_r(n, DELTA / (2 * PAIRS)))
    printed = float(theory.sigma_bonus(n, *DIMENSIONS))
    assert norm.logsf((bonus + beta) / printed) / math.log(10) == pytest.approx(exponent, abs=0.1)
    # Nor does a lucky r̂ = r + β_r help.
    assert norm.sf((bonus - beta) / printed) < 1e-70


def test_lemma_9_holds_with_the_corrected_scale_and_no_smaller_one():
    n = 100
    bonus = float(theory.ucbvi_bonus(n, *DIMENSIONS))
    beta = float(theory.beta_r(n, DELTA / (2 * PAIRS)))
    sigma = float(theory.sigma_bonus(n, *DIMENSIONS, corrected=True))
    noise = np.random.default_rng(0).standard_normal(400_000)
    assert agrees(-beta + sigma * noise >= bonus, 0.1)
    assert not agrees(-beta + 0.95 * sigma * noise >= bonus, 0.1)
    assert sigma / float(theory.sigma_bonus(n, *DIMENSIONS)) == pytest.approx(16.97, abs=0.01)


def backups(rng, runs, n, gaussian):
    """Means of n samples of r_i + V*(s'_i), which range over [0, H]; the true mean is H/2."""
    lucky = rng.random((runs, n)) < 0.5
    future = (HORIZON - 1.0) * lucky
    reward = 0.5 + rng.standard_normal((runs, n)) if gaussian else 1.0 * lucky
    return (reward + future).mean(axis=1)


@pytest.mark.parametrize("corrected", [False, True])
def test_scale_of_theorem_2_is_enough_for_the_backup_itself(corrected):
    # Optimism needs r̃ + ⟨P̂, V*⟩ ≥ r + ⟨P, V*⟩ and no bonus b_k: on the event
    # |r̂ + ⟨P̂, V*⟩ − r − ⟨P, V*⟩| ≤ σ/2, one member reaches it with at least Φ̄(½).
    n, delta = 200, 0.05
    rng = np.random.default_rng(1)
    sigma = float(
        theory.sigma_r_ucbvi(n, delta, NUM_STATES, NUM_ACTIONS, HORIZON, corrected=corrected)
    )
    error = backups(rng, 20_000, n, gaussian=corrected) - HORIZON / 2
    assert is_at_most(np.abs(error) > sigma / 2, delta / (2 * PAIRS * HORIZON))
    edge = -sigma / 2 + sigma * rng.standard_normal(200_000)
    assert agrees(edge >= 0, norm.sf(0.5))
    members = theory.members_r(
        delta, NUM_STATES, NUM_ACTIONS, HORIZON, corrected=True, tail="exact"
    )
    noise = sigma * rng.standard_normal((error.size, members)).max(axis=1)
    assert is_at_most(error + noise < 0, delta / (2 * PAIRS * HORIZON))


def test_clipping_the_noised_reward_destroys_optimism():
    # Assumption 2 clips r̃ to [0,1]. In Eq. 4 the reward noise must also make up for ⟨P̂ − P, V*⟩:
    # here r = 1 and P̂ underestimates the future, so that no clipped reward can be enough.
    n, delta = 200, 0.05
    sigma = float(theory.sigma_r_ucbvi(n, delta, NUM_STATES, NUM_ACTIONS, HORIZON))
    rng = np.random.default_rng(2)
    shortfall = 0.1 * sigma
    r_tilde = 1.0 + sigma * rng.standard_normal((10_000, 20)).max(axis=1)
    fails = r_tilde - shortfall < 1.0
    fails_clipped = r_tilde.clip(0.0, 1.0) - shortfall < 1.0
    assert fails_clipped.all()
    assert exceeds(fails_clipped, norm.cdf(0.5) ** 20)
    assert is_at_most(fails, norm.cdf(0.5) ** 20)
