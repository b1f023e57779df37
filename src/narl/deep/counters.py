"""What the host keeps of a training: who its lanes are, and what it counts."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class LaneSpec:
    """One seed of one configuration; lanes of one training share everything else."""

    seed: int
    algo: str
    radius: float | None


@dataclasses.dataclass
class Books:
    """What the host keeps: counters and what the diagnostics of this epoch need."""

    step: int = 0
    episode_return: list[float] = dataclasses.field(default_factory=list)
    finished: list[list[float]] = dataclasses.field(default_factory=list)
    """Per lane, returns of the episodes that ended in this epoch."""
    num_episodes: list[int] = dataclasses.field(default_factory=list)
    solved_step: list[int | None] = dataclasses.field(default_factory=list)
    confirmed_step: list[int | None] = dataclasses.field(default_factory=list)
    """From when on the mean of ten episodes reached the environment's own threshold."""
    reports: dict[str, Any] = dataclasses.field(default_factory=dict)
    """What the ensemble said of itself in this epoch."""
    seconds: dict[str, float] = dataclasses.field(
        default_factory=lambda: dict.fromkeys(
            ("env", "model", "rollout", "sac", "eval", "checkpoint"), 0.0
        )
    )


def new_books(num_lanes: int) -> Books:
    """Of a training that has not begun."""
    return Books(
        episode_return=[0.0] * num_lanes,
        finished=[[] for _ in range(num_lanes)],
        num_episodes=[0] * num_lanes,
        solved_step=[None] * num_lanes,
        confirmed_step=[None] * num_lanes,
    )
