"""Readings of the optimistic choice among models (ours), compared on three tasks.

The seeds are kept for tuning, so nothing is claimed. `acrobot` compares the best reading of Acrobot
on fresh seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from narl.experiments.analysis import (
    RETURN_COLUMNS,
    capped,
    evaluation_returns,
    return_figures,
    steps_to_solve,
)
from narl.experiments.experiment import Experiment, Findings, Result, Scale, TaskSize
from narl.experiments.exploration import slug
from narl.experiments.fig3a import ENV, TINY
from narl.experiments.judgement import difference_table
from narl.report.contents import Table
from narl.report.series import count_seeds
from narl.report.training_curves import rows_with_model

if TYPE_CHECKING:
    from narl.deep.config import Config

Returns = Mapping[str, Float[np.ndarray, "N E"]]

TITLE = "Readings of the choice among models"
MBPO = "MBPO"
BALL: dict[str, Any] = {"preset": "paper"}
ABOVE: dict[str, Any] = {"exclude": "above"}
SPREAD: dict[str, Any] = {"radius": 1.0, "radius_unit": "spread"}
UPDATE: dict[str, Any] = {"optimism_at": "update"}
READINGS: dict[str, dict[str, Any]] = {
    MBPO: {},
    "above": ABOVE,
    "ball (the paper's reading)": BALL,
    "no radius": {"radius": None},
    "above, draws": ABOVE | {"score": "draw"},
    "above, spread": ABOVE | SPREAD,
    "update: above": ABOVE | UPDATE,
    "ball, draws": BALL | {"score": "draw"},
    "above, joint": ABOVE | {"joint": True},
    "ball, joint": BALL | {"joint": True},
    "ball, spread": BALL | SPREAD,
    "above, target critics": ABOVE | {"value_critics": "target"},
    "above, by return": ABOVE | {"exclude_by": "return"},
    "ball, random fallback": BALL | {"fallback": "random"},
    "above, annealed share": ABOVE | {"anneal_steps": 2000},
    "above, annealed radius": ABOVE | {"anneal_steps": 2000, "anneal": "radius"},
    "ball, annealed radius": BALL | {"anneal_steps": 2000, "anneal": "radius"},
    "update: ball": UPDATE | BALL,
    "update: no radius": UPDATE | {"radius": None},
    "update: above, draws": ABOVE | UPDATE | {"score": "draw"},
}
"""Options of every reading, beyond the task's preset."""
MAIN = tuple(READINGS)[:7]
"""The readings of the smaller scales."""
TWICE = (MBPO, "above", "ball (the paper's reading)", "no radius")
"""The control, the default before this one, the default, and the best reading after ten seeds.

On Acrobot the choice in the update was trained twice, too.
"""
FIRST_SEED, BLOCK = 200, 10
"""At the paper's scale a reading is trained in one or two runs of ten seeds each."""


class _Task(NamedTuple):
    """A task of the paper's scale."""

    env: str
    members: int
    steps: int
    twice: tuple[str, ...]
    """The readings with two runs."""
    readings: tuple[str, ...] = MAIN


TASKS = {
    "InvertedPendulum": _Task(ENV, 3, 3_000, tuple(READINGS), tuple(READINGS)),
    "Acrobot": _Task("Acrobot-v1", 5, 6_000, (*TWICE, "update: above")),
    "MountainCar": _Task("MountainCar-v0", 5, 6_000, TWICE),
}


_SIZES: dict[Scale, TaskSize] = {
    "smoke": TaskSize(("InvertedPendulum",), 1, TINY | {"steps": 600}),
    "small": TaskSize(("InvertedPendulum",), 1),
    "paper": TaskSize(tuple(TASKS), BLOCK),
}


def _labels(scale: Scale, task: str) -> dict[str, list[tuple[str, int]]]:
    """Return the labels and first seeds of every reading's runs on a task."""
    paper = scale == "paper"
    readings, twice = TASKS[task].readings if paper else MAIN, TASKS[task].twice if paper else ()
    firsts = FIRST_SEED, FIRST_SEED + BLOCK
    return {
        reading: [
            (f"{task}: {reading}, seeds from {first}", first)
            for first in firsts[: 1 + (reading in twice)]
        ]
        for reading in readings
    }


def _cell(task: str, reading: str, first_seed: int, size: TaskSize) -> Config:
    from narl.deep.checked_config import make_config

    env, members, steps, *_ = TASKS[task]
    seeds = tuple(range(first_seed, first_seed + size.num_seeds))
    shared = {"members": members, "steps": steps, "seeds": seeds, **size.options}
    if reading == MBPO:
        return make_config(env, "mbpo", **shared)
    # Acrobot's preset has no radius, so the default one is named.
    return make_config(env, "narl", **(shared | {"radius": 0.1} | READINGS[reading]))


def cells(scale: Scale) -> dict[str, Config]:
    """Return every reading on every task, with the same members and the same seeds."""
    size = _SIZES[scale]
    return {
        label: _cell(task, reading, first, size)
        for task in size.tasks
        for reading, labels in _labels(scale, task).items()
        for label, first in labels
    }


def _mean_of(runs: Sequence[Result], key: str) -> float | None:
    """Return the mean of a metric over epochs, seeds and runs; None if a run does not have it."""
    rows = [row for run in runs for row in rows_with_model(run.rows())]
    if not rows or not all(key in row for row in rows):
        return None
    return float(np.mean([row[key] for row in rows]))


def _table(task: str, runs: Mapping[str, list[Result]], returns: Returns, budget: int) -> Table:
    rows: list[list[Any]] = []
    for reading, found in runs.items():
        times = np.concatenate([steps_to_solve(run) for run in found])
        rows.append(
            [reading, len(times), int(np.isfinite(times).sum())]
            + [float(capped(times, budget).mean()), *return_figures(returns[reading])]
            + [_mean_of(found, "optimistic_share"), _mean_of(found, "optimistic_gain")]
        )
    rows.sort(key=lambda row: -row[4])
    return Table(
        f"choice-{slug(task)}",
        task,
        ["reading", "seeds", "seeds that solve it", "steps to solve", *RETURN_COLUMNS]
        + ["share of choices above the mean", "gain in standard deviations"],
        rows,
        f"In the order of the mean return over the training. A seed that did not solve {task} "
        f"counts as {budget} steps. The last two columns are means over the training of the "
        "metrics `optimistic_share` and `optimistic_gain`: how often the chosen state's value lies "
        "above the mean of the members' values, and by how much.",
    )


def analyse(scale: Scale, results: Mapping[str, Result]) -> Findings:
    """Return a table per task and the differences from MBPO; nothing is claimed on these seeds."""
    size = _SIZES[scale]
    tables, over_training = [], {}
    for task in size.tasks:
        runs = {
            reading: [results[label] for label, _ in labels]
            for reading, labels in _labels(scale, task).items()
        }
        returns = {
            reading: np.concatenate([evaluation_returns(run) for run in found])
            for reading, found in runs.items()
        }
        tables.append(_table(task, runs, returns, size.options.get("steps", TASKS[task].steps)))
        over_training[task] = {reading: values.mean(axis=1) for reading, values in returns.items()}
    counts = {task: count_seeds(len(values[MBPO])) for task, values in over_training.items()}
    return Findings(
        about="NARL with readings of the choice among models, and MBPO with as many members "
        f"({', '.join(f'{task}: {count}' for task, count in counts.items())}; from {FIRST_SEED} "
        "on; some readings have only the first ten). In the names, above and ball are what the "
        "radius excludes, and update is the choice "
        "in the target of every update (`--optimism-at update`). The seeds are kept for tuning: "
        "narl's default, the ball, was chosen by these tables; they prove nothing.",
        charts=[],
        tables=[
            *tables,
            difference_table(
                "choice-differences", over_training, MBPO, "return over the training", "reading"
            ),
        ],
        claims=[],
    )


EXPERIMENT = Experiment("choice", TITLE, cells, analyse)
