"""Progress of a training on stderr: a bar in a terminal, a line per epoch elsewhere."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from narl.commands.console import console_of, note

MOMENT = 0.1
"""Seconds between two looks at the clock."""
WINDOW = 300
"""Looks over which the speed is taken."""


class TrainingBar:
    """Step, latest mean return over the seeds, steps per second, time left."""

    def __init__(
        self, label: str, num_steps: int, first_step: int = 0, *, shown: bool = True
    ) -> None:
        self._label, self._num_steps, self._shown = label, num_steps, shown
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._looks: deque[tuple[float, int]] = deque(maxlen=WINDOW)
        self._return = ""
        self.begin(first_step)

    def __enter__(self) -> TrainingBar:
        if self._shown and sys.stderr.isatty():
            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=None),
                MofNCompleteColumn(),
                TextColumn("{task.fields[figures]}"),
                console=console_of(sys.stderr),
                transient=True,
                expand=True,
            )
            self._progress.start()
            self._task = self._progress.add_task(
                f"{self._label} (compiling)", total=None, figures=""
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def begin(self, step: int) -> None:
        """The training is at this step, without having taken it now."""
        self._looks.clear()
        self._looks.append((time.monotonic(), step))

    def advance(self, step: int) -> None:
        """One more step of every seed."""
        now = time.monotonic()
        if self._looks and now - self._looks[-1][0] < MOMENT and step < self._num_steps:
            return
        self._looks.append((now, step))
        if self._progress is not None and self._task is not None:
            self._progress.update(
                self._task,
                completed=step,
                total=self._num_steps,
                description=self._label,
                figures=", ".join(filter(None, (self._return, self._speed()))),
            )

    def end_epoch(self, row: dict[str, Any]) -> None:
        """An epoch is over, with these diagnostics."""
        step = int(row["step"])
        self._return = f"return {mean_return(row['eval_return'])}"
        if self._shown and self._progress is None:
            self._looks.append((time.monotonic(), step))
            figures = ", ".join(filter(None, (self._return, self._speed())))
            note(f"{self._label}: step {step}/{self._num_steps}, {figures}")

    def _speed(self) -> str:
        (then, first), (now, last) = self._looks[0], self._looks[-1]
        if last == first or now == then:
            return ""
        rate = (last - first) / (now - then)
        shown = f"{rate:.0f}" if rate >= 10 else f"{rate:.2g}"
        return f"{shown} steps/s, {duration((self._num_steps - last) / rate)} left"


def mean_return(returns: Sequence[float]) -> str:
    """The mean over the seeds, as it is shown."""
    return f"{sum(returns) / len(returns):.1f}"


def duration(seconds: float) -> str:
    """A time in the two largest units that matter: 42 s, 3 min 20 s, 5 h 12 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
