"""Output for people: results on stdout, notes and progress bars on stderr.

Call `stdout().print` or `print_json` for a result, `note` for a remark, `Bars` or `TrainingBar` for
progress. The text of numbers and objects comes from `narl.display`.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import logging
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Column, Table
from rich.text import Text

from narl.compilation import is_compiling, seconds_waited
from narl.display import mean_figure
from narl.remaining_time import EVALUATION, MODELS, StepSchedule, StepTimes

UPDATE_SECONDS = 0.1
"""Seconds between two updates of a bar."""
SPEED_WINDOW = 300
"""Updates over which the speed is averaged."""
STALL_SECONDS = 0.7
"""Seconds without a step after which the bar says what is being done."""
MIN_BAR = 10
"""Columns of a bar at least, where there are figures that can be left out."""
NOTEBOOK_WIDTH, NOTEBOOK_SECONDS = 90, 0.5
"""Columns of the line in a notebook, and seconds between two updates of it."""
PIPE_WIDTH = 500
"""Columns without a terminal: a row of a table stays one line, for grep."""
_PADDING = re.compile(r" +(?=\n)")


def stdout() -> Console:
    """Return the console of results: colours only in a terminal, and none with NO_COLOR."""
    return console_of(sys.stdout)


def console_of(stream: Any) -> Console:
    """Return a console that writes to a stream."""
    width = None
    if not stream.isatty():
        stream, width = Unpadded(stream), PIPE_WIDTH
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)


class Unpadded:
    """A stream without the spaces with which tables fill up their lines."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write whole lines, each without the spaces at its end."""
        self._stream.write(_PADDING.sub("", text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def print_json(result: dict[str, Any]) -> None:
    """Print the one JSON object of a command, on one line."""
    print(json.dumps(result, allow_nan=False))


def note(line: str) -> None:
    """Print a line on stderr; a closed stream does not stop the work."""
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Show the warnings of the library on stderr, one line each."""

    class Notes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            note(record.getMessage())

    log, handler = logging.getLogger("narl"), Notes(logging.WARNING)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


def make_table(*columns: str, numbers: Collection[str] = ()) -> Table:
    """Return an empty table without lines; the columns of ``numbers`` are aligned to the right."""
    table = Table(box=None, pad_edge=False)
    for name in columns:
        table.add_column(name, justify="right" if name in numbers else "left")
    return table


def make_fact_table(indent: int = 0) -> Table:
    """Return an empty table of two columns, names and facts; long facts are wrapped."""
    padding = (0, 2, 0, indent) if indent else (0, 1)
    table = Table(box=None, pad_edge=False, show_header=False, padding=padding)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _start_progress(*columns: ProgressColumn) -> Progress | None:
    """Start progress bars on stderr and return them; None without a terminal."""
    if not sys.stderr.isatty():
        return None
    progress = Progress(
        *columns,
        console=console_of(sys.stderr),
        transient=True,
        expand=True,
    )
    progress.start()
    return progress


class Bars:
    """Progress of an experiment: bars in a terminal, else a line per finished cell if wanted."""

    def __init__(self, title: str = "", num_cells: int = 1, lines: bool = True) -> None:
        self._title, self._num_cells, self._lines = title, num_cells, lines
        self._progress: Progress | None = None
        self._all_cells: TaskID | None = None
        self._cell: TaskID | None = None
        self._num_done, self._begin, self._episodes = 0, 0.0, 0

    def __enter__(self) -> Bars:
        self._progress = _start_progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        if self._progress is not None and self._num_cells > 1:
            self._all_cells = self._progress.add_task(self._title, total=self._num_cells)
        return self

    def __exit__(self, *error: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def begin(self, label: str, episodes: int) -> None:
        """Begin a cell; its bar has no length until the program is compiled."""
        self._begin, self._episodes = time.perf_counter(), episodes
        if self._progress is not None:
            self._cell = self._progress.add_task(f"{label} (compiling)", total=None)

    def advance(self, label: str, done: int) -> None:
        """Show how many episodes of the cell are done."""
        if self._progress is not None and self._cell is not None:
            self._progress.update(
                self._cell, completed=done, total=self._episodes, description=label
            )

    def end(self, label: str, found: bool) -> None:
        """End a cell, or note that its run was found."""
        self._num_done += 1
        if self._progress is not None:
            if self._cell is not None:
                self._progress.remove_task(self._cell)
                self._cell = None
            if self._all_cells is not None:
                self._progress.update(self._all_cells, completed=self._num_done)
        elif self._lines:
            time_spent = "found" if found else self._time_spent()
            note(f"{self._title} {self._num_done}/{self._num_cells} {label}: {time_spent}")

    def _time_spent(self) -> str:
        """Return the seconds since the cell began; cells that ran together share them."""
        begin, self._begin = self._begin, 0.0
        return f"{time.perf_counter() - begin:.1f} s" if begin else "together with the cell before"


class TrainingBar:
    """Progress of a training: step, mean return over the seeds, what is being done, time left."""

    def __init__(
        self,
        label: str,
        num_steps: int,
        first_step: int = 0,
        *,
        shown: bool = True,
        schedule: StepSchedule | None = None,
    ) -> None:
        self._label, self._num_steps, self._shown = label, num_steps, shown
        self._schedule = StepSchedule() if schedule is None else schedule
        self._times = StepTimes(self._schedule, num_steps)
        self._progress: Progress | None = None
        self._notebook: NotebookLine | None = None
        self._updates: deque[tuple[float, int]] = deque(maxlen=SPEED_WINDOW)
        """Times (`_working_clock`) at which the bar was updated, with the number of steps."""
        self.has_stepped = False
        """Whether a step was done since `begin`."""
        self._return = ""
        self.begin(first_step)

    def __enter__(self) -> TrainingBar:
        if self._shown and in_notebook():
            self._notebook = NotebookLine()
        elif self._shown:
            self._progress = _start_progress(_FittedLine(self._line))
        if self._progress is not None:
            self._progress.add_task("", total=None)
        return self

    def __exit__(self, *error: object) -> None:
        if self._progress is not None:
            self._progress.stop()
        if self._notebook is not None:
            self._notebook.show(self._line(NOTEBOOK_WIDTH))

    def begin(self, step: int) -> None:
        """Begin at this step, from which the speed is measured."""
        self._times.clear()
        self._updates.clear()
        self._step, self.has_stepped = step, False
        self._last_advance, self._worked = time.monotonic(), _working_clock()
        self._updates.append((self._worked, step))

    def advance(self, step: int) -> None:
        """Count a step that is done."""
        worked, num_steps = _working_clock(), max(step - self._step, 1)
        self._times.add(step, max(worked - self._worked, 0.0) / num_steps)
        self._worked, self._last_advance = worked, time.monotonic()
        self._step, self.has_stepped = step, True
        if worked - self._updates[-1][0] >= UPDATE_SECONDS or step >= self._num_steps:
            self._updates.append((worked, step))
        if self._notebook is not None:
            busy = self._schedule.kind(step + 1) in (EVALUATION, MODELS)
            self._notebook.show(self._line(NOTEBOOK_WIDTH), at_once=busy)

    def end_epoch(self, row: dict[str, Any]) -> None:
        """Show the metrics of an epoch that has ended."""
        step = int(row["step"])
        self._return = f"return {mean_figure(row['eval_return'])}"
        if self._shown and self._progress is None and self._notebook is None:
            self._step = step
            self._updates.append((_working_clock(), step))
            figures = ", ".join(filter(None, (self._return, self._speed(), self._time_left())))
            note(f"{self._label}: step {step}/{self._num_steps}, {figures}")

    def _line(self, width: int) -> str:
        """Return the whole line of the bar, with as many figures as fit into the width."""
        counter = f"{self._step}/{self._num_steps}"
        work, left = self._work(), self._time_left()
        short, speed = self._label.partition(" ")[0], "" if work else self._speed()
        for label, *figures in (
            (self._label, counter, self._return, speed, work, left),
            (self._label, counter, self._return, work, left),
            (short, counter, self._return, work, left),
            (short, counter, work or left),
        ):
            text = "  ".join(filter(None, figures))
            room = width - len(label) - len(text) - 2
            if room >= MIN_BAR:
                break
        done = round(max(room, 0) * min(self._step / max(self._num_steps, 1), 1.0))
        bar = "━" * done + "─" * (max(room, 0) - done)
        return f"{label} {bar} {text}"[:width]

    def _work(self) -> str:
        """Return what takes so long at this moment; "" while steps go on."""
        busy = self._schedule.kind(self._step + 1)
        known = busy if busy in (EVALUATION, MODELS) else ""
        if self._notebook is not None:  # nothing is shown while a step goes on
            return known
        if time.monotonic() - self._last_advance < STALL_SECONDS:
            return ""
        if is_compiling():
            return "compiling"
        return known if self.has_stepped else "starting"

    def _speed(self) -> str:
        (then, first), (now, last) = self._updates[0], self._updates[-1]
        if last == first or now == then:
            return ""
        rate = (last - first) / (now - then)
        return f"{rate:.0f} steps/s" if rate >= 10 else f"{rate:.2g} steps/s"

    def _time_left(self) -> str:
        seconds = self._times.seconds_left(self._step)
        if seconds is None or not self.has_stepped:
            return ""
        spent = time.monotonic() - self._last_advance
        return f"{duration(max(seconds - spent, 0.0))} left"


def _working_clock() -> float:
    """Return the time of a clock that stands still while the process waits for the compiler.

    The speed and the time left are measured by it: what is compiled once does not take time again.
    """
    return time.monotonic() - seconds_waited()


class _FittedLine(ProgressColumn):
    """A column of a progress bar whose text is made for the width of the terminal."""

    def __init__(self, line: Callable[[int], str]) -> None:
        self._line = line
        super().__init__(table_column=Column(ratio=1, no_wrap=True))

    def render(self, task: Task) -> RenderableType:
        return _Fitted(self._line)


class _Fitted(NamedTuple):
    line: Callable[[int], str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(self.line(options.max_width), no_wrap=True)


class NotebookLine:
    """A line of text below a notebook's cell that is replaced by the next one."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._shown_at = 0.0

    def show(self, text: str, *, at_once: bool = True) -> None:
        """Show a text; unless ``at_once``, at most every `NOTEBOOK_SECONDS`."""
        now = time.monotonic()
        if not at_once and now - self._shown_at < NOTEBOOK_SECONDS:
            return
        self._shown_at = now
        bundle = {"text/plain": text}
        if self._handle is None:
            display = importlib.import_module("IPython.display").display
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


def in_notebook() -> bool:
    """Return whether the code runs in a notebook, where output is no terminal but is seen."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return type(shell).__name__ == "ZMQInteractiveShell"


def shows_progress(progress: bool | None) -> bool:
    """Return whether progress is shown: as asked, or by default in a terminal and a notebook."""
    return progress if progress is not None else sys.stderr.isatty() or in_notebook()


@contextlib.contextmanager
def episode_progress(
    label: str, num_episodes: int, progress: Callable[[int], None] | bool | None
) -> Iterator[Callable[[int], None] | None]:
    """Yield the function that is told how many episodes are done; None if there is none.

    ``progress`` is a function, or whether a bar is shown (see `shows_progress`).
    """
    if callable(progress):
        yield progress
    elif not shows_progress(progress):
        yield None
    elif sys.stderr.isatty():
        with Bars() as bars:
            bars.begin(label, num_episodes)
            yield lambda done: bars.advance(label, done)
    else:
        show = NotebookLine().show if in_notebook() else note
        yield lambda done: show(f"{label}: {done}/{num_episodes} episodes")


def duration(seconds: float) -> str:
    """Return a time in its two largest units: 42 s, 3 min 20 s, 5 h 12 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
