"""How long the paper's reproduction takes on 1 to 64 workers: a model, and a small measurement.

    python benchmarks/sweep_scaling.py               the table of docs/sweeps.md
    python benchmarks/sweep_scaling.py --measure     time a small sweep with one and two workers

A worker is two cores, as in docs/benchmarks.md. The runs are those of `narl reproduce ID…`; free
workers take the longest run that is left. Assumptions:

- a training takes `UPDATE_SECONDS` per update and seed, whatever its networks and environment, and
  does all its steps, even if it could end earlier;
- the measured time of a tabular experiment is divided equally among its runs;
- workers do not slow each other down, and starting a run costs nothing.
"""

from __future__ import annotations

import argparse
import heapq
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

PAPER = ("fig1a", "fig1b", "fig1c", "table1", "fig2", "fig3a", "fig3b", "fig3c", "fig4", "table2")
UPDATE_SECONDS = 1 / (21.6 * 10)
"""A training on InvertedPendulum does 21.6 steps of 10 updates per second (docs/benchmarks.md)."""
EXPERIMENT_SECONDS = {
    "fig1a": 46,
    "fig1b": 36,
    "table1": 300,
    "fair": 1_800,
    # What is left for these two of the nine minutes that all five took on 16 cores.
    "fig1c": 1_000,
    "ablation": 2_900,
}
"""The tabular experiments on two cores (docs/reproduction.md)."""
WORKERS = (1, 2, 4, 8, 16, 32, 64)
SMALL_SWEEP = (
    *("Pendulum-v1", "--algo=sac", "--steps=3000", "--initial-steps=500", "--epoch-length=500"),
    *("--updates-per-step=2", "--seeds=0:8", "--seeds-per-run=1", "--group=1"),
)


def run_seconds(ids: Iterable[str], seeds_apart: bool) -> list[float]:
    """Return the seconds of every run of experiments at the paper's scale.

    With ``seeds_apart``, every seed of a training is a run of its own.
    """
    from narl.deep.config import Config
    from narl.experiments import EXPERIMENTS

    seconds: dict[str, list[float]] = {}
    for id_ in ids:
        cells = list(EXPERIMENTS[id_].cells("paper").values())
        for cell in cells:
            if isinstance(cell, Config):
                each = (cell.steps - cell.learn_after) * cell.updates_per_step * UPDATE_SECONDS
                number = len(cell.seeds)
                runs = [each] * number if seeds_apart else [each * number]
            else:
                runs = [EXPERIMENT_SECONDS[id_] / len(cells)]
            seconds.setdefault(cell.run_id, runs)  # experiments may share a run
    return [each for runs in seconds.values() for each in runs]


def makespan(seconds: Sequence[float], num_workers: int) -> float:
    """Return when the last run ends if a free worker takes the longest run that is left."""
    free_at = [0.0] * num_workers
    for each in sorted(seconds, reverse=True):
        heapq.heapreplace(free_at, free_at[0] + each)
    return max(free_at)


def print_model(ids: Sequence[str]) -> None:
    """Print the table of hours, as Markdown."""
    whole, apart = run_seconds(ids, seeds_apart=False), run_seconds(ids, seeds_apart=True)
    print(f"{len(whole)} runs, {sum(whole) / 3600:.1f} hours in all; the longest takes", end=" ")
    print(f"{max(whole) / 3600:.1f} hours, or {max(apart) / 3600:.1f} with one seed per run\n")
    print("| workers | hours | times as fast | hours, one seed per run | times as fast |")
    print("| --- | --- | --- | --- | --- |")
    for number in WORKERS:
        cells = [
            cell
            for seconds in (whole, apart)
            for time_ in [makespan(seconds, number)]
            for cell in (f"{time_ / 3600:.1f}", f"{sum(seconds) / time_:.1f}")
        ]
        print(f"| {' | '.join([str(number), *cells])} |")


def measure() -> None:
    """Time a sweep of eight small trainings with one and with two workers, of one core each."""
    with tempfile.TemporaryDirectory() as folder:
        for jobs in (1, 1, 2):  # the first one compiles
            root = Path(folder) / f"runs-{jobs}-{time.monotonic_ns()}"
            command = [sys.executable, "-m", "narl", "sweep", *SMALL_SWEEP]
            begin = time.perf_counter()
            subprocess.run(
                [*command, f"--jobs={jobs}", "--cpus=1", f"--runs={root}"],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            print(f"{jobs} workers: {time.perf_counter() - begin:.1f} s", flush=True)


def main() -> int:
    """Print the model's table, or measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ids", nargs="*", default=PAPER, help="experiments (default: the paper's)")
    parser.add_argument("--measure", action="store_true", help="time a small sweep instead")
    arguments = parser.parse_args()
    if arguments.measure:
        measure()
    else:
        print_model(arguments.ids)
    return 0


if __name__ == "__main__":
    sys.exit(main())
