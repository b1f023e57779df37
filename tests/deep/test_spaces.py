"""Observations and actions between the environment's units and the networks'."""

import gymnasium
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Tuple

from narl.deep.spaces import (
    check_spaces,
    flatten_obs,
    make_spaces,
    unflatten_action,
    unscale_obs,
)
from narl.errors import InputError


class Still(gymnasium.Env):
    """Has spaces, and nothing else."""

    def __init__(self, obs_space, action_space=None):
        self.observation_space = obs_space
        self.action_space = Box(-1.0, 1.0, (2,)) if action_space is None else action_space


def spaces_of(obs_space=None, action_space=None, scaling="bounds"):
    return make_spaces(Still(obs_space or Box(-1.0, 1.0, (3,)), action_space), scaling)


def act(action_space, *action):
    return unflatten_action(
        spaces_of(action_space=action_space), action_space, np.array(action, np.float32)
    )


def test_bounded_entries_are_mapped_to_one():
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


def test_without_scaling_everything_stays():
    spaces = spaces_of(Box(0.0, 10.0, (2,)), scaling="none")
    assert flatten_obs(spaces, np.array([10.0, 5.0])).tolist() == [10, 5]


def test_the_widest_span_is_a_million():
    low, high = np.zeros(2), np.array([1e6, 0.999e6])
    assert spaces_of(Box(low, high, dtype=np.float64)).obs_scale.tolist() == [1, 0.4995e6]


def test_bounds_of_all_of_float64_do_not_overflow():
    largest = np.finfo(np.float64).max
    spaces = spaces_of(Box(-largest, largest, (1,), np.float64))
    assert spaces.obs_scale.tolist() == [1]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (2, 1, 2, 1)])
def test_any_shape_and_dtype_of_observations(shape, dtype):
    spaces = spaces_of(Box(0, 100, shape, dtype))
    flat = flatten_obs(spaces, np.full(shape, 75, dtype))
    assert spaces.obs_dim == max(1, int(np.prod(shape)))
    assert flat.dtype == np.float32
    assert flat.tolist() == [0.5] * spaces.obs_dim


def test_actions_are_mapped_to_the_bounds_and_clipped():
    box = Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, 10.0], np.float32))
    assert act(box, -1, -1).tolist() == [-2, 0]
    assert act(box, 0, 0).tolist() == [0, 5]
    assert act(box, 0.5, 1).tolist() == [1, 10]
    assert act(box, 3, -3).tolist() == [2, 0]


def test_actions_within_one_are_left_to_the_last_bit():
    box = Box(-1.0, 1.0, (4,), np.float32)
    given = np.array([0.1, -1e-30, 0.99999994, 1 / 3], np.float32)
    assert act(box, *given).tobytes() == given.tobytes()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_float_actions_stay_inside_the_bounds(dtype):
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


def test_bounds_of_all_of_int64_are_reached_exactly():
    info = np.iinfo(np.int64)
    box = Box(info.min, info.max, (3,), np.int64)
    assert act(box, -1, 0, 1).tolist() == [info.min, 0, info.max]


@pytest.mark.parametrize("shape", [(), (2, 2)])
def test_actions_have_the_environments_shape(shape):
    box = Box(-3.0, 3.0, shape)
    size = max(1, int(np.prod(shape)))
    given = act(box, *np.linspace(-1, 1, size))
    assert isinstance(given, np.ndarray)
    assert given.shape == shape
    assert np.ravel(given).tolist() == pytest.approx(np.linspace(-3, 3, size).tolist())


LINE = "; narl trains on Box observations and Box actions with finite bounds"
SOME = Box(-1.0, 1.0, (2,))
REFUSED = {
    "Discrete(2) actions": (SOME, Discrete(2)),
    "Discrete(5) observations": (Discrete(5), SOME),
    "Dict observations": (Dict(a=SOME), SOME),
    "MultiBinary(3) observations": (MultiBinary(3), SOME),
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
def test_unsupported_spaces_are_refused_in_one_line(problem):
    env = Still(*REFUSED[problem])
    with pytest.raises(InputError) as refused:
        check_spaces(env)
    assert str(refused.value) == f"env: Still has {problem}{LINE}"
    with pytest.raises(InputError):
        make_spaces(env, "none")


def test_tuple_spaces_and_missing_spaces_are_refused():
    with pytest.raises(InputError, match=r"^env: Still has Tuple\(.*\) actions; narl trains on"):
        check_spaces(Still(SOME, Tuple((SOME, SOME))))
    bare = Still(SOME)
    del bare.observation_space
    with pytest.raises(InputError, match=r"^env: Still has None observations"):
        check_spaces(bare)


def test_unknown_scaling():
    with pytest.raises(InputError, match=r"^scaling: unknown value 'bound'; did you mean 'bounds'"):
        make_spaces(Still(SOME), "bound")


def test_spaces_cannot_be_written_to():
    spaces = spaces_of()
    with pytest.raises(ValueError, match="read-only"):
        spaces.obs_shift[0] = 1
