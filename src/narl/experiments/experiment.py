"""What an experiment is: its cells, its analysis and its claims, in one small file each."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from narl import store
from narl.experiments.outcome import Outcome
from narl.tabular.study import Study, execute

Scale = Literal["smoke", "small", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "small", "paper")


@dataclasses.dataclass(frozen=True)
class Result:
    """One finished cell."""

    study: Study
    run: store.Run

    def array(self, name: str) -> np.ndarray:
        """One of the run's arrays [seeds, episodes], in float64."""
        return self.run.arrays()[name].astype(np.float64)


class Experiment(NamedTuple):
    """A figure or table of the paper."""

    id: str
    title: str
    cells: Callable[[Scale], dict[str, Study]]
    """What is run, by label."""
    analyse: Callable[[Scale, Mapping[str, Result]], Outcome]
    """What comes out: charts, tables, claims."""


ENVIRONMENT = ("narl", "python", "jax", "jaxlib", "numpy", "device")
"""What an outcome records of the machine: made again on the same one, it is the same file."""


class Watch(NamedTuple):
    """How a caller follows an experiment."""

    begin: Callable[[str, Study], None]
    """A cell begins (its label, what is run)."""
    advance: Callable[[str, int], None]
    """Episodes of the cell that are done."""
    end: Callable[[str, bool], None]
    """A cell ended; True if its run was found finished."""


SILENT = Watch(lambda label, item: None, lambda label, done: None, lambda label, found: None)


def reproduce(
    experiment: Experiment,
    scale: Scale,
    root: Path,
    *,
    watch: Watch = SILENT,
    fresh: bool = False,
) -> Outcome:
    """Runs (or finds) every cell and analyses them together."""
    results: dict[str, Result] = {}
    for label, item in experiment.cells(scale).items():
        watch.begin(label, item)

        def advance(done: int, label: str = label) -> None:
            watch.advance(label, done)

        kept, found = execute(item, root, progress=advance, fresh=fresh)
        results[label] = Result(item, kept)
        watch.end(label, found)
    outcome = experiment.analyse(scale, results)
    if scale == "smoke":  # a check that everything runs, far too short to decide anything
        open_claims = [dataclasses.replace(c, verdict="undecided") for c in outcome.claims]
        note = "Smoke scale only shows that the experiment runs; its claims stay undecided."
        outcome = dataclasses.replace(outcome, claims=open_claims, notes=[note, *outcome.notes])
    first: Any = next(iter(results.values())).run.environment
    return dataclasses.replace(
        outcome,
        command=f"narl reproduce {experiment.id} --scale {scale}",
        runs=[result.run.id for result in results.values()],
        environment={name: first[name] for name in ENVIRONMENT if name in first},
    )
