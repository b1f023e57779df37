"""The options with which `exploration` compares the algorithms (ours).

Every algorithm has one option that decides how optimistic it is. Here it is chosen per task, on
seeds of its own: the value with the largest mean return over the training.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from narl.experiments.analysis import evaluation_returns, return_figures
from narl.experiments.experiment import Experiment, Findings, Result, Scale, TaskSize
from narl.experiments.exploration import (
    ALGORITHMS,
    ARM,
    CART_POLE,
    CHOSEN,
    DIALS,
    MEMBERS,
    MOUNTAIN_CAR,
    PENDULUM,
    PUSHER,
    REACHER,
    SAC,
    SMOKE,
    make_cell,
    slug,
)
from narl.report.contents import Table

if TYPE_CHECKING:
    from narl.deep.config import Config

TITLE = "When does optimism pay? The options, tuned"
FIRST_SEED, NUM_SEEDS = 200, 3
STEPS = {
    MOUNTAIN_CAR: 8_000,
    PENDULUM: 8_000,
    CART_POLE: 30_000,
    REACHER: 8_000,
    ARM: 7_500,
    PUSHER: 7_500,
}
"""The tasks on which options are tuned, and their environment steps."""


TRIED: list[tuple[str, str, Any]] = [
    (algorithm, name, value)
    for algorithm in ALGORITHMS
    if algorithm != SAC  # has no option, and a program of its own
    for name, values in [DIALS.get(algorithm, ("", ("",)))]
    for value in values
]
"""Algorithm, option and value of every setting; algorithms without an option are there once."""


_SIZES: dict[Scale, TaskSize] = {
    "smoke": TaskSize((MOUNTAIN_CAR,), 1, SMOKE),
    "small": TaskSize((MOUNTAIN_CAR,), 1, {"steps": 4000}),
    "paper": TaskSize(tuple(CHOSEN), NUM_SEEDS),
}


def cells(scale: Scale) -> dict[str, Config]:
    """Return every value of every algorithm's option, on every task."""
    size = _SIZES[scale]
    return {
        label: cell
        for task in size.tasks
        for label, cell in task_cells(task, size.num_seeds, size.options).items()
    }


def task_cells(
    task: str, num_seeds: int = NUM_SEEDS, options: Mapping[str, Any] | None = None
) -> dict[str, Config]:
    """Return the configurations of one task."""
    seeds = tuple(range(FIRST_SEED, FIRST_SEED + num_seeds))
    shared = {"steps": STEPS[task], **(options or {})}
    return {
        _label(task, algorithm, name, value): make_cell(
            task, algorithm, seeds, shared | ({name: value} if name else {})
        )
        for algorithm, name, value in TRIED
    }


def _label(task: str, algorithm: str, name: str, value: Any) -> str:
    shown = "none" if value is None else f"{value:g}" if isinstance(value, float) else value
    return f"{task}: {algorithm}" + (f", {name} {shown}" if name else "")


def choose(task: str, results: Mapping[str, Result]) -> dict[str, Any]:
    """Return the value of every algorithm's option with the largest mean return, the default first.

    The mean is over seeds and the evaluations of the whole training.
    """
    chosen = {}
    for algorithm, (name, values) in DIALS.items():
        scores = [
            float(evaluation_returns(results[_label(task, algorithm, name, value)]).mean())
            for value in values
        ]
        chosen[algorithm] = values[int(np.argmax(scores))]
    return chosen


def _table(task: str, results: Mapping[str, Result]) -> Table:
    chosen = choose(task, results)
    rows: list[list[Any]] = []
    for algorithm, name, value in TRIED:
        returns = evaluation_returns(results[_label(task, algorithm, name, value)])
        shown = "none" if value is None else value
        is_chosen = "chosen" if name and chosen[algorithm] == value else ""
        rows.append([algorithm, name, shown, *return_figures(returns), is_chosen])
    return Table(
        f"exploration-tuning-{slug(task)}",
        f"Options tried: {task}",
        ["algorithm", "option", "value", "mean return over the training", "worst seed's mean"]
        + ["final return", ""],
        rows,
        "The first value of an option is its default; it stays where no other value is better.",
    )


def analyse(scale: Scale, results: Mapping[str, Result]) -> Findings:
    """Return one table per task; nothing is claimed on these seeds."""
    size = _SIZES[scale]
    last = FIRST_SEED + size.num_seeds - 1
    seeds = f"seeds {FIRST_SEED} to {last}" if size.num_seeds > 1 else f"seed {FIRST_SEED}"
    return Findings(
        about=f"Every algorithm with {MEMBERS} members and every value of its option, {seeds}. "
        "`exploration` takes the chosen values and other seeds.",
        charts=[],
        tables=[_table(task, results) for task in size.tasks],
        claims=[],
    )


EXPERIMENT = Experiment("exploration-tuning", TITLE, cells, analyse)
