"""Statistics over seeds against values by hand, and coverage by simulation."""

import numpy as np
import pytest

from narl import stats
from narl.errors import InputError


def test_median_and_quartiles_of_nine_values():
    median, q25, q75 = stats.median_iqr([9, 1, 8, 2, 7, 3, 6, 4, 5])
    assert (median, q25, q75) == (5, 3, 7)


@pytest.mark.parametrize("shape", [(1, 3), (4, 3), (7, 3)])
def test_quartiles_agree_with_numpy(shape):
    x = np.random.default_rng(0).normal(size=shape)
    expected = np.quantile(x, [0.5, 0.25, 0.75], axis=0)
    np.testing.assert_allclose(np.stack(stats.median_iqr(x)), expected, rtol=1e-12)
    along_rows = np.quantile(x, [0.5, 0.25, 0.75], axis=1)
    np.testing.assert_allclose(np.stack(stats.median_iqr(x, axis=1)), along_rows, rtol=1e-12)


def test_infinite_values_do_not_become_nan():
    median, q25, q75 = stats.median_iqr([10.0, 20.0, np.inf, np.inf, np.inf])
    assert (median, q25, q75) == (np.inf, 20.0, np.inf)
    assert stats.median_iqr([10.0, 20.0, np.inf])[0] == 20.0
    assert stats.iqm([1.0, 2.0, 4.0, np.inf]) == 3.0


def test_statistics_do_not_change_their_input():
    x = np.array([3.0, 1.0, 2.0])
    stats.median_iqr(x)
    stats.iqm(x)
    assert x.tolist() == [3.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ([7.0], 7.0),
        ([1.0, 3.0], 2.0),
        ([0.0, 3.0, 30.0], (0.25 * 0 + 1 * 3 + 0.25 * 30) / 1.5),
        ([100.0, 2.0, 4.0, -50.0], 3.0),
        ([0.0, 1.0, 2.0, 4.0, 90.0], (0.75 * 1 + 2 + 0.75 * 4) / 2.5),
        ([0.0, 1.0, 2.0, 3.0, 5.0, 90.0], (0.5 * 1 + 2 + 3 + 0.5 * 5) / 3.0),
        ([9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0], (4 + 5 + 6 + 7) / 4),
    ],
)
def test_iqm_by_hand(x, expected):
    assert stats.iqm(x) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13])
def test_iqm_is_the_mean_of_the_middle_half_of_four_copies(n):
    x = np.random.default_rng(n).normal(size=n)
    copies = np.sort(np.repeat(x, 4))
    assert stats.iqm(x) == pytest.approx(copies[n : 3 * n].mean(), rel=1e-12)


def test_iqm_along_an_axis():
    x = np.array([[100.0, 2.0, 4.0, -50.0], [1.0, 1.0, 1.0, 1.0]])
    np.testing.assert_allclose(stats.iqm(x, axis=1), [3.0, 1.0])
    assert stats.iqm(x) == pytest.approx((1 + 1 + 1 + 2) / 4)


def test_bootstrap_of_a_constant_is_that_constant():
    assert stats.bootstrap_interval([2.0] * 5, np.mean, num_resamples=50) == (2.0, 2.0)


def test_bootstrap_depends_only_on_the_seed():
    x = np.random.default_rng(0).normal(size=20)
    first = stats.bootstrap_interval(x, np.mean, num_resamples=100, seed=1)
    assert first == stats.bootstrap_interval(x, np.mean, num_resamples=100, seed=1)
    assert first != stats.bootstrap_interval(x, np.mean, num_resamples=100, seed=2)


def test_bootstrap_of_two_runs_has_the_exact_distribution():
    # The mean of a resample of {0, 1} is 0, ½, 1 with probability ¼, ½, ¼.
    assert stats.bootstrap_interval([0.0, 1.0], np.mean, confidence=0.4) == (0.5, 0.5)
    assert stats.bootstrap_interval([0.0, 1.0], np.mean, confidence=0.6) == (0.0, 1.0)


def test_bootstrap_resamples_within_each_stratum():
    # Within a row nothing varies, so the stratified interval of the mean has no width.
    x = np.array([[0.0] * 6, [10.0] * 6])
    assert stats.bootstrap_interval(x, np.mean, num_resamples=100) == (5.0, 5.0)
    low, high = stats.bootstrap_interval(x.ravel(), np.mean, num_resamples=100)
    assert low < 4.0
    assert high > 6.0


@pytest.mark.slow
@pytest.mark.parametrize(("statistic", "truth"), [(np.mean, 1.0), (stats.iqm, None)])
def test_bootstrap_has_its_coverage(statistic, truth):
    generator = np.random.default_rng(0)
    if truth is None:  # the middle half of Exp(1): ∫_¼^¾ −log(1−u) du / ½
        truth = 2 * (0.25 * np.log(0.25) - 0.75 * np.log(0.75)) + 1
    x = generator.exponential(size=(200, 40))
    intervals = [
        stats.bootstrap_interval(row, statistic, num_resamples=100, confidence=0.9) for row in x
    ]
    covered = np.mean([low <= truth <= high for low, high in intervals])
    # 200 trials: three standard errors of .9 are .064; percentile intervals are a little short.
    assert 0.81 <= covered <= 0.96


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0])
def test_growth_exponent_of_a_power_law_is_exact(exponent):
    steps = np.arange(20, 20_001, 20)
    regret = np.array([[1.0], [2.0], [5.0]]) * steps**exponent
    growth = stats.growth_exponent(steps, regret, num_resamples=50)
    np.testing.assert_allclose(growth, (exponent,) * 3, atol=1e-9)


def test_growth_exponent_looks_only_at_the_last_half():
    steps = np.arange(1.0, 1001.0)
    regret = np.where(steps < 500, 100 * steps, np.sqrt(steps))
    assert stats.growth_exponent(steps, regret).exponent == pytest.approx(0.5, abs=1e-9)


def test_growth_exponent_is_the_slope_of_log_log_least_squares():
    steps = np.array([64.0, 128.0, 181.0, 256.0])
    regret = np.array([[1.0, 3.0, 5.0, 4.0], [1.0, 5.0, 3.0, 12.0]])
    log_steps, log_regret = np.log(steps[1:]), np.log([4.0, 4.0, 8.0])
    expected = np.polyfit(log_steps, log_regret, 1)[0]
    growth = stats.growth_exponent(steps, regret)
    assert growth.exponent == pytest.approx(expected, rel=1e-9)
    alone = [stats.growth_exponent(steps, row).exponent for row in regret]
    assert min(alone) == pytest.approx(growth.low)
    assert max(alone) == pytest.approx(growth.high)


def test_growth_exponent_of_no_regret_is_undefined():
    assert np.isnan(stats.growth_exponent([1, 2, 3, 4], np.zeros((3, 4)))).all()


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        ([1, 2], [3, 4], 1.0),
        ([3, 4], [1, 2], 0.0),
        ([1, 2, 3], [2], 0.5),
        ([1, 3], [2, 3, 4], (3 + 1.5) / 6),
        ([[1, 2], [5, 6]], [[3], [4]], 0.5),
        ([1, np.inf], [np.inf, np.inf], 0.75),
    ],
)
def test_probability_of_improvement_by_hand(x, y, expected):
    assert stats.probability_of_improvement(x, y) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: stats.median_iqr([]), "x:"),
        (lambda: stats.median_iqr(3.0), "x:"),
        (lambda: stats.iqm([1.0, np.nan]), "x:"),
        (lambda: stats.bootstrap_interval(np.zeros((2, 2, 2)), np.mean), "x:"),
        (lambda: stats.bootstrap_interval([1.0], np.mean, confidence=95), "confidence:"),
        (lambda: stats.bootstrap_interval([1.0], np.mean, num_resamples=0), "num_resamples:"),
        (lambda: stats.growth_exponent([1, 2], np.ones((3, 4))), "regret:"),
        (lambda: stats.growth_exponent([0, 2], np.ones((3, 2))), "num_steps:"),
        (lambda: stats.growth_exponent([2, 1], np.ones((3, 2))), "num_steps:"),
        (lambda: stats.growth_exponent([1, 9], np.ones((3, 2))), "num_steps:"),
        (lambda: stats.probability_of_improvement(np.ones((2, 3)), np.ones((3, 3))), "y:"),
    ],
)
def test_wrong_input_names_the_field(call, field):
    with pytest.raises(InputError) as caught:
        call()
    assert str(caught.value).startswith(field)
    assert "\n" not in str(caught.value)
