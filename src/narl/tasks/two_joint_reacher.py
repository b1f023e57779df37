"""Sparse Reacher: Gymnasium's arm of two joints, rewarded only while it is at the target."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.envs.mujoco.reacher_v5 import ReacherEnv
from gymnasium.utils import EzPickle
from jaxtyping import Float

from narl.validation import check_number

GOAL_DISTANCE, GOAL_REWARD = 0.05, 100.0


class SparseReacher(ReacherEnv):
    """Reacher-v5 with the reward 100·[distance < .05] − c·‖a‖², c = ``action_cost``.

    The distance is that of fingertip and target in the observation. Other keywords are Gymnasium's.
    """

    def __init__(self, action_cost: float = 0.1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.action_cost = check_number("action_cost", action_cost, whole=False, minimum=0.0)
        EzPickle.__init__(self, action_cost, **kwargs)  # copies are made with these arguments

    def step(  # type: ignore[override]
        self, action: Float[np.ndarray, "2"]
    ) -> tuple[Float[np.ndarray, "10"], float, bool, bool, dict[str, Any]]:
        """Apply two torques; return observation, reward, False, False and the distance."""
        obs, _, terminated, truncated, _ = super().step(action)
        distance = float(np.linalg.norm(obs[-2:]))
        cost = self.action_cost * float(np.square(action).sum())
        reward = GOAL_REWARD * (distance < GOAL_DISTANCE) - cost
        return obs, reward, terminated, truncated, {"distance": distance}
