"""An environment of the user's own: a function that makes it, or one instance of it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from narl.deep.environment import open_env
from narl.deep.make_environment import EXAMPLE, MakeEnv, make_own
from narl.deep.owners import refuse_what_is_not_used
from narl.deep.presets import find_preset
from narl.deep.rollout import Ends
from narl.deep.spaces import env_name
from narl.errors import InputError

_PLAIN = (TimeLimit, OrderEnforcing, PassiveEnvChecker)
"""Wrappers that change neither observations nor when episodes end."""


class OwnEnv:
    """Makes the environments of a training.

    An instance serves as the environment that is trained in. Evaluations run in a deep copy of
    it, or where it cannot be copied, in one made anew from its specification.
    """

    def __init__(self, env: MakeEnv | gymnasium.Env) -> None:
        self._env = env
        self.is_instance = isinstance(env, gymnasium.Env)
        if isinstance(env, gymnasium.Env):
            self._look_at(env)
        else:
            made = open_env(env, 0)
            self._look_at(made.env)
            made.close()

    def _look_at(self, env: gymnasium.Env) -> None:
        self.name = env_name(env)
        self.known: Ends | None = None
        """When its episodes end, where it is one of the presets with nothing changed."""
        layer = env
        while isinstance(layer, _PLAIN):
            layer = layer.env
        if not isinstance(layer, gymnasium.Wrapper) and env.spec is not None:
            task = find_preset(env.spec.id, env.spec.kwargs)
            self.known = None if task is None else task.termination

    def opener(self) -> MakeEnv:
        """A function for one training; of an instance the first call gives the instance itself."""
        if not isinstance(self._env, gymnasium.Env):
            return self._env
        waiting = [self._env]

        def make(**kwargs: Any) -> gymnasium.Env:
            return waiting.pop() if waiting and not kwargs else self.another(**kwargs)

        return make

    def another(self, **kwargs: Any) -> gymnasium.Env:
        """One more environment of this kind."""
        if not isinstance(self._env, gymnasium.Env):
            return make_own(self._env, kwargs)
        wanted = kwargs.get("render_mode", self._env.render_mode)
        if wanted == self._env.render_mode:
            try:
                return copy.deepcopy(self._env)
            except Exception:  # whatever a simulator that cannot be copied raises
                kwargs = {"render_mode": wanted}
        try:
            assert self._env.spec is not None
            return gymnasium.make(self._env.spec, **kwargs)
        except Exception as error:
            problem = "can neither be copied nor made anew"
            if wanted != self._env.render_mode:
                problem = (
                    f"was made with render_mode={self._env.render_mode!r} and cannot be made anew "
                    f"with {wanted!r}"
                )
            raise InputError(
                f"env: {self.name} {problem}; give a function that makes it, such as {EXAMPLE}"
            ) from error


def check_termination(given: Any, algo: str, *, named: bool = True) -> None:
    """Refuses what is neither a function nor (``named``) the name of a kind of termination."""
    refuse_what_is_not_used(algo, ["termination"])
    if not callable(given) and not (named and isinstance(given, str)):
        raise InputError(
            f"termination: {type(given).__name__} given; it must be a function, such as "
            "lambda obs, action, next_obs: next_obs[0] < 0.7"
        )


def as_ends(function: Callable[..., Any], obs_dim: int, action_dim: int) -> Ends:
    """The user's termination for batches; he may have written it for one transition."""
    dims = (obs_dim, action_dim, obs_dim)

    def outcome(*batch: int) -> Any:
        given = [jax.ShapeDtypeStruct((*batch, dim), jnp.float32) for dim in dims]
        try:
            return jax.eval_shape(lambda *x: jnp.asarray(function(*x)), *given)
        except Exception as error:  # whatever his function raises
            return error

    def flat(*given: Any) -> Any:
        return jnp.reshape(jnp.asarray(function(*given)), given[0].shape[:-1]).astype(bool)

    alone = outcome()
    if getattr(alone, "shape", None) in ((), (1,)):
        return jax.vmap(flat)
    if getattr(outcome(3), "shape", None) in ((3,), (3, 1)):
        return flat
    said = alone if isinstance(alone, Exception) else f"it gives shape {alone.shape}"
    line = " ".join(str(said).split())[:150] or type(said).__name__
    raise InputError(
        "termination: the function must take (obs, action, next_obs) as JAX arrays and give a "
        f"boolean, such as lambda obs, action, next_obs: next_obs[0] < 0.7 ({line})"
    )
