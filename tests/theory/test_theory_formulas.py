"""The formulas of `narl.theory` against values by hand, and their edges."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from narl import theory
from narl.errors import InputError

# RiverSwim at paper scale: S=6, A=2, H=20, K=1000, ε=.1, so T=20 000 and δ=1.25e-6.
DIMENSIONS = (6, 2, 20)
DELTA = 1.25e-6


def root(x: float) -> float:
    return math.sqrt(x)


def log_pair(factor: float) -> float:
    """Return log(√(n+1)·factor·2SA/δ)/n for n = 10, δ = .05, S = 6, A = 2."""
    return math.log(math.sqrt(11) * factor * 24 / 0.05) / 10


MANY_STATES = 10_000 * math.log(2.0) + math.log(2.0) - math.log(1e-9)

BY_HAND = {
    "delta": (lambda: theory.delta_of(0.1, 20_000), DELTA),
    "beta_r": (lambda: theory.beta_r(3, 0.1), root(math.log(40.0) / 3)),
    "beta_r corrected": (
        lambda: theory.beta_r(3, 0.1, corrected=True),
        root(math.log(40.0) / 3 * 2 * (1 + 1 / 3)),
    ),
    "beta_p": (lambda: theory.beta_p(3, 0.1, 2), root(4 * math.log(80.0) / 3)),
    # 2^10000 is not a float of any width.
    "beta_p of many states": (lambda: theory.beta_p(3, 1e-9, 10_000), root(4 * MANY_STATES / 3)),
    "sigma_r": (lambda: theory.sigma_r(10, 0.05, 6, 2), 2 * root(log_pair(2))),
    "sigma_r_ucbvi": (lambda: theory.sigma_r_ucbvi(10, 0.05, 6, 2, 20), 40 * root(log_pair(2))),
    "sigma_r_ucbvi corrected": (
        lambda: theory.sigma_r_ucbvi(10, 0.05, 6, 2, 20, corrected=True),
        21 * root(2.2 * log_pair(2 * 20)),
    ),
    "sigma_p": (lambda: theory.sigma_p(10, 0.05, 6, 2), 2 * root(4 * log_pair(64 / 2))),
    "sigma_p corrected": (
        lambda: theory.sigma_p(10, 0.05, 6, 2, corrected=True),
        2 * root(4 * log_pair(64)),
    ),
    # 7·20·ln(5·6·2·1000·20/1.25e-6)/√100
    "ucbvi_bonus": (
        lambda: theory.ucbvi_bonus(100, DELTA, *DIMENSIONS, 1000),
        14 * math.log(9.6e11),
    ),
    "tail at 1/2": (lambda: theory.gaussian_tail(0.5), 0.308538),
    "tail at 1": (lambda: theory.gaussian_tail(1.0), 0.158655),
    "tail bound": (
        lambda: theory.gaussian_tail_lower_bound(1.0, 2.0),
        0.4 * math.exp(-1 / 8) / root(2 * math.pi),
    ),
    "anticoncentration": (lambda: theory.anticoncentration(2.0), 0.4 * 7 / 8 / root(2 * math.pi)),
    # 4SAM/δ = 4·6·2·10/.05 = 9600
    "reward radius": (
        lambda: theory.estimation_radius(0.05, 6, 2, 10),
        2 * root(math.log(9600)) + 1,
    ),
    "dynamics radius": (
        lambda: theory.dynamics_radius(0.05, 6, 2, 10),
        2 * root(6 * math.log(9600)) + 1,
    ),
    "dynamics radius corrected": (
        lambda: theory.dynamics_radius(0.05, 6, 2, 10, corrected=True),
        2 * (6 * root(2 / math.pi) + root(12 * math.log(2400))) + 1,
    ),
    "shrinkage": (lambda: theory.fake_reward_shrinkage(199), 1 / 399),
    # One visit, one pair: 1 real reward and 2·1·2 fakes.
    "shrinkage after one visit": (lambda: theory.fake_reward_shrinkage(1, 1), 1 / 5),
    "shrinkage before any visit": (lambda: theory.fake_reward_shrinkage(1, 0), 0.0),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_formula_has_the_value_by_hand(name):
    formula, expected = BY_HAND[name]
    assert float(formula()) == pytest.approx(expected, rel=4e-6)


def test_ensemble_sizes_of_riverswim():
    def sizes(function, **tail):
        return function(DELTA, *DIMENSIONS, corrected=True, **tail)

    assert theory.members_r(DELTA, *DIMENSIONS) == 7
    assert sizes(theory.members_r) == 188
    assert sizes(theory.members_r, tail="exact") == 54
    assert sizes(theory.members_r, tail="unvisited") == 115
    assert theory.members_p(DELTA, *DIMENSIONS) == 9
    assert sizes(theory.members_p) == 1058
    assert sizes(theory.members_p, tail="exact") == 54
    assert theory.fake_pairs(DELTA, *DIMENSIONS, num_steps=20_000) == 199  # 20·log 20000 = 198.07


@pytest.mark.parametrize("corrected", [False, True])
def test_count_zero_is_taken_as_one(corrected):
    counts = np.array([0, 1])
    reward = theory.beta_r(counts, 0.1, corrected=corrected)
    dynamics = theory.sigma_p(counts, 0.1, 3, 2, corrected=corrected)
    bonus = theory.ucbvi_bonus(counts, 0.1, 3, 2, 5, 10)
    for radius in (reward, dynamics, bonus):
        assert radius[0] == radius[1]
        assert bool(jnp.isfinite(radius).all())


def test_scales_can_be_traced_for_counts_and_episodes():
    def scales(n, num_episodes):
        delta = 0.1 / (4.0 * num_episodes * 20)
        return (
            theory.beta_r(n, delta),
            theory.beta_p(n, delta, 6),
            theory.sigma_r(n, delta, 6, 2),
            theory.sigma_p(n, delta, 6, 2),
            theory.sigma_r_ucbvi(n, delta, 6, 2, 20, corrected=True),
            theory.sigma_bonus(n, delta, 6, 2, 20, num_episodes, corrected=True),
        )

    counts = jnp.arange(24).reshape(2, 3, 4)
    for traced, plain in zip(jax.jit(scales)(counts, 1000), scales(counts, 1000), strict=True):
        assert traced.shape == counts.shape
        np.testing.assert_allclose(traced, plain, rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: theory.delta_of(1.5, 10), "epsilon"),
        (lambda: theory.delta_of(0.1, 0), "num_steps"),
        (lambda: theory.members_r(0.0, 6, 2, 20), "delta"),
        (lambda: theory.members_r(0.1, 0, 2, 20), "num_states"),
        (lambda: theory.members_p(0.1, 6, 2, 20, corrected=True, tail="exct"), "tail"),
        (lambda: theory.members_p(0.1, 6, 2, 20, tail="exact"), "tail"),
        (lambda: theory.failure_probability(0), "members"),
        (lambda: theory.failure_probability(3, 1.0), "probability"),
        (lambda: theory.dynamics_radius(0.1, 6, 2, 0), "members"),
        (lambda: theory.fake_pairs(2.0, 6, 2, 20, 100), "delta"),
    ],
)
def test_wrong_input_names_the_field(call, field):
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value).startswith(f"{field}: ")
    assert "\n" not in str(caught.value)
