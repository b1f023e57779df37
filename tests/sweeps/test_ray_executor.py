"""Sweeps on a Ray cluster: workers, a node and the driver are lost, and every run is done once."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest
from small_sweeps import (
    assert_each_done_once,
    start_sweep,
    tabular_runs,
    training_runs,
    variables,
    wait_for_checkpoint,
)

from narl.deep.training_run import run_training
from narl.errors import InputError
from narl.sweeps.ray_executor import RayExecutor
from narl.sweeps.resources import Resources, worker_variables
from narl.sweeps.results import results_csv
from narl.sweeps.run_notes import RunNotes
from narl.sweeps.run_task import run_task
from short_trainings import ENV, assert_same_outcome, short_arguments

ray = pytest.importorskip("ray")
NUM_RUNS = int(os.environ.get("NARL_TEST_SWEEP_RUNS", "8"))
"""Runs of the sweep; a longer test takes more."""
REPORTING = "reporting_worlds:Reporting-v0"
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

CLUSTER = """
import sys
from ray.cluster_utils import Cluster
head = {"num_cpus": 1, "num_gpus": 1, "include_dashboard": False}
cluster = Cluster(initialize_head=True, head_node_args=head)
nodes = [cluster.add_node(num_cpus=1) for _ in range(2)]
cluster.wait_for_nodes()
raylets = {node.all_processes["raylet"][0].process.pid: node for node in nodes}
print(cluster.address, *raylets, flush=True)
for line in sys.stdin:
    cluster.remove_node(raylets.pop(int(line)), allow_graceful=False)
    print("killed", flush=True)
cluster.shutdown()
"""
"""Starts a head with a GPU in name only and two nodes; kills nodes, whose raylets it reads."""


class RayCluster(NamedTuple):
    """A cluster of three nodes on this machine, in a process of its own."""

    process: subprocess.Popen
    address: str
    raylets: list[int]
    """The processes that start the workers of the nodes, the head's not included."""

    def kill_node(self, raylet: int) -> None:
        """Kill every process of a node at once, as when its machine is lost."""
        workers = [pid for pid in processes() if parent_of(pid) == raylet]
        self.raylets.remove(raylet)
        self.process.stdin.write(f"{raylet}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline().strip() == "killed"
        for pid in workers:
            with contextlib.suppress(ProcessLookupError):  # it has noticed that the node is gone
                os.kill(pid, signal.SIGKILL)


def processes():
    """Return the ids of all processes."""
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]


def parent_of(pid):
    """Return the id of the process that started another; None if that has ended."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


@pytest.fixture(scope="module")
def cluster(programs):
    """A cluster for all tests of this file, each of which may kill one of the two nodes."""
    process = subprocess.Popen(
        [sys.executable, "-c", CLUSTER],
        env=variables(programs) | {"RAY_DISABLE_IMPORT_WARNING": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    address, *raylets = next(line.split() for line in process.stdout if ":" in line)
    yield RayCluster(process, address, [int(raylet) for raylet in raylets])
    process.stdin.close()
    process.wait(60)


def tabular_words(root, num_runs):
    """Return the arguments of a sweep of the same runs as those of `tabular_runs`."""
    words = ["tabular", "greedy", "riverswim", "--size=2", "--horizon=2", "--episodes=5"]
    words += [f"--seeds=0:{num_runs}", "--seeds-per-run=1"]
    return [*words, f"--runs={root}", "--json", "--executor=ray"]


def test_lost_workers_node_and_driver_leave_every_run_done_once(
    tmp_path, programs, cluster, monkeypatch
):
    monkeypatch.setattr("narl.compilation.enable_cache", lambda: None)
    runs, root = tabular_runs(NUM_RUNS), tmp_path / "runs"
    words = [*tabular_words(root, NUM_RUNS), f"--address={cluster.address}", "--retries=10"]
    driver = start_sweep(programs, *words)
    killed: set[int] = set()
    kill_workers(root, killed, number=2)
    cluster.kill_node(cluster.raylets[-1])
    driver.kill()
    driver.communicate()
    done_before = {run.id: run.find(root).path.stat().st_ino for run in runs if run.find(root)}
    again = start_sweep(programs, *words)
    kill_workers(root, killed, number=3)
    out, err = again.communicate(timeout=400)
    assert again.returncode == 0, err
    assert json.loads(out)["counts"]["done"] == NUM_RUNS
    assert len(killed) == 3
    assert_each_done_once(root, runs)
    for run_id, inode in done_before.items():
        assert (root / run_id).stat().st_ino == inode
    serial = tmp_path / "serial"
    run_task(runs, serial)
    assert results_csv(runs, root) == results_csv(runs, serial)


def test_lost_node_leaves_the_driver_alive_and_every_run_done_once(
    tmp_path, programs, cluster, monkeypatch
):
    monkeypatch.setattr("narl.compilation.enable_cache", lambda: None)
    runs, root = tabular_runs(4), tmp_path / "runs"
    words = tabular_words(root, len(runs))
    driver = start_sweep(programs, *words, f"--address={cluster.address}")
    lost, raylet = stop_a_worker(root, cluster.raylets)
    assert not (root / lost).exists()
    cluster.kill_node(raylet)
    assert driver.poll() is None
    out, err = driver.communicate(timeout=200)
    assert driver.returncode == 0, err
    assert json.loads(out)["counts"]["done"] == len(runs)
    logs = [path.read_text() for path in root.glob("sweeps/*/log.txt")]
    begun = {run.id: sum(log.count(f"begins {run.id}") for log in logs) for run in runs}
    assert begun == {run.id: 1 + (run.id == lost) for run in runs}
    assert_each_done_once(root, runs)
    serial = tmp_path / "serial"
    run_task(runs, serial)
    assert results_csv(runs, root) == results_csv(runs, serial)


def test_gpu_share_reaches_the_worker_and_no_share_hides_the_gpus(tmp_path, programs, cluster):
    shares = {3: ["--gpus=0.25"], 4: []}
    sweeps = []
    for seed, share in shares.items():
        words = [REPORTING, *short_arguments(seeds=(seed,)), *share, f"--runs={tmp_path}"]
        words += ["--executor=ray", f"--address={cluster.address}"]
        sweeps.append(start_sweep(programs, *words))
    outputs = [sweep.communicate(timeout=200) for sweep in sweeps]
    assert [sweep.returncode for sweep in sweeps] == [1, 1], outputs  # their environments fail
    errors = {}
    for seed in shares:
        (run,) = training_runs(env=REPORTING, seeds=((seed,),))
        errors[seed] = RunNotes(tmp_path, run.id).failure()["error"].partition("OSError: ")[2]
    assert errors == {
        3: "CUDA_VISIBLE_DEVICES=0 XLA_PYTHON_CLIENT_MEM_FRACTION=0.225",
        4: "CUDA_VISIBLE_DEVICES= XLA_PYTHON_CLIENT_MEM_FRACTION=None",
    }


def test_training_of_a_killed_worker_goes_on_from_its_checkpoint(
    tmp_path, programs, cluster, cache
):
    (run,), root = training_runs(steps=(2000,)), tmp_path / "runs"
    words = [ENV, *short_arguments(steps=2000), f"--runs={root}", "--executor=ray"]
    sweep = start_sweep(programs, *words, f"--address={cluster.address}", "--env-timeout=60")
    step = wait_for_checkpoint(root)
    os.kill(RunNotes(root, run.id).worker()["process"], signal.SIGKILL)
    _, err = sweep.communicate(timeout=300)
    assert sweep.returncode == 0, err
    log = RunNotes(root, run.id).log.read_text()
    assert log.count("begins ") == 2
    assert step <= int(log.partition("continues from step ")[2].splitlines()[0]) < 2000
    assert_each_done_once(root, [run])
    ((alone, _),) = run_training([run.config], tmp_path / "alone")
    assert_same_outcome(run.find(root), alone)


def stop_a_worker(root, raylets):
    """Stop a process that works on a run on one of the nodes; return the run's id and the raylet.

    It cannot finish the run then, however long it takes to kill the node.
    """
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline:
        for path in root.glob("sweeps/*/worker.json"):
            try:
                note = json.loads(path.read_text())
                has_begun = f"begins {path.parent.name}" in Path(note["log"]).read_text()
            except (OSError, ValueError, KeyError):
                continue
            if has_begun and (parent := parent_of(note["process"])) in raylets:
                os.kill(note["process"], signal.SIGSTOP)
                return path.parent.name, parent
        time.sleep(0.01)
    raise TimeoutError


def kill_workers(root, killed, number):
    """Kill processes that work on runs until so many were killed."""
    deadline = time.monotonic() + 200
    while len(killed) < number and time.monotonic() < deadline:
        for path in root.glob("sweeps/*/worker.json"):
            try:
                process = json.loads(path.read_text())["process"]
                os.kill(process, 0)
            except (OSError, ValueError, KeyError):
                continue
            if process not in killed and len(killed) < number:
                os.kill(process, signal.SIGKILL)
                killed.add(process)
        time.sleep(0.01)


def test_a_cluster_that_is_not_there_is_named(tmp_path, programs):
    words = ["tabular", "greedy", "riverswim", f"--runs={tmp_path}", "--executor=ray"]
    sweep = start_sweep(programs, *words, "--address=127.0.0.1:1")
    _, err = sweep.communicate(timeout=120)
    assert sweep.returncode == 2
    assert err.splitlines()[-1].startswith("narl: --address: 127.0.0.1:1 cannot be reached")


@pytest.mark.parametrize(
    ("share", "given", "variables"),
    [
        (0.25, {}, {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.225"}),
        (2.0, {}, {}),
        (None, {}, {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu"}),
        (0.0, {"JAX_PLATFORMS": "tpu"}, {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "tpu"}),
    ],
)
def test_worker_gets_its_share_of_a_gpu_or_none(share, given, variables):
    assert worker_variables(share, given) == variables


def test_jax_is_not_loaded_before_the_variables_of_a_worker_are_set():
    program = "import sys, narl.sweeps.ray_executor; print('jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr


def test_more_than_a_node_has_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    nodes = [{"Alive": True, "Resources": {"CPU": 4.0}}, {"Alive": False, "Resources": {"GPU": 8}}]
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    for resources, words in (
        (Resources(gpus=1.0), "1 CPUs, 1 GPUs and 0 GB"),
        (Resources(memory_gb=2.0), "1 CPUs, 0 GPUs and 2 GB"),
    ):
        with pytest.raises(InputError, match=f"no node of the cluster has {words}"):
            RayExecutor(tmp_path, resources)
