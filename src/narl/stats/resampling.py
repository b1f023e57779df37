"""Resampling of seeds: the counts of a bootstrap, statistics of them, and intervals.

A resample is kept as the number of times that each run is drawn, so that a statistic of all
resamples is one product of matrices.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from narl.errors import InputError

Array = NDArray[np.float64]
NUM_RESAMPLES = 10_000


def resampled_mean(values: Array, counts: Array) -> Array:
    """Return the mean of [tasks, runs] for every resample in counts [resamples, tasks, runs]."""
    return counts.reshape(len(counts), -1) @ values.ravel() / values.size


def resampled_iqm(values: Array, counts: Array) -> Array:
    """Return the interquartile mean of [tasks, runs] for every resample in ``counts``."""
    order = np.argsort(values, axis=None)
    mass = counts.reshape(len(counts), -1)[:, order] / values.size
    upper = np.cumsum(mass, axis=1)
    weights = np.clip(np.minimum(upper, 0.75) - np.maximum(upper - mass, 0.25), 0.0, None)
    return weights @ values.ravel()[order] / 0.5


def resample(shape: tuple[int, ...], generator: np.random.Generator) -> Array:
    """Return how often each run of [tasks, runs] is drawn: [resamples, tasks, runs]."""
    num_tasks, num_runs = shape
    rows = NUM_RESAMPLES * num_tasks
    drawn = (
        generator.integers(num_runs, size=(rows, num_runs)) + num_runs * np.arange(rows)[:, None]
    )
    counts = np.bincount(drawn.ravel(), minlength=rows * num_runs)
    return counts.reshape(NUM_RESAMPLES, num_tasks, num_runs).astype(np.float64)


def resample_both(
    x_shape: tuple[int, ...], y_shape: tuple[int, ...], paired: bool
) -> tuple[Array, Array]:
    """Return the counts of the resamples of both arms, the same ones if they are paired."""
    generator = np.random.default_rng(0)
    x_counts = resample(x_shape, generator)
    return x_counts, x_counts if paired else resample(y_shape, generator)


def stretched_interval(
    estimate: float | Array, draws: Array, arms: Sequence[Array], confidence: float
) -> tuple[Array, Array]:
    """Return both ends of the percentile interval of draws, stretched about the estimate.

    The factor is √(n/(n−1))·t/z, where n is the smallest number of runs of an arm [tasks, runs]:
    the variance of a bootstrap is too small by (n−1)/n, and its quantiles are those of a normal
    distribution (z) and not of Student's (t). The interval of a single run is infinite.
    """
    if not 0.0 < confidence < 1.0:
        raise InputError(f"confidence: {confidence} given; must be between 0 and 1")
    num_runs = min(arm.shape[1] for arm in arms)
    if num_runs < 2:
        return np.full_like(estimate, -np.inf), np.full_like(estimate, np.inf)
    tail = 0.5 + confidence / 2
    freedom = sum(arm.size - len(arm) for arm in arms)
    factor = np.sqrt(num_runs / (num_runs - 1)) * stdtrit(freedom, tail) / ndtri(tail)
    ends = np.quantile(draws, [1.0 - tail, tail], axis=0)
    low, high = estimate + factor * (ends - estimate)
    return low, high
