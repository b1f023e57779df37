"""Noise on rewards that fades (ours): does less noise later keep what was found?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from jaxtyping import Float

from narl.experiments.analysis import RETURN_COLUMNS, evaluation_returns, return_figures
from narl.experiments.experiment import Experiment, Findings, Result, Scale, TaskSize
from narl.experiments.exploration import (
    FREE_PENDULUM,
    MOUNTAIN_CAR,
    NOISY,
    SMOKE,
    TASKS,
    chosen_options,
    make_cell,
    slug,
)
from narl.experiments.judgement import (
    Judgement,
    Part,
    comparison_table,
    difference_table,
    judge_lower,
)
from narl.report.contents import Chart, Table
from narl.report.series import count_seeds, over_seeds
from narl.report.training_curves import curve, rows_with_model

if TYPE_CHECKING:
    from narl.deep.config import Config

Later: TypeAlias = Mapping[str, Mapping[str, Float[np.ndarray, " N"]]]
"""The mean return of every seed in the second half of the training, by task and variant."""

TITLE = "Noise on rewards that fades"
LEARNED = {MOUNTAIN_CAR: 90.0, FREE_PENDULUM: 100.0}
"""The tasks, and the return from which on each counts as learned."""
PLAIN = "the noise as it is"
ANNEALED = "annealed over half of the training"
VARIANTS = (PLAIN, ANNEALED)
FIRST_SEED = 500


_SIZES: dict[Scale, TaskSize] = {
    "smoke": TaskSize((MOUNTAIN_CAR,), 1, SMOKE),
    "small": TaskSize((MOUNTAIN_CAR,), 1, {"steps": 5000}),
    "paper": TaskSize(tuple(LEARNED), 10),
}


def _cell(task: str, variant: str, size: TaskSize) -> Config:
    options = chosen_options(task, NOISY) | dict(size.options)
    if variant == ANNEALED:
        options["anneal_steps"] = options.get("steps", TASKS[task].steps) // 2
    seeds = tuple(range(FIRST_SEED, FIRST_SEED + size.num_seeds))
    return make_cell(task, NOISY, seeds, options)


def cells(scale: Scale) -> dict[str, Config]:
    """Return every variant on every task, with the same seeds."""
    size = _SIZES[scale]
    return {
        f"{task}: {variant}": _cell(task, variant, size)
        for task in size.tasks
        for variant in VARIANTS
    }


def _later(result: Result) -> Float[np.ndarray, "N E"]:
    """Return the evaluations in the second half of the training."""
    returns = evaluation_returns(result)
    return returns[:, returns.shape[1] // 2 :]


def _table(task: str, results: Mapping[str, Result]) -> Table:
    rows: list[list[Any]] = []
    for variant, result in results.items():
        later = _later(result)
        learned = later >= LEARNED[task]
        bonus = rows_with_model(result.rows())[-1]["bonus"]
        rows.append(
            [variant, *return_figures(evaluation_returns(result)), float(learned.mean())]
            + [int(learned.any(axis=1).sum()), int(learned.all(axis=1).sum())]
            + [float(later.mean(axis=0).min()), float(np.mean(bonus))]
        )
    return Table(
        f"fading-{slug(task)}",
        task.capitalize(),
        ["noise", *RETURN_COLUMNS]
        + ["share of later evaluations that are good", "seeds with a good one"]
        + ["seeds with good ones only", "lowest mean of a later evaluation"]
        + ["noise per imagined step at the end"],
        rows,
        "Later evaluations are those of the second half of the training, good ones have a return "
        f"of at least {LEARNED[task]:g}. The lowest mean is over the seeds.",
    )


def _judgements(later: Later) -> dict[str, tuple[str, Judgement]]:
    """Return for every task whether annealed noise keeps more, with the statement of the claim."""
    judged = {}
    for task, returns in later.items():
        # A larger return is a smaller loss.
        part = Part(ANNEALED, -returns[ANNEALED], PLAIN, -returns[PLAIN])
        judged[f"fading-{slug(task)}"] = (
            f"On {task}, NARL's noise on rewards has a larger return in the second half of the "
            "training if it is annealed over the first half.",
            judge_lower([part], "minus the return in the second half"),
        )
    return judged


def analyse(scale: Scale, results: Mapping[str, Result]) -> Findings:
    """Return curves and a table per task, the differences, and a claim per task."""
    size = _SIZES[scale]
    tasks = {
        task: {variant: results[f"{task}: {variant}"] for variant in VARIANTS}
        for task in size.tasks
    }
    later = {
        task: {variant: _later(result).mean(axis=1) for variant, result in by_variant.items()}
        for task, by_variant in tasks.items()
    }
    judged = _judgements(later)
    over = over_seeds(size.num_seeds)
    return Findings(
        about=f"NARL with noise on rewards, {count_seeds(size.num_seeds)} from {FIRST_SEED} on, on "
        "which nothing was tuned. The noise is that of `exploration`; annealed, it goes to 0 by the "
        "middle of the training.",
        charts=[
            Chart(
                f"fading-{slug(task)}-{name}",
                f"{task.capitalize()}: {title}",
                "environment steps",
                title,
                [curve(label, rows_with_model(x.rows()), key) for label, x in by_variant.items()],
                caption=f"{over} {caption}",
            )
            for task, by_variant in tasks.items()
            for name, key, title, caption in (
                ("returns", "eval_return", "return", "Deterministic episodes after every epoch."),
                ("noise", "bonus", "noise per imagined step", "The mean over imagined steps."),
            )
        ],
        tables=[
            *(_table(task, found) for task, found in tasks.items()),
            difference_table(
                "fading-differences", later, PLAIN, "return in the second half", "noise"
            ),
            comparison_table("fading-comparisons", {id_: x for id_, (_, x) in judged.items()}),
        ],
        claims=[found.claim(id_, text, "ours") for id_, (text, found) in judged.items()],
    )


EXPERIMENT = Experiment("fading", TITLE, cells, analyse)
