"""Table 2: steps to solve InvertedPendulum with M members under a model radius ε_M."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from narl.experiments.analysis import capped, mean_and_std, solving_charts, steps_to_solve
from narl.experiments.experiment import Experiment, Findings, Result, Scale, Size
from narl.experiments.fig3a import ENV, TINY
from narl.experiments.judgement import Judgement, Part, comparison_table, judge_lower
from narl.paper import implements
from narl.report.contents import Chart, Series, Table
from narl.report.series import MEMBERS as MEMBERS_AXIS
from narl.report.series import count_seeds

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


_SIZES: dict[Scale, Size] = {
    "smoke": Size(600, 1, TINY),
    "small": Size(4000, 1),
    "paper": Size(10_000, 10),
}

STATEMENTS = {
    "table2-best": "M = 3 with ε_M = 0.1 solves InvertedPendulum in the fewest steps.",
    "table2-fewer-members": "Fewer members solve it in fewer steps (M = 3 against 10, with every "
    "radius).",
    "table2-radius": "With many members (M = 10), the smaller radius is crucial: 0.1 against none.",
}
"""The statement of every claim, by the claim's id."""

Steps = Mapping[tuple[int, float | None], Float[np.ndarray, " N"]]


def cell_label(members: int, radius: float | None) -> str:
    """Return the label of a cell."""
    return f"M = {members}, ε = {radius_text(radius)}"


def radius_text(radius: float | None) -> str:
    """Return a radius as text, "none" without one."""
    return "none" if radius is None else f"{radius:g}"


def cells(scale: Scale) -> dict[str, Config]:
    """Return the nine configurations until solved; those with the same M share a program."""
    return nine_configurations({"until_solved": True, **_SIZES[scale].shared_options()})


def nine_configurations(options: Mapping[str, Any]) -> dict[str, Config]:
    """Return NARL in the paper's reading with every M and ε_M, by label."""
    from narl.deep.checked_config import make_config

    return {
        cell_label(members, radius): make_config(
            ENV, "narl", preset="paper", members=members, radius=radius, **options
        )
        for members in MEMBERS
        for radius in RADII
    }


def _table(steps: Steps, budget: int) -> Table:
    rows: list[list[Any]] = []
    for (members, radius), values in steps.items():
        solved = values[np.isfinite(values)]
        order = [float(x) if np.isfinite(x) else None for x in (np.median(values), values.max())]
        measured = [*mean_and_std(solved), float(capped(values, budget).mean()), *order]
        cell = [members, radius_text(radius), len(values), len(solved)]
        rows.append([*cell, *measured, *PUBLISHED[members, radius]])
    return Table(
        "table2",
        TITLE,
        ["M", "ε_M", "seeds", "solved", "steps to solve", "std of the steps", "mean of all"]
        + ["median of all", "worst seed", "the paper's mean", "the paper's std"],
        rows,
        "Solved: the first evaluation, every 250 steps, with a return of 1000. Mean and population "
        "standard deviation are over the seeds that solved it. The mean of all counts a seed that "
        f"did not solve it as {budget} steps; the median and the worst seed are empty if they "
        "are such seeds. All environment steps count.",
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
    for radius in RADII:
        printed = np.array([PUBLISHED[members, radius] for members in MEMBERS], float)
        mean, std = printed.T
        band = (mean - std).tolist(), (mean + std).tolist()
        x = [float(members) for members in MEMBERS]
        series.append(Series(f"the paper, ε = {radius_text(radius)}", x, mean.tolist(), *band))
    return Chart(
        "table2",
        TITLE,
        MEMBERS_AXIS,
        "steps to solve",
        series,
        caption="Mean ± one standard deviation over the seeds that solved it, and the same numbers "
        "as the paper prints them.",
    )


def _judgements(steps: Steps, budget: int) -> dict[str, Judgement]:
    """Return the judgement on every claim, by its id."""

    def fewer(a: tuple[int, float | None], b: tuple[int, float | None]) -> Part:
        x, y = capped(steps[a], budget), capped(steps[b], budget)
        return Part(cell_label(*a), x, cell_label(*b), y)

    parts = {
        "table2-best": [fewer((3, 0.1), key) for key in steps if key != (3, 0.1)],
        "table2-fewer-members": [fewer((3, radius), (10, radius)) for radius in RADII],
        "table2-radius": [fewer((10, 0.1), (10, None))],
    }
    quantity = f"steps to solve, never = {budget}"
    return {id_: judge_lower(part, quantity) for id_, part in parts.items()}


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
    judged = _judgements(steps, size.steps)
    return Findings(
        about=f"`{ENV}`, NARL with each M and ε_M, {count_seeds(size.num_seeds)}, at most "
        f"{size.steps} environment steps, 250 of them random at the beginning. The reading is the "
        "one closest to the paper's text (`--preset paper`: members outside μ ± ε_M are excluded). "
        "Configurations with the same M are trained together in one program.",
        charts=[
            _chart(steps),
            *solving_charts(
                "table2", {cell_label(*key): times for key, times in steps.items()}, size.steps
            ),
        ],
        tables=[_table(steps, size.steps), comparison_table("table2-comparisons", judged)],
        claims=[judged[id_].claim(id_, text, "§6.2, Table 2") for id_, text in STATEMENTS.items()],
        notes=_notes(by_key),
    )


EXPERIMENT = Experiment("table2", f"Table 2: {TITLE[0].lower()}{TITLE[1:]}", cells, analyse)
