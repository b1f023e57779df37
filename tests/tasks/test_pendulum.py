"""The sparse pendulum: dynamics against an accurate integration, rewards by hand, its picture."""

import itertools
import math

import gymnasium
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from narl.errors import InputError
from narl.tasks.pendulum import SparsePendulum, tolerance


def act(torque: float) -> np.ndarray:
    return np.array([torque], np.float32)


def placed(angle: float, velocity: float, action_cost: float = 0.1) -> SparsePendulum:
    env = SparsePendulum(action_cost)
    env.reset(seed=0)
    env.set_state([angle, velocity, 0.0])
    return env


@pytest.mark.parametrize("seed", range(5))
def test_step_agrees_with_accurate_integration(seed):
    angle, velocity, torque = np.random.default_rng(seed).uniform((-3, -9, -1), (3, 9, 1))

    def rates(time, state):
        pull = 9.81 / 0.5 * np.sin(state[0])
        return [state[1], pull + torque / (0.3 * 0.25) - 0.005 / (0.3 * 0.25) * state[1]]

    exact = solve_ivp(rates, (0, 1 / 80), [angle, velocity], rtol=1e-12, atol=1e-13).y[:, -1]
    env = placed(angle, velocity)
    obs, _, terminated, truncated, _ = env.step(np.array([torque]))
    np.testing.assert_allclose(env.get_state()[:2], exact, rtol=0, atol=1e-7)
    expected = [np.cos(exact[0]), np.sin(exact[0]), exact[1]]
    np.testing.assert_allclose(obs, expected, rtol=0, atol=5e-6)
    assert (terminated, truncated) == (False, False)


def test_pendulum_without_torque_loses_only_what_friction_takes():
    """Without friction half a swing would come back to the same height."""
    env, angle = placed(2.0, 0.0), 2.0
    energies = []
    for _ in range(400):
        env.step(act(0.0))
        angle, velocity, _ = env.get_state()
        energies.append(0.5 * velocity**2 + 9.81 / 0.5 * (math.cos(angle) + 1.0))
    assert all(later <= earlier + 1e-6 for earlier, later in itertools.pairwise(energies))
    assert 0.6 < energies[-1] / energies[0] < 0.95


@pytest.mark.parametrize(
    ("angle", "velocity", "torque", "cost", "expected"),
    [
        (0.0, 0.0, 0.0, 0.1, 1.0),
        (0.0, 0.5, 0.1, 0.2, 1.0),  # the torque is exactly .1 in float32 up to 1e-9
        (math.pi, 0.0, 0.0, 0.1, 0.0),  # cos θ = −1 is 19.5 margins away
        (math.pi, 0.0, 1.0, 0.1, -0.1),  # a torque 9 margins away costs all of w
        (math.pi, 0.0, -5.0, 0.2, -0.2),  # clipped to −1
        (0.0, 1.0, 0.0, 0.1, 0.1),  # the velocity is one margin away
        (0.0, -1.5, 0.0, 0.0, 1e-4),  # two margins: .1⁴
        (math.acos(0.85), 0.0, 0.0, 0.0, 0.1),  # the cosine is one margin away
        (math.acos(0.9), 1.0, 0.2, 0.1, 0.1**0.25 * 0.1 - 0.09),  # and the torque one as well
        (math.pi, 0.0, 1.0, 0.0, 0.0),
    ],
)
def test_reward_is_for_the_state_in_which_the_torque_is_applied(
    angle, velocity, torque, cost, expected
):
    reward = placed(angle, velocity, cost).step(act(torque))[1]
    assert reward == pytest.approx(expected, abs=1e-6)


def test_tolerance_is_one_inside_and_a_tenth_at_the_margin():
    assert [tolerance(x, -0.5, 0.5, 0.5) for x in (-0.5, 0.0, 0.5)] == [1.0, 1.0, 1.0]
    assert tolerance(-1.0, -0.5, 0.5, 0.5) == pytest.approx(0.1)
    assert tolerance(1.25, -0.5, 0.5, 0.5) == pytest.approx(0.1 ** (1.5**2))


def test_episode_begins_hanging_at_rest_and_lasts_400_steps():
    env = gymnasium.make("narl/SparsePendulum-v0")
    obs, _ = env.reset(seed=5)
    np.testing.assert_allclose(obs, [-1.0, 0.0, 0.0], atol=1e-6)
    ends = [env.step(act(0.0))[2:4] for _ in range(400)]
    assert ends == [(False, False)] * 399 + [(False, True)]


def test_picture_shows_the_bob_where_it_is():
    env = SparsePendulum(render_mode="rgb_array")
    env.reset(seed=0)
    env.set_state([0.0, 0.0, 0.0])
    upright = env.render()
    dark = np.argwhere(upright.sum(axis=-1) < 400)
    assert upright.shape == (240, 320, 3)
    assert dark[:, 0].min() < 60  # the bob is above the middle, row 120
    assert dark[:, 0].max() < 135
    env.set_state([math.pi, 0.0, 0.0])
    # Turned upside down it is the same picture; rounding may differ at the edges.
    assert np.abs(env.render().astype(int) - upright[::-1]).max() <= 1
    assert SparsePendulum().render() is None


@pytest.mark.parametrize("cost", [-0.1, math.nan, "much"])
def test_wrong_action_cost_is_refused(cost):
    with pytest.raises(InputError, match=r"^action_cost: "):
        SparsePendulum(cost)
