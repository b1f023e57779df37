"""Noise on rewards that fades (ours): is what was found kept, and does less noise later help?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from jaxtyping import Float

from narl.experiments.analysis import RETURN_COLUMNS, evaluation_returns, return_figures
from narl.experiments.experiment import Experiment, Findings, Result, Scale, Size
from narl.experiments.exploration import (
    MOUNTAIN_CAR,
    NOISY,
    SMOKE,
    TASKS,
    chosen_options,
    make_cell,
)
from narl.experiments.judgement import Part, comparison_table, difference_table, judge_lower
from narl.report.contents import Chart, Claim, Table, Verdict
from narl.report.series import count_seeds, over_seeds
from narl.report.training_curves import curve, rows_with_model

if TYPE_CHECKING:
    from narl.deep.config import Config

Returns: TypeAlias = Mapping[str, Float[np.ndarray, "N E"]]
"""The return of every seed at every evaluation, by variant."""

TITLE = "Noise on rewards that fades"
LEARNED = 90.0
"""The return from which on the mountain car counts as learned."""
SOON = 5000
"""The step by which it should be learned."""
PLAIN = "the noise of exploration"
ANNEALED = "the same, annealed over half of the training"
PRESET = "the preset's noise"
VARIANTS = (PLAIN, ANNEALED, PRESET)
FIRST_SEED = 500


_SIZES: dict[Scale, Size] = {
    "smoke": Size(600, 1, SMOKE),
    "small": Size(5000, 1),
    "paper": Size(TASKS[MOUNTAIN_CAR].steps, 10),
}


def _cell(variant: str, size: Size) -> Config:
    options = {} if variant == PRESET else chosen_options(MOUNTAIN_CAR, NOISY)
    options |= size.shared_options(FIRST_SEED)
    if variant == ANNEALED:
        options["anneal_steps"] = options["steps"] // 2
    return make_cell(MOUNTAIN_CAR, NOISY, options.pop("seeds"), options)


def cells(scale: Scale) -> dict[str, Config]:
    """Return every variant, with the same seeds."""
    return {variant: _cell(variant, _SIZES[scale]) for variant in VARIANTS}


def _later(returns: Float[np.ndarray, "N E"]) -> Float[np.ndarray, "N L"]:
    """Return the evaluations in the second half of the training."""
    return returns[:, returns.shape[1] // 2 :]


def _table(results: Mapping[str, Result], returns: Returns) -> Table:
    rows: list[list[Any]] = []
    for variant, values in returns.items():
        log = results[variant].rows()
        soon = np.array([row["step"] for row in log]) <= SOON
        later = _later(values)
        learned = later >= LEARNED
        rows.append(
            [variant, *return_figures(values)]
            + [int((values[:, soon] >= LEARNED).any(axis=1).sum())]
            + [int(learned[:, -1].sum()), float(learned.mean()), int(learned.all(axis=1).sum())]
            + [float(later.mean(axis=0).min()), float(np.mean(rows_with_model(log)[-1]["bonus"]))]
        )
    return Table(
        "fading-kept",
        "What is found, and what is kept",
        ["noise", *RETURN_COLUMNS]
        + [f"seeds at {LEARNED:g} by step {SOON}", f"seeds at {LEARNED:g} at the end"]
        + ["share of later evaluations that are good", "seeds with good ones only"]
        + ["lowest mean of a later evaluation", "noise per imagined step at the end"],
        rows,
        "Later evaluations are those of the second half of the training, good ones have a return "
        f"of at least {LEARNED:g}. The lowest mean is over the seeds.",
    )


def _counted_claims(table: Table, num_seeds: int) -> list[Claim]:
    """Return the claims on the preset's noise, which counts decide; fewer than ten seeds do not."""

    def verdict(is_so: bool) -> Verdict:
        return "undecided" if num_seeds < 10 else "holds" if is_so else "fails"

    row = dict(zip(table.columns, next(x for x in table.rows if x[0] == PRESET), strict=True))
    first, last = (
        row[f"seeds at {LEARNED:g} by step {SOON}"],
        row[f"seeds at {LEARNED:g} at the end"],
    )
    lowest = row["lowest mean of a later evaluation"]
    return [
        Claim(
            "fading-solved",
            "On mountain car, NARL with the preset's noise on rewards reaches a return of "
            f"{LEARNED:g} with at least nine of ten seeds by step {SOON}, and ends with at least "
            "nine there.",
            "ours",
            verdict(min(first, last) >= 9),
            f"of {count_seeds(num_seeds)} {first} by step {SOON}, {last} at the end",
        ),
        Claim(
            "fading-never-lost",
            "On mountain car, with the preset's noise on rewards, the mean over the seeds is at "
            f"least {LEARNED:g} at every evaluation in the second half of the training.",
            "ours",
            verdict(lowest >= LEARNED),
            f"lowest mean over the seeds: {lowest:.1f}",
        ),
    ]


def analyse(scale: Scale, results: Mapping[str, Result]) -> Findings:
    """Return curves, a table of what is kept, the differences, and three claims."""
    size = _SIZES[scale]
    returns = {variant: evaluation_returns(result) for variant, result in results.items()}
    later = {variant: _later(values).mean(axis=1) for variant, values in returns.items()}
    table = _table(results, returns)
    # A larger return is a smaller loss.
    part = Part(ANNEALED, -later[ANNEALED], PLAIN, -later[PLAIN])
    annealed = judge_lower([part], "minus the return in the second half")
    over = over_seeds(size.num_seeds)
    return Findings(
        about=f"NARL with noise on rewards on `{TASKS[MOUNTAIN_CAR].env}`, "
        f"{count_seeds(size.num_seeds)} from {FIRST_SEED} on, on which nothing was tuned, "
        f"{size.steps} steps. The noise of `exploration` is larger than the preset's; annealed, it "
        "goes to 0 by the middle of the training.",
        charts=[
            Chart(
                f"fading-{name}",
                f"Mountain car: {title}",
                "environment steps",
                title,
                [curve(label, rows_with_model(x.rows()), key) for label, x in results.items()],
                caption=f"{over} {caption}",
            )
            for name, key, title, caption in (
                ("returns", "eval_return", "return", "Deterministic episodes after every epoch."),
                ("noise", "bonus", "noise per imagined step", "The mean over imagined steps."),
            )
        ],
        tables=[
            table,
            difference_table(
                "fading-differences",
                {MOUNTAIN_CAR: later},
                PLAIN,
                "return in the second half",
                "noise",
            ),
            comparison_table("fading-comparisons", {"fading-annealed": annealed}),
        ],
        claims=[
            *_counted_claims(table, size.num_seeds),
            annealed.claim(
                "fading-annealed",
                "On mountain car, NARL's noise on rewards has a larger return in the second half "
                "of the training if it is annealed over the first half.",
                "ours",
            ),
        ],
    )


EXPERIMENT = Experiment("fading", TITLE, cells, analyse)
