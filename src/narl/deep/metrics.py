"""Metrics of an epoch, one value per replica; docs/metrics.md gives the formula of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from narl.deep.algorithm import Assessment
from narl.deep.config import Config
from narl.deep.counters import Counters
from narl.deep.evaluation import Evaluation
from narl.deep.selection_diagnostics import RADII

CURVES = (
    *("eval_return", "eval_length", "train_return"),
    *("model_return", "mean_model_return", "estimation_error"),
)
"""The metrics that a run keeps as arrays too."""
RADIUS_NAMES = tuple("none" if np.isinf(radius) else f"{radius:g}" for radius in RADII)
"""The radii of Fig. 2 as they stand in the names of metrics."""


def epoch_metrics(
    config: Config, counters: Counters, evaluations: Sequence[Evaluation], assessment: Assessment
) -> dict[str, Any]:
    """Return the row of the metrics log: plain lists with one entry per replica."""
    returns = [float(np.mean(evaluation.returns)) for evaluation in evaluations]
    sums = assessment.loss_sums
    row: dict[str, Any] = {
        "epoch": -(-counters.step // config.epoch_length),
        "step": counters.step,
        "policy_step": max(counters.step - config.initial_steps, 0),
        "eval_return": returns,
        "eval_returns": [evaluation.returns for evaluation in evaluations],
        "eval_length": [float(np.mean(evaluation.lengths)) for evaluation in evaluations],
        "train_return": [float(np.mean(done)) if done else None for done in counters.finished],
        "episodes": list(counters.num_episodes),
        "solved_step": list(counters.solved_step),
        "value": assessment.value.mean(axis=1).tolist(),
        "updates": (sums.calls * config.updates_per_step).astype(int).tolist(),
    }
    for name, totals in sums.losses._asdict().items():
        pairs = zip(totals, sums.calls, strict=True)
        row[name] = [float(total / calls) if calls else None for total, calls in pairs]
    if config.uses_model:
        in_model = returns_in_model(assessment.model_returns, evaluations)
        in_means = returns_in_model(assessment.mean_model_returns, evaluations)
        row |= _model_metrics(config, counters, returns, in_model, in_means)
    row["seconds"] = dict(counters.seconds)
    return row


def returns_in_model(
    model_returns: Float[np.ndarray | Array, "N B H"], evaluations: Sequence[Evaluation]
) -> list[float]:
    """Return the mean return inside the model, per replica.

    Where the environment truncated a real episode, the return inside the model is taken over as
    many steps: an environment may truncate without a time limit that can be read from it.
    """
    means = []
    for sums, evaluation in zip(model_returns, evaluations, strict=True):
        lengths = zip(evaluation.lengths, evaluation.truncated, strict=True)
        ends = [min(length, sums.shape[1]) - 1 if cut else -1 for length, cut in lengths]
        means.append(float(np.mean([row[end] for row, end in zip(sums, ends, strict=True)])))
    return means


def _model_metrics(
    config: Config,
    counters: Counters,
    returns: list[float],
    in_model: list[float],
    in_means: list[float],
) -> dict[str, Any]:
    """Return the metrics of the ensemble, the selection and the return inside the model."""
    fitted = counters.step > config.initial_steps
    nothing: list[None] = [None] * len(returns)
    errors = [a - b for a, b in zip(in_model, returns, strict=True)]
    row: dict[str, Any] = {
        "model_return": in_model if fitted else nothing,
        "mean_model_return": in_means if fitted else nothing,
        "estimation_error": errors if fitted else nothing,
        "rollout_length": config.rollout_length_at(counters.step - 1),
    }
    if "fit" not in counters.reports:
        return row
    fit, sums = counters.reports["fit"], counters.reports["selections"]
    fits = counters.reports["diagnostics"]
    steps = np.maximum(sums.steps, 1.0)
    return row | {
        "model_epochs": fit.epochs.tolist(),
        "holdout_error": fit.holdout_error.tolist(),
        "imagined": sums.steps.tolist(),
        "selected": (sums.chosen / steps[:, None]).tolist(),
        "reward_selected": (sums.reward_chosen / steps[:, None]).tolist(),
        "distance": fits.distance.mean(axis=1).tolist(),
        "reward_distance": fits.reward_distance.mean(axis=1).tolist(),
        "value_distance": fits.value_distance.mean(axis=1).tolist(),
        "optimistic_share": fits.optimistic_share.mean(axis=1).tolist(),
        "optimistic_gain": fits.optimistic_gain.mean(axis=1).tolist(),
        "fallback": (sums.fallback / steps).tolist(),
        "reward_fallback": (sums.reward_fallback / steps).tolist(),
        "bonus": (sums.bonus / steps).tolist(),
        "disagreement": fits.disagreement.mean(axis=1).tolist(),
        "information": fits.information.mean(axis=1).tolist(),
        "collapsed": fit.collapsed.tolist(),
        "nonfinite": sums.nonfinite.tolist(),
        "fit_holdout_error": fits.holdout_error.tolist(),
        "fit_distance": fits.distance.tolist(),
        **{
            f"fit_selected_{name}": fits.selected_at[:, :, i].tolist()
            for i, name in enumerate(RADIUS_NAMES)
        },
    }


def curves(rows: Sequence[dict[str, Any]]) -> dict[str, np.ndarray]:
    """Return the arrays that charts need from the rows of a metrics log.

    "step" has shape [epochs], the others [epochs, seeds].
    """
    arrays = {"step": np.array([row["step"] for row in rows], np.int64)}
    for name in CURVES:
        if rows and name in rows[0]:
            values = [[np.nan if x is None else x for x in row[name]] for row in rows]
            arrays[name] = np.array(values, np.float64)
    return arrays


def rows_of_replicas(row: dict[str, Any], replicas: slice) -> dict[str, Any]:
    """Return a row of the metrics log for some replicas: every list has an entry for each."""
    return {name: x[replicas] if isinstance(x, list) else x for name, x in row.items()}
