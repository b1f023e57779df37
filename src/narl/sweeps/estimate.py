"""Time and disk that the runs of a sweep will need, from finished runs of the same folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from narl import storage
from narl.sweeps.planned_run import SweepRun


class Estimate(NamedTuple):
    """Seconds and bytes of the runs that can be estimated, and how many cannot."""

    seconds: float
    size: int
    num_estimated: int
    num_unknown: int
    num_examples: int
    """Finished runs on which the estimate rests."""


class _Example(NamedTuple):
    env: Any
    user: Any
    """The algorithm or the agent."""
    seconds: float
    """Seconds per step (or episode) and seed."""
    size: float
    """Bytes per seed."""


def estimate(runs: Sequence[SweepRun], root: Path) -> Estimate:
    """Estimate the time, one process after the other, and the disk of runs that are not done.

    Examples are finished runs with the same algorithm or agent: those on the same environment,
    else those on any. Times grow with steps and seeds, sizes with seeds; the median counts.
    """
    examples = [x for run in storage.list_runs(root) if (x := _example(run)) is not None]
    seconds, size, num_known, used = 0.0, 0.0, 0, set()
    for run in runs:
        config = run.config
        user = getattr(config, "algo", None) or getattr(config, "agent", None)
        alike = [x for x in examples if x.user == user]
        alike = [x for x in alike if x.env == config.env] or alike
        if not alike:
            continue
        num_known += 1
        used |= set(alike)
        num_seeds = len(config.seeds)
        seconds += median(x.seconds for x in alike) * run.length * num_seeds
        size += median(x.size for x in alike) * num_seeds
    return Estimate(seconds, round(size), num_known, len(runs) - num_known, len(used))


def _example(run: storage.Run) -> _Example | None:
    """Return the costs of a finished run; None if it does not tell them."""
    config, metrics = run.config, run.metrics
    seconds, seeds = metrics.get("seconds"), config.get("seeds")
    if run.problems or not isinstance(seconds, dict) or not seeds:
        return None
    is_training = config.get("experiment") == "train"
    length = metrics.get("steps" if is_training else "episodes")
    total = seconds.get("total") if is_training else sum(seconds.values())
    if not length or not total:
        return None
    # Trainings in one program share their seconds.
    replicas = metrics.get("replicas", len(seeds)) if is_training else len(seeds)
    size = sum(path.stat().st_size for path in run.path.iterdir())
    user = config.get("algo") or config.get("agent")
    return _Example(config.get("env"), user, total / length / replicas, size / len(seeds))
