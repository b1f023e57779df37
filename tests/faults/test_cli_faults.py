"""The command line when the world is against it: signals, closed pipes, full disks, bad caches."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType

import pytest

from narl import cli, compilation
from narl.console import Bars, note, stdout
from narl.interrupts import Interrupted, run_interruptible, run_stoppable

SOURCE = Path(__file__).resolve().parent.parent.parent / "src"
NARL = [sys.executable, "-m", "narl"]
LINE = b"narl: interrupted; finished runs are kept, the same command continues from there\n"


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCE), "XDG_CACHE_HOME": str(home)}


# A shell that runs the tests in the background has SIGINT ignored, for its children too.
LISTENING = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from narl.cli import main
sys.exit(main())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_long_run_stops_at_once_and_leaves_nothing(tmp_path, number):
    command = [
        sys.executable,
        "-c",
        LISTENING,
        "tabular",
        "narl-ucrl",
        "deep-sea",
        "--size",
        "20",
        "--json",
    ]
    program = subprocess.Popen(
        command,
        cwd=tmp_path,
        env=environment(tmp_path / "cache"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "cache").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(1.0)  # somewhere in the compiler or in the first episodes
    program.send_signal(number)
    out, errors = program.communicate(timeout=30)
    assert (program.returncode, out, errors) == (3, b"", LINE)
    assert not (tmp_path / "runs").exists()


def test_an_interrupt_does_not_wait_for_the_work():
    release = threading.Event()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    begin = time.monotonic()
    try:
        with pytest.raises(Interrupted):
            run_interruptible(lambda: release.wait(20))
    finally:
        signal.signal(signal.SIGINT, before)
        release.set()
    assert time.monotonic() - begin < 10


@pytest.mark.parametrize(
    "waiting", [run_interruptible, lambda work: run_stoppable(lambda _: work(), str, patience=0.1)]
)
def test_a_signal_that_another_thread_takes_is_answered(waiting):
    release, sent = threading.Event(), time.monotonic()

    def work():
        # The system may hand a process's signal to any thread, and that wakes no other.
        time.sleep(0.1)
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        release.wait(20)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(5.0, release.set)  # only so that a failure ends soon
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            waiting(work)
    finally:
        answered = time.monotonic()
        signal.signal(signal.SIGINT, before)
        timer.cancel()
        release.set()
    assert answered - sent < 4


def test_work_gives_its_result_or_its_error():
    assert run_interruptible(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        run_interruptible(lambda: 1 // 0)


def test_an_interrupt_in_a_callback_of_the_garbage_collector_is_not_lost(monkeypatch, capsys):
    sent: list[bool] = []

    def callback(phase, info):
        if not sent:
            sent.append(True)
            os.kill(os.getpid(), signal.SIGTERM)
            for _ in range(1000):
                pass

    def command(given):
        gc.callbacks.append(callback)
        try:
            gc.collect()
            time.sleep(20)
        finally:
            gc.callbacks.remove(callback)
        return 0

    fake = ModuleType("narl.commands.doctor")
    fake.main = command
    monkeypatch.setitem(sys.modules, "narl.commands.doctor", fake)
    before = signal.getsignal(signal.SIGTERM), sys.unraisablehook
    begin = time.monotonic()
    assert cli.main(["doctor"]) == 3
    assert time.monotonic() - begin < 10
    assert capsys.readouterr().err.encode() == LINE
    assert (signal.getsignal(signal.SIGTERM), sys.unraisablehook) == before


def test_a_reader_that_has_seen_enough_ends_it_quietly(tmp_path):
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [*NARL, "--help"], env=environment(tmp_path), stdout=write, stderr=subprocess.PIPE
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_disk_under_stdout_is_one_line(tmp_path):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*NARL, "--help"], env=environment(tmp_path), stdout=full, stderr=subprocess.PIPE
        )
    assert done.returncode == 1
    assert done.stderr == b"narl: No space left on device (--debug shows where)\n"
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*NARL, "tabulr"], env=environment(tmp_path), stderr=full)
    assert done.returncode == 2


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_do_no_harm(tmp_path, closed):
    shell = f'exec "$0" -m narl "$@" {closed}'
    arguments = ["sh", "-c", shell, sys.executable]
    for given, status in ((["runs"], 0), (["tabulr"], 2)):
        done = subprocess.run(
            [*arguments, *given], cwd=tmp_path, env=environment(tmp_path), capture_output=True
        )
        assert done.returncode == status
        assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("debug", [False, True])
def test_warnings_of_libraries_are_for_debugging(tmp_path, debug):
    given = ["tabular", "psrl", "gym:Taxi-v3"]  # Gymnasium warns of its age, then refuses
    done = subprocess.run(
        [*NARL, *given, *(["--debug"] if debug else [])],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith(b"narl: env: Gymnasium cannot make 'Taxi-v3'")
    assert (done.stderr.count(b"\n") == 1) is not debug


def test_a_terminal_without_the_letters_shows_others(tmp_path):
    done = subprocess.run(
        [*NARL, "report", "--help"],
        env={**environment(tmp_path), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    assert done.stdout.isascii()
    assert b"--results DIR" in done.stdout
    assert done.stderr == b""


def test_notes_and_bars_go_on_when_nobody_reads_them(monkeypatch):
    class Closed:
        def write(self, text):
            raise BrokenPipeError

        def flush(self):
            raise BrokenPipeError

        def isatty(self):
            return False

    monkeypatch.setattr(sys, "stderr", Closed())
    note("nobody hears this")
    with Bars("fig1a", 1) as bars:
        bars.begin("cell", 10)
        bars.advance("cell", 5)
        bars.end("cell", found=False)
    assert bars._num_done == 1


def test_bars_in_a_terminal(monkeypatch):
    """They move with the episodes, on stderr, and are gone at the end."""
    pty = pytest.importorskip("pty")
    leader, follower = pty.openpty()
    with os.fdopen(follower, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        monkeypatch.setenv("TERM", "xterm")
        with Bars("fig1a", 2) as bars:
            bars.begin("cell", 10)
            bars.advance("cell", 5)
            bars._progress.refresh()
            bars.end("cell", found=False)
            bars._progress.refresh()
    shown = os.read(leader, 65536).decode()
    os.close(leader)
    assert "5/10" in shown
    assert "1/2" in shown


@pytest.mark.parametrize("no_color", [None, "1"])
def test_colours_are_for_terminals_and_not_with_no_color(monkeypatch, no_color):
    pty = pytest.importorskip("pty")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color:
        monkeypatch.setenv("NO_COLOR", no_color)
    leader, follower = pty.openpty()
    with os.fdopen(follower, "w") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        stdout().print("holds", style="green")
        terminal.flush()
        shown = os.read(leader, 100)
    os.close(leader)
    assert shown.strip() == (b"holds" if no_color else b"\x1b[32mholds\x1b[0m")


# --- the cache of compiled programs -----------------------------------------------------------

COMPILE = """
import jax, jax.numpy as jnp
from narl.compilation import enable_cache
print(enable_cache())
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
print(jax.jit(lambda x: jnp.sin(x) + 1)(0.0))
"""


def compile_once(home: Path, **more: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-W", "default", "-c", COMPILE],
        env={**environment(home), **more},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_compiled_programs_are_kept_and_a_damaged_one_is_compiled_again(tmp_path):
    folder, value = compile_once(tmp_path)
    assert Path(folder).parent == tmp_path / "narl" / "jax"
    assert value == "1.0"
    entries = list(Path(folder).glob("*-cache"))
    assert entries
    for entry in entries:
        entry.write_bytes(entry.read_bytes()[:20])
    assert compile_once(tmp_path) == [folder, "1.0"]


def test_the_users_own_cache_is_left_alone(tmp_path):
    own = str(tmp_path / "own")
    assert compile_once(tmp_path / "other", JAX_COMPILATION_CACHE_DIR=own)[0] == own
    assert not (tmp_path / "other").exists()


def test_without_a_place_the_cache_is_off(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert compilation.enable_cache() is None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert compilation.enable_cache() is None


def test_each_kind_of_processor_has_its_own_cache(monkeypatch):
    here = compilation.cache_folder()
    monkeypatch.setattr(Path, "read_text", lambda path, **how: "flags : sse2 avx512\n")
    assert compilation.cache_folder() != here
    assert compilation.cache_folder().parent == here.parent
