"""Fig. 3(a): NARL (M = 3, ε_M = 0.1) against MBPO on InvertedPendulum (mean ± one std)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from narl.experiments.analysis import (
    capped,
    count_seeds,
    list_steps,
    mean_and_std,
    steps_to_solve,
)
from narl.experiments.experiment import Experiment, Findings, Result, Scale
from narl.experiments.judgement import Judgement, Part, comparison_table, judge_lower
from narl.paper import implements
from narl.report.document import Chart, Claim, Table, Verdict
from narl.report.ensemble_charts import fallback_chart, member_charts, model_return_chart
from narl.report.training_curves import Rows, curve

if TYPE_CHECKING:
    from narl.deep.config import Config

TITLE = "InvertedPendulum: NARL against MBPO"
ENV = "InvertedPendulum-v4"
NARL, MBPO = "NARL", "MBPO"
FEWER_STEPS = "fig3a-fewer-steps"
SELECTION = (
    " MBPO draws evenly among its elite members, the most accurate ones; NARL takes the best next "
    "state within ε_M."
)
NEAREST = "; then the member closest to the mean is taken. MBPO has no radius"


class _Size(NamedTuple):
    steps: int
    num_seeds: int
    until_solved: bool = False


_SIZES: dict[Scale, _Size] = {
    "smoke": _Size(600, 1),
    "small": _Size(4000, 1, until_solved=True),
    "paper": _Size(5000, 10),
}
TINY: dict[str, Any] = {
    "updates_per_step": 1,
    "batch": 32,
    "hidden": (16, 16),
    "model_width": 16,
    "model_depth": 2,
    "most_model_epochs": 5,
    "rollout_batch": 256,
}
"""Options of the smoke scale, too small to learn anything."""


def cells(scale: Scale) -> dict[str, Config]:
    """Return both algorithms with the same options, but for the ensemble and the selection."""
    from narl.deep.checked_config import make_config

    size = _SIZES[scale]
    shared: dict[str, Any] = {
        "steps": size.steps,
        "seeds": tuple(range(size.num_seeds)),
        "until_solved": size.until_solved,
        **(TINY if scale == "smoke" else {}),
    }
    return {
        NARL: make_config(ENV, "narl", members=3, radius=0.1, **shared),
        MBPO: make_config(ENV, "mbpo", **shared),
    }


def _over(num_seeds: int) -> str:
    """Return a sentence that says what lines and bands are."""
    if num_seeds == 1:
        return "One seed."
    return f"Mean ± one standard deviation over {num_seeds} seeds, as in the paper."


def _returns(size: _Size, rows: Mapping[str, Rows]) -> Chart:
    ends = " A training ends once it has solved the task." if size.until_solved else ""
    return Chart(
        "fig3a",
        TITLE,
        "environment steps",
        "return",
        [curve(label, log, "eval_return") for label, log in rows.items()],
        reference=1000.0,
        reference_label="solved: 1000",
        caption=f"{_over(size.num_seeds)} The return of one deterministic episode after every "
        f"epoch; all environment steps count, the random ones too.{ends}",
    )


def _table(results: Mapping[str, Result]) -> Table:
    rows: list[list[Any]] = []
    for label, result in results.items():
        metrics = result.run.metrics
        steps = steps_to_solve(result)
        solved = steps[np.isfinite(steps)]
        counts = [len(steps), len(solved)]
        final = np.array(metrics["final_return"], np.float64)
        effort = [metrics["updates"], round(metrics["seconds"]["total"], 1)]
        worst = float(steps.max()) if np.isfinite(steps.max()) else None
        solving = [*counts, *mean_and_std(solved), worst]
        rows.append([label, *solving, *mean_and_std(final), float(final.min()), *effort])
    return Table(
        "fig3a-solved",
        "Steps to solve InvertedPendulum",
        ["algorithm", "seeds", "solved", "steps to solve", "± std", "worst seed"]
        + ["final return", "± std", "worst seed", "updates per seed", "seconds"],
        rows,
        "Solved: the first evaluation, every 250 steps, with a return of 1000; mean and population "
        "standard deviation over the seeds that solved it, all environment steps counted; the "
        "worst seed is empty if a seed did not solve it. Seconds "
        "are those of all seeds together, compilation included. The paper has 1850 ± 166 steps "
        "for NARL with these settings (Table 2, ten seeds).",
    )


def _all_seeds_solve(steps: np.ndarray) -> Verdict:
    """Return whether every seed solves the task; a single seed that does proves nothing."""
    if not np.isfinite(steps).all():
        return "fails"
    return "holds" if len(steps) > 1 else "undecided"


def fewer_steps(results: Mapping[str, Result], budget: int) -> Judgement:
    """Return whether NARL needs fewer steps than MBPO; a seed that never solves it, the budget."""
    narl, mbpo = (capped(steps_to_solve(results[label]), budget) for label in (NARL, MBPO))
    return judge_lower([Part(NARL, narl, MBPO, mbpo)], f"steps to solve, never = {budget}")


def _claims(results: Mapping[str, Result], budget: int, fewer: Judgement) -> list[Claim]:
    steps = {label: steps_to_solve(result) for label, result in results.items()}
    by_label = "; ".join(f"{label} {list_steps(values)}" for label, values in steps.items())
    return [
        fewer.claim(
            FEWER_STEPS, "NARL solves InvertedPendulum in fewer steps than MBPO.", "§6.2, Fig. 3(a)"
        ),
        Claim(
            "fig3a-solves",
            f"NARL solves InvertedPendulum with every seed (within {budget} steps).",
            "§6.2, Table 2 and Fig. 3(a); the budget is ours",
            _all_seeds_solve(steps[NARL]),
            f"steps to solve, seed by seed: {by_label}",
        ),
    ]


@implements("fig:3a")
def analyse(scale: Scale, results: Mapping[str, Result]) -> Findings:
    """Return learning curves, charts of the ensembles, steps to solve, and claims."""
    size = _SIZES[scale]
    rows = {label: result.rows() for label, result in results.items()}
    over = _over(size.num_seeds)
    fewer = fewer_steps(results, size.steps)
    settings = "far smaller settings than MBPO's" if scale == "smoke" else "MBPO's settings"
    return Findings(
        about=f"`{ENV}`, {count_seeds(size.num_seeds)}, at most {size.steps} environment steps. "
        "NARL with M = 3 and ε_M = 0.1, the best of the paper's Table 2; MBPO with 7 members, of "
        f"which it draws from the 5 best. All else is the same: {settings}, with 250 random steps "
        "at the beginning.",
        charts=[
            _returns(size, rows),
            *(
                model_return_chart(
                    f"fig3a-inside-{label.lower()}",
                    f"{label}: return inside the model",
                    log,
                    over,
                    " (the idea of the paper's Fig. 4)",
                )
                for label, log in rows.items()
            ),
            *member_charts("fig3a-", rows, over, " (the idea of the paper's Fig. 2)", SELECTION),
            fallback_chart("fig3a-fallback", {NARL: rows[NARL]}, over, NEAREST),
        ],
        tables=[_table(results), comparison_table("fig3a-comparisons", {FEWER_STEPS: fewer})],
        claims=_claims(results, size.steps, fewer),
        notes=[
            "The paper takes MBPO's curve from its authors' published data, whose counter leaves "
            "out the random steps at the beginning; here both are run by the same code and all "
            "steps count."
        ],
    )


EXPERIMENT = Experiment("fig3a", TITLE, cells, analyse)
