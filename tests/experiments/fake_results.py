"""Made-up results of experiments, as if their cells had been run."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from narl.experiments.experiment import Cell, Result
from narl.storage import Run
from narl.tabular.config import make_config


@dataclasses.dataclass(frozen=True)
class FakeResult(Result):
    """A result with given arrays and rows of a metrics log."""

    arrays: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    log: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    def array(self, name: str) -> np.ndarray:
        return self.arrays[name]

    def rows(self) -> list[dict[str, Any]]:
        return self.log


def fake_run(metrics: dict[str, Any]) -> Run:
    return Run(path=Path(), id="x", config={}, metrics=metrics, environment={})


def tabular_result(regret: Any, value: Any, solved: Any = None) -> FakeResult:
    """Return a result with V* = 2."""
    regret, value = np.asarray(regret, float), np.asarray(value, float)
    metrics = {"v_star": 2.0, "episodes": regret.shape[1], "solved_episode": solved}
    arrays = {"regret": regret, "value": value, "trajectory_gap": regret}
    return FakeResult(make_config("greedy", "riverswim"), fake_run(metrics), arrays)


def training_result(
    cell: Cell, solved: list[int | None], final_return: list[float], log: Any = ()
) -> FakeResult:
    """Return the result of a training with these steps to solve, per seed."""
    metrics = {
        "solved_step": solved,
        "final_return": final_return,
        "steps": 10_000,
        "updates": 47500,
        "seconds": {"compile": 1.0, "total": 12.34},
    }
    return FakeResult(cell, fake_run(metrics), log=list(log))
