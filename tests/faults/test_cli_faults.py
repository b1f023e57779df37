"""`narl` with signals, closed pipes, full disks and old terminals."""

import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from narl import cli

SOURCE = Path(__file__).resolve().parents[2] / "src"
NARL = [sys.executable, "-m", "narl"]
LINE = f"narl: {cli.INTERRUPTED_LINE}\n"

# A shell that runs the tests in the background ignores SIGINT, and so do its children.
WITH_SIGINT = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from narl.cli import main
sys.exit(main())
"""


@pytest.fixture
def environment(tmp_path) -> dict[str, str]:
    """The variables of a process with an empty cache."""
    others = {name: x for name, x in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    return {**others, "PYTHONPATH": str(SOURCE), "XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_a_tabular_run_at_once_and_leaves_nothing(tmp_path, environment, number):
    words = ["tabular", "narl-ucrl", "deep-sea", "--size", "20", "--json"]
    program = subprocess.Popen(
        [sys.executable, "-c", WITH_SIGINT, *words],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "cache").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(1.0)  # the program is compiling or runs its first episodes
    program.send_signal(number)
    out, err = program.communicate(timeout=30)
    assert (program.returncode, out, err) == (3, "", LINE)
    assert not (tmp_path / "runs").exists()


def test_interrupt_in_a_callback_of_the_garbage_collector_is_not_lost(monkeypatch, capsys):
    sent: list[bool] = []

    def callback(phase, info):
        if not sent:
            sent.append(True)
            os.kill(os.getpid(), signal.SIGTERM)
            for _ in range(1000):
                pass

    def main(words):
        gc.callbacks.append(callback)
        try:
            gc.collect()
            for _ in range(200):  # a signal just before a single long sleep would not end it
                time.sleep(0.1)
        finally:
            gc.callbacks.remove(callback)
        return 0

    command = ModuleType("narl.commands.doctor")
    command.main = main
    monkeypatch.setitem(sys.modules, command.__name__, command)
    before = signal.getsignal(signal.SIGTERM), sys.unraisablehook
    begin = time.monotonic()
    assert cli.main(["doctor"]) == 3
    assert time.monotonic() - begin < 10
    assert capsys.readouterr().err == LINE
    assert (signal.getsignal(signal.SIGTERM), sys.unraisablehook) == before


def test_closed_pipe_ends_a_command_without_an_error(environment):
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [*NARL, "--help"], env=environment, stdout=write, stderr=subprocess.PIPE
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_full_disk_under_stdout_is_one_line(environment):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*NARL, "--help"], env=environment, stdout=full, stderr=subprocess.PIPE
        )
        assert done.returncode == 1
        assert done.stderr == b"narl: No space left on device (--debug shows where)\n"
        done = subprocess.run([*NARL, "tabulr"], env=environment, stderr=full)
        assert done.returncode == 2


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_keep_the_exit_status(tmp_path, environment, closed):
    shell = ["sh", "-c", f'exec "$0" -m narl "$@" {closed}', sys.executable]
    for words, status in ((["runs"], 0), (["tabulr"], 2)):
        done = subprocess.run([*shell, *words], cwd=tmp_path, env=environment, capture_output=True)
        assert done.returncode == status
        assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("options", [[], ["--debug"]])
def test_warnings_of_libraries_are_shown_only_with_debug(tmp_path, environment, options):
    words = ["tabular", "psrl", "gym:Taxi-v3"]  # Gymnasium warns that it is old, then refuses it
    done = subprocess.run(
        [*NARL, *words, *options], cwd=tmp_path, env=environment, capture_output=True
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(b"narl: env: Gymnasium cannot make 'Taxi-v3'")
    assert (done.stderr.count(b"\n") == 1) is not bool(options)


def test_letters_that_a_terminal_lacks_are_replaced(environment):
    done = subprocess.run(
        [*NARL, "report", "--help"],
        env=environment | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    assert done.stdout.isascii()
    assert b"--results DIR" in done.stdout
    assert done.stderr == b""
