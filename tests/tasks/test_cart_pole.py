"""The sparse cart-pole: closed form against MuJoCo's simulation, rewards by hand, its picture."""

import math

import gymnasium
import mujoco
import numpy as np
import pytest

from narl.tasks.cart_pole import SparseCartPole

MODEL = """
<mujoco>
  <option timestep="0.01" integrator="RK4"><flag contact="disable"/></option>
  <worldbody>
    <body>
      <joint name="slide" type="slide" axis="1 0 0" limited="true" range="-1.8 1.8"
             solreflimit=".08 1" damping="5e-4"/>
      <geom type="box" size=".2 .15 .1" mass="1"/>
      <body>
        <joint type="hinge" axis="0 1 0" damping="2e-6"/>
        <geom type="capsule" fromto="0 0 0 0 0 1" size=".045" mass=".1"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor joint="slide" gear="10" ctrllimited="true" ctrlrange="-1 1"/></actuator>
</mujoco>
"""
"""The parameters of dm_control's cart-pole."""


def placed(x: float, angle: float, velocity: float, spin: float, cost: float = 0.1):
    env = SparseCartPole(cost)
    env.reset(seed=0)
    env.set_state([x, angle, velocity, spin, 0.0])
    return env


def act(push: float) -> np.ndarray:
    return np.array([push], np.float32)


def simulated(start: np.ndarray, pushes: np.ndarray) -> np.ndarray:
    """Return MuJoCo's states after every second physics step."""
    model = mujoco.MjModel.from_xml_string(MODEL)
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = start[:2], start[2:]
    states = []
    for push in pushes:
        data.ctrl[:] = push
        mujoco.mj_step(model, data, nstep=2)
        states.append([*data.qpos, *data.qvel])
    return np.array(states)


@pytest.mark.parametrize("seed", range(4))
def test_trajectory_agrees_with_mujoco_between_the_ends_of_the_rail(seed):
    rng = np.random.default_rng(seed)
    start = rng.uniform((-0.3, -3, -1, -5), (0.3, 3, 1, 5))
    pushes = rng.uniform(-1, 1, 50).astype(np.float32)
    env = placed(*start)
    states = []
    for push in pushes:
        obs = env.step(act(push))[0]
        states.append(env.get_state()[:4])
    expected = simulated(start, pushes)
    assert np.abs(expected[:, 0]).max() < 1.8
    np.testing.assert_allclose(states, expected, rtol=0, atol=1e-11)
    x, angle, velocity, spin = expected[-1]
    np.testing.assert_allclose(
        obs, [x, np.cos(angle), np.sin(angle), velocity, spin], rtol=1e-6, atol=1e-6
    )


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_steps_at_the_ends_of_the_rail_agree_with_mujoco(side):
    """Single steps, since the cart's jumps there are chaotic; MuJoCo's solver iterates."""
    state, touched = np.array([side * 1.5, 2.0, side, 1.0]), 0
    for push in np.random.default_rng(1).uniform(-0.2, 1.0, 150) * side:
        expected = simulated(state, np.array([push]))[0]
        env = placed(*state)
        env.step(np.array([push]))
        np.testing.assert_allclose(env.get_state()[:4], expected, rtol=0, atol=1e-6)
        touched += abs(expected[0]) > 1.8
        state = expected
    assert touched > 20


@pytest.mark.parametrize(
    ("state", "push", "cost", "expected"),
    [
        ((0.0, 0.0, 0.0, 0.0), 0.0, 0.1, 2.0),  # both physics steps earn 1
        ((0.0, math.pi, 0.0, 0.0), 0.0, 0.1, 0.0),
        ((0.0, math.pi, 0.0, 0.0), 1.0, 0.1, -0.2),  # both cost K·|a|
        ((0.0, math.pi, 0.0, 0.0), -0.5, 0.4, -0.4),
        ((0.0, math.pi, 0.0, 0.0), 3.0, 0.25, -0.5),  # clipped to 1
        ((0.0, 0.09, 0.0, 0.0), 0.0, 0.1, 2.0),  # cos .09 = .99595
        ((0.0, 0.11, 0.0, 0.0), 0.0, 0.1, 0.0),  # cos .11 = .99396
        ((0.26, 0.0, 0.0, 0.0), 0.0, 0.1, 0.0),
        ((0.235, 0.0, 1.0, 0.0), 0.0, 0.1, 1.0),  # x = .245 and then .255
        ((-0.235, 0.0, -1.0, 0.0), 0.0, 0.1, 1.0),
    ],
)
def test_reward_is_the_sum_of_two_physics_steps(state, push, cost, expected):
    reward = placed(*state, cost=cost).step(act(push))[1]
    assert reward == pytest.approx(expected, abs=1e-6)


def test_first_state_is_near_hanging_and_drawn_from_the_seed():
    env = SparseCartPole()
    first = np.array([env.reset(seed=seed)[0] for seed in range(400)])
    hanging = np.array([0.0, -1.0, 0.0, 0.0, 0.0])
    assert np.abs(first - hanging).max() < 0.05
    np.testing.assert_allclose(first[:, [0, 2, 3, 4]].std(axis=0), 0.01, rtol=0.15)
    assert env.reset(seed=7)[0].tobytes() == first[7].tobytes()
    assert env.reset()[0].tobytes() != first[7].tobytes()


def test_episode_lasts_500_steps():
    env = gymnasium.make("narl/SparseCartPole-v0")
    env.reset(seed=0)
    ends = [env.step(act(0.5))[2:4] for _ in range(500)]
    assert ends == [(False, False)] * 499 + [(False, True)]


def test_picture_shows_the_cart_where_it_is():
    env = SparseCartPole(render_mode="rgb_array")
    env.reset(seed=0)
    columns = []
    for x in (-1.1, 1.1):
        env.set_state([x, math.pi, 0.0, 0.0, 0.0])
        picture = env.render().astype(int)
        blue = picture[..., 2] - picture[..., 0] > 60
        columns.append(np.argwhere(blue)[:, 1].mean())
    np.testing.assert_allclose(columns, [79.5, 239.5], atol=1.0)  # a quarter of 320, three quarters
    assert SparseCartPole().render() is None
