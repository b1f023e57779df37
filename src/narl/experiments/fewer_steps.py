"""InvertedPendulum in fewer steps (ours): which ideas help, and does optimism help beside them?

Ideas are chosen on seeds 200 to 209; the best of them and its controls are trained on fresh seeds.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from narl.experiments.analysis import (
    RETURN_COLUMNS,
    capped,
    evaluation_returns,
    list_steps,
    return_figures,
    solving_charts,
    steps_to_solve,
)
from narl.experiments.experiment import Experiment, Findings, Result, Scale, Size
from narl.experiments.fig3a import ENV, TINY
from narl.experiments.judgement import Judgement, Part, comparison_table, judge_lower
from narl.report.contents import Chart, Table
from narl.report.series import count_seeds, over_seeds
from narl.report.training_curves import curve

if TYPE_CHECKING:
    from narl.deep.config import Config

TITLE = "InvertedPendulum in fewer steps"
BAR = 1500.0
"""Steps that NARL may take on average; the paper's best configuration takes 1850."""
MEMBERS = 3
MBPO, MEANS, NARL, UPDATE = "MBPO", "MBPO, means", "NARL", "NARL, choice in the update"
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    MBPO: ("mbpo", {}),
    MEANS: ("mbpo", {"draw": "mean"}),
    NARL: ("narl", {"exclude": "above"}),
    UPDATE: ("narl", {"exclude": "above", "optimism_at": "update"}),
}
"""The algorithms by label.

The choice in the update stores the members' means; MBPO with means is its control.
"""
IDEAS: dict[str, tuple[str, Any, Any]] = {
    "20 updates per step": ("updates_per_step", 10, 20),
    "at least 50 batches per pass of a fit": ("least_model_batches", 1, 50),
    "layer normalisation in the critics": ("critic_norm", "none", "layer"),
}
"""Every idea with its option, the value without it and the value with it."""
Combination = tuple[bool, ...]
"""Whether each idea of `IDEAS` is used."""
NO_IDEA: Combination = (False,) * len(IDEAS)
ALL_IDEAS: Combination = (True,) * len(IDEAS)
CHOSEN = ALL_IDEAS, UPDATE
"""The NARL of the fewest steps on the tuning seeds; the test of the outcome holds it."""
TUNED_FROM, FRESH_FROM = 200, 500


_SIZES: dict[Scale, Size] = {
    "smoke": Size(600, 1, TINY),
    "small": Size(2500, 1),
    "paper": Size(2500, 10),
}
Key = tuple[Combination, str]


def label_of(key: Key, is_fresh: bool) -> str:
    """Return the label of a cell, as in "fresh: NARL, 20 updates per step"."""
    combination, way = key
    ideas = [name for name, used in zip(IDEAS, combination, strict=True) if used]
    return ("fresh: " if is_fresh else "tuning: ") + ", ".join([way, *ideas])


def _tuned(scale: Scale) -> list[Key]:
    """Return what is compared on the tuning seeds; means only without layer normalisation."""
    if scale != "paper":
        return []
    return [
        (combination, way)
        for combination in itertools.product((False, True), repeat=len(IDEAS))
        for way in WAYS
        if way != MEANS or not combination[2]
    ]


def _fresh(scale: Scale) -> list[Key]:
    """Return the chosen NARL and its controls."""
    ideas, way = CHOSEN
    chosen = [CHOSEN, (ideas, MBPO)]
    published = [(NO_IDEA, name) for name in (way, MBPO, MEANS)]
    return chosen + (published if scale == "paper" else [])


def _cell(key: Key, first_seed: int, scale: Scale) -> Config:
    from narl.deep.checked_config import make_config

    combination, way = key
    algo, options = WAYS[way]
    ideas = {
        option: used if is_used else unused
        for (option, unused, used), is_used in zip(IDEAS.values(), combination, strict=True)
    }
    shared = {"members": MEMBERS} | ideas | options
    return make_config(ENV, algo, **(shared | _SIZES[scale].shared_options(first_seed)))


def cells(scale: Scale) -> dict[str, Config]:
    """Return every combination of ideas on tuning seeds, the chosen one on fresh seeds."""
    tuned = {label_of(key, False): _cell(key, TUNED_FROM, scale) for key in _tuned(scale)}
    fresh = {label_of(key, True): _cell(key, FRESH_FROM, scale) for key in _fresh(scale)}
    return tuned | fresh


def choose(steps: Mapping[Key, Float[np.ndarray, " N"]]) -> Key:
    """Return the NARL that solves the task in the fewest steps on average."""
    candidates = [key for key in steps if key[1] in (NARL, UPDATE)]
    return min(candidates, key=lambda key: float(steps[key].mean()))


def _table(id_: str, title: str, results: Mapping[Key, Result], budget: int) -> Table:
    rows: list[list[Any]] = []
    for key, result in results.items():
        combination, way = key
        times = steps_to_solve(result)
        rows.append(
            [way, *("yes" if used else "" for used in combination)]
            + [float(capped(times, budget).mean()), list_steps(times)]
            + return_figures(evaluation_returns(result))[:2]
        )
    return Table(
        id_,
        title,
        ["algorithm", *IDEAS, "steps to solve", "of every seed", *RETURN_COLUMNS[:2]],
        rows,
        "Solved: the first evaluation, every 250 steps, with a return of 1000; a seed that did not "
        f"solve the task counts as {budget} steps. All environment steps count.",
    )


def _effects(steps: Mapping[Key, Float[np.ndarray, " N"]]) -> Table:
    """Return what every idea changes, seed by seed, averaged over all else that was varied."""
    judged = {}
    for place, name in enumerate(IDEAS):
        pairs = []
        for (combination, way), with_idea in steps.items():
            without = (*combination[:place], False, *combination[place + 1 :]), way
            if combination[place] and without in steps:
                pairs.append((with_idea, steps[without]))
        x, y = (np.mean(values, axis=0) for values in zip(*pairs, strict=True))
        judged[name] = judge_lower([Part("with it", x, "without it", y)], "steps to solve")
    return comparison_table("fewer-steps-effects", judged, "What each idea changes", "idea")


def _judgements(
    steps: Mapping[Key, Float[np.ndarray, " N"]],
) -> dict[str, tuple[str, Judgement]]:
    """Return the statement of every claim on fresh seeds and the judgement on it, by its id."""
    ideas, way = CHOSEN
    published = NO_IDEA, way
    pairs: dict[str, tuple[str, Part]] = {
        "fewer-steps-bar": (
            "With ideas chosen on other seeds, NARL solves InvertedPendulum in at most "
            f"{BAR:.0f} steps on average.",
            Part("NARL", steps[CHOSEN], f"{BAR:.0f} steps", BAR),
        ),
        "fewer-steps-optimism": (
            "With the same ideas, NARL solves InvertedPendulum in fewer steps than MBPO.",
            Part("NARL", steps[CHOSEN], "MBPO", steps[ideas, MBPO]),
        ),
    }
    if published in steps:
        pairs["fewer-steps-ideas"] = (
            "NARL solves InvertedPendulum in fewer steps with the ideas than without.",
            Part("with the ideas", steps[CHOSEN], "without", steps[published]),
        )
        pairs["fewer-steps-means"] = (
            "Without the ideas, NARL with its choice in the update solves InvertedPendulum in "
            "fewer steps than MBPO that stores means as well.",
            Part(UPDATE, steps[published], MEANS, steps[NO_IDEA, MEANS]),
        )
    return {
        id_: (text, judge_lower([part], "steps to solve")) for id_, (text, part) in pairs.items()
    }


def analyse(scale: Scale, results: Mapping[str, Result]) -> Findings:
    """Return the tables of both sets of seeds, what each idea changes, and the claims."""
    size = _SIZES[scale]
    tuned = {key: results[label_of(key, False)] for key in _tuned(scale)}
    fresh = {key: results[label_of(key, True)] for key in _fresh(scale)}
    tuned_steps = {key: capped(steps_to_solve(x), size.steps) for key, x in tuned.items()}
    fresh_steps = {key: capped(steps_to_solve(x), size.steps) for key, x in fresh.items()}
    judged = _judgements(fresh_steps)
    names = {(ideas, way): f"{way}, all ideas" if any(ideas) else way for ideas, way in fresh}
    tables = [_table("fewer-steps-fresh", "Fresh seeds", fresh, size.steps)]
    notes = []
    if tuned:
        tables += [
            _table("fewer-steps-tuning", "Tuning seeds", tuned, size.steps),
            _effects(tuned_steps),
        ]
        best = label_of(choose(tuned_steps), False).removeprefix("tuning: ")
        notes.append(f"The NARL of the fewest steps on the tuning seeds: {best}.")
    return Findings(
        about=f"`{ENV}`, {MEMBERS} members, {count_seeds(size.num_seeds)}, {size.steps} "
        "environment steps, 250 of them random at the beginning. The paper's best configuration "
        "takes 1850 steps, MBPO's authors train with 10 updates per step. Which ideas help was "
        f"decided on seeds from {TUNED_FROM} on, the claims are about seeds from {FRESH_FROM} on. "
        "The members' means are what NARL stores if it chooses in the update; MBPO that stores "
        "means is the control for that.",
        charts=[
            Chart(
                "fewer-steps-returns",
                TITLE,
                "environment steps",
                "return",
                [curve(names[key], x.rows(), "eval_return") for key, x in fresh.items()],
                reference=1000.0,
                reference_label="solved: 1000",
                caption=f"{over_seeds(size.num_seeds)} Fresh seeds; one deterministic episode "
                "after every epoch.",
            ),
            *solving_charts(
                "fewer-steps",
                {names[key]: steps_to_solve(x) for key, x in fresh.items()},
                size.steps,
            ),
        ],
        tables=[
            *tables,
            comparison_table("fewer-steps-comparisons", {id_: x for id_, (_, x) in judged.items()}),
        ],
        claims=[found.claim(id_, text, "ours") for id_, (text, found) in judged.items()],
        notes=notes,
    )


EXPERIMENT = Experiment("fewer-steps", TITLE, cells, analyse)
