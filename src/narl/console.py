"""Output for people: results on stdout, notes and progress bars on stderr."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import time
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

UPDATE_SECONDS = 0.1
"""Seconds between two updates of a bar."""
SPEED_WINDOW = 300
"""Updates over which the speed is averaged."""
PIPE_WIDTH = 500
"""Columns without a terminal: a row of a table stays one line, for grep."""


def stdout() -> Console:
    """Return the console of results: colours only in a terminal, and none with NO_COLOR."""
    return console_of(sys.stdout)


def console_of(stream: Any) -> Console:
    """Return a console that writes to a stream."""
    width = None if stream.isatty() else PIPE_WIDTH
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)


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


def _start_progress(last_column: ProgressColumn) -> Progress | None:
    """Start progress bars on stderr and return them; None without a terminal."""
    if not sys.stderr.isatty():
        return None
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        last_column,
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
        self._progress = _start_progress(TimeElapsedColumn())
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
    """Progress of a training: step, mean return over the seeds, steps per second, time left."""

    def __init__(
        self, label: str, num_steps: int, first_step: int = 0, *, shown: bool = True
    ) -> None:
        self._label, self._num_steps, self._shown = label, num_steps, shown
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._updates: deque[tuple[float, int]] = deque(maxlen=SPEED_WINDOW)
        """Times at which the bar was updated, with the number of steps."""
        self._return = ""
        self.begin(first_step)

    def __enter__(self) -> TrainingBar:
        self._progress = (
            _start_progress(TextColumn("{task.fields[figures]}")) if self._shown else None
        )
        if self._progress is not None:
            self._task = self._progress.add_task(
                f"{self._label} (compiling)", total=None, figures=""
            )
        return self

    def __exit__(self, *error: object) -> None:
        if self._progress is not None:
            self._progress.stop()

    def begin(self, step: int) -> None:
        """Begin at this step, from which the speed is measured."""
        self._updates.clear()
        self._updates.append((time.monotonic(), step))

    def advance(self, step: int) -> None:
        """Show the number of steps that are done."""
        now = time.monotonic()
        if now - self._updates[-1][0] < UPDATE_SECONDS and step < self._num_steps:
            return
        self._updates.append((now, step))
        if self._progress is not None and self._task is not None:
            self._progress.update(
                self._task,
                completed=step,
                total=self._num_steps,
                description=self._label,
                figures=self._figures(),
            )

    def end_epoch(self, row: dict[str, Any]) -> None:
        """Show the metrics of an epoch that has ended."""
        step = int(row["step"])
        self._return = f"return {mean_return(row['eval_return'])}"
        if self._shown and self._progress is None:
            self._updates.append((time.monotonic(), step))
            note(f"{self._label}: step {step}/{self._num_steps}, {self._figures()}")

    def _figures(self) -> str:
        """Return the mean return and the speed, as far as they are known."""
        return ", ".join(filter(None, (self._return, self._speed())))

    def _speed(self) -> str:
        (then, first), (now, last) = self._updates[0], self._updates[-1]
        if last == first or now == then:
            return ""
        rate = (last - first) / (now - then)
        shown = f"{rate:.0f}" if rate >= 10 else f"{rate:.2g}"
        return f"{shown} steps/s, {duration((self._num_steps - last) / rate)} left"


def mean_return(returns: Sequence[float]) -> str:
    """Return the mean over the seeds as text."""
    return f"{sum(returns) / len(returns):.1f}"


def duration(seconds: float) -> str:
    """Return a time in its two largest units: 42 s, 3 min 20 s, 5 h 12 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
