"""Tasks on a Ray cluster (Ray core): an existing one by its address, or one on this machine.

Ray may run a task more than once and forgets tasks when its driver dies. Both are harmless: a task
looks into the folder of runs first, and returns nothing.
"""

from __future__ import annotations

import logging
import os
import socket
from pathlib import Path
from typing import Any

from narl.errors import InputError, first_line, install_hint
from narl.sweeps.driver import Ended
from narl.sweeps.planned_run import runs_from_json, runs_to_json
from narl.sweeps.resources import Resources, worker_variables
from narl.sweeps.run_notes import RunNotes
from narl.sweeps.run_task import run_task
from narl.sweeps.task_log import output_to
from narl.sweeps.tasks import Task

CONNECT_SECONDS = 10.0


def _work(content: list[dict[str, Any]], root: str, gpu_share: float | None) -> None:
    """Do a task in a worker process of Ray."""
    # JAX is not loaded yet: the process is new. Ray (at least 2.60) leaves all GPUs visible to a
    # task that has asked for none.
    os.environ.update(worker_variables(gpu_share, os.environ))
    runs = runs_from_json(content)
    with output_to(RunNotes(Path(root), runs[0].id).log):
        run_task(runs, Path(root))


def _check_reachable(address: str | None) -> None:
    """Raise an error if nobody answers at host:port; Ray itself tries for minutes."""
    host, colon, port = (address or "").removeprefix("ray://").rpartition(":")
    if colon and port.isdigit():
        with socket.create_connection((host, int(port)), CONNECT_SECONDS):
            pass


class RayExecutor:
    """Tasks of Ray; see `narl.sweeps.driver.Executor`."""

    def __init__(self, root: Path, resources: Resources, address: str | None = None) -> None:
        try:
            import ray
        except ImportError:
            raise InputError(f"executor: Ray is not installed; {install_hint('ray')}") from None
        self._ray, self._root, self._resources = ray, root, resources
        self._owns_connection = not ray.is_initialized()
        if self._owns_connection:
            self._connect(address)
        self._check_cluster()
        options: dict[str, Any] = {
            "num_cpus": resources.cpus or 1,
            "num_gpus": resources.gpus or 0,
            "max_calls": 1,  # a new process for every task, as JAX keeps the memory of a GPU
            "max_retries": 0,  # the driver starts a task again, if it is needed
        }
        if resources.memory_gb is not None:
            options["memory"] = int(resources.memory_gb * 1e9)
        self._remote = ray.remote(**options)(_work)
        self._running: dict[Any, Task] = {}

    def _connect(self, address: str | None) -> None:
        given = address or os.environ.get("RAY_ADDRESS")
        try:
            _check_reachable(given)
            self._ray.init(address=given, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, ValueError, RuntimeError) as error:
            raise InputError(
                f"address: {given} cannot be reached ({first_line(str(error))}); start a cluster "
                "with `ray start --head`, or leave the address out"
            ) from None

    def _check_cluster(self) -> None:
        """Refuse resources that no node of the cluster has."""
        wanted = {
            "CPU": self._resources.cpus or 1,
            "GPU": self._resources.gpus or 0,
            "memory": (self._resources.memory_gb or 0) * 1e9,
        }
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        if any(all(node.get(name, 0) >= x for name, x in wanted.items()) for node in nodes):
            return
        most = [max((node.get(name, 0) for node in nodes), default=0) for name in wanted]
        asked, largest = (
            f"{cpus:g} CPUs, {gpus:g} GPUs and {memory / 1e9:.3g} GB of memory"
            for cpus, gpus, memory in (wanted.values(), most)
        )
        raise InputError(f"cpus: no node of the cluster has {asked}; the largest have {largest}")

    def has_room(self) -> bool:
        """Return True: Ray itself queues tasks."""
        return True

    def num_running(self) -> int:
        """Return the number of tasks that Ray has queued or started."""
        return len(self._running)

    def start(self, task: Task) -> None:
        """Hand a task to Ray."""
        content = runs_to_json(task)
        reference = self._remote.remote(content, str(self._root), self._resources.gpus)
        self._running[reference] = task

    def ended(self) -> list[Ended]:
        """Return the tasks that have ended since the last call."""
        waiting = list(self._running)
        if not waiting:
            return []
        over, _ = self._ray.wait(waiting, num_returns=len(waiting), timeout=0)
        return [Ended(self._running.pop(reference), self._crash(reference)) for reference in over]

    def _crash(self, reference: Any) -> str:
        """Describe how a task was lost; "" if it ended by itself."""
        try:
            self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            return str(error.cause).splitlines()[0] if str(error.cause) else type(error).__name__
        except self._ray.exceptions.RayError as error:
            return type(error).__name__
        return ""

    def stop(self) -> None:
        """Kill every task; trainings continue from the checkpoint of their last epoch."""
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        if self._owns_connection:
            self._ray.shutdown()
