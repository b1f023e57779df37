"""Numbers, charts and tables that several experiments share."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from narl.decomposition import decompose
from narl.experiments.experiment import Result
from narl.report.contents import Chart, Table
from narl.report.number_format import format_number
from narl.report.series import interval_series, profile_series
from narl.stats import aggregate_iqm


def cumulative_regret(result: Result) -> Float[np.ndarray, "N K"]:
    """Return Σ_{j≤k} V(π*) − V(π_j) per seed."""
    return np.cumsum(result.array("regret"), axis=1)


def final_regret(result: Result) -> Float[np.ndarray, " N"]:
    """Return the regret after the last episode, per seed."""
    return result.array("regret").sum(axis=1)


def decomposition_terms(result: Result) -> dict[str, Float[np.ndarray, "N K"]]:
    """Return cumulative regret, optimism and estimation error (Eq. 1) per seed."""
    v_star = result.run.metrics["v_star"]
    parts = decompose(v_star, result.array("value"), v_star - result.array("regret"))
    return parts.cumulative()._asdict()


def decomposition_table(id_: str, title: str, results: Mapping[str, Result]) -> Table:
    """Return the table of the terms of Eq. 1 after the last episode, for every agent."""
    rows = []
    for label, result in results.items():
        cells: list[str | float] = [label]
        terms = decomposition_terms(result)
        worst = int(np.argmax(terms["regret"][:, -1]))
        for curve in terms.values():
            last = curve[:, -1]
            cells += [float(np.median(last)), float(last.mean()), float(last[worst])]
        v_star = result.run.metrics["v_star"]
        cells.append(float((result.array("value") >= v_star).mean()))
        cells.append(float(np.median(result.array("trajectory_gap").sum(axis=1))))
        rows.append(cells)
    columns = ["agent"]
    for name in ("regret", "optimism", "estimation error"):
        columns += [f"{kind} {name}" for kind in ("median", "mean", "worst seed's")]
    return Table(
        id_,
        title,
        [*columns, "share of episodes with Ṽ ≥ V*", "trajectory gap"],
        rows,
        "Cumulative values after the last episode: median and mean over seeds, and the seed with "
        "the largest regret. Regret = optimism + estimation error (Eq. 1) holds for every seed and "
        "for the means; medians need not add up.",
    )


def episodes_to_solve(result: Result) -> Float[np.ndarray, " N"]:
    """Return the episode at which each seed solved Deep Sea; infinity if it did not."""
    return _infinite_if_none(result.run.metrics["solved_episode"])


def steps_to_solve(result: Result) -> Float[np.ndarray, " N"]:
    """Return the step of the evaluation that solved the task, per seed; infinity if none did."""
    return _infinite_if_none(result.run.metrics["solved_step"])


def capped(times: Float[np.ndarray, " N"], budget: float) -> Float[np.ndarray, " N"]:
    """Return times to solve in which a seed that never solved the task counts as the budget.

    The mean is then the mean time up to the budget, and no seed is left out.
    """
    return np.minimum(times, budget)


def solving_charts(
    prefix: str, steps: Mapping[str, Float[np.ndarray, " N"]], budget: int
) -> list[Chart]:
    """Return the IQM of the steps to solve a task, and the share of seeds that solved it by a step.

    The list is empty for a single seed, which has no interval.
    """
    if any(len(times) < 2 for times in steps.values()):
        return []
    iqms = {label: aggregate_iqm(capped(times, budget)[None]) for label, times in steps.items()}
    at = np.linspace(0, budget, 1 + min(budget // 50, 200))
    shares = []
    for label, times in steps.items():
        # A score above −(t + ½) is a time of t at most; a seed that never solves has none of these.
        profile = profile_series(label, -capped(times, budget + 1.0)[None], -(at + 0.5))
        shares.append(dataclasses.replace(profile, x=at.tolist()))
    return [
        Chart(
            f"{prefix}-iqm",
            "Steps to solve: interquartile mean",
            "",
            "steps to solve, interquartile mean",
            [interval_series(label, interval) for label, interval in iqms.items()],
            caption="The mean of the middle half of the seeds with its 95 % bootstrap interval. "
            f"A seed that did not solve the task counts as {budget} steps.",
        ),
        Chart(
            f"{prefix}-profile",
            "Seeds that have solved the task",
            "environment steps",
            "share of seeds",
            shares,
            caption="Performance profile: the share of seeds that solved the task within so many "
            "steps, with pointwise 95 % bootstrap intervals.",
        ),
    ]


def mean_and_std(values: Float[np.ndarray, " N"]) -> list[float | None]:
    """Return the mean and the population standard deviation; None without enough values."""
    return [
        float(values.mean()) if len(values) else None,
        float(values.std()) if len(values) > 1 else None,
    ]


def median_mean_worst(values: Float[np.ndarray, " N"]) -> str:
    """Return the median, the mean and the largest value over seeds as text, "1.5 / 1.7 / 3".

    Infinity is "never".
    """
    figures = (float(np.median(values)), float(np.mean(values)), float(np.max(values)))
    return " / ".join(format_number(x) if np.isfinite(x) else "never" for x in figures)


def list_steps(steps: Float[np.ndarray, " N"]) -> str:
    """Return the steps to solve of every seed as text."""
    return ", ".join(f"{step:.0f}" if np.isfinite(step) else "never" for step in steps)


def evaluation_returns(result: Result) -> Float[np.ndarray, "N E"]:
    """Return the evaluation returns [seeds, epochs] of a training."""
    return result.array("eval_return").T


RETURN_COLUMNS = ["mean return over the training", "worst seed's mean return", "final return"]
"""The columns of a table with the numbers of `return_figures`."""


def return_figures(returns: Float[np.ndarray, "N E"]) -> list[float]:
    """Return the mean over the training, the worst seed's, and the mean final return."""
    means = returns.mean(axis=1)
    return [float(means.mean()), float(means.min()), float(returns[:, -1].mean())]


def _infinite_if_none(values: Sequence[float | None]) -> Float[np.ndarray, " N"]:
    return np.array([np.inf if value is None else float(value) for value in values])
