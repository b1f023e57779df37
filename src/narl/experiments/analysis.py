"""Charts, tables and verdicts that several experiments share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from narl.decomposition import decompose
from narl.experiments.experiment import Result
from narl.report.document import Series, Table, Verdict
from narl.stats import median_iqr

POINTS = 200
"""Points kept of a curve: enough for the eye, small enough to commit."""


def thin(length: int, *, log: bool = False) -> np.ndarray:
    """Indices of at most `POINTS` points, the first and the last among them."""
    if length <= POINTS:
        return np.arange(length)
    if log:
        return np.unique(np.geomspace(1, length, POINTS).round().astype(int)) - 1
    return np.unique(np.linspace(0, length - 1, POINTS).round().astype(int))


def band(label: str, curves: Float[np.ndarray, "N K"], *, log: bool = False) -> Series:
    """Median over seeds with quartiles, against the episode's number."""
    keep = thin(curves.shape[1], log=log)
    median, q25, q75 = median_iqr(curves[:, keep], axis=0)
    return Series(label, (keep + 1).tolist(), median.tolist(), q25.tolist(), q75.tolist())


def cumulative_regret(result: Result) -> Float[np.ndarray, "N K"]:
    """Σ_{j≤k} V(π*) − V(π_j) per seed."""
    return np.cumsum(result.array("regret"), axis=1)


def final_regret(result: Result) -> Float[np.ndarray, " N"]:
    """The regret after the last episode, per seed."""
    return result.array("regret").sum(axis=1)


def terms(result: Result) -> dict[str, Float[np.ndarray, "N K"]]:
    """Cumulative regret, optimism and estimation error (Eq. 1)."""
    v_star = result.run.metrics["v_star"]
    parts = decompose(v_star, result.array("value"), v_star - result.array("regret"))
    return parts.cumulative()._asdict()


def decomposition_table(id_: str, title: str, results: Mapping[str, Result]) -> Table:
    """Eq. 1 for every agent, at the end."""
    rows = []
    for label, result in results.items():
        cells: list[str | float] = [label]
        for curve in terms(result).values():
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


def below(x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray) -> Verdict:
    """Is x smaller than y? Decided where the quartile ranges are apart, by seeds."""
    _, x25, x75 = median_iqr(np.asarray(x))
    _, y25, y75 = median_iqr(np.asarray(y))
    if x75 < y25:
        return "holds"
    if y75 <= x25:
        return "fails"
    return "undecided"


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """A conjunction: one failure fails it, one open question leaves it open."""
    if "fails" in verdicts:
        return "fails"
    return "undecided" if "undecided" in verdicts else "holds"


def spread(x: Sequence[float] | np.ndarray) -> str:
    """Median and quartiles, for a sentence."""
    median, q25, q75 = (
        f"{v:.4g}" if np.isfinite(v) else "never" for v in median_iqr(np.asarray(x))
    )
    return f"{median} [{q25}, {q75}]"
