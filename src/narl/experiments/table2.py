"""Table 2: steps to solve InvertedPendulum with M members under a model radius ε_M."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from narl.experiments.analysis import (
    all_hold,
    count_seeds,
    list_steps,
    mean_and_std,
    needs_fewer_steps,
    spread,
    steps_to_solve,
)
from narl.experiments.experiment import Experiment, Findings, Result, Scale
from narl.experiments.fig3a import ENV, TINY
from narl.paper import implements
from narl.report.document import Chart, Claim, Series, Table, Verdict

if TYPE_CHECKING:
    from narl.deep.config import Config

TITLE = "Steps to solve InvertedPendulum for M × ε_M"
MEMBERS = (3, 5, 10)
RADII: tuple[float | None, ...] = (0.1, 5.0, None)
PUBLISHED: dict[tuple[int, float | None], tuple[int, int]] = {
    (3, 0.1): (1850, 166),
    (5, 0.1): (2350, 300),
    (10, 0.1): (3300, 953),
    (3, 5.0): (2000, 274),
    (5, 5.0): (2575, 251),
    (10, 5.0): (3225, 675),
    (3, None): (2000, 353),
    (5, None): (2775, 467),
    (10, None): (5850, 2037),
}
"""Mean and standard deviation in the paper, ten seeds."""


class _Size(NamedTuple):
    steps: int
    num_seeds: int


_SIZES: dict[Scale, _Size] = {
    "smoke": _Size(600, 1),
    "small": _Size(4000, 1),
    "paper": _Size(10_000, 10),
}

Steps = Mapping[tuple[int, float | None], Float[np.ndarray, " N"]]


def cell_label(members: int, radius: float | None) -> str:
    """Return the label of a cell."""
    return f"M = {members}, ε = {radius_text(radius)}"


def radius_text(radius: float | None) -> str:
    """Return a radius as text, "none" without one."""
    return "none" if radius is None else f"{radius:g}"


def cells(scale: Scale) -> dict[str, Config]:
    """Return nine configurations; those with the same M share one program."""
    from narl.deep.checked_config import make_config

    size = _SIZES[scale]
    shared: dict[str, Any] = {
        "steps": size.steps,
        "seeds": tuple(range(size.num_seeds)),
        "until_solved": True,
        **(TINY if scale == "smoke" else {}),
    }
    return {
        cell_label(members, radius): make_config(
            ENV, "narl", members=members, radius=radius, **shared
        )
        for members in MEMBERS
        for radius in RADII
    }


def _table(steps: Steps) -> Table:
    rows: list[list[Any]] = []
    for (members, radius), values in steps.items():
        solved = values[np.isfinite(values)]
        median = float(np.median(values))
        measured = [*mean_and_std(solved), median if np.isfinite(median) else None]
        cell = [members, radius_text(radius), len(values), len(solved)]
        rows.append([*cell, *measured, *PUBLISHED[members, radius]])
    return Table(
        "table2",
        TITLE,
        ["M", "ε_M", "seeds", "solved", "steps to solve", "± std", "median"]
        + ["the paper's mean", "± std"],
        rows,
        "Solved: the first evaluation, every 250 steps, with a return of 1000. Mean and population "
        "standard deviation are over the seeds that solved it; the median counts all seeds, and a "
        "seed that did not solve it as the largest. All environment steps count.",
    )


def _chart(steps: Steps) -> Chart:
    series = []
    for radius in RADII:
        columns = [steps[members, radius] for members in MEMBERS]
        solved = [values[np.isfinite(values)] for values in columns]
        kept = [(m, s) for m, s in zip(MEMBERS, solved, strict=True) if len(s)]
        mean = np.array([values.mean() for _, values in kept])
        std = np.array([values.std() for _, values in kept])
        band = (mean - std).tolist(), (mean + std).tolist()
        many = len(columns[0]) > 1
        x = [float(m) for m, _ in kept]
        label = f"ε = {radius_text(radius)}"
        series.append(Series(label, x, mean.tolist(), *(band if many else ())))
    return Chart(
        "table2",
        TITLE,
        "members M",
        "steps to solve",
        series,
        caption="Mean ± one standard deviation over the seeds that solved it.",
    )


def _best(steps: Steps) -> Verdict:
    """Return whether (3, 0.1) needs fewer steps than each of the eight others."""
    others = [
        needs_fewer_steps(steps[3, 0.1], values) for key, values in steps.items() if key != (3, 0.1)
    ]
    return all_hold(others)


def _claims(steps: Steps) -> list[Claim]:
    where = "§6.2, Table 2"
    every = "; ".join(f"{cell_label(*key)}: {list_steps(values)}" for key, values in steps.items())
    few = [needs_fewer_steps(steps[3, radius], steps[10, radius]) for radius in RADII]
    return [
        Claim(
            "table2-best",
            "M = 3 with ε_M = 0.1 solves InvertedPendulum in the fewest steps.",
            where,
            _best(steps),
            f"steps to solve, seed by seed: {every}",
        ),
        Claim(
            "table2-fewer-members",
            "Fewer members solve it in fewer steps (M = 3 against 10, with every radius).",
            where,
            all_hold(few),
            "steps to solve, median and quartiles, M = 3 against 10: "
            + "; ".join(
                f"ε = {radius_text(r)}: {spread(steps[3, r])} against {spread(steps[10, r])}, "
                f"{verdict}"
                for r, verdict in zip(RADII, few, strict=True)
            ),
        ),
        Claim(
            "table2-radius",
            "With many members (M = 10), the smaller radius is crucial: 0.1 against none.",
            where,
            needs_fewer_steps(steps[10, 0.1], steps[10, None]),
            f"0.1: {list_steps(steps[10, 0.1])}; none: {list_steps(steps[10, None])}",
        ),
    ]


def _notes(results: Mapping[tuple[int, float | None], Result]) -> list[str]:
    """Return the final returns of the configurations that some seed did not solve."""
    notes = []
    for key, result in results.items():
        metrics = result.run.metrics
        if None in metrics["solved_step"]:
            returns = ", ".join("-" if x is None else f"{x:.0f}" for x in metrics["final_return"])
            steps = metrics["steps"]
            notes.append(
                f"{cell_label(*key)} went on for all {steps} steps and ended with {returns}."
            )
    return notes


@implements("table:2")
def analyse(scale: Scale, results: Mapping[str, Result]) -> Findings:
    """Return the steps to solve of the nine configurations, and those of the paper."""
    size = _SIZES[scale]
    keys = [(members, radius) for members in MEMBERS for radius in RADII]
    by_key = {key: results[cell_label(*key)] for key in keys}
    steps = {key: steps_to_solve(result) for key, result in by_key.items()}
    return Findings(
        about=f"`{ENV}`, NARL with each M and ε_M, {count_seeds(size.num_seeds)}, at most "
        f"{size.steps} environment steps, 250 of them random at the beginning. Configurations with "
        "the same M are trained together in one program.",
        charts=[_chart(steps)],
        tables=[_table(steps)],
        claims=_claims(steps),
        notes=_notes(by_key),
    )


EXPERIMENT = Experiment("table2", TITLE, cells, analyse)
