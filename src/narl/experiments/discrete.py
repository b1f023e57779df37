"""Tasks with discrete actions (ours): do NARL, MBPO and SAC learn them?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from narl.experiments.analysis import capped, evaluation_returns, list_steps, steps_to_solve
from narl.experiments.experiment import Experiment, Findings, Result, Scale, TaskSize
from narl.experiments.exploration import CHOICE, MBPO, NOISY, SAC, configure
from narl.experiments.fig3a import TINY
from narl.experiments.judgement import Judgement, Part, comparison_table, judge_lower
from narl.report.contents import Chart, Table
from narl.report.series import count_seeds, over_seeds
from narl.report.training_curves import curve

if TYPE_CHECKING:
    from narl.deep.config import Config

TITLE = "Tasks with discrete actions"
TASKS = {"CartPole-v1": 5_000, "Acrobot-v1": 6_000, "MountainCar-v0": 8_000}
"""The tasks and their environment steps."""
ALGORITHMS = (NOISY, CHOICE, MBPO, SAC)


_SIZES: dict[Scale, TaskSize] = {
    "smoke": TaskSize(("CartPole-v1",), 1, TINY | {"steps": 600, "initial_steps": 250}),
    "small": TaskSize(("CartPole-v1",), 1),
    "paper": TaskSize(tuple(TASKS), 5),
}


def cells(scale: Scale) -> dict[str, Config]:
    """Return every algorithm on every task, with the task's preset."""
    size = _SIZES[scale]
    seeds = tuple(range(size.num_seeds))
    return {
        f"{task}: {label}": configure(
            task, label, {"steps": TASKS[task], "seeds": seeds, **size.options}
        )
        for task in size.tasks
        for label in ALGORITHMS
    }


def _table(task: str, results: Mapping[str, Result]) -> Table:
    rows: list[list[Any]] = []
    for label, result in results.items():
        times, returns = steps_to_solve(result), evaluation_returns(result)
        last = returns[:, -1]
        rows.append(
            [label, int(np.isfinite(times).sum()), list_steps(times)]
            + [float(last.mean()), float(last.min()), float(returns.mean())]
        )
    return Table(
        f"discrete-{task.lower()}",
        f"{task}: seeds that solve it, and returns",
        ["algorithm", "seeds that solve it", "steps to solve, of every seed"]
        + ["final return", "worst seed's final return", "mean return over the training"],
        rows,
        f"Solved: the first evaluation with the return that counts as solved: "
        f"{_solved_return(results):g}.",
    )


def _solved_return(results: Mapping[str, Result]) -> float:
    return float(next(iter(results.values())).cell.solved_return)  # type: ignore[union-attr,arg-type]


def _judgements(
    tasks: Mapping[str, Mapping[str, Result]],
) -> dict[str, tuple[str, Judgement]]:
    """Return for every task whether each NARL needs fewer steps than MBPO."""
    judged = {}
    for task, results in tasks.items():
        budget = TASKS[task]
        steps = {label: capped(steps_to_solve(x), budget) for label, x in results.items()}
        for label, end in {NOISY: "noise", CHOICE: "choice"}.items():
            part = Part(label, steps[label], MBPO, steps[MBPO])
            judged[f"discrete-{task.lower()}-{end}"] = (
                f"{label} solves {task} in fewer steps than MBPO.",
                judge_lower([part], f"steps to solve, never = {budget}"),
            )
    return judged


def analyse(scale: Scale, results: Mapping[str, Result]) -> Findings:
    """Return learning curves and a table per task, and two claims per task."""
    size = _SIZES[scale]
    tasks = {
        task: {label: results[f"{task}: {label}"] for label in ALGORITHMS} for task in size.tasks
    }
    judged = _judgements(tasks)
    return Findings(
        about=f"SAC for discrete actions below every algorithm, {count_seeds(size.num_seeds)}, the "
        "options of the tasks' presets, which were chosen on other seeds.",
        charts=[
            Chart(
                f"discrete-{task.lower()}-returns",
                task,
                "environment steps",
                "return",
                [curve(label, result.rows(), "eval_return") for label, result in found.items()],
                reference=_solved_return(found),
                reference_label="solved",
                caption=f"{over_seeds(size.num_seeds)} Deterministic episodes after every epoch.",
            )
            for task, found in tasks.items()
        ],
        tables=[
            *(_table(task, found) for task, found in tasks.items()),
            comparison_table("discrete-comparisons", {id_: x for id_, (_, x) in judged.items()}),
        ],
        claims=[found.claim(id_, text, "ours") for id_, (text, found) in judged.items()],
    )


EXPERIMENT = Experiment("discrete", TITLE, cells, analyse)
