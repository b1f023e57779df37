"""A type checker for jaxtyping that checks shapes only, with beartype.

Plain types are left to mypy: many tests give wrong ones to see that they are refused.
"""

import functools
import inspect
import typing
from collections.abc import Callable
from typing import Any

import jax
import jaxtyping
import numpy as np
from beartype import BeartypeConf, beartype

_checked = beartype(conf=BeartypeConf(is_pep484_tower=True))  # an int is a float, as for mypy
_jaxtyped = jaxtyping.jaxtyped


def install() -> None:
    """Check the shapes of all functions and dataclasses of `narl` that are imported from now on."""
    # The hook decorates every function with this, also those without shapes. To wrap them all
    # takes a good part of the tests' time and checks nothing.
    jaxtyping.jaxtyped = _jaxtyped_if_shapes
    jaxtyping.install_import_hook("narl", "typecheck.check_shapes")


def _jaxtyped_if_shapes(*, typechecker: Callable) -> Callable:
    """Return a decorator that leaves functions and dataclasses without shapes as they are."""

    def decorate(decorated: Any) -> Any:
        function = decorated.__init__ if isinstance(decorated, type) else decorated
        try:
            hints = typing.get_type_hints(function).values()
        except Exception:  # a name that is not defined yet
            return _jaxtyped(decorated, typechecker=typechecker)
        if any(map(has_shape, hints)):
            return _jaxtyped(decorated, typechecker=typechecker)
        return decorated

    return decorate


def has_shape(hint: Any) -> bool:
    """Return whether a jaxtyping annotation such as Float[Array, "S A"] occurs in the hint."""
    if isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray):
        return True
    return any(has_shape(part) for part in typing.get_args(hint))


def check_shapes(function: Callable) -> Callable:
    """Return the function with its shapes checked, for `jaxtyping.install_import_hook`."""
    shaped = {name: hint for name, hint in function.__annotations__.items() if has_shape(hint)}
    function.__annotations__ = dict.fromkeys(function.__annotations__, Any) | shaped
    checked = _checked(function)
    return _unless_placeholders(checked, shaped) if function.__name__ == "__init__" else checked


def _unless_placeholders(init: Callable, fields: dict[str, Any]) -> Callable:
    """Skip the check where JAX builds a pytree that holds something else in place of arrays."""
    signature = inspect.signature(init)

    @functools.wraps(init)
    def init_of_arrays(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        leaves = [given[name] for name in fields if given.get(name) is not None]
        if leaves and all(isinstance(leaf, jax.Array | np.ndarray) for leaf in leaves):
            return init(*args, **kwargs)
        return None

    return init_of_arrays
