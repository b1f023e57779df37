"""Signals to `narl train` in a process of its own: nothing is lost and not a bit differs."""

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

from narl import storage
from short_trainings import (
    assert_same_outcome,
    checkpoints_of,
    flip_bit,
    short_arguments,
    short_config,
)

pytestmark = pytest.mark.slow

TESTS = Path(__file__).resolve().parents[1]
ENV, STEPS = "InvertedPendulum-v5", 900
ARGUMENTS = ["train", ENV, *short_arguments("narl", steps=STEPS), "--seeds=0:2", "--json"]

# A shell that runs the tests in the background ignores SIGINT, and so do its children.
WITH_SIGINT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from narl.cli import main
sys.exit(main())
"""


class Process:
    """`narl` in a process of its own; its stderr is read as it comes."""

    def __init__(self, folder: Path, programs: Path, *arguments: str) -> None:
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(TESTS.parent / "src"), str(TESTS)]),
            "JAX_COMPILATION_CACHE_DIR": str(programs),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        }
        environment.pop("NARL_RUNS", None)
        self.popen = subprocess.Popen(
            [sys.executable, "-c", WITH_SIGINT, *arguments],
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
        with self.popen.stderr as stream:
            for line in stream:
                self._queue.put(line.rstrip("\n"))
        self._queue.put(None)

    def wait_for(self, pattern: str) -> int:
        """Wait for a line that matches; return the number in it, if the pattern has a group."""
        deadline = time.monotonic() + 300
        while True:
            line = self._queue.get(timeout=max(deadline - time.monotonic(), 0.1))
            assert line is not None, f"the process ended: {self.lines}"
            self.lines.append(line)
            if match := re.search(pattern, line):
                return int(match[1]) if match.groups() else 0

    def wait_for_step(self, step: int) -> int:
        """Wait for the line of an epoch that ends at this step or later; return its step."""
        while (reached := self.wait_for(rf"step (\d+)/{STEPS}")) < step:
            pass
        return reached

    def end(self) -> tuple[int, str, list[str]]:
        """Return the exit status, stdout and all lines of stderr."""
        out = self.popen.stdout.read()
        status = self.popen.wait(timeout=300)
        while (line := self._queue.get(timeout=60)) is not None:
            self.lines.append(line)
        self.popen.stdout.close()
        return status, out, self.lines


def load_result(folder: Path, process: Process) -> storage.Run:
    """Return the run that a process has printed."""
    status, out, lines = process.end()
    assert status == 0, lines
    return storage.load_run(folder / "runs", json.loads(out)["run"])


def test_interrupted_training_has_the_bits_of_an_uninterrupted_one(tmp_path, programs):
    """Stop a training with each signal, kill it and damage a checkpoint; continue each time."""
    whole, folder = tmp_path / "whole", tmp_path / "interrupted"
    whole.mkdir()
    folder.mkdir()
    expected = load_result(whole, Process(whole, programs, *ARGUMENTS))
    config = short_config(ENV, "narl", steps=STEPS, seeds=(0, 1))
    assert expected.id == config.run_id

    process = Process(folder, programs, *ARGUMENTS)
    for number, step in ((signal.SIGINT, 200), (signal.SIGTERM, 400)):
        process.wait_for_step(step)
        begin = time.monotonic()
        process.popen.send_signal(number)
        status, out, lines = process.end()
        assert time.monotonic() - begin < 10
        assert (status, out) == (3, "")
        assert lines[-2] == "stopping: a checkpoint is written …"
        stopped = re.fullmatch(
            rf"narl: stopped at step (\d+); `narl resume {config.run_id}` continues", lines[-1]
        )
        assert step <= int(stopped[1]) < STEPS
        assert checkpoints_of(folder / "runs", config)[-1].name == f"step-{int(stopped[1]):09d}"
        process = Process(folder, programs, "resume", config.run_id, "--json")
        assert process.wait_for(r"^continues from step (\d+)$") == int(stopped[1])

    printed_step = process.wait_for_step(600)
    process.popen.kill()
    assert process.end()[0] == -signal.SIGKILL
    before, newest = checkpoints_of(folder / "runs", config)[-2:]
    # A line is printed when the checkpoint of its epoch is on disk.
    assert int(newest.name[5:]) >= printed_step
    flip_bit(newest)
    process = Process(folder, programs, "resume", config.run_id, "--json")
    process.wait_for(f"checkpoint {newest.name} is damaged and not used: arrays.npz differs")
    assert process.wait_for(r"^continues from step (\d+)$") == int(before.name[5:])

    assert_same_outcome(load_result(folder, process), expected)
    assert [path.name for path in (folder / "runs").iterdir()] == [config.run_id]


def test_signals_during_compilation_are_answered_in_time(tmp_path):
    """Networks take long to compile, and the cache of programs is empty."""
    process = Process(tmp_path, tmp_path / "programs", "train", "Hopper-v5", "--json")
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("runs/*.part/training.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1.0)
    process.popen.send_signal(signal.SIGTERM)
    process.wait_for("stopping")
    begin = time.monotonic()
    process.popen.send_signal(signal.SIGINT)
    status, out, lines = process.end()
    assert time.monotonic() - begin < 5
    assert (status, out) == (3, "")
    assert "narl resume train-narl-hopper-v5-" in lines[-1]
    (unfinished,) = storage.list_unfinished_runs(tmp_path / "runs")
    assert unfinished.problems == ()
