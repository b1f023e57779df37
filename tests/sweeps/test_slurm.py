"""Jobs of SLURM, with submitit's local executor in place of SLURM: preemption and the script."""

import json
import os
import signal
import time

import pytest
from small_sweeps import tabular_runs, training_runs, variables, wait_for_checkpoint

from narl.deep.training_run import run_training
from narl.errors import InputError
from narl.sweeps.resources import Resources
from narl.sweeps.run_notes import RunNotes
from narl.sweeps.slurm import job_script, slurm_parameters, submit
from narl.sweeps.status import SweepStatus
from short_trainings import assert_same_outcome

submitit = pytest.importorskip("submitit")


@pytest.fixture
def workers(monkeypatch, programs) -> None:
    """Let jobs find narl and the tests' environments and compiled programs."""
    for name, text in variables(programs).items():
        monkeypatch.setenv(name, text)


def wait_for(jobs, seconds=180.0):
    deadline = time.monotonic() + seconds
    while not all(job.done() for job in jobs) and time.monotonic() < deadline:
        time.sleep(0.05)
    return [job.state for job in jobs]


def parameters(**resources):
    return slurm_parameters(Resources(**resources), jobs=None, sbatch_options={})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("minutes", "cause", "timeouts_left"),
    # submitit takes a job for timed out that has fewer than ten minutes left. Without SLURM it may
    # time out three times.
    [(60, "preempted", 3), (10, "timed-out", 2)],
)
def test_a_job_that_has_to_end_writes_a_checkpoint_and_goes_on(
    tmp_path, workers, cache, minutes, cause, timeouts_left
):
    root = tmp_path / "runs"
    runs = training_runs(steps=(2000,), seeds=((0,), (1,)))
    (job,) = submit([tuple(runs)], root, parameters(minutes=minutes), cluster="local")
    step = wait_for_checkpoint(root)
    notes = RunNotes(root, runs[0].id)
    process = notes.worker()["process"]
    os.kill(process, signal.SIGUSR2)  # as SLURM does before it ends a job
    assert wait_for([job]) == ["FINISHED"], job.stderr()
    log = notes.log.read_text()
    assert f"this job is {cause}." in log + job.stderr()
    assert f"({timeouts_left} remaining timeouts)" in log + job.stdout()
    assert log.count("begins ") == 2
    resumed = int(log.partition("continues from step ")[2].splitlines()[0])
    assert resumed >= step
    assert [status.state for status in SweepStatus(runs, root).read()] == ["done", "done"]
    ((alone, _),) = run_training([runs[0].config], tmp_path / "alone")
    alone.metrics["replicas"] = 2
    assert_same_outcome(runs[0].find(root), alone)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_jobs_do_every_run_and_a_failed_one_stops_nobody(tmp_path, workers):
    good, (bad,) = tabular_runs(2), training_runs(env="toy_worlds:Always-v0")
    jobs = submit([(good[0],), (bad,), (good[1],)], tmp_path, parameters(), cluster="local")
    assert wait_for(jobs) == ["FINISHED"] * 3
    states = [status.state for status in SweepStatus([*good, bad], tmp_path).read()]
    assert states == ["done", "done", "failed"]
    assert "the simulator" in RunNotes(tmp_path, bad.id).failure()["error"]


def test_the_script_says_what_the_jobs_need(tmp_path):
    resources = Resources(cpus=4, gpus=2.0, memory_gb=1.5, minutes=90)
    named = slurm_parameters(resources, jobs=8, sbatch_options={"partition": "long"})
    lines = job_script(24, tmp_path, named).splitlines()
    assert lines[0] == "#!/bin/bash"
    for option in (
        *("array=0-23%8", "cpus-per-task=4", "gpus-per-node=2", "mem=1536MB", "time=90"),
        *("partition=long", "requeue", "signal=USR2@120", "open-mode=append"),
    ):
        assert f"#SBATCH --{option}" in lines
    (command,) = (line for line in lines if line.startswith("srun"))
    assert " --cpus-per-task=4 " in command
    assert "--array" not in job_script(1, tmp_path, named)


@pytest.mark.parametrize("minutes", [1, 2])
def test_time_limit_without_time_for_a_checkpoint_is_refused(minutes):
    with pytest.raises(InputError, match=f"^time: {minutes} min is too short; .* so at least 3$"):
        slurm_parameters(Resources(minutes=minutes), None, {})
    assert slurm_parameters(Resources(minutes=3), None, {})["time"] == 3
    assert slurm_parameters(Resources(), None, {})["time"] == 24 * 60


def test_shares_of_gpus_are_refused():
    with pytest.raises(InputError, match="gpus: SLURM gives whole GPUs, not"):
        slurm_parameters(Resources(gpus=0.5), None, {})


def test_a_machine_without_slurm_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="slurm cluster"):
        submit([tuple(tabular_runs(1))], tmp_path, parameters())


def test_runs_travel_as_json(tmp_path):
    from narl.sweeps.planned_run import runs_from_json, runs_to_json
    from narl.sweeps.slurm import SlurmTask

    runs = [run._replace(env_timeout=2.5) for run in tabular_runs(2)]
    task = SlurmTask(runs_to_json(runs), str(tmp_path))
    assert runs_from_json(json.loads(json.dumps(task.content))) == runs
