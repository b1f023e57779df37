"""Two samples of seeds: differences, probability of improvement, numbers of seeds."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import nctdtrinc, ndtri, stdtrit

from narl.errors import InputError
from narl.stats.resampling import (
    NUM_RESAMPLES,
    resample_both,
    resampled_iqm,
    resampled_mean,
    stretched_interval,
)
from narl.stats.summary import Array, Interval, Statistic, numbers

MOST_SEEDS = 10**7
"""Above this number of seeds a difference counts as 0: no experiment detects it."""


class Comparison(NamedTuple):
    """The seeds of x against those of y: differences x − y, and what their number can detect.

    Example:
        >>> comparison = narl.stats.compare([3.0, 4.0, 5.0, 4.0], [6.0, 7.0, 8.0, 7.0])
        >>> comparison.mean.estimate, comparison.probability_lower.estimate, comparison.num_seeds
        (-3.0, 1.0, 4)
    """

    mean: Interval
    """The difference of the means."""
    iqm: Interval
    """The difference of the interquartile means."""
    probability_lower: Interval
    """The probability that a run of x is lower than a run of y.

    If all pairs go one way, no resample differs and the interval has no width, however few the
    seeds are: `mean` is the difference to go by.
    """
    detectable: float
    """The smallest difference of the means that this number of seeds detects (power 0.8)."""
    seeds_needed: float
    """The number of seeds per arm that would detect a difference as large as the measured one."""
    num_seeds: int
    """The number of seeds of the smaller arm."""
    paired: bool
    """Whether the seeds are shared: then the differences of single seeds are compared."""


def probability_of_improvement(x: ArrayLike, y: ArrayLike) -> float:
    """Return P(X < Y) + ½·P(X = Y), the probability that a run of x is lower than one of y.

    It is the mean over all pairs of runs and, with [tasks, runs], over tasks.

    Args:
        x: Values [runs] or [tasks, runs].
        y: Values of the other algorithm, with the same tasks.

    Example:
        >>> narl.stats.probability_of_improvement([1.0, 2.0], [2.0, 3.0])
        0.875
    """
    first, second, _ = _arms(x, y)
    return float(_wins(first, second).mean())


def improvement_interval(x: ArrayLike, y: ArrayLike, *, confidence: float = 0.95) -> Interval:
    """Return `probability_of_improvement` with its bootstrap interval, cut to [0, 1].

    Runs are resampled within each task, in each arm by themselves, also where seeds are shared: a
    resample that draws a seed twice in both arms would count its own pair four times.

    Args:
        x: Values [runs] or [tasks, runs].
        y: Values of the other algorithm, with the same tasks.
        confidence: The share of samples whose interval should hold the true value.

    Example:
        >>> interval = narl.stats.improvement_interval([1.0, 2.0, 3.0], [2.0, 3.0, 4.0])
        >>> round(interval.estimate, 3), interval.low < 0.5, interval.high  # undecided
        (0.778, True, 1.0)
    """
    first, second, _ = _arms(x, y)
    wins = _wins(first, second)
    estimate = float(wins.mean())
    x_counts, y_counts = resample_both(first.shape, second.shape, False)
    lower = np.einsum("btn,tnm->btm", x_counts, wins, optimize=True)
    pairs = first.shape[1] * second.shape[1]
    draws = np.einsum("btm,btm->b", lower, y_counts) / (pairs * len(first))
    low, high = stretched_interval(estimate, draws, (first, second), confidence)
    return Interval(estimate, max(float(low), 0.0), min(float(high), 1.0))


def difference(
    x: ArrayLike,
    y: ArrayLike,
    *,
    statistic: Statistic = "mean",
    paired: bool = False,
    confidence: float = 0.95,
) -> Interval:
    """Return statistic(x) − statistic(y) over seeds, with its bootstrap interval.

    A number for ``x`` or ``y`` is a fixed level. With ``paired``, both have the same seeds in the
    same order, and every resample draws the same seeds in both. The interval is the percentile
    bootstrap of 10 000 resamples, stretched about the estimate by √(n/(n−1))·t/z (t and z: the
    quantiles of Student's and the normal distribution), because the bootstrap of a few seeds is
    too narrow. One seed has an infinite interval.

    Args:
        x: Values [seeds], or a number.
        y: Values [seeds] of the other algorithm, or a number.
        statistic: "mean" or "iqm".
        paired: Whether ``x`` and ``y`` have the same seeds in the same order.
        confidence: The share of samples whose interval should hold the true value.

    Example:
        >>> narl_steps, mbpo_steps = [10.0, 12.0, 11.0, 13.0], [15.0, 14.0, 17.0, 16.0]
        >>> interval = narl.stats.difference(narl_steps, mbpo_steps)
        >>> interval.estimate, interval.high < 0
        (-4.0, True)
    """
    first, second, paired = _arms(x, y, paired=paired)
    for name, values in (("x", first), ("y", second)):
        if not np.isfinite(values).all():
            raise InputError(f"{name}: holds infinity; count a run that never ends as the budget")
    if len(first) != 1:
        raise InputError(f"x: shape {first.shape} given; must be [seeds], of one task")
    # Relative to one value, so that constant samples have differences without rounding errors.
    shift = float(first[0, 0] - second[0, 0])
    first, second = first - first[0, 0], second - second[0, 0]
    of_sample = resampled_mean if statistic == "mean" else resampled_iqm
    x_counts, y_counts = resample_both(first.shape, second.shape, paired)
    draws = of_sample(first, x_counts) - of_sample(second, y_counts) + shift
    once = [of_sample(arm, np.ones((1, *arm.shape))).item() for arm in (first, second)]
    estimate = once[0] - once[1] + shift
    arms = (first,) if paired else (first, second)
    low, high = stretched_interval(estimate, draws, arms, confidence)
    return Interval(estimate, float(low), float(high))


def side_of_zero(interval: Interval, *, confidence: float = 0.95) -> int:
    """Return 1 if the interval of `difference` lies above 0, −1 if below, and 0 if neither is sure.

    The ends come from 10 000 random resamples. An end that is closer to 0 than three of its
    standard errors (2 % of the interval's width at 95 %) decides nothing, as other resamples might
    put it on the other side.

    Args:
        interval: The interval of a difference.
        confidence: That of the interval.

    Example:
        >>> narl.stats.side_of_zero(narl.stats.difference([1.0, 2.0, 3.0], [9.0, 8.0, 9.0]))
        -1
    """
    tail = (1.0 - confidence) / 2
    z = ndtri(1.0 - tail)
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    standard_error = np.sqrt(tail * (1.0 - tail) / NUM_RESAMPLES) / density
    _, low, high = interval
    if not np.isfinite(high - low):
        return 0
    closest = 3 * standard_error * (high - low) / (2 * z)
    return int(low > closest) - int(high < -closest)


def compare(
    x: ArrayLike, y: ArrayLike, *, paired: bool = False, confidence: float = 0.95
) -> Comparison:
    """Return differences, the probability of improvement and the detectable difference.

    A number for ``x`` or ``y`` is a fixed level, as in `difference`.

    Args:
        x: Values [seeds], or a number.
        y: Values [seeds] of the other algorithm, or a number.
        paired: Whether ``x`` and ``y`` have the same seeds in the same order.
        confidence: The share of samples whose intervals should hold the true values.

    Example:
        >>> comparison = narl.stats.compare([10.0, 12.0, 11.0, 13.0], [15.0, 14.0, 17.0, 16.0])
        >>> comparison.mean.estimate, comparison.seeds_needed, round(comparison.detectable, 2)
        (-4.0, 3.0, 3.07)
    """
    first, second, paired = _arms(x, y, paired=paired)
    mean = difference(x, y, paired=paired, confidence=confidence)
    num_seeds = min(first.size, second.size)
    if num_seeds == 1:
        std = np.inf
    elif paired:
        std = float((first - second).std(ddof=1))
    else:
        std = float(np.sqrt((first.var(ddof=1) + second.var(ddof=1)) / 2))
    return Comparison(
        mean,
        difference(x, y, statistic="iqm", paired=paired, confidence=confidence),
        improvement_interval(x, y, confidence=confidence),
        detectable_difference(std, num_seeds, paired=paired),
        seeds_to_detect(mean.estimate, std, paired=paired),
        num_seeds,
        paired,
    )


def detectable_difference(
    std: float,
    num_seeds: int,
    *,
    paired: bool = False,
    confidence: float = 0.95,
    power: float = 0.8,
) -> float:
    """Return the smallest difference of means that a two-sided t-test detects with this power.

    ``std`` is that of one arm, and ``num_seeds`` are in each of two arms; with ``paired`` it is
    the standard deviation of the differences seed by seed. One seed detects nothing: infinity.

    Args:
        std: The standard deviation over seeds of one arm; if ``paired``, of the differences.
        num_seeds: The number of seeds of each arm.
        paired: Whether both arms have the same seeds.
        confidence: 1 minus the level of the test.
        power: The probability with which the difference is detected.

    Example:
        >>> round(narl.stats.detectable_difference(0.2, 10), 3)
        0.265
    """
    if num_seeds < 2:
        return float("inf")
    freedom = num_seeds - 1 if paired else 2 * (num_seeds - 1)
    critical = stdtrit(freedom, 0.5 + confidence / 2)
    noncentrality = float(nctdtrinc(freedom, 1.0 - power, critical))
    return noncentrality * std * float(np.sqrt((1.0 if paired else 2.0) / num_seeds))


def seeds_to_detect(difference: float, std: float, *, paired: bool = False) -> float:
    """Return the smallest number of seeds (per arm) that detects a difference of the means.

    It is at least 2, and infinity for a difference of 0 or an infinite ``std``; confidence 0.95
    and power 0.8, as in `detectable_difference`.

    Args:
        difference: The difference of the means.
        std: The standard deviation over seeds of one arm; if ``paired``, of the differences.
        paired: Whether both arms have the same seeds.

    Example:
        >>> narl.stats.seeds_to_detect(0.1, 0.2)
        64.0
    """
    if difference == 0 or not np.isfinite(std):
        return float("inf")

    def detects(num_seeds: int) -> bool:
        return detectable_difference(std, num_seeds, paired=paired) <= abs(difference)

    low, high = 1, 2
    while not detects(high):
        low, high = high, 2 * high
        if high > MOST_SEEDS:
            return float("inf")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if detects(middle) else (middle, high)
    return float(high)


def _wins(x: Array, y: Array) -> Array:
    """Return [tasks, runs of x, runs of y]: 1 where x is lower, ½ where both are equal."""
    return (x[:, :, None] < y[:, None, :]) + 0.5 * (x[:, :, None] == y[:, None, :])


def _arms(x: ArrayLike, y: ArrayLike, *, paired: bool = False) -> tuple[Array, Array, bool]:
    """Return both samples as [tasks, runs], and whether they are paired; a level always is."""
    if np.ndim(x) == 0 or np.ndim(y) == 0:
        (x, y), paired = np.broadcast_arrays(x, y), True
    first, second = np.atleast_2d(numbers("x", x)), np.atleast_2d(numbers("y", y))
    if first.ndim != 2 or second.ndim != 2 or len(first) != len(second):
        raise InputError(
            f"y: shape {second.shape} against {first.shape} of x; "
            "both must be [runs] or [tasks, runs] with the same tasks"
        )
    if paired and first.shape != second.shape:
        raise InputError(
            f"y: {second.shape[1]} runs against {first.shape[1]} of x; paired samples must have "
            "the same seeds"
        )
    return first, second, paired
