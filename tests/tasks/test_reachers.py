"""The sparse reachers with two and seven joints: rewards by hand and kinematics."""

import copy

import gymnasium
import numpy as np
import pytest

from narl.errors import InputError
from narl.tasks.seven_joint_reacher import SparseArmReacher
from narl.tasks.two_joint_reacher import SparseReacher


def close_all(*envs: gymnasium.Env) -> None:
    for env in envs:
        env.close()


# --- two joints -------------------------------------------------------------------------------


@pytest.mark.parametrize(("offset", "goal_reward"), [(0.03, 100.0), (0.048, 100.0), (0.055, 0.0)])
@pytest.mark.parametrize("cost", [0.0, 1.0])
def test_reacher_earns_100_near_the_target_minus_the_cost(offset, goal_reward, cost):
    env = SparseReacher(cost)
    env.reset(seed=0)
    qpos, qvel = np.zeros(4), np.zeros(4)
    qpos[2] = 0.21 + offset  # the stretched arm ends at x = .1 + .11
    env.set_state(qpos, qvel)
    action = np.array([0.02, -0.01], np.float32)
    _, reward, terminated, truncated, info = env.step(action)
    assert reward == pytest.approx(goal_reward - cost * (0.02**2 + 0.01**2), abs=1e-9)
    assert info["distance"] == pytest.approx(offset, abs=2e-3)
    assert (terminated, truncated) == (False, False)
    env.close()


def test_reacher_moves_as_that_of_gymnasium():
    ours, theirs = gymnasium.make("narl/SparseReacher-v0"), gymnasium.make("Reacher-v5")
    assert ours.reset(seed=3)[0].tobytes() == theirs.reset(seed=3)[0].tobytes()
    theirs.action_space.seed(0)
    for _ in range(50):
        action = theirs.action_space.sample()
        obs, *_, truncated, _ = ours.step(action)
        assert obs.tobytes() == theirs.step(action)[0].tobytes()
    assert truncated
    close_all(ours, theirs)


@pytest.mark.parametrize("make", [SparseReacher, SparseArmReacher])
def test_copied_environment_keeps_the_cost_and_a_wrong_one_is_refused(make):
    env = make(0.4)
    copied = copy.deepcopy(env)
    assert copied.action_cost == 0.4
    close_all(env, copied)
    with pytest.raises(InputError, match=r"^action_cost: -1"):
        make(-1)


# --- seven joints -----------------------------------------------------------------------------


def rotation(axis: str, angle: float) -> np.ndarray:
    c, s = np.cos(angle), np.sin(angle)
    matrices = {
        "x": [[1, 0, 0], [0, c, -s], [0, s, c]],
        "y": [[c, 0, s], [0, 1, 0], [-s, 0, c]],
        "z": [[c, -s, 0], [s, c, 0], [0, 0, 1]],
    }
    return np.array(matrices[axis], float)


def hand_position(angles: np.ndarray) -> np.ndarray:
    """Return the position of the hand by a product of rotations."""
    axes, lengths = "zyxyxyx", (0.1, 0.0, 0.4, 0.0, 0.321, 0.0, 0.16828)
    position, frame = np.array([0.0, -0.188, 0.0]), np.eye(3)
    for axis, angle, length in zip(axes, angles, lengths, strict=True):
        frame = frame @ rotation(axis, angle)
        position = position + frame @ np.array([length, 0.0, 0.0])
    return position


@pytest.mark.parametrize("cost", [0.0, 0.5])
def test_arm_earns_by_distance_and_pays_for_torque(cost):
    env = gymnasium.make("narl/SparseArmReacher-v0", action_cost=cost)
    obs, _ = env.reset(seed=2)
    rng = np.random.default_rng(0)
    for _ in range(20):
        action = rng.normal(0.0, 1.0, 7).astype(np.float32)
        obs, reward, terminated, truncated, info = env.step(action)
        squared_distance = np.square(hand_position(obs[:7]) - obs[14:]).sum()
        price = np.exp(-np.square(action.astype(float)).sum() / 4) - 1
        assert reward == pytest.approx(np.exp(-squared_distance / 0.2025) + cost * price, abs=1e-6)
        assert info["distance"] == pytest.approx(np.sqrt(squared_distance))
        assert (terminated, truncated) == (False, False)
    assert np.abs(obs[:7]).max() > 0.05  # the arm moved
    env.close()


def test_arm_begins_stretched_at_rest_with_goals_around_their_centre():
    env = SparseArmReacher()
    first = np.array([env.reset(seed=seed)[0] for seed in range(200)])
    assert (first[:, :14] == 0).all()
    goals = first[:, 14:]
    np.testing.assert_allclose(goals.mean(axis=0), [0.0, 0.25, 0.0], atol=0.025)
    np.testing.assert_allclose(goals.std(axis=0), 0.1, rtol=0.2)
    assert (env.action_space.low == -20).all()
    assert (env.action_space.high == 20).all()
    assert env.dt == pytest.approx(0.02)
    env.close()


def test_torque_turns_the_shoulder_as_inertia_and_damping_say():
    """A constant torque on the first joint of the stretched arm leads to torque / damping."""
    env = SparseArmReacher()
    env.reset(seed=0)
    action = np.zeros(7, np.float32)
    action[0] = 2.0
    for _ in range(100):
        obs = env.step(action)[0]
    assert obs[7] == pytest.approx(0.2, rel=0.03)
    env.close()
