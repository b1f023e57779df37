"""Registration of narl's environments with Gymnasium, such as `narl/RiverSwim-v0`.

Importing this module registers them; `import narl` does so as soon as Gymnasium is loaded, as
Gymnasium has no entry points for packages. Only names are registered: JAX, MuJoCo and the tables
are loaded by `gymnasium.make`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import gymnasium

if TYPE_CHECKING:
    from narl.tabular.io import TabularEnv

NAMES = {
    "narl/RiverSwim-v0": "riverswim",
    "narl/NoisyRiverSwim-v0": "noisy-riverswim",
    "narl/StochasticChain-v0": "stochastic-chain",
    "narl/DeepSea-v0": "deep-sea",
    "narl/DeepSeaStochastic-v0": "deep-sea-stochastic",
    "narl/RandomMDP-v0": "random-mdp",
    "narl/SixArms-v0": "six-arms",
}
"""Gymnasium's id of each of `narl.tabular.envs.ENVIRONMENTS`."""


class Task(NamedTuple):
    """A task of `narl.tasks`, registered once for each of its action costs."""

    entry_point: str
    max_episode_steps: int
    costs: tuple[float, ...]
    """Action costs with an id of their own; the id without a cost has the task's default, .1."""


TASKS = {
    "SparsePendulum": Task("narl.tasks.pendulum:SparsePendulum", 400, (0.0, 0.1, 0.2)),
    "SparseCartPole": Task("narl.tasks.cart_pole:SparseCartPole", 500, (0.0, 0.1, 0.25, 0.4)),
    "SparseReacher": Task("narl.tasks.two_joint_reacher:SparseReacher", 50, (0.0, 0.1, 1.0)),
    "SparseArmReacher": Task(
        "narl.tasks.seven_joint_reacher:SparseArmReacher", 150, (0.0, 0.1, 0.5)
    ),
    "Pusher": Task("narl.tasks.action_costs:make_pusher", 150, (0.0, 0.1, 0.5)),
    "HalfCheetah": Task("narl.tasks.action_costs:make_half_cheetah", 1000, (0.1, 0.5)),
}
"""The tasks by name: `narl/NAME-v0`, and `narl/NAME-cost0.1-v0` for the cost .1."""


def register() -> None:
    """Register every environment of `NAMES` and `TASKS` that is not registered yet."""
    for gymnasium_id, env in NAMES.items():
        _register_once(gymnasium_id, "narl.gymnasium_registration:make_env", {"env": env})
    for name, task in TASKS.items():
        variants: dict[str, dict[str, object]] = {f"narl/{name}-v0": {}}
        variants |= {f"narl/{name}-cost{cost:g}-v0": {"action_cost": cost} for cost in task.costs}
        for gymnasium_id, kwargs in variants.items():
            _register_once(gymnasium_id, task.entry_point, kwargs, task.max_episode_steps)


def _register_once(
    gymnasium_id: str,
    entry_point: str,
    kwargs: dict[str, object],
    max_episode_steps: int | None = None,
) -> None:
    if gymnasium_id not in gymnasium.registry:
        gymnasium.register(
            id=gymnasium_id,
            entry_point=entry_point,
            kwargs=kwargs,
            max_episode_steps=max_episode_steps,
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
