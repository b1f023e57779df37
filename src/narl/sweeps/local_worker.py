"""A worker process of `narl sweep --executor local`: reads one task from stdin and does it.

Its output is the log of the task. SIGTERM and SIGINT end it after a checkpoint. Exit status: 0 when
the task has ended (also if runs failed: their notes say so), 3 when it was stopped.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

from narl.console import note, warnings_as_notes
from narl.interrupts import run_with_checkpoint
from narl.sweeps.planned_run import runs_from_json

STOPPED = 3


def main() -> int:
    """Do the task on stdin and return the exit status."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    task = json.load(sys.stdin)
    if task["cores"]:
        os.sched_setaffinity(0, task["cores"])
    runs, root = runs_from_json(task["runs"]), Path(task["root"])
    warnings.simplefilter("ignore")

    def work(should_stop: Callable[[], bool]) -> None:
        from narl.sweeps.run_task import run_task

        run_task(runs, root, should_stop)

    try:
        with warnings_as_notes():
            run_with_checkpoint(work, at_once=lambda: "stopped; the last checkpoint is kept")
    except KeyboardInterrupt as stop:
        note(str(stop) or "stopped")
        os._exit(STOPPED)  # a program that is still running cannot be stopped otherwise
    return 0


if __name__ == "__main__":
    sys.exit(main())
