"""`narl train`: its output, its stored runs and one line for every wrong input."""

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest

import toy_worlds
from narl import storage
from narl.commands import training_console
from narl.deep.checked_config import make_config
from narl.deep.loggers import Logger
from narl.deep.make_environment import make_env
from narl.deep.training_run import TrainingStopped, check_training, run_training
from narl.deep.user_parts import UserParts
from narl.errors import InputError
from narl.interrupts import Interrupted
from narl.storage.unfinished import record_config
from short_trainings import ENV, short_arguments, short_config

# --- results ----------------------------------------------------------------------------------


@pytest.mark.slow
def test_json_is_one_object_and_a_finished_run_is_found(call, cache, tmp_path):
    arguments = ["train", ENV, *short_arguments(), "--seeds", "0:2", "--json"]
    first = call(*arguments)
    assert first.status == 0
    assert first.out.count("\n") == 1
    result = json.loads(first.out)
    assert set(result) == {
        *("algo", "env", "seeds", "solved_step", "confirmed_step", "final_return", "steps"),
        *("policy_steps", "updates", "episodes", "replicas", "seconds"),
        *("run", "path", "found", "resumed_from"),
    }
    assert (result["algo"], result["env"], result["seeds"]) == ("sac", ENV, [0, 1])
    assert (result["steps"], result["updates"], result["solved_step"]) == (300, 200, [None, None])
    assert set(result["seconds"]) == {
        *("compile", "env", "model", "rollout", "sac", "eval", "checkpoint", "total"),
    }
    assert (result["found"], result["resumed_from"]) == (False, None)
    assert result["run"] == short_config(seeds=(0, 1)).run_id
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [result["run"]]
    lines = first.err.splitlines()
    assert [line.partition(",")[0] for line in lines] == [
        f"sac {ENV}: step {step}/300" for step in (100, 200, 300)
    ]
    assert all("return " in line and " steps/s" in line for line in lines)
    assert lines[-1].endswith("0 s left")
    again = call(*arguments)
    assert again.err == ""
    assert json.loads(again.out) == result | {"found": True}


@pytest.mark.slow
def test_finished_run_is_extended_to_more_steps(call, cache, tmp_path, monkeypatch):
    words = ["train", ENV, *short_arguments(steps=200), "--json"]
    short = json.loads(call(*words, "--keep-data").out)["run"]
    real, parts = training_console.run_training, []
    monkeypatch.setattr(
        training_console,
        "run_training",
        lambda *args, **options: (parts.append(options["parts"]), real(*args, **options))[1],
    )
    answer = call("train", "--extend", short, "--steps=300", "--json", "--env-timeout=60")
    assert answer.status == 0
    assert [(part.env_timeout, part.env_workers) for part in parts] == [(60.0, None)]
    result = json.loads(answer.out)
    assert (result["run"], result["steps"]) == (short_config().run_id, 300)
    assert (result["found"], result["resumed_from"]) == (False, 200)
    assert answer.err.splitlines()[0] == "continues from step 200"
    again = call("train", "--extend", short, "--steps=300", "--json")
    assert again.err == "a run of 300 steps is there already; nothing is trained\n"
    assert json.loads(again.out) == result | {"found": True, "resumed_from": None}
    for words, line in (
        ((result["run"], "--steps=400"), f"--extend: {result['run']} does not keep its data; "),
        ((short, "--steps=100"), f"--steps: 100 given; {short} has 200 already, so give more"),
        ((short,), "arguments: not understood; it is like `narl train --extend "),
        ((short, "--steps=400", "--batch=8"), "--batch: unknown option"),
        ((short, "--steps=400", "--checkpoint-every=0"), "--checkpoint-every: 0 "),
        ((short, "--steps=400", "--env-timeout=0"), "--env-timeout: 0 given; it must be"),
        (("nothing", "--steps=400"), "run: unknown value 'nothing'"),
    ):
        answer = call("train", "--extend", *words)
        assert (answer.status, answer.out) == (2, "")
        assert answer.err.startswith(f"narl: {line}"), answer.err
        assert answer.err.count("\n") == 1
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == sorted(
        [short, result["run"]]
    )


@pytest.mark.slow
def test_text_has_a_row_per_seed_and_the_folder(call, cache, tmp_path):
    arguments = ["train", ENV, *short_arguments(), "--seeds=5", "--solved-return=-1e6"]
    arguments += ["--until-solved", "--runs=kept"]
    answer = call(*arguments)
    assert answer.status == 0
    (run,) = storage.list_runs(tmp_path / "kept")
    final_return = f"{run.metrics['final_return'][0]:.1f}"
    lines = answer.out.splitlines()
    assert lines[0] == f"sac on {ENV}: 100 steps, 0 updates, mean return {final_return}"
    assert lines[1].split() == [
        *["seed", "solved", "at", "step", "final", "return", "best", "return", "at", "step"]
    ]
    assert lines[2].split() == ["5", "100", final_return, final_return, "100"]
    assert str(Path("kept") / run.id) in lines[-1]
    found = call(*arguments)
    assert "found, not trained again (--fresh trains it again)" in found.out
    assert found.out.startswith(lines[0])
    assert call(*arguments, "--fresh").err.count("\n") == 1


@pytest.mark.slow
def test_same_command_continues_an_unfinished_training(call, cache, tmp_path):
    with pytest.raises(TrainingStopped):
        run_training([short_config()], tmp_path / "runs", on_epoch=lambda metrics: False)
    answer = call("train", ENV, *short_arguments(), "--json")
    assert answer.status == 0
    assert answer.err.splitlines()[0] == "continues from step 100"
    assert json.loads(answer.out)["resumed_from"] == 100


@pytest.mark.slow
def test_loggers_receive_every_epoch_of_a_training(call, cache, monkeypatch):
    events = []

    def make_logger(name):
        def open_logger(*args, **kwargs):
            events.append((name, args, kwargs))
            return Logger(lambda numbers, step: events.append(step), lambda: events.append("end"))

        return open_logger

    for name in ("tensorboard_logger", "wandb_logger"):
        monkeypatch.setattr(training_console, name, make_logger(name))
    arguments = ["train", ENV, *short_arguments(), "--seeds=7", "--tensorboard=t", "--wandb=w"]
    config = short_config(seeds=(7,))
    assert call(*arguments).status == 0
    project = {"seeds": (7,), "config": config.record(), "run": config.run_id}
    assert events == [
        ("tensorboard_logger", (Path("t") / config.run_id,), {"seeds": (7,)}),
        ("wandb_logger", ("w",), project),
        *(100, 100, 200, 200, 300, 300, "end", "end"),
    ]
    events.clear()
    assert call(*arguments).status == 0
    assert events == []  # the run was found: nothing was trained


# --- failures ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_fault_is_one_line_and_keeps_the_checkpoint(call, cache, tmp_path, monkeypatch):
    env = "toy_worlds:Broken-v0"
    monkeypatch.setitem(toy_worlds.FAULTS, "what", "raise")
    monkeypatch.setitem(toy_worlds.FAULTS, "at", 150)
    answer = call("train", env, *short_arguments(), "--json")
    assert (answer.status, answer.out) == (1, "")
    run_id = short_config(env).run_id
    line = answer.err.splitlines()[-1]
    assert line.startswith("narl: Broken-v0 (seed 0, training): step 150: OSError: the simulator")
    assert f"the checkpoint of step 100 is kept in {Path('runs') / run_id}.part" in line
    assert f"`narl resume {run_id} --trust-env-module` tries again" in line
    monkeypatch.setitem(toy_worlds.FAULTS, "at", 10**9)
    assert json.loads(call("resume", run_id, "--json").out)["resumed_from"] == 100
    monkeypatch.setitem(toy_worlds.FAULTS, "at", 20)
    answer = call("train", env, *short_arguments(), "--seeds=1")
    assert answer.status == 1
    assert "; there was no checkpoint yet (--debug" in answer.err
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [run_id]


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("RESOURCE_EXHAUSTED: 7 GB")])
def test_lack_of_memory_names_options_that_need_less(call, monkeypatch, error):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr(training_console, "run_training", fail)
    answer = call("train", ENV, *short_arguments())
    assert answer.status == 1
    assert answer.err == (
        "narl: out of memory; take fewer seeds, a smaller --rollout-batch, --retain-epochs, "
        "--buffer or --batch (--debug shows where)\n"
    )


def test_training_too_large_for_memory_is_refused_before_anything_is_written(
    call, monkeypatch, tmp_path
):
    monkeypatch.setattr("narl.deep.device_memory.available_memory", lambda: 10**9)
    answer = call("train", "Humanoid-v5", "--seeds", "0:3")
    assert answer.status == 2
    assert answer.err.startswith("narl: memory: 3 seeds need 3")
    assert "a smaller --rollout-batch" in answer.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("env", "runs", "command"),
    [
        ("Hopper-v5", None, "narl resume ID"),
        ("gymnasium.envs:Hopper-v5", None, "narl resume ID"),
        ("narl/SparsePendulum-v0", Path("kept"), "narl resume ID --runs kept"),
        ("windy:Windy-v0", None, "narl resume ID --trust-env-module"),
        ("my.windy:W-v0", Path("my runs"), "narl resume ID --runs 'my runs' --trust-env-module"),
    ],
)
def test_resume_command_can_be_typed(env, runs, command):
    assert training_console.resume_command("ID", env, runs) == command


@pytest.mark.parametrize(
    ("error", "does"), [(TrainingStopped(7, 7), "continues"), (Interrupted(), "begins anew")]
)
def test_interrupt_names_the_command_that_continues(monkeypatch, error, does):
    def stop(*args, **kwargs):
        raise error

    monkeypatch.setattr(training_console, "run_training", stop)
    config = short_config("toy_worlds:Broken-v0")
    console = training_console.TrainingConsole(Path("kept"))
    command = f"`narl resume {config.run_id} --runs kept --trust-env-module` {does}"
    with pytest.raises((KeyboardInterrupt, Interrupted), match=command):
        console.train(config)


def test_unfinished_run_is_not_extended(call, tmp_path):
    config = short_config("my_worlds:Mine-v0")
    part = tmp_path / "kept" / f"{config.run_id}.part"
    record_config(part, config.record(), checkpoint_every=1)
    for words, runs in (
        ((config.run_id, "--runs", "kept"), "kept"),
        ((str(part),), str(tmp_path / "kept")),
    ):
        answer = call("train", "--extend", *words, "--steps=900")
        assert (answer.status, answer.err) == (
            2,
            f"narl: --extend: {config.run_id} is not finished; `narl resume {config.run_id} "
            f"--runs {runs} --trust-env-module` first\n",
        )


# --- wrong input: one line, exit 2, nothing written, nothing compiled -------------------------

WRONG = {
    "": "ENV: missing; it is like `narl train InvertedPendulum-v5",
    "Hoper-v5": "env: unknown environment 'Hoper-v5'; did you mean 'Hopper-v5'?",
    "FrozenLake-v1": "env: FrozenLake-v1 has Discrete(16) observations; narl trains on Box",
    "Hopper-v5 --algo narll": "--algo: unknown value 'narll'; did you mean 'narl'?",
    "Hopper-v5 --members 0": "--members: 0 is too small; the nearest valid value is 1",
    "CartPole-v2 --steps 100": "env: unknown environment 'CartPole-v2'; did you mean 'CartPole-v1'",
    "Hopper-v5 --steps 100": "--steps: 100 is too small; 5000 random steps come first, so at least "
    "5001, or give a smaller --initial-steps",
    "Hopper-v5 --total-timesteps 9000": "--total-timesteps: unknown option; it is called --steps",
    "Hopper-v5 --lr 3e-4": "--lr: unknown option; it is called --learning-rate",
    "Hopper-v5 --qqq 3": "--qqq: unknown option (see narl train --help)",
    "Nowhere-v0": "env: unknown environment 'Nowhere-v0'; if a module of yours registers it, write",
    "initial_steps:Point-v0": "env: cannot import 'initial_steps'",  # a word that is no option here
    "no_envs:Point-v0": "env: cannot import 'no_envs': No module named 'no_envs'; the current",
    "Hopper-v5 --stop-at-return 3 --solved-return 4": "--stop-at-return: --solved-return is given",
    "Hopper-v5 --checkpoint-steps 0": "--checkpoint-steps: 0 is too small",
    "Hopper-v5 --checkpoint-steps 9 --checkpoint-every 2": "--checkpoint-steps: --checkpoint-every",
    "Hopper-v5 --stop-when-no-better 0": "--stop-when-no-better: 0 is too small",
    "Hopper-v5 --video x.mp4": "--video: unknown option; train first",
    "Hopper-v5 --hidden 256,": "--hidden: '256,' is wrong; it must be whole numbers with commas",
    "Hopper-v5 --no-until-solved": "--no-until-solved: unknown option",
    "Hopper-v5 --elites 2": "--elites: it has no effect with noise model",
    "Hopper-v5 --algo thompson --elites 2": "--elites: it has no effect with algorithm thompson",
    "Hopper-v5 --noise reward --radius 1": "--radius: it has no effect with noise reward",
    "Walker2d-v5 --until-solved": "--until-solved: no return counts as solved for Walker2d-v5",
    "Pendulum-v1 --termination known": "--termination: ",
    "Hopper-v5 --tensorboard logs": "--tensorboard: tensorboardX is not installed; pip install",
    "Hopper-v5 --wandb project": "--wandb: wandb is not installed; pip install -c constraints.txt",
}


@pytest.mark.parametrize("arguments", WRONG)
def test_wrong_input_is_one_line_and_nothing_is_written_or_compiled(
    call, tmp_path, monkeypatch, arguments
):
    def fail(*args, **kwargs):
        raise AssertionError("something was compiled")

    monkeypatch.setattr("narl.deep.training_run.Trainer", fail)
    for module in ("tensorboardX", "wandb"):
        monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / "file").write_text("not a folder")
    answer = call("train", *arguments.split())
    assert (answer.status, answer.out) == (2, "")
    assert answer.err.startswith("narl: ")
    assert answer.err.count("\n") == 1
    assert WRONG[arguments] in answer.err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.slow
def test_training_of_another_process_is_refused(call, cache, tmp_path):
    with storage.lock_folder(tmp_path / "runs" / f"{short_config().run_id}.part"):
        answer = call("train", ENV, *short_arguments())
    assert answer.status == 2
    assert f"process {os.getpid()} is writing to" in answer.err
    assert answer.err.count("\n") == 1


# --- the options are those of the configuration -----------------------------------------------


def test_arguments_reach_the_training(call, monkeypatch):
    calls = []

    def record(console, config, **options):
        calls.append((console, config, options))
        return 0

    monkeypatch.setattr(training_console.TrainingConsole, "train", record)
    arguments = ["--seeds=1,3", "--until-solved", "--no-joint", "--radius=none", "--hidden=8,4"]
    arguments += ["--runs=kept", "--fresh", "--json", "--checkpoint-every=4", "--keep-data"]
    arguments += ["--tensorboard=t", "--wandb=w"]
    assert call("train", "Hopper-v5", *arguments).status == 0
    config = make_config(
        "Hopper-v5",
        "narl",
        seeds=(1, 3),
        until_solved=True,
        joint=False,
        radius=None,
        hidden=(8, 4),
    )
    console = training_console.TrainingConsole(Path("kept"), True, "t", "w")
    options = {"checkpoint_every": 4, "keep_data": True, "fresh": True, "any_code": False}
    options["parts"] = UserParts()
    assert calls == [(console, config, options)]


# --- text of a result -------------------------------------------------------------------------


def test_times_of_a_second_or_more_are_printed(capsys):
    run = SimpleNamespace(
        config={"algo": "sac", "env": "X", "seeds": [0]},
        metrics={
            "steps": 10,
            "updates": 5,
            "solved_step": [None],
            "final_return": [1.0],
            "seconds": {"env": 0.4, "sac": 61.0, "total": 62.0},
        },
        path=Path("runs/x"),
        arrays=lambda: {"step": np.array([5, 10]), "eval_return": np.array([[np.nan], [1.0]])},
    )
    training_console.print_training(run, was_found=False)
    assert "1 min 2 s (sac 1 min 1 s)\n" in capsys.readouterr().out
    training_console.print_training(run, was_found=False, resumed=True)
    shown = capsys.readouterr().out
    assert "1 min 2 s in all, earlier commands included (sac 1 min 1 s)\n" in shown


def test_task_without_a_threshold_has_no_column_for_it(capsys):
    run = SimpleNamespace(
        config={"algo": "sac", "env": "X", "seeds": [0], "settings": {"solved_return": None}},
        metrics={
            "steps": 10,
            "updates": 5,
            "solved_step": [None],
            "final_return": [-868017791806796.0],
            "seconds": {"total": 62.0},
        },
        path=Path("runs/x"),
        arrays=lambda: {"step": np.array([5, 10]), "eval_return": np.array([[np.nan], [1.0]])},
    )
    training_console.print_training(run, was_found=False)
    shown = capsys.readouterr().out
    assert "solved" not in shown
    assert "mean return -8.7e14" in shown
    assert shown.splitlines()[2].split() == ["0", "-8.7e14", "1.0", "10"]
    run.config["settings"]["solved_return"] = 5.0
    training_console.print_training(run, was_found=False)
    assert "solved at step" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("returns", "row", "hint"),
    [
        ([[1.0], [9.0], [9.0]], ["0", "9.0", "9.0", "10"], False),  # the first of the best
        ([[1.0], [9.0], [2.0]], ["0", "2.0", "9.0", "10"], True),
        ([[np.nan], [np.nan], [np.nan]], ["0", "-", "-", "-"], False),
    ],
)
def test_best_evaluation_is_shown_and_how_to_use_its_policy(capsys, returns, row, hint):
    last = returns[-1][0]
    run = SimpleNamespace(
        config={"algo": "sac", "env": "X", "seeds": [0]},
        metrics={
            "steps": 15,
            "updates": 5,
            "solved_step": [None],
            "final_return": [None if np.isnan(last) else last],
            "seconds": {"total": 62.0},
        },
        path=Path("runs/x"),
        arrays=lambda: {"step": np.array([5, 10, 15]), "eval_return": np.array(returns)},
    )
    training_console.print_training(run, was_found=False)
    shown = capsys.readouterr().out
    assert shown.splitlines()[2].split() == row
    assert ("narl eval runs/x --best" in shown) == hint


def test_stop_at_return_and_checkpoint_steps_are_short_forms(call, monkeypatch):
    calls = []

    def record(console, config, **options):
        calls.append((config, options["checkpoint_every"]))
        return 0

    monkeypatch.setattr(training_console.TrainingConsole, "train", record)
    words = ["train", ENV, *short_arguments(), "--stop-at-return=7.5", "--checkpoint-steps=101"]
    assert call(*words).status == 0
    config = short_config(solved_return=7.5, until_solved=True)
    assert calls == [(config, 2)]  # epochs of 100 steps


OWN_ENVIRONMENT = """
import gymnasium
from toy_worlds import Toy

gymnasium.register("Here-v0", lambda render_mode=None: Toy(render_mode), max_episode_steps=30)
"""


def test_environment_of_a_file_in_the_working_folder_is_found(call, tmp_path, monkeypatch):
    (tmp_path / "my_envs_here.py").write_text(OWN_ENVIRONMENT)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    path = list(sys.path)
    trained = []

    def stop(self, config, **options):
        check_training([config])
        trained.append(config.env)
        return 0

    monkeypatch.setattr(training_console.TrainingConsole, "train", stop)
    try:
        assert call("train", "my_envs_here:Here-v0", *short_arguments()).status == 0
    finally:
        gymnasium.registry.pop("Here-v0", None)
        sys.modules.pop("my_envs_here", None)
    assert trained == ["my_envs_here:Here-v0"]
    assert sys.path == [*path, str(tmp_path)]  # last: it hides no installed package


def test_module_in_the_working_folder_that_is_not_on_the_path_is_named(tmp_path, monkeypatch):
    (tmp_path / "my_envs_here.py").write_text(OWN_ENVIRONMENT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    with pytest.raises(InputError, match=r"my_envs_here.py is in this folder, .* PYTHONPATH=\.$"):
        make_env("my_envs_here:Here-v0", {})
