"""Programs that storage tests start, kill and wait for."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
KILL_AT = """
import os, pathlib, signal, sys
import numpy as np
from narl import storage

def kill_at(owner, name, count):
    original = getattr(owner, name)
    calls = []
    def deadly(*arguments, **options):
        calls.append(name)
        if len(calls) == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*arguments, **options)
    setattr(owner, name, deadly)
"""


@pytest.fixture
def start_program() -> Callable[..., subprocess.Popen]:
    """Start a Python program with arguments."""

    def start(code: str, *arguments: object) -> subprocess.Popen:
        return subprocess.Popen(
            [sys.executable, "-c", code, *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    return start


@pytest.fixture
def run_killed(start_program) -> Callable[..., None]:
    """Run a program that kills itself at the n-th call of a function (`kill_at`)."""

    def run(code: str, *arguments: object) -> None:
        program = start_program(KILL_AT + code, *arguments)
        _, errors = program.communicate(timeout=60)
        assert program.returncode == -signal.SIGKILL, errors

    return run


@pytest.fixture
def fail_fsync(monkeypatch) -> Callable[..., None]:
    """Make the n-th flush to disk raise an error, by default that the disk is full."""

    def fail(count: int = 1, error: BaseException | None = None) -> None:
        fsync, calls = os.fsync, []

        def failing(descriptor: int) -> None:
            calls.append(descriptor)
            if len(calls) == count:
                raise error or OSError(28, "No space left on device")
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", failing)

    return fail
