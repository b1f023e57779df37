"""Summaries over seeds: median and quartiles, interquartile mean, bootstrap intervals, growth.

Every function takes NumPy arrays and leaves them unchanged. NaN is refused; +inf is accepted
by the order statistics, where it means "never" (a task that was not solved).
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from narl.errors import InputError

Array = NDArray[np.float64]


class Growth(NamedTuple):
    """The exponent a of regret ≈ C·T^a, with a bootstrap interval [low, high] over seeds."""

    exponent: float
    low: float
    high: float


def median_iqr(x: ArrayLike, axis: int = 0) -> tuple[Array, Array, Array]:
    """Return the median and the quartiles (q25, q75) along `axis`.

    The q-quantile of x_(0) ≤ … ≤ x_(n−1) interpolates linearly at position q·(n−1), as
    `numpy.quantile` does, except that between two infinities it is infinite, not NaN.
    """
    ordered = np.sort(_numbers("x", x), axis=axis)
    return (
        _quantile(ordered, 0.5, axis),
        _quantile(ordered, 0.25, axis),
        _quantile(ordered, 0.75, axis),
    )


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
    """
    ordered = _numbers("x", x)
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
    """
    values = _numbers("x", x)
    if values.ndim not in (1, 2):
        raise InputError(f"x: {values.ndim} axes given; must be [runs] or [strata, runs]")
    if num_resamples < 1:
        raise InputError(f"num_resamples: {num_resamples} given; must be at least 1")
    if not 0.0 < confidence < 1.0:
        raise InputError(f"confidence: {confidence} given; must be between 0 and 1")
    generator = np.random.default_rng(seed)
    num_runs = values.shape[-1]
    draws = np.empty(num_resamples)
    for i in range(num_resamples):
        rows = generator.integers(num_runs, size=values.shape)
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
    """
    steps = _numbers("num_steps", num_steps)
    curves = np.atleast_2d(_numbers("regret", regret))
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


def probability_of_improvement(x: ArrayLike, y: ArrayLike) -> float:
    """Return P(X < Y) + ½·P(X = Y), the probability that a run of x is lower than one of y.

    It is the mean over all pairs of runs and, with [tasks, runs], over tasks.
    """
    first, second = np.atleast_2d(_numbers("x", x)), np.atleast_2d(_numbers("y", y))
    if first.ndim != 2 or second.ndim != 2 or len(first) != len(second):
        raise InputError(
            f"y: shape {second.shape} against {first.shape} of x; "
            "both must be [runs] or [tasks, runs] with the same tasks"
        )
    below = first[:, :, None] < second[:, None, :]
    equal = first[:, :, None] == second[:, None, :]
    return float((below + 0.5 * equal).mean())


def _numbers(name: str, x: ArrayLike) -> Array:
    """Return a float64 array with at least one value and no NaN, or raise."""
    array = np.asarray(x, dtype=np.float64)
    if array.size == 0 or array.ndim == 0:
        raise InputError(f"{name}: shape {array.shape} given; must be an array of values")
    if np.isnan(array).any():
        raise InputError(f"{name}: holds NaN; every value must be a number")
    return array
