"""The log of a task in a process that others started, such as a worker of Ray or a job of SLURM."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from narl.console import warnings_as_notes
from narl.storage.files import open_log


@contextlib.contextmanager
def output_to(log: Path) -> Iterator[None]:
    """Append everything that this process prints to a file, what C libraries print included."""
    streams = (sys.stdout, sys.stderr)
    before = (os.dup(1), os.dup(2))
    with (
        io.TextIOWrapper(open_log(log), encoding="utf-8", line_buffering=True) as file,
        warnings_as_notes(),
    ):
        sys.stdout = sys.stderr = file
        for number in (1, 2):
            os.dup2(file.fileno(), number)
        try:
            yield
        finally:
            sys.stdout, sys.stderr = streams
            for number, descriptor in enumerate(before, start=1):
                os.dup2(descriptor, number)
                os.close(descriptor)
