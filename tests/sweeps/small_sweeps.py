"""Sweeps that take seconds, and processes that execute them."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from narl.sweeps.grid import HALVES, expand
from narl.sweeps.planned_run import SweepRun
from narl.sweeps.run_notes import RunNotes
from short_trainings import ENV, short_options

TESTS = Path(__file__).resolve().parents[1]
SMALL: dict[str, tuple[Any, ...]] = {"size": (2,), "horizon": (2,), "episodes": (5,)}


def tabular_runs(num_runs: int = 4, **axes: tuple[Any, ...]) -> list[SweepRun]:
    """Return runs of a greedy agent, each with a seed of its own, which share a program."""
    grid = {"agent": ("greedy",), "env": ("riverswim",), **SMALL, **axes}
    return expand(HALVES["tabular"], [grid | {"seeds": tuple((i,) for i in range(num_runs))}])


def training_runs(*algos: str, env: str = ENV, **axes: tuple[Any, ...]) -> list[SweepRun]:
    """Return trainings of three epochs, by default of SAC, for every combination of the axes."""
    algos = algos or ("sac",)
    options = {name: (x,) for name, x in short_options(algos[0]).items()}
    return expand(HALVES["train"], [{"env": (env,), "algo": algos, **options, **axes}])


def variables(programs: Path) -> dict[str, str]:
    """Return the environment variables of a process that runs a sweep."""
    own = {
        "PYTHONPATH": os.pathsep.join(
            str(folder) for folder in (TESTS.parent / "src", TESTS, TESTS / "sweeps")
        ),
        "JAX_COMPILATION_CACHE_DIR": str(programs),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PLATFORMS": "cpu",
    }
    return {name: x for name, x in os.environ.items() if name != "NARL_RUNS"} | own


def start_sweep(programs: Path, *arguments: str) -> subprocess.Popen[str]:
    """Start `narl sweep` in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "narl", "sweep", *arguments],
        env=variables(programs),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def assert_each_done_once(root: Path, runs: list[SweepRun]) -> None:
    """Check that every run is done, and that no worker did one again that was done.

    A worker that is killed after it has saved a run, and before it logs so, leaves no line; then
    its note that it works on the run stays.
    """
    for run_id, number in times_finished(root, runs).items():
        was_killed_at_the_end = RunNotes(root, run_id).worker() is not None
        assert number == 1 or (number == 0 and was_killed_at_the_end), (run_id, number)
    assert all(run.find(root) is not None for run in runs)


def wait_for_checkpoint(root: Path, least: int = 300) -> int:
    """Wait for a checkpoint of any training in a folder of runs; return its step.

    By step 300 of a short training everything is compiled.
    """
    deadline = time.monotonic() + 400  # for machines with other work
    while time.monotonic() < deadline:
        steps = [int(path.name[5:]) for path in root.glob("*.part/checkpoints/step-*")]
        if max(steps, default=0) >= least:
            return max(steps)
        time.sleep(0.02)
    raise TimeoutError


def times_finished(root: Path, runs: list[SweepRun]) -> dict[str, int]:
    """Return how often the logs say that each run was finished."""
    logs = [path.read_text() for path in (root / "sweeps").glob("*/log.txt")]
    lines = [line for log in logs for line in log.splitlines() if line.startswith("finished ")]
    return {run.id: sum(run.id in line for line in lines) for run in runs}
