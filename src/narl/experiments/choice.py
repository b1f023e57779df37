"""Readings of the optimistic choice among models (ours), compared on tuning seeds.

The default of narl is chosen here, so nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from narl.experiments.analysis import capped, count_seeds, evaluation_returns, steps_to_solve
from narl.experiments.experiment import Experiment, Findings, Result, Scale
from narl.experiments.exploration import REACHER, TASKS
from narl.experiments.fig3a import ENV, TINY
from narl.experiments.judgement import difference_table
from narl.report.contents import Table

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


INVERTED, FREE_PENDULUM = "InvertedPendulum", "pendulum, cost 0"
_TASKS = {
    INVERTED: _Task(ENV, 3, 3_000, tuple(READINGS), 2),
    FREE_PENDULUM: _Task(TASKS[FREE_PENDULUM].env, 5, TASKS[FREE_PENDULUM].steps, MAIN, 1),
    REACHER: _Task(TASKS[REACHER].env, 5, TASKS[REACHER].steps, MAIN, 1),
}
FIRST_SEED, BLOCK = 200, 10


class _Size(NamedTuple):
    tasks: tuple[str, ...]
    num_seeds: int | None = None
    """Seeds of every run; None for all blocks of the task."""
    steps: int | None = None


_SIZES: dict[Scale, _Size] = {
    "smoke": _Size((INVERTED,), 1, 600),
    "small": _Size((INVERTED,), 1),
    "paper": _Size((INVERTED,)),
}


def _blocks(task: _Task, size: _Size) -> list[tuple[int, ...]]:
    """Return the seeds of every run of a reading."""
    if size.num_seeds is not None:
        return [tuple(range(FIRST_SEED, FIRST_SEED + size.num_seeds))]
    firsts = [FIRST_SEED + BLOCK * place for place in range(task.num_blocks)]
    return [tuple(range(first, first + BLOCK)) for first in firsts]


def _label(task: str, reading: str, seeds: tuple[int, ...]) -> str:
    return f"{task}: {reading}, seeds from {seeds[0]}"


def cells(scale: Scale) -> dict[str, Config]:
    """Return every reading on every task, with the same members and the same seeds."""
    from narl.deep.checked_config import make_config

    size = _SIZES[scale]
    found = {}
    for name in size.tasks:
        task = _TASKS[name]
        readings = task.readings if scale == "paper" else MAIN
        shared: dict[str, Any] = {"members": task.members, "steps": size.steps or task.steps}
        small = TINY if scale == "smoke" else {}
        for seeds in _blocks(task, size):
            for reading in readings:
                algo = "mbpo" if reading == MBPO else "narl"
                given = shared | READINGS[reading] | small
                found[_label(name, reading, seeds)] = make_config(
                    task.env, algo, seeds=seeds, **given
                )
    return found


def _returns(runs: list[Result]) -> Float[np.ndarray, " N"]:
    """Return every seed's mean return over the training, of several runs."""
    return np.concatenate([evaluation_returns(run).mean(axis=1) for run in runs])


def _table(name: str, runs: Mapping[str, list[Result]], budget: int) -> Table:
    rows: list[list[Any]] = []
    for reading, found in runs.items():
        times = np.concatenate([steps_to_solve(run) for run in found])
        last = np.concatenate([evaluation_returns(run)[:, -1] for run in found])
        overall = _returns(found)
        solved = [int(np.isfinite(times).sum()), float(capped(times, budget).mean())]
        rows.append(
            [reading, len(times), *(solved if name == INVERTED else [None, None])]
            + [float(overall.mean()), float(overall.min()), float(last.mean())]
        )
    rows.sort(key=lambda row: -row[4])
    return Table(
        f"choice-{name.lower().replace(', ', '-').replace(' ', '-').replace('.', '')}",
        name,
        ["reading", "seeds", "seeds that solve it", "steps to solve"]
        + ["mean return over the training", "worst seed's mean return", "final return"],
        rows,
        "In the order of the mean return over the training. A seed that did not solve "
        f"InvertedPendulum counts as {budget} steps; the other tasks have no such limit.",
    )


def analyse(scale: Scale, results: Mapping[str, Result]) -> Findings:
    """Return a table per task and the differences from MBPO; nothing is claimed on these seeds."""
    size = _SIZES[scale]
    tasks: dict[str, dict[str, list[Result]]] = {}
    for name in size.tasks:
        task = _TASKS[name]
        tasks[name] = {
            reading: [results[_label(name, reading, seeds)] for seeds in _blocks(task, size)]
            for reading in (task.readings if scale == "paper" else MAIN)
        }
    counts = ", ".join(
        f"{name} {count_seeds(sum(map(len, _blocks(_TASKS[name], size))))}" for name in tasks
    )
    return Findings(
        about=f"NARL with every reading of the choice among models, and MBPO with as many members "
        f"({counts}, from {FIRST_SEED} on). In the names, above and ball are what the radius "
        "excludes, and update is the choice in the target of every update (`--optimism-at "
        "update`). The seeds are kept for tuning: these tables choose narl's default and prove "
        "nothing.",
        charts=[],
        tables=[
            *(_table(name, runs, size.steps or _TASKS[name].steps) for name, runs in tasks.items()),
            difference_table(
                "choice-differences",
                {
                    name: {reading: _returns(found) for reading, found in runs.items()}
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
