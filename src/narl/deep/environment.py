"""One Gymnasium environment on the host, as the trainer uses it.

Observations and actions are vectors (see `narl.deep.spaces`), every fault is named in one line (see
`narl.deep.env_faults`), and an episode can be continued in another process (see
`narl.deep.env_state`).
"""

import contextlib
import functools
import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.wrappers import TimeLimit
from jaxtyping import Float32

from narl.deep.env_faults import RESET, STEP, EnvChecks
from narl.deep.env_state import (
    EnvState,
    EpisodeRecord,
    capture_state,
    episode_seed,
    restart_seed,
    restore_generators,
    restore_state,
)
from narl.deep.make_environment import EnvSource, UserEnvironment, make_env
from narl.deep.rendering_backend import prepare_rendering
from narl.deep.spaces import (
    FirstEntries,
    Scaling,
    check_spaces,
    env_name,
    make_spaces,
    unflatten_action,
)
from narl.errors import EnvironmentFault, InputError
from narl.interrupts import run_within

_log = logging.getLogger("narl")


class Step(NamedTuple):
    """The outcome of one action."""

    obs: Float32[np.ndarray, " D"]
    reward: float
    terminated: bool
    truncated: bool


class HostEnv:
    """One environment for one seed, stepped on the host; made by `open_env`."""

    def __init__(
        self,
        env: gymnasium.Env,
        seed: int,
        scaling: Scaling,
        *,
        role: str = "training",
        owned: bool = True,
        timeout: float | None = None,
    ) -> None:
        self.env = env
        self.timeout = timeout
        """Seconds that `close` waits for the environment; None: any time."""
        self.name = env_name(env)
        self.seed = seed
        self.role = role
        """Purpose in a training: "training" or "evaluation"."""
        self.owned = owned
        """Whether `close` closes the environment; False for an instance that the user made."""
        self.label = f"{self.name} (seed {seed}, {role})"
        """Name in the messages of faults."""
        self.spaces = make_spaces(env, scaling)
        self.time_limit = _time_limit(env)
        self.num_steps = 0
        self._last_seed: int | None = None
        """Last seed that was not derived from another one; None before the first episode."""
        self._num_later = 0
        """Number of episodes since the one with the last seed."""
        self._episode: EpisodeRecord | None = None
        assert isinstance(env.action_space, Box | Discrete)
        self._action_space = env.action_space
        assert isinstance(env.observation_space, Box)
        self._checks = EnvChecks(self.label, self.name, env.observation_space, self.spaces, scaling)
        for space in (env.unwrapped.observation_space, env.unwrapped.action_space):
            space.seed(seed)  # some environments sample from their spaces

    def reset(self, seed: int | None = None) -> Float32[np.ndarray, " D"]:
        """Begin an episode; the first one with the environment's seed, unless a seed is given."""
        if seed is None and self._last_seed is None:
            seed = self.seed
        if seed is not None:
            self._last_seed, self._num_later = int(seed), 0
            return self._begin(seed)
        assert self._last_seed is not None
        self._num_later += 1
        if self._needs_seed():
            seed = episode_seed(self._last_seed, self._num_later)
        return self._begin(seed)

    def abandon_episode(self, step: int) -> Float32[np.ndarray, " D"]:
        """Begin an episode that depends on the environment's seed and the step only."""
        return self.reset(seed=restart_seed(self.seed, step))

    def _needs_seed(self) -> bool:
        """Return whether the next episode can be repeated only if it has a seed.

        This is so where the state cannot be captured and no known random generator was used in the
        last episode: the environment may draw from a hidden generator that a seed renews.
        """
        episode = self._episode
        if episode is None or episode.seed is None or self._capture_state() is not None:
            return False
        return not episode.used_generators(self.env)

    def _begin(self, seed: int | None) -> Float32[np.ndarray, " D"]:
        # Evaluations are never continued, so that they need no record.
        episode = EpisodeRecord(self.env, seed) if self.role == "training" else None
        with self._checks.naming_faults("reset"):
            result = self.env.reset(seed=seed)
            if not (isinstance(result, tuple) and len(result) == 2):
                self._checks.fault("reset", RESET)
            obs = self._checks.check_obs(result[0], "reset")
        if episode is not None:
            episode.begin(obs)
        self._episode = episode
        return obs

    def step(self, action: Float32[np.ndarray, " A"]) -> Step:
        """Take an action, a vector as the networks give it."""
        self.num_steps += 1
        return self._take(action, f"step {self.num_steps}")

    def _take(self, action: Float32[np.ndarray, " A"], when: str) -> Step:
        self._checks.check_action(action, when)
        native_action = unflatten_action(self.spaces, self._action_space, action)
        with self._checks.naming_faults(when):
            result = self.env.step(native_action)
            if not (isinstance(result, tuple) and len(result) == 5):
                self._checks.fault(when, STEP)
            obs, reward, terminated, truncated, _ = result
            step = Step(
                self._checks.check_obs(obs, when),
                self._checks.check_reward(reward, when),
                self._checks.check_flag(terminated, "terminated", when),
                self._checks.check_flag(truncated, "truncated", when),
            )
        if self._episode is not None:
            self._episode.add(action, step.obs, step.reward)
        return step

    def render(self) -> np.ndarray:
        """Return a picture [height, width, 3] of uint8; needs render_mode="rgb_array"."""
        with self._checks.naming_faults("render"):
            picture = self.env.render()
        if not (
            isinstance(picture, np.ndarray) and picture.ndim == 3 and picture.dtype == np.uint8
        ):
            self._checks.fault("render", f"render() gave {type(picture).__name__}, not a picture")
        return picture

    def close(self) -> None:
        """Close the environment, unless it belongs to the user; a fault is only logged."""
        if not self.owned:
            return
        try:
            with self._checks.naming_faults("close"):
                if self.timeout is None:
                    self.env.close()
                else:
                    late = f"{self.label}: close() has not ended within {self.timeout:g} s"
                    run_within(self.timeout, self.env.close, late)
        except EnvironmentFault as fault:  # what was learned is not lost for it
            _log.warning("%s", fault)

    def capture(self) -> EnvState:
        """Return what `restore` needs to continue the episode, in this process or another."""
        state = self._capture_state()
        if state is None:
            # No record: the state was restored, and cannot be captured any more.
            nothing: EnvState = {"json": {"episode": None}, "arrays": {}}
            state = nothing if self._episode is None else self._episode.capture()
        state["json"] |= {
            "name": self.name,
            "num_steps": self.num_steps,
            "last_seed": self._last_seed,
            "num_later": self._num_later,
        }
        return state

    def _capture_state(self) -> EnvState | None:
        with self._checks.naming_faults("capture"):
            return capture_state(self.env)

    def restore(self, state: EnvState) -> bool:
        """Continue a captured episode; the environment must have been made in the same way.

        False: the repetition of the episode gave other observations or rewards, because the
        environment is not a function of its generators, seed and actions; call `abandon_episode`.
        """
        stored = state["json"]
        if stored["name"] != self.name:
            raise InputError(f"env: the stored state is of {stored['name']}, not {self.name}")
        if self._last_seed is None:
            self.reset()  # makes generators and wrappers ready
        if "layers" in stored:
            with self._checks.naming_faults("restore"):
                restore_state(self.env, state)
            self._episode = None  # the beginning of the episode is not known any more
            continues = True
        else:
            continues = stored["episode"] is not None and self._repeat(state)
        self.num_steps = stored["num_steps"]
        self._last_seed, self._num_later = stored["last_seed"], stored["num_later"]
        return continues

    def _repeat(self, state: EnvState) -> bool:
        """Repeat the actions of a captured episode; return whether the outcomes are the same."""
        stored = state["json"]["episode"]
        with self._checks.naming_faults("restore"):
            restore_generators(self.env, stored["generators"])
        actions = state["arrays"]["actions"].reshape(-1, self.spaces.action_dim)
        try:
            self._begin(stored["seed"])
            for number, action in enumerate(actions, start=1):
                step = self._take(action, f"repeated step {number}")
                if step.terminated or step.truncated:
                    return False
        except EnvironmentFault:  # there was none the first time; a new episode may go well
            return False
        return self._episode is not None and self._episode.digest() == stored["digest"]


class EnvRecipe(NamedTuple):
    """Everything that is needed to make an environment."""

    source: EnvSource
    env_kwargs: Mapping[str, Any] = MappingProxyType({})
    scaling: Scaling = "bounds"
    obs_keep: int | None = None
    """Number of leading entries of the observation that are used; None: all."""
    timeout: float | None = None
    """Seconds that it may take to make the environment, or to close it; None: any time."""

    def open(self, seed: int, render_mode: str | None = None, role: str = "training") -> HostEnv:
        """Return a new environment, or the user's own instance in the role "training".

        ``role`` ("training", "evaluation") is named in the messages of faults.
        """
        kwargs = dict(self.env_kwargs)
        if render_mode is not None:
            prepare_rendering()
            kwargs["render_mode"] = render_mode
        env = self._make_in_time(kwargs, role)
        owned = not (isinstance(self.source, UserEnvironment) and env is self.source.instance)
        try:
            if self.obs_keep is not None:
                env = FirstEntries(env, self.obs_keep)
            check_spaces(env)
            return HostEnv(env, seed, self.scaling, role=role, owned=owned, timeout=self.timeout)
        except Exception:
            if owned:
                with contextlib.suppress(Exception):  # what is wrong with it was found before
                    env.close()
            raise

    def _make_in_time(self, kwargs: Mapping[str, Any], role: str) -> gymnasium.Env:
        """Return a new environment that is made in time."""
        if self.timeout is None:
            return make_env(self.source, kwargs, role)
        name = self.source if isinstance(self.source, str) else "env"
        late = f"{name}: it is not made within {self.timeout:g} s: __init__ hangs, or the time-out"
        make = functools.partial(make_env, self.source, kwargs, role)
        return run_within(self.timeout, make, f"{late} is too short")


def open_env(
    source: EnvSource,
    seed: int,
    env_kwargs: Mapping[str, Any] | None = None,
    render_mode: str | None = None,
    *,
    scaling: Scaling = "bounds",
    obs_keep: int | None = None,
    role: str = "training",
) -> HostEnv:
    """Return a new environment; see `EnvRecipe`."""
    recipe = EnvRecipe(source, env_kwargs or {}, scaling, obs_keep)
    return recipe.open(seed, render_mode, role)


def _time_limit(env: gymnasium.Env) -> int | None:
    """Return the steps after which an episode is truncated; None: the environment decides."""
    layer = env
    while isinstance(layer, gymnasium.Wrapper):
        if isinstance(layer, TimeLimit):
            return layer._max_episode_steps
        layer = layer.env
    return None if env.spec is None else env.spec.max_episode_steps
