"""Termination rules: against Gymnasium on random states, at the limits, and functions of users."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from narl.deep import termination
from narl.deep.environment import HostEnv, open_env
from narl.deep.presets import find_preset
from narl.errors import InputError

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
    """Place the body at a random height and angle with random velocities."""
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
WHOLE_OBSERVATIONS = {
    "Ant-v4": {"use_contact_forces": True},
    "Ant-v5": {},
    "Humanoid-v4": {},
    "Humanoid-v5": {},
}


@pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [*((env_id, None) for env_id in PRESETS), *WHOLE_OBSERVATIONS.items()],
)
def test_rule_agrees_with_gymnasium_on_random_states(env_id, kwargs):
    preset = find_preset(env_id)
    name = env_id.partition("-")[0]
    if kwargs is None:
        host = open_env(env_id, 0, preset.env_kwargs, scaling="none", obs_keep=preset.obs_keep)
    else:
        host = open_env(env_id, 0, kwargs, scaling="none")
    rng = np.random.default_rng(7)
    before, actions, after, terminated = [], [], [], []
    for _ in range(NUM_STATES):
        obs = host.reset()
        put_random_state(host, name, rng)
        action = rng.uniform(-1, 1, host.spaces.action_dim).astype(np.float32)
        step = host.step(action)
        for rows, row in zip(
            (before, actions, after, terminated),
            (obs, action, step.obs, step.terminated),
            strict=True,
        ):
            rows.append(row)
    host.close()
    done = preset.termination(*(jnp.asarray(np.array(rows)) for rows in (before, actions, after)))
    assert done.dtype == bool
    np.testing.assert_array_equal(np.asarray(done), terminated)
    if name != "HalfCheetah":
        assert 15 < sum(terminated) < NUM_STATES - 15  # both sides of the limits were tried
    else:
        assert sum(terminated) == 0


CLASSIC = {
    "CartPole-v1": lambda rng: rng.uniform((-2.6, -2, -0.25, -2), (2.6, 2, 0.25, 2)),
    "Acrobot-v1": lambda rng: rng.uniform((-np.pi, -np.pi, -4, -9), (np.pi, np.pi, 4, 9)),
    "MountainCar-v0": lambda rng: rng.uniform((0.4, -0.07), (0.6, 0.07)),
}


@pytest.mark.parametrize("env_id", CLASSIC)
def test_rule_of_classic_control_agrees_with_gymnasium_on_random_states(env_id):
    rng, rule = np.random.default_rng(7), find_preset(env_id).termination
    host = open_env(env_id, 0, scaling="none")
    outcomes = []
    for _ in range(NUM_STATES):
        host.reset()
        host.env.unwrapped.state = CLASSIC[env_id](rng)
        action = np.eye(host.spaces.action_dim, dtype=np.float32)[rng.integers(2)]
        step = host.step(action)
        obs = jnp.asarray(step.obs)
        outcomes.append((bool(rule(obs, jnp.asarray(action), obs)), step.terminated))
    host.close()
    done, terminated = zip(*outcomes, strict=True)
    assert done == terminated
    assert 15 < sum(terminated) < NUM_STATES - 15


def test_rule_of_mountain_car_holds_for_its_own_goal_only():
    assert find_preset("MountainCar-v0", {"goal_velocity": 0.02}).termination is None


LIMITS = {
    "inverted_pendulum": (
        4,
        [(9, 0.2), (9, -0.2, 99), (0, -0.199)],
        [(0, 0.2001), (0, -0.2001), (NAN, 0), (0, NAN), (0, 0, INF), (0, 0, 0, -INF)],
    ),
    "hopper": (
        11,
        [(0.71, 0), (1.2, 0.199), (500, 0), (1.2, 0, 99.9)],
        [(0.7, 0), (0.69, 0), (1.2, 0.2), (1.2, -0.2), (1.2, 0, 100), (1.2, 0, -100)]
        + [(1.2, 0, NAN), (1.2, 0, INF), (NAN, 0), (INF, 0), (1.2, NAN)],
    ),
    "walker2d": (
        17,
        [(0.81, 0), (1.99, 0), (1, 0.99), (1, 0, NAN), (1, 0, INF)],
        [(0.8, 0), (2, 0), (1, 1), (1, -1), (NAN, 0), (1, NAN)],
    ),
    "ant": (
        105,
        [(0.2,), (1.0,), [0.5] + [0.0] * 26 + [NAN]],  # the last: a contact force
        [(0.199,), (1.001,), (NAN,), (INF,), (0.5, NAN), (0.5, INF), [0.5] + [0.0] * 25 + [NAN]],
    ),
    "humanoid": (45, [(1.01,), (1.99,), (1.4, NAN)], [(1.0,), (2.0,), (NAN,), (INF,)]),
    "mountain_car": (2, [(0.4999, 0.01), (0.5, -0.001)], [(0.5, 0.0), (0.6, 0.07)]),
    "cart_pole": (
        4,
        [(2.39, 9, 0.2), (-2.39, 9, -0.2), (0, 0, 0, 99)],
        [(2.41,), (-2.41,), (0, 0, 0.21), (0, 0, -0.21)],
    ),
    # Hanging and horizontal; then upright, and with the second link pointing up from the first.
    "acrobot": (6, [(1, 0, 1, 0), (0, 1, 1, 0)], [(-1, 0, 1, 0), (-0.8, 0.6, 0.8, 0.6)]),
    "mountain_car_continuous": (
        2,
        [(0.4499, 0.01), (0.45, -0.001), (0.6, -0.07), (NAN, 0.01), (0.5, NAN)],
        [(0.45, 0.0), (0.46, 0.0), (0.6, 0.07)],
    ),
    "never": (2, [(0, 0), (NAN, 0), (INF, INF)], []),
}
"""Size of observations, and first entries of observations that continue and that terminate."""


@pytest.mark.parametrize("name", LIMITS)
def test_rule_at_its_limits(name):
    size, continuing, terminal = LIMITS[name]
    rows = np.zeros((len(continuing) + len(terminal), size), np.float32)
    for row, entries in zip(rows, [*continuing, *terminal], strict=True):
        row[: len(entries)] = entries
    rule, obs = getattr(termination, name), jnp.asarray(rows)
    done = rule(obs, jnp.zeros((len(rows), 2)), obs)
    assert done.tolist() == [False] * len(continuing) + [True] * len(terminal)


@pytest.mark.parametrize("name", RANGES)
def test_rule_takes_any_leading_axes_and_compiles(name):
    rule = find_preset(f"{name}-v5").termination
    obs = np.random.default_rng(0).normal(size=(3, 4, 45)).astype(np.float32)
    inputs = (obs, np.zeros((3, 4, 2), np.float32), obs)
    done = jax.jit(rule)(*inputs)
    assert (done.shape, done.dtype) == ((3, 4), bool)
    np.testing.assert_array_equal(done, jax.jit(jax.vmap(jax.vmap(rule)))(*inputs))


@pytest.mark.parametrize(
    "function",
    [
        lambda obs, action, next_obs: next_obs[0] > 3,
        lambda obs, action, next_obs: next_obs[..., 0] > 3,
        lambda obs, action, next_obs: next_obs[:, 0] > 3,
        lambda obs, action, next_obs: jnp.where(next_obs[..., :1] > 3, 1.0, 0.0),
        lambda obs, action, next_obs: next_obs[:, :1] > 3,
    ],
)
def test_users_function_may_take_one_transition_or_many(function):
    rule = termination.batched_termination(function, 2, 1)
    next_obs = jnp.array([[4.0, 0.0], [2.0, 9.0], [3.5, -1.0]])
    done = rule(jnp.zeros((3, 2)), jnp.zeros((3, 1)), next_obs)
    assert (done.dtype, done.tolist()) == (bool, [True, False, True])


@pytest.mark.parametrize(
    ("function", "line"),
    [
        (lambda obs, action: True, "termination: the function must take"),
        (lambda obs, action, next_obs: next_obs, r"it gives shape \(2,\)"),
        (lambda obs, action, next_obs: bool(next_obs[0] > 3), "as JAX arrays"),
    ],
)
def test_unusable_function_of_user_is_refused(function, line):
    with pytest.raises(InputError, match=line):
        termination.batched_termination(function, 2, 1)


def test_value_that_is_no_termination_is_refused():
    termination.check_termination("learned")
    for value, names_allowed in [(0.7, True), ("learned", False)]:
        with pytest.raises(InputError, match=r"^termination: .* given; it must be a function"):
            termination.check_termination(value, names_allowed=names_allowed)
