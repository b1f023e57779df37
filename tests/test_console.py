"""Progress bars, notes and colours on the console."""

import os
import select
import sys
import time

import pytest

from narl.console import Bars, TrainingBar, duration, note, stdout


@pytest.fixture
def terminal(monkeypatch):
    """Replace a stream by a terminal; the returned function reads what the terminal shows."""
    pty = pytest.importorskip("pty")
    leader, follower = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with os.fdopen(follower, "w") as stream:

        def read() -> str:
            stream.flush()
            shown = b""
            while select.select([leader], [], [], 0.1)[0]:
                shown += os.read(leader, 65536)
            return shown.decode()

        def replace(name: str):
            monkeypatch.setattr(sys, name, stream)
            return read

        yield replace
        monkeypatch.undo()
    os.close(leader)


def test_bars_in_a_terminal_follow_the_episodes(terminal):
    read = terminal("stderr")
    with Bars("fig1a", 2) as bars:
        bars.begin("cell", 10)
        bars.advance("cell", 5)
        bars._progress.refresh()
        bars.end("cell", found=False)
        bars._progress.refresh()
    shown = read()
    assert "5/10" in shown
    assert "1/2" in shown


def test_closed_stderr_does_not_stop_the_work(monkeypatch):
    class Closed:
        def write(self, text):
            raise BrokenPipeError

        flush = write

        def isatty(self):
            return False

    monkeypatch.setattr(sys, "stderr", Closed())
    note("a line")
    with Bars("fig1a", 1) as bars:
        bars.begin("cell", 10)
        bars.advance("cell", 5)
        bars.end("cell", found=False)
    assert bars._num_done == 1


@pytest.mark.parametrize("no_color", ["", "1"])
def test_colours_are_for_terminals_without_no_color(terminal, monkeypatch, no_color):
    monkeypatch.setenv("NO_COLOR", no_color)
    read = terminal("stdout")
    stdout().print("holds", style="green")
    assert read().strip() == ("holds" if no_color else "\x1b[32mholds\x1b[0m")


def test_training_bar_in_a_terminal_shows_step_return_and_speed(terminal):
    read = terminal("stderr")
    with TrainingBar("narl Hopper-v5", 1000) as bar:
        bar._progress.refresh()
        bar.end_epoch({"step": 400, "eval_return": [10.0, 31.0]})
        bar._updates[0] = (time.monotonic() - 4.0, 0)
        bar.advance(400)
        bar._progress.refresh()
    shown = read()
    for text in ("(compiling)", "narl Hopper-v5", "400/1000", "return 20.5", "steps/s, 6 s left"):
        assert text in shown


def test_training_bar_without_a_terminal_prints_a_line_per_epoch(capsys):
    with TrainingBar("sac X", 100, first_step=20) as bar:
        bar._updates[0] = (time.monotonic() - 4.0, 20)
        bar.end_epoch({"step": 60, "eval_return": [-3.0]})
    assert capsys.readouterr().err == "sac X: step 60/100, return -3.0, 10 steps/s, 4 s left\n"
    with TrainingBar("sac X", 100, shown=False) as bar:
        bar.advance(10)
        bar.end_epoch({"step": 60, "eval_return": [-3.0]})
    assert capsys.readouterr().err == ""


def test_durations_have_two_units():
    texts = [duration(seconds) for seconds in (0.4, 59.4, 61, 3599, 3600, 18723)]
    assert texts == ["0 s", "59 s", "1 min 1 s", "59 min 59 s", "1 h 0 min", "5 h 12 min"]
