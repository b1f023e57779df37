"""Parts of a training that a user brings as Python objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from narl.deep.algorithm_registry import step_rule_of
from narl.deep.bonus import BonusFn
from narl.deep.bonus_state import init_bonus_state
from narl.deep.checked_config import used_options
from narl.deep.config import Config
from narl.deep.ensemble import Prediction
from narl.deep.make_environment import EnvSource
from narl.deep.networks import init_actor
from narl.deep.selection import (
    Candidates,
    Selected,
    SelectFn,
    SelectParams,
    replica_numbers,
    select_elite,
    take_members,
)
from narl.deep.termination import TerminationFn
from narl.errors import InputError, first_line

_NUM_ROWS = 3
"""Imagined steps on which functions are tried out."""


class UserParts(NamedTuple):
    """A user's functions, and how environments are run; nothing of this is in a run's id.

    `run_training` takes it as ``parts``; give such runs a root folder of their own.

    Example:
        >>> import gymnasium
        >>> parts = narl.deep.UserParts(env=lambda: gymnasium.make("Pendulum-v1", g=9.81))
        >>> parts.termination is None
        True
    """

    env: EnvSource | None = None
    """A function that makes environments, or a `UserEnvironment`; None: the id in the config."""
    termination: TerminationFn | None = None
    """(obs, action, next_obs) → whether the episode ends; None: the known or a learned rule."""
    select: SelectFn | None = None
    """The selection among the members; None: the algorithm's own."""
    bonus: BonusFn | None = None
    """The bonus on imagined rewards; None: the algorithm's own."""
    env_workers: int | None = None
    """Processes that step the environments; None: as many as are of use."""
    env_timeout: float | None = None
    """Seconds that an environment may take to be made, for a step or for an evaluation; None: any
    time."""


NO_PARTS = UserParts()


def check_functions(config: Config, parts: UserParts, obs_dim: int, action_dim: int) -> None:
    """Refuse a selection or a bonus that would not be called, or whose result cannot be used.

    The functions of an algorithm that a user registered are checked as well.
    """

    def mean_reward(key: Any, candidates: Candidates, selected: Selected, params: Any) -> Any:
        return candidates.prediction.reward.mean(0)

    examples: dict[str, Callable[..., Any]] = {"select": select_elite, "bonus": mean_reward}
    used = step_rule_of(config, parts.select, parts.bonus)
    for name, example in examples.items():
        given = getattr(parts, name)
        function = given if used is None else getattr(used, name)
        if given is not None and used is None:
            raise InputError(f"{name}: it has no effect with algorithm {config.algo}; leave it out")
        if given is not None and name == "select" and config.optimism_at == "update":
            raise InputError(
                "select: it has no effect with optimism_at update, where the radius decides; leave "
                "one of them out"
            )
        if given is not None and name == "bonus" and "noise" in used_options(config):
            _refuse_replaced_noise(config)
        if function is None or getattr(function, "__module__", "").startswith("narl."):
            continue
        if not callable(function):
            raise InputError(f"{name}: {type(function).__name__} given; it must be a function")
        result, expected = (
            _try_out(each, name, config, obs_dim, action_dim) for each in (function, example)
        )
        if result != expected:
            arguments = f"key, candidates, {'selected, ' if name == 'bonus' else ''}params"
            raise InputError(
                f"{name}: the function, called with ({arguments}) of {_NUM_ROWS} steps, gives "
                f"{result}; it must give {expected}"
            )


def _refuse_replaced_noise(config: Config) -> None:
    """Refuse noise on the rewards, the algorithm's own bonus, beside one that takes its place."""
    own = step_rule_of(config)
    if own is None or own.bonus is None or config.noise == "model":
        return
    right = "leave it out, or take narl.MBPO with the bonus, which draws models in the same way"
    if config.noise == "both":
        right = "give 'model', which chooses among the models in the same way"
    raise InputError(
        f"noise: {config.noise!r} has no effect on rewards beside a bonus, which takes the place "
        f"of their noise; {right}"
    )


def _try_out(
    function: Callable[..., Any], kind: str, config: Config, obs_dim: int, action_dim: int
) -> str:
    """Describe the result of a selection or a bonus, or its error; only shapes are computed."""
    members, rows = config.num_members, _NUM_ROWS

    def call(obs: Any, action: Any, reward: Any, next_obs: Any) -> Any:
        key, prediction = jax.random.key(0), Prediction(reward, next_obs)

        def values(after: Any = None) -> Any:
            return (next_obs if after is None else after).sum(-1)

        candidates = Candidates(
            obs=obs,
            action=action,
            prediction=prediction,
            mean=prediction,
            scored=prediction,
            disagreement=obs.sum(-1),
            information=obs.sum(-1),
            ranked=jnp.arange(members),
            trajectory_uniform=obs.sum(-1),
            values=values,
        )
        numbers = jax.tree.map(lambda x: jnp.asarray(x[0]), replica_numbers([config]))
        state = init_bonus_state(init_actor(key, obs_dim, action_dim, config.hidden))
        params = SelectParams(numbers, jnp.float32(1.0), state, config)
        if kind == "select":
            return function(key, candidates, params)
        selected = take_members(candidates, jnp.zeros(rows, jnp.int32))
        return function(key, candidates, selected, params)

    dims = (rows, obs_dim), (rows, action_dim), (members, rows), (members, rows, obs_dim)
    try:
        result = jax.eval_shape(call, *(jax.ShapeDtypeStruct(each, jnp.float32) for each in dims))
        return str(jax.tree.map(lambda x: f"{x.dtype}{list(x.shape)}", result)).replace("'", "")
    except Exception as error:
        reason = f"{type(error).__name__} ({first_line(str(error))})"
        if isinstance(error, jax.errors.ConcretizationTypeError):
            reason += ", because it is compiled: use jnp.where in place of if"
        return reason
