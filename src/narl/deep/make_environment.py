"""Making of environments: from a Gymnasium id, or from a user's function or instance."""

import contextlib
import copy
import importlib
import os
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import gymnasium
from gymnasium.error import DependencyNotInstalled
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

import narl.gymnasium_registration  # noqa: F401 (registers the environments)
from narl.deep.presets import find_preset
from narl.deep.spaces import check_spaces, env_name
from narl.deep.termination import TerminationFn
from narl.errors import EnvironmentFault, InputError, first_line, install_hint, nearest
from narl.validation import signature_error

MakeEnv = Callable[..., gymnasium.Env]
"""A function that returns a new environment."""

_EXAMPLE = "lambda render_mode=None: MyEnv(render_mode=render_mode)"
_TRANSPARENT_WRAPPERS = (TimeLimit, OrderEnforcing, PassiveEnvChecker)
"""Wrappers that change neither observations nor the termination of episodes."""


class UserEnvironment:
    """An environment of the user: a function that makes it, or one instance of it."""

    def __init__(self, env: MakeEnv | gymnasium.Env) -> None:
        self.instance = env if isinstance(env, gymnasium.Env) else None
        """The one instance, which can serve one seed only; None: a function makes environments."""
        self._make = None if isinstance(env, gymnasium.Env) else env
        example = make_env(self, {})
        try:
            check_spaces(example)
            self.name = env_name(example)
            self.termination = _known_termination(example)
            """Termination of episodes, where the environment is a preset with no changes."""
        finally:
            if self.instance is None:
                example.close()

    def make(self, role: str = "training", **kwargs: Any) -> gymnasium.Env:
        """Return an environment for a role ("training", "evaluation").

        An instance is itself the environment of the training. Evaluations get a deep copy of the
        instance or, where it cannot be copied, an environment made from its specification.
        """
        if self._make is not None:
            return _call_user_function(self._make, kwargs)
        assert self.instance is not None
        if role == "training" and not kwargs:
            return self.instance
        present_mode = self.instance.render_mode
        render_mode = kwargs.get("render_mode", present_mode)
        if render_mode == present_mode:
            try:
                return copy.deepcopy(self.instance)
            except Exception:  # whatever a simulator that cannot be copied raises
                kwargs = {"render_mode": render_mode}
        try:
            assert self.instance.spec is not None
            return gymnasium.make(self.instance.spec, **kwargs)
        except Exception as error:
            problem = "can neither be copied nor made anew"
            if render_mode != present_mode:
                problem = (
                    f"was made with render_mode={present_mode!r} and cannot be made anew "
                    f"with {render_mode!r}"
                )
            raise InputError(
                f"env: {env_name(self.instance)} {problem}; give a function that makes it, such as "
                f"{_EXAMPLE}"
            ) from error


EnvSource = str | MakeEnv | UserEnvironment
"""A Gymnasium id, a function that makes environments, or a user's environment."""


def _known_termination(env: gymnasium.Env) -> TerminationFn | None:
    """Return the termination of a preset that was made with nothing changed; None otherwise."""
    layer = env
    while isinstance(layer, _TRANSPARENT_WRAPPERS):
        layer = layer.env
    if isinstance(layer, gymnasium.Wrapper) or env.spec is None:
        return None
    preset = find_preset(env.spec.id, env.spec.kwargs)
    return None if preset is None else preset.termination


def make_env(source: EnvSource, kwargs: Mapping[str, Any], role: str = "training") -> gymnasium.Env:
    """Return an environment; every problem with making it is an InputError of one line."""
    with _mujoco_warnings_off(), warnings.catch_warnings():
        # Gymnasium calls v4 outdated; the published numbers were measured on v4.
        warnings.filterwarnings("ignore", ".*is out of date.*", DeprecationWarning)
        if isinstance(source, str):
            return _make_registered(source, kwargs)
        if isinstance(source, UserEnvironment):
            return source.make(role, **kwargs)
        return _call_user_function(source, kwargs)


def check_registered(env_id: str) -> None:
    """Import the module in front of an id, and refuse an id that Gymnasium does not know."""
    module, _, name = env_id.rpartition(":")
    if module:
        try:
            importlib.import_module(module)
        except ImportError as error:
            reason = first_line(str(error))
            advice = _advice(module, error)
            raise InputError(f"env: cannot import {module!r}: {reason}{advice}") from error
        except (Exception, SystemExit) as error:
            reason = f"{type(error).__name__}: {first_line(str(error))}"
            raise InputError(f"env: cannot import {module!r}: {reason}") from error
    names = [spec.id for spec in gymnasium.registry.values() if not _is_removed(spec)]
    if name not in names:
        raise _unknown_environment(module, name, names)


def _make_registered(env_id: str, kwargs: Mapping[str, Any]) -> gymnasium.Env:
    check_registered(env_id)
    name = env_id.rpartition(":")[2]
    try:
        # HostEnv checks the environment, at every step and not only at the first.
        return gymnasium.make(name, disable_env_checker=True, **kwargs)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        reason = first_line(str(error)) or type(error).__name__
        if isinstance(error, DependencyNotInstalled) and reason.startswith("Box2D "):
            reason = f"Box2D is not installed; {install_hint('box2d')}"
        raise InputError(f"env: {name} cannot be made: {reason}") from error


def _advice(module: str, error: ImportError) -> str:
    """Return what to do about a module that cannot be imported, and where it was searched."""
    if module.endswith(".py"):
        return f"; write {module.removesuffix('.py')}:, without .py"
    top = Path(module.partition(".")[0])
    here = next((path for path in (top.with_suffix(".py"), top) if path.exists()), None)
    if str(Path.cwd()) in map(os.path.abspath, sys.path):
        is_missing = here is None and error.name == top.name
        return "; the current folder was searched too" if is_missing else ""
    if here is None:
        return ""
    return f"; {here} is in this folder, which is not on Python's path: set PYTHONPATH=."


def _unknown_environment(module: str, name: str, names: Collection[str]) -> InputError:
    """Return the error for an unknown id; ids are compared without their versions.

    ``module`` is the one in front of the id, which has been imported; empty if there is none.
    """
    # Of several versions of one environment the newest is meant.
    newest = {known.rpartition("-v")[0] or known: known for known in sorted(names)}
    wanted = name.rpartition("-v")[0] or name
    close = nearest(wanted, newest)
    prefix = f"{module}:" if module else ""
    line = f"env: unknown environment {prefix + name!r}"
    if close is not None:
        line += f"; did you mean {prefix + newest[close]!r}?"
    if close is None and module:
        line += f"; the module {module!r} does not register it"
    elif close != wanted and not module:
        own = "a module of yours registers it, write module:id, such as envs:Point-v0"
        line += f"; if {own}" if close is None else f" If {own}"
    return InputError(line)


def _is_removed(spec: Any) -> bool:
    """Return whether the id is of an old version, registered with a function that only raises."""
    return getattr(spec.entry_point, "__name__", "") == "_raise_mujoco_py_error"


def _call_user_function(function: MakeEnv, kwargs: Mapping[str, Any]) -> gymnasium.Env:
    """Return the environment that a user's function makes."""
    if not callable(function):
        raise InputError(
            f"env: {type(function).__name__} is neither an id nor a function that makes an "
            "environment; give for example 'Hopper-v5' or lambda: MyEnv()"
        )
    problem = signature_error(function, **kwargs)
    if problem is not None:
        _refuse_arguments(kwargs, problem)
    try:
        env = function(**kwargs)
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        # The function may pass the arguments on to one that does not take them.
        if isinstance(error, TypeError) and any(name in str(error) for name in kwargs):
            _refuse_arguments(kwargs, error)
        cause = f"{type(error).__name__}: {first_line(str(error))}"
        raise EnvironmentFault(f"env: the environment cannot be made: {cause}") from error
    if not isinstance(env, gymnasium.Env):
        raise InputError(
            f"env: the function returned a {type(env).__name__}; it must return a gymnasium.Env"
        )
    return env


def _refuse_arguments(kwargs: Mapping[str, Any], error: TypeError) -> NoReturn:
    advice = f"; pictures need it, such as {_EXAMPLE}" if "render_mode" in kwargs else ""
    raise InputError(
        f"env: the function that makes the environment does not take {', '.join(kwargs)} "
        f"({first_line(str(error))}){advice}"
    ) from error


@contextlib.contextmanager
def _mujoco_warnings_off() -> Iterator[None]:
    """Keep MuJoCo from writing MUJOCO_LOG.TXT into the working folder while a model compiles.

    HalfCheetah's model has a deprecated attribute, which a user cannot change.
    """
    try:
        mujoco = importlib.import_module("mujoco")
    except Exception:  # not installed, or not usable: the environment that needs MuJoCo will fail
        yield
        return
    handler = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(handler)
