"""Differences over seeds: hand-computed intervals, known limits, coverage, and detectable sizes."""

import itertools

import numpy as np
import pytest
from scipy.special import ndtri, stdtrit

from narl import stats
from narl.errors import InputError
from narl.stats import resampling

# --- on which side of 0 an interval lies --------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "side"),
    [(1.0, 9.0, 1), (-9.0, -1.0, -1), (-1.0, 9.0, 0), (0.1, 9.0, 0), (-9.0, -0.1, 0)]
    + [(0.19, 9.0, 1), (2.0, 2.0, 1), (-2.0, -2.0, -1), (0.0, 0.0, 0), (-np.inf, np.inf, 0)],
)
def test_an_interval_that_ends_within_2_percent_of_its_width_of_zero_is_on_no_side(low, high, side):
    assert stats.side_of_zero(stats.Interval((low + high) / 2, low, high)) == side


@pytest.mark.parametrize("confidence", [0.8, 0.95, 0.995])
def test_ends_of_other_resamples_differ_by_the_standard_error(confidence):
    """An interval from `low` to `low + 1` is on no side while `low` is below three errors."""
    closest = next(
        low
        for low in np.arange(0.0, 0.2, 1e-4)
        if stats.side_of_zero(stats.Interval(0.5, low, low + 1.0), confidence=confidence)
    )
    generator = np.random.default_rng(0)
    means = generator.normal(size=(400, resampling.NUM_RESAMPLES))
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2], axis=1)
    assert closest == pytest.approx(3 * low.std() / (high - low).mean(), rel=0.15)


# --- differences ------------------------------------------------------------------------------


def test_difference_of_two_paired_seeds_has_the_exact_distribution():
    # Resamples of the differences {0, 2}: means 0, 1, 2 with probability ¼, ½, ¼.
    found = stats.difference([1.0, 5.0], [1.0, 3.0], paired=True, confidence=0.6)
    factor = np.sqrt(2) * stdtrit(1, 0.8) / ndtri(0.8)
    assert found == pytest.approx((1.0, 1.0 - factor, 1.0 + factor))
    inside = stats.difference([1.0, 5.0], [1.0, 3.0], paired=True, confidence=0.4)
    assert inside == (1.0, 1.0, 1.0)


def test_difference_of_means_agrees_with_brute_force_over_all_resamples():
    x, y = np.random.default_rng(0).normal(size=(2, 4))
    resamples = np.array(list(itertools.product(range(4), repeat=4)))
    every = (x[resamples].mean(axis=1)[:, None] - y[resamples].mean(axis=1)).ravel()
    low, high = np.quantile(every, [0.1, 0.9])
    factor = np.sqrt(4 / 3) * stdtrit(6, 0.9) / ndtri(0.9)
    centre = x.mean() - y.mean()
    expected = (centre, centre + factor * (low - centre), centre + factor * (high - centre))
    assert stats.difference(x, y, confidence=0.8) == pytest.approx(expected, abs=0.03)


def test_paired_iqm_draws_the_same_seeds_in_both_arms():
    x = np.random.default_rng(0).normal(size=12)
    found = stats.difference(x + 3.0, x, statistic="iqm", paired=True)
    assert found == pytest.approx((3.0, 3.0, 3.0))
    low, high = stats.difference(x + 3.0, x, statistic="iqm")[1:]
    assert low < 2.5 < 3.5 < high


@pytest.mark.parametrize("n", [1, 4, 7, 10])
def test_iqm_of_resamples_is_the_iqm_of_the_drawn_values(n):
    generator = np.random.default_rng(n)
    x = generator.normal(size=n).round(1)
    rows = generator.integers(n, size=(5, n))
    counts = np.array([np.bincount(row, minlength=n) for row in rows], float)[:, None]
    expected = [stats.iqm(x[row]) for row in rows]
    np.testing.assert_allclose(resampling.resampled_iqm(x[None], counts), expected, atol=1e-12)


def test_a_level_is_compared_with_every_seed():
    against = stats.difference([1.0, 2.0, 6.0], 3.0)
    assert against.estimate == pytest.approx(0.0)
    low, high = stats.difference(3.0, [1.0, 2.0, 6.0])[1:]
    assert (low, high) == pytest.approx((-against.high, -against.low), abs=0.05)


def test_difference_is_the_same_every_time_and_leaves_its_input_alone():
    x, y = np.array([3.0, 1.0, 2.0]), np.array([5.0, 4.0, 9.0])
    assert stats.difference(x, y) == stats.difference(x, y)
    assert (x.tolist(), y.tolist()) == ([3.0, 1.0, 2.0], [5.0, 4.0, 9.0])


@pytest.mark.parametrize("statistic", ["mean", "iqm"])
@pytest.mark.parametrize("paired", [True, False])
def test_constant_samples_have_intervals_without_width(statistic, paired):
    kind = {"statistic": statistic, "paired": paired}
    assert stats.difference([0.1] * 7, [0.1] * 7, **kind) == (0.0, 0.0, 0.0)
    assert stats.difference([0.3] * 7, [0.1] * 7, **kind) == (0.3 - 0.1,) * 3


def test_identical_samples_differ_by_zero_seed_by_seed():
    x = np.random.default_rng(0).normal(size=9)
    assert stats.difference(x, x, paired=True) == (0.0, 0.0, 0.0)
    low, high = stats.difference(x, x)[1:]
    assert low < 0 < high


def test_one_seed_has_an_infinite_interval():
    assert stats.difference([1.0], [5.0]) == (-4.0, -np.inf, np.inf)
    assert stats.difference([1.0], [5.0, 6.0]).high == np.inf
    found = stats.compare([1.0], [5.0])
    assert (found.detectable, found.seeds_needed) == (np.inf, np.inf)
    assert found.probability_lower == (1.0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: stats.difference([1.0, np.nan], [1.0, 2.0]), "x: holds NaN"),
        (lambda: stats.difference([1.0, 2.0], [1.0, np.inf]), "y: holds infinity"),
        (lambda: stats.difference([1.0, 2.0], [1.0], paired=True), "y: 1 runs against 2"),
        (lambda: stats.difference([1.0, 2.0], [], paired=True), "y: shape"),
        (lambda: stats.difference(np.ones((2, 2)), np.ones((2, 2))), "x: shape"),
        (lambda: stats.difference([1.0, 2.0], 0.0, confidence=95), "confidence: 95"),
        (lambda: stats.aggregate_iqm([1.0, 2.0]), "scores: shape"),
        (lambda: stats.normalised_scores([[1.0]], [0.0], [0.0]), "high: equals low"),
        (lambda: stats.normalised_scores([[1.0]], [0.0], [1.0, 2.0]), "low, high: must each"),
    ],
)
def test_wrong_samples_are_refused_with_one_line(call, named):
    with pytest.raises(InputError, match=named) as problem:
        call()
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize("num_seeds", [3, 5, 10])
@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("statistic", ["mean", "iqm"])
def test_interval_has_its_coverage_with_few_seeds(monkeypatch, num_seeds, paired, statistic):
    # 300 samples of a symmetric law with difference 0: 95 % ± 3.8 % (three standard errors).
    # Without the stretch, three to ten seeds reach 70 to 90 %.
    monkeypatch.setattr(resampling, "NUM_RESAMPLES", 500)
    samples = np.random.default_rng(num_seeds).normal(size=(300, 2, num_seeds))
    intervals = [stats.difference(x, y, paired=paired, statistic=statistic) for x, y in samples]
    covered = np.mean([found.low <= 0 <= found.high for found in intervals])
    assert 0.91 <= covered <= (0.98 if statistic == "mean" else 1.0)


# --- the probability of improvement -----------------------------------------------------------


def test_improvement_of_two_seeds_by_hand():
    # x = {0, 2} against y = {1, 1}: a resample of x has 0, 1 or 2 values below.
    found = stats.improvement_interval([0.0, 2.0], [1.0, 1.0], confidence=0.4)
    assert found == (0.5, 0.5, 0.5)
    assert stats.improvement_interval([0.0, 2.0], [1.0, 1.0]) == (0.5, 0.0, 1.0)


def test_improvement_of_separate_samples_is_certain_and_infinity_is_the_largest():
    assert stats.improvement_interval([1, 2, 3], [4, 5, np.inf]) == (1.0, 1.0, 1.0)
    assert stats.improvement_interval([np.inf] * 3, [np.inf] * 3) == (0.5, 0.5, 0.5)


def test_improvement_does_not_depend_on_which_seeds_are_paired():
    """Pairs drawn together would count their own comparison too often: here all of them are won."""
    x, y = np.array([1.0, 3.0, 5.0]), np.array([2.0, 4.0, 6.0])
    own = stats.compare(x, y, paired=True).probability_lower
    assert own == stats.improvement_interval(x, y)
    assert own.estimate == pytest.approx(2 / 3)
    assert own.low < own.estimate < own.high


def test_improvement_agrees_with_brute_force():
    generator = np.random.default_rng(1)
    x, y = generator.normal(size=6), generator.normal(0.5, size=8)
    draws = [
        stats.probability_of_improvement(generator.choice(x, 6), generator.choice(y, 8))
        for _ in range(4000)
    ]
    ends = np.quantile(draws, [0.25, 0.75])
    factor = np.sqrt(6 / 5) * stdtrit(12, 0.75) / ndtri(0.75)
    found = stats.improvement_interval(x, y, confidence=0.5)
    expected = found.estimate + factor * (ends - found.estimate)
    assert (found.low, found.high) == pytest.approx(expected, abs=0.02)


# --- what a number of seeds can detect --------------------------------------------------------


@pytest.mark.parametrize(
    ("num_seeds", "percent"), [(5, 40.5), (10, 26.5), (20, 18.2), (30, 14.7), (50, 11.3)]
)
def test_detectable_difference_at_a_spread_of_a_fifth(num_seeds, percent):
    assert 100 * stats.detectable_difference(0.2, num_seeds) == pytest.approx(percent, abs=0.05)


def test_seeds_to_detect_published_cases():
    assert stats.seeds_to_detect(0.1, 0.2) == 64  # d = 0.5, the textbook's 64 per arm
    assert stats.seeds_to_detect(0.22, 1.0) == pytest.approx(330, abs=10)
    assert stats.seeds_to_detect(0.5, 1.0, paired=True) == 34
    assert stats.seeds_to_detect(-0.1, 0.2) == 64


def test_seeds_to_detect_has_limits():
    assert stats.seeds_to_detect(0.0, 1.0) == np.inf
    assert stats.seeds_to_detect(1e-9, 1.0) == np.inf
    assert stats.seeds_to_detect(1.0, np.inf) == np.inf
    assert stats.seeds_to_detect(1.0, 0.0) == 2
    assert stats.detectable_difference(1.0, 1) == np.inf


@pytest.mark.parametrize("paired", [True, False])
def test_a_detectable_difference_is_detected_four_times_of_five(paired):
    generator, num_seeds, std = np.random.default_rng(0), 8, 2.0
    shift = stats.detectable_difference(std, num_seeds, paired=paired)
    x = generator.normal(shift, std, size=(4000, num_seeds))
    y = np.zeros(1) if paired else generator.normal(0.0, std, size=x.shape)
    variance = x.var(axis=1, ddof=1) + (0.0 if paired else y.var(axis=1, ddof=1))
    t = (x.mean(axis=1) - y.mean(axis=-1)) / np.sqrt(variance / num_seeds)
    critical = stdtrit((1 if paired else 2) * (num_seeds - 1), 0.975)
    assert np.mean(np.abs(t) > critical) == pytest.approx(0.8, abs=0.02)


def test_comparison_uses_the_spread_of_differences_if_paired():
    x, y = np.array([1.0, 2.0, 3.0, 4.0]), np.array([2.0, 3.5, 4.0, 5.5])
    paired, apart = stats.compare(x, y, paired=True), stats.compare(x, y)
    assert paired.mean.estimate == apart.mean.estimate == pytest.approx(-1.25)
    std = np.std([-1.0, -1.5, -1.0, -1.5], ddof=1)
    assert paired.detectable == pytest.approx(stats.detectable_difference(std, 4, paired=True))
    pooled = np.sqrt((x.var(ddof=1) + y.var(ddof=1)) / 2)
    assert apart.detectable == pytest.approx(stats.detectable_difference(pooled, 4))
    assert paired.seeds_needed < apart.seeds_needed
    assert paired.probability_lower.estimate == pytest.approx(
        stats.probability_of_improvement(x, y)
    )


# --- over tasks -------------------------------------------------------------------------------


def test_normalised_scores_by_hand():
    found = stats.normalised_scores([[10.0, 20.0], [-5.0, 5.0]], [10.0, -5.0], [30.0, 0.0])
    np.testing.assert_allclose(found, [[0.0, 0.5], [0.0, 2.0]])


def test_aggregate_iqm_pools_runs_and_resamples_within_tasks():
    scores = np.array([[0.0] * 4, [1.0] * 4])
    assert stats.aggregate_iqm(scores) == (0.5, 0.5, 0.5)  # nothing varies within a task
    spread = np.random.default_rng(0).normal(size=(3, 8))
    found = stats.aggregate_iqm(spread)
    low, high = stats.bootstrap_interval(spread, stats.iqm)
    factor = np.sqrt(8 / 7) * stdtrit(21, 0.975) / ndtri(0.975)
    expected = found.estimate + factor * (np.array([low, high]) - found.estimate)
    assert found.estimate == pytest.approx(float(stats.iqm(spread)))
    assert (found.low, found.high) == pytest.approx(expected, abs=0.04)


def test_performance_profile_by_hand():
    scores = np.array([[0.0, 1.0], [0.5, 0.5]])
    profile = stats.performance_profile(scores, [-1.0, 0.25, 0.5, 2.0])
    np.testing.assert_allclose(profile.share, [1.0, 0.75, 0.25, 0.0])
    np.testing.assert_allclose(profile.low, [1.0, 0.25, 0.0, 0.0], atol=0.26)
    assert (profile.low <= profile.share).all()
    assert (profile.share <= profile.high).all()
    assert profile.high[0] == profile.low[0] == 1.0


def test_improvement_is_averaged_over_tasks():
    x = np.array([[0.0, 0.0, 0.0], [5.0, 5.0, 5.0]])
    y = np.array([[1.0, 1.0], [1.0, 1.0]])
    assert stats.improvement_interval(x, y) == (0.5, 0.5, 0.5)
