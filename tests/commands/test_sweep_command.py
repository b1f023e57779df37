"""`narl sweep`: plans, execution, status, printed commands, and one line for every wrong input."""

import importlib.util
import io
import json
import shlex
from types import SimpleNamespace

import pytest

from narl import storage
from narl.commands import sweep_console
from narl.commands.executor_arguments import ExecutorArguments
from narl.commands.sweep_console import SweepConsole
from narl.sweeps import driver
from narl.sweeps.driver import Ended
from narl.sweeps.grid import HALVES, expand
from narl.sweeps.run_notes import RunNotes, record_sweep
from narl.sweeps.run_task import run_task
from narl.sweeps.trial import Cost

# submitit sets up logging when it is imported, and closes the handlers that pytest has in a test.
if importlib.util.find_spec("submitit") is not None:
    importlib.import_module("submitit")

GRID = ["sweep", "tabular", "greedy,psrl", "riverswim", "--size=2,3", "--horizon=2"]
GRID += ["--episodes=5", "--seeds=0:2"]


class InProcess:
    """Tasks that run in this process, one at a time."""

    def __init__(self, root, slots):
        self.root, self.over = root, []

    def has_room(self):
        return not self.over

    def start(self, task):
        run_task(task, self.root)
        self.over.append(Ended(task))

    def ended(self):
        over, self.over = self.over, []
        return over

    def num_running(self):
        return len(self.over)

    def stop(self):
        pass


@pytest.fixture(autouse=True)
def in_process(monkeypatch) -> None:
    """Execute sweeps in this process, on a machine without GPUs."""
    monkeypatch.setattr("narl.sweeps.local_executor.LocalExecutor", InProcess)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(driver, "POLL_SECONDS", 0.0)


@pytest.mark.slow
def test_a_sweep_does_every_run_once_and_shows_its_status(call, cache, tmp_path):
    first = call(*GRID, "--json", "--csv=out.csv")
    assert first.status == 0, first.err
    result = json.loads(first.out)
    assert result["counts"] == {
        "done": 4,
        "running": 0,
        "failed": 0,
        "unfinished": 0,
        "waiting": 0,
    }
    assert [run["label"] for run in result["runs"]] == [
        f"agent={agent} size={size}" for agent in ("greedy", "psrl") for size in (2, 3)
    ]
    folders = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert folders == sorted([*(run["run"] for run in result["runs"]), "sweeps"])
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 1 + 4 * 2
    assert "4/4 agent=psrl size=3: done" in first.err
    again = call(*GRID)
    digits = " ".join(run["run"][-10:] for run in result["runs"])
    drawn = f"`narl report {digits}` draws them"
    assert (again.status, again.out) == (0, f"4 of 4 runs are done\n{drawn}\n")
    assert call(*shlex.split(drawn.split("`")[1])[1:]).status == 0
    assert again.err.splitlines()[0] == "4 of 4 runs are done already"
    assert "begins" not in again.err
    status = json.loads(call("sweep", "--status", "--json").out)
    assert status["counts"]["done"] == 4
    assert {run["steps"] for run in status["runs"]} == {5}
    shown = call("sweep", "--status")
    assert shown.out.splitlines()[-1] == "4 done"
    # The same runs are found by `narl tabular`, too.
    arguments = ["greedy", "riverswim", "--size=2", "--horizon=2", "--episodes=5", "--seeds=0:2"]
    assert json.loads(call("tabular", *arguments, "--json").out)["found"]


def test_many_runs_are_drawn_by_their_folder(tmp_path):
    (run,) = expand(HALVES["tabular"], [{"agent": ("greedy",), "env": ("riverswim",)}])
    console = SweepConsole([run], tmp_path / "my runs", "local", ExecutorArguments(), json=False)
    ids = [f"run-{number:010d}" for number in range(5)]
    command = console._report_command(ids[:2])
    assert command == f"narl report 0000000000 0000000001 --runs '{tmp_path}/my runs'"
    assert console._report_command(ids) == f"narl report '{tmp_path}/my runs'/*"


def test_follow_waits_until_every_run_is_done_or_has_failed(call, cache, tmp_path, monkeypatch):
    grid = {"agent": ("greedy",), "env": ("riverswim",), "size": (2, 3), "episodes": (5,)}
    good, bad = expand(HALVES["tabular"], [grid | {"seeds": ((0,),)}])
    record_sweep(tmp_path / "runs", [good, bad])
    events = [
        lambda: None,
        lambda: RunNotes(tmp_path / "runs", bad.id).note_failure(error="it broke", together=1),
        lambda: run_task([good], tmp_path / "runs"),
    ]
    clock = SimpleNamespace(sleep=lambda seconds: events.pop(0)())
    monkeypatch.setattr(sweep_console, "time", clock)
    answer = call("sweep", "--status", "--follow")
    assert (answer.status, events) == (1, [])
    assert answer.out.splitlines()[-1] == "1 done, 1 failed"


@pytest.mark.slow
def test_a_failed_run_is_reported_with_its_log_and_stops_nobody(call, cache, monkeypatch):
    import narl.tabular.stored_run

    works = narl.tabular.stored_run.run

    def run(options, mdp, *others, **more):
        if mdp.num_states == 3:
            raise RuntimeError("it broke")
        return works(options, mdp, *others, **more)

    monkeypatch.setattr("narl.tabular.stored_run.run", run)
    answer = call(*GRID, "--json")
    assert answer.status == 1
    result = json.loads(answer.out)
    assert (result["counts"]["done"], result["counts"]["failed"]) == (2, 2)
    (failed, _) = [run for run in result["runs"] if run["state"] == "failed"]
    assert failed["error"] == "RuntimeError: it broke"
    line = f"failed: {failed['run']} (agent=greedy size=3): {failed['error']}; its log is "
    assert line + failed["log"] in answer.err
    status = call("sweep", "--status")
    assert status.status == 1
    assert "it broke" in status.out
    monkeypatch.setattr("narl.tabular.stored_run.run", works)
    assert call(*GRID).status == 0
    assert call("sweep", "--status").status == 0


def test_dry_run_shows_runs_programs_and_that_costs_are_unknown(call, tmp_path):
    words = ["sweep", "Hopper-v5", "--algo=narl,mbpo", "--radius=0.1,0.5,none", "--seeds=0:5"]
    answer = call(*words, "--dry-run", "--no-trial")
    assert (answer.status, answer.err) == (0, "")
    assert "4 runs, 0 of them are done" in answer.out
    assert (
        "program 1 with 15 seeds in all: algo=narl radius=0.1; algo=narl radius=0.5; "
        "algo=narl radius=none" in answer.out
    )
    assert "program 2 with 5 seeds in all: algo=mbpo" in answer.out
    assert "no finished run of these algorithms is in the folder" in answer.out
    assert list(tmp_path.iterdir()) == []
    result = json.loads(call(*words, "--dry-run", "--no-trial", "--json", "--jobs=2").out)
    assert [len(program) for program in result["programs"]] == [3, 1]
    assert [len(task) for task in result["tasks"]] == [2, 1, 1]
    assert result["estimate"] is None


def test_dry_run_estimates_from_finished_runs(call, tmp_path, monkeypatch):
    for seconds, env in ((10.0, "Hopper-v5"), (30.0, "Hopper-v5"), (1000.0, "Ant-v5")):
        record = {"experiment": "train", "algo": "sac", "env": env, "seeds": [0, 1], "x": seconds}
        metrics = {"steps": 100, "replicas": 2, "seconds": {"sac": 1.0, "total": seconds}}
        storage.save_run(tmp_path / "runs", record, metrics, {})
    words = ["sweep", "Hopper-v5", "--algo=sac,mbpo", "--seeds=0:4", "--steps=10000"]
    cost = json.loads(call(*words, "--dry-run", "--no-trial", "--json").out)["estimate"]
    # 20 s (the median) for 100 steps of 2 seeds; no finished run is of mbpo.
    assert cost["seconds"] == pytest.approx(20.0 * 100 * 2)
    assert (cost["num_estimated"], cost["num_unknown"], cost["num_examples"]) == (1, 1, 2)
    assert cost["size"] > 1000
    shown = call(*words, "--dry-run", "--no-trial").out
    assert "about 1 h 6 min one after the other" in shown
    assert " more for checkpoints), from 2 finished runs; 1 runs cannot be estimated" in shown
    # A trial says what mbpo costs.
    monkeypatch.setattr("narl.sweeps.trial.try_out", lambda run: Cost(100.0, 5e6))
    answer = call(*words, "--dry-run")
    assert answer.err == "a short trial of algo=mbpo …\n"
    assert "about 1 h 8 min one after the other and 5.0 MB of disk (meanwhile up to" in answer.out
    assert "runs and 1 short trial, extrapolated to all steps, episodes and seeds\n" in answer.out
    cost = json.loads(call(*words, "--dry-run", "--json").out)["estimate"]
    assert cost["seconds"] == pytest.approx(4000 + 100)
    assert (cost["num_unknown"], cost["num_examples"], cost["num_trials"]) == (0, 2, 1)


@pytest.mark.slow
def test_dry_run_tries_out_what_was_never_run_and_stores_nothing(call, cache, tmp_path):
    answer = call(*GRID, "--dry-run", "--json")
    assert answer.status == 0, answer.err
    names = [f"agent={agent} size={size}" for agent in ("greedy", "psrl") for size in (2, 3)]
    assert answer.err.splitlines() == [f"a short trial of {name} …" for name in names]
    cost = json.loads(answer.out)["estimate"]
    assert (cost["num_estimated"], cost["num_trials"], cost["num_examples"]) == (4, 4, 0)
    assert cost["seconds"] > 0
    assert list(tmp_path.iterdir()) == []


def test_print_gives_commands_of_the_same_runs(call):
    words = ["sweep", "tabular", "psrl,narl-ucrl", "riverswim", "--c=0.1,1", "--episodes=7"]
    words += ["--clip-reward=on", "--runs=a folder"]
    lines = call(*words, "--executor=print").out.splitlines()
    assert lines[0] == "narl sweep tabular psrl riverswim --episodes=7 '--runs=a folder'"
    assert len(lines) == 3
    plan = ["--dry-run", "--no-trial", "--json"]
    planned = json.loads(call(*words, *plan).out)["runs"]
    printed = [json.loads(call(*shlex.split(line)[1:], *plan).out)["runs"] for line in lines]
    assert [[run["run"] for run in runs] for runs in printed] == [[run["run"]] for run in planned]


def test_a_file_is_a_grid_and_the_command_line_takes_precedence(call, tmp_path):
    (tmp_path / "grid.toml").write_text(
        'half = "tabular"\nenv = "riverswim"\n[[grid]]\nagent = "psrl"\n'
        '[[grid]]\nagent = "narl-ucrl"\nc = [0.1, 1]\n'
    )
    words = ["sweep", "grid.toml", "--size=3", "--dry-run", "--no-trial", "--json"]
    result = json.loads(call(*words).out)
    assert len(result["runs"]) == 3
    assert all("riverswim-3" in run["run"] for run in result["runs"])


def test_lists_as_values_are_separated_by_semicolons(call):
    words = ["sweep", "--env=Hopper-v5,Ant-v5", "--algo=sac", "--hidden=8,8;16,16"]
    result = json.loads(call(*words, "--dry-run", "--no-trial", "--json").out)
    assert [run["label"] for run in result["runs"]] == [
        f"env={env} hidden={hidden}"
        for env in ("Hopper-v5", "Ant-v5")
        for hidden in ("8,8", "16,16")
    ]


def test_slurm_script_is_printed(call):
    pytest.importorskip("submitit")
    words = ["sweep", "Hopper-v5,Ant-v5", "--executor=slurm", "--time=2:00:00", "--cpus=3"]
    answer = call(*words, "--slurm=partition=gpu", "--dry-run", "--no-trial")
    assert answer.status == 0, answer.err
    for line in ("--time=120", "--cpus-per-task=3", "--partition=gpu", "--array=0-1%2"):
        assert f"#SBATCH {line}" in answer.out


@pytest.mark.parametrize("executor", ["local", "print"])
def test_time_out_of_environments_reaches_the_runs(call, monkeypatch, executor):
    seen = []
    monkeypatch.setattr(InProcess, "start", lambda self, task: (seen.extend(task), 1 / 0))
    words = ["sweep", "Pendulum-v1", "--algo=sac", "--env-timeout=2.5", f"--executor={executor}"]
    answer = call(*words)
    if executor == "print":
        assert answer.out == "narl sweep Pendulum-v1 --algo=sac --env-timeout=2.5\n"
    else:
        assert [run.env_timeout for run in seen] == [2.5]


HANGING = """
import time
import gymnasium

class Hanging(gymnasium.Env):
    def __init__(self):
        time.sleep(60)

gymnasium.register("Hanging-v0", Hanging)
"""


def test_environment_that_cannot_be_made_in_time_is_a_failed_run(call, tmp_path, monkeypatch):
    (tmp_path / "hanging_init.py").write_text(HANGING)
    monkeypatch.syspath_prepend(tmp_path)
    words = ["sweep", "hanging_init:Hanging-v0", "--algo=sac", "--env-timeout=0.5"]
    answer = call(*words)
    assert answer.status == 1
    assert (
        "hanging_init:Hanging-v0: it is not made within 0.5 s: __init__ hangs, or the time-out is "
        "too short; its log is " in answer.err
    )
    tried = call(*words, "--dry-run")
    assert tried.status == 0
    assert "the trial of " in tried.err
    assert "failed: hanging_init:Hanging-v0: it is not made within 0.5 s" in tried.err


def test_status_of_an_empty_folder(call):
    answer = call("sweep", "--status")
    assert answer.status == 0
    assert answer.out.startswith("no sweep was executed in ")


WRONG = {
    "sweep": "--env: missing; give at least one",
    "sweep Hopper-v5 Ant-v5": "Ant-v5: one argument too many; several values are separated by",
    "sweep Hopper-v5 --radius 0.1,,1": "--radius: '0.1,,1' has an empty value",
    "sweep Hopper-v5 --radius 0.1,x": "--radius: 'x' is wrong; it must be a number, or none",
    "sweep Hopper-v5 --joint yes": "--joint: 'yes' is wrong; it must be on, off or on,off",
    "sweep Hopper-v5 --algo sac --radius 0.1": "--radius: it has no effect with algorithm sac",
    "sweep Hopper-v5 --jobs 0": "--jobs: 0 is too small",
    "sweep Hopper-v5 --memory 3": "--memory: it has no effect with executor local, only with ray",
    "sweep Hopper-v5 --executor print --jobs 2": "--jobs: it has no effect with executor print",
    "sweep Hopper-v5 --executor slurm --slurm gpu": "--slurm: 'gpu' is wrong; it must be like",
    "sweep Hopper-v5 --gpus 1": "--gpus: no GPU can be seen on this machine",
    "sweep Hopper-v5 --executor slurm --time 2": "--time: 2 min is too short; SLURM tells a job 2 "
    "min before its time limit to write a checkpoint, so at least 3",
    "sweep Hopper-v5 --executor slurm --time 0:01:30 --dry-run --no-trial": "--time: 2 min is too",
    "sweep Hopper-v5 --no-trial": "--no-trial: it has no effect without --dry-run; leave it out",
    "sweep Hopper-v5 --env-timeout 0": "--env-timeout: 0 given; it must be a finite number above",
    "sweep tabular psrl riverswim --env-timeout 3": "--env-timeout: it has no effect on tabular",
    "sweep Hopper-v5 --follow": "--follow: it has no effect without --status",
    "sweep Hopper-v5 --executor dask": "--executor: unknown value 'dask'",
    "sweep Hopper-v5 --seeds-per-run 2": "--seeds-per-run: there are no seeds to split",
    "sweep gone.toml": "gone.toml: No such file or directory; give a TOML file",
    "sweep tabular psrl riverswim --runs file": "runs folder: ",
    "sweep Hopper-v5 --fresh": "--fresh: unknown option; remove runs with `narl runs remove RUN`",
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_input_is_one_line_and_nothing_is_written(call, tmp_path, words):
    (tmp_path / "file").write_text("not a folder")
    answer = call(*words.split())
    assert (answer.status, answer.out) == (2, ""), answer
    assert answer.err.count("\n") == 1
    assert answer.err.startswith(f"narl: {WRONG[words]}")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_live_table_shows_running_and_failed_runs_first(tmp_path):
    from rich.console import Console

    from narl.sweeps.grid import HALVES, expand
    from narl.sweeps.status import SweepStatus

    grid = {"env": ("Hopper-v5",), "algo": ("sac",), "seeds": tuple((i,) for i in range(9))}
    runs = expand(HALVES["train"], [grid])
    RunNotes(tmp_path, runs[7].id).note_failure(error="it broke", together=1)
    notes = RunNotes(tmp_path, runs[8].id)
    with notes.lease():
        notes.note_worker(step=500, **{"return": 12.34})
        view = sweep_console.live_view(SweepStatus(runs, tmp_path).read(), height=8)
    console = Console(width=300, record=True, file=io.StringIO())
    console.print(view)
    lines = console.export_text().splitlines()
    assert "seeds=8" in lines[1]
    assert f"500/{runs[8].config.steps}" in lines[1]
    assert "12.3" in lines[1]
    assert "it broke" in lines[2]
    assert lines[-2].strip() == "and 5 more"
    assert lines[-1].strip() == "1 running, 1 failed, 7 waiting"


# --- narl reproduce --executor ------------------------------------------------------------------


@pytest.fixture
def experiment(monkeypatch) -> None:
    """Put an experiment of three tiny cells, two of them in one program, in the place of fig1a."""
    from narl.experiments import experiment
    from narl.tabular.config import make_config

    def cells(scale):
        shared = {"size": 2, "horizon": 2, "episodes": 5, "seeds": (0, 1)}
        swept = {
            f"scale {x}": make_config("ucrl2", "riverswim", scale=x, swept="scale", **shared)
            for x in (0.5, 1.0)
        }
        return {"greedy": make_config("greedy", "riverswim", **shared), **swept}

    def analyse(scale, results):
        return experiment.Findings("A test.", [], [], [])

    table = {"fig1a": experiment.Experiment("fig1a", "A figure", cells, analyse)}
    monkeypatch.setattr("narl.commands.reproduce.EXPERIMENTS", table)


@pytest.mark.slow
def test_reproduce_does_its_runs_as_a_sweep(call, cache, experiment, monkeypatch):
    alone = json.loads(call("reproduce", "fig1a", "--runs=alone", "--json").out)
    started = []
    start = InProcess.start
    monkeypatch.setattr(
        InProcess, "start", lambda self, task: (started.append(len(task)), start(self, task))
    )
    answer = call("reproduce", "fig1a", "--executor=local", "--jobs=2", "--json")
    assert answer.status == 0, answer.err
    result = json.loads(answer.out)
    assert result["outcomes"][0]["runs"] == alone["outcomes"][0]["runs"]
    assert sorted(started) == [1, 1, 1]
    assert "3/3 fig1a scale 1.0: done" in answer.err
    for run in result["outcomes"][0]["runs"]:
        arrays = [storage.load_run(root, run).arrays() for root in ("runs", "alone")]
        assert all(arrays[0][name].tobytes() == x.tobytes() for name, x in arrays[1].items())


def test_reproduce_names_a_failed_run(call, experiment, monkeypatch):
    def run(*arguments, **options):
        raise RuntimeError("it broke")

    monkeypatch.setattr("narl.tabular.stored_run.run", run)
    monkeypatch.setattr("narl.tabular.stored_run.run_sweep", run)
    answer = call("reproduce", "fig1a", "--executor=local")
    assert answer.status == 1
    *_, first, _, _, last = answer.err.splitlines()
    assert first.startswith("failed: tabular-greedy-riverswim-2-")
    assert "(fig1a greedy): RuntimeError: it broke; its log is " in first
    assert (
        last == "narl: 3 of 3 runs are not done; the same command tries again (--debug shows where)"
    )


@pytest.mark.slow
def test_reproduce_prints_commands_the_last_of_which_judges(call, cache, experiment):
    words = ["reproduce", "fig1a", "--scale=smoke", "--runs=a folder", "--results=out"]
    lines = call(*words, "--executor=print").out.splitlines()
    # The two values of the scale share a program.
    assert lines == [
        f"narl reproduce fig1a --scale=smoke --part={part}/2 --executor=local '--runs=a folder' "
        "--results=out"
        for part in (1, 2)
    ]
    first, last = (call(*shlex.split(line)[1:]) for line in lines)
    assert (first.status, first.out) == (0, "")
    assert "1/1 fig1a greedy: done" in first.err
    assert "part 1/2 is done; other parts are not, so no claim is judged" in first.err
    assert "2/2 fig1a scale 1.0: done" in last.err
    assert "greedy" not in last.err.partition("2/2")[0]
    assert "fig1a: A figure (smoke scale)" in last.out


def test_reproduce_shows_its_plan(call, experiment, tmp_path):
    answer = call("reproduce", "fig1a", "--dry-run", "--no-trial")
    assert (answer.status, answer.err) == (0, "")
    assert "3 runs, 0 of them are done" in answer.out
    assert "fig1a scale 0.5" in answer.out
    words = ["--executor=local", "--jobs=2", "--dry-run", "--no-trial", "--json"]
    result = json.loads(call("reproduce", "fig1a", *words).out)
    assert sorted(map(len, result["tasks"])) == [1, 1, 1]
    assert list(tmp_path.iterdir()) == []


def test_reproduce_passes_the_time_out_on(call, monkeypatch):
    from narl.experiments import experiment
    from short_trainings import short_config

    seen = []

    def run_training(configs, root, **options):
        seen.append(options["parts"].env_timeout)
        raise KeyboardInterrupt

    table = {"fig3a": experiment.Experiment("fig3a", "T", lambda scale: {"a": short_config()}, 0)}
    monkeypatch.setattr("narl.commands.reproduce.EXPERIMENTS", table)
    monkeypatch.setattr("narl.deep.training_run.run_training", run_training)
    assert call("reproduce", "fig3a", "--env-timeout=4").status == 3
    assert seen == [4.0]
    out = call("reproduce", "fig3a", "--env-timeout=4", "--executor=print").out
    assert out.split()[-1] == "--env-timeout=4"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--env-timeout=3"], "--env-timeout: it has no effect on tabular runs; leave it out"),
        (["--no-trial"], "--no-trial: it has no effect without --dry-run; leave it out"),
        (["--dry-run", "--fresh"], "--fresh: it has no effect with --dry-run; remove the runs"),
        (["--executor=local", "--minutes=3"], "--minutes: it has no effect with an executor"),
        (["--executor=print", "--part=1/2"], "--part: it has no effect with executor print"),
        (["--executor=slurm", "--time=2"], "--time: 2 min is too short; SLURM tells a job 2 min"),
        (["--jobs=2"], "--jobs: it has no effect without an executor; leave it out"),
        (["--executor=local", "--fresh"], "--fresh: it has no effect with an executor"),
        (["--executor=local", "--time=3"], "--time: it has no effect with executor local"),
    ],
)
def test_reproduce_refuses_arguments_without_effect(call, experiment, words, message):
    answer = call("reproduce", "fig1a", *words)
    assert (answer.status, answer.err.count("\n")) == (2, 1)
    assert answer.err.startswith(f"narl: {message}")
