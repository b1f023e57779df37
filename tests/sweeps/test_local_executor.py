"""The driver and the processes of one machine: killed workers, several sweeps at once, GPUs."""

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

from narl.errors import InputError
from narl.sweeps import driver
from narl.sweeps.driver import Ended, drive
from narl.sweeps.local_executor import LocalExecutor, Slot, make_slots
from narl.sweeps.resources import Resources, gpu_variables, make_resources, parse_minutes
from narl.sweeps.results import results_csv
from narl.sweeps.run_notes import RunNotes
from narl.sweeps.run_task import run_task
from narl.sweeps.status import SweepStatus
from narl.sweeps.tasks import make_tasks


class FakeExecutor:
    """Tasks that end at once, in the way that ``behave`` says."""

    def __init__(self, behave, room: int = 1):
        self.behave, self.room = behave, room
        self.started, self.over = [], []
        self.is_stopped = False

    def has_room(self):
        return len(self.over) < self.room

    def start(self, task):
        self.started.append([run.config.seeds[0] for run in task])
        self.over.append(Ended(task, self.behave(task) or ""))

    def ended(self):
        over, self.over = self.over, []
        return over

    def num_running(self):
        return len(self.over)

    def stop(self):
        self.is_stopped = True


@pytest.fixture(autouse=True)
def quick(monkeypatch) -> None:
    """Do not wait between two looks at the folder."""
    monkeypatch.setattr(driver, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(driver, "BUSY_SECONDS", 0.01)
    monkeypatch.setattr("narl.compilation.enable_cache", lambda: None)


def test_a_killed_run_is_begun_again_and_given_up_at_last(tmp_path, cache, capsys):
    runs = tabular_runs(3)
    crashes = []

    def behave(task):
        crashed = task[0] is runs[1] or (task[0] is runs[2] and runs[2] not in crashes)
        if not crashed:
            run_task(task, tmp_path)
            return ""
        crashes.append(task[0])
        return "killed by signal 9"

    executor = FakeExecutor(behave)
    drive([(run,) for run in runs], executor, tmp_path, retries=2)
    assert executor.started == [[0], [1], [2], [1], [2], [1]]
    first, second, third = SweepStatus(runs, tmp_path).read()
    assert (first.state, second.state, third.state) == ("done", "failed", "done")
    assert second.error == "its process was lost 3 times (killed by signal 9)"


def test_a_run_of_another_sweep_is_waited_for_and_taken_over(tmp_path, cache):
    runs = tabular_runs(2)
    other = RunNotes(tmp_path, runs[0].id)
    executor = FakeExecutor(lambda task: run_task(task, tmp_path))
    with other.lease():
        other.note_worker(step=1)
        polls = []

        def on_poll():
            polls.append(len(executor.started))
            if len(polls) == 50:
                raise TimeoutError

        with pytest.raises(TimeoutError):
            drive([tuple(runs)], executor, tmp_path, on_poll=on_poll)
    assert executor.is_stopped
    assert executor.started == [[1]]  # the process that held the lease has died now
    drive([tuple(runs)], executor, tmp_path)
    assert executor.started == [[1], [0, 1]]
    assert [status.state for status in SweepStatus(runs, tmp_path).read()] == ["done", "done"]


def test_a_run_that_kills_its_process_does_not_end_those_after_it(tmp_path, cache):
    runs = tabular_runs(4)

    def behave(task):
        for run in task:
            if run is runs[1]:
                RunNotes(tmp_path, run.id).note_worker(step=0)
                return "killed by signal 11"
            run_task([run], tmp_path)
        return ""

    executor = FakeExecutor(behave)
    drive([tuple(runs)], executor, tmp_path, retries=1)
    assert executor.started == [[0, 1, 2, 3], [0, 1, 2, 3], [0, 2, 3]]
    states = [status.state for status in SweepStatus(runs, tmp_path).read()]
    assert states == ["done", "failed", "done", "done"]


def test_trainings_whose_common_process_is_killed_are_tried_alone(tmp_path):
    runs = training_runs(seeds=((0,), (1,)))
    executor = FakeExecutor(lambda task: "killed by signal 9")
    drive([tuple(runs)], executor, tmp_path, retries=1)
    assert executor.started == [[0, 1], [0, 1], [0], [1], [0], [1]]


def test_a_process_that_ends_without_a_result_is_given_up(tmp_path):
    runs = tabular_runs(1)
    executor = FakeExecutor(lambda task: "")
    drive([tuple(runs)], executor, tmp_path, retries=1)
    assert executor.started == [[0], [0]]
    (status,) = SweepStatus(runs, tmp_path).read()
    assert status.error == "its process was lost 2 times (it ended without a result)"


def test_finished_runs_are_not_started(tmp_path, cache):
    runs = tabular_runs(2)
    run_task(runs, tmp_path)
    executor = FakeExecutor(lambda task: pytest.fail("it is done"))
    drive([tuple(runs)], executor, tmp_path)
    assert executor.started == []
    assert make_tasks(runs, tmp_path) == []


def test_tasks_are_groups_that_share_a_program(tmp_path):
    runs = training_runs("narl", radius=(0.1, 0.5, None), batch=(16, 32))
    assert [len(task) for task in make_tasks(runs, tmp_path)] == [3, 3]
    assert [len(task) for task in make_tasks(runs, tmp_path, num_workers=2)] == [2, 1, 2, 1]
    assert [len(task) for task in make_tasks(runs, tmp_path, group=1)] == [1] * 6
    assert [len(task) for task in make_tasks(tabular_runs(5), tmp_path, num_workers=2)] == [3, 2]


def test_algorithms_with_as_many_members_are_one_task(tmp_path):
    algos = ("narl", "mbpo", "sombrl")
    (task,) = make_tasks(training_runs(*algos, members=(5,)), tmp_path)
    assert [run.config.algo for run in task] == list(algos)
    runs = training_runs(*algos, "sac", members=(2, 5))
    assert [len(task) for task in make_tasks(runs, tmp_path)] == [3, 3, 1]


# --- resources --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("jobs", "wanted", "gpus", "slots"),
    [
        (None, None, "", [((), (), None)]),
        (2, None, "", [((0, 1), (), None), ((2, 3), (), None)]),
        (None, None, "0,1", [((0, 1), ("0",), 1.0), ((2, 3), ("1",), 1.0)]),
        (4, None, "0,1", [((i,), (str(i % 2),), 0.5) for i in range(4)]),
        (None, 0.5, "3", [((0, 1), ("3",), 0.5), ((2, 3), ("3",), 0.5)]),
        (None, 2, "0,1,2,3", [((0, 1), ("0", "1"), 1.0), ((2, 3), ("2", "3"), 1.0)]),
        (2, 0, "0,1", [((0, 1), (), 0), ((2, 3), (), 0)]),
    ],
)
def test_jobs_are_spread_over_gpus_and_cores(jobs, wanted, gpus, slots):
    names = [name for name in gpus.split(",") if name]
    assert make_slots(jobs, Resources(gpus=wanted), names, range(4)) == [Slot(*x) for x in slots]


def test_process_without_gpus_sees_none(tmp_path, monkeypatch):
    seen = {}

    def popen(command, *, env, **options):
        seen.update(env)
        raise FileNotFoundError

    monkeypatch.setattr(subprocess, "Popen", popen)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    (slot,) = make_slots(1, Resources(gpus=0), ["0", "1"], range(2))
    with pytest.raises(FileNotFoundError):
        LocalExecutor(tmp_path, [slot]).start(tuple(tabular_runs(1)))
    assert (seen["CUDA_VISIBLE_DEVICES"], seen["JAX_PLATFORMS"]) == ("", "cpu")


def test_systems_that_do_not_bind_processes_to_cores(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity")
    assert make_slots(2, Resources(cpus=1), []) == [Slot(), Slot()]


def test_cores_of_each_job_can_be_given():
    slots = make_slots(3, Resources(cpus=2), [], range(4))
    assert [slot.cores for slot in slots] == [(0, 1), (2, 3), (0, 1)]


@pytest.mark.parametrize(
    ("jobs", "wanted", "gpus", "message"),
    [
        (None, 1.0, [], "no GPU can be seen"),
        (3, 0.5, ["0"], "at most 2 jobs"),
        (None, 4.0, ["0", "1"], "this machine has 2, so at most 0 jobs"),
    ],
)
def test_too_many_gpus_are_refused(jobs, wanted, gpus, message):
    with pytest.raises(InputError, match=message):
        make_slots(jobs, Resources(gpus=wanted), gpus, range(4))


def test_share_of_a_gpu_limits_the_memory_of_jax():
    assert gpu_variables(0.25) == {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.225"}
    assert gpu_variables(1.0) == gpu_variables(None) == {}


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("90", 90), ("1:30:00", 90), ("2-00:00:00", 2880), ("0:45", 45), ("0:02:01", 3)],
)
def test_times_are_read_as_slurm_writes_them(text, minutes):
    assert parse_minutes(text) == minutes


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"time": "soon"}, "time: 'soon' is wrong"),
        ({"time": "0"}, "time: 0 is too small"),
        ({"gpus": 1.5}, "gpus: 1.5 is wrong"),
        ({"gpus": -1.0}, "gpus: -1.0 is too small"),
        ({"memory": 0.0}, "memory: 0.0 is too small"),
        ({"cpus": 0}, "cpus: 0 is too small"),
    ],
)
def test_wrong_resources_are_refused(given, message):
    everything = {"cpus": None, "gpus": None, "memory": None, "time": None}
    with pytest.raises(InputError, match=message):
        make_resources(**everything | given)


# --- processes --------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_worker_gets_its_cores_and_its_gpu(tmp_path, programs, monkeypatch):
    for name, text in variables(programs).items():
        monkeypatch.setenv(name, text)
    real = subprocess.Popen
    started = []

    def popen(command, **options):
        started.append(options["env"])
        return real(command, **options)

    monkeypatch.setattr(subprocess, "Popen", popen)
    monkeypatch.setattr(driver, "POLL_SECONDS", 0.05)
    runs = tabular_runs(2)
    core = min(os.sched_getaffinity(0))
    executor = LocalExecutor(tmp_path, [Slot((core,), ("7",), 0.5)])
    drive([tuple(runs)], executor, tmp_path)
    assert [status.state for status in SweepStatus(runs, tmp_path).read()] == ["done", "done"]
    assert started[0]["CUDA_VISIBLE_DEVICES"] == "7"
    assert started[0]["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.450"


@pytest.mark.slow
def test_two_sweeps_with_killed_workers_do_every_run_once(tmp_path, programs):
    runs, root = tabular_runs(8), tmp_path / "runs"
    words = ["tabular", "greedy", "riverswim", "--size=2", "--horizon=2", "--episodes=5"]
    words += ["--seeds=0:8", "--seeds-per-run=1", "--group=2", f"--runs={root}", "--json"]
    sweeps = [start_sweep(programs, *words) for _ in range(2)]
    killed = 0
    deadline = time.monotonic() + 120
    while killed < 2 and time.monotonic() < deadline:
        for path in root.glob("sweeps/*/worker.json"):
            try:
                process = json.loads(path.read_text())["process"]
                os.kill(process, signal.SIGKILL)
                killed += 1
            except (OSError, ValueError, KeyError):
                continue
        time.sleep(0.02)
    outputs = [sweep.communicate(timeout=240) for sweep in sweeps]
    assert [sweep.returncode for sweep in sweeps] == [0, 0], outputs
    assert killed >= 2
    assert_each_done_once(root, runs)
    for out, _ in outputs:
        assert json.loads(out)["counts"]["done"] == 8
    serial = tmp_path / "serial"
    run_task(runs, serial)
    assert results_csv(runs, root) == results_csv(runs, serial)


@pytest.mark.slow
def test_an_interrupted_sweep_leaves_checkpoints_and_goes_on(tmp_path, programs):
    from short_trainings import ENV, short_arguments

    words = [ENV, *short_arguments(steps=3000), "--seeds=0:2", f"--runs={tmp_path}"]
    sweep = start_sweep(programs, *words)
    wait_for_checkpoint(tmp_path)
    sweep.send_signal(signal.SIGTERM)
    _, err = sweep.communicate(timeout=60)
    assert sweep.returncode == 3, err
    assert "interrupted; finished runs are kept" in err
    (part,) = tmp_path.glob("*.part")
    (log,) = tmp_path.glob("sweeps/*/log.txt")
    assert "stopped" in log.read_text()
    again = start_sweep(programs, *words)
    _, err = again.communicate(timeout=120)
    assert again.returncode == 0, err
    assert "continues from step" in log.read_text()
    assert not part.exists()


@pytest.mark.slow
def test_a_worker_without_a_task_ends_with_an_error():
    done = subprocess.run(
        [sys.executable, "-m", "narl.sweeps.local_worker"], input=b"", capture_output=True
    )
    assert done.returncode == 1
