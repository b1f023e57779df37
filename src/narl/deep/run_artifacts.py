"""What the run folder of a training holds: networks, curves and a summary, of some of its lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from narl.deep.checkpoint import flatten_tree
from narl.deep.config import Settings
from narl.deep.policy import Interface, interface_of
from narl.deep.presets import find_preset
from narl.deep.trainer import Training

ALL = slice(None)
"""Every lane."""


def networks(training: Training, lanes: slice = ALL) -> dict[str, np.ndarray]:
    """What was learned: actor, critics, ensemble, termination."""
    trees = training.runner.export(
        training.state,
        lambda learner: {
            "sac": learner.sac,
            "ensemble": learner.ensemble,
            "ending": learner.ending,
        },
    )
    there = flatten_tree({name: tree for name, tree in trees.items() if tree is not None})
    return {name: array[lanes] for name, array in there.items()}


def interface(training: Training) -> Interface:
    """What the policy sees and gives."""
    return interface_of(training.envs[0], sees_first_entries(training.settings.env))


def sees_first_entries(env_id: str) -> bool:
    """Whether the policy sees the first entries of what `gymnasium.make` gives by default."""
    task = find_preset(env_id)
    return task is not None and (task.obs_keep is not None or bool(task.env_kwargs))


CURVES = ("eval_return", "eval_length", "train_return", "model_return", "estimation_error")


def curves(rows: Sequence[dict[str, Any]]) -> dict[str, np.ndarray]:
    """What a chart needs, [epochs] and [epochs, seeds]."""
    found = {"step": np.array([row["step"] for row in rows], np.int64)}
    for name in CURVES:
        if rows and name in rows[0]:
            values = [[np.nan if x is None else x for x in row[name]] for row in rows]
            found[name] = np.array(values, np.float64)
    return found


def of_lanes(row: dict[str, Any], lanes: slice) -> dict[str, Any]:
    """A line of the journal for some lanes: what is a list has an entry for each."""
    return {name: x[lanes] if isinstance(x, list) else x for name, x in row.items()}


def summary(
    settings: Settings,
    training: Training,
    rows: Sequence[dict[str, Any]],
    seconds: dict[str, float],
    lanes: slice = ALL,
) -> dict[str, Any]:
    """What `narl train --json` prints; ``seconds`` are those of all processes.

    Lanes that were trained together share their seconds; ``lanes`` says how many they were.
    """
    books = training.books
    learned = max(books.step - settings.learn_after, 0)
    return {
        "solved_step": books.solved_step[lanes],
        "confirmed_step": books.confirmed_step[lanes],
        "final_return": rows[-1]["eval_return"],
        "steps": books.step,
        "policy_steps": max(books.step - settings.initial_steps, 0),
        "updates": learned * settings.updates_per_step,
        "episodes": books.num_episodes[lanes],
        "lanes": len(training.specs),
        "seconds": {
            "compile": seconds["compile"],
            **books.seconds,
            "total": seconds["total"],
        },
    }
