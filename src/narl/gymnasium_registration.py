"""Registration of the tabular environments with Gymnasium, such as `narl/RiverSwim-v0`.

Importing this module registers them; `import narl` does so as soon as Gymnasium is loaded, as
Gymnasium has no entry points for packages. Only names are registered: JAX and the tables are loaded
by `gymnasium.make`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import gymnasium

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
    """Register every environment of `NAMES` that is not registered yet."""
    for gymnasium_id, env in NAMES.items():
        if gymnasium_id not in gymnasium.registry:
            gymnasium.register(
                id=gymnasium_id,
                entry_point="narl.gymnasium_registration:make_env",
                kwargs={"env": env},
            )


def make_env(
    env: str,
    size: int | None = None,
    horizon: int | None = None,
    seed: int = 0,
    render_mode: str | None = None,
) -> TabularEnv:
    """Return a tabular environment for `gymnasium.make`.

    Size, horizon and seed are those of `narl.tabular.envs.make`.
    """
    from narl.tabular.envs import make
    from narl.tabular.io import to_gymnasium

    return to_gymnasium(make(env, size=size, horizon=horizon, seed=seed), render_mode)


register()
