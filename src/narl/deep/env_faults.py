"""Faults of environments: what an environment returns is checked, and every error is one line."""

import logging
from typing import Any, NoReturn

import gymnasium
import numpy as np
from gymnasium.error import DependencyNotInstalled
from gymnasium.spaces import Box
from jaxtyping import Float32

from narl.deep.spaces import Scaling, Spaces, flatten_obs, largest_usual_obs
from narl.errors import EnvironmentFault, InputError, first_line, install_hint

_LARGEST = float(np.finfo(np.float32).max)
RESET, STEP = (
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


class EnvChecks:
    """Checks what one environment returns; a fault names the environment and the moment."""

    def __init__(
        self, label: str, name: str, obs_space: Box, spaces: Spaces, scaling: Scaling
    ) -> None:
        self.label, self._name = label, name
        self._obs_space, self._spaces = obs_space, spaces
        self._obs_limit = largest_usual_obs(obs_space, scaling)

    def naming_faults(self, when: str) -> "FaultNaming":
        """Return a context in which every error of the environment becomes a fault."""
        return FaultNaming(self.label, when)

    def fault(self, when: str, cause: str) -> NoReturn:
        """Raise an `EnvironmentFault`."""
        raise EnvironmentFault(f"{self.label}: {when}: {cause}")

    def check_action(self, action: Float32[np.ndarray, " A"], when: str) -> None:
        """Refuse an action of the policy that is not finite."""
        if not np.isfinite(action).all():
            index = int(np.flatnonzero(~np.isfinite(action))[0])
            self.fault(when, f"the policy's action[{index}] is {action[index]}")

    def check_obs(self, obs: Any, when: str) -> Float32[np.ndarray, " D"]:
        """Return an observation for the networks; its shape must be right and all finite."""
        raw = np.asarray(obs)
        if raw.dtype.kind not in "biuf":
            kind = f"{type(obs).__name__} of {raw.dtype}"
            self.fault(when, f"observation is a {kind}, not an array of numbers")
        if raw.shape != self._obs_space.shape:
            self.fault(when, f"observation has shape {raw.shape}, expected {self._obs_space.shape}")
        with np.errstate(over="ignore", invalid="ignore"):
            vector = flatten_obs(self._spaces, raw)
            is_usual = (np.abs(vector) <= self._obs_limit).all()
        if not is_usual:
            self._explain_obs(np.ravel(raw), vector, when)
        return vector

    def _explain_obs(self, raw: np.ndarray, vector: Float32[np.ndarray, " D"], when: str) -> None:
        """Refuse an observation that is not finite; warn of one that is outside its bounds."""
        if not np.isfinite(vector).all():
            index = int(np.flatnonzero(~np.isfinite(vector))[0])
            self.fault(when, f"observation[{index}] is {_amount(raw[index])}")
        index = int(np.flatnonzero(np.abs(vector) > self._obs_limit)[0])
        bounds = np.ravel(self._obs_space.low)[index], np.ravel(self._obs_space.high)[index]
        low, high, value = map(float, (*bounds, raw[index]))
        warn_once(
            f"bounds {self._name} {self._obs_space}",
            f"{self.label}: {when}: observation[{index}] is {value:g}, outside its bounds "
            f"[{low:g}, {high:g}], by which it is scaled; correct the bounds in observation_space",
        )
        self._obs_limit = np.full_like(vector, _LARGEST)  # no other line, and no time for it

    def check_reward(self, reward: Any, when: str) -> float:
        """Return a reward as a float; it must be one finite number."""
        if isinstance(reward, np.ndarray) and reward.size == 1:
            reward = reward.item()
        try:  # Python would read a number from a text
            value = None if isinstance(reward, str | bytes) else float(reward)
        except (TypeError, ValueError):
            value = None
        if value is None:
            self.fault(when, f"reward is {first_line(repr(reward))}, not a number")
        if not abs(value) <= _LARGEST:
            self.fault(when, f"reward is {_amount(value)}")
        return value

    def check_flag(self, value: Any, name: str, when: str) -> bool:
        """Return a flag as a boolean; it must be one, or 0 or 1."""
        if value is True or value is False:
            return value
        try:
            array = np.asarray(value)
        except ValueError:  # parts that differ in shape
            array = np.asarray(None)
        if array.dtype.kind not in "biuf" or array.size != 1 or array.item() not in (0, 1):
            self.fault(when, f"{name} is {first_line(repr(value))}, not a boolean")
        return bool(array.item())


class FaultNaming:
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
                raise EnvironmentFault(f"{self.label}: {self.when}: {STEP}") from error
            if isinstance(error, DependencyNotInstalled) and text.startswith("pygame "):
                # Gymnasium names one of its own extras, under a name that pip does not know.
                raise InputError(
                    f"{self.label}: {self.when}: pygame is not installed; {install_hint('video')}"
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


def _amount(value: Any) -> str:
    """Return an unusable number as text, with the reason where the number does not show it."""
    return str(value) if not np.isfinite(value) else f"{value}, which float32 cannot hold"
