"""What was learned, ready to act: one actor per seed, in the environment's own units.

Actors answer through NumPy, as in `narl.deep.evaluation`: without compiling, and with the same
bits in every process.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from gymnasium.spaces import Box
from jaxtyping import Float

from narl.deep.config import Config
from narl.deep.environment import HostEnv
from narl.deep.networks import LOG_STD_RANGE, Layer, Network
from narl.deep.sac import init_sac
from narl.deep.spaces import Spaces, flatten_obs, unflatten_action
from narl.errors import InputError


@dataclasses.dataclass(frozen=True, eq=False)
class Interface:
    """What the policy sees and gives: shapes, bounds and scales of an environment."""

    spaces: Spaces
    obs_shape: tuple[int, ...]
    action_space: Box
    first_entries: bool = False
    """Whether a longer observation is cut: Ant's and Humanoid's policies see its first entries."""

    def vector(self, obs: np.ndarray) -> Float[np.ndarray, " D"]:
        """One observation as the networks see it."""
        return flatten_obs(self.spaces, np.ravel(obs)[: self.spaces.obs_dim])

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything, to be kept."""
        return {
            "interface.obs_shape": np.array(self.obs_shape, np.int64),
            "interface.obs_shift": self.spaces.obs_shift,
            "interface.obs_scale": self.spaces.obs_scale,
            "interface.action_low": self.action_space.low,
            "interface.action_high": self.action_space.high,
            "interface.first_entries": np.array(self.first_entries),
        }


def interface_of(env: HostEnv, first_entries: bool = False) -> Interface:
    """The interface of an environment."""
    space = env.env.action_space
    assert isinstance(space, Box)
    assert env.env.observation_space.shape is not None
    return Interface(env.spaces, env.env.observation_space.shape, space, first_entries)


def interface_from(arrays: Mapping[str, np.ndarray]) -> Interface:
    """The interface that `Interface.arrays` kept."""
    kept = {name: arrays[f"interface.{name}"] for name in _KEPT if f"interface.{name}" in arrays}
    if len(kept) < len(_KEPT):
        raise InputError("run: it holds no policy; `narl train` makes runs that do")
    low, high = kept["action_low"], kept["action_high"]
    spaces = Spaces(
        obs_dim=kept["obs_shift"].size,
        action_dim=low.size,
        action_low=np.ravel(low).astype(np.float64),
        action_high=np.ravel(high).astype(np.float64),
        obs_shift=kept["obs_shift"],
        obs_scale=kept["obs_scale"],
    )
    shape = tuple(int(size) for size in kept["obs_shape"])
    box = Box(low, high, dtype=low.dtype.type)
    return Interface(spaces, shape, box, bool(kept["first_entries"]))


def check_interface(learned: Interface, found: Interface, name: str) -> None:
    """Refuses an environment whose spaces are not those that the agent learned with."""
    had = "the agent learned with"
    pairs = (
        ("observations", learned.obs_shape, found.obs_shape),
        ("actions", learned.action_space.shape, found.action_space.shape),
    )
    for what, own, other in pairs:
        if own != other:
            raise InputError(f"env: {name} has {what} of shape {other}; {had} {own}")
    (own_low, own_high), (low, high) = (
        (one.spaces.action_low, one.spaces.action_high) for one in (learned, found)
    )
    for i in np.flatnonzero(~(np.isclose(own_low, low) & np.isclose(own_high, high))):
        raise InputError(
            f"env: {name} has action[{i}] in [{low[i]:g}, {high[i]:g}]; "
            f"{had} [{own_low[i]:g}, {own_high[i]:g}]"
        )
    same = np.isclose(learned.spaces.obs_shift, found.spaces.obs_shift)
    same &= np.isclose(learned.spaces.obs_scale, found.spaces.obs_scale)
    for i in np.flatnonzero(~same):
        raise InputError(
            f"env: {name} has other bounds of observation[{i}] than {had}, and with them other "
            "scales; give it the same observation_space"
        )


_KEPT = ("obs_shape", "obs_shift", "obs_scale", "action_low", "action_high", "first_entries")


@dataclasses.dataclass(frozen=True, eq=False)
class Policy:
    """The actors of one training."""

    seeds: tuple[int, ...]
    actors: Network
    """Layers with a leading axis of seeds, NumPy arrays."""
    interface: Interface

    def actor(self, seed: int | None = None) -> Network:
        """The network of one seed; by default the first."""
        place = 0 if seed is None else self._place(seed)
        return tuple(Layer(layer.w[place], layer.b[place]) for layer in self.actors)

    def _place(self, seed: int) -> int:
        if seed not in self.seeds:
            raise InputError(f"seed: {seed} was not trained; one of {_listed(self.seeds)}")
        return self.seeds.index(seed)

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything but the seeds, to be kept; see `policy_from`."""
        layers = {
            f"sac.actor.{i}.{name}": np.asarray(array)
            for i, layer in enumerate(self.actors)
            for name, array in layer._asdict().items()
        }
        return layers | self.interface.arrays()

    def act(
        self, obs: Any, seed: int | None = None, generator: np.random.Generator | None = None
    ) -> np.ndarray:
        """The action for an observation, or actions for a batch of them.

        The mode of the policy; with a ``generator``, a draw from it.
        """
        batch, is_batch = self._batch(obs)
        vectors = np.stack([self.interface.vector(one) for one in batch])
        if not np.isfinite(vectors).all():
            raise InputError("obs: it holds numbers that are not finite")
        actor = self.actor(seed)
        # One observation as a vector, for the bits that an evaluation has.
        means = run_actor(actor, vectors if is_batch else vectors[0])
        squashed = np.atleast_2d(squash(means, generator))
        space, spaces = self.interface.action_space, self.interface.spaces
        actions = np.stack([unflatten_action(spaces, space, row) for row in squashed])
        return actions if is_batch else actions[0]

    def _batch(self, obs: Any) -> tuple[np.ndarray, bool]:
        """The observations with a leading axis, and whether they came with it."""
        if isinstance(obs, tuple) and len(obs) == 2 and isinstance(obs[1], dict):
            raise InputError(
                "obs: observation and info given; it must be the observation alone, as in "
                "obs, info = env.reset()"
            )
        try:
            array, shape = np.asarray(obs), self.interface.obs_shape
        except ValueError as error:
            raise InputError(
                f"obs: {type(obs).__name__} of parts that differ in shape given; it must be an "
                "array of numbers"
            ) from error
        if array.dtype.kind not in "biuf":
            raise InputError(f"obs: {type(obs).__name__} given; it must be an array of numbers")
        if self._fits(array.shape):
            return array[None], False
        if array.ndim == len(shape) + 1 and len(array) > 0 and self._fits(array.shape[1:]):
            return array, True
        raise InputError(
            f"obs: shape {array.shape} given; it must be {shape}, or {('N', *shape)} for N of them"
        )

    def _fits(self, shape: tuple[int, ...]) -> bool:
        own = self.interface.obs_shape
        if self.interface.first_entries and len(shape) == 1:
            return shape[0] >= own[0]
        return shape == own


def run_actor(actor: Network, obs: Float[np.ndarray, "*B D"]) -> Float[np.ndarray, "*B O"]:
    """The actor's output, mean and log standard deviation side by side."""
    x = obs
    for layer in actor[:-1]:
        x = np.maximum(x @ layer.w + layer.b, 0.0)
    return x @ actor[-1].w + actor[-1].b


def squash(
    output: Float[np.ndarray, "*B O"], generator: np.random.Generator | None
) -> Float[np.ndarray, "*B A"]:
    """tanh(mean), or tanh(mean + std·noise) with a generator."""
    mean, log_std = np.split(output, 2, axis=-1)
    if generator is None:
        return np.tanh(mean)
    std = np.exp(np.clip(log_std, *LOG_STD_RANGE))
    return np.tanh(mean + std * generator.standard_normal(mean.shape, dtype=np.float32))


def policy_from(
    arrays: Mapping[str, np.ndarray], seeds: tuple[int, ...], interface: Interface
) -> Policy:
    """The policy among the arrays of a run."""
    layers: list[Layer] = []
    while (name := f"sac.actor.{len(layers)}") + ".w" in arrays:
        layers.append(Layer(arrays[f"{name}.w"], arrays[f"{name}.b"]))  # type: ignore[arg-type]
    if not layers:
        raise InputError("run: it holds no policy; `narl train` makes runs that do")
    return Policy(seeds, tuple(layers), interface)


def initial_actors(config: Config, interface: Interface) -> Network:
    """Return the actors with which a training begins (see `Algorithm.init`), one per seed."""
    dims = interface.spaces.obs_dim, interface.spaces.action_dim

    @jax.jit
    def init_actor(seed: np.uint32) -> Network:
        _, key_sac, _, _ = jax.random.split(jax.random.key(seed), 4)
        return init_sac(key_sac, *dims, config).actor

    actors = [init_actor(np.uint32(seed)) for seed in config.seeds]
    return jax.tree.map(lambda *layers: np.stack(layers), *actors)


def _listed(seeds: tuple[int, ...]) -> str:
    shown = [str(seed) for seed in seeds[:10]]
    return ", ".join(shown) + (", …" if len(seeds) > 10 else "")
