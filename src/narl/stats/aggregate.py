"""Many tasks together: normalised scores, their interquartile mean, performance profiles."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from narl.errors import InputError
from narl.stats.resampling import resample, resampled_iqm, stretched_interval
from narl.stats.summary import Array, Interval, iqm, numbers


class Profile(NamedTuple):
    """A performance profile: the share of runs above each threshold, with pointwise intervals.

    Example:
        >>> profile = narl.stats.performance_profile([[0.2, 0.6], [0.4, 0.9]], [0.0, 0.5, 1.0])
        >>> profile.share
        array([1. , 0.5, 0. ])
    """

    thresholds: Array
    """The thresholds, [points]."""
    share: Array
    """The share of runs above each threshold."""
    low: Array
    """The lower ends of the intervals."""
    high: Array
    """The upper ends of the intervals."""


def normalised_scores(scores: ArrayLike, low: ArrayLike, high: ArrayLike) -> Array:
    """Return (score − low)/(high − low) of [tasks, runs], with one low and one high per task.

    Args:
        scores: Scores [tasks, runs].
        low: The score that becomes 0, one per task.
        high: The score that becomes 1, one per task.

    Example:
        >>> narl.stats.normalised_scores([[0.0, 50.0], [-10.0, 10.0]], [0.0, -10.0], [100.0, 10.0])
        array([[0. , 0.5],
               [0. , 1. ]])
    """
    values, bottom, top = _tasks(scores), numbers("low", low), numbers("high", high)
    if bottom.shape != (len(values),) or top.shape != bottom.shape:
        raise InputError(f"low, high: must each have {len(values)} values, one per task")
    if np.any(top == bottom):
        raise InputError("high: equals low for a task; must differ, as their distance is the unit")
    return (values - bottom[:, None]) / (top - bottom)[:, None]


def aggregate_iqm(scores: ArrayLike, *, confidence: float = 0.95) -> Interval:
    """Return the IQM over all runs of all tasks, [tasks, runs], with a stratified bootstrap.

    Args:
        scores: Scores [tasks, runs], such as those of `normalised_scores`.
        confidence: The share of samples whose interval should hold the true value.

    Example:
        >>> interval = narl.stats.aggregate_iqm([[0.1, 0.5, 0.6, 0.9], [0.2, 0.5, 0.6, 0.8]])
        >>> round(interval.estimate, 3), interval.low < 0.55 < interval.high
        (0.55, True)
    """
    values = _tasks(scores)
    estimate = float(iqm(values))
    draws = resampled_iqm(values, resample(values.shape, np.random.default_rng(0)))
    low, high = stretched_interval(estimate, draws, (values,), confidence)
    return Interval(estimate, float(low), float(high))


def performance_profile(
    scores: ArrayLike, thresholds: ArrayLike, *, confidence: float = 0.95
) -> Profile:
    """Return the share of runs of [tasks, runs] above each threshold, averaged over tasks.

    Args:
        scores: Scores [tasks, runs], such as those of `normalised_scores`.
        thresholds: The thresholds τ, [points].
        confidence: The confidence of the interval at each threshold.

    Example:
        >>> profile = narl.stats.performance_profile([[0.2, 0.6], [0.4, 0.9]], [0.3, 0.5, 0.7])
        >>> profile.share
        array([0.75, 0.5 , 0.25])
    """
    values, levels = _tasks(scores), numbers("thresholds", thresholds)
    above = (values.ravel()[:, None] > levels).astype(np.float64)
    counts = resample(values.shape, np.random.default_rng(0)).reshape(-1, values.size)
    share = above.mean(axis=0)
    draws = counts @ above / values.size
    low, high = stretched_interval(share, draws, (values,), confidence)
    return Profile(levels, share, np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0))


def _tasks(scores: ArrayLike) -> Array:
    """Return scores as [tasks, runs], or raise."""
    values = numbers("scores", scores)
    if values.ndim != 2:
        raise InputError(f"scores: shape {values.shape} given; must be [tasks, runs]")
    return values
