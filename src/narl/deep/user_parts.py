"""Parts of a training that a user brings as Python objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from narl.deep.algorithm_registry import step_rule_of
from narl.deep.bonus import BonusFn
from narl.deep.config import Config
from narl.deep.ensemble import Prediction
from narl.deep.make_environment import EnvSource
from narl.deep.selection import Candidates, Selected, SelectFn, SelectParams, select_elite
from narl.deep.termination import TerminationFn
from narl.errors import InputError

_NUM_ROWS = 3
"""Imagined steps on which functions are tried out."""


class UserParts(NamedTuple):
    """A user's environment, termination, selection and bonus; they are in no run's id."""

    env: EnvSource | None = None
    """A function that makes environments, or a `UserEnvironment`; None: the id in the config."""
    termination: TerminationFn | None = None
    select: SelectFn | None = None
    bonus: BonusFn | None = None


NO_PARTS = UserParts()


def check_functions(config: Config, parts: UserParts, obs_dim: int, action_dim: int) -> None:
    """Refuse a selection or a bonus that would not be called, or whose result cannot be used.

    The functions of an algorithm that a user registered are checked as well.
    """

    def mean_reward(candidates: Candidates, params: SelectParams) -> Any:
        return candidates.prediction.reward.mean(0)

    examples: dict[str, Callable[..., Any]] = {"select": select_elite, "bonus": mean_reward}
    used = step_rule_of(config.algo, parts.select, parts.bonus)
    for name, example in examples.items():
        given = getattr(parts, name)
        function = given if used is None else getattr(used, name)
        if given is not None and used is None:
            raise InputError(f"{name}: it has no effect with algorithm {config.algo}; leave it out")
        if function is None or getattr(function, "__module__", "").startswith("narl."):
            continue
        if not callable(function):
            raise InputError(f"{name}: {type(function).__name__} given; it must be a function")
        takes_key = name == "select"
        result = _try_out(function, takes_key, config, obs_dim, action_dim)
        expected = _try_out(example, takes_key, config, obs_dim, action_dim)
        if result != expected:
            arguments = "key, candidates, params" if takes_key else "candidates, params"
            raise InputError(
                f"{name}: the function, called with ({arguments}) of {_NUM_ROWS} steps, gives "
                f"{result}; it must give {expected}"
            )


def _try_out(
    function: Callable[..., Any], takes_key: bool, config: Config, obs_dim: int, action_dim: int
) -> str:
    """Describe the result of a selection or a bonus, or its error; only shapes are computed."""
    members, rows = config.num_members, _NUM_ROWS

    def call(obs: Any, action: Any, reward: Any, next_obs: Any) -> Any:
        prediction = Prediction(reward, next_obs)
        candidates = Candidates(obs, action, prediction, jnp.arange(members), lambda: reward)
        params = SelectParams(jnp.float32(jnp.inf), jnp.int32(members), config)
        keys = (jax.random.key(0),) if takes_key else ()
        result = function(*keys, candidates, params)
        return result._replace(values=None) if isinstance(result, Selected) else result

    dims = (rows, obs_dim), (rows, action_dim), (members, rows), (members, rows, obs_dim)
    try:
        result = jax.eval_shape(call, *(jax.ShapeDtypeStruct(each, jnp.float32) for each in dims))
        return str(jax.tree.map(lambda x: f"{x.dtype}{list(x.shape)}", result)).replace("'", "")
    except Exception as error:
        text = " ".join(str(error).split())[:150]
        return f"{type(error).__name__} ({text})"
