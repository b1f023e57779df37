"""The state of an environment in mid-episode, as JSON values and arrays; nothing is pickled.

An environment is a stack of layers: wrappers around the environment itself. A training that is
resumed continues an episode in one of three ways:

1. MuJoCo environments of Gymnasium and narl: the state of the simulation is stored and put back.
2. Layers with `get_state()` and `set_state(state)`: the state that they return is stored. It may
   consist of numbers, strings, lists, tuples, dicts and NumPy arrays.
3. All other environments: the episode is repeated. The random generators before the episode, its
   seed and its actions are stored, and the repetition must give the same observations and rewards.

The first two ways need them in every layer; Gymnasium's TimeLimit, OrderEnforcing and
PassiveEnvChecker are known. Random generators are those that are attributes of a layer (such as
`np_random`) and those of the spaces.
"""

import hashlib
import inspect
import math
import struct
import sys
from collections.abc import Iterator, Mapping
from typing import Any, TypedDict

import gymnasium
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit
from jaxtyping import Float32

from narl.deep.spaces import FirstEntries
from narl.errors import InputError

_STATELESS_WRAPPERS = (OrderEnforcing, PassiveEnvChecker, FirstEntries)
"""Wrappers without any state once the environment has been reset."""
_MUJOCO_PACKAGES = ("gymnasium.envs.mujoco.", "narl.tasks.")
"""Packages of environments that keep all of their state in MuJoCo's data, if they have no methods
for it."""
_BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
_EPISODE, _RESTART = 0x65706973, 0x63757420
"""Third number that a training seed is derived from. An evaluation seed has none, which NumPy takes
as 0, so that the two are never derived from the same numbers."""


class EnvState(TypedDict):
    """A stored state: values that JSON can hold, and arrays by name."""

    json: dict[str, Any]
    arrays: dict[str, np.ndarray]


class _UnsupportedError(Exception):
    """A layer, or a value of its state, that cannot be stored."""


# --- the state itself -----------------------------------------------------------------------


def capture_state(env: gymnasium.Env) -> EnvState | None:
    """Return the state of an environment; None where a layer has none that can be stored."""
    arrays: dict[str, np.ndarray] = {}
    try:
        layers = [_capture_layer(layer, arrays) for layer in _layers(env)]
    except _UnsupportedError:
        return None
    return {"json": {"layers": layers, "generators": capture_generators(env)}, "arrays": arrays}


def restore_state(env: gymnasium.Env, state: EnvState) -> None:
    """Put a captured state into an environment that was made in the same way and reset once."""
    layers, stored_layers = list(_layers(env)), state["json"]["layers"]
    if len(layers) != len(stored_layers):
        raise InputError(
            f"env: the stored state has {len(stored_layers) - 1} wrappers, the environment has "
            f"{len(layers) - 1}; make the environment as it was made before"
        )
    for layer, stored in zip(layers, stored_layers, strict=True):
        if "mujoco" in stored:
            _restore_mujoco(layer, stored["mujoco"], state["arrays"])
        if "elapsed_steps" in stored:
            layer._elapsed_steps = stored["elapsed_steps"]  # type: ignore[attr-defined]
        if "state" in stored:
            layer.set_state(decode_value(stored["state"], state["arrays"]))  # type: ignore[attr-defined]
    # After set_state, which may draw random numbers.
    restore_generators(env, state["json"]["generators"])


def _layers(env: gymnasium.Env) -> Iterator[gymnasium.Env]:
    """Yield the wrappers from the outermost on, then the environment itself."""
    while isinstance(env, gymnasium.Wrapper):
        yield env
        env = env.env
    yield env


def _capture_layer(layer: gymnasium.Env, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    if _has_state_methods(layer):
        return {"state": encode_value(layer.get_state(), arrays)}  # type: ignore[attr-defined]
    # A subclass may add state of its own, so that only the very classes are known.
    if type(layer) is TimeLimit:
        return {"elapsed_steps": layer._elapsed_steps}
    if type(layer) in _STATELESS_WRAPPERS:
        return {}
    if type(layer).__module__.startswith(_MUJOCO_PACKAGES):
        return {"mujoco": _capture_mujoco(layer, arrays)}
    raise _UnsupportedError


def _has_state_methods(layer: gymnasium.Env) -> bool:
    """Return whether a layer has get_state() and set_state(state).

    The set_state of MuJoCo's environments is another method, with two arguments.
    """
    arguments: dict[str, tuple[object, ...]] = {"get_state": (), "set_state": (None,)}
    for name, values in arguments.items():
        method = getattr(layer, name, None)
        if not callable(method):
            return False
        try:
            inspect.signature(method).bind(*values)
        except (TypeError, ValueError):
            return False
    return True


# --- MuJoCo ---------------------------------------------------------------------------------


def _capture_mujoco(layer: gymnasium.Env, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Add all arrays of fixed size to `arrays`; return the time and MuJoCo's version.

    These are the integration state, which is all that the simulation needs, and the arrays that
    MuJoCo derived from it during the last step. Environments read some of them (Ant xpos and
    Humanoid xipos, for the distance moved), and deriving them again would give other numbers,
    because MuJoCo's derived arrays lag one substep behind.
    """
    arrays |= {name: np.array(array) for name, array in _mujoco_arrays(layer).items()}
    return {"version": sys.modules["mujoco"].__version__, "time": vars(layer)["data"].time}


def _restore_mujoco(
    layer: gymnasium.Env, stored: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> None:
    if (version := sys.modules["mujoco"].__version__) != stored["version"]:
        raise InputError(
            f"mujoco: the environment's state is of version {stored['version']}, installed is "
            f"{version}; install mujoco=={stored['version']} to continue"
        )
    for name, array in _mujoco_arrays(layer).items():
        value = arrays.get(name, array)
        if value.shape != array.shape:
            raise InputError(
                "env: the stored state is of another MuJoCo model; make the environment as it was "
                "made before"
            )
        array[...] = value
    vars(layer)["data"].time = stored.get("time", 0.0)  # older checkpoints do not hold it here


def _mujoco_arrays(layer: gymnasium.Env) -> dict[str, np.ndarray]:
    """Return the arrays of a simulation by name, without those whose size varies: contacts."""
    data, fresh = vars(layer)["data"], sys.modules["mujoco"].MjData(vars(layer)["model"])
    pairs = {
        name: (getattr(data, name), getattr(fresh, name))
        for name in dir(data)
        if not name.startswith("_") and name != "plugin_data"  # which holds addresses
    }
    return {
        f"mujoco.derived.{name}": array
        for name, (array, empty) in pairs.items()
        if isinstance(array, np.ndarray) and array.size and array.shape == empty.shape
    }


# --- random generators ----------------------------------------------------------------------


def capture_generators(env: gymnasium.Env) -> dict[str, Any]:
    """Return the states of NumPy's random generators in all layers and spaces, as JSON values."""
    layers = [
        {name: _generator_state(generator) for name, generator in _layer_generators(layer).items()}
        for layer in _layers(env)
    ]
    return {"layers": layers, "spaces": [_generator_state(s._np_random) for s in _spaces(env)]}


def restore_generators(env: gymnasium.Env, stored: Mapping[str, Any]) -> None:
    """Set the random generators of all layers and spaces to captured states."""
    for layer, states in zip(_layers(env), stored["layers"], strict=True):
        for name, state in states.items():
            vars(layer)[name] = _make_generator(state, vars(layer).get(name))
    for space, state in zip(_spaces(env), stored["spaces"], strict=True):
        space._np_random = _make_generator(state, space._np_random)


def _layer_generators(layer: gymnasium.Env) -> dict[str, np.random.Generator]:
    return {name: value for name, value in vars(layer).items() if _is_known_generator(value)}


def _all_generators(env: gymnasium.Env) -> list[np.random.Generator]:
    in_layers = [g for layer in _layers(env) for g in _layer_generators(layer).values()]
    in_spaces = [space._np_random for space in _spaces(env)]
    return in_layers + [g for g in in_spaces if g is not None and _is_known_generator(g)]


def _spaces(env: gymnasium.Env) -> tuple[gymnasium.Space, gymnasium.Space]:
    """Return the spaces that the environment itself may sample from."""
    return env.unwrapped.observation_space, env.unwrapped.action_space


def _is_known_generator(value: Any) -> bool:
    return isinstance(value, np.random.Generator) and (
        type(value.bit_generator).__name__ in _BIT_GENERATORS
    )


def _generator_state(generator: Any) -> Any:
    """Return the state of a generator as JSON values; None for anything else."""

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: plain(item) for key, item in value.items()}
        return value.tolist() if isinstance(value, np.ndarray | np.generic) else value

    return plain(generator.bit_generator.state) if _is_known_generator(generator) else None


def _make_generator(state: Any, present: Any = None) -> Any:
    """Return a generator in a state: the present one, if it is of that kind, or a new one.

    Other attributes may refer to the present one.
    """
    if state is None:
        return present
    kind = state["bit_generator"]
    same_kind = isinstance(present, np.random.Generator) and (
        type(present.bit_generator).__name__ == kind
    )
    generator = present if same_kind else np.random.Generator(getattr(np.random, kind)())
    generator.bit_generator.state = state
    return generator


# --- values in JSON's terms ------------------------------------------------------------------


def encode_value(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Return a value in JSON's terms and add its arrays to `arrays`; see `decode_value`."""
    kind = type(value)
    if value is None or kind in (bool, int, str) or (kind is float and math.isfinite(value)):
        return value
    if kind is float:
        return {"float": repr(value)}
    if (kind is np.ndarray or isinstance(value, np.generic)) and value.dtype.kind in "biufc":
        name = f"value.{len(arrays)}"
        arrays[name] = np.array(value)
        return {"array" if kind is np.ndarray else "scalar": name}
    if _is_known_generator(value):
        return {"generator": _generator_state(value)}
    if kind in (list, tuple):
        return {kind.__name__: [encode_value(item, arrays) for item in value]}
    if kind is dict and all(type(key) is str for key in value):
        return {"dict": {key: encode_value(item, arrays) for key, item in value.items()}}
    raise _UnsupportedError


def decode_value(encoded: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """Return the value that `encode_value` was given."""
    if not isinstance(encoded, dict):
        return encoded
    ((kind, content),) = encoded.items()
    if kind == "float":
        return float(content)
    if kind in ("array", "scalar"):
        return np.array(arrays[content]) if kind == "array" else arrays[content][()]
    if kind == "generator":
        return _make_generator(content)
    if kind == "dict":
        return {key: decode_value(item, arrays) for key, item in content.items()}
    items = [decode_value(item, arrays) for item in content]
    return items if kind == "list" else tuple(items)


# --- repetition of an episode ---------------------------------------------------------------


class EpisodeRecord:
    """The beginning of the running episode, its actions, and a digest of what was observed."""

    def __init__(self, env: gymnasium.Env, seed: int | None) -> None:
        """Record the generators of an environment that is about to be reset with a seed."""
        self.seed = seed
        self.generators = capture_generators(env)
        self._before = [
            (generator, _generator_state(generator)) for generator in _all_generators(env)
        ]
        self._actions = bytearray()
        self._observed = hashlib.sha256()

    def begin(self, obs: Float32[np.ndarray, " D"]) -> None:
        """Record the first observation."""
        self._observed.update(obs.tobytes())

    def add(
        self, action: Float32[np.ndarray, " A"], obs: Float32[np.ndarray, " D"], reward: float
    ) -> None:
        """Record one step: an action, and the observation and reward after it."""
        self._actions += np.asarray(action, np.float32).tobytes()
        self._observed.update(obs.tobytes() + struct.pack("<d", reward))

    def digest(self) -> str:
        """Return the SHA-256 of all observations and rewards in their order."""
        return self._observed.hexdigest()

    def used_generators(self, env: gymnasium.Env) -> bool:
        """Return whether a known generator drew numbers in this episode, which has a seed."""
        fresh = _generator_state(np.random.default_rng(self.seed))
        before = {id(generator): state for generator, state in self._before}
        # Gymnasium's reset with a seed replaces np_random by a fresh generator.
        return any(
            _generator_state(generator) != before.get(id(generator), fresh)
            for generator in _all_generators(env)
        )

    def capture(self) -> EnvState:
        """Return what a repetition needs, and the digest that it must lead to."""
        actions = np.frombuffer(bytes(self._actions), np.float32).copy()
        episode = {"seed": self.seed, "digest": self.digest(), "generators": self.generators}
        return {"json": {"episode": episode}, "arrays": {"actions": actions}}


def episode_seed(seed: int, number: int) -> int:
    """Return the seed of a training episode by its number after an episode with `seed`."""
    return derived_seed(seed, number, _EPISODE)


def restart_seed(seed: int, step: int) -> int:
    """Return the seed of an episode that begins at a step because the old one was abandoned."""
    return derived_seed(seed, step, _RESTART)


def derived_seed(*words: int) -> int:
    """Return a seed that depends on all of these numbers and on their order."""
    return int(np.random.SeedSequence(words).generate_state(1)[0])
