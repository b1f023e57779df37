"""Time and disk that the runs of a sweep will need, from finished runs or from short trials."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from narl import storage
from narl.console import note
from narl.deep.config import Config as TrainingConfig
from narl.errors import EnvironmentFault, InputError
from narl.sweeps.planned_run import SweepRun
from narl.sweeps.run_task import error_line
from narl.sweeps.tasks import Task
from narl.sweeps.trial import Cost
from narl.tabular.config import Config as TabularConfig

TRIAL_SECONDS = 60.0
"""Seconds after which no other trial is begun."""


class Estimate(NamedTuple):
    """Seconds and bytes of the runs that can be estimated, and how many cannot."""

    seconds: float
    size: int
    num_estimated: int
    num_unknown: int
    num_examples: int
    """Finished runs on which the estimate rests."""
    num_trials: int
    """Short trials on which the estimate rests."""
    checkpoints: int = 0
    """Bytes that checkpoints take at most while trainings run; finished runs have none."""


class _Example(NamedTuple):
    env: Any
    user: Any
    """The algorithm or the agent."""
    seconds: float
    """Seconds per step (or episode) and seed."""
    size: float
    """Bytes per seed."""


def estimate(
    runs: Sequence[SweepRun], root: Path, try_out: Callable[[SweepRun], Cost] | None = None
) -> Estimate:
    """Estimate the time, one process after the other, and the disk of runs that are not done.

    Examples are finished runs with the same algorithm or agent: those on the same environment,
    else those on any. Where there is none, ``try_out`` makes a trial of one run of each kind. Times
    grow with steps and seeds, sizes with seeds; the median counts.
    """
    finished = [x for run in storage.list_runs(root) if (x := _example(run)) is not None]
    trials = _Trials(try_out)
    seconds, size, num_known, used = 0.0, 0.0, 0, set[int]()
    for run in runs:
        alike = [x for x in finished if x.user == _user(run)]
        alike = [x for x in alike if x.env == run.config.env] or alike or trials.examples(run)
        if not alike:
            continue
        num_known += 1
        used |= {id(x) for x in alike}
        num_seeds = len(run.config.seeds)
        seconds += median(x.seconds for x in alike) * run.length * num_seeds
        size += median(x.size for x in alike) * num_seeds
    num_finished = len(used & {id(x) for x in finished})
    unknown = len(runs) - num_known
    return Estimate(
        seconds, round(size), num_known, unknown, num_finished, len(used) - num_finished
    )


def checkpoint_size(tasks: Sequence[Task], at_once: int) -> int:
    """Return the bytes of checkpoints while so many tasks, the largest ones, run at once.

    A training keeps two; each holds the states of all its replicas.
    """
    sizes = sorted((_state_size(task) for task in tasks if task[0].is_training), reverse=True)
    return 2 * sum(sizes[:at_once])


def _state_size(task: Task) -> int:
    """Return the bytes of all replicas of a task; 0 if its environment cannot be opened here."""
    from narl.deep.algorithm import Algorithm
    from narl.deep.device_memory import replica_memory
    from narl.deep.training_environment import open_training_env

    config = task[0].config
    assert isinstance(config, TrainingConfig)
    try:
        opened = open_training_env(config, 0, timeout=task[0].env_timeout)
    except (InputError, EnvironmentFault):
        return 0
    with contextlib.closing(opened) as env:
        algorithm = Algorithm(config, env.spaces.obs_dim, env.spaces.action_dim, None, 1)
    return sum(len(run.config.seeds) for run in task) * replica_memory(algorithm).total


class _Trials:
    """Trials of one run of each kind, as long as there is time."""

    def __init__(self, try_out: Callable[[SweepRun], Cost] | None) -> None:
        self._try_out = try_out
        self._made: dict[Any, _Example | None] = {}
        self._begin = time.monotonic()

    def examples(self, run: SweepRun) -> list[_Example]:
        """Return the trial of this kind of run, or else those of the same algorithm or agent."""
        kind = _kind(run)
        has_time = time.monotonic() - self._begin < TRIAL_SECONDS
        if kind not in self._made and self._try_out is not None and has_time:
            self._made[kind] = self._make(run, self._try_out)
        own = self._made.get(kind)
        others = (x for x in self._made.values() if x is not None and x.user == _user(run))
        return list(others) if own is None else [own]

    def _make(self, run: SweepRun, try_out: Callable[[SweepRun], Cost]) -> _Example | None:
        name = run.label or run.id
        note(f"a short trial of {name} …")
        try:
            cost = try_out(run)
        except Exception as error:
            note(f"the trial of {name} failed: {error_line(error)}")
            return None
        num_seeds = len(run.config.seeds)
        each = cost.seconds / run.length / num_seeds
        return _Example(run.config.env, _user(run), each, cost.size / num_seeds)


def _user(run: SweepRun) -> str:
    config = run.config
    return config.agent if isinstance(config, TabularConfig) else config.algo


def _kind(run: SweepRun) -> Any:
    """Return what runs that cost about the same have in common."""
    config = run.config
    if isinstance(config, TabularConfig):
        return config.agent, config.env, config.size, config.horizon
    return config.shape


def _example(run: storage.Run) -> _Example | None:
    """Return the costs of a finished run; None if it does not tell them."""
    try:
        return None if run.problems else _read_example(run)
    except (ArithmeticError, AttributeError, OSError, TypeError, ValueError):
        return None  # anyone may have changed its files


def _read_example(run: storage.Run) -> _Example | None:
    config, metrics = run.config, run.metrics
    seconds, seeds = metrics.get("seconds"), config.get("seeds")
    if not isinstance(seconds, dict) or not seeds:
        return None
    is_training = config.get("experiment") == "train"
    length = metrics.get("steps" if is_training else "episodes")
    total = seconds.get("total") if is_training else sum(seconds.values())
    if not length or not total:
        return None
    # Trainings in one program share their seconds.
    replicas = metrics.get("replicas", len(seeds)) if is_training else len(seeds)
    size = sum(path.stat().st_size for path in run.path.iterdir())
    user = str(config.get("algo") or config.get("agent"))
    each = float(total / length / replicas)
    return _Example(str(config.get("env")), user, each, size / len(seeds))
