"""Each rule against Gymnasium's own environment on random states, and by hand at the limits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from narl.deep import termination
from narl.deep.environment import HostEnv, open_env
from narl.deep.presets import find_preset

NAN, INF = float("nan"), float("inf")
NUM_STATES = 150

# Where a random state lies around the limits: height, angle, and the spread of everything else.
RANGES = {
    "InvertedPendulum": ((-0.5, 0.5), (-0.3, 0.3), 1.0),
    "Hopper": ((0.5, 1.6), (-0.3, 0.3), 20.0),
    "HalfCheetah": ((-0.5, 0.5), (-4.0, 4.0), 5.0),
    "Walker2d": ((0.6, 2.3), (-1.4, 1.4), 20.0),
    "Ant": ((0.0, 1.3), None, 5.0),
    "Humanoid": ((0.7, 2.3), None, 5.0),
}


def put_random_state(host: HostEnv, name: str, rng: np.random.Generator) -> None:
    """Places the body at a random height and angle with random velocities."""
    (low, high), angles, spread = RANGES[name]
    env = host.env.unwrapped
    qpos, qvel = env.init_qpos.copy(), rng.normal(0.0, spread, env.model.nv) * rng.random()
    height = {"InvertedPendulum": 0, "Ant": 2, "Humanoid": 2}.get(name, 1)
    qpos[height] = rng.uniform(low, high)
    if angles is not None:
        qpos[height + 1] = rng.uniform(*angles)
        qvel[height + 1] = rng.normal()
    else:
        qpos[7:] += rng.normal(0.0, 0.1, qpos.size - 7)
    env.set_state(qpos, qvel)


PRESETS = [f"{name}-{version}" for name in RANGES for version in ("v4", "v5")]
ALL_ENTRIES = {
    "Ant-v4": {"use_contact_forces": True},
    "Ant-v5": {},
    "Humanoid-v4": {},
    "Humanoid-v5": {},
}


@pytest.mark.parametrize("env_id", PRESETS)
def test_agrees_with_gymnasium_on_random_states(env_id):
    task = find_preset(env_id)
    compare(env_id, task.env_kwargs, task.obs_keep)


@pytest.mark.parametrize("env_id", ALL_ENTRIES)
def test_agrees_with_gymnasium_on_whole_observations(env_id):
    compare(env_id, ALL_ENTRIES[env_id], None)


def compare(env_id, kwargs, keep):
    task = find_preset(env_id)
    name = env_id.partition("-")[0]
    host = open_env(task.name, 0, kwargs, scaling="none", obs_keep=keep)
    rng = np.random.default_rng(7)
    before, actions, after, said = [], [], [], []
    for _ in range(NUM_STATES):
        obs = host.reset()
        put_random_state(host, name, rng)
        action = rng.uniform(-1, 1, host.spaces.action_dim).astype(np.float32)
        step = host.step(action)
        for rows, row in zip(
            (before, actions, after, said), (obs, action, step.obs, step.terminated), strict=True
        ):
            rows.append(row)
    host.close()
    done = task.termination(*(jnp.asarray(np.array(rows)) for rows in (before, actions, after)))
    assert done.dtype == bool
    np.testing.assert_array_equal(np.asarray(done), said)
    if name != "HalfCheetah":
        assert 15 < sum(said) < NUM_STATES - 15  # both sides of the limits were tried
    else:
        assert sum(said) == 0


def by_hand(rule, *next_obs, size=None) -> list[bool]:
    rows = np.zeros((len(next_obs), size or len(next_obs[0])), np.float32)
    for row, values in zip(rows, next_obs, strict=True):
        row[: len(values)] = values
    given = jnp.asarray(rows)
    return np.asarray(rule(given, jnp.zeros((len(rows), 2)), given)).tolist()


def test_inverted_pendulum_by_hand():
    rows = [(9, 0.2, 0, 0), (9, -0.2, 99, 0), (0, 0.2001, 0, 0), (0, -0.2001, 0, 0)]
    assert by_hand(termination.inverted_pendulum, *rows) == [False, False, True, True]
    rows = [(NAN, 0, 0, 0), (0, NAN, 0, 0), (0, 0, INF, 0), (0, 0, 0, -INF)]
    assert by_hand(termination.inverted_pendulum, *rows) == [True] * 4


def test_hopper_by_hand():
    rows = [(0.71, 0), (0.7, 0), (0.69, 0), (1.2, 0.199), (1.2, 0.2), (1.2, -0.2), (500, 0)]
    done = [False, True, True, False, True, True, False]
    assert by_hand(termination.hopper, *rows, size=11) == done
    limits = [(1.2, 0, 99.9), (1.2, 0, 100), (1.2, 0, -100), (1.2, 0, NAN), (1.2, 0, INF)]
    assert by_hand(termination.hopper, *limits, size=11) == [False, True, True, True, True]
    assert by_hand(termination.hopper, (NAN, 0), (INF, 0), (1.2, NAN), size=11) == [True] * 3


def test_walker2d_by_hand():
    rows = [(0.81, 0), (0.8, 0), (1.99, 0), (2, 0), (1, 0.99), (1, 1), (1, -1), (NAN, 0), (1, NAN)]
    done = [False, True, False, True, False, True, True, True, True]
    assert by_hand(termination.walker2d, *rows, size=17) == done
    # Gymnasium looks at nothing else.
    assert by_hand(termination.walker2d, (1, 0, NAN), (1, 0, INF), size=17) == [False, False]


def test_ant_by_hand():
    rows = [(0.2,), (1.0,), (0.199,), (1.001,), (NAN,), (INF,), (0.5, NAN), (0.5, INF)]
    done = [False, False, True, True, True, True, True, True]
    assert by_hand(termination.ant, *rows, size=27) == done
    last_velocity, first_force = [0.5] + [0.0] * 25 + [NAN], [0.5] + [0.0] * 26 + [NAN]
    assert by_hand(termination.ant, last_velocity, first_force, size=105) == [True, False]


def test_humanoid_by_hand():
    rows = [(1.01,), (1.0,), (1.99,), (2.0,), (NAN,), (INF,), (1.4, NAN)]
    done = [False, True, False, True, True, True, False]
    assert by_hand(termination.humanoid, *rows, size=45) == done


def test_half_cheetah_never_ends():
    rows = [(0, 0), (NAN, 0), (INF, INF)]
    assert by_hand(termination.half_cheetah, *rows, size=17) == [False] * 3
    assert by_hand(termination.never, *rows) == [False] * 3


@pytest.mark.parametrize("name", RANGES)
def test_any_leading_axes_and_compiled(name):
    rule = find_preset(f"{name}-v5").termination
    obs = jax.random.normal(jax.random.key(0), (3, 4, 45))
    action = jnp.zeros((3, 4, 2))
    done = jax.jit(rule)(obs, action, obs)
    assert done.shape == (3, 4)
    assert done.dtype == bool
    flat = rule(obs.reshape(12, 45), action.reshape(12, 2), obs.reshape(12, 45))
    np.testing.assert_array_equal(done, flat.reshape(3, 4))
    assert rule(obs[1, 2], action[1, 2], obs[1, 2]).shape == ()
