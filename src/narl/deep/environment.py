"""One Gymnasium environment on the host, as the trainer uses it.

Observations and actions are vectors (see `narl.deep.spaces`), every fault is named in one line, and
an episode can be continued in another process (see `narl.deep.env_state`).
"""

import contextlib
import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn

import gymnasium
import numpy as np
from gymnasium.error import DependencyNotInstalled
from gymnasium.spaces import Box, Discrete
from gymnasium.wrappers import TimeLimit
from jaxtyping import Float32

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
    largest_usual_obs,
    make_spaces,
)
from narl.deep.spaces import flatten_obs as _flatten_obs
from narl.deep.spaces import unflatten_action as _unflatten_action
from narl.errors import EnvironmentFault, InputError, first_line

_LARGEST = float(np.finfo(np.float32).max)
_RESET, _STEP = (
    "reset() must return (observation, info)",
    "step() must return (observation, reward, terminated, truncated, info)",
)
_log = logging.getLogger("narl")
_warned: set[str] = set()
"""Subjects of `warn_once` so far."""


def warn_once(subject: str, line: str) -> None:
    """Log a line, unless this process has logged one about the same subject."""
    if subject not in _warned:
        _warned.add(subject)
        _log.warning("%s", line, extra={"subject": subject})


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
    ) -> None:
        self.env = env
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
        self._obs_space = env.observation_space
        self._obs_shape = env.observation_space.shape
        self._obs_limit = largest_usual_obs(env.observation_space, scaling)
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
        with self._naming_faults("reset"):
            result = self.env.reset(seed=seed)
            if not (isinstance(result, tuple) and len(result) == 2):
                self._fault("reset", _RESET)
            obs = self._check_obs(result[0], "reset")
        if episode is not None:
            episode.begin(obs)
        self._episode = episode
        return obs

    def step(self, action: Float32[np.ndarray, " A"]) -> Step:
        """Take an action, a vector as the networks give it."""
        self.num_steps += 1
        return self._take(action, f"step {self.num_steps}")

    def _take(self, action: Float32[np.ndarray, " A"], when: str) -> Step:
        if not np.isfinite(action).all():
            index = int(np.flatnonzero(~np.isfinite(action))[0])
            self._fault(when, f"the policy's action[{index}] is {action[index]}")
        native_action = _unflatten_action(self.spaces, self._action_space, action)
        with self._naming_faults(when):
            result = self.env.step(native_action)
            if not (isinstance(result, tuple) and len(result) == 5):
                self._fault(when, _STEP)
            obs, reward, terminated, truncated, _ = result
            step = Step(
                self._check_obs(obs, when),
                self._check_reward(reward, when),
                self._check_flag(terminated, "terminated", when),
                self._check_flag(truncated, "truncated", when),
            )
        if self._episode is not None:
            self._episode.add(action, step.obs, step.reward)
        return step

    def render(self) -> np.ndarray:
        """Return a picture [height, width, 3] of uint8; needs render_mode="rgb_array"."""
        with self._naming_faults("render"):
            picture = self.env.render()
        if not (
            isinstance(picture, np.ndarray) and picture.ndim == 3 and picture.dtype == np.uint8
        ):
            self._fault("render", f"render() gave {type(picture).__name__}, not a picture")
        return picture

    def close(self) -> None:
        """Close the environment, unless it belongs to the user; a fault is only logged."""
        if not self.owned:
            return
        try:
            with self._naming_faults("close"):
                self.env.close()
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
        with self._naming_faults("capture"):
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
            with self._naming_faults("restore"):
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
        with self._naming_faults("restore"):
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

    def _check_obs(self, obs: Any, when: str) -> Float32[np.ndarray, " D"]:
        """Return an observation for the networks; its shape must be right and all finite."""
        raw = np.asarray(obs)
        if raw.dtype.kind not in "biuf":
            kind = f"{type(obs).__name__} of {raw.dtype}"
            self._fault(when, f"observation is a {kind}, not an array of numbers")
        if raw.shape != self._obs_shape:
            self._fault(when, f"observation has shape {raw.shape}, expected {self._obs_shape}")
        with np.errstate(over="ignore", invalid="ignore"):
            vector = _flatten_obs(self.spaces, raw)
            is_usual = (np.abs(vector) <= self._obs_limit).all()
        if not is_usual:
            self._explain_obs(np.ravel(raw), vector, when)
        return vector

    def _explain_obs(self, raw: np.ndarray, vector: Float32[np.ndarray, " D"], when: str) -> None:
        """Refuse an observation that is not finite; warn of one that is outside its bounds."""
        if not np.isfinite(vector).all():
            index = int(np.flatnonzero(~np.isfinite(vector))[0])
            self._fault(when, f"observation[{index}] is {_amount(raw[index])}")
        index = int(np.flatnonzero(np.abs(vector) > self._obs_limit)[0])
        bounds = np.ravel(self._obs_space.low)[index], np.ravel(self._obs_space.high)[index]
        low, high, value = map(float, (*bounds, raw[index]))
        warn_once(
            f"bounds {self.name} {self._obs_space}",
            f"{self.label}: {when}: observation[{index}] is {value:g}, outside its bounds "
            f"[{low:g}, {high:g}], by which it is scaled; correct the bounds in observation_space",
        )
        self._obs_limit = np.full_like(vector, _LARGEST)  # no other line, and no time for it

    def _check_reward(self, reward: Any, when: str) -> float:
        """Return a reward as a float; it must be one finite number."""
        if isinstance(reward, np.ndarray) and reward.size == 1:
            reward = reward.item()
        try:  # Python would read a number from a text
            value = None if isinstance(reward, str | bytes) else float(reward)
        except (TypeError, ValueError):
            value = None
        if value is None:
            self._fault(when, f"reward is {first_line(repr(reward))}, not a number")
        if not abs(value) <= _LARGEST:
            self._fault(when, f"reward is {_amount(value)}")
        return value

    def _check_flag(self, value: Any, name: str, when: str) -> bool:
        """Return a flag as a boolean; it must be one, or 0 or 1."""
        if value is True or value is False:
            return value
        try:
            array = np.asarray(value)
        except ValueError:  # parts that differ in shape
            array = np.asarray(None)
        if array.dtype.kind not in "biuf" or array.size != 1 or array.item() not in (0, 1):
            self._fault(when, f"{name} is {first_line(repr(value))}, not a boolean")
        return bool(array.item())

    def _naming_faults(self, when: str) -> "_FaultNaming":
        return _FaultNaming(self.label, when)

    def _fault(self, when: str, cause: str) -> NoReturn:
        raise EnvironmentFault(f"{self.label}: {when}: {cause}")


class _FaultNaming:
    """A context in which every error of the environment becomes an EnvironmentFault.

    A class, since a generator would cost a step of a small environment a tenth of its time.
    """

    __slots__ = ("label", "when")

    def __init__(self, label: str, when: str) -> None:
        self.label, self.when = label, when

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        is_fault = isinstance(error, Exception | SystemExit)
        if is_fault and not isinstance(error, EnvironmentFault | InputError):
            text = first_line(str(error))
            if _is_unpacking_in_wrapper(error):
                raise EnvironmentFault(f"{self.label}: {self.when}: {_STEP}") from error
            if isinstance(error, DependencyNotInstalled) and text.startswith("pygame "):
                # Gymnasium names one of its own extras, under a name that pip does not know.
                raise InputError(
                    f"{self.label}: {self.when}: pygame is not installed; pip install 'narl[video]'"
                ) from error
            raise EnvironmentFault(
                f"{self.label}: {self.when}: {type(error).__name__}{': ' if text else ''}{text}"
            ) from error


def _is_unpacking_in_wrapper(error: BaseException | None) -> bool:
    """Return whether a wrapper failed to take apart what the step of its environment returned."""
    trace = None if error is None else error.__traceback__
    if trace is None or not isinstance(error, TypeError | ValueError):
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    frame, text = trace.tb_frame, str(error)
    is_step = frame.f_code.co_name == "step"
    if not (is_step and isinstance(frame.f_locals.get("self"), gymnasium.Wrapper)):
        return False
    is_gymnasium = str(frame.f_globals.get("__name__")).startswith("gymnasium.")
    return "unpack" in text and (is_gymnasium or "expected 5" in text)


class EnvRecipe(NamedTuple):
    """Everything that is needed to make an environment."""

    source: EnvSource
    env_kwargs: Mapping[str, Any] = MappingProxyType({})
    scaling: Scaling = "bounds"
    obs_keep: int | None = None
    """Number of leading entries of the observation that are used; None: all."""

    def open(self, seed: int, render_mode: str | None = None, role: str = "training") -> HostEnv:
        """Return a new environment, or the user's own instance in the role "training".

        ``role`` ("training", "evaluation") is named in the messages of faults.
        """
        kwargs = dict(self.env_kwargs)
        if render_mode is not None:
            prepare_rendering()
            kwargs["render_mode"] = render_mode
        env = make_env(self.source, kwargs, role)
        owned = not (isinstance(self.source, UserEnvironment) and env is self.source.instance)
        try:
            if self.obs_keep is not None:
                env = FirstEntries(env, self.obs_keep)
            check_spaces(env)
            return HostEnv(env, seed, self.scaling, role=role, owned=owned)
        except Exception:
            if owned:
                with contextlib.suppress(Exception):  # what is wrong with it was found before
                    env.close()
            raise


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


def _amount(value: Any) -> str:
    """Return an unusable number as text, with the reason where the number does not show it."""
    return str(value) if not np.isfinite(value) else f"{value}, which float32 cannot hold"
