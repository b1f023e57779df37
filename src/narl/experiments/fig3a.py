"""Fig. 3(a): NARL (M = 3, ε_M = 0.1) against MBPO on InvertedPendulum (mean ± one std)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from narl.experiments.analysis import (
    capped,
    list_steps,
    mean_and_std,
    solving_charts,
    steps_to_solve,
)
from narl.experiments.experiment import Experiment, Findings, Result, Scale, Size
from narl.experiments.judgement import Judgement, Part, comparison_table, judge_lower
from narl.paper import implements
from narl.report.contents import Chart, Claim, Table, Verdict
from narl.report.ensemble_charts import (
    fallback_chart,
    member_charts,
    model_return_chart,
    radius_chart,
)
from narl.report.markup import anchor
from narl.report.series import count_seeds, over_seeds
from narl.report.training_curves import Rows, curve

if TYPE_CHECKING:
    from narl.deep.config import Config

TITLE = "InvertedPendulum: NARL against MBPO"
ENV = "InvertedPendulum-v4"
NARL, MBPO = "NARL", "MBPO"
NARL_ABOVE, MBPO_SAME = "NARL, exclude above", "MBPO, 3 members"
"""The controls of paper scale: another reading of the radius, and MBPO with NARL's members."""
FEWER_STEPS = "fig3a-fewer-steps"
SAME_MEMBERS = "fig3a-same-members"
EXCLUDE_ABOVE = "fig3a-exclude-above"
MORE_MEMBERS = "fig3a-more-members"
PUBLISHED = "NARL in the paper (Table 2)", 10, 1850, 166
"""The paper's result with these settings: seeds, mean steps to solve, standard deviation."""
STATEMENTS = {
    FEWER_STEPS: (
        "NARL solves InvertedPendulum in fewer steps than MBPO.",
        "§6.2, Fig. 3(a)",
    ),
    SAME_MEMBERS: (
        "NARL solves InvertedPendulum in fewer steps than MBPO with the same 3 members.",
        "ours: the paper's MBPO has 7 members",
    ),
    EXCLUDE_ABOVE: (
        "If the radius excludes only members above μ + ε_M, NARL solves InvertedPendulum in fewer "
        "steps than MBPO, with 7 and with 3 members.",
        "ours: another reading of §6.1",
    ),
    MORE_MEMBERS: (
        "MBPO, which draws members at random, solves InvertedPendulum in fewer steps with 7 "
        "members than with 3.",
        "§6.2, on methods that sample an ensemble at random",
    ),
}
"""The statement of every comparison and its place in the paper, by the claim's id."""
SELECTION = (
    " MBPO draws evenly among its elite members, the most accurate ones; NARL takes the best next "
    "state that the radius ε_M does not exclude."
)
NEAREST = "; then the member closest to the mean is taken. MBPO has no radius"


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
_SIZES: dict[Scale, Size] = {
    "smoke": Size(600, 1, TINY),
    "small": Size(4000, 1, {"until_solved": True}),
    "paper": Size(5000, 10),
}


def cells(scale: Scale) -> dict[str, Config]:
    """Return both algorithms with the same options, but for the ensemble and the selection.

    Paper scale has two controls as well.
    """
    from narl.deep.checked_config import make_config

    shared = _SIZES[scale].shared_options()
    both = {
        NARL: make_config(ENV, "narl", preset="paper", members=3, radius=0.1, **shared),
        MBPO: make_config(ENV, "mbpo", **shared),
    }
    if scale != "paper":
        return both
    return both | {
        NARL_ABOVE: make_config(ENV, "narl", members=3, radius=0.1, exclude="above", **shared),
        MBPO_SAME: make_config(ENV, "mbpo", members=3, **shared),
    }


def _returns(size: Size, rows: Mapping[str, Rows], over: str) -> Chart:
    ends = " A training ends once it has solved the task." if "until_solved" in size.options else ""
    return Chart(
        "fig3a",
        TITLE,
        "environment steps",
        "return",
        [curve(label, log, "eval_return") for label, log in rows.items()],
        reference=1000.0,
        reference_label="solved: 1000",
        caption=f"{over} The return of one deterministic episode after every "
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
    label, num_seeds, mean, std = PUBLISHED
    rows.append([label, num_seeds, None, mean, std, *[None] * 6])
    return Table(
        "fig3a-solved",
        "Steps to solve InvertedPendulum",
        ["algorithm", "seeds", "solved", "steps to solve", "std of the steps", "worst seed's steps"]
        + ["final return", "std of the return", "worst seed's return"]
        + ["updates per seed", "seconds"],
        rows,
        "Solved: the first evaluation, every 250 steps, with a return of 1000; mean and population "
        "standard deviation over the seeds that solved it, all environment steps counted; the "
        "worst seed is empty if a seed did not solve it. Seconds "
        "are those of all seeds together, compilation included; algorithms with as many members "
        "share a program and its seconds.",
    )


def _all_seeds_solve(steps: np.ndarray) -> Verdict:
    """Return whether every seed solves the task; a single seed that does proves nothing."""
    if not np.isfinite(steps).all():
        return "fails"
    return "holds" if len(steps) > 1 else "undecided"


def _judgements(results: Mapping[str, Result], budget: int) -> dict[str, Judgement]:
    """Return the judgement on every comparison, by the claim's id."""
    steps = {label: capped(steps_to_solve(result), budget) for label, result in results.items()}

    def fewer(narl: str, *rivals: str) -> Judgement:
        parts = [Part(narl, steps[narl], rival, steps[rival]) for rival in rivals]
        return judge_lower(parts, f"steps to solve, never = {budget}")

    judged = {FEWER_STEPS: fewer(NARL, MBPO)}
    if NARL_ABOVE in results:
        judged[SAME_MEMBERS] = fewer(NARL, MBPO_SAME)
        judged[EXCLUDE_ABOVE] = fewer(NARL_ABOVE, MBPO, MBPO_SAME)
        judged[MORE_MEMBERS] = fewer(MBPO, MBPO_SAME)
    return judged


def _claims(
    results: Mapping[str, Result], budget: int, judged: Mapping[str, Judgement]
) -> list[Claim]:
    steps = {label: steps_to_solve(result) for label, result in results.items()}
    by_label = "; ".join(f"{label} {list_steps(values)}" for label, values in steps.items())
    return [
        *(judgement.claim(id_, *STATEMENTS[id_]) for id_, judgement in judged.items()),
        Claim(
            "fig3a-solves",
            f"NARL solves InvertedPendulum with every seed (within {budget} steps).",
            "§6.2, Table 2 and Fig. 3(a); the budget is ours",
            _all_seeds_solve(steps[NARL]),
            f"steps to solve, seed by seed: {by_label}",
        ),
    ]


def _about(scale: Scale) -> str:
    size = _SIZES[scale]
    settings = "far smaller settings than MBPO's" if scale == "smoke" else "MBPO's settings"
    controls = (
        " Two controls: MBPO with the same 3 members, of which it draws from all; and NARL with "
        "another reading, in which the radius excludes only members above μ + ε_M."
    )
    return (
        f"`{ENV}`, {count_seeds(size.num_seeds)}, at most {size.steps} environment steps. "
        "NARL with M = 3 and ε_M = 0.1, the best of the paper's Table 2, in the reading closest to "
        "the paper's text (`--preset paper`: members outside μ ± ε_M are excluded); MBPO with 7 "
        f"members, of which it draws from the 5 best.{controls if scale == 'paper' else ''} All "
        f"else is the same: {settings}, with 250 random steps at the beginning."
    )


@implements("fig:3a")
def analyse(scale: Scale, results: Mapping[str, Result]) -> Findings:
    """Return learning curves, charts of the ensembles, steps to solve, and claims."""
    size = _SIZES[scale]
    rows = {label: result.rows() for label, result in results.items()}
    over = over_seeds(size.num_seeds, f"{size.num_seeds} seeds, as in the paper")
    fig2, fig4 = (f" (the idea of the paper's Fig. {number})" for number in (2, 4))
    judged = _judgements(results, size.steps)
    return Findings(
        about=_about(scale),
        charts=[
            _returns(size, rows, over),
            *solving_charts(
                "fig3a", {label: steps_to_solve(x) for label, x in results.items()}, size.steps
            ),
            *(
                model_return_chart(anchor("fig3a-inside", label), label, log, over, fig4)
                for label, log in rows.items()
            ),
            *(
                chart
                for label, log in rows.items()
                for chart in radius_chart(anchor("fig3a-radius", label), label, log, over, fig2)
            ),
            *member_charts("fig3a-", rows, over, fig2, SELECTION),
            fallback_chart("fig3a-fallback", {NARL: rows[NARL]}, over, NEAREST),
        ],
        tables=[_table(results), comparison_table("fig3a-comparisons", judged)],
        claims=_claims(results, size.steps, judged),
        notes=[
            "The paper takes MBPO's curve from its authors' published data, whose counter leaves "
            "out the random steps at the beginning; here all are run by the same code and all "
            "steps count."
        ],
    )


EXPERIMENT = Experiment("fig3a", f"Fig. 3(a): {TITLE}", cells, analyse)
