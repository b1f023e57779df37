"""Curves of a training, made from the rows of its metrics log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from narl.report.document import Series
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

    Members are ranked in every epoch and then averaged over epochs: which member is the k-th
    differs between seeds and changes during a training.
    """
    error = np.array([row["holdout_error"] for row in rows], np.float64)
    order = np.argsort(-error, axis=-1, kind="stable")
    values = np.array([row[metric] for row in rows], np.float64)
    return np.take_along_axis(values, order, axis=-1).mean(axis=0)
