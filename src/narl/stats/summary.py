"""Summaries of one sample of seeds: quartiles, interquartile mean, interval, growth."""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from narl.errors import InputError

Array = NDArray[np.float64]

Statistic = Literal["mean", "iqm"]


class Interval(NamedTuple):
    """An estimate with its bootstrap interval [low, high].

    Example:
        >>> interval = narl.stats.difference([3.0, 4.0, 5.0, 4.0], [6.0, 7.0, 8.0, 7.0])
        >>> interval.estimate, interval.low < -3 < interval.high < 0
        (-3.0, True)
    """

    estimate: float
    """The statistic of the sample."""
    low: float
    """The lower end of the interval."""
    high: float
    """The upper end of the interval."""


class Growth(NamedTuple):
    """The exponent a of regret ≈ C·T^a, with a bootstrap interval [low, high] over seeds.

    Example:
        >>> growth = narl.stats.growth_exponent(np.arange(1, 101), 3 * np.arange(1, 101) ** 0.5)
        >>> round(growth.exponent, 3)
        0.5
    """

    exponent: float
    """The exponent a: 1 for regret that grows with T, ½ for regret that grows with √T."""
    low: float
    """The lower end of the interval."""
    high: float
    """The upper end of the interval."""


def median_iqr(x: ArrayLike, axis: int = 0) -> tuple[Array, Array, Array]:
    """Return the median and the quartiles (q25, q75) along `axis`.

    The q-quantile of x_(0) ≤ … ≤ x_(n−1) interpolates linearly at position q·(n−1), as
    `numpy.quantile` does, except that between two infinities it is infinite, not NaN.

    Args:
        x: Values of any shape, without NaN; +inf stands for "never".
        axis: The axis of the seeds.

    Example:
        >>> median, q25, q75 = narl.stats.median_iqr([1.0, 2.0, 3.0, np.inf])
        >>> float(median), float(q25), float(q75)
        (2.5, 1.75, inf)
    """
    ordered = np.sort(numbers("x", x), axis=axis)
    median, low, high = (_quantile(ordered, q, axis) for q in (0.5, 0.25, 0.75))
    return median, low, high


def _quantile(ordered: Array, q: float, axis: int) -> Array:
    position = q * (ordered.shape[axis] - 1)
    low = np.take(ordered, int(np.floor(position)), axis=axis)
    high = np.take(ordered, int(np.ceil(position)), axis=axis)
    # Where both ends are equal the step is 0; it is not formed as inf − inf.
    step = np.subtract(high, low, out=np.zeros_like(low), where=high != low)
    return low + (position % 1.0) * step if position % 1.0 else low


def iqm(x: ArrayLike, axis: int | None = None) -> Array:
    """Return the interquartile mean: the mean of the middle half of the values.

    Sorted, x_(i) stands for the mass [i/n, (i+1)/n], and w_i is the part of it inside
    [1/4, 3/4]; iqm = Σ w_i x_(i) / Σ w_i. When 4 divides n this drops the n/4 lowest and
    highest values; otherwise the two values at the edges count in part (n = 5: weights
    0, ¾, 1, ¾, 0 over 2.5), where a trimmed mean would drop only ⌊n/4⌋ values at each end.

    Args:
        x: Values of any shape, without NaN.
        axis: The axis of the seeds; None takes all values together.

    Example:
        >>> float(narl.stats.iqm([1.0, 2.0, 3.0, 100.0]))
        2.5
    """
    ordered = numbers("x", x)
    ordered = np.sort(ordered.ravel() if axis is None else np.moveaxis(ordered, axis, 0), axis=0)
    edges = np.arange(ordered.shape[0] + 1) / ordered.shape[0]
    weights = np.clip(np.minimum(edges[1:], 0.75) - np.maximum(edges[:-1], 0.25), 0.0, None)
    inside = weights > 1e-12  # rounding aside; a value outside may be infinite
    return np.tensordot(weights[inside], ordered[inside], axes=1) / weights[inside].sum()


def bootstrap_interval(
    x: ArrayLike,
    statistic: Callable[[Array], float | Array],
    *,
    num_resamples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> tuple[float, float]:
    """Return the percentile bootstrap interval of `statistic(x)`: (1 ± confidence)/2 quantiles.

    A 1-D `x` holds runs, resampled with replacement. A 2-D `x` is [strata, runs], a row per
    task: runs are resampled within each row (stratified bootstrap), so that every resample has
    all tasks. `statistic` maps an array of the shape of `x` to one number. Resamples for which it
    is NaN are left out; if it is always NaN, so is the interval.

    Args:
        x: Values [runs] or [tasks, runs].
        statistic: A function from an array of the shape of ``x`` to one number, such as `np.mean`.
        num_resamples: The number of resamples.
        confidence: The share of samples whose interval should hold the true value.
        seed: The seed of the resampling.

    Example:
        >>> narl.stats.bootstrap_interval([1.0, 2.0, 3.0, 4.0], np.mean)
        (1.5, 3.5)
    """
    values = numbers("x", x)
    if values.ndim not in (1, 2):
        raise InputError(f"x: {values.ndim} axes given; must be [runs] or [strata, runs]")
    if num_resamples < 1:
        raise InputError(f"num_resamples: {num_resamples} given; must be at least 1")
    if not 0.0 < confidence < 1.0:
        raise InputError(f"confidence: {confidence} given; must be between 0 and 1")
    generator = np.random.default_rng(seed)
    draws = np.empty(num_resamples)
    for i in range(num_resamples):
        rows = generator.integers(values.shape[-1], size=values.shape)
        draws[i] = statistic(np.take_along_axis(values, rows, axis=-1))
    draws = np.sort(draws[~np.isnan(draws)])
    if draws.size == 0:
        return float("nan"), float("nan")
    tail = (1.0 - confidence) / 2.0
    return float(_quantile(draws, tail, 0)), float(_quantile(draws, 1.0 - tail, 0))


def growth_exponent(
    num_steps: ArrayLike,
    regret: ArrayLike,
    *,
    num_points: int = 20,
    num_resamples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Growth:
    """Return the exponent a of the growth of cumulative regret, R(T) ≈ C·T^a.

    a is the least-squares slope of log R(T) against log T, R the mean regret over seeds, at
    `num_points` log-spaced T between T_max/2 and T_max (each the nearest recorded step, no
    step twice). The interval resamples seeds. `num_steps` is [points], increasing; `regret`
    is [seeds, points] or [points]. The exponent of a regret that is not positive there is NaN.

    Args:
        num_steps: The steps or episodes T at which the regret was recorded, [points].
        regret: Cumulative regret, [seeds, points] or [points].
        num_points: The number of values of T to which the slope is fitted.
        num_resamples: The number of bootstrap resamples.
        confidence: The share of samples whose interval should hold the true value.
        seed: The seed of the resampling.

    Example:
        >>> steps = np.arange(1, 1001)
        >>> growth = narl.stats.growth_exponent(steps, [2 * steps**0.5, 4 * steps**0.5])
        >>> round(growth.exponent, 3)
        0.5
    """
    steps = numbers("num_steps", num_steps)
    curves = np.atleast_2d(numbers("regret", regret))
    if steps.ndim != 1 or curves.ndim != 2 or curves.shape[1] != steps.size:
        raise InputError(
            f"regret: shape {curves.shape} given; must be [seeds, {steps.size}], "
            "one column per entry of num_steps"
        )
    if steps[0] <= 0 or np.any(np.diff(steps) <= 0):
        raise InputError("num_steps: must be positive and increasing")
    targets = np.geomspace(steps[-1] / 2.0, steps[-1], num_points)
    columns = np.unique(np.abs(steps[:, None] - targets).argmin(axis=0))
    columns = columns[steps[columns] >= steps[-1] / 2.0]
    if columns.size < 2:
        raise InputError("num_steps: fewer than 2 points between T_max/2 and T_max")
    log_steps = np.log(steps[columns])
    centred = log_steps - log_steps.mean()
    tail = curves[:, columns]

    def slope(rows: Array) -> float:
        mean = tail[rows.astype(int)].mean(axis=0)
        if np.any(mean <= 0.0):
            return float("nan")
        return float(centred @ np.log(mean) / (centred @ centred))

    seeds = np.arange(len(tail), dtype=np.float64)
    low, high = bootstrap_interval(
        seeds, slope, num_resamples=num_resamples, confidence=confidence, seed=seed
    )
    return Growth(slope(seeds), low, high)


def numbers(name: str, x: ArrayLike) -> Array:
    """Return a float64 array with at least one value and no NaN, or raise."""
    array = np.asarray(x, dtype=np.float64)
    if array.size == 0 or array.ndim == 0:
        raise InputError(f"{name}: shape {array.shape} given; must be an array of values")
    if np.isnan(array).any():
        raise InputError(f"{name}: holds NaN; every value must be a number")
    return array
