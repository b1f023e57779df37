"""Sweeps on a Ray cluster: workers, a node and the driver are lost, and every run is done once."""

import json
import os
import signal
import subprocess
import sys
import time

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
from narl.sweeps.results import results_csv
from narl.sweeps.run_notes import RunNotes
from narl.sweeps.run_task import run_task
from short_trainings import ENV, assert_same_outcome, short_arguments

ray = pytest.importorskip("ray")
NUM_RUNS = int(os.environ.get("NARL_TEST_SWEEP_RUNS", "8"))
"""Runs of the sweep; a longer test takes more."""
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

CLUSTER = """
import os, sys
from ray.cluster_utils import Cluster
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
extra = [cluster.add_node(num_cpus=1) for _ in range(2)]
cluster.wait_for_nodes()
print(cluster.address, flush=True)
for line in sys.stdin:
    if line.strip() == "remove":
        cluster.remove_node(extra.pop(), allow_graceful=False)
        print("removed", flush=True)
cluster.shutdown()
"""


@pytest.fixture
def cluster(programs):
    """A cluster of three nodes on this machine, in a process of its own; it takes commands."""
    process = subprocess.Popen(
        [sys.executable, "-c", CLUSTER],
        env=variables(programs) | {"RAY_DISABLE_IMPORT_WARNING": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    address = next(line.strip() for line in process.stdout if ":" in line)
    yield process, address
    process.stdin.close()
    process.wait(60)


def test_lost_workers_node_and_driver_leave_every_run_done_once(
    tmp_path, programs, cluster, monkeypatch
):
    monkeypatch.setattr("narl.compilation.enable_cache", lambda: None)
    process, address = cluster
    runs, root = tabular_runs(NUM_RUNS), tmp_path / "runs"
    words = ["tabular", "greedy", "riverswim", "--size=2", "--horizon=2", "--episodes=5"]
    words += [
        f"--seeds=0:{NUM_RUNS}",
        "--seeds-per-run=1",
        f"--runs={root}",
        "--json",
        "--executor=ray",
    ]
    words += [f"--address={address}", "--retries=10"]
    driver = start_sweep(programs, *words)
    killed: set[int] = set()
    kill_workers(root, killed, number=2)
    process.stdin.write("remove\n")
    process.stdin.flush()
    assert process.stdout.readline().strip() == "removed"
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


def test_training_of_a_killed_worker_goes_on_from_its_checkpoint(
    tmp_path, programs, cluster, cache
):
    _, address = cluster
    (run,), root = training_runs(steps=(2000,)), tmp_path / "runs"
    words = [ENV, *short_arguments(steps=2000), f"--runs={root}", "--executor=ray"]
    sweep = start_sweep(programs, *words, f"--address={address}", "--env-timeout=60")
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


def test_more_than_a_node_has_is_refused(tmp_path, monkeypatch):
    from narl.sweeps.ray_executor import RayExecutor
    from narl.sweeps.resources import Resources

    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    nodes = [{"Alive": True, "Resources": {"CPU": 4.0}}, {"Alive": False, "Resources": {"GPU": 8}}]
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    with pytest.raises(InputError, match="no node of the cluster has 1 CPUs and 1 GPUs"):
        RayExecutor(tmp_path, Resources(gpus=1.0))
