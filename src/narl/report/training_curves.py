"""Curves of a training, made from the rows of its metrics log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from narl.report.contents import Series
from narl.report.series import mean_band

Rows = Sequence[dict[str, Any]]
"""The rows of a metrics log: one per epoch, and in it a list over the seeds for every metric."""


def rows_with_model(rows: Rows) -> Rows:
    """Return the rows of the epochs in which there was a trained ensemble."""
    return [row for row in rows if "holdout_error" in row]


def curve(label: str, rows: Rows, metric: str) -> Series:
    """Return a metric against environment steps: mean ± one standard deviation over seeds."""
    values = np.array([[np.nan if x is None else float(x) for x in row[metric]] for row in rows])
    return mean_band(label, [float(row["step"]) for row in rows], values.T)


def by_accuracy(rows: Rows, metric: str) -> Float[np.ndarray, "N M"]:
    """Return a metric of the members per seed, the member with the largest held-out error first.

    Members are ranked after every fit by the errors of this fit, and then averaged over fits:
    which member is the k-th differs between seeds and changes during a training. A metric that the
    rows have per epoch only is ranked by the mean error over the fits of the epoch.
    """
    return np.concatenate([_ranked(row, metric) for row in rows], axis=1).mean(axis=1)


def _ranked(row: dict[str, Any], metric: str) -> Float[np.ndarray, "N F M"]:
    """Return a metric of the members by seed, fit and rank, or with one entry for the epoch."""
    per_fit = f"fit_{metric}"
    if "fit_holdout_error" in row:
        error = np.array(row["fit_holdout_error"], np.float64)
    else:  # an older run, which recorded the last fit of the epoch
        error = np.array(row["holdout_error"], np.float64)[:, None]
    if per_fit in row:
        values = np.array(row[per_fit], np.float64)
    else:
        error = error.mean(axis=1, keepdims=True)
        values = np.array(row[metric], np.float64)[:, None]
    order = np.argsort(-error, axis=-1, kind="stable")
    return np.take_along_axis(values, order, axis=-1)
