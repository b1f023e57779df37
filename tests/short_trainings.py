"""Trainings that take a second, and comparisons of their outcomes."""

import json
from pathlib import Path
from typing import Any

from narl import storage
from narl.deep.checked_config import make_config
from narl.deep.config import Config, used_by
from narl.options import as_text

ENV = "toy_worlds:Toy-v0"
OPTIONS: dict[str, Any] = {
    "hidden": (16, 16),
    "members": 2,
    "model_width": 16,
    "model_depth": 2,
    "most_model_epochs": 10,
    "rollout_batch": 200,
    "updates_per_step": 1,
    "batch": 32,
    "steps": 300,
    "epoch_length": 100,
    "initial_steps": 100,
    "model_every": 50,
    "eval_episodes": 1,
    "eval_horizon": 40,
}
"""Options of three epochs, the first of them with random actions."""


def short_options(algo: str = "sac", **changes: Any) -> dict[str, Any]:
    """Return those of `OPTIONS` that an algorithm uses, with changes."""
    used = {name: x for name, x in OPTIONS.items() if algo in (used_by(name) or (algo,))}
    return used | changes


def short_config(env: str = ENV, algo: str = "sac", **changes: Any) -> Config:
    """Return a short configuration; SAC has no model and compiles in a quarter of the time."""
    return make_config(env, algo, **short_options(algo, **changes))


def short_arguments(algo: str = "sac", **changes: Any) -> list[str]:
    """Return the same algorithm and options as arguments of `narl train`."""
    options = short_options(algo, **changes).items()
    return [f"--algo={algo}", *(f"--{name.replace('_', '-')}={as_text(x)}" for name, x in options)]


def metrics_rows(run: storage.Run) -> list[dict[str, Any]]:
    """Return the rows of a run's metrics log, without the times."""
    rows = [json.loads(line) for line in run.extra(storage.METRICS_LOG).splitlines()]
    return [{name: x for name, x in row.items() if name != "seconds"} for row in rows]


def assert_same_outcome(a: storage.Run, b: storage.Run) -> None:
    """Check that two runs are equal to the last bit: arrays, metrics log, metrics but the times."""
    arrays_a, arrays_b = a.arrays(), b.arrays()
    assert sorted(arrays_a) == sorted(arrays_b)
    for name, array in arrays_a.items():
        assert array.tobytes() == arrays_b[name].tobytes(), name
    assert metrics_rows(a) == metrics_rows(b)
    assert a.metrics | {"seconds": None} == b.metrics | {"seconds": None}


def flip_bit(checkpoint: Path) -> None:
    """Flip one bit of the arrays of a checkpoint."""
    file = checkpoint / "arrays.npz"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))


def checkpoints_of(root: Path, config: Config) -> list[Path]:
    """Return the checkpoints of an unfinished training, the oldest first."""
    folder = root / f"{config.run_id}{storage.PART_SUFFIX}" / storage.CHECKPOINTS
    return sorted(folder.glob("step-*"))
