"""Conversion of observations and actions between environments and networks."""

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from narl.deep.spaces import (
    check_spaces,
    flatten_obs,
    make_spaces,
    unflatten_action,
    unscale_action,
    unscale_obs,
)
from narl.errors import InputError


class Still(gymnasium.Env):
    """An environment with spaces and nothing else."""

    def __init__(self, obs_space, action_space=None):
        self.observation_space = obs_space
        self.action_space = Box(-1.0, 1.0, (2,)) if action_space is None else action_space


def spaces_of(obs_space=None, action_space=None, scaling="bounds"):
    return make_spaces(Still(obs_space or Box(-1.0, 1.0, (3,)), action_space), scaling)


def act(action_space, *action):
    return unflatten_action(
        spaces_of(action_space=action_space), action_space, np.array(action, np.float32)
    )


def test_bounded_entries_are_mapped_to_unit_interval():
    low = np.array([-2.0, 0.0, -np.inf, -1e7, 3.0, -5.0])
    high = np.array([2.0, 10.0, 1.0, 1e7, 3.0, np.inf])
    spaces = spaces_of(Box(low, high, dtype=np.float64))
    assert spaces.obs_shift.tolist() == [0, 5, 0, 0, 0, 0]
    assert spaces.obs_scale.tolist() == [2, 5, 1, 1, 1, 1]
    flat = flatten_obs(spaces, np.array([2.0, 0.0, 7.0, 8.0, 3.0, 4.0]))
    assert flat.dtype == np.float32
    assert flat.tolist() == [1, -1, 7, 8, 3, 4]
    assert unscale_obs(spaces, flat).tolist() == [2, 0, 7, 8, 3, 4]
    assert unscale_obs(spaces, jnp.asarray(flat)).tolist() == [2, 0, 7, 8, 3, 4]


def test_scaling_none_changes_nothing():
    spaces = spaces_of(Box(0.0, 10.0, (2,)), scaling="none")
    assert flatten_obs(spaces, np.array([10.0, 5.0])).tolist() == [10, 5]


def test_entries_with_very_wide_bounds_are_not_scaled():
    low, high = np.zeros(2), np.array([1e6, 0.999e6])
    assert spaces_of(Box(low, high, dtype=np.float64)).obs_scale.tolist() == [1, 0.4995e6]
    largest = np.finfo(np.float64).max
    assert spaces_of(Box(-largest, largest, (1,), np.float64)).obs_scale.tolist() == [1]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (2, 1, 2, 1)])
def test_observation_of_any_shape_and_dtype_is_flattened(shape, dtype):
    spaces = spaces_of(Box(0, 100, shape, dtype))
    flat = flatten_obs(spaces, np.full(shape, 75, dtype))
    assert spaces.obs_dim == max(1, int(np.prod(shape)))
    assert flat.dtype == np.float32
    assert flat.tolist() == [0.5] * spaces.obs_dim


def test_actions_are_mapped_to_bounds_and_clipped():
    box = Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, 10.0], np.float32))
    assert act(box, -1, -1).tolist() == [-2, 0]
    assert act(box, 0, 0).tolist() == [0, 5]
    assert act(box, 0.5, 1).tolist() == [1, 10]
    assert act(box, 3, -3).tolist() == [2, 0]


def test_actions_of_unit_box_keep_their_bits():
    box = Box(-1.0, 1.0, (4,), np.float32)
    given = np.array([0.1, -1e-30, 0.99999994, 1 / 3], np.float32)
    assert act(box, *given).tobytes() == given.tobytes()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_float_actions_stay_inside_bounds(dtype):
    box = Box(np.array([0.1, -7.3], dtype), np.array([0.7, 1e-3], dtype), dtype=dtype)
    rng = np.random.default_rng(0)
    for action in [*rng.uniform(-1.2, 1.2, (200, 2)), np.ones(2), -np.ones(2)]:
        given = act(box, *action)
        assert given.dtype == dtype
        assert box.contains(given)


def test_integer_actions_are_rounded():
    box = Box(0, 4, (2,), np.int32)
    assert act(box, -1, 1).tolist() == [0, 4]
    assert act(box, 0.2, 0.3).tolist() == [2, 3]
    assert act(box, 0, 0).dtype == np.int32


def test_largest_int64_bounds_are_reached_exactly():
    info = np.iinfo(np.int64)
    box = Box(info.min, info.max, (3,), np.int64)
    assert act(box, -1, 0, 1).tolist() == [info.min, 0, info.max]


@pytest.mark.parametrize("shape", [(), (2, 2)])
def test_actions_have_environments_shape(shape):
    box = Box(-3.0, 3.0, shape)
    size = max(1, int(np.prod(shape)))
    given = act(box, *np.linspace(-1, 1, size))
    assert isinstance(given, np.ndarray)
    assert given.shape == shape
    assert np.ravel(given).tolist() == pytest.approx(np.linspace(-3, 3, size).tolist())


def test_discrete_action_is_the_integer_of_the_largest_entry():
    space = Discrete(3, start=-1)
    spaces = make_spaces(Still(Box(-1.0, 1.0, (2,)), space), "none")
    assert (spaces.discrete, spaces.action_dim) == (True, 3)
    actions = [unflatten_action(spaces, space, row) for row in np.eye(3, dtype=np.float32)]
    assert actions == [-1, 0, 1]
    assert all(space.contains(action) for action in actions)
    row = np.array([0.0, 1.0, 0.0])
    assert unscale_action(spaces, row) is row


SOME = Box(-1.0, 1.0, (2,))
REFUSED = {
    "a single action, Discrete(1)": (SOME, Discrete(1)),
    "20000 actions, more than 10000": (SOME, Discrete(20_000)),
    "MultiDiscrete([2 2]) actions": (SOME, MultiDiscrete([2, 2])),
    "Discrete(5) observations": (Discrete(5), SOME),
    "Dict observations": (Dict(a=SOME), SOME),
    "MultiBinary(3) observations": (MultiBinary(3), SOME),
    f"Tuple({SOME}, {SOME}) actions": (SOME, Tuple((SOME, SOME))),
    "None observations": (None, SOME),
    "images as observations, shape (8, 8, 3)": (Box(0, 255, (8, 8, 3), np.uint8), SOME),
    "empty observations, shape (0,)": (Box(-1.0, 1.0, (0,)), SOME),
    "empty actions, shape (2, 0)": (SOME, Box(-1.0, 1.0, (2, 0))),
    "unbounded actions (action[0] in [-inf, inf])": (SOME, Box(-np.inf, np.inf, (2,))),
    "unbounded actions (action[1] in [0, inf])": (
        SOME,
        Box(np.zeros(2, np.float32), np.array([1, np.inf], np.float32)),
    ),
    "an action[0] without room ([1, 1])": (SOME, Box(1.0, 1.0, (1,))),
}


@pytest.mark.parametrize("problem", REFUSED)
def test_unsupported_space_is_refused(problem):
    env = Still(*REFUSED[problem])
    for check in (check_spaces, lambda env: make_spaces(env, "none")):
        with pytest.raises(InputError) as refused:
            check(env)
        assert str(refused.value).startswith(f"env: Still has {problem}; narl trains on Box")


def test_unknown_scaling_is_refused():
    with pytest.raises(InputError, match=r"^scaling: unknown value 'bound'; did you mean 'bounds'"):
        make_spaces(Still(SOME), "bound")


def test_scales_cannot_be_written_to():
    spaces = spaces_of()
    with pytest.raises(ValueError, match="read-only"):
        spaces.obs_shift[0] = 1
