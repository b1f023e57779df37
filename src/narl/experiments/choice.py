"""Readings of the optimistic choice among models (ours), compared on tuning seeds.

The default of narl is chosen here, so nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from narl.experiments.analysis import (
    RETURN_COLUMNS,
    capped,
    evaluation_returns,
    return_figures,
    steps_to_solve,
)
from narl.experiments.experiment import Experiment, Findings, Result, Scale, TaskSize
from narl.experiments.exploration import FREE_PENDULUM, REACHER, TASKS, slug
from narl.experiments.fig3a import ENV, TINY
from narl.experiments.judgement import difference_table
from narl.report.contents import Table
from narl.report.series import count_seeds

if TYPE_CHECKING:
    from narl.deep.config import Config

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
"""The readings that are compared on every task."""


class _Task(NamedTuple):
    env: str
    members: int
    steps: int
    readings: tuple[str, ...]
    num_blocks: int
    """Blocks of ten seeds; each is one run of a reading."""


INVERTED = "InvertedPendulum"
_TASKS = {
    INVERTED: _Task(ENV, 3, 3_000, tuple(READINGS), 2),
    FREE_PENDULUM: _Task(TASKS[FREE_PENDULUM].env, 5, TASKS[FREE_PENDULUM].steps, MAIN, 1),
    REACHER: _Task(TASKS[REACHER].env, 5, TASKS[REACHER].steps, MAIN, 1),
}
FIRST_SEED, BLOCK = 200, 10


_SIZES: dict[Scale, TaskSize] = {
    "smoke": TaskSize((INVERTED,), 1, TINY | {"steps": 600}),
    "small": TaskSize((INVERTED,), 1),
    "paper": TaskSize((INVERTED, FREE_PENDULUM, REACHER), BLOCK),
}


def _readings(task: str, scale: Scale) -> tuple[str, ...]:
    return _TASKS[task].readings if scale == "paper" else MAIN


def _blocks(task: str, scale: Scale) -> list[tuple[int, ...]]:
    """Return the seeds of every run of a reading."""
    num_blocks = _TASKS[task].num_blocks if scale == "paper" else 1
    firsts = [FIRST_SEED + BLOCK * place for place in range(num_blocks)]
    return [tuple(range(first, first + _SIZES[scale].num_seeds)) for first in firsts]


def _label(task: str, reading: str, seeds: tuple[int, ...]) -> str:
    return f"{task}: {reading}, seeds from {seeds[0]}"


def cells(scale: Scale) -> dict[str, Config]:
    """Return every reading on every task, with the same members and the same seeds."""
    from narl.deep.checked_config import make_config

    size = _SIZES[scale]
    found = {}
    for name in size.tasks:
        task = _TASKS[name]
        shared: dict[str, Any] = {"members": task.members, "steps": task.steps}
        for seeds in _blocks(name, scale):
            for reading in _readings(name, scale):
                algo = "mbpo" if reading == MBPO else "narl"
                given = shared | READINGS[reading] | dict(size.options)
                found[_label(name, reading, seeds)] = make_config(
                    task.env, algo, seeds=seeds, **given
                )
    return found


def _returns(runs: list[Result]) -> Float[np.ndarray, "N E"]:
    """Return the evaluation returns of all seeds of several runs."""
    return np.concatenate([evaluation_returns(run) for run in runs])


def _table(name: str, runs: Mapping[str, list[Result]], budget: int) -> Table:
    rows: list[list[Any]] = []
    for reading, found in runs.items():
        times = np.concatenate([steps_to_solve(run) for run in found])
        solved = [int(np.isfinite(times).sum()), float(capped(times, budget).mean())]
        rows.append(
            [reading, len(times), *(solved if name == INVERTED else [None, None])]
            + return_figures(_returns(found))
        )
    rows.sort(key=lambda row: -row[4])
    return Table(
        f"choice-{slug(name)}",
        name,
        ["reading", "seeds", "seeds that solve it", "steps to solve", *RETURN_COLUMNS],
        rows,
        "In the order of the mean return over the training. A seed that did not solve "
        f"InvertedPendulum counts as {budget} steps; the other tasks have no such limit.",
    )


def analyse(scale: Scale, results: Mapping[str, Result]) -> Findings:
    """Return a table per task and the differences from MBPO; nothing is claimed on these seeds."""
    size = _SIZES[scale]
    budget = size.options.get("steps", _TASKS[INVERTED].steps)
    tasks = {
        name: {
            reading: [results[_label(name, reading, seeds)] for seeds in _blocks(name, scale)]
            for reading in _readings(name, scale)
        }
        for name in size.tasks
    }
    counts = "; ".join(
        f"{name}: {count_seeds(sum(map(len, _blocks(name, scale))))}" for name in tasks
    )
    return Findings(
        about=f"NARL with every reading of the choice among models, and MBPO with as many members "
        f"({counts}; all from {FIRST_SEED} on). In the names, above and ball are what the radius "
        "excludes, and update is the choice in the target of every update (`--optimism-at "
        "update`). The seeds are kept for tuning: these tables choose narl's default and prove "
        "nothing.",
        charts=[],
        tables=[
            *(_table(name, runs, budget) for name, runs in tasks.items()),
            difference_table(
                "choice-differences",
                {
                    name: {reading: _returns(x).mean(axis=1) for reading, x in runs.items()}
                    for name, runs in tasks.items()
                },
                MBPO,
                "return over the training",
                "reading",
            ),
        ],
        claims=[],
    )


EXPERIMENT = Experiment("choice", TITLE, cells, analyse)
