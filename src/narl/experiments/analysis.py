"""Numbers, tables and verdicts that several experiments share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from narl.decomposition import decompose
from narl.experiments.experiment import Result
from narl.report.document import Table, Verdict
from narl.stats import median_iqr


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
        for curve in decomposition_terms(result).values():
            cells += [float(x) for x in median_iqr(curve[:, -1])]
        v_star = result.run.metrics["v_star"]
        cells.append(float((result.array("value") >= v_star).mean()))
        cells.append(float(np.median(result.array("trajectory_gap").sum(axis=1))))
        rows.append(cells)
    columns = ["agent"]
    for name in ("regret", "optimism", "estimation error"):
        columns += [name, "25 %", "75 %"]
    return Table(
        id_,
        title,
        [*columns, "share of episodes with Ṽ ≥ V*", "trajectory gap"],
        rows,
        "Cumulative values after the last episode: median over seeds and quartiles. Regret = "
        "optimism + estimation error (Eq. 1) holds seed by seed; medians need not add up.",
    )


def episodes_to_solve(result: Result) -> Float[np.ndarray, " N"]:
    """Return the episode at which each seed solved Deep Sea; infinity if it did not."""
    return _infinite_if_none(result.run.metrics["solved_episode"])


def steps_to_solve(result: Result) -> Float[np.ndarray, " N"]:
    """Return the step of the evaluation that solved the task, per seed; infinity if none did."""
    return _infinite_if_none(result.run.metrics["solved_step"])


def is_below(x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray) -> Verdict:
    """Return whether x is smaller than y: decided if the quartile ranges over seeds are apart."""
    _, x25, x75 = median_iqr(np.asarray(x))
    _, y25, y75 = median_iqr(np.asarray(y))
    if x75 < y25:
        return "holds"
    if y75 <= x25:
        return "fails"
    return "undecided"


def needs_fewer_steps(x: Float[np.ndarray, " N"], y: Float[np.ndarray, " N"]) -> Verdict:
    """Return whether x needs fewer steps than y, by quartiles.

    One seed, or two algorithms that never solve the task, leave it undecided.
    """
    if min(len(x), len(y)) < 2:
        return "undecided"
    verdict = is_below(x, y)
    both_never = verdict == "fails" and not np.isfinite(median_iqr(y)[2])
    return "undecided" if both_never else verdict


def all_hold(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict on a conjunction: one failure fails it, one open part leaves it open."""
    if "fails" in verdicts:
        return "fails"
    return "undecided" if "undecided" in verdicts else "holds"


def mean_and_std(values: Float[np.ndarray, " N"]) -> list[float | None]:
    """Return the mean and the population standard deviation; None without enough values."""
    return [
        float(values.mean()) if len(values) else None,
        float(values.std()) if len(values) > 1 else None,
    ]


def spread(x: Sequence[float] | np.ndarray) -> str:
    """Return the median and the quartiles as text, such as "27 [23, 33]"."""
    median, q25, q75 = (
        f"{v:.4g}" if np.isfinite(v) else "never" for v in median_iqr(np.asarray(x))
    )
    return f"{median} [{q25}, {q75}]"


def list_steps(steps: Float[np.ndarray, " N"]) -> str:
    """Return the steps to solve of every seed as text."""
    return ", ".join(f"{step:.0f}" if np.isfinite(step) else "never" for step in steps)


def count_seeds(num_seeds: int) -> str:
    """Return the number of seeds as text: "one seed" or "10 seeds"."""
    return "one seed" if num_seeds == 1 else f"{num_seeds} seeds"


def _infinite_if_none(values: Sequence[float | None]) -> Float[np.ndarray, " N"]:
    return np.array([np.inf if value is None else float(value) for value in values])
