"""The code of a user's environment: which code a run was made by, and whether it may be imported.

The environments of Gymnasium and narl are known by their versions. Of any other environment the
source files of its classes, its spaces and its arguments are hashed, so that a run that other code
has made is not taken for the present one.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import logging
import sys
from pathlib import Path
from typing import Any

import gymnasium

from narl.deep.config import Config
from narl.deep.environment import HostEnv
from narl.deep.make_environment import EnvSource
from narl.deep.training_environment import open_training_env

_log = logging.getLogger("narl")

KNOWN_PACKAGES = frozenset({"gymnasium", "narl", *sys.stdlib_module_names}) - {"__main__"}


def env_code(env: gymnasium.Env) -> str:
    """Return a hash of the code of an environment; empty for those of Gymnasium and narl."""
    layers: list[Any] = [env]
    while isinstance(layers[-1], gymnasium.Wrapper):
        layers.append(layers[-1].env)
    classes = dict.fromkeys(kind for layer in layers for kind in type(layer).__mro__)
    own = [kind for kind in classes if kind.__module__.partition(".")[0] not in KNOWN_PACKAGES]
    if not own:
        return ""
    parts = [f"{kind.__qualname__} {_source_hash(kind)}" for kind in own]
    parts += [f"{env.observation_space} {env.action_space}"]
    parts += [repr(sorted((env.spec.kwargs if env.spec else {}).items(), key=str))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _source_hash(kind: type) -> str:
    """Return the hash of the file that defines a class; of a script, of the class alone."""
    try:
        if kind.__module__ == "__main__":  # a script may change for many other reasons
            source = inspect.getsource(kind).encode()
        else:
            source = Path(inspect.getsourcefile(kind) or "").read_bytes()
    except (OSError, TypeError):  # typed into an interpreter, or compiled
        return ""
    return hashlib.sha256(source).hexdigest()


def current_env_code(
    config: Config, source: EnvSource | None = None, timeout: float | None = None
) -> str:
    """Return the `env_code` of the environment that a training would open now."""
    spec = gymnasium.registry.get(config.env)
    entry_point = str(spec.entry_point if source is None and spec is not None else "")
    if entry_point.startswith(("gymnasium.", "narl.")):
        return ""
    opened = open_training_env(config, config.seeds[0], source=source, timeout=timeout)
    with contextlib.closing(opened) as env:
        return env_code(env.env)


def is_same_code(recorded: str, present: str) -> bool:
    """Return whether a recorded hash, or the last of several joined by +, is the present one."""
    return recorded.rpartition("+")[2] == present


def warn_if_changed(recorded: str, env: HostEnv) -> None:
    """Warn if the code of an environment is not that which a policy was trained in."""
    if not is_same_code(recorded, env_code(env.env)):
        _log.warning(
            "the code of %s has changed since this policy was trained; the returns are those of "
            "the present code",
            env.name,
        )


def foreign_module(env_id: str) -> str:
    """Return the module that an id such as my_module:Env-v0 names; empty for ids without one.

    It is empty too for modules of Gymnasium, narl and Python.
    """
    module = env_id.rpartition(":")[0]
    return "" if module.partition(".")[0] in KNOWN_PACKAGES else module


def env_module_problem(env_id: str, *, trusted: bool = False) -> str:
    """Return why an id that a stored run names, such as my_module:Env-v0, is not opened unasked.

    The module would be imported. Modules that are imported already, and those of Gymnasium and
    narl, are no danger: then the answer is empty, unless an id without a module is unknown.
    """
    if ":" not in env_id and env_id not in gymnasium.registry:
        return (
            f"env: the run names {env_id!r}, which no imported module registers; use it in Python, "
            "after importing the one that does"
        )
    module = foreign_module(env_id)
    if trusted or not module or module in sys.modules:
        return ""
    return (
        f"env: the run names {env_id}, which would import the module {module!r}; if you trust the "
        "run, add --trust-env-module (in Python: trust_env_module=True)"
    )
