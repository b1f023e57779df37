"""Learned policies that act: one actor per seed, in the environment's own units.

Actors run in NumPy: without compiling, and with the same bits in every process.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from gymnasium.spaces import Box, Discrete
from jaxtyping import Float

from narl.deep.config import Config
from narl.deep.environment import HostEnv
from narl.deep.networks import LOG_STD_RANGE, Layer, Network
from narl.deep.sac import init_sac
from narl.deep.spaces import Spaces, flatten_obs, spaces_from, unflatten_action
from narl.display import Described, Description, counted, seeds_as_text
from narl.errors import InputError

_NO_POLICY = "run: it holds no policy; `narl train` makes runs that do"


@dataclasses.dataclass(frozen=True, eq=False)
class Interface:
    """The shapes, bounds and scales of observations and actions of an environment."""

    spaces: Spaces
    obs_shape: tuple[int, ...]
    action_space: Box | Discrete
    first_entries: bool = False
    """Whether a longer observation is cut: Ant's and Humanoid's policies see its first entries."""

    def vector(self, obs: np.ndarray) -> Float[np.ndarray, " D"]:
        """Return an observation as the vector that the networks see."""
        return flatten_obs(self.spaces, np.ravel(obs)[: self.spaces.obs_dim])

    def arrays(self) -> dict[str, np.ndarray]:
        """Return all fields as arrays for a run folder; see `interface_from`."""
        space = self.action_space
        actions: dict[str, np.ndarray]
        if isinstance(space, Discrete):
            ends = (space.start, space.start + space.n - 1)
            low, high = (np.array(end, np.int64) for end in ends)
            actions = {"action_low": low, "action_high": high, "discrete": np.array(True)}
        else:
            actions = {"action_low": space.low, "action_high": space.high}
        fields = actions | {
            "obs_shape": np.array(self.obs_shape, np.int64),
            "obs_shift": self.spaces.obs_shift,
            "obs_scale": self.spaces.obs_scale,
            "first_entries": np.array(self.first_entries),
        }
        return {f"interface.{name}": array for name, array in fields.items()}


def interface_of(env: HostEnv, first_entries: bool = False) -> Interface:
    """Return the interface of an environment."""
    space = env.env.action_space
    assert isinstance(space, Box | Discrete)
    assert env.env.observation_space.shape is not None
    return Interface(env.spaces, env.env.observation_space.shape, space, first_entries)


def interface_from(arrays: Mapping[str, np.ndarray]) -> Interface:
    """Return the interface from the arrays that `Interface.arrays` gave."""
    names = ("obs_shape", "obs_shift", "obs_scale", "action_low", "action_high", "first_entries")
    if not all(f"interface.{name}" in arrays for name in names):
        raise InputError(_NO_POLICY)
    fields = {name: arrays[f"interface.{name}"] for name in names}
    low, high = fields["action_low"], fields["action_high"]
    space: Box | Discrete
    if "interface.discrete" in arrays:
        space = Discrete(int(high - low) + 1, start=int(low))
    else:
        space = Box(low, high, dtype=low.dtype.type)
    spaces = spaces_from(space, fields["obs_shift"], fields["obs_scale"])
    shape = tuple(int(size) for size in fields["obs_shape"])
    return Interface(spaces, shape, space, bool(fields["first_entries"]))


def check_interface(learned: Interface, present: Interface, name: str) -> None:
    """Refuse an environment whose spaces are not those that the agent learned with."""
    own_space, space = learned.action_space, present.action_space
    if Discrete in (type(own_space), type(space)) and own_space != space:
        raise InputError(f"env: {name} has {space} actions; the agent learned with {own_space}")
    shapes = {
        "observations": (learned.obs_shape, present.obs_shape),
        "actions": (learned.action_space.shape, present.action_space.shape),
    }
    for what, (expected, shape) in shapes.items():
        if shape != expected:
            raise InputError(
                f"env: {name} has {what} of shape {shape}; the agent learned with {expected}"
            )
    own, other = learned.spaces, present.spaces
    low, high = other.action_low, other.action_high
    same = np.isclose(own.action_low, low) & np.isclose(own.action_high, high)
    for i in np.flatnonzero(~same):
        raise InputError(
            f"env: {name} has action[{i}] in [{low[i]:g}, {high[i]:g}]; the agent learned with "
            f"[{own.action_low[i]:g}, {own.action_high[i]:g}]"
        )
    same = np.isclose(own.obs_shift, other.obs_shift) & np.isclose(own.obs_scale, other.obs_scale)
    for i in np.flatnonzero(~same):
        raise InputError(
            f"env: the bounds of observation[{i}] of {name}, and with them the scale, are not "
            "those that the agent learned with; the same observation_space is needed"
        )


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Policy(Described):
    """The actors of one training, one per seed.

    Example:
        >>> policy = narl.SAC("Pendulum-v1", seeds=(0, 1)).policy
        >>> policy.act(np.zeros(3), seed=1).shape
        (1,)
    """

    seeds: tuple[int, ...]
    """The seeds that were trained."""
    actors: Network
    """Layers with a leading axis of seeds, NumPy arrays."""
    interface: Interface
    """Shapes, bounds and scales of observations and actions."""

    def _describe(self) -> Description:
        units = [layer.b.shape[-1] for layer in self.actors[:-1]]
        facts = {
            "seeds": seeds_as_text(self.seeds),
            "observations": f"shape {self.interface.obs_shape}",
            "actions": str(self.interface.action_space),
            "hidden layers": ", ".join(map(str, units)),
        }
        return Description(f"policy of {counted(len(self.seeds), 'seed')}", facts)

    def actor(self, seed: int | None = None) -> Network:
        """Return the network of one seed.

        Args:
            seed: One of `seeds`; by default the first.

        Returns:
            Layers of NumPy arrays, each with ``w`` and ``b``.

        Example:
            >>> policy = narl.SAC("Pendulum-v1", seeds=(0, 1), hidden=(8, 4)).policy
            >>> [layer.w.shape for layer in policy.actor(seed=1)]
            [(3, 8), (8, 4), (4, 2)]
        """
        seed = self.seeds[0] if seed is None else seed
        if seed not in self.seeds:
            more = ", …" if len(self.seeds) > 10 else ""
            trained = ", ".join(map(str, self.seeds[:10])) + more
            raise InputError(f"seed: {seed} was not trained; it must be one of {trained}")
        i = self.seeds.index(seed)
        return tuple(Layer(layer.w[i], layer.b[i]) for layer in self.actors)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return networks and interface as arrays for a run folder; see `policy_from`."""
        layers = {
            f"sac.actor.{i}.{name}": np.asarray(array)
            for i, layer in enumerate(self.actors)
            for name, array in layer._asdict().items()
        }
        return layers | self.interface.arrays()

    def act(
        self, obs: Any, seed: int | None = None, generator: np.random.Generator | None = None
    ) -> np.ndarray:
        """Return the action for an observation, or actions for a batch of observations.

        Args:
            obs: One observation of the environment, or a batch of them.
            seed: The seed whose policy acts; by default the first.
            generator: Draws the actions; without one they are the mode of the policy.

        Returns:
            One action, or a batch, in the units of the environment.
        """
        batch, is_batch = self._batch(obs)
        vectors = np.stack([self.interface.vector(row) for row in batch])
        if not np.isfinite(vectors).all():
            raise InputError("obs: it holds numbers that are not finite; all must be finite")
        # A single observation stays a vector: evaluations compute with vectors, to the same bits.
        space, spaces = self.interface.action_space, self.interface.spaces
        rows = act_in_numpy(
            self.actor(seed),
            vectors if is_batch else vectors[0],
            generator,
            discrete=spaces.discrete,
        )
        actions = np.stack([unflatten_action(spaces, space, row) for row in np.atleast_2d(rows)])
        return actions if is_batch else actions[0]

    def _batch(self, obs: Any) -> tuple[np.ndarray, bool]:
        """Return the observations with a leading axis, and whether they came with it."""
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


def act_in_numpy(
    actor: Network,
    obs: Float[np.ndarray, "*B D"],
    generator: np.random.Generator | None = None,
    *,
    discrete: bool = False,
) -> Float[np.ndarray, "*B A"]:
    """Return tanh(mean) of the policy, or tanh(mean + std·noise) with a generator.

    Of discrete actions, it is the most likely one, or one that the generator draws.
    """
    x = obs
    for layer in actor[:-1]:
        x = np.maximum(x @ layer.w + layer.b, 0.0)
    output = x @ actor[-1].w + actor[-1].b
    if discrete:
        # The largest of the logits, each with Gumbel noise, is a draw of the softmax.
        noise = 0.0 if generator is None else generator.gumbel(size=output.shape)
        return np.eye(output.shape[-1], dtype=np.float32)[np.argmax(output + noise, axis=-1)]
    action_dim = output.shape[-1] // 2
    mean = output[..., :action_dim]
    if generator is None:
        return np.tanh(mean)
    std = np.exp(np.clip(output[..., action_dim:], *LOG_STD_RANGE))
    return np.tanh(mean + std * generator.standard_normal(mean.shape, dtype=np.float32))


def policy_from(
    arrays: Mapping[str, np.ndarray], seeds: tuple[int, ...], interface: Interface
) -> Policy:
    """Return the policy from the arrays of a run."""
    layers: list[Layer] = []
    while (name := f"sac.actor.{len(layers)}") + ".w" in arrays:
        layers.append(Layer(arrays[f"{name}.w"], arrays[f"{name}.b"]))  # type: ignore[arg-type]
    if not layers:
        raise InputError(_NO_POLICY)
    return Policy(seeds, tuple(layers), interface)


def initial_actors(config: Config, interface: Interface) -> Network:
    """Return the actors with which a training begins (see `Algorithm.init`), one per seed."""
    dims = interface.spaces.obs_dim, interface.spaces.action_dim

    @jax.jit
    def init_actor(seed: np.uint32) -> Network:
        _, key_sac, _, _ = jax.random.split(jax.random.key(seed), 4)
        return init_sac(key_sac, *dims, config, interface.spaces.discrete).actor

    actors = [init_actor(np.uint32(seed)) for seed in config.seeds]
    return jax.tree.map(lambda *layers: np.stack(layers), *actors)
