"""Table 2: steps to solve InvertedPendulum with M members under a model radius ε_M."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from narl.experiments.analysis import spread, worst
from narl.experiments.experiment import Experiment, Result, Scale
from narl.experiments.fig3a import ENV, TINY
from narl.paper import implements
from narl.report.document import Chart, Claim, Outcome, Series, Table, Verdict
from narl.report.training_curves import fewer, listed, steps_to_solve

if TYPE_CHECKING:
    from narl.deep.training_run import Course

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


def name(members: int, radius: float | None) -> str:
    """The label of a cell."""
    return f"M = {members}, ε = {radius_name(radius)}"


def radius_name(radius: float | None) -> str:
    return "none" if radius is None else f"{radius:g}"


def cells(scale: Scale) -> dict[str, Course]:
    """Nine configurations; those with the same M share one program."""
    from narl.deep.config import make_settings
    from narl.deep.training_run import Course

    size = _SIZES[scale]
    shared: dict[str, Any] = {"steps": size.steps, **(TINY if scale == "smoke" else {})}
    seeds = tuple(range(size.num_seeds))
    return {
        name(members, radius): Course(
            make_settings(ENV, "narl", members=members, radius=radius, **shared),
            seeds,
            until_solved=True,
        )
        for members in MEMBERS
        for radius in RADII
    }


def _table(steps: Steps) -> Table:
    rows: list[list[Any]] = []
    for (members, radius), values in steps.items():
        solved = values[np.isfinite(values)]
        mean = float(solved.mean()) if len(solved) else None
        std = float(solved.std()) if len(solved) > 1 else None
        median = float(np.median(values))
        own = [len(solved), mean, std, median if np.isfinite(median) else None]
        rows.append([members, radius_name(radius), len(values), *own, *PUBLISHED[members, radius]])
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
        label = f"ε = {radius_name(radius)}"
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
    """(3, 0.1) against the eight others: one that is clearly quicker refutes it."""
    others = [fewer(steps[3, 0.1], values) for key, values in steps.items() if key != (3, 0.1)]
    return worst(others)


def _claims(steps: Steps) -> list[Claim]:
    where = "§6.2, Table 2"
    every = "; ".join(f"{name(*key)}: {listed(values)}" for key, values in steps.items())
    few = [fewer(steps[3, radius], steps[10, radius]) for radius in RADII]
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
            worst(few),
            "steps to solve, median and quartiles, M = 3 against 10: "
            + "; ".join(
                f"ε = {radius_name(r)}: {spread(steps[3, r])} against {spread(steps[10, r])}, "
                f"{verdict}"
                for r, verdict in zip(RADII, few, strict=True)
            ),
        ),
        Claim(
            "table2-radius",
            "With many members (M = 10), the smaller radius is crucial: 0.1 against none.",
            where,
            fewer(steps[10, 0.1], steps[10, None]),
            f"0.1: {listed(steps[10, 0.1])}; none: {listed(steps[10, None])}",
        ),
    ]


def _notes(results: Mapping[tuple[int, float | None], Result]) -> list[str]:
    """Of configurations that were not solved by every seed, where they stood at the end."""
    notes = []
    for key, result in results.items():
        metrics = result.run.metrics
        if None in metrics["solved_step"]:
            returns = ", ".join("-" if x is None else f"{x:.0f}" for x in metrics["final_return"])
            steps = metrics["steps"]
            notes.append(f"{name(*key)} went on for all {steps} steps and ended with {returns}.")
    return notes


@implements("table:2")
def analyse(scale: Scale, results: Mapping[str, Result]) -> Outcome:
    """Steps to solve for each of the nine configurations, beside the paper's."""
    size = _SIZES[scale]
    keys = [(members, radius) for members in MEMBERS for radius in RADII]
    of = {key: results[name(*key)] for key in keys}
    steps = {key: steps_to_solve(result) for key, result in of.items()}
    whom = "one seed" if size.num_seeds == 1 else f"{size.num_seeds} seeds"
    return Outcome(
        id="table2",
        title=TITLE,
        scale=scale,
        command="",
        about=f"`{ENV}`, NARL with each M and ε_M, {whom}, at most {size.steps} environment "
        "steps, 250 of them random at the beginning. Configurations with the same M are trained "
        "together in one program.",
        charts=[_chart(steps)],
        tables=[_table(steps)],
        claims=_claims(steps),
        notes=_notes(of),
    )


EXPERIMENT = Experiment("table2", TITLE, cells, analyse)
