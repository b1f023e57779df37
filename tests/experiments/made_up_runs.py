"""Made-up results of experiments, as if their cells had been run."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from narl import storage
from narl.experiments.experiment import Cell, Result
from narl.tabular.config import make_config


class MadeUpRun(storage.Run):
    """A run whose arrays and rows are given."""

    given_arrays: Mapping[str, np.ndarray] = {}
    given_rows: list[dict[str, Any]] = []

    def arrays(self) -> dict[str, np.ndarray]:
        return dict(self.given_arrays)

    def extra(self, name: str) -> bytes:
        assert name == storage.PROGRESS
        return "".join(json.dumps(row) + "\n" for row in self.given_rows).encode()
