"""The state of an environment in mid-episode, as JSON and arrays; nothing is pickled.

An environment is the stack of its wrappers around the environment itself. Each of these layers is
captured in one of two ways:

- with the user's own methods, if it has `get_state()` and `set_state(state)`, where the state is
  made of numbers, strings, lists, dicts and NumPy arrays;
- otherwise as its instance attributes, if they are all plain data or random generators. That
  covers classic control and Gymnasium's wrappers. A MuJoCo simulation is captured as well.

A layer that keeps anything else (a handle of some simulator, say) cannot be captured; then the
episode is repeated (see `narl.deep.episode_replay`), from the random generators before it on. State
that
is kept outside of the instance (in a module, in a global generator) is not seen.
"""

import hashlib
import inspect
import math
import sys
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.wrappers import PassiveEnvChecker

from narl.errors import InputError

_FIXED_TYPES = (
    *(gymnasium.Space, EnvSpec, np.dtype, type, ModuleType),
    *(FunctionType, BuiltinFunctionType),
)
"""Attributes of these types are made with the environment and stay as they are."""

_FIXED_NAMES = frozenset(
    {
        *("env", "spec", "metadata", "_metadata", "_cached_spec", "_saved_kwargs"),
        *("_ezpickle_args", "_ezpickle_kwargs", "mujoco_renderer", "_previous_data"),
    }
)
_BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")


class _NotPlainError(Exception):
    """Why the environment cannot be captured, in words that follow its name."""


def capture_env(env: gymnasium.Env, model_digest: str | None) -> dict[str, Any]:
    """The environment's state as {"json": …, "arrays": …}.

    json["problem"] is None, or says why there is none. `model_digest` is that of the environment
    as it was made.
    """
    plain = _Plain()
    try:
        layers = [_capture_layer(layer, plain, model_digest) for layer in _layers(env)]
    except _NotPlainError as reason:
        return {"json": {"problem": str(reason)}, "arrays": {}}
    return _with_spaces(env, plain, {"problem": None, "layers": layers})


def capture_generators(env: gymnasium.Env) -> dict[str, Any]:
    """The random generators of all layers alone, in the same form; those of a foreign kind not."""
    plain, layers = _Plain(), []
    for layer in _layers(env):
        try:
            layers.append({"attributes": _generators(layer, plain)})
        except _NotPlainError:
            layers.append({"attributes": {}})
    return _with_spaces(env, plain, {"layers": layers})


def _with_spaces(env: gymnasium.Env, plain: "_Plain", entries: dict[str, Any]) -> dict[str, Any]:
    spaces = [plain.encode(space._np_random, "space") for space in _spaces(env)]
    return {"json": {**entries, "spaces": spaces}, "arrays": plain.arrays}


def restore_env(env: gymnasium.Env, state: Mapping[str, Any]) -> None:
    """Puts the captured state into an environment that was made in the same way."""
    arrays = state["arrays"]
    layers = list(_layers(env))
    entries = state["json"]["layers"]
    if len(layers) != len(entries):
        raise InputError(
            f"env: its state was captured with {len(entries) - 1} wrappers, now it has "
            f"{len(layers) - 1}; make it as it was made then"
        )
    for layer, entry in zip(layers, entries, strict=True):
        if "mujoco" in entry:
            _restore_mujoco(layer, entry["mujoco"], arrays)
        if "user" in entry:
            layer.set_state(_decode(entry["user"], arrays))  # type: ignore[attr-defined]
        # After set_state, which may draw random numbers.
        for name, encoded in entry["attributes"].items():
            vars(layer)[name] = _decode(encoded, arrays, vars(layer).get(name))
        if isinstance(layer, PassiveEnvChecker):
            # It compares the first steps with what reset returned, which is not there any more.
            layer.checked_reset = layer.checked_step = layer.checked_data_reuse = True
    for space, encoded in zip(_spaces(env), state["json"]["spaces"], strict=True):
        space._np_random = _decode(encoded, arrays, space._np_random)


def digest_model(env: gymnasium.Env) -> str | None:
    """SHA-256 of the MuJoCo model; None without MuJoCo. Domain randomisation changes it."""
    found = _simulation(env.unwrapped)
    if found is None:
        return None
    mujoco, model, _ = found
    buffer = np.empty(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, buffer)
    return hashlib.sha256(buffer.tobytes()).hexdigest()


def _layers(env: gymnasium.Env) -> Iterator[gymnasium.Env]:
    """The wrappers from the outermost on, then the environment itself."""
    while isinstance(env, gymnasium.Wrapper):
        yield env
        env = env.env
    yield env


def _spaces(env: gymnasium.Env) -> tuple[gymnasium.Space, gymnasium.Space]:
    """The spaces that may be sampled inside the environment; they have generators too."""
    return env.unwrapped.observation_space, env.unwrapped.action_space


def _capture_layer(
    layer: gymnasium.Env, plain: "_Plain", model_digest: str | None
) -> dict[str, Any]:
    if _has_methods(layer):
        state = layer.get_state()  # type: ignore[attr-defined]
        return {
            "user": plain.encode(state, "get_state"),
            "attributes": _generators(layer, plain),
        }
    if any(getattr(kind, "__slots__", ()) for kind in type(layer).__mro__):
        raise _NotPlainError(f"{type(layer).__name__} keeps its state in __slots__")
    found = _simulation(layer)
    fixed = _FIXED_NAMES | ({"model", "data"} if found else set())
    entry: dict[str, Any] = {
        "attributes": {
            name: plain.encode(value, name)
            for name, value in vars(layer).items()
            if name not in fixed and not isinstance(value, _FIXED_TYPES)
        }
    }
    if found:
        if digest_model(layer) != model_digest:
            raise _NotPlainError("its MuJoCo model changes during the run")
        entry["mujoco"] = _capture_mujoco(layer, plain)
    return entry


def _generators(layer: gymnasium.Env, plain: "_Plain") -> dict[str, Any]:
    return {
        name: plain.encode(value, name)
        for name, value in vars(layer).items()
        if isinstance(value, np.random.Generator)
    }


def _has_methods(layer: gymnasium.Env) -> bool:
    """Whether the layer has get_state() and set_state(state).

    MuJoCo environments have a set_state of another kind, with two arguments.
    """
    wanted: dict[str, tuple[object, ...]] = {"get_state": (), "set_state": (None,)}
    for name, arguments in wanted.items():
        method = getattr(layer, name, None)
        if not callable(method):
            return False
        try:
            inspect.signature(method).bind(*arguments)
        except (TypeError, ValueError):
            return False
    return True


# --- MuJoCo ---------------------------------------------------------------------------------


def _simulation(layer: gymnasium.Env) -> tuple[ModuleType, Any, Any] | None:
    """The module, model and data of an environment that runs MuJoCo."""
    mujoco = sys.modules.get("mujoco")
    model, data = vars(layer).get("model"), vars(layer).get("data")
    if mujoco is None or not isinstance(model, mujoco.MjModel):
        return None
    return (mujoco, model, data) if isinstance(data, mujoco.MjData) else None


def _capture_mujoco(layer: gymnasium.Env, plain: "_Plain") -> dict[str, Any]:
    """The integration state, and all arrays of fixed size.

    The integration state is what the simulation needs. Environments also read what MuJoCo derived
    from it during the last step (Ant xpos and Humanoid xipos, for the distance moved), and
    deriving it anew from the state is not the same: MuJoCo's derived arrays lag one substep.
    """
    found = _simulation(layer)
    assert found is not None
    mujoco, model, data = found
    flags = mujoco.mjtState.mjSTATE_INTEGRATION
    state = np.empty(mujoco.mj_stateSize(model, flags))
    mujoco.mj_getState(model, data, state, flags)
    derived = {}
    for name, sized in _arrays(mujoco.MjData(model)):
        array = getattr(data, name)
        if array.size and array.shape == sized.shape:  # contacts and constraints vary in number
            derived[name] = plain.keep(array, name)
    return {
        "version": mujoco.__version__,
        "state": plain.keep(state, "integration_state"),
        "derived": derived,
    }


def _restore_mujoco(
    layer: gymnasium.Env, entry: Mapping[str, Any], arrays: Mapping[str, np.ndarray]
) -> None:
    found = _simulation(layer)
    if found is None:
        raise InputError("env: its state was captured from MuJoCo, which it does not use now")
    mujoco, model, data = found
    if mujoco.__version__ != entry["version"]:
        raise InputError(
            f"mujoco: the environment's state is of version {entry['version']}, installed is "
            f"{mujoco.__version__}; install mujoco=={entry['version']} to continue"
        )
    flags = mujoco.mjtState.mjSTATE_INTEGRATION
    state = arrays[entry["state"]]
    if state.shape != (mujoco.mj_stateSize(model, flags),):
        raise InputError(
            "env: its state was captured from another MuJoCo model; make it as it was made then"
        )
    mujoco.mj_setState(model, data, state, flags)
    for name, key in entry["derived"].items():
        getattr(data, name)[...] = arrays[key]


def _arrays(data: Any) -> Iterator[tuple[str, np.ndarray]]:
    for name in dir(data):
        if not name.startswith("_") and name != "plugin_data":  # those are addresses
            value = getattr(data, name)
            if isinstance(value, np.ndarray):
                yield name, value


# --- plain data -----------------------------------------------------------------------------


class _Plain:
    """Encodes plain data as JSON; arrays are kept beside it, under unique names."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        self._seen: list[Any] = []

    def keep(self, array: np.ndarray, label: str) -> str:
        """Keeps a copy; returns its name."""
        key = f"{len(self.arrays)}.{label}"
        self.arrays[key] = np.array(array)
        return key

    def encode(self, value: Any, label: str) -> Any:
        """JSON for `_decode`; raises _NotPlainError, naming the attribute `label`."""
        kind = type(value)
        if value is None or kind in (bool, int, str) or (kind is float and math.isfinite(value)):
            return value
        if kind is float:
            return {"float": repr(value)}
        if isinstance(value, np.generic) and value.dtype.kind in "biufc":
            return {"scalar": self.keep(np.asarray(value), label)}
        if kind is np.ndarray and value.dtype.kind in "biufc":
            self._note(value, label)
            return {"array": self.keep(value, label)}
        if isinstance(value, np.random.Generator):
            return {"generator": self.encode(dict(value.bit_generator.state), label)}
        if kind in (list, tuple):
            self._note(value, label)
            return {kind.__name__: [self.encode(item, label) for item in value]}
        if kind is dict and all(type(key) is str for key in value):
            self._note(value, label)
            return {"dict": {key: self.encode(item, label) for key, item in value.items()}}
        raise _NotPlainError(f"its attribute {label!r} is a {kind.__module__}.{kind.__qualname__}")

    def _note(self, value: Any, label: str) -> None:
        """Refuses what two attributes share: restored, each would have a copy of its own."""
        if isinstance(value, np.ndarray):
            owner = value
            while isinstance(owner.base, np.ndarray):
                owner = owner.base
            shared = owner.base is not None or any(
                isinstance(other, np.ndarray) and np.may_share_memory(value, other)
                for other in self._seen
            )
        else:
            shared = not isinstance(value, tuple) and any(value is other for other in self._seen)
        if shared:
            raise _NotPlainError(f"its attribute {label!r} shares memory with something else")
        self._seen.append(value)


def _decode(encoded: Any, arrays: Mapping[str, np.ndarray], present: Any = None) -> Any:
    """What was encoded; a generator that is `present` is set, not replaced."""
    if not isinstance(encoded, dict):
        return encoded
    ((kind, content),) = encoded.items()
    if kind == "float":
        return float(content)
    if kind in ("array", "scalar"):
        return np.array(arrays[content]) if kind == "array" else arrays[content][()]
    if kind in ("list", "tuple"):
        items = [_decode(item, arrays) for item in content]
        return items if kind == "list" else tuple(items)
    if kind == "dict":
        return {key: _decode(item, arrays) for key, item in content.items()}
    state = _decode(content, arrays)
    name = state["bit_generator"]
    if name not in _BIT_GENERATORS:
        raise InputError(f"env: unknown random generator {name!r}; one of {_BIT_GENERATORS}")
    same = isinstance(present, np.random.Generator) and (
        type(present.bit_generator).__name__ == name
    )
    generator = present if same else np.random.Generator(getattr(np.random, name)())
    generator.bit_generator.state = state
    return generator
