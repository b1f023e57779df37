"""Imports at a later time: public names on first use (PEP 562), a module after another one."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from narl.errors import InputError


def lazy_names(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package that imports a public name on first use.

    ``modules`` has the module of every public name; a submodule is its own module.
    """

    def import_name(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = importlib.import_module(modules[name])
        is_submodule = modules[name] == f"{package}.{name}"
        value = module if is_submodule else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    return import_name, lambda: sorted(sys.modules[package].__all__)


def import_extra(module: str, extra: str) -> ModuleType:
    """Return an optional module; one line says which extra of narl installs it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InputError(
            f"{extra}: {module} is not installed; pip install 'narl[{extra}]'"
        ) from None


def import_after(name: str, follower: str) -> None:
    """Import the module ``follower`` now if ``name`` is loaded, or else when ``name`` is loaded."""
    if name in sys.modules:
        importlib.import_module(follower)
    else:
        sys.meta_path.insert(0, _FollowingFinder(name, follower))


class _FollowingFinder(importlib.abc.MetaPathFinder):
    """Finds one module as usual, and imports another one as soon as the module is loaded."""

    def __init__(self, name: str, follower: str) -> None:
        self._name, self._follower = name, follower

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_both(module: ModuleType) -> None:
                load(module)
                importlib.import_module(self._follower)

            spec.loader.exec_module = load_both  # type: ignore[method-assign]
        return spec
