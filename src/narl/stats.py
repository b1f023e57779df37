"""Statistics over seeds: summaries, bootstrap intervals, differences, and what n seeds can detect.

Call `median_iqr` or `iqm` for a summary, `bootstrap_interval` or `aggregate_iqm` for one with an
interval, `compare` for two samples; these call `narl.resampling`, other modules need not.

NaN is refused; +inf, "never", is accepted by the order statistics. A bootstrap has a fixed seed.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import nctdtrinc, stdtrit

from narl.errors import InputError
from narl.lazy_names import export_definitions
from narl.resampling import (
    resample,
    resample_both,
    resampled_iqm,
    resampled_mean,
    stretched_interval,
)

Array = NDArray[np.float64]
Statistic = Literal["mean", "iqm"]
MOST_SEEDS = 10**7
"""Above this number of seeds a difference counts as 0: no experiment detects it."""


class Interval(NamedTuple):
    """An estimate with its bootstrap interval [low, high]."""

    estimate: float
    low: float
    high: float


class Comparison(NamedTuple):
    """The seeds of x against those of y: differences x − y, and what their number can detect."""

    mean: Interval
    """The difference of the means."""
    iqm: Interval
    """The difference of the interquartile means."""
    improvement: Interval
    """The probability that a run of x is lower than a run of y."""
    detectable: float
    """The smallest difference of the means that this number of seeds detects (power 0.8)."""
    seeds_needed: float
    """The number of seeds per arm that would detect a difference as large as the measured one."""
    num_seeds: int
    """The number of seeds of the smaller arm."""
    paired: bool
    """Whether the seeds are shared: then the differences of single seeds are compared."""


class Profile(NamedTuple):
    """A performance profile: the share of runs above each threshold, with pointwise intervals."""

    thresholds: Array
    share: Array
    low: Array
    high: Array


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
    first, second, _ = _arms(x, y)
    return float(_wins(first, second).mean())


def improvement_interval(
    x: ArrayLike, y: ArrayLike, *, paired: bool = False, confidence: float = 0.95
) -> Interval:
    """Return `probability_of_improvement` with its bootstrap interval, cut to [0, 1].

    Runs are resampled within each task; with ``paired`` the same seeds are drawn in both arms.
    """
    first, second, paired = _arms(x, y, paired=paired)
    wins = _wins(first, second)
    estimate = float(wins.mean())
    x_counts, y_counts = resample_both(first.shape, second.shape, paired)
    lower = np.einsum("btn,tnm->btm", x_counts, wins, optimize=True)
    pairs = first.shape[1] * second.shape[1]
    draws = np.einsum("btm,btm->b", lower, y_counts) / (pairs * len(first))
    arms = (first,) if paired else (first, second)
    low, high = stretched_interval(estimate, draws, arms, confidence)
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


def compare(
    x: ArrayLike, y: ArrayLike, *, paired: bool = False, confidence: float = 0.95
) -> Comparison:
    """Return differences, the probability of improvement and the detectable difference.

    A number for ``x`` or ``y`` is a fixed level, as in `difference`.
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
        improvement_interval(x, y, paired=paired, confidence=confidence),
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


def normalised_scores(scores: ArrayLike, low: ArrayLike, high: ArrayLike) -> Array:
    """Return (score − low)/(high − low) of [tasks, runs], with one low and one high per task."""
    values, bottom, top = _tasks(scores), _numbers("low", low), _numbers("high", high)
    if bottom.shape != (len(values),) or top.shape != bottom.shape:
        raise InputError(f"low, high: must each have {len(values)} values, one per task")
    if np.any(top == bottom):
        raise InputError("high: equals low for a task; must differ, as their distance is the unit")
    return (values - bottom[:, None]) / (top - bottom)[:, None]


def aggregate_iqm(scores: ArrayLike, *, confidence: float = 0.95) -> Interval:
    """Return the IQM over all runs of all tasks, [tasks, runs], with a stratified bootstrap."""
    values = _tasks(scores)
    estimate = float(iqm(values))
    draws = resampled_iqm(values, resample(values.shape, np.random.default_rng(0)))
    low, high = stretched_interval(estimate, draws, (values,), confidence)
    return Interval(estimate, float(low), float(high))


def performance_profile(
    scores: ArrayLike, thresholds: ArrayLike, *, confidence: float = 0.95
) -> Profile:
    """Return the share of runs of [tasks, runs] above each threshold, averaged over tasks."""
    values, levels = _tasks(scores), _numbers("thresholds", thresholds)
    above = (values.ravel()[:, None] > levels).astype(np.float64)
    counts = resample(values.shape, np.random.default_rng(0)).reshape(-1, values.size)
    share = above.mean(axis=0)
    draws = counts @ above / values.size
    low, high = stretched_interval(share, draws, (values,), confidence)
    return Profile(levels, share, np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0))


def _wins(x: Array, y: Array) -> Array:
    """Return [tasks, runs of x, runs of y]: 1 where x is lower, ½ where both are equal."""
    return (x[:, :, None] < y[:, None, :]) + 0.5 * (x[:, :, None] == y[:, None, :])


def _arms(x: ArrayLike, y: ArrayLike, *, paired: bool = False) -> tuple[Array, Array, bool]:
    """Return both samples as [tasks, runs], and whether they are paired; a level always is."""
    if np.ndim(x) == 0 or np.ndim(y) == 0:
        (x, y), paired = np.broadcast_arrays(x, y), True
    first, second = np.atleast_2d(_numbers("x", x)), np.atleast_2d(_numbers("y", y))
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


def _tasks(scores: ArrayLike) -> Array:
    """Return scores as [tasks, runs], or raise."""
    values = _numbers("scores", scores)
    if values.ndim != 2:
        raise InputError(f"scores: shape {values.shape} given; must be [tasks, runs]")
    return values


def _numbers(name: str, x: ArrayLike) -> Array:
    """Return a float64 array with at least one value and no NaN, or raise."""
    array = np.asarray(x, dtype=np.float64)
    if array.size == 0 or array.ndim == 0:
        raise InputError(f"{name}: shape {array.shape} given; must be an array of values")
    if np.isnan(array).any():
        raise InputError(f"{name}: holds NaN; every value must be a number")
    return array


export_definitions(__name__)
