"""What an epoch tells, per lane; every figure is explained in docs/metrics.md."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from narl.deep.algorithm import Judgement, Tally
from narl.deep.config import Settings
from narl.deep.counters import Books
from narl.deep.evaluation import Evaluation


def epoch_row(
    settings: Settings,
    books: Books,
    evaluations: Sequence[Evaluation],
    judgement: Judgement,
    tally: Tally,
) -> dict[str, Any]:
    """One line of the journal: plain lists, one entry per lane."""
    returns = [float(np.mean(evaluation.returns)) for evaluation in evaluations]
    promised = promised_returns(judgement, evaluations)
    calls = np.maximum(tally.calls, 1.0)
    row: dict[str, Any] = {
        "epoch": -(-books.step // settings.epoch_length),
        "step": books.step,
        "policy_step": max(books.step - settings.initial_steps, 0),
        "eval_return": returns,
        "eval_returns": [evaluation.returns for evaluation in evaluations],
        "eval_length": [float(np.mean(evaluation.lengths)) for evaluation in evaluations],
        "train_return": [float(np.mean(done)) if done else None for done in books.finished],
        "episodes": list(books.num_episodes),
        "solved_step": list(books.solved_step),
        "value": judgement.value.mean(axis=1).tolist(),
        "updates": (tally.calls * settings.updates_per_step).astype(int).tolist(),
    }
    for name, total in tally.losses._asdict().items():
        row[name] = [
            t / c if n else None for t, c, n in zip(total, calls, tally.calls, strict=True)
        ]
        row[name] = [None if x is None else float(x) for x in row[name]]
    if settings.uses_model:
        # Before its first training the model promises nothing.
        trained = books.step > settings.initial_steps
        errors = [a - b for a, b in zip(promised, returns, strict=True)]
        row["model_return"] = promised if trained else [None] * len(promised)
        row["estimation_error"] = errors if trained else [None] * len(promised)
        row |= _of_the_model(settings, books)
    row["seconds"] = dict(books.seconds)
    return row


def promised_returns(judgement: Judgement, evaluations: Sequence[Evaluation]) -> list[float]:
    """The return inside the model, per lane; over as many steps where an episode was cut for real.

    An environment may cut its episodes without a time limit that can be read from it, or earlier.
    """
    found = []
    for sums, (_, lengths, truncated) in zip(judgement.model_returns, evaluations, strict=True):
        ends = [
            min(length, sums.shape[1]) - 1 if cut else -1
            for length, cut in zip(lengths, truncated, strict=True)
        ]
        found.append(float(np.mean([one[end] for one, end in zip(sums, ends, strict=True)])))
    return found


def _of_the_model(settings: Settings, books: Books) -> dict[str, Any]:
    """What the ensemble and the selection did in this epoch; nothing before the first training."""
    row: dict[str, Any] = {"rollout_length": settings.rollout_length_at(books.step - 1)}
    if "fit" not in books.reports:
        return row
    fit, sums = books.reports["fit"], books.reports["selections"]
    steps = np.maximum(sums.steps, 1.0)
    return row | {
        "model_epochs": fit.epochs.tolist(),
        "holdout_error": fit.holdout_error.tolist(),
        "imagined": sums.steps.tolist(),
        "selected": (sums.chosen / steps[:, None]).tolist(),
        "reward_selected": (sums.reward_chosen / steps[:, None]).tolist(),
        "distance": (sums.distance / steps[:, None]).tolist(),
        "value_distance": (sums.value_distance / steps[:, None]).tolist(),
        "fallback": (sums.fallback / steps).tolist(),
        "nonfinite": sums.nonfinite.tolist(),
    }
