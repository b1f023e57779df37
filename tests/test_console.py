"""Progress bars, notes and colours on the console."""

import os
import select
import sys
from types import SimpleNamespace

import pytest

from narl.console import (
    Bars,
    TrainingBar,
    duration,
    episode_progress,
    make_table,
    note,
    shows_progress,
    stdout,
)
from narl.remaining_time import EVALUATION, MODELS, RANDOM, USUAL, StepSchedule


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


class Clock:
    """A clock that a test turns."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def advance(self, bar: TrainingBar, step: int, seconds: float) -> None:
        self.now += seconds
        bar.advance(step)


@pytest.fixture
def clock(monkeypatch):
    """A clock in place of the console's own."""
    clock = Clock()
    monkeypatch.setattr("narl.console.time", clock)
    return clock


SCHEDULE = StepSchedule(learn_after=20, epoch_length=50, first_fit=20, model_every=20)


def test_training_bar_in_a_terminal_shows_step_return_and_speed(terminal):
    read = terminal("stderr")
    with TrainingBar("narl Hopper-v5", 1000) as bar:
        bar.end_epoch({"step": 400, "eval_return": [10.0, 31.0]})
        bar._worked -= 4.0
        bar._updates[0] = (bar._worked, 0)
        bar.advance(400)
        bar._progress.refresh()
    shown = read()
    for text in ("narl Hopper-v5", "400/1000", "return 20.5", "100 steps/s", "6 s left"):
        assert text in shown


def test_training_bar_says_what_takes_long(clock, monkeypatch):
    bar = TrainingBar("narl X", 100, schedule=SCHEDULE)
    assert "starting" not in bar._line(80)
    clock.now += 1
    assert "starting" in bar._line(80)
    monkeypatch.setattr("narl.console.is_compiling", lambda: True)
    assert "compiling" in bar._line(80)
    clock.advance(bar, 39, 0.1)
    assert "compiling" not in bar._line(80)
    clock.now += 1
    assert "compiling" in bar._line(80)
    monkeypatch.setattr("narl.console.is_compiling", lambda: False)
    assert "training the models" in bar._line(80)
    clock.advance(bar, 49, 0.1)
    clock.now += 1
    assert "evaluating" in bar._line(80)
    clock.advance(bar, 51, 0.1)
    clock.now += 1
    assert bar._work() == ""


def test_training_bar_counts_fits_and_evaluations_in_the_time_left(clock):
    bar = TrainingBar("narl X", 100, schedule=SCHEDULE)
    seconds = {RANDOM: 0.01, USUAL: 0.1, EVALUATION: 3.0, MODELS: 5.0}
    for step in range(1, 51):
        clock.advance(bar, step, seconds[SCHEDULE.kind(step)])
        if step < 50:
            assert "left" not in bar._line(80)  # no evaluation was seen yet
    # Steps 51 to 100: fits at 60, 80 and 100; the evaluation at 100 falls on a fit.
    rest = 3 * 5.0 + 1 * 3.0 + 46 * 0.1
    assert f"{duration(rest)} left" in bar._line(80)
    clock.now += 10
    assert f"{duration(rest - 10)} left" in bar._line(80)


def test_training_bar_does_not_expect_to_wait_for_the_compiler_again(clock, monkeypatch):
    waited = [0.0]
    monkeypatch.setattr("narl.console.seconds_waited", lambda: waited[0])
    bar = TrainingBar("narl X", 100, schedule=StepSchedule(model_every=10, first_fit=10))
    for step in range(1, 11):
        waited[0] += 60.0 if step == 10 else 0.0
        clock.advance(bar, step, 65.0 if step == 10 else 0.1)
    assert f"{duration(9 * 5.0 + 81 * 0.1)} left" in bar._line(80)
    assert bar._speed() == f"{10 / (9 * 0.1 + 5.0):.2g} steps/s"  # of the same seconds


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 200])
def test_training_bar_fits_the_terminal(clock, width):
    bar = TrainingBar("narl InvertedDoublePendulum-v5", 1_500_000)
    clock.advance(bar, 1_000_000, 12_345.0)
    bar.end_epoch({"step": 1_000_000, "eval_return": [-8.68e14]})
    line = bar._line(width)
    assert len(line) <= width
    if width >= 40:
        assert "1000000/1500000" in line
        assert line.endswith("left")
    if width >= 80:
        assert "━" in line
        assert "return -8.7e14" in line
    assert ("InvertedDoublePendulum-v5" in line) is (width >= 100)


def test_training_bar_without_a_terminal_prints_a_line_per_epoch(capsys, clock):
    with TrainingBar("sac X", 100, first_step=20) as bar:
        clock.advance(bar, 60, 4.0)
        bar.end_epoch({"step": 60, "eval_return": [-3.0]})
    assert capsys.readouterr().err == "sac X: step 60/100, return -3.0, 10 steps/s, 4 s left\n"
    with TrainingBar("sac X", 100, shown=False) as bar:
        clock.advance(bar, 10, 1.0)
        bar.end_epoch({"step": 60, "eval_return": [-3.0]})
    assert capsys.readouterr().err == ""


class ZMQInteractiveShell:
    """Stands for the shell of a notebook."""


@pytest.fixture
def notebook(monkeypatch):
    """A notebook; return the texts that it shows, the last one of every display."""
    shown: list[str] = []

    class Handle:
        def update(self, bundle, raw):
            shown[-1] = bundle["text/plain"]

    def display(bundle, raw, display_id):
        shown.append(bundle["text/plain"])
        return Handle()

    ipython = SimpleNamespace(get_ipython=ZMQInteractiveShell)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=display))
    return shown


def test_training_bar_in_a_notebook_is_one_line_that_changes(notebook, clock, capsys):
    assert shows_progress(None)
    with TrainingBar("narl X", 100, schedule=SCHEDULE) as bar:
        for step in range(1, 40):
            clock.advance(bar, step, 0.1)
        assert "training the models" in notebook[0]
        bar.end_epoch({"step": 40, "eval_return": [2.0]})
        clock.advance(bar, 100, 9.0)
    assert len(notebook) == 1
    assert "100/100" in notebook[0]
    assert capsys.readouterr().err == ""


def test_progress_is_shown_by_default_in_a_terminal_and_not_when_piped(terminal, monkeypatch):
    assert not shows_progress(None)
    assert shows_progress(True)
    terminal("stderr")
    assert shows_progress(None)
    assert not shows_progress(False)


def test_episodes_are_told_to_a_function_a_bar_or_nobody(terminal, capsys, notebook):
    told: list[int] = []
    with episode_progress("psrl", 10, told.append) as progress:
        progress(5)
    assert told == [5]
    with episode_progress("psrl", 10, False) as progress:
        assert progress is None
    with episode_progress("psrl", 10, None) as progress:
        progress(5)
    assert notebook == ["psrl: 5/10 episodes"]
    read = terminal("stderr")
    with episode_progress("psrl", 10, None) as progress:
        progress(5)
    assert "5/10" in read()


def test_tables_are_padded_in_a_terminal_only(terminal, capsys):
    def print_table():
        table = make_table("name", "fact")
        table.add_row("a", "a long one")
        table.add_row("bbb", "")
        stdout().print(table)

    print_table()
    assert capsys.readouterr().out == "name  fact\na     a long one\nbbb\n"
    read = terminal("stdout")
    print_table()
    assert read().splitlines()[-1] == "bbb   " + " " * len("a long one")


def test_durations_have_two_units():
    texts = [duration(seconds) for seconds in (0.4, 59.4, 61, 3599, 3600, 18723)]
    assert texts == ["0 s", "59 s", "1 min 1 s", "59 min 59 s", "1 h 0 min", "5 h 12 min"]
