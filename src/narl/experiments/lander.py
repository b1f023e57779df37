"""LunarLander (ours): does the choice among models help where the fear of a crash must be overcome?

All agents use the task's preset, which was chosen on other seeds with SAC and MBPO only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float

from narl.experiments.analysis import RETURN_COLUMNS, evaluation_returns, return_figures
from narl.experiments.experiment import Experiment, Findings, Result, Scale, Size
from narl.experiments.exploration import CHOICE, MBPO, SAC, configure
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

TITLE = "LunarLander: the choice among models against the fear of a crash"
ENV, SOLVED = "LunarLander-v3", 200.0
ALGORITHMS = (CHOICE, MBPO, SAC)

Returns = Mapping[str, Float[np.ndarray, "N E"]]

_SIZES: dict[Scale, Size] = {
    "smoke": Size(600, 1, TINY | {"initial_steps": 250, "learn_after": 250, "epoch_length": 150}),
    "small": Size(30_000, 1),
    "paper": Size(100_000, 5),
}


def cells(scale: Scale) -> dict[str, Config]:
    """Return every agent, with the preset of the task and the same seeds."""
    return {label: configure(ENV, label, _SIZES[scale].shared_options()) for label in ALGORITHMS}


def _table(returns: Returns) -> Table:
    rows = [
        [label, int((x[:, -1] >= SOLVED).sum()), int((x >= SOLVED).any(axis=1).sum())]
        + return_figures(x)
        for label, x in returns.items()
    ]
    return Table(
        "lander-returns",
        "Returns",
        ["agent", "seeds that end solved", "seeds ever solved", *RETURN_COLUMNS],
        rows,
        f"An evaluation is solved if its five episodes have a mean return of at least {SOLVED:g}.",
    )


def _judgements(returns: Returns) -> dict[str, tuple[str, Judgement]]:
    """Return the statement of every claim and the judgement on it, by its id."""
    # A larger return is a smaller loss.
    loss = {label: -x.mean(axis=1) for label, x in returns.items()}
    return {
        f"lander-{rival.lower()}": (
            "On LunarLander, NARL's choice among models without a radius has a larger return over "
            f"the training than {rival}.",
            judge_lower(
                [Part(CHOICE, loss[CHOICE], rival, loss[rival])], "minus the return over training"
            ),
        )
        for rival in (MBPO, SAC)
    }


def analyse(scale: Scale, results: Mapping[str, Result]) -> Findings:
    """Return curves, a table, differences from MBPO, and two claims."""
    size = _SIZES[scale]
    returns = {label: evaluation_returns(x) for label, x in results.items()}
    judged = _judgements(returns)
    return Findings(
        about=f"`{ENV}`, {count_seeds(size.num_seeds)}, {size.steps} steps, the preset of the task "
        "for all agents: five members, no radius, four fifths of every batch real. The preset was "
        "chosen on seeds 200 to 203 with SAC and MBPO.",
        charts=[
            Chart(
                "lander-curves",
                "LunarLander",
                "environment steps",
                "return",
                [curve(label, x.rows(), "eval_return") for label, x in results.items()],
                reference=SOLVED,
                reference_label="solved",
                caption=f"{over_seeds(size.num_seeds)} Deterministic episodes after every epoch.",
            )
        ],
        tables=[
            _table(returns),
            difference_table(
                "lander-differences",
                {"LunarLander": {label: x.mean(axis=1) for label, x in returns.items()}},
                MBPO,
                "return over the training",
                "agent",
            ),
            comparison_table("lander-comparisons", {id_: x for id_, (_, x) in judged.items()}),
        ],
        claims=[found.claim(id_, text, "ours") for id_, (text, found) in judged.items()],
    )


EXPERIMENT = Experiment("lander", TITLE, cells, analyse)
