"""The journal: the metrics of a training, one line of JSON each epoch, as it goes.

A line counts once its newline is on disk: what a kill leaves of a last line is not read, and
is cut off by the next `append`. A checkpoint records the `offset`; a training that resumes from
it cuts the journal back to there, so that its metrics are those of an uninterrupted training.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from narl.errors import InputError
from narl.files import flush_folder, plain

NAME = "progress.jsonl"
"""What the journal of a run is called in its folder."""


def as_lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Rows as they stand in the file."""
    return "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows).encode()


@dataclass(frozen=True)
class Journal:
    """The journal at a path; it is empty until the first `append`."""

    path: Path

    @property
    def offset(self) -> int:
        """Bytes of whole lines."""
        return len(self._lines())

    def append(self, row: Mapping[str, Any]) -> int:
        """Write a row to disk and return the new offset; a non-finite number becomes null."""
        line = as_lines([plain("progress", row, non_finite="null")])
        new = not self.path.exists()
        offset = self.offset
        with self.path.open("ab") as file:
            file.truncate(offset)
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        if new:
            flush_folder(self.path.parent)
        return offset + len(line)

    def rows(self) -> list[dict[str, Any]]:
        """Every row so far."""
        return [self._row(i, line) for i, line in enumerate(self._lines().splitlines(), start=1)]

    def truncate_after(self, offset: int) -> None:
        """Forget the rows that begin at or after the offset."""
        lines = self._lines()
        if not 0 <= offset <= len(lines) or lines[:offset].rpartition(b"\n")[2]:
            raise InputError(
                f"{self.path.name}: offset {offset} given; must be the end of a line "
                f"among its {len(lines)} bytes"
            )
        if self.path.exists():
            with self.path.open("r+b") as file:
                file.truncate(offset)
                os.fsync(file.fileno())

    def _lines(self) -> bytes:
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return b""
        return content[: content.rfind(b"\n") + 1]

    def _row(self, number: int, line: bytes) -> dict[str, Any]:
        try:
            return dict(json.loads(line))
        except (ValueError, TypeError) as error:
            raise InputError(
                f"{self.path.name}: line {number} is damaged; resume the run to cut it back"
            ) from error
