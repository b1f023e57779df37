"""Checkpoints of the first format, which have no id of a run: is one of the run beside it?

Only narl 0.1.0 wrote them, and they hold a copy of the metrics log. Both are compared with the
folder of the run. The log has times in it, so that the logs of two runs share no row.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from narl.storage.files import read_json, without_checksum
from narl.storage.folder import TRAINING_FILE
from narl.storage.metrics_log import METRICS_LOG, MetricsLog, rows_from_bytes

VERSION = "0.1.0"
"""The only version of narl that wrote the first format."""
LOG_COPY = "metrics_log"
"""The array of a checkpoint that holds the bytes of the metrics log."""


def sign_of_another_run(arrays: Mapping[str, np.ndarray], folder: Path) -> str:
    """Say what shows that a checkpoint is not of the run in a folder; empty if nothing does.

    The metrics log shows it if it has rows of the same steps as the checkpoint's copy, and no row
    is equal; that a few rows differ may be damage.
    """
    began = _version_of_run(folder)
    if began not in (None, VERSION):
        return f"is of a format that only narl {VERSION} wrote, and narl {began} began the run"
    if LOG_COPY not in arrays:
        return ""
    copied = _by_step(rows_from_bytes(arrays[LOG_COPY].tobytes()))
    logged = _by_step(MetricsLog(folder / METRICS_LOG).rows())
    common = copied.keys() & logged.keys()
    if common and not any(copied[step] == logged[step] for step in common):
        return f"is of another run: its metrics are not those in {METRICS_LOG}"
    return ""


def _version_of_run(folder: Path) -> Any:
    """Return the version of narl that began an unfinished run; None if that cannot be read."""
    try:
        return without_checksum(read_json(folder / TRAINING_FILE)).get("narl")
    except (OSError, ValueError):
        return None


def _by_step(rows: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    return {row["step"]: row for row in rows if isinstance(row.get("step"), int)}
