"""Pusher and HalfCheetah with a price on actions, against Gymnasium's own rewards."""

import gymnasium
import numpy as np
import pytest

from narl.deep.make_environment import make_env
from narl.errors import InputError


@pytest.mark.parametrize("cost", [0.0, 0.1, 0.5])
def test_pusher_weighs_distances_and_actions(cost):
    env, plain = make_env(f"narl/Pusher-cost{cost:g}-v0", {}), make_env("Pusher-v5", {})
    assert env.reset(seed=1)[0].tobytes() == plain.reset(seed=1)[0].tobytes()
    env.action_space.seed(0)
    for _ in range(150):
        action = env.action_space.sample()
        obs, reward, _, truncated, _ = env.step(action)
        _, _, _, _, info = plain.step(action)
        near, distance = info["reward_near"], info["reward_dist"]
        expected = near + 1.25 * distance - cost * np.square(action).sum()
        assert reward == pytest.approx(expected, abs=1e-6)
    assert truncated
    assert plain.spec.max_episode_steps != 150
    # Entries 14 to 22: hand, object and goal, after the last of five substeps but one.
    assert near == pytest.approx(-0.5 * np.linalg.norm(obs[17:20] - obs[14:17]), abs=1e-6)
    env.close()
    plain.close()


@pytest.mark.parametrize("cost", [0.1, 0.5])
def test_half_cheetah_earns_speed_and_pays_for_actions(cost):
    env = make_env(f"narl/HalfCheetah-cost{cost:g}-v0", {})
    env.reset(seed=1)
    env.action_space.seed(0)
    x = env.unwrapped.data.qpos[0]
    for _ in range(20):
        action = env.action_space.sample()
        _, reward, *_ = env.step(action)
        moved, x = env.unwrapped.data.qpos[0] - x, env.unwrapped.data.qpos[0]
        assert reward == pytest.approx(moved / 0.05 - cost * np.square(action).sum(), abs=1e-5)
    assert env.spec.max_episode_steps == 1000
    env.close()


@pytest.mark.parametrize("name", ["Pusher", "HalfCheetah"])
def test_cost_is_a_keyword_that_is_checked(name):
    with pytest.raises(InputError, match=r"^action_cost: -2 is too small"):
        make_env(f"narl/{name}-v0", {"action_cost": -2})
    assert gymnasium.spec(f"narl/{name}-v0").kwargs == {}
