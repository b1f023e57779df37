"""The results of a sweep as one CSV table: a row for every run and seed, without times.

The same runs give the same bytes, whatever executor did them, in whatever order.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from narl import storage
from narl.options import as_text
from narl.sweeps.planned_run import SweepRun

TRAINING = ("final_return", "solved_step", "episodes")
TABULAR = ("regret", "realised_return", "solved_episode")


def results_csv(runs: Sequence[SweepRun], root: Path) -> bytes:
    """Return the table of all finished runs."""
    options = [
        name
        for name in dict.fromkeys(name for run in runs for name in run.options)
        if name != "seeds"
    ]
    halves = {run.is_training: TRAINING if run.is_training else TABULAR for run in runs}
    figures = [name for half in sorted(halves, reverse=True) for name in halves[half]]
    titles = [f"{name} (result)" if name in options else name for name in figures]
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(["run", *options, "seed", *titles])
    for run in runs:
        if (finished := run.find(root)) is None:
            continue
        given = [as_text(run.options[name]) if name in run.options else "" for name in options]
        for seed, values in zip(run.config.seeds, _rows(run, finished), strict=True):
            found = dict(zip(halves[run.is_training], values, strict=True))
            table.writerow([run.id, *given, seed, *(_cell(found.get(name)) for name in figures)])
    return out.getvalue().encode()


def _rows(run: SweepRun, finished: storage.Run) -> Iterator[tuple[Any, ...]]:
    """Yield the figures of every seed."""
    metrics, seeds = finished.metrics, run.config.seeds
    if run.is_training:
        columns = [metrics[name] for name in TRAINING]
    else:
        arrays = finished.arrays()
        columns = [list(arrays[name].astype(np.float64).sum(axis=1)) for name in TABULAR[:2]]
        columns.append(metrics.get("solved_episode") or [None] * len(seeds))
    yield from zip(*columns, strict=True)


def _cell(value: Any) -> str:
    return "" if value is None else repr(value.item() if isinstance(value, np.generic) else value)
