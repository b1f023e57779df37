"""`narl sweep` whose workers or driver are killed: afterwards every run was done, and only once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random

from fault_tally import Tally

from narl import storage
from narl.sweeps.grid import HALVES, expand
from short_trainings import assert_same_outcome, short_arguments, short_options
from sweeps.small_sweeps import start_sweep, times_finished

ENV = "Pendulum-v1"
CHANGES = {"steps": 500, "hidden": (8,), "batch": 16}
SECONDS = 120


def try_sweep_kills(folder: Path, programs: Path, number: int, seed: int = 0) -> Tally:
    """Kill a worker or the driver of a sweep of two runs at random times, once or twice."""
    tally, random = Tally("kill -9 (sweep worker, sweep driver)"), Random(seed)
    whole, seconds = _undisturbed(folder, programs)
    for i in range(number):
        root = folder / f"sweep-{seed}-{i}"
        with tally.trial(f"sweep {i}", seconds=5 * SECONDS):
            for k in range(random.choice([1, 1, 2])):
                sweep = _start(programs, root)
                time.sleep(random.uniform(0, seconds))
                workers = _children(sweep.pid)
                if workers and (i + k) % 2:
                    os.kill(random.choice(workers), signal.SIGKILL)
                    _end(sweep)  # the driver begins its run again
                else:
                    sweep.kill()  # its workers go on by themselves
                    sweep.communicate()
            _end(_start(programs, root))
            _compare(root, whole)
    return tally


def try_ray_sweeps(number: int) -> Tally:
    """Run the test of Ray with 24 runs, whose workers, node and driver are killed, so often."""
    tally = Tally("Ray: 24 runs; workers, a node and the driver killed")
    test = Path(__file__).parents[1] / "sweeps" / "test_ray_executor.py"
    command = [sys.executable, "-m", "pytest", "-q", "-n0", str(test), "-k", "lost"]
    for i in range(number):
        with tally.trial(f"Ray sweep {i}", seconds=10 * SECONDS):
            variables = os.environ | {"NARL_TEST_SWEEP_RUNS": "24"}
            done = subprocess.run(command, env=variables, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout[-300:]
    return tally


def _undisturbed(folder: Path, programs: Path) -> tuple[Path, float]:
    """Run the sweep without a fault; return its folder and the seconds that it took."""
    for name in ("sweep-compiled", "sweep-whole"):
        begin = time.monotonic()
        _end(_start(programs, folder / name))
    return folder / name, time.monotonic() - begin


def _start(programs: Path, root: Path) -> subprocess.Popen[str]:
    root.mkdir(parents=True, exist_ok=True)
    words = [ENV, *short_arguments(**CHANGES), "--seeds=0:2", "--seeds-per-run=1", "--group=1"]
    return start_sweep(
        programs, *words, "--jobs=2", f"--runs={root / 'runs'}", f"--csv={root / 'results.csv'}"
    )


def _end(sweep: subprocess.Popen[str]) -> None:
    """Wait for the end of a sweep, in which no run may fail."""
    _, err = sweep.communicate(timeout=2 * SECONDS)
    assert sweep.returncode == 0, (sweep.returncode, err[-500:])
    assert "Traceback" not in err, err[-500:]


def _children(process: int) -> list[int]:
    """Return the children of a process; none if it has ended."""
    try:
        return [
            int(x) for x in Path(f"/proc/{process}/task/{process}/children").read_text().split()
        ]
    except OSError:
        return []


def _compare(root: Path, whole: Path) -> None:
    """Check that a sweep has the results of the undisturbed one, each made once."""
    assert (root / "results.csv").read_bytes() == (whole / "results.csv").read_bytes()
    options = {name: (x,) for name, x in short_options(**CHANGES).items()}
    axes = {"env": (ENV,), "algo": ("sac",), **options, "seeds": ((0,), (1,))}
    runs = expand(HALVES["train"], [axes])
    for run in runs:
        made = storage.load_run(root / "runs", run.id)
        assert_same_outcome(made, storage.load_run(whole / "runs", run.id))
    # A process that is killed just before it logs the end of a run leaves no line.
    often = times_finished(root / "runs", runs)
    assert all(number <= 1 for number in often.values()), often
