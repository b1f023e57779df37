"""The formulas of `narl.theory` against values worked out by hand, and their edges."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from narl import theory
from narl.errors import InputError

# RiverSwim at paper scale: S=6, A=2, H=20, K=1000, ε=.1, so T=20 000 and δ=1.25e-6.
DIMENSIONS = {"num_states": 6, "num_actions": 2, "horizon": 20}
DELTA = 1.25e-6


def test_delta_of_riverswim():
    assert theory.delta_of(0.1, 20_000) == pytest.approx(DELTA)


def test_beta_r_by_hand():
    # n = 3: log(2·2/.1)/3
    assert float(theory.beta_r(3, 0.1)) == pytest.approx(math.sqrt(math.log(40.0) / 3.0), rel=1e-6)
    # corrected: times √(2·4/3)
    expected = math.sqrt(math.log(40.0) / 3.0 * 8.0 / 3.0)
    assert float(theory.beta_r(3, 0.1, corrected=True)) == pytest.approx(expected, rel=1e-6)


def test_beta_p_by_hand():
    # n = 3, S = 2: 4·log(2·4/.1)/3
    expected = math.sqrt(4.0 * math.log(80.0) / 3.0)
    assert float(theory.beta_p(3, 0.1, 2)) == pytest.approx(expected, rel=1e-6)


def test_beta_p_does_not_overflow_with_many_states():
    # 2^10000 is not a float of any width.
    expected = math.sqrt(4.0 * (10_000 * math.log(2.0) + math.log(2.0) - math.log(1e-9)) / 3.0)
    assert float(theory.beta_p(3, 1e-9, 10_000)) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("corrected", [False, True])
def test_count_zero_is_taken_as_one(corrected):
    counts = np.array([0, 1])
    reward = theory.beta_r(counts, 0.1, corrected=corrected)
    dynamics = theory.sigma_p(counts, 0.1, 3, 2, corrected=corrected)
    bonus = theory.ucbvi_bonus(counts, 0.1, 3, 2, 5, 10)
    for radius in (reward, dynamics, bonus):
        assert radius[0] == radius[1]
        assert bool(jnp.isfinite(radius).all())


def test_radii_and_scales_are_jittable_for_any_shape():
    counts = jnp.arange(24).reshape(2, 3, 4)

    def scales(n):
        return (
            theory.beta_r(n, 0.1),
            theory.beta_p(n, 0.1, 4),
            theory.sigma_r(n, 0.1, 4, 2),
            theory.sigma_p(n, 0.1, 4, 2),
            theory.sigma_r_ucbvi(n, 0.1, 4, 2, 5),
            theory.sigma_bonus(n, 0.1, 4, 2, 5, 10, corrected=True),
        )

    for compiled, plain in zip(jax.jit(scales)(counts), scales(counts), strict=True):
        assert compiled.shape == counts.shape
        np.testing.assert_allclose(compiled, plain, rtol=1e-6)


def test_delta_and_the_number_of_episodes_may_be_traced():
    def scales(num_episodes):
        delta = 0.1 / (4.0 * num_episodes * 20)
        return (
            theory.sigma_r(5, delta, 6, 2),
            theory.sigma_p(5, delta, 6, 2),
            theory.sigma_r_ucbvi(5, delta, 6, 2, 20, corrected=True),
            theory.sigma_bonus(5, delta, 6, 2, 20, num_episodes, corrected=True),
        )

    for compiled, plain in zip(jax.jit(scales)(1000), scales(1000), strict=True):
        assert float(compiled) == pytest.approx(float(plain), rel=1e-5)


def test_ucbvi_bonus_by_hand():
    # 7·20·ln(5·6·2·1000·20/1.25e-6)/√100
    expected = 14.0 * math.log(9.6e11)
    assert float(theory.ucbvi_bonus(100, DELTA, 6, 2, 20, 1000)) == pytest.approx(
        expected, rel=1e-6
    )


def test_scales_by_hand():
    n, delta, pairs = 10, 0.05, 2 * 6 * 2
    beta_r = math.sqrt(math.log(2 * math.sqrt(11) * pairs / delta) / n)
    assert float(theory.sigma_r(n, delta, 6, 2)) == pytest.approx(2 * beta_r, rel=1e-6)
    assert float(theory.sigma_r_ucbvi(n, delta, 6, 2, 20)) == pytest.approx(40 * beta_r, rel=1e-6)
    # corrected: (H+1)·√(2·1.1)·β_r with δ/(2SAH)
    beta_h = math.sqrt(math.log(2 * math.sqrt(11) * pairs * 20 / delta) / n)
    assert float(theory.sigma_r_ucbvi(n, delta, 6, 2, 20, corrected=True)) == pytest.approx(
        21 * math.sqrt(2.2) * beta_h, rel=1e-6
    )
    printed, corrected = (
        math.sqrt(4 * math.log(math.sqrt(11) * 64 * pairs / factor / delta) / n)
        for factor in (2, 1)
    )
    assert float(theory.sigma_p(n, delta, 6, 2)) == pytest.approx(2 * printed, rel=1e-6)
    assert float(theory.sigma_p(n, delta, 6, 2, corrected=True)) == pytest.approx(
        2 * corrected, rel=1e-6
    )


def test_ensemble_sizes_of_riverswim():
    assert theory.members_r(DELTA, **DIMENSIONS) == 7
    assert theory.members_r(DELTA, **DIMENSIONS, corrected=True) == 188
    assert theory.members_r(DELTA, **DIMENSIONS, corrected=True, tail="exact") == 54
    assert theory.members_r(DELTA, **DIMENSIONS, corrected=True, tail="unvisited") == 115
    assert theory.members_p(DELTA, **DIMENSIONS) == 9
    assert theory.members_p(DELTA, **DIMENSIONS, corrected=True) == 1058
    assert theory.members_p(DELTA, **DIMENSIONS, corrected=True, tail="exact") == 54


def test_coefficients_of_the_corrected_sizes():
    # M = coefficient · log x
    assert -1 / math.log1p(-0.1) == pytest.approx(9.49, abs=0.005)
    assert -1 / math.log1p(-float(theory.gaussian_tail(0.5))) == pytest.approx(2.71, abs=0.005)


def test_tails_by_hand():
    assert float(theory.gaussian_tail(0.5)) == pytest.approx(0.308538, abs=1e-6)
    assert float(theory.gaussian_tail(1.0)) == pytest.approx(0.158655, abs=1e-6)
    # (2/5)·e^{-1/8}/√(2π) and (2/5)·(7/8)/√(2π)
    assert float(theory.gaussian_tail_lower_bound(1.0, 2.0)) == pytest.approx(0.140827, abs=1e-6)
    assert float(theory.anticoncentration(2.0)) == pytest.approx(0.139630, abs=1e-6)


def test_radii_by_hand():
    # 4SAM/δ = 4·6·2·10/.05 = 9600
    log_term = math.log(9600.0)
    arguments = (0.05, 6, 2, 10)
    assert theory.estimation_radius(*arguments) == pytest.approx(2 * math.sqrt(log_term) + 1)
    assert theory.dynamics_radius(*arguments) == pytest.approx(2 * math.sqrt(6 * log_term) + 1)
    mean = 6 * math.sqrt(2 / math.pi)
    expected = 2 * (mean + math.sqrt(12 * math.log(2400.0))) + 1
    assert theory.dynamics_radius(*arguments, corrected=True) == pytest.approx(expected)


def test_fake_rewards_by_hand():
    assert theory.fake_pairs(DELTA, **DIMENSIONS, num_steps=20_000) == 199  # 20·log 20000 = 198.07
    assert float(theory.fake_reward_shrinkage(199)) == pytest.approx(1 / 399)
    # One visit, one pair: 1 real reward and 2·1·2 fakes.
    assert float(theory.fake_reward_shrinkage(1, 1)) == pytest.approx(1 / 5)
    assert float(theory.fake_reward_shrinkage(1, 0)) == 0.0


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
def test_bad_input_names_the_field_in_one_line(call, field):
    with pytest.raises(InputError) as caught:
        call()
    message = str(caught.value)
    assert message.startswith(f"{field}: ")
    assert "\n" not in message
