"""Tasks as processes of this machine, some at a time, with cores and GPUs of their own."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from narl.errors import InputError
from narl.interrupts import STOP_SECONDS
from narl.storage.files import open_log
from narl.sweeps.driver import Ended
from narl.sweeps.local_worker import STOPPED
from narl.sweeps.planned_run import runs_to_json
from narl.sweeps.resources import Resources, worker_variables
from narl.sweeps.run_notes import RunNotes
from narl.sweeps.tasks import Task


class Slot(NamedTuple):
    """The cores and the GPUs of one process; empty: those of the whole machine."""

    cores: tuple[int, ...] = ()
    gpus: tuple[str, ...] = ()
    gpu_share: float | None = None
    """The share of a GPU, where several processes use the same one; 0: no GPU may be used."""


class _Process(NamedTuple):
    slot: Slot
    task: Task
    popen: subprocess.Popen[bytes]


class LocalExecutor:
    """Tasks in processes of this machine; see `narl.sweeps.driver.Executor`."""

    def __init__(self, root: Path, slots: Sequence[Slot]) -> None:
        self._root, self._free = root, list(slots)
        self._running: list[_Process] = []

    def has_room(self) -> bool:
        """Return whether a slot is free."""
        return bool(self._free)

    def num_running(self) -> int:
        """Return the number of processes."""
        return len(self._running)

    def start(self, task: Task) -> None:
        """Start a process for a task in a free slot; its output is appended to the task's log."""
        slot = self._free.pop(0)
        log = RunNotes(self._root, task[0].id).log
        variables = {"CUDA_VISIBLE_DEVICES": ",".join(slot.gpus)} if slot.gpus else {}
        if slot.gpu_share is not None:
            variables |= worker_variables(slot.gpu_share, os.environ)
        with open_log(log) as output:
            popen = subprocess.Popen(
                [sys.executable, "-m", "narl.sweeps.local_worker"],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | variables,
                start_new_session=True,  # Ctrl-C goes to this process, which stops the others
            )
        self._running.append(_Process(slot, task, popen))
        content = {"root": str(self._root), "cores": slot.cores, "runs": runs_to_json(task)}
        assert popen.stdin is not None
        try:
            popen.stdin.write(json.dumps(content).encode())
            popen.stdin.close()
        except BrokenPipeError:
            pass  # the process has died already, which `ended` reports

    def ended(self) -> list[Ended]:
        """Return the tasks whose processes have ended since the last call."""
        over = [process for process in self._running if process.popen.poll() is not None]
        self._running = [process for process in self._running if process not in over]
        self._free += [process.slot for process in over]
        return [Ended(process.task, _crash(process.popen.returncode)) for process in over]

    def stop(self) -> None:
        """Ask every process to end after a checkpoint, and kill those that do not."""
        for process in self._running:
            process.popen.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS + 3
        for process in self._running:
            try:
                process.popen.wait(max(deadline - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                process.popen.kill()
                process.popen.wait()


def _crash(status: int) -> str:
    """Describe an exit status that a worker does not end with by itself; else ""."""
    if status == 0:
        return ""
    if status == STOPPED:
        return "stopped from outside"
    return f"killed by signal {-status}" if status < 0 else f"exit status {status}"


def own_cores() -> list[int]:
    """Return the cores of this process; none where the system cannot bind a process to cores."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def make_slots(
    jobs: int | None, resources: Resources, gpus: Sequence[str], cores: Sequence[int] | None = None
) -> list[Slot]:
    """Return the slots of a machine with these GPUs and cores.

    By default there is one job per GPU (or per share of one), and one where there is no GPU. The
    cores are divided among the jobs.
    """
    own = own_cores() if cores is None else list(cores)
    places, gpu_share = _gpu_places(jobs, resources.gpus, gpus)
    if not own or (len(places) == 1 and resources.cpus is None):
        return [Slot((), place, gpu_share) for place in places]
    share = min(resources.cpus or max(len(own) // len(places), 1), len(own))
    return [
        Slot(tuple(own[(i * share + k) % len(own)] for k in range(share)), place, gpu_share)
        for i, place in enumerate(places)
    ]


def _gpu_places(
    jobs: int | None, wanted: float | None, gpus: Sequence[str]
) -> tuple[list[tuple[str, ...]], float | None]:
    """Return the GPUs of every job, and the share of a GPU that a job may fill."""
    if wanted and not gpus:
        raise InputError("gpus: no GPU can be seen on this machine; leave it out")
    if wanted == 0 or not gpus:
        return [()] * (jobs or 1), wanted
    if wanted is None:  # the jobs take the GPUs in turn
        number = jobs or len(gpus)
        per_gpu = math.ceil(number / len(gpus))
        return [(gpus[i % len(gpus)],) for i in range(number)], 1 / per_gpu
    places: list[tuple[str, ...]]
    if wanted < 1:
        places = [(gpu,) for _ in range(int(1 / wanted + 1e-9)) for gpu in gpus]
    else:
        each = int(wanted)
        places = [tuple(gpus[i : i + each]) for i in range(0, len(gpus) - each + 1, each)]
    if not places or (jobs or 0) > len(places):
        raise InputError(
            f"gpus: {wanted:g} for each of {jobs or 1} jobs is too much; this machine has "
            f"{len(gpus)}, so at most {len(places)} jobs"
        )
    return places[:jobs], min(wanted, 1.0)
