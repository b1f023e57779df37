"""A training as arrays and notes, and back: what a checkpoint holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int

from narl.deep.checkpoint import flatten_tree, unflatten_tree
from narl.deep.fit import FitReport
from narl.deep.replay import Replay
from narl.deep.rollout import Selections
from narl.deep.train import Books, Training
from narl.errors import InputError

REPORTS: dict[str, Any] = {"fit": FitReport, "selections": Selections}
_NO_ROWS: Any = np.zeros(0, np.float32)
"""Stands for the imagined rows, which are stored by themselves."""


def capture(training: Training) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Everything that the training needs to go on, bit for bit."""
    learner = training.export()
    model = learner.model
    tree = {
        "learner": learner._replace(model=model._replace(rows=_NO_ROWS)),
        "imagined": newest_rows(model),
        "reports": {k: v._asdict() for k, v in training.books.reports.items()},
    }
    arrays = flatten_tree(tree)
    captured = []
    for i, env in enumerate(training.envs):
        state = env.capture()
        captured.append(state["json"])
        arrays |= {f"env.{i}.{name}": array for name, array in state["arrays"].items()}
    books = dataclasses.asdict(training.books)
    books["reports"] = sorted(training.books.reports)
    return arrays, {"books": books, "envs": captured}


def reinstate(
    training: Training, arrays: Mapping[str, np.ndarray], notes: Mapping[str, Any]
) -> None:
    """Brings a fresh training to where `capture` was called."""
    kept = dict(notes["books"])
    reports = {name: _report(name, arrays) for name in kept.pop("reports")}
    imagined = arrays["imagined"]
    like = training.export()
    model = like.model
    own = {
        name.removeprefix("learner."): array
        for name, array in arrays.items()
        if name.startswith("learner.")
    }
    small = like._replace(model=model._replace(rows=_NO_ROWS))
    learner = unflatten_tree(small, own)
    if imagined.shape[0] != model.rows.shape[0] or imagined.shape[1] > model.rows.shape[1]:
        raise InputError(f"checkpoint: imagined has shape {imagined.shape}; same settings needed")
    rows = put_back(learner.model, imagined, model.rows.shape[1])
    training.restore(learner._replace(model=learner.model._replace(rows=rows)))
    for i, (env, state) in enumerate(zip(training.envs, notes["envs"], strict=True)):
        mine = f"env.{i}."
        own = {k.removeprefix(mine): v for k, v in arrays.items() if k.startswith(mine)}
        env.restore({"json": state, "arrays": own})
    training.books = Books(**kept, reports=reports)


def _report(name: str, arrays: Mapping[str, np.ndarray]) -> Any:
    kind = REPORTS[name]
    return kind(**{field: arrays[f"reports.{name}.{field}"] for field in kind._fields})


def newest_rows(replay: Replay) -> Float[np.ndarray, "N K W"]:
    """The rows that count, newest first; lanes that have fewer are filled up with others."""
    size = int(np.max(replay.size))
    at = _places(np.asarray(replay.num_added), size, replay.rows.shape[1])
    return np.stack([rows[i] for rows, i in zip(np.asarray(replay.rows), at, strict=True)])


def put_back(
    replay: Replay, newest: Float[np.ndarray, "N K W"], capacity: int
) -> Float[np.ndarray, "N C W"]:
    """Rings with those rows where they were; what does not count is 0."""
    rows = np.zeros((newest.shape[0], capacity, newest.shape[2]), newest.dtype)
    at = _places(np.asarray(replay.num_added), newest.shape[1], capacity)
    for ring, places, values in zip(rows, at, newest, strict=True):
        ring[places] = values
    return rows


def _places(num_added: Int[np.ndarray, " N"], size: int, capacity: int) -> Int[np.ndarray, "N K"]:
    return (num_added[:, None].astype(np.int64) - 1 - np.arange(size)) % capacity


def same_bits(a: Any, b: Any) -> bool:
    """Whether two states are equal to the last bit, NaN included."""
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(np.asarray(x).tobytes() == np.asarray(y).tobytes() for x, y in pairs)
