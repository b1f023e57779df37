"""Made-up trainings: configurations, rows of metrics logs, and summaries."""

import dataclasses
from typing import Any

from narl.deep.checked_config import make_config
from narl.deep.config import Config
from narl.report.training_summary import TrainingSummary

POLE, TOY = "InvertedPendulum-v5", "toy_worlds:Toy-v0"
SECONDS = {"env": 1.04, "model": 2.0, "rollout": 3.0, "sac": 4.0, "eval": 5.0, "checkpoint": 6.0}
ALL_SECONDS = {"compile": 7.0, **SECONDS, "total": 30.0}
MEMBERS: dict[str, list[Any]] = {
    "holdout_error": [0.1, 0.3, 0.2],
    "selected": [0.5, 0.2, 0.3],
    "distance": [6.0, 3.0, 2.0],
    "fit_holdout_error": [[0.3, 0.2, 0.1], [0.1, 0.3, 0.2]],
    "fit_distance": [[5.0, 2.0, 3.0], [7.0, 4.0, 1.0]],
    "fit_selected_0.1": [[0.4, 0.3, 0.3], [0.2, 0.3, 0.5]],
    "fit_selected_5": [[0.6, 0.2, 0.2], [0.1, 0.6, 0.3]],
    "fit_selected_none": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
}
"""Metrics of three members for one seed; those of "fit_" for two fits in the epoch."""
NEWER = ("fit_", "mean_", "disagreement", "bonus")
"""Beginnings of the metrics that older versions did not record."""


def training(algo: str = "sac", env: str = POLE, **given: Any) -> Config:
    """Return a configuration, by default of SAC with one seed."""
    return make_config(env, algo, **given)


def metrics_rows(config: Config, *returns: list[float | None], **last: Any) -> list[dict[str, Any]]:
    """Return one epoch for each list of returns; there is a model from the second epoch on.

    Without returns there are three epochs; ``last`` changes the last one.
    """
    num_seeds, rows = len(config.seeds), []
    returns = returns or tuple([10.0 * epoch] * num_seeds for epoch in (1, 2, 3))
    for epoch, values in enumerate(returns, start=1):
        row = {"epoch": epoch, "step": 250 * epoch, "eval_return": values, "seconds": SECONDS}
        row["solved_step"] = [None] * num_seeds
        if config.uses_model and epoch > 1:
            row |= {
                "model_return": [x if x is None else x + 10 for x in values],
                "mean_model_return": [x if x is None else x + 20 for x in values],
                **{name: [of_members] * num_seeds for name, of_members in MEMBERS.items()},
                "fallback": [0.25] * num_seeds,
                "disagreement": [0.5] * num_seeds,
                "bonus": [0.1 if config.noise == "reward" else 0.0] * num_seeds,
            }
        rows.append(row)
    rows[-1] |= last
    return rows


def summary(
    config: Config, *returns: list[float | None], id_: str = "", **fields: Any
) -> TrainingSummary:
    """Return the summary of a finished training, unless ``seconds`` are None."""
    rows = metrics_rows(config, *returns)
    return TrainingSummary(id_ or config.run_id, config, rows, **{"seconds": ALL_SECONDS} | fields)


def as_older_run(training: TrainingSummary) -> TrainingSummary:
    """Return the training without the metrics that older versions did not record."""
    rows = [
        {name: x for name, x in row.items() if not name.startswith(NEWER)} for row in training.rows
    ]
    return dataclasses.replace(training, rows=rows)
