"""`narl train` in this process: what is typed, what is said, what is kept."""

import ast
import dataclasses
import inspect
import itertools
import json
import os
import signal
import sys
import threading
import time
import typing
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import toy_worlds
from narl import cli, storage
from narl.commands import train, training
from narl.interrupts import Interrupted, run_stoppable
from narl.console import TrainingBar, duration
from narl.deep.config import Settings, make_settings
from narl.deep.owners import owners_of
from narl.deep.training_run import Course, Stopped
from narl.deep.training_run import train as train_course
from narl.storage.folder import lock_folder
from short_courses import cache, call, course, options, programs  # noqa: F401

ENV = "toy_worlds:Toy-v0"
FIELDS = {field.name: field for field in dataclasses.fields(Settings)}
HINTS = typing.get_type_hints(train.Train, include_extras=True)


@pytest.fixture
def courses(monkeypatch) -> list[Course]:
    """What would have been trained."""
    asked: list[Course] = []

    def carry_out(course, wishes, on_resume):
        asked.append(course)
        return SimpleNamespace(config=course.config(), metrics={}, id=course.id, path=Path())

    monkeypatch.setattr(training, "carry_out", carry_out)
    return asked


# --- what comes out ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("cache")
def test_it_prints_one_json_object_and_finds_its_run_again(call, tmp_path):  # noqa: F811
    given = ["train", ENV, *options(), "--seeds", "0:2", "--json"]
    first = call(*given)
    assert first.status == 0
    assert first.out.count("\n") == 1
    result = json.loads(first.out)
    assert set(result) == {
        *("algo", "env", "seeds", "solved_step", "final_return", "steps", "policy_steps"),
        *("confirmed_step", "lanes"),
        *("updates", "episodes", "seconds", "run", "path", "found", "resumed_from"),
    }
    assert (result["algo"], result["env"], result["seeds"]) == ("sac", ENV, [0, 1])
    assert (result["steps"], result["updates"]) == (300, 200)
    assert result["solved_step"] == [None, None]
    assert all(isinstance(final, float) for final in result["final_return"])
    assert set(result["seconds"]) == {
        *("compile", "env", "model", "rollout", "sac", "eval", "checkpoint", "total"),
    }
    assert (result["found"], result["resumed_from"]) == (False, None)
    assert result["run"] == course(seeds=(0, 1)).id
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [result["run"]]
    lines = first.err.splitlines()
    assert [line.partition(",")[0] for line in lines] == [
        f"sac {ENV}: step {step}/300" for step in (100, 200, 300)
    ]
    assert all("return " in line and "steps/s, " in line and " left" in line for line in lines)

    again = call(*given)
    assert again.err == ""
    assert json.loads(again.out) == {**result, "found": True}


@pytest.mark.slow
@pytest.mark.usefixtures("cache")
def test_for_people_a_row_per_seed_and_where_it_is_kept(call, tmp_path):  # noqa: F811
    given = ["train", ENV, *options(), "--seeds=5", "--solved-return=-1e6", "--runs=kept"]
    said = call(*given)
    (run,) = storage.list_runs(tmp_path / "kept")
    final = run.metrics["final_return"][0]
    assert said.status == 0
    lines = said.out.splitlines()
    expected = f"sac on {ENV}: 300 steps, 200 updates, mean return {final:.1f}"
    assert lines[0] == expected
    assert lines[1].split() == ["seed", "solved", "at", "step", "final", "return"]
    assert lines[2].split() == ["5", "100", f"{final:.1f}"]
    path = Path("kept") / run.id
    assert lines[-1] == f"kept in {path}; `narl report {path}` draws it"
    said = call(*given)
    assert "found, not trained again (--fresh trains it again)" in said.out
    assert said.out.startswith(expected)
    assert call(*given, "--fresh").err.count("\n") == 3


@pytest.mark.slow
@pytest.mark.usefixtures("cache")
def test_the_same_command_continues_and_says_from_where(call, tmp_path):  # noqa: F811
    with pytest.raises(Stopped):
        train_course(course(), tmp_path / "runs", on_epoch=lambda row: False)
    said = call("train", ENV, *options(), "--json")
    assert said.status == 0
    assert said.err.splitlines()[0] == "continues from step 100"
    assert json.loads(said.out)["resumed_from"] == 100


@pytest.mark.slow
@pytest.mark.usefixtures("cache")
def test_until_solved(call):  # noqa: F811
    given = ["--until-solved", "--solved-return=-1e6", "--json"]
    result = json.loads(call("train", ENV, *options(), *given).out)
    assert (result["steps"], result["solved_step"]) == (100, [100])


@pytest.mark.slow
@pytest.mark.usefixtures("cache")
def test_tensorboard_hears_of_every_epoch(call, tmp_path, monkeypatch):  # noqa: F811
    heard = []

    class Writer:
        def __init__(self, folder):
            heard.append(folder)

        def add_scalar(self, name, number, step):
            heard.append((name, step))

        def flush(self):
            pass

        def close(self):
            heard.append("closed")

    module = ModuleType("tensorboardX")
    module.SummaryWriter = Writer
    monkeypatch.setitem(sys.modules, "tensorboardX", module)
    given = ["train", ENV, *options(), "--seeds", "7", "--tensorboard", "logs"]
    assert call(*given).status == 0
    assert heard[0] == str(Path("logs") / course(seeds=(7,)).id)
    for step in (100, 200, 300):
        assert ("eval_return/seed7", step) in heard
    assert ("critic_loss/seed7", 300) in heard
    assert heard[-1] == "closed"
    heard.clear()
    assert call(*given).status == 0
    assert heard == []  # nothing was trained


# --- when it goes wrong -----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("cache")
def test_a_fault_is_one_line_and_the_checkpoint_is_kept(call, tmp_path, monkeypatch):  # noqa: F811
    env = "toy_worlds:Broken-v0"
    monkeypatch.setitem(toy_worlds.FAULTS, "what", "raise")
    monkeypatch.setitem(toy_worlds.FAULTS, "at", 150)
    said = call("train", env, *options(), "--json")
    assert (said.status, said.out) == (1, "")
    id_ = course(env).id
    assert said.err.splitlines()[-1] == (
        "narl: Broken-v0 (seed 0, training): step 150: OSError: the simulator; the checkpoint of "
        f"step 100 is kept in {Path('runs') / id_}.part, `narl resume {id_}` tries again from "
        "there (--debug shows where)"
    )
    assert (tmp_path / "runs" / f"{id_}.part" / "checkpoints" / "step-000000100").is_dir()
    monkeypatch.setitem(toy_worlds.FAULTS, "at", 10**9)
    assert json.loads(call("resume", id_, "--json").out)["resumed_from"] == 100
    monkeypatch.setitem(toy_worlds.FAULTS, "at", 20)
    said = call("train", env, *options(), "--seeds=1")
    assert said.status == 1
    assert "; there was no checkpoint yet (--debug" in said.err


@pytest.mark.slow
@pytest.mark.usefixtures("cache")
def test_where_episodes_are_repeated_it_is_said(call):  # noqa: F811
    said = call("train", "toy_worlds:Closed-v0", *options(), "--json")
    assert said.status == 0
    assert said.err.splitlines()[0] == (
        "Closed-v0: its attribute 'handle' is a toy_worlds.Handle; "
        "when it is resumed, the episode is repeated up to there"
    )


@pytest.mark.slow
@pytest.mark.usefixtures("cache")
def test_two_processes_do_not_train_the_same(call, tmp_path):  # noqa: F811
    with lock_folder(tmp_path / "runs" / f"{course().id}.part"):
        said = call("train", ENV, *options())
    assert said.status == 2
    assert f"narl: run folder: process {os.getpid()} is writing to" in said.err
    assert said.err.count("\n") == 1


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("RESOURCE_EXHAUSTED: 7 GB")])
def test_without_memory_it_says_what_needs_less(call, monkeypatch, error):  # noqa: F811
    def train_nothing(*given, **how):
        raise error

    monkeypatch.setattr("narl.deep.training_run.train", train_nothing)
    said = call("train", ENV, *options())
    assert said.status == 1
    assert said.err == (
        "narl: out of memory; take fewer seeds, a smaller --rollout-batch, --retain-epochs, "
        "--buffer or --batch (--debug shows where)\n"
    )


def test_what_does_not_fit_is_refused_before_anything_is_written(
    call,  # noqa: F811
    monkeypatch,
    tmp_path,
):
    monkeypatch.setattr("narl.deep.memory.available_memory", lambda: 10**9)
    said = call("train", "Humanoid-v5", "--seeds", "0:3")
    assert said.status == 2
    assert said.err.startswith("narl: memory: 3 seeds need 3")
    assert said.err.endswith(
        " GB and 1.0 GB are available; take fewer seeds, or a smaller rollout-batch, "
        "retain-epochs, buffer or batch\n"
    )
    assert list(tmp_path.iterdir()) == []


# --- wrong input: one line, exit 2, nothing written, nothing compiled -------------------------

WRONG = {
    "": "ENV: missing; it is like `narl train InvertedPendulum-v5",
    "Hopper-v5 more": "more: one argument too many",
    "Hoper-v5": "env: unknown environment 'Hoper-v5'; did you mean 'Hopper-v5'?",
    "nowhere:Hopper-v5": "env: cannot import 'nowhere'",
    "CartPole-v1": "env: CartPole-v1 has Discrete(2) actions; narl trains on Box",
    "Hopper-v5 --algo narll": "--algo: unknown value 'narll'; did you mean 'narl'?",
    "Hopper-v5 --member 3": "--member: unknown option; did you mean --members?",
    "Hopper-v5 --members 0": "--members: 0 is too small; the nearest valid value is 1",
    "Hopper-v5 --members two": "--members: 'two' is wrong; it must be a whole number",
    "Hopper-v5 --radius -0.1": "--radius: -0.1 is out of range; the nearest valid value is 0",
    "Hopper-v5 --radius far": "--radius: 'far' is wrong; it must be a number, or none",
    "Hopper-v5 --radius nan": "--radius: nan is out of range",
    "Hopper-v5 --steps 0": "--steps: 0 is too small; the nearest valid value is 1",
    "Hopper-v5 --steps 1e6": "--steps: '1e6' is wrong; it must be a whole number",
    "Hopper-v5 --steps 99999999999": "--steps: 99999999999 is too large; the nearest valid value",
    "Hopper-v5 --steps 100": "--steps: 100 is too small; 5000 random steps come first, so at least",
    "Pendulum-v1 --steps 1000": "--steps: 1000 is too small; 1000 random steps come first, so at "
    "least 1001, or give a smaller initial-steps",
    "Pendulum-v1 --initial-steps 10000": "--initial-steps: 10000 is too large; the nearest valid "
    "value is 9999, for there are 10000 steps in all",
    "Hopper-v5 --total-timesteps 9000": "--total-timesteps: unknown option; the steps are given "
    "with --steps",
    "Hopper-v5 --total_timesteps=9000": "--total-timesteps: unknown option; the steps are given",
    "Hopper-v5 --video x.mp4": "--video: unknown option; train first; `narl eval RUN --video F.mp4`"
    " then makes one",
    "Hopper-v5 --learn-after 7": "--learn-after: 7 is too small; the nearest valid value is 5000",
    "Hopper-v5 --seeds 5:1": "--seeds: '5:1' is empty",
    "Hopper-v5 --hidden 256,": "--hidden: '256,' is wrong; it must be whole numbers with commas",
    "Hopper-v5 --hidden 0": "--hidden: (0,) is wrong; it must be widths >= 1",
    "Hopper-v5 --rollout-schedule 1,2,3": "--rollout-schedule: (1, 2, 3) is wrong; it must be e0",
    "Hopper-v5 --discount 1.5": "--discount: 1.5 is out of range; the nearest valid value is 1",
    "Hopper-v5 --fallback nearest": "--fallback: unknown value 'nearest'; did you mean",
    "Hopper-v5 --termination no": "--termination: unknown value 'no'; did you mean",
    "Hopper-v5 --joint=yes": "--joint: takes no value",
    "Hopper-v5 --algo mbpo --elites 8": "--elites: 8 is too large; the nearest valid value is 7",
    "Hopper-v5 --elites 2": "--elites: narl has no such setting, only mbpo; leave it out",
    "Hopper-v5 --algo mbpo --radius 1": "--radius: mbpo has no such setting, only narl",
    "Hopper-v5 --algo sac --members 3": "--members: sac has no such setting, only narl and mbpo",
    "Hopper-v5 --checkpoint-every 0": "--checkpoint-every: 0 is too small; the nearest valid",
    "Walker2d-v5 --until-solved": "--until-solved: Walker2d-v5 has no return that counts as solved",
    "Pendulum-v1 --termination known": "--termination: none is known for Pendulum-v1",
    "Hopper-v5 --runs file": "runs folder: file is not a folder",
    "Hopper-v5 --tensorboard logs": "--tensorboard: tensorboardX is not installed; pip install",
    "Hopper-v5 --wandb project": "--wandb: wandb is not installed; pip install 'narl[wandb]'",
}


@pytest.mark.parametrize("given", WRONG)
def test_wrong_input_is_one_line_and_nothing_is_written_or_compiled(
    call,  # noqa: F811
    tmp_path,
    monkeypatch,
    given,
):
    def never(*args, **how):
        raise AssertionError("something was compiled")

    monkeypatch.setattr("narl.deep.training_run.Training", never)
    for module in ("tensorboardX", "wandb"):
        monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / "file").write_text("not a folder")
    said = call("train", *given.split())
    assert said.status == 2
    assert said.out == ""
    assert said.err.startswith("narl: ")
    assert said.err.count("\n") == 1
    assert WRONG[given] in said.err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


# --- the options are the settings -------------------------------------------------------------


def documented() -> dict[str, str]:
    """The docstring under each option."""
    (body,) = [node.body for node in ast.parse(inspect.getsource(train.Train)).body]
    return {
        field.target.id: text.value.value
        for field, text in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr)
    }


def test_no_setting_is_forgotten_and_every_option_is_documented():
    mine = {field.name for field in dataclasses.fields(train.Train)}
    assert mine - train.OF_THE_RUN == set(FIELDS) - {"env", "algo"}
    assert train.Train.__dataclass_params__.frozen
    assert set(documented()) >= mine


@pytest.mark.parametrize("name", sorted(set(FIELDS) - {"env"}))
def test_an_option_names_its_choices_its_default_and_its_algorithms(name):
    hint = HINTS[name].__metadata__[0]
    kind = typing.get_type_hints(Settings)[name]
    if typing.get_origin(kind) is typing.Literal:
        assert tuple(hint.metavar.split("|")) == typing.get_args(kind)
    said = str(hint.help_behavior_hint or "").removeprefix("(default: ").removesuffix(")")
    if said and said.replace(".", "").replace(",", "").isdigit():
        default = FIELDS[name].default
        shown = ",".join(map(str, default)) if isinstance(default, tuple) else default
        assert said == str(shown) or float(said) == default
    if name != "algo":
        owners = owners_of(name)
        suffix = "" if len(owners) == 3 else f"[{', '.join(owners)}]"
        assert documented()[name].endswith(suffix)
        assert suffix or not documented()[name].endswith("]")


OTHERS = {
    "radius": ("none", None),
    "hidden": ("32,16", (32, 16)),
    "rollout_schedule": ("1,5,2,9", (1, 5, 2, 9)),
    "fallback": ("random", "random"),
    "draw": ("mean", "mean"),
    "termination": ("never", "never"),
    "obs_scaling": ("bounds", "bounds"),
    "learn_after": ("6000", 6000),
    "elites": ("2", 2),
    "joint": (None, True),
    "scale_targets": (None, True),
}
"""What is typed, and what it means, where it is not simply another number."""


@pytest.mark.parametrize("name", sorted(set(FIELDS) - {"env", "algo"}))
def test_every_option_reaches_the_settings(call, courses, name):  # noqa: F811
    algo = owners_of(name)[0]
    flag = f"--{name.replace('_', '-')}"
    default = getattr(make_settings("Hopper-v5", algo), name)
    if name in OTHERS:
        text, value = OTHERS[name]
    else:
        value = 0.25 if isinstance(FIELDS[name].default, float) else 6007
        value = 0.25 if name in ("target_entropy", "solved_return") else value
        text = str(value)
    given = [flag] if text is None else [f"{flag}={text}"]
    said = call("train", "Hopper-v5", "--algo", algo, *given, "--json")
    assert said.status == 0, said.err
    (asked,) = courses
    assert getattr(asked.settings, name) == value != default
    assert asked.settings == make_settings("Hopper-v5", algo, **{name: value})


def test_the_rest_of_the_arguments_reach_the_training(call, monkeypatch):  # noqa: F811
    asked = []

    def carry_out(course, wishes, on_resume):
        asked.append((course, wishes))
        return SimpleNamespace(config=course.config(), metrics={}, id=course.id, path=Path())

    monkeypatch.setattr(training, "carry_out", carry_out)
    given = ["--seeds=1,3", "--until-solved", "--no-joint", "--runs=kept", "--fresh", "--json"]
    given += ["--checkpoint-every=4", "--tensorboard=t", "--wandb=w"]
    assert call("train", "Hopper-v5", *given).status == 0
    ((item, wishes),) = asked
    assert item == Course(make_settings("Hopper-v5", "narl", joint=False), (1, 3), True)
    assert wishes == training.Wishes(
        runs=Path("kept"),
        checkpoint_every=4,
        fresh=True,
        tensorboard="t",
        wandb="w",
        json=True,
    )


# --- the bar ----------------------------------------------------------------------------------


def test_the_bar_in_a_terminal(monkeypatch):
    pty = pytest.importorskip("pty")
    leader, follower = pty.openpty()
    with os.fdopen(follower, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "120")
        with TrainingBar("narl Hopper-v5", 1000) as bar:
            bar._progress.refresh()
            bar.end_epoch({"step": 400, "eval_return": [10.0, 31.0]})
            bar._looks[0] = (time.monotonic() - 4.0, 0)
            bar.advance(400)
            bar._progress.refresh()
    shown = os.read(leader, 65536).decode()
    os.close(leader)
    for text in ("(compiling)", "narl Hopper-v5", "400/1000", "return 20.5", "steps/s, 6 s left"):
        assert text in shown


def test_the_bar_without_a_terminal_or_hidden(capsys):
    with TrainingBar("sac X", 100, first_step=20) as bar:
        bar._looks[0] = (time.monotonic() - 4.0, 20)
        bar.end_epoch({"step": 60, "eval_return": [-3.0]})
    assert capsys.readouterr().err == "sac X: step 60/100, return -3.0, 10 steps/s, 4 s left\n"
    with TrainingBar("sac X", 100, shown=False) as bar:
        bar.advance(10)
        bar.end_epoch({"step": 60, "eval_return": [-3.0]})
    assert capsys.readouterr().err == ""


def test_durations():
    shown = [duration(seconds) for seconds in (0.4, 59.4, 61, 3599, 3600, 18723)]
    assert shown == ["0 s", "59 s", "1 min 1 s", "59 min 59 s", "1 h 0 min", "5 h 12 min"]


# --- work that is asked to stop ---------------------------------------------------------------


@pytest.fixture
def interrupt():
    """Sends Ctrl-C to this process, a moment from now."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timers = []

    def soon(*delays):
        for delay in delays:
            timers.append(threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT)))
            timers[-1].start()

    yield soon
    for timer in timers:
        timer.join()
    signal.signal(signal.SIGINT, before)


def until_asked(should_stop):
    while not should_stop():
        time.sleep(0.01)
    return "left a checkpoint"


def test_work_is_asked_to_stop_and_given_time(interrupt):
    said = []
    interrupt(0.1)
    assert run_stoppable(until_asked, lambda: said.append("stopping")) == "left a checkpoint"
    assert said == ["stopping"]


def test_work_that_does_not_come_back_is_left(interrupt):
    release = threading.Event()
    interrupt(0.1)
    begin = time.monotonic()
    with pytest.raises(Interrupted):
        run_stoppable(lambda should_stop: release.wait(30), lambda: None, patience=0.2)
    assert time.monotonic() - begin < 10
    release.set()


def test_a_second_interrupt_does_not_wait(interrupt):
    release = threading.Event()
    interrupt(0.1, 0.4)
    begin = time.monotonic()
    with pytest.raises(Interrupted):
        run_stoppable(lambda should_stop: release.wait(30), lambda: None, patience=25)
    assert time.monotonic() - begin < 10
    release.set()


def test_what_work_gives_or_raises_comes_through():
    assert run_stoppable(lambda should_stop: 3, lambda: None) == 3
    with pytest.raises(ZeroDivisionError):
        run_stoppable(lambda should_stop: 1 // 0, lambda: None)


def test_an_interrupt_says_its_own_line(capsys, monkeypatch):
    def main(given):
        raise KeyboardInterrupt("stopped at step 3; `narl resume x` continues")

    fake = ModuleType("narl.commands.doctor")
    fake.main = main
    monkeypatch.setitem(sys.modules, "narl.commands.doctor", fake)
    assert cli.main(["doctor"]) == 3
    assert capsys.readouterr().err == "narl: stopped at step 3; `narl resume x` continues\n"
