"""The tabular environments under Gymnasium's names, such as `narl/RiverSwim-v0`.

Gymnasium 1.0 dropped the entry points by which packages registered themselves, so `import narl`
has to do it, without loading Gymnasium where nobody uses it: `register_with_gymnasium`.
Registering only writes down names; JAX and the tables are loaded by `gymnasium.make`.
"""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from narl.tabular.io import TabularEnv

NAMES = {
    "narl/RiverSwim-v0": "riverswim",
    "narl/StochasticChain-v0": "stochastic-chain",
    "narl/DeepSea-v0": "deep-sea",
    "narl/DeepSeaStochastic-v0": "deep-sea-stochastic",
    "narl/RandomMDP-v0": "random-mdp",
}
"""Gymnasium's id of each of `narl.tabular.envs.ENVIRONMENTS`."""


def register() -> None:
    """Registers every environment of `NAMES` that is not registered yet."""
    import gymnasium

    for gymnasium_id, env in NAMES.items():
        if gymnasium_id not in gymnasium.registry:
            gymnasium.register(
                id=gymnasium_id,
                entry_point="narl.registration:make_env",
                kwargs={"env": env},
            )


def make_env(
    env: str,
    size: int | None = None,
    horizon: int | None = None,
    seed: int = 0,
    render_mode: str | None = None,
) -> TabularEnv:
    """What `gymnasium.make` calls; size, horizon and seed are those of `narl.tabular.envs.make`."""
    from narl.tabular.envs import make
    from narl.tabular.io import to_gymnasium

    return to_gymnasium(make(env, size=size, horizon=horizon, seed=seed), render_mode)


def register_with_gymnasium() -> None:
    """Registers now if Gymnasium is loaded, otherwise as soon as somebody loads it."""
    if "gymnasium" in sys.modules:
        register()
    elif not any(isinstance(finder, _WhenGymnasiumLoads) for finder in sys.meta_path):
        sys.meta_path.insert(0, _WhenGymnasiumLoads())


class _WhenGymnasiumLoads(importlib.abc.MetaPathFinder):
    """Finds Gymnasium through the other finders, and has `register` called once it is loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "gymnasium":
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _ThenRegister(spec.loader)
                return spec
        return None


class _ThenRegister(importlib.abc.Loader):
    """Steps aside for the module's own loader, as `importlib.util.LazyLoader` does."""

    def __init__(self, loader: importlib.abc.Loader) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        self.loader.exec_module(module)
        sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, _WhenGymnasiumLoads)]
        register()
