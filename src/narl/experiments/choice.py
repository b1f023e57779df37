"""Readings of the optimistic choice among models (ours), compared on InvertedPendulum.

The seeds are kept for tuning, so nothing is claimed. `acrobot` compares readings on another task.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from narl.experiments.analysis import (
    RETURN_COLUMNS,
    capped,
    evaluation_returns,
    return_figures,
    steps_to_solve,
)
from narl.experiments.experiment import Experiment, Findings, Result, Scale, Size
from narl.experiments.fig3a import ENV, TINY
from narl.experiments.judgement import difference_table
from narl.report.contents import Table
from narl.report.series import count_seeds

if TYPE_CHECKING:
    from narl.deep.config import Config

Returns = Mapping[str, Float[np.ndarray, "N E"]]

TITLE = "Readings of the choice among models"
MBPO = "MBPO"
BALL: dict[str, Any] = {"preset": "paper"}
SPREAD: dict[str, Any] = {"radius": 1.0, "radius_unit": "spread"}
UPDATE: dict[str, Any] = {"optimism_at": "update"}
READINGS: dict[str, dict[str, Any]] = {
    MBPO: {},
    "above (narl's default)": {},
    "ball (the paper's reading)": BALL,
    "no radius": {"radius": None},
    "above, draws": {"score": "draw"},
    "above, spread": SPREAD,
    "update: above": UPDATE,
    "ball, draws": BALL | {"score": "draw"},
    "above, joint": {"joint": True},
    "ball, joint": BALL | {"joint": True},
    "ball, spread": BALL | SPREAD,
    "above, target critics": {"value_critics": "target"},
    "above, by return": {"exclude_by": "return"},
    "ball, random fallback": BALL | {"fallback": "random"},
    "above, annealed share": {"anneal_steps": 2000},
    "above, annealed radius": {"anneal_steps": 2000, "anneal": "radius"},
    "ball, annealed radius": BALL | {"anneal_steps": 2000, "anneal": "radius"},
    "update: ball": UPDATE | BALL,
    "update: no radius": UPDATE | {"radius": None},
    "update: above, draws": UPDATE | {"score": "draw"},
}
"""Options of every reading, beyond the task's preset."""
MAIN = tuple(READINGS)[:7]
"""The readings of the smaller scales."""
TASK, MEMBERS = "InvertedPendulum", 3
FIRST_SEED, BLOCK, NUM_BLOCKS = 200, 10, 2
"""At the paper's scale a reading is trained in runs of ten seeds each."""


_SIZES: dict[Scale, Size] = {
    "smoke": Size(600, 1, TINY),
    "small": Size(3_000, 1),
    "paper": Size(3_000, BLOCK),
}


def _labels(scale: Scale) -> dict[str, list[tuple[str, int]]]:
    """Return the labels and first seeds of every reading's runs."""
    readings, num_blocks = (READINGS, NUM_BLOCKS) if scale == "paper" else (MAIN, 1)
    firsts = [FIRST_SEED + BLOCK * place for place in range(num_blocks)]
    return {
        reading: [(f"{TASK}: {reading}, seeds from {first}", first) for first in firsts]
        for reading in readings
    }


def cells(scale: Scale) -> dict[str, Config]:
    """Return every reading, with the same members and the same seeds."""
    from narl.deep.checked_config import make_config

    return {
        label: make_config(
            ENV,
            "mbpo" if reading == MBPO else "narl",
            **({"members": MEMBERS} | READINGS[reading] | _SIZES[scale].shared_options(first)),
        )
        for reading, labels in _labels(scale).items()
        for label, first in labels
    }


def _table(runs: Mapping[str, list[Result]], returns: Returns, budget: int) -> Table:
    rows: list[list[Any]] = []
    for reading, found in runs.items():
        times = np.concatenate([steps_to_solve(run) for run in found])
        rows.append(
            [reading, len(times), int(np.isfinite(times).sum())]
            + [float(capped(times, budget).mean()), *return_figures(returns[reading])]
        )
    rows.sort(key=lambda row: -row[4])
    return Table(
        "choice-invertedpendulum",
        TASK,
        ["reading", "seeds", "seeds that solve it", "steps to solve", *RETURN_COLUMNS],
        rows,
        "In the order of the mean return over the training. A seed that did not solve "
        f"InvertedPendulum counts as {budget} steps.",
    )


def analyse(scale: Scale, results: Mapping[str, Result]) -> Findings:
    """Return the table and the differences from MBPO; nothing is claimed on these seeds."""
    runs = {
        reading: [results[label] for label, _ in labels]
        for reading, labels in _labels(scale).items()
    }
    returns = {
        reading: np.concatenate([evaluation_returns(run) for run in found])
        for reading, found in runs.items()
    }
    over_training = {reading: values.mean(axis=1) for reading, values in returns.items()}
    return Findings(
        about="NARL with every reading of the choice among models, and MBPO with as many members "
        f"({TASK}, {count_seeds(len(returns[MBPO]))}, from {FIRST_SEED} on). In the names, above "
        "and ball are what the radius excludes, and update is the choice in the target of every "
        "update (`--optimism-at update`). The seeds are kept for tuning: these tables choose "
        "narl's default and prove nothing.",
        charts=[],
        tables=[
            _table(runs, returns, _SIZES[scale].steps),
            difference_table(
                "choice-differences",
                {TASK: over_training},
                MBPO,
                "return over the training",
                "reading",
            ),
        ],
        claims=[],
    )


EXPERIMENT = Experiment("choice", TITLE, cells, analyse)
