"""Stopping `narl train` in every way, and `narl resume`: nothing is lost, not a bit differs."""

import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import narl
from narl import storage
from narl.deep.training_run import Stopped, train
from narl.storage import checkpoints as checkpoint
from narl.storage.unfinished import list_unfinished_runs
from short_courses import (  # noqa: F401
    assert_same_outcome,
    cache,
    call,
    checkpoints,
    course,
    options,
    programs,
    spoil,
)

pytestmark = pytest.mark.slow

TESTS = Path(__file__).resolve().parent
ENV = "toy_worlds:Toy-v0"
ENVS = ["InvertedPendulum-v5", pytest.param("Hopper-v5", id="Hopper-v5")]
STEPS = 1500


class Process:
    """`narl` in a process of its own; its stderr is read as it comes."""

    def __init__(self, folder: Path, compiled: Path, *given: str) -> None:
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)]),
            "JAX_COMPILATION_CACHE_DIR": str(compiled),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        }
        environment.pop("NARL_RUNS", None)
        self.popen = subprocess.Popen(
            [sys.executable, "-c", LISTENING, *given],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._queue: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.popen.stderr is not None
        with self.popen.stderr as stream:
            for line in stream:
                self._queue.put(line.rstrip("\n"))
        self._queue.put(None)

    def wait_for(self, text: str) -> None:
        """Until a line holds the text."""
        deadline = time.monotonic() + 300
        while True:
            line = self._queue.get(timeout=max(deadline - time.monotonic(), 0.1))
            assert line is not None, f"it ended: {self.lines}"
            self.lines.append(line)
            if text in line:
                return

    def end(self) -> tuple[int, str, list[str]]:
        """Exit status, stdout and all lines of stderr."""
        assert self.popen.stdout is not None
        out = self.popen.stdout.read()
        status = self.popen.wait(timeout=300)
        while (line := self._queue.get(timeout=60)) is not None:
            self.lines.append(line)
        self.popen.stdout.close()
        return status, out, self.lines


# A shell that runs the tests in the background has SIGINT ignored, for its children too.
LISTENING = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from narl.cli import main
sys.exit(main())
"""


def typed(env: str) -> list[str]:
    return ["train", env, *options("narl", steps=STEPS), "--seeds=0:2", "--json"]


def the_course(env: str):
    return course(env, seeds=(0, 1), algo="narl", steps=STEPS)


@pytest.fixture(scope="module")
def wholes(tmp_path_factory, programs) -> dict[str, storage.Run]:  # noqa: F811
    """Trainings that nobody interrupted, each made when it is first asked for."""
    made: dict[str, storage.Run] = {}

    class Made(dict):
        def __missing__(self, env: str) -> storage.Run:
            folder = tmp_path_factory.mktemp("whole")
            status, out, lines = Process(folder, programs, *typed(env)).end()
            assert status == 0, lines
            self[env] = storage.load_run(folder / "runs", json.loads(out)["run"])
            return self[env]

    return Made(made)


def resume(folder: Path, compiled: Path, id_: str) -> tuple[storage.Run, list[str]]:
    status, out, lines = Process(folder, compiled, "resume", id_, "--json").end()
    assert status == 0, lines
    return storage.load_run(folder / "runs", json.loads(out)["run"]), lines


@pytest.mark.parametrize("env", ENVS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_in_mid_epoch_leaves_a_checkpoint(wholes, tmp_path, programs, env, number):  # noqa: F811
    whole = wholes[env]
    process = Process(tmp_path, programs, *typed(env))
    process.wait_for("step 300/")
    begin = time.monotonic()
    process.popen.send_signal(number)
    status, out, lines = process.end()
    assert time.monotonic() - begin < 10
    assert (status, out) == (3, "")
    assert lines[-2] == "stopping: a checkpoint is written …"
    pattern = rf"narl: stopped at step (\d+); `narl resume {whole.id}` continues"
    step = int(re.fullmatch(pattern, lines[-1])[1])
    assert 300 <= step < STEPS
    assert checkpoints(tmp_path / "runs", the_course(env))[-1].name == f"step-{step:09d}"
    run, said = resume(tmp_path, programs, whole.id)
    assert said[0] == f"continues from step {step}"
    assert_same_outcome(run, whole)
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [whole.id]


@pytest.mark.parametrize("env", ENVS)
def test_killed_it_loses_at_most_one_epoch(wholes, tmp_path, programs, env):  # noqa: F811
    whole = wholes[env]
    process = Process(tmp_path, programs, *typed(env))
    process.wait_for("step 500/")
    process.popen.kill()
    status, _, lines = process.end()
    assert status == -signal.SIGKILL
    last = int(re.search(r"step (\d+)/", lines[-1])[1])
    run, said = resume(tmp_path, programs, whole.id)
    # A line is printed when the epoch's checkpoint is there; one more may follow unseen.
    assert int(said[0].removeprefix("continues from step ")) >= last
    assert_same_outcome(run, whole)


def test_of_a_damaged_checkpoint_it_warns_and_takes_the_one_before(wholes, tmp_path, programs):  # noqa: F811
    env = "InvertedPendulum-v5"
    whole = wholes[env]
    process = Process(tmp_path, programs, *typed(env))
    process.wait_for("step 400/")
    process.popen.kill()
    process.end()
    before, newest = checkpoints(tmp_path / "runs", the_course(env))[-2:]
    spoil(newest)
    run, said = resume(tmp_path, programs, whole.id)
    assert said[0] == (
        f"checkpoint {newest.name} is damaged and not used: arrays.npz differs from its checksum"
    )
    assert said[1] == f"continues from step {int(before.name[5:])}"
    assert_same_outcome(run, whole)


def test_a_second_process_is_refused_while_the_first_goes_on(tmp_path, programs):  # noqa: F811
    given = ["train", ENV, *options(steps=100_000), "--json"]
    first = Process(tmp_path, programs, *given)
    first.wait_for("step 100/")
    for command in (given, ["resume", "train-sac", "--json"]):
        status, out, lines = Process(tmp_path, programs, *command).end()
        assert (status, out) == (2, "")
        assert lines == [
            f"narl: run folder: process {first.popen.pid} is writing to "
            f"{Path('runs') / course(steps=100_000).id}.part; wait until it ends, or stop it"
        ]
    first.popen.send_signal(signal.SIGTERM)
    assert first.end()[0] == 3


def test_a_signal_while_it_compiles_is_answered_in_time(tmp_path):
    """Networks that take long to compile, and no programs from before."""
    process = Process(tmp_path, tmp_path / "compiled", "train", "Hopper-v5", "--json")
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("runs/*.part/training.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1.0)
    begin = time.monotonic()
    process.popen.send_signal(signal.SIGTERM)
    status, out, lines = process.end()
    assert time.monotonic() - begin < 10
    assert (status, out) == (3, "")
    assert "narl resume train-narl-hopper-v5-" in lines[-1]
    (left,) = list_unfinished_runs(tmp_path / "runs")
    assert left.problems == ()


def test_a_second_signal_ends_it_at_once(tmp_path):
    process = Process(tmp_path, tmp_path / "compiled", "train", "Hopper-v5", "--json")
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("runs/*.part/training.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.popen.send_signal(signal.SIGINT)
    process.wait_for("stopping")
    begin = time.monotonic()
    process.popen.send_signal(signal.SIGINT)
    assert process.end()[0] == 3
    assert time.monotonic() - begin < 5


def test_an_environment_that_raises_in_another_process(tmp_path, programs):  # noqa: F811
    given = ["train", "toy_worlds:Always-v0", *options(), "--json"]
    status, out, lines = Process(tmp_path, programs, *given).end()
    assert (status, out) == (1, "")
    assert lines[-1].startswith(
        "narl: Always-v0 (seed 0, training): step 150: OSError: the simulator; the checkpoint"
    )
    (left,) = list_unfinished_runs(tmp_path / "runs")
    assert left.step == 100


# --- in this process --------------------------------------------------------------------------


@pytest.fixture
def unfinished(tmp_path, cache):  # noqa: F811
    """A training that was stopped after its first epoch."""
    with pytest.raises(Stopped):
        train(course(), tmp_path / "runs", on_epoch=lambda row: False, checkpoint_every=7)
    (left,) = list_unfinished_runs(tmp_path / "runs")
    return left


@pytest.mark.parametrize("name", ["id", "beginning", "name", "folder"])
def test_it_is_found_by_its_id_the_beginning_of_it_or_its_folder(call, unfinished, name):  # noqa: F811
    given = {
        "id": unfinished.id,
        "beginning": "train-sac",
        "name": unfinished.path.name,
        "folder": str(unfinished.path),
    }[name]
    said = call("resume", given, "--json")
    assert said.status == 0
    assert said.err.splitlines()[0] == "continues from step 100"
    result = json.loads(said.out)
    assert (result["resumed_from"], result["run"]) == (100, unfinished.id)
    assert not unfinished.path.exists()
    again = call("resume", unfinished.id, "--json")
    assert again.status == 0
    assert again.err == f"{unfinished.id} is finished; there is nothing to continue\n"
    assert json.loads(again.out) == {**result, "found": True, "resumed_from": None}
    lines = call("resume", unfinished.id).out.splitlines()
    assert "found, not trained again (`narl train … --fresh` trains it again)" in lines


def test_it_goes_on_with_the_checkpoints_it_was_begun_with(call, unfinished, monkeypatch):  # noqa: F811
    asked = []

    def follow(item, wishes):
        asked.append((item, wishes.checkpoint_every, wishes.unfinished, wishes.root))
        return 0

    monkeypatch.setattr("narl.commands.training.follow", follow)
    assert call("resume", unfinished.id).status == 0
    assert asked == [(course(), 7, True, Path("runs"))]


def test_a_folder_elsewhere_is_continued_there(call, unfinished, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setenv("NARL_RUNS", str(tmp_path / "others"))
    result = json.loads(call("resume", str(unfinished.path), "--json").out)
    assert Path(result["path"]) == tmp_path.resolve() / "runs" / unfinished.id
    assert not (tmp_path / "others").exists()


def test_what_cannot_be_resumed_is_one_line(call, unfinished, tmp_path):  # noqa: F811
    kept = storage.save_run(tmp_path / "runs", {"experiment": "tabular", "agent": "psrl"}, {}, {})
    wrong = {
        "": "RUN: missing; it is like `narl resume",
        "nothing": "run: unknown value 'nothing'; did you mean",
        kept.id: f"run: {kept.id} is no training; `narl train` makes one",
    }
    for given, line in wrong.items():
        said = call("resume", *given.split())
        assert (said.status, said.out) == (2, "")
        assert said.err.count("\n") == 1
        assert line in said.err
    file = unfinished.path / "training.json"
    content = json.loads(file.read_text())
    file.write_text(json.dumps(content | {"narl": "0.0.9"}))
    said = call("resume", unfinished.id)
    assert said.status == 2
    assert f"narl 0.0.9 began it and this is {narl.__version__}; train it anew" in said.err


def test_without_an_intact_checkpoint_it_says_what_to_do(call, unfinished):  # noqa: F811
    for path in (unfinished.path / "checkpoints").iterdir():
        spoil(path)
    said = call("resume", unfinished.id)
    assert (said.status, said.out) == (2, "")
    assert said.err == (
        f"narl: run {unfinished.id}: no checkpoint is intact; step-000000100: arrays.npz differs "
        "from its checksum; train it anew (the `narl train` that began it, with --fresh), or "
        f"remove it (`narl runs remove {unfinished.path.name}`)\n"
    )
    said = call("train", ENV, *options())
    assert said.status == 2
    assert said.err.endswith("; begin anew with --fresh\n")
    assert call("train", ENV, *options(), "--fresh").status == 0


@pytest.mark.parametrize("learned", [False, True])
def test_a_saved_agent_is_no_run_to_continue(call, tmp_path, learned, cache):  # noqa: F811
    agent = narl.SAC(ENV, hidden=(8,), batch=8, initial_steps=10)
    if learned:
        agent.learn(20)
    agent.save(tmp_path / "saved", data=learned)
    for command in (["resume"], ["runs", "show"]):
        said = call(*command, "saved")
        assert (said.status, said.out) == (2, "")
        assert said.err.startswith("narl: run: saved does not have the name of a run (train-sac-")
        assert "`narl eval`" in said.err
    assert call("eval", "saved", "--episodes", "1").status == 0


def test_a_damaged_journal_is_one_line_of_warning(call, unfinished):  # noqa: F811
    (unfinished.path / "progress.jsonl").unlink()
    said = call("resume", unfinished.id, "--json")
    assert said.status == 0
    assert said.err.splitlines()[:2] == [
        "progress.jsonl is damaged or was changed; it is restored from checkpoint step-000000100",
        "continues from step 100",
    ]
    run = storage.load_run(unfinished.path.parent, unfinished.id)
    rows = [json.loads(line) for line in run.extra("progress.jsonl").splitlines()]
    assert [row["step"] for row in rows] == [100, 200, 300]


def full(path, *given):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize(
    ("what", "step"),
    [("checkpoint step-000000200", 100), (f"run {course().id}", 200)],
    ids=["checkpoint", "run"],
)
def test_on_a_full_disk_it_says_what_is_left(call, cache, monkeypatch, what, step):  # noqa: F811
    write = checkpoint._write_npz

    def full_at_200(path, arrays):
        return full(path) if "000000200" in str(path) else write(path, arrays)

    if what.startswith("run"):
        monkeypatch.setattr(store, "write_bytes", full)
    else:
        monkeypatch.setattr(checkpoint, "_write_npz", full_at_200)
    said = call("train", ENV, *options())
    assert (said.status, said.out) == (1, "")
    assert said.err.splitlines()[-1] == (
        f"narl: {what} was not saved: No space left on device; the checkpoint of step {step} is "
        f"kept in {Path('runs') / course().id}.part, `narl resume {course().id}` tries again from "
        "there (--debug shows where)"
    )
    (left,) = list_unfinished_runs(Path("runs"))
    assert (left.step, left.problems) == (step, ())
