"""The state of every run of a sweep, read from the folder of runs; also while the sweep goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from narl import storage
from narl.errors import InputError
from narl.sweeps.planned_run import SweepRun
from narl.sweeps.run_notes import RunNotes

State = Literal["done", "running", "failed", "unfinished", "waiting"]
STATES: tuple[State, ...] = ("done", "running", "failed", "unfinished", "waiting")


class RunStatus(NamedTuple):
    """Progress of one run of a sweep."""

    run: SweepRun
    state: State
    step: int = 0
    """Environment steps or episodes that are done."""
    mean_return: float | None = None
    """The last mean evaluation return over the seeds, of trainings in the same program."""
    worker: str = ""
    """Host and process that work on the run."""
    error: str = ""
    log: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the status as `--json` prints it."""
        return {
            "run": self.run.id,
            "label": self.run.label,
            "state": self.state,
            "step": self.step,
            "steps": self.run.length,
            "return": self.mean_return,
            "worker": self.worker or None,
            "error": self.error or None,
            "log": self.log or None,
        }


class SweepStatus:
    """The states of a sweep's runs; a finished run is verified once and then remembered.

    With ``opens_env``, a run that other code of a user's environment has made is not finished: the
    environment's module is imported, so a user must have named it.
    """

    def __init__(self, runs: Sequence[SweepRun], root: Path, opens_env: bool = False) -> None:
        self.runs, self._root = runs, root
        self._find = SweepRun.find_current if opens_env else SweepRun.find
        self._done: dict[str, RunStatus] = {}

    def read(self) -> list[RunStatus]:
        """Return the state of every run now."""
        return [self._done.get(run.id) or self._read_one(run) for run in self.runs]

    def _read_one(self, run: SweepRun) -> RunStatus:
        try:
            finished = self._find(run, self._root)
        except InputError as error:  # a newer version of narl has written it
            return RunStatus(run, "failed", error=str(error))
        if finished is None:
            return _open_status(run, self._root)
        self._done[run.id] = _finished(run, finished, self._root)
        return self._done[run.id]


def _finished(run: SweepRun, finished: storage.Run, root: Path) -> RunStatus:
    log = RunNotes(root, run.id).log
    metrics = finished.metrics
    step, returns = _number(metrics, "steps" if run.is_training else "episodes"), []
    if isinstance(final := metrics.get("final_return"), list):
        returns = [float(x) for x in final if isinstance(x, int | float)]
    mean = sum(returns) / len(returns) if returns else None
    return RunStatus(run, "done", step, mean, log=str(log) if log.exists() else "")


def _open_status(run: SweepRun, root: Path) -> RunStatus:
    notes = RunNotes(root, run.id)
    worker, failure = notes.worker(), notes.failure()
    if worker is not None and notes.is_leased:
        who = f"{worker.get('host')}:{worker.get('process')}"
        step, mean = _number(worker, "step"), worker.get("return")
        mean = float(mean) if isinstance(mean, int | float) else None
        return RunStatus(run, "running", step, mean, who, log=str(worker.get("log", "")))
    if failure is not None and notes.has_failed:
        log = str(failure.get("log", ""))
        return RunStatus(run, "failed", error=str(failure.get("error", "")), log=log)
    step = _number(worker or {}, "step")
    if run.is_training:
        step = storage.UnfinishedRun(root / f"{run.id}{storage.PART_SUFFIX}", {}, 1).step or step
    log = str((worker or {}).get("log", ""))
    begun = worker is not None or step > 0 or failure is not None
    return RunStatus(run, "unfinished" if begun else "waiting", step, log=log)


def _number(note: Mapping[str, Any], name: str) -> int:
    """Return a whole number of a file, which anyone may have changed; 0 if it is none."""
    value = note.get(name, 0)
    return value if isinstance(value, int) else 0


def count_states(statuses: Iterable[RunStatus]) -> dict[State, int]:
    """Return how many runs are in each state."""
    counts = Counter(status.state for status in statuses)
    return {state: counts[state] for state in STATES}
