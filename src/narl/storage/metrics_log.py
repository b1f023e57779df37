"""The journal: the metrics of a training, one line of JSON each epoch, as it goes.

A line counts once its newline is on disk: what a kill leaves of a last line is not read, and
is cut off by the next `append`. A checkpoint holds the lines so far; a training that resumes from
it brings the journal back to them, so that its metrics are those of an uninterrupted training.
"""

import json
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from narl.storage.folder import flush_folder, to_json_values, write_new_file

NAME = "progress.jsonl"
"""What the journal of a run is called in its folder."""


def rows_to_bytes(rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Rows as they stand in the file; a non-finite number becomes null."""
    plain_rows = (to_json_values("progress", row, non_finite="null") for row in rows)
    return "".join(json.dumps(row, allow_nan=False) + "\n" for row in plain_rows).encode()


def rows_from_bytes(lines: bytes) -> list[dict[str, Any]]:
    """The rows of these lines; what is no JSON object is left out."""
    rows = (_row(line) for line in lines.splitlines())
    return [row for row in rows if row is not None]


def valid_lines(lines: bytes, names: Collection[str], lanes: int, last_step: int) -> bytes:
    """The lines that can be rows of a training that has come to ``last_step``.

    They are JSON objects with these names, their lists have an entry for each lane, and their
    steps grow.
    """
    kept, step = [], 0
    for line in lines.splitlines(keepends=True):
        row = _row(line)
        if row is None or not row.keys() >= {"step", *names}:
            continue
        each_lane = all(len(x) == lanes for x in row.values() if isinstance(x, list))
        if each_lane and type(row["step"]) is int and step < row["step"] <= last_step:
            kept.append(line)
            step = row["step"]
    return b"".join(kept)


@dataclass(frozen=True)
class MetricsLog:
    """The journal at a path; it is empty until the first `append`."""

    path: Path

    @property
    def offset(self) -> int:
        """Bytes of whole lines."""
        return len(self.lines())

    def append(self, row: Mapping[str, Any]) -> int:
        """Write a row to disk and return the new offset."""
        line = rows_to_bytes([row])
        new = not self.path.exists()
        offset = self.offset
        try:
            self._write(offset, line)
        except OSError as error:
            reason = f"{self.path.name} was not written: {error.strerror}"
            raise OSError(error.errno, reason) from error
        if new:
            flush_folder(self.path.parent)
        return offset + len(line)

    def lines(self) -> bytes:
        """Every whole line so far."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return b""
        return content[: content.rfind(b"\n") + 1]

    def rows(self) -> list[dict[str, Any]]:
        """Every row so far; a damaged line is left out."""
        return rows_from_bytes(self.lines())

    def restore(self, lines: bytes) -> bool:
        """Brings the file back to these lines; whether it was enough to cut off what follows."""
        if self.lines().startswith(lines):
            if self.path.exists():
                self._write(len(lines), b"")
            return True
        unfinished = self.path.with_name(f".{self.path.name}")
        unfinished.unlink(missing_ok=True)
        write_new_file(unfinished, lines)
        os.replace(unfinished, self.path)
        flush_folder(self.path.parent)
        return False

    def _write(self, offset: int, lines: bytes) -> None:
        """What begins at the offset is replaced."""
        with self.path.open("ab") as file:
            file.truncate(offset)
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None
