"""Public names of a package that are imported when they are first used (PEP 562)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_getattr(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the function `__getattr__` of a package that imports a public name on first use.

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

    return import_name
