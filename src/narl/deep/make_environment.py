"""Environments made: from Gymnasium's id, or by a function of the user's."""

import contextlib
import importlib
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

import gymnasium

from narl.deep.faults import first_line
from narl.errors import InputError, nearest
from narl.validation import signature_error

MakeEnv = Callable[..., gymnasium.Env]
EXAMPLE = "lambda render_mode=None: MyEnv(render_mode=render_mode)"


def make_env(env: str | MakeEnv, kwargs: Mapping[str, Any]) -> gymnasium.Env:
    """A new environment; whatever is wrong with the way to make it is one line."""
    with _quiet_mujoco(), warnings.catch_warnings():
        # Gymnasium calls v4 outdated; its v4 is what the published numbers were measured on.
        warnings.filterwarnings("ignore", ".*is out of date.*", DeprecationWarning)
        return _make_registered(env, kwargs) if isinstance(env, str) else make_own(env, kwargs)


def _make_registered(env_id: str, kwargs: Mapping[str, Any]) -> gymnasium.Env:
    """gymnasium.make, with every failure as one line."""
    module, _, name = env_id.rpartition(":")
    if module:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise InputError(f"env: cannot import {module!r}: {first_line(str(error))}") from error
    usable = [spec.id for spec in gymnasium.registry.values() if not _is_relic(spec)]
    if name not in usable:
        # Newest versions first: they win where several ids are equally near.
        hint = nearest(name, sorted(usable, reverse=True))
        raise InputError(f"env: unknown environment {name!r}; did you mean {hint!r}?")
    try:
        # HostEnv checks what comes back, at every step and not only at the first.
        return gymnasium.make(name, disable_env_checker=True, **kwargs)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"env: {name} cannot be made: {first_line(str(error))}") from error


def _is_relic(spec: Any) -> bool:
    """Ids of old versions are registered with a function that only raises."""
    return getattr(spec.entry_point, "__name__", "") == "_raise_mujoco_py_error"


def make_own(make: MakeEnv, kwargs: Mapping[str, Any]) -> gymnasium.Env:
    """Calls the user's function; its own errors are his to see."""
    if not callable(make):
        raise InputError(
            f"env: {type(make).__name__} is neither an id nor a function that makes an "
            "environment; give for example 'Hopper-v5' or lambda: MyEnv()"
        )
    problem = signature_error(make, **kwargs)
    if problem is not None:
        _refuse(kwargs, problem)
    try:
        made = make(**kwargs)
    except TypeError as error:
        # It may hand them on to what does not take them.
        if any(name in str(error) for name in kwargs):
            _refuse(kwargs, error)
        raise
    if not isinstance(made, gymnasium.Env):
        raise InputError(
            f"env: the function returned a {type(made).__name__}; it must return a gymnasium.Env"
        )
    return made


def _refuse(kwargs: Mapping[str, Any], error: TypeError) -> NoReturn:
    advice = f"; pictures need it, such as {EXAMPLE}" if "render_mode" in kwargs else ""
    raise InputError(
        f"env: the function that makes the environment does not take {', '.join(kwargs)} "
        f"({first_line(str(error))}){advice}"
    ) from error


@contextlib.contextmanager
def _quiet_mujoco() -> Iterator[None]:
    """Keeps MuJoCo from writing MUJOCO_LOG.TXT into the working folder while models compile.

    HalfCheetah's model has a deprecated attribute, about which a user can do nothing.
    """
    try:
        mujoco = importlib.import_module("mujoco")
    except Exception:  # not installed, or not usable: what needs it will say so
        yield
        return
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)
