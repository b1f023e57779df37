"""Experiments: the configurations to run, their analysis, and the outcome."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from narl import storage
from narl.decomposition import decompose
from narl.grouping import group_by
from narl.report.contents import (
    ENVIRONMENT,
    TRAINING_ENVIRONMENT,
    Chart,
    Claim,
    Outcome,
    Table,
    TabularRun,
    Training,
    rounded,
)
from narl.tabular.config import Config as TabularConfig
from narl.tabular.stored_run import run_config, run_configs

if TYPE_CHECKING:
    from narl.deep.config import Config as TrainingConfig

Cell: TypeAlias = "TabularConfig | TrainingConfig"
"""A configuration that is run with all its seeds, of the tabular or the deep half."""

Scale = Literal["smoke", "small", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "small", "paper")
SMOKE = "Smoke scale only shows that the experiment runs; its claims stay undecided."


class Size(NamedTuple):
    """Steps, seeds and options of one scale of an experiment on one task."""

    steps: int
    num_seeds: int
    options: Mapping[str, Any] = {}
    """Further options of every configuration."""

    def shared_options(self, first_seed: int = 0) -> dict[str, Any]:
        """Return the options of every configuration, with seeds from ``first_seed`` on."""
        seeds = tuple(range(first_seed, first_seed + self.num_seeds))
        return {"steps": self.steps, "seeds": seeds, **self.options}


class TaskSize(NamedTuple):
    """Tasks, seeds and options of one scale of an experiment over several tasks."""

    tasks: tuple[str, ...]
    num_seeds: int
    options: Mapping[str, Any] = {}
    """Options of every configuration."""


@dataclasses.dataclass(frozen=True)
class Result:
    """A cell and its finished run."""

    cell: Cell
    run: storage.Run

    def array(self, name: str) -> np.ndarray:
        """Return an array of the run in float64; those of a tabular run are [seeds, episodes]."""
        return self.run.arrays()[name].astype(np.float64)

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of a training's metrics log, one per epoch."""
        return storage.rows_from_bytes(self.run.extra(storage.METRICS_LOG))


class Findings(NamedTuple):
    """The analysis of an experiment's results."""

    about: str
    """A few sentences about what was run."""
    charts: list[Chart]
    tables: list[Table]
    claims: list[Claim]
    notes: Sequence[str] = ()


class Experiment(NamedTuple):
    """A figure or a table of the paper, or a comparison of ours."""

    id: str
    title: str
    cells: Callable[[Scale], Mapping[str, Cell]]
    """Returns the configurations to run, by label."""
    analyse: Callable[[Scale, Mapping[str, Result]], Findings]
    """Returns charts, tables and claims from the results, by label."""
    seed_scores: Callable[[Result], Mapping[str, Sequence[float]]] = lambda result: {}
    """Returns further scores of a tabular run, by name, that the claims quote: one per seed."""


class ExperimentHooks(NamedTuple):
    """Functions that an experiment calls to report its progress."""

    on_begin: Callable[[str, int], None] = lambda label, length: None
    """Called when cells begin, with their label and their `length`."""
    on_progress: Callable[[str, int], None] = lambda label, done: None
    """Called with the label and the number of episodes or environment steps that are done."""
    on_end: Callable[[str, bool], None] = lambda label, found: None
    """Called when a cell has ended, with its label and whether its run was in the store."""


NO_HOOKS = ExperimentHooks()


def reproduce(
    experiment: Experiment,
    scale: Scale,
    root: Path,
    *,
    hooks: ExperimentHooks = NO_HOOKS,
    should_stop: Callable[[], bool] = lambda: False,
    fresh: bool = False,
    part: tuple[int, int] = (1, 1),
    env_timeout: float | None = None,
) -> Outcome | None:
    """Run every cell that is not in the store, and return the analysis of all of them.

    When ``should_stop`` returns True, a training writes a checkpoint and raises
    `narl.deep.TrainingStopped`; a second call continues the experiment from there.
    With a ``part`` (i, n) only the i-th of n shares of the cells is run; None: others are not done
    yet. ``env_timeout`` is that of `narl.deep.UserParts`.
    """
    cells = experiment.cells(scale)
    results: dict[str, Result] = {}
    number, num_parts = part
    own = batches(cells)[number - 1 :: num_parts]
    for labels in own:
        batch, name = [cells[label] for label in labels], "; ".join(labels)
        hooks.on_begin(name, length(batch[0]))

        def advance(done: int, name: str = name) -> None:
            hooks.on_progress(name, done)

        runs = _run_batch(batch, root, advance, should_stop, fresh, env_timeout)
        for label, cell, (run, found) in zip(labels, batch, runs, strict=True):
            results[label] = Result(cell, run)
            hooks.on_end(label, found)
    for label in cells.keys() - results.keys():
        finished = storage.find_run_of_config(root, cells[label].record())
        if finished is None:
            return None
        results[label] = Result(cells[label], finished)
    results = {label: results[label] for label in cells}
    findings = experiment.analyse(scale, results)
    return _outcome(experiment, scale, results, findings)


def batches(cells: Mapping[str, Cell]) -> list[tuple[str, ...]]:
    """Return the labels of cells that run together.

    Trainings of one shape run in one program, and so do tabular configurations of one sweep.
    """

    def program(label: str) -> Any:
        cell = cells[label]
        return label if isinstance(cell, TabularConfig) and cell.swept is None else cell.shape

    return [tuple(labels) for labels in group_by(cells, program)]


def is_training(cell: Cell) -> bool:
    """Return whether a cell is a training, which leaves checkpoints and can be stopped."""
    return not isinstance(cell, TabularConfig)


def length(cell: Cell) -> int:
    """Return the largest number of episodes or environment steps of a cell, for each seed."""
    return cell.episodes if isinstance(cell, TabularConfig) else cell.steps


def _run_batch(
    batch: Sequence[Cell],
    root: Path,
    advance: Callable[[int], None],
    should_stop: Callable[[], bool],
    fresh: bool,
    env_timeout: float | None,
) -> list[tuple[storage.Run, bool]]:
    """Return the finished runs of one batch, and whether each was in the store.

    A training that was stopped continues from its last checkpoint.
    """
    trainings = [cell for cell in batch if not isinstance(cell, TabularConfig)]
    if not trainings:
        tabular = [cell for cell in batch if isinstance(cell, TabularConfig)]
        if tabular[0].swept is not None:
            return run_configs(tabular, root, progress=advance, fresh=fresh)
        return [run_config(cell, root, progress=advance, fresh=fresh) for cell in tabular]
    from narl.deep.training_run import run_training
    from narl.deep.user_parts import UserParts

    return run_training(
        trainings,
        root,
        on_step=advance,
        on_resume=advance,
        should_stop=should_stop,
        fresh=fresh,
        parts=UserParts(env_timeout=env_timeout),
    )


def _outcome(
    experiment: Experiment, scale: Scale, results: Mapping[str, Result], findings: Findings
) -> Outcome:
    """Return the findings with the command, the runs and the environment behind them."""
    claims, notes = findings.claims, list(findings.notes)
    if scale == "smoke":  # a check that everything runs, far too short to decide anything
        claims = [dataclasses.replace(claim, verdict="undecided") for claim in claims]
        notes = [SMOKE, *notes]
    first = next(iter(results.values()))
    recorded = TRAINING_ENVIRONMENT if is_training(first.cell) else ENVIRONMENT
    environment = first.run.environment
    return Outcome(
        id=experiment.id,
        title=experiment.title,
        scale=scale,
        command=f"narl reproduce {experiment.id} --scale {scale}",
        about=findings.about,
        charts=findings.charts,
        tables=findings.tables,
        claims=claims,
        notes=notes,
        runs=[result.run.id for result in results.values()],
        trainings=[_training(label, x) for label, x in results.items() if is_training(x.cell)],
        tabular_runs=[
            _tabular_run(label, result, experiment.seed_scores(result))
            for label, result in results.items()
            if not is_training(result.cell)
        ],
        environment={name: environment[name] for name in recorded if name in environment},
    )


def _training(label: str, result: Result) -> Training:
    """Return a training with the returns of every seed."""
    from narl.report.training_summary import command_of

    cell, metrics = result.cell, result.run.metrics
    assert not isinstance(cell, TabularConfig)
    return Training(
        label=label,
        run=result.run.id,
        command=command_of(cell),
        seeds=list(cell.seeds),
        steps=[int(step) for step in result.array("step")],
        returns=rounded(result.array("eval_return").T.tolist()),
        seconds=round(metrics["seconds"]["total"], 1),
        replicas=metrics.get("replicas"),
        device=result.run.environment.get("device"),
    )


def _tabular_run(label: str, result: Result, further: Mapping[str, Sequence[float]]) -> TabularRun:
    """Return a tabular run with the scores of every seed."""
    from narl.report.tabular_report import command_of

    cell, metrics = result.cell, result.run.metrics
    assert isinstance(cell, TabularConfig)
    values = metrics["v_star"] - result.array("regret")
    terms = decompose(metrics["v_star"], result.array("value"), values)
    scores = {name: term.sum(axis=1).tolist() for name, term in terms._asdict().items()}
    if metrics.get("solved_episode") is not None:
        scores["solved_episode"] = metrics["solved_episode"]
    return TabularRun(
        label=label,
        run=result.run.id,
        command=command_of(cell),
        seeds=list(cell.seeds),
        episodes=metrics["episodes"],
        seed_scores=rounded({**scores, **further}),
        swept=cell.swept,
    )
