"""Sparse pendulum swing-up with action cost, the task of H-UCRL (Curi et al., 2020)."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from jaxtyping import Float, Float32, UInt8

from narl.tasks.drawing import BLUE, GREEN, GREY, RED, Capsule, draw_capsules
from narl.validation import check_number

TIME_STEP = 1 / 80
MASS, LENGTH, FRICTION, GRAVITY = 0.3, 0.5, 0.005, 9.81
INERTIA = MASS * LENGTH**2
_GRAVITY_RATE = GRAVITY / LENGTH
_TORQUE_RATE = 1.0 / INERTIA
_FRICTION_RATE = FRICTION / INERTIA
_LOG_AT_MARGIN = math.log(0.1)
"""Logarithm of the tolerance at the margin."""


class SparsePendulum(gymnasium.Env[np.ndarray, np.ndarray]):
    """Swing a pendulum up and keep it there, with a torque u in [−1, 1] and a price on torque.

    The state is the angle θ (0 is upright) and its velocity. With the tolerance function below, the
    reward for action u in a state is tol(cos θ; [.95, 1], .1)·tol(θ̇; [−.5, .5], .5) +
    w·(tol(u; [−.1, .1], .1) − 1), w = ``action_cost``. Every episode begins at rest with θ = π.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 80}  # type: ignore[misc]

    def __init__(self, action_cost: float = 0.1, render_mode: str | None = None) -> None:
        self.action_cost = check_number("action_cost", action_cost, whole=False, minimum=0.0)
        self.render_mode = render_mode
        bounds = np.array([1.0, 1.0, np.inf], np.float32)
        self.observation_space = Box(-bounds, bounds)
        self.action_space = Box(-1.0, 1.0, (1,))
        self._angle, self._velocity, self._torque = math.pi, 0.0, 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float32[np.ndarray, "3"], dict[str, Any]]:
        """Hang the pendulum down at rest; return (cos θ, sin θ, θ̇) and no information."""
        super().reset(seed=seed)
        self._angle, self._velocity, self._torque = math.pi, 0.0, 0.0
        return self._observe(), {}

    def step(
        self, action: Float[np.ndarray, "1"]
    ) -> tuple[Float32[np.ndarray, "3"], float, bool, bool, dict[str, Any]]:
        """Apply a torque for 1/80 s; return observation, reward, False, False and no information.

        The reward is for the state in which the torque is applied, as in H-UCRL.
        """
        torque = min(max(float(action[0]), -1.0), 1.0)
        reward = (
            tolerance(math.cos(self._angle), 0.95, 1.0, 0.1)
            * tolerance(self._velocity, -0.5, 0.5, 0.5)
        ) + self.action_cost * (tolerance(torque, -0.1, 0.1, 0.1) - 1.0)
        self._angle, self._velocity = _next_state(self._angle, self._velocity, torque)
        self._torque = torque
        return self._observe(), reward, False, False, {}

    def render(self) -> UInt8[np.ndarray, "height width 3"] | None:
        """Return a picture of the pendulum; its axis has the colour of the torque."""
        if self.render_mode != "rgb_array":
            return None
        tip = (LENGTH * math.sin(self._angle), LENGTH * math.cos(self._angle))
        axis = GREY if abs(self._torque) <= 0.1 else GREEN if self._torque > 0 else RED
        bodies = [
            Capsule((0.0, 0.0), tip, 0.02, BLUE),
            Capsule(tip, tip, 0.06, BLUE),
            Capsule((0.0, 0.0), (0.0, 0.0), 0.035, axis),
        ]
        return draw_capsules(bodies, (0.0, 0.0), 1.8)

    def get_state(self) -> list[float]:
        """Return angle, velocity and last torque, from which `set_state` continues an episode."""
        return [self._angle, self._velocity, self._torque]

    def set_state(self, state: list[float]) -> None:
        """Continue from a state that `get_state` returned."""
        self._angle, self._velocity, self._torque = state

    def _observe(self) -> Float32[np.ndarray, "3"]:
        return np.array(
            (math.cos(self._angle), math.sin(self._angle), self._velocity), dtype=np.float32
        )


def tolerance(value: float, low: float, high: float, margin: float) -> float:
    """Return 1 within the bounds, and exp(ln(.1)·(distance/margin)²) outside."""
    distance = low - value if value < low else value - high
    return 1.0 if distance <= 0.0 else math.exp(_LOG_AT_MARGIN * (distance / margin) ** 2)


def _acceleration(angle: float, velocity: float, torque: float) -> float:
    return _GRAVITY_RATE * math.sin(angle) + _TORQUE_RATE * torque - _FRICTION_RATE * velocity


def _next_state(angle: float, velocity: float, torque: float) -> tuple[float, float]:
    """Return angle and velocity after one time step by the classical Runge-Kutta method.

    H-UCRL integrates with an adaptive method; at this step both agree to about 1e-7, where Euler's
    method would gain energy.
    """
    h = TIME_STEP
    a1 = _acceleration(angle, velocity, torque)
    v2 = velocity + 0.5 * h * a1
    a2 = _acceleration(angle + 0.5 * h * velocity, v2, torque)
    v3 = velocity + 0.5 * h * a2
    a3 = _acceleration(angle + 0.5 * h * v2, v3, torque)
    v4 = velocity + h * a3
    a4 = _acceleration(angle + h * v3, v4, torque)
    return (
        angle + h / 6.0 * (velocity + 2.0 * v2 + 2.0 * v3 + v4),
        velocity + h / 6.0 * (a1 + 2.0 * a2 + 2.0 * a3 + a4),
    )
