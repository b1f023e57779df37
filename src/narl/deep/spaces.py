"""Conversions between an environment's spaces and the vectors of the networks.

Networks take float32 vectors: observations are flattened, with bounded entries mapped to [−1, 1].
Networks give actions in [−1, 1]^A, whatever the environment's bounds, shape and dtype; one of n
discrete actions is a vector of n numbers, 1 for this action and 0 for the others.
"""

import functools
import math
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from jaxtyping import Bool, Float, Float32, Float64

from narl.errors import InputError, unknown

Scaling = Literal["bounds", "none"]

_WIDEST_SPAN = 1e6
"""Wider bounds mean "no bounds": mapped to [−1, 1], usual values would be tiny numbers."""

_TOLERANCE = 1e-3
"""Share of the range by which an observation may lie outside its bounds without a remark."""

_MOST_ACTIONS = 10_000
"""Discrete actions of more kinds would fill the buffers."""

_SUPPORTED = (
    "narl trains on Box observations, and Discrete actions or Box actions with finite bounds"
)

Vectors = TypeVar("Vectors", bound=Any)


@dataclass(frozen=True, eq=False)
class Spaces:
    """Sizes and scales of one environment, the same for all seeds."""

    obs_dim: int
    action_dim: int
    action_low: Float64[np.ndarray, " A"]
    action_high: Float64[np.ndarray, " A"]
    obs_shift: Float32[np.ndarray, " D"]
    obs_scale: Float32[np.ndarray, " D"]
    discrete: bool = False
    """Whether actions are one of ``action_dim`` kinds, each a vector of 0 and a single 1."""

    @functools.cached_property
    def action_centre(self) -> Float64[np.ndarray, " A"]:
        return 0.5 * self.action_low + 0.5 * self.action_high

    @functools.cached_property
    def action_half(self) -> Float64[np.ndarray, " A"]:
        # Half of each first: the span of float64's whole range would overflow.
        return 0.5 * self.action_high - 0.5 * self.action_low


def env_name(env: gymnasium.Env) -> str:
    """Return the registered id of an environment, or the name of its class."""
    spec = env.spec
    return type(env.unwrapped).__name__ if spec is None else spec.id


class FirstEntries(gymnasium.ObservationWrapper):
    """A wrapper that keeps the first entries of vector observations (MBPO's Ant and Humanoid)."""

    def __init__(self, env: gymnasium.Env, num_entries: int) -> None:
        super().__init__(env)
        space = env.observation_space
        if not (isinstance(space, Box) and len(space.shape) == 1):
            raise InputError(
                f"obs_keep: {env_name(env)} has {space} observations, not vectors; leave it out"
            )
        if not 1 <= num_entries <= space.shape[0]:
            raise InputError(
                f"obs_keep: {num_entries} is out of range; {env_name(env)} has "
                f"{space.shape[0]} entries"
            )
        self.num_entries = num_entries
        self.observation_space = Box(
            space.low[:num_entries], space.high[:num_entries], dtype=space.dtype.type
        )

    def observation(self, observation: np.ndarray) -> np.ndarray:
        """Return the first entries of one observation."""
        return observation[: self.num_entries]


def check_spaces(env: gymnasium.Env) -> None:
    """Raise an InputError of one line for spaces that narl cannot train on."""
    for role in ("observation", "action"):
        problem = _problem(getattr(env, f"{role}_space", None), role)
        if problem is not None:
            raise InputError(f"env: {env_name(env)} has {problem}; {_SUPPORTED}")


def _problem(space: object, role: str) -> str | None:
    """Return the problem of a space in a few words that follow "has"; None: there is none."""
    if isinstance(space, Discrete) and role == "action":
        if space.n == 1:
            return "a single action, Discrete(1)"
        return f"{space.n} actions, more than {_MOST_ACTIONS}" if space.n > _MOST_ACTIONS else None
    if not isinstance(space, Box):
        named = type(space).__name__ if isinstance(space, gymnasium.spaces.Dict) else space
        return f"{named} {role}s"
    if np.dtype(space.dtype).kind not in "biuf":
        return f"{role}s of dtype {space.dtype}"
    if math.prod(space.shape) == 0:
        return f"empty {role}s, shape {space.shape}"
    if role == "observation":
        image = space.dtype == np.uint8 and len(space.shape) == 3
        return f"images as observations, shape {space.shape}" if image else None
    low, high = np.ravel(space.low).astype(float), np.ravel(space.high).astype(float)
    for index in np.flatnonzero(~np.isfinite(low) | ~np.isfinite(high)):
        return f"unbounded actions (action[{index}] in [{low[index]:g}, {high[index]:g}])"
    for index in np.flatnonzero(low >= high):
        return f"an action[{index}] without room ([{low[index]:g}, {high[index]:g}])"
    return None


def make_spaces(env: gymnasium.Env, scaling: Scaling) -> Spaces:
    """Return the sizes and scales of an environment.

    With scaling "bounds" an entry of the observation with finite bounds less than 1e6 apart is
    mapped to [−1, 1]. All other entries, and all entries with "none", stay as they are.
    """
    if scaling not in ("bounds", "none"):
        raise unknown("scaling", str(scaling), ("bounds", "none"))
    check_spaces(env)
    obs_space, action_space = env.observation_space, env.action_space
    assert isinstance(obs_space, Box)
    assert isinstance(action_space, Box | Discrete)
    mapped, low, high = _mapped_entries(obs_space, scaling)
    shift, scale = np.zeros(mapped.size), np.ones(mapped.size)
    shift[mapped], scale[mapped] = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
    return spaces_from(action_space, shift, scale)


def _mapped_entries(
    obs_space: Box, scaling: Scaling
) -> tuple[Bool[np.ndarray, " D"], Float64[np.ndarray, " K"], Float64[np.ndarray, " K"]]:
    """Return which entries of observations are mapped to [−1, 1], and the bounds of those."""
    low, high = (np.ravel(bound).astype(np.float64) for bound in (obs_space.low, obs_space.high))
    # Half of each first: the span of float64's whole range would overflow.
    half = 0.5 * high - 0.5 * low
    narrow = (half > 0) & (half < _WIDEST_SPAN / 2)
    mapped = np.isfinite(low) & np.isfinite(high) & narrow & (scaling == "bounds")
    return mapped, low[mapped], high[mapped]


def largest_usual_obs(obs_space: Box, scaling: Scaling) -> Float32[np.ndarray, " D"]:
    """Return the largest absolute value of each entry of the vectors of `flatten_obs`.

    It is a little more than 1 for entries that are mapped to [−1, 1], and the largest finite number
    for all others: a larger value is outside the bounds, or not finite.
    """
    mapped, low, high = _mapped_entries(obs_space, scaling)
    farthest = np.maximum(np.abs(low), np.abs(high)).astype(np.float32)
    limit = np.full(mapped.size, np.finfo(np.float32).max)
    limit[mapped] = 1.0 + 2.0 * _TOLERANCE + np.spacing(farthest) / (0.5 * high - 0.5 * low)
    return _constant(limit.astype(np.float32))


def spaces_from(action_space: Box | Discrete, shift: np.ndarray, scale: np.ndarray) -> Spaces:
    """Return the sizes and scales for an action space and the scales of observations."""
    if isinstance(action_space, Discrete):
        low, high = np.zeros(int(action_space.n)), np.ones(int(action_space.n))
    else:
        low = np.ravel(action_space.low).astype(np.float64)
        high = np.ravel(action_space.high).astype(np.float64)
    return Spaces(
        obs_dim=shift.size,
        action_dim=low.size,
        action_low=_constant(low),
        action_high=_constant(high),
        obs_shift=_constant(shift.astype(np.float32)),
        obs_scale=_constant(scale.astype(np.float32)),
        discrete=isinstance(action_space, Discrete),
    )


def _constant(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def flatten_obs(spaces: Spaces, obs: np.ndarray) -> Float32[np.ndarray, " D"]:
    """Return an observation of any shape and dtype as the vector (x − shift) / scale."""
    flat = np.ravel(obs).astype(np.float32)
    return (flat - spaces.obs_shift) / spaces.obs_scale


def unscale_obs(spaces: Spaces, obs: Vectors) -> Vectors:
    """Return vectors [..., D] of `flatten_obs` in the environment's units (NumPy or JAX)."""
    return obs * spaces.obs_scale + spaces.obs_shift


def unscale_action(spaces: Spaces, action: Vectors) -> Vectors:
    """Return vectors [..., A] of actions in the environment's units (NumPy or JAX).

    Those of discrete actions stay as they are.
    """
    return action if spaces.discrete else spaces.action_centre + spaces.action_half * action


def unflatten_action(
    spaces: Spaces, action_space: Box | Discrete, action: Float[np.ndarray, " A"]
) -> Any:
    """Return an action in [−1, 1]^A in the environment's shape and dtype, clipped to its bounds.

    Integer actions are rounded to the nearest integer. A discrete action is an integer of NumPy.
    """
    if isinstance(action_space, Discrete):
        return np.dtype(action_space.dtype).type(action_space.start + np.argmax(action))
    low, high = spaces.action_low, spaces.action_high
    # float32 times float64 is float64.
    scaled = np.minimum(np.maximum(unscale_action(spaces, action), low), high)
    dtype = np.dtype(action_space.dtype)
    if dtype.kind == "f":
        return scaled.astype(dtype).reshape(action_space.shape)
    # 64-bit bounds are not exact as floats, so the ends are taken from the space itself.
    inside = (scaled > low) & (scaled < high)
    ends = np.where(scaled <= low, np.ravel(action_space.low), np.ravel(action_space.high))
    rounded = np.rint(np.where(inside, scaled, 0.0)).astype(dtype)
    return np.where(inside, rounded, ends).astype(dtype).reshape(action_space.shape)
