"""The policies of a training at their best evaluations, beside the last ones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from narl import storage
from narl.errors import InputError

BEST = "best."
"""The beginning of the names of arrays that hold the best policies."""
ACTOR = "sac.actor."


class BestPolicies:
    """The actor of every replica at its best evaluation so far."""

    def __init__(self) -> None:
        self._arrays: dict[str, np.ndarray] = {}

    def update(self, metrics: Mapping[str, Any], networks: Mapping[str, np.ndarray]) -> None:
        """Take over the actors of the replicas whose mean return is better than before."""
        returns = np.array([np.nan if x is None else x for x in metrics["eval_return"]], float)
        actors = {f"{BEST}{name}": x for name, x in networks.items() if name.startswith(ACTOR)}
        if not self._arrays:
            self._arrays = {name: np.array(x) for name, x in actors.items()}
            self._arrays[f"{BEST}return"] = np.full(len(returns), -np.inf)
            self._arrays[f"{BEST}step"] = np.zeros(len(returns), np.int64)
        better = returns > self._arrays[f"{BEST}return"]
        new = {f"{BEST}return": returns, f"{BEST}step": np.full(len(returns), metrics["step"])}
        for name, values in (actors | new).items():
            # New arrays: a checkpoint that is being written may still read the old ones.
            self._arrays[name] = self._arrays[name].copy()
            self._arrays[name][better] = values[better]

    def arrays(self, replicas: slice = slice(None)) -> dict[str, np.ndarray]:
        """Return the arrays that a run or a checkpoint keeps."""
        return {name: array[replicas] for name, array in self._arrays.items()}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Go on with the arrays that `arrays` gave."""
        self._arrays = {name: x for name, x in arrays.items() if name.startswith(BEST)}


def read_best_actors(folder: Path) -> tuple[dict[str, np.ndarray], list[int]]:
    """Return the best actors that the folder of a training holds, by name, and their steps."""
    if (folder / storage.TRAINING_FILE).is_file():
        arrays = dict(storage.load_checkpoint(folder / storage.CHECKPOINTS).arrays)
    else:
        arrays = storage.load_run_at(folder).arrays()
    best = {name.removeprefix(BEST): x for name, x in arrays.items() if name.startswith(BEST)}
    if not best:
        raise InputError(
            f"best: {folder} holds the last policies only; leave it out (runs of `narl train` hold "
            "the best ones)"
        )
    actors = {name: x for name, x in best.items() if name.startswith(ACTOR)}
    return actors, best["step"].tolist()
