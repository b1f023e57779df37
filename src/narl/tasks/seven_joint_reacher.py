"""Sparse reacher with an arm of seven joints, the task of PETS and H-UCRL."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, ClassVar

import mujoco
import numpy as np
from gymnasium.envs.mujoco import MujocoEnv
from gymnasium.spaces import Box
from gymnasium.utils import EzPickle
from jaxtyping import Float

from narl.validation import check_number

FRAME_SKIP = 2
GOAL_CENTRE, GOAL_SPREAD = (0.0, 0.25, 0.0), 0.1
"""Mean and standard deviation of the goal's coordinates."""
LENGTH_SCALE, ACTION_SCALE = 0.45, 2.0
_CAMERA = {"distance": 2.0, "elevation": -30.0, "azimuth": 270.0}


class SparseArmReacher(MujocoEnv, EzPickle):
    """Move the hand e of an arm to a goal g with seven torques a in [−20, 20].

    The reward is exp(−‖e − g‖²/.45²) + w·(exp(−‖a‖²/4) − 1), w = ``action_cost``. An observation is
    the seven angles, their velocities and the goal. Other keywords are those of `MujocoEnv`.
    """

    metadata: ClassVar[dict[str, Any]] = {  # type: ignore[misc]
        "render_modes": ["human", "rgb_array", "depth_array", "rgbd_tuple"],
        "render_fps": 50,
    }

    def __init__(self, action_cost: float = 0.1, **kwargs: Any) -> None:
        self.action_cost = check_number("action_cost", action_cost, whole=False, minimum=0.0)
        super().__init__(
            str(Path(__file__).with_suffix(".xml")),
            FRAME_SKIP,
            Box(-np.inf, np.inf, (17,), np.float64),
            default_camera_config=kwargs.pop("default_camera_config", _CAMERA),
            **kwargs,
        )
        EzPickle.__init__(self, action_cost, **kwargs)  # copies are made with these arguments

    def step(  # type: ignore[override]
        self, action: Float[np.ndarray, "7"]
    ) -> tuple[Float[np.ndarray, "17"], float, bool, bool, dict[str, Any]]:
        """Apply torques for .02 s; return observation, reward, False, False and the distance."""
        self.do_simulation(action, self.frame_skip)
        mujoco.mj_kinematics(self.model, self.data)  # the hand lags behind the joints without it
        offset = self.data.site("hand").xpos - self.data.mocap_pos[0]
        squared_distance = float(offset @ offset)
        price = math.exp(-float(np.square(action).sum()) / ACTION_SCALE**2) - 1.0
        reward = math.exp(-squared_distance / LENGTH_SCALE**2) + self.action_cost * price
        if self.render_mode == "human":
            self.render()
        return self._observe(), reward, False, False, {"distance": math.sqrt(squared_distance)}

    def reset_model(self) -> Float[np.ndarray, "17"]:
        """Draw a goal and stretch the arm at rest; return the observation."""
        goal = np.array(GOAL_CENTRE) + GOAL_SPREAD * self.np_random.standard_normal(3)
        self.data.mocap_pos[0] = goal
        self.set_state(self.init_qpos, self.init_qvel)
        return self._observe()

    def _observe(self) -> Float[np.ndarray, "17"]:
        return np.concatenate([self.data.qpos, self.data.qvel, self.data.mocap_pos[0]])
