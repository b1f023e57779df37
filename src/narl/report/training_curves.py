"""What experiments of the deep half read in the journals of their trainings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from narl.experiments.analysis import below
from narl.experiments.experiment import Result
from narl.report.document import Series, Verdict
from narl.stats import median_iqr

Rows = Sequence[dict[str, Any]]
"""A journal: one entry per epoch, and in it a list over the seeds."""


def modelled(rows: Rows) -> Rows:
    """The epochs in which there was a trained ensemble."""
    return [row for row in rows if "holdout_error" in row]


def curve(label: str, rows: Rows, name: str) -> Series:
    """A figure of every epoch against environment steps: mean ± one std over seeds."""
    values = np.array([[_number(x) for x in row[name]] for row in rows])
    return around_mean(label, [float(row["step"]) for row in rows], values.T)


def around_mean(label: str, x: list[float], values: Float[np.ndarray, "N K"]) -> Series:
    """Mean ± one population standard deviation over seeds; a single seed has no band."""
    mean, std = values.mean(axis=0), values.std(axis=0)
    if len(values) < 2:
        return Series(label, x, mean.tolist())
    return Series(label, x, mean.tolist(), (mean - std).tolist(), (mean + std).tolist())


def by_accuracy(rows: Rows, name: str) -> Float[np.ndarray, "N M"]:
    """Per seed, a figure of the members in the order of falling held-out error.

    Members are ranked anew in every epoch, then epochs are averaged: the k-th entry tells of
    whoever was k-th, as which member that is differs between seeds and changes on the way.
    """
    error = np.array([row["holdout_error"] for row in rows], np.float64)
    order = np.argsort(-error, axis=-1, kind="stable")
    values = np.array([row[name] for row in rows], np.float64)
    return np.take_along_axis(values, order, axis=-1).mean(axis=0)


def steps_to_solve(result: Result) -> Float[np.ndarray, " N"]:
    """Per seed, the environment step of the evaluation that solved it; infinity if none did."""
    return np.array([_number(x, np.inf) for x in result.run.metrics["solved_step"]])


def fewer(x: Float[np.ndarray, " N"], y: Float[np.ndarray, " N"]) -> Verdict:
    """Does x need fewer steps than y? By quartiles; open with one seed, or if both never end."""
    if min(len(x), len(y)) < 2:
        return "undecided"
    verdict = below(x, y)
    both_never = verdict == "fails" and not np.isfinite(median_iqr(y)[2])
    return "undecided" if both_never else verdict


def listed(steps: Float[np.ndarray, " N"]) -> str:
    """Steps to solve, seed by seed."""
    return ", ".join(f"{step:.0f}" if np.isfinite(step) else "never" for step in steps)


def _number(value: float | None, missing: float = np.nan) -> float:
    return missing if value is None else float(value)
