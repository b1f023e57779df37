"""The metrics log: one line of JSON per epoch, written while a computation goes on.

A line counts once its newline is on disk: the rest of a last line that a kill cut short is not
read, and the next `append` removes it.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from narl.storage.folder import to_json_values, write_file

PROGRESS = "progress.jsonl"
"""The name of the metrics log in the folder of a run."""


def rows_to_bytes(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Return rows as lines of JSON; a number that is not finite becomes null."""
    plain_rows = (to_json_values("progress", row, non_finite="null") for row in rows)
    return "".join(json.dumps(row, allow_nan=False) + "\n" for row in plain_rows).encode()


def rows_from_bytes(lines: bytes) -> list[dict[str, Any]]:
    """Return the rows of lines of JSON; a line that is no JSON object is left out."""
    rows = []
    for line in lines.splitlines():
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows


@dataclass(frozen=True)
class MetricsLog:
    """The metrics log at a path; there is no file until the first `append`."""

    path: Path

    def lines(self) -> bytes:
        """Return every complete line so far."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return b""
        return content[: content.rfind(b"\n") + 1]

    def rows(self) -> list[dict[str, Any]]:
        """Return every row so far; a damaged line is left out."""
        return rows_from_bytes(self.lines())

    def append(self, row: Mapping[str, Any]) -> bytes:
        """Write a row to disk and return its line."""
        line = rows_to_bytes([row])
        try:
            if self.path.exists():
                self._overwrite(len(self.lines()), line)
            else:
                write_file(self.path, line)
        except OSError as error:
            reason = f"{self.path.name} was not written: {error.strerror}"
            raise OSError(error.errno, reason) from error
        return line

    def clear(self) -> None:
        """Delete the log, if there is one."""
        self.path.unlink(missing_ok=True)

    def restore(self, lines: bytes) -> bool:
        """Set the log back to earlier lines; return False if the file was damaged."""
        if not self.lines().startswith(lines):
            write_file(self.path, lines)
            return False
        if self.path.exists():
            self._overwrite(len(lines), b"")
        return True

    def _overwrite(self, offset: int, lines: bytes) -> None:
        """Replace everything from a byte on."""
        with self.path.open("ab") as file:
            file.truncate(offset)
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())
