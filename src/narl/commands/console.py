"""What a command shows: results on stdout; notes and progress on stderr."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

PIPE_WIDTH = 500
"""Columns where there is no terminal: a row of a table stays one line, for grep."""


def stdout() -> Console:
    """The console of the results. Colours only in a terminal, and none with NO_COLOR."""
    return console_of(sys.stdout)


def console_of(stream: Any) -> Console:
    """The console that writes to a stream."""
    width = None if stream.isatty() else PIPE_WIDTH
    return Console(file=stream, width=width, highlight=False, markup=False, emoji=False)


def print_json(result: dict[str, Any]) -> None:
    """The one JSON object of a command, on one line."""
    print(json.dumps(result, allow_nan=False))


def note(line: str) -> None:
    """A line on stderr; if nobody reads it, the work goes on."""
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Shows what the library warns of, a line each."""

    class Notes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            note(record.getMessage())

    log, handler = logging.getLogger("narl"), Notes(logging.WARNING)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


class Bars:
    """Progress on stderr: bars in a terminal; elsewhere a line per finished cell, if wanted."""

    def __init__(self, title: str = "", num_cells: int = 1, lines: bool = True) -> None:
        self._title, self._num_cells, self._lines = title, num_cells, lines
        self._progress: Progress | None = None
        self._all: TaskID | None = None
        self._cell: TaskID | None = None
        self._num_done, self._begin, self._episodes = 0, 0.0, 0

    def __enter__(self) -> Bars:
        if sys.stderr.isatty():
            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=None),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                console=console_of(sys.stderr),
                transient=True,
                expand=True,
            )
            self._progress.start()
            if self._num_cells > 1:
                self._all = self._progress.add_task(self._title, total=self._num_cells)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def begin(self, label: str, episodes: int) -> None:
        """A cell begins. Its bar has no length until the program is compiled."""
        self._begin, self._episodes = time.perf_counter(), episodes
        if self._progress is not None:
            self._cell = self._progress.add_task(f"{label} (compiling)", total=None)

    def advance(self, label: str, done: int) -> None:
        """Episodes of the cell that are done."""
        if self._progress is not None and self._cell is not None:
            self._progress.update(
                self._cell, completed=done, total=self._episodes, description=label
            )

    def _took(self) -> str:
        """Seconds since cells began; several that ran together share them."""
        begin, self._begin = self._begin, 0.0
        return f"{time.perf_counter() - begin:.1f} s" if begin else "together with that"

    def end(self, label: str, found: bool) -> None:
        """A cell ended, or its run was found."""
        self._num_done += 1
        if self._progress is not None:
            if self._cell is not None:
                self._progress.remove_task(self._cell)
                self._cell = None
            if self._all is not None:
                self._progress.update(self._all, completed=self._num_done)
        elif self._lines:
            how = "found" if found else self._took()
            note(f"{self._title} {self._num_done}/{self._num_cells} {label}: {how}")
