"""Public names of packages, and imports at a later time (PEP 562)."""

from __future__ import annotations

import ast
import importlib
import importlib.abc
import importlib.util
import sys
from types import ModuleType
from typing import Any

from narl.errors import InputError, install_hint


def import_on_first_use(package: str, *own_names: str) -> None:
    """Give a package its public names, each of which is imported when it is first used.

    The names are those that the package's `__init__.py` imports under `if TYPE_CHECKING:`, each in
    a line ``from module import name as name``, and ``own_names``, which the package defines itself.
    Type checkers and editors understand these lines; here they are read as text.
    """
    modules = _names_for_type_checkers(package)
    public = sorted([*modules, *own_names])

    def import_name(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if modules[name] == package:
            return importlib.import_module(f"{package}.{name}")
        value = getattr(importlib.import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    # Set here, and not in the package, so that type checkers report names that do not exist.
    vars(sys.modules[package]).update(
        __all__=public, __getattr__=import_name, __dir__=lambda: public
    )


def _names_for_type_checkers(package: str) -> dict[str, str]:
    """Return the names that a package imports under `if TYPE_CHECKING:`, with their modules."""
    loader: Any = sys.modules[package].__spec__.loader  # type: ignore[union-attr]
    text = loader.get_source(package)
    if text is None:
        raise ImportError(f"{package}: the source of its __init__.py is needed and is not there")
    conditions = [node for node in ast.parse(text).body if isinstance(node, ast.If)]
    blocks = [node.body for node in conditions if ast.unparse(node.test) == "TYPE_CHECKING"]
    lines = [line for block in blocks for line in block if isinstance(line, ast.ImportFrom)]
    return {alias.name: str(line.module) for line in lines for alias in line.names}


def import_extra(module: str, extra: str) -> ModuleType:
    """Return an optional module; one line says which extra of narl installs it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise InputError(f"{extra}: {module} is not installed; {install_hint(extra)}") from None


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
