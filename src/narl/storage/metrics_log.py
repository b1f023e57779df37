"""The metrics log: one line of JSON per epoch, written while a computation goes on.

A line counts once its newline is on disk: the rest of a last line that a kill cut short is not
read, and the next `append` removes it. Every line has a checksum.
"""

import json
import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from narl.storage.files import (
    naming_errors,
    open_descriptor,
    parse_json,
    read_file,
    remove_file,
    to_json_values,
    with_checksum,
    without_checksum,
    write_file,
)

METRICS_LOG = "progress.jsonl"
"""The name of the metrics log in the folder of a run."""
_log = logging.getLogger("narl")


def rows_to_bytes(rows: Iterable[Mapping[str, Any]], *, checksums: bool = False) -> bytes:
    """Return rows as lines of JSON; a number that is not finite becomes null."""
    plain_rows = [to_json_values("progress", row, non_finite="null") for row in rows]
    if checksums:
        plain_rows = [with_checksum(row) for row in plain_rows]
    return "".join(json.dumps(row, allow_nan=False) + "\n" for row in plain_rows).encode()


def rows_from_bytes(lines: bytes) -> list[dict[str, Any]]:
    """Return the rows of lines of JSON; a line that is damaged is left out, with a warning."""
    rows = []
    for number, line in enumerate(lines.splitlines(), start=1):
        try:
            rows.append(without_checksum(parse_json(line)))
        except ValueError:
            _log.warning("line %d of %s is damaged and left out", number, METRICS_LOG)
    return rows


@dataclass(frozen=True)
class MetricsLog:
    """The metrics log at a path; there is no file until the first `append`."""

    path: Path

    def lines(self) -> bytes:
        """Return every complete line so far."""
        try:
            content = read_file(self.path)
        except FileNotFoundError:
            return b""
        return content[: content.rfind(b"\n") + 1]

    def rows(self) -> list[dict[str, Any]]:
        """Return every row so far; a damaged line, or a file that is none, is left out."""
        try:
            return rows_from_bytes(self.lines())
        except OSError as error:
            _log.warning("%s cannot be read (%s)", self.path.name, error.strerror)
            return []

    def append(self, row: Mapping[str, Any]) -> bytes:
        """Write a row to disk and return its line."""
        line = rows_to_bytes([row], checksums=True)
        if os.path.lexists(self.path):
            self._overwrite(len(self.lines()), line)
        else:
            write_file(self.path, line)
        return line

    def clear(self) -> None:
        """Delete the log, if there is one."""
        remove_file(self.path)

    def restore(self, lines: bytes) -> bool:
        """Set the log back to earlier lines; return False if the file was damaged."""
        if not self.lines().startswith(lines):
            write_file(self.path, lines)
            return False
        if os.path.lexists(self.path):
            self._overwrite(len(lines), b"")
        return True

    def _overwrite(self, offset: int, lines: bytes) -> None:
        """Replace everything from a byte on."""
        descriptor = open_descriptor(self.path, os.O_WRONLY | os.O_APPEND)
        with naming_errors(self.path), os.fdopen(descriptor, "ab") as file:
            file.truncate(offset)
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())
