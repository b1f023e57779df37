"""Functions that make Gymnasium's Pusher and HalfCheetah with another price on actions."""

from __future__ import annotations

from typing import Any

from gymnasium.envs.mujoco.half_cheetah_v5 import HalfCheetahEnv
from gymnasium.envs.mujoco.pusher_v5 import PusherEnv

from narl.validation import check_number

PUSHER_DISTANCE_WEIGHT = 1.25


def make_pusher(action_cost: float = 0.1, **kwargs: Any) -> PusherEnv:
    """Return Pusher-v5 with the reward −1.25·‖object − goal‖ − .5·‖object − hand‖ − w·‖a‖².

    w is ``action_cost``; other keywords are Gymnasium's.
    """
    cost = check_number("action_cost", action_cost, whole=False, minimum=0.0)
    return PusherEnv(
        reward_dist_weight=PUSHER_DISTANCE_WEIGHT, reward_control_weight=cost, **kwargs
    )


def make_half_cheetah(action_cost: float = 0.1, **kwargs: Any) -> HalfCheetahEnv:
    """Return HalfCheetah-v5 with the reward ẋ − w·‖a‖², w = ``action_cost``.

    Gymnasium's own w is .1; other keywords are Gymnasium's.
    """
    cost = check_number("action_cost", action_cost, whole=False, minimum=0.0)
    return HalfCheetahEnv(ctrl_cost_weight=cost, **kwargs)
