"""Tasks as jobs of SLURM, submitted as one array through submitit.

A job that is preempted, or reaches its time limit, writes a checkpoint and is queued again.
"""

from __future__ import annotations

import os
import shlex
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from narl.errors import InputError, install_hint
from narl.sweeps.planned_run import runs_from_json, runs_to_json
from narl.sweeps.resources import Resources, gpu_variables
from narl.sweeps.run_notes import SWEEPS, RunNotes
from narl.sweeps.tasks import Task

DAY = 24 * 60
SIGNAL_SECONDS = 120
"""Seconds before the time limit at which SLURM tells the job."""
MOST_TIMEOUTS = 10_000
"""Times that a job may reach its time limit and be queued again."""
CHECKPOINT_SECONDS = 60.0
"""Seconds that a training has for its last checkpoint."""


class SlurmTask:
    """A task in a job; submitit calls it, and calls `checkpoint` when the job has to end."""

    def __init__(
        self, content: list[dict[str, Any]], root: str, gpu_share: float | None = None
    ) -> None:
        self.content, self.root, self.gpu_share = content, root, gpu_share

    def __call__(self) -> None:
        """Do the task in a thread of its own, so that it can be told to stop."""
        os.environ.update(gpu_variables(self.gpu_share))  # before JAX is loaded
        self._stop, self._ended = threading.Event(), threading.Event()
        errors: list[BaseException] = []

        def work() -> None:
            from narl.sweeps.run_task import run_task
            from narl.sweeps.task_log import output_to

            runs = runs_from_json(self.content)
            try:
                with output_to(RunNotes(Path(self.root), runs[0].id).log):
                    run_task(runs, Path(self.root), self._stop.is_set)
            except BaseException as error:
                errors.append(error)
            finally:
                self._ended.set()

        threading.Thread(target=work, name="narl-work", daemon=True).start()
        while not self._ended.wait(0.1):  # the main thread is free to answer signals
            pass
        if errors and not self._stop.is_set():
            raise errors[0]

    def checkpoint(self) -> Any:
        """Stop the task with a checkpoint; return what submitit queues again."""
        import submitit

        self._stop.set()
        self._ended.wait(CHECKPOINT_SECONDS)
        again = SlurmTask(self.content, self.root, self.gpu_share)
        return submitit.helpers.DelayedSubmission(again)


def slurm_parameters(
    resources: Resources, jobs: int | None, sbatch_options: dict[str, str]
) -> dict[str, Any]:
    """Return the parameters of the jobs as submitit names them for SLURM."""
    gpus = resources.gpus
    minutes, margin = resources.minutes or DAY, SIGNAL_SECONDS // 60
    if minutes <= margin:
        raise InputError(
            f"time: {minutes} min is too short; SLURM tells a job {margin} min before its time "
            f"limit to write a checkpoint, so at least {margin + 1}"
        )
    if gpus is not None and 0 < gpus < 1 and "gres" not in sbatch_options:
        raise InputError(
            f"gpus: SLURM gives whole GPUs, not {gpus:g}; give 1 and train more runs in one "
            "program (group), or name a share of your cluster (--slurm gres=shard:1)"
        )
    cpus = resources.cpus or 1
    parameters: dict[str, Any] = {
        "job_name": "narl-sweep",
        "time": minutes,
        "cpus_per_task": cpus,
        "srun_args": [f"--cpus-per-task={cpus}"],  # srun of some versions does not take sbatch's
        "signal_delay_s": SIGNAL_SECONDS,
        "array_parallelism": jobs or 100,
        "additional_parameters": {"requeue": True, **sbatch_options},
    }
    if gpus is not None and gpus >= 1:
        parameters["gpus_per_node"] = int(gpus)
    if resources.memory_gb is not None:
        parameters["mem"] = f"{max(round(resources.memory_gb * 1024), 1)}MB"
    return parameters


def job_script(num_tasks: int, root: Path, parameters: dict[str, Any]) -> str:
    """Return the script that sbatch is given for an array of so many jobs."""
    _import_submitit()
    from submitit.slurm import slurm

    folder = _folder(root)
    command = shlex.join([sys.executable, "-u", "-m", "submitit.core._submit", str(folder)])
    count = num_tasks if num_tasks > 1 else None
    return slurm._make_sbatch_string(command=command, folder=folder, map_count=count, **parameters)


def submit(
    tasks: Sequence[Task],
    root: Path,
    parameters: dict[str, Any],
    gpu_share: float | None = None,
    cluster: str = "slurm",
) -> list[Any]:
    """Submit tasks as an array of jobs and return submitit's jobs."""
    submitit = _import_submitit()
    work = [SlurmTask(runs_to_json(task), str(root), gpu_share) for task in tasks]
    try:
        executor = submitit.AutoExecutor(
            _folder(root), cluster=cluster, slurm_max_num_timeout=MOST_TIMEOUTS
        )
    except RuntimeError as error:
        raise InputError(
            f"executor: {error}; submit from a login node, or print the job script with --dry-run"
        ) from None
    named = {f"slurm_{name}": x for name, x in parameters.items()}
    executor.update_parameters(timeout_min=parameters["time"], **named)
    return list(executor.submit_array(work))


def _folder(root: Path) -> Path:
    """Return the folder of the scripts, the jobs' own output, and the pickled tasks."""
    return root / SWEEPS / "slurm"


def _import_submitit() -> Any:
    try:
        import submitit
    except ImportError:
        raise InputError(f"executor: submitit is not installed; {install_hint('slurm')}") from None
    return submitit
