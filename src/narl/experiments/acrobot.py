"""Readings of the choice among models on Acrobot (ours): does it help to find a rare goal?

The best reading on tuning seeds, a radius of 0.1 and MBPO are then trained on fresh seeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from narl.experiments.analysis import RETURN_COLUMNS, evaluation_returns, return_figures
from narl.experiments.choice import MBPO, READINGS
from narl.experiments.experiment import Experiment, Findings, Result, Scale, Size
from narl.experiments.fig3a import TINY
from narl.experiments.judgement import (
    Judgement,
    Part,
    comparison_table,
    difference_table,
    judge_lower,
)
from narl.report.contents import Chart, Table
from narl.report.series import count_seeds, over_seeds
from narl.report.training_curves import curve

if TYPE_CHECKING:
    from narl.deep.config import Config

TITLE = "Readings of the choice among models on Acrobot"
ENV, MEMBERS, SOLVED = "Acrobot-v1", 5, -100.0
SHARED: dict[str, Any] = {
    "members": MEMBERS,
    "random_repeat": 5,
    "least_model_batches": 50,
    "critic_norm": "layer",
}
"""Options of every agent: with them MBPO learns the task too."""
FREE, RADIUS = "no radius", "above"
OPTIONS = READINGS | {RADIUS: READINGS[RADIUS] | {"radius": 0.1}}
"""The options of every reading; Acrobot's preset has no radius."""
TUNED = (MBPO, RADIUS, "above, spread", FREE)
"""The readings that are compared on the tuning seeds."""
FRESH = (FREE, RADIUS, MBPO)
"""The best reading on the tuning seeds, and what it is compared with."""
TUNED_FROM, FRESH_FROM = 200, 400


_SIZES: dict[Scale, Size] = {
    "smoke": Size(600, 1, TINY | {"initial_steps": 250, "learn_after": 250, "epoch_length": 150}),
    "small": Size(6000, 1),
    "paper": Size(6000, 10),
}


def _keys(scale: Scale) -> list[tuple[str, str]]:
    """Return the kind of seeds and the reading of every cell."""
    tuning = [("tuning", reading) for reading in TUNED] if scale == "paper" else []
    return tuning + [("fresh", reading) for reading in FRESH]


def _label(kind: str, reading: str) -> str:
    return f"{kind}: {reading}"


def cells(scale: Scale) -> dict[str, Config]:
    """Return every reading on tuning seeds, and three agents on fresh seeds."""
    from narl.deep.checked_config import make_config

    first_seeds = {"tuning": TUNED_FROM, "fresh": FRESH_FROM}
    return {
        _label(kind, reading): make_config(
            ENV,
            "mbpo" if reading == MBPO else "narl",
            **(SHARED | OPTIONS[reading] | _SIZES[scale].shared_options(first_seeds[kind])),
        )
        for kind, reading in _keys(scale)
    }


def _table(kind: str, results: Mapping[str, Result]) -> Table:
    rows: list[list[Any]] = []
    for reading, result in results.items():
        returns = evaluation_returns(result)
        rows.append(
            [reading, int((returns[:, -1] >= SOLVED).sum()), float((returns >= SOLVED).mean())]
            + return_figures(returns)
        )
    rows.sort(key=lambda row: -row[3])
    return Table(
        f"acrobot-{kind}",
        f"{kind.capitalize()} seeds",
        ["reading", "seeds that end solved", "share of evaluations that are solved"]
        + list(RETURN_COLUMNS),
        rows,
        "In the order of the mean return over the training. An evaluation is solved if its five "
        f"episodes have a mean return of at least {SOLVED:g}.",
    )


def _judgements(fresh: Mapping[str, Result]) -> dict[str, tuple[str, Judgement]]:
    """Return the statement of every claim and the judgement on it, by its id."""
    # A larger return is a smaller loss.
    loss = {reading: -evaluation_returns(x).mean(axis=1) for reading, x in fresh.items()}
    texts = {
        "acrobot-radius": (
            RADIUS,
            "with a radius of 0.1 that leaves out only values above the mean",
        ),
        "acrobot-mbpo": (MBPO, "MBPO"),
    }
    return {
        id_: (
            "On Acrobot, NARL's choice among models without a radius has a larger return over the "
            f"training than {name}.",
            judge_lower(
                [Part(FREE, loss[FREE], other, loss[other])], "minus the return over training"
            ),
        )
        for id_, (other, name) in texts.items()
    }


def analyse(scale: Scale, results: Mapping[str, Result]) -> Findings:
    """Return curves, a table per kind of seeds, differences from MBPO, and two claims."""
    size = _SIZES[scale]
    by_kind: dict[str, dict[str, Result]] = {}
    for kind, reading in _keys(scale):
        by_kind.setdefault(kind, {})[reading] = results[_label(kind, reading)]
    judged = _judgements(by_kind["fresh"])
    return Findings(
        about=f"`{ENV}`, {MEMBERS} members, {count_seeds(size.num_seeds)}, {size.steps} steps. All "
        "agents repeat each random action of the beginning for five steps, fit their models with "
        "at least 50 batches per pass, and normalise the critics' layers. Readings are compared on "
        f"seeds from {TUNED_FROM} on; the claims are about seeds from {FRESH_FROM} on. Above "
        "means that the radius excludes only predictions above the members' mean, and spread that "
        "it is one standard deviation over the members.",
        charts=[
            Chart(
                f"acrobot-{kind}-returns",
                f"Acrobot, {kind} seeds",
                "environment steps",
                "return",
                [curve(reading, x.rows(), "eval_return") for reading, x in found.items()],
                reference=SOLVED,
                reference_label="solved",
                caption=f"{over_seeds(size.num_seeds)} Deterministic episodes after every epoch.",
            )
            for kind, found in reversed(by_kind.items())
        ],
        tables=[
            *(_table(kind, found) for kind, found in reversed(by_kind.items())),
            difference_table(
                "acrobot-differences",
                {
                    f"{kind} seeds": {
                        reading: evaluation_returns(x).mean(axis=1) for reading, x in found.items()
                    }
                    for kind, found in by_kind.items()
                },
                MBPO,
                "return over the training",
                "reading",
            ),
            comparison_table("acrobot-comparisons", {id_: x for id_, (_, x) in judged.items()}),
        ],
        claims=[found.claim(id_, text, "ours") for id_, (text, found) in judged.items()],
    )


EXPERIMENT = Experiment("acrobot", TITLE, cells, analyse)
