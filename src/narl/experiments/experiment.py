"""What an experiment is: its cells, its analysis and its claims, in one small file each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from narl import storage
from narl.report.document import Outcome
from narl.storage.metrics_log import NAME as JOURNAL
from narl.storage.metrics_log import rows_from_bytes
from narl.tabular.config import Study, execute

if TYPE_CHECKING:
    from narl.deep.training_run import Course

Cell: TypeAlias = "Study | Course"
"""What is run with all its seeds: a tabular study, or a training of the deep half."""

Scale = Literal["smoke", "small", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "small", "paper")


@dataclasses.dataclass(frozen=True)
class Result:
    """One finished cell."""

    item: Cell
    run: storage.Run

    def array(self, name: str) -> np.ndarray:
        """One of the run's arrays, in float64; those of a study are [seeds, episodes]."""
        return self.run.arrays()[name].astype(np.float64)

    def rows(self) -> list[dict[str, Any]]:
        """The journal of a training: what every epoch told, by name."""
        return rows_from_bytes(self.run.extra(JOURNAL))


class Experiment(NamedTuple):
    """A figure or table of the paper."""

    id: str
    title: str
    cells: Callable[[Scale], Mapping[str, Cell]]
    """What is run, by label."""
    analyse: Callable[[Scale, Mapping[str, Result]], Outcome]
    """What comes out: charts, tables, claims."""


ENVIRONMENT = ("narl", "python", "jax", "jaxlib", "numpy", "device")
"""What an outcome records of the machine: made again on the same one, it is the same file, but
for the seconds that a training took."""
OF_TRAININGS = ("optax", "gymnasium", "mujoco")
"""… and on what trainings depend besides."""


class Watch(NamedTuple):
    """How a caller follows an experiment."""

    begin: Callable[[str, Cell, int], None]
    """A cell begins (its label, what is run, its `length`)."""
    advance: Callable[[str, int], None]
    """Episodes or environment steps of the cell that are done."""
    end: Callable[[str, bool], None]
    """A cell ended; True if its run was found finished."""


SILENT = Watch(lambda *begin: None, lambda *advance: None, lambda *end: None)


def is_training(item: Cell) -> bool:
    """Whether a cell belongs to the deep half: it leaves checkpoints, and can be asked to stop."""
    return not isinstance(item, Study)


def length(item: Cell) -> int:
    """What a cell has to do for each seed at most: episodes, or environment steps."""
    return item.episodes if isinstance(item, Study) else item.settings.steps


def run_cells(
    items: Sequence[Cell],
    root: Path,
    *,
    progress: Callable[[int], None],
    should_stop: Callable[[], bool] = lambda: False,
    fresh: bool = False,
) -> list[tuple[storage.Run, bool]]:
    """The finished runs of one of `batches`, found in the store (True) or made now (False).

    A training that was stopped goes on from its last checkpoint.
    """
    studies = [item for item in items if isinstance(item, Study)]
    if studies:
        return [execute(study, root, progress=progress, fresh=fresh) for study in studies]
    from narl.deep.training_run import train_together

    courses = [item for item in items if not isinstance(item, Study)]
    return train_together(
        courses, root, on_step=progress, on_resume=progress, should_stop=should_stop, fresh=fresh
    )


def batches(cells: Mapping[str, Cell]) -> list[tuple[str, ...]]:
    """Labels of what is run together: a study by itself, trainings of one shape in one program."""
    together: dict[Any, list[str]] = {}
    for label, item in cells.items():
        key = label if isinstance(item, Study) else item.shape
        together.setdefault(key, []).append(label)
    return [tuple(labels) for labels in together.values()]


def reproduce(
    experiment: Experiment,
    scale: Scale,
    root: Path,
    *,
    watch: Watch = SILENT,
    should_stop: Callable[[], bool] = lambda: False,
    fresh: bool = False,
) -> Outcome:
    """Runs (or finds) every cell and analyses them together.

    When ``should_stop`` says so, a training leaves a checkpoint and raises
    `narl.deep.training_run.Stopped`; called again, the experiment goes on from there.
    """
    cells = experiment.cells(scale)
    results: dict[str, Result] = {}
    for labels in batches(cells):
        items, name = [cells[label] for label in labels], "; ".join(labels)
        watch.begin(name, items[0], length(items[0]))

        def advance(done: int, name: str = name) -> None:
            watch.advance(name, done)

        made = run_cells(items, root, progress=advance, should_stop=should_stop, fresh=fresh)
        for label, item, (kept, found) in zip(labels, items, made, strict=True):
            results[label] = Result(item, kept)
            watch.end(label, found)
    results = {label: results[label] for label in cells}
    outcome = experiment.analyse(scale, results)
    if scale == "smoke":  # a check that everything runs, far too short to decide anything
        open_claims = [dataclasses.replace(c, verdict="undecided") for c in outcome.claims]
        note = "Smoke scale only shows that the experiment runs; its claims stay undecided."
        outcome = dataclasses.replace(outcome, claims=open_claims, notes=[note, *outcome.notes])
    first = next(iter(results.values()))
    recorded = ENVIRONMENT + (OF_TRAININGS if is_training(first.item) else ())
    environment = first.run.environment
    return dataclasses.replace(
        outcome,
        command=f"narl reproduce {experiment.id} --scale {scale}",
        runs=[result.run.id for result in results.values()],
        environment={name: environment[name] for name in recorded if name in environment},
    )
