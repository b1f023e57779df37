"""Sparse cart-pole swing-up with action cost: the cart-pole of dm_control in closed form."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from jaxtyping import Float, Float32, UInt8

from narl.tasks.drawing import BLUE, GREEN, GREY, RED, Capsule, draw_capsules
from narl.validation import check_number

TIME_STEP = 0.01
ACTION_REPEAT = 2
FORCE, GRAVITY = 10.0, 9.81
CART_MASS, CART_DAMPING = 1.0, 5e-4
POLE_MASS, POLE_DAMPING, POLE_LENGTH, POLE_RADIUS = 0.1, 2e-6, 1.0, 0.045
RAIL_END = 1.8
"""Distance from the middle of the rail at which its soft ends begin to push back."""
GOAL_POSITION, GOAL_COSINE = 0.25, 0.995


def _capsule_inertia(mass: float, length: float, radius: float) -> float:
    """Return the inertia of a capsule around an axis through its centre, across its length.

    ``length`` is that of the cylinder, to which the two half spheres add.
    """
    cylinder, sphere = length, 4.0 / 3.0 * radius  # volumes divided by πr²
    cylinder_mass = mass * cylinder / (cylinder + sphere)
    sphere_mass = mass - cylinder_mass
    return cylinder_mass * (3.0 * radius**2 + length**2) / 12.0 + sphere_mass * (
        0.4 * radius**2 + length**2 / 4.0 + 3.0 * length * radius / 8.0
    )


# The mass matrix is [[_TOTAL_MASS, c], [c, _HINGE_INERTIA]] with c = _MOMENT·cos θ.
_TOTAL_MASS = CART_MASS + POLE_MASS
_MOMENT = POLE_MASS * POLE_LENGTH / 2.0
_HINGE_INERTIA = (
    _capsule_inertia(POLE_MASS, POLE_LENGTH, POLE_RADIUS) + POLE_MASS * (POLE_LENGTH / 2.0) ** 2
)

# MuJoCo's soft limit: time constant and damping ratio (.08, 1), impedance from .9 to .95 over the
# first millimetre.
_STIFFNESS = 1.0 / (0.95 * 0.08) ** 2
_LIMIT_DAMPING = 2.0 / (0.95 * 0.08)
_INVERSE_WEIGHT = _HINGE_INERTIA / (_TOTAL_MASS * _HINGE_INERTIA - _MOMENT**2)
"""Acceleration of the cart per newton with the pole upright."""


class SparseCartPole(gymnasium.Env[np.ndarray, np.ndarray]):
    """Swing up the pole of a cart that is pushed with up to 10 N, at a price on the action.

    An observation is (x, cos θ, sin θ, ẋ, θ̇), θ = 0 upright. One step is two physics steps of
    .01 s. Each of them earns 1 if |x| ≤ .25 and cos θ ≥ .995 after it, and costs K·|a|,
    K = ``action_cost``.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 50}  # type: ignore[misc]

    def __init__(self, action_cost: float = 0.1, render_mode: str | None = None) -> None:
        self.action_cost = check_number("action_cost", action_cost, whole=False, minimum=0.0)
        self.render_mode = render_mode
        bounds = np.array([np.inf, 1.0, 1.0, np.inf, np.inf], np.float32)
        self.observation_space = Box(-bounds, bounds)
        self.action_space = Box(-1.0, 1.0, (1,))
        self._state = (0.0, math.pi, 0.0, 0.0)
        """Position, angle, and their velocities."""
        self._action = 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Float32[np.ndarray, "5"], dict[str, Any]]:
        """Begin near the middle with the pole down: N(0, .01²) is added to every coordinate."""
        super().reset(seed=seed)
        position, angle, velocity, spin = (0.01 * self.np_random.standard_normal(4)).tolist()
        self._state = (position, math.pi + angle, velocity, spin)
        self._action = 0.0
        return self._observe(), {}

    def step(
        self, action: Float[np.ndarray, "1"]
    ) -> tuple[Float32[np.ndarray, "5"], float, bool, bool, dict[str, Any]]:
        """Push for .02 s; return observation, reward, False, False and no information."""
        push = min(max(float(action[0]), -1.0), 1.0)
        reward = -ACTION_REPEAT * self.action_cost * abs(push)
        state = self._state
        for _ in range(ACTION_REPEAT):
            state = _next_state(*state, FORCE * push)
            if abs(state[0]) <= GOAL_POSITION and math.cos(state[1]) >= GOAL_COSINE:
                reward += 1.0
        self._state, self._action = state, push
        return self._observe(), reward, False, False, {}

    def render(self) -> UInt8[np.ndarray, "height width 3"] | None:
        """Return a picture of cart and pole; a bar below the cart shows the action."""
        if self.render_mode != "rgb_array":
            return None
        x, angle = self._state[:2]
        tip = (x + POLE_LENGTH * math.sin(angle), POLE_LENGTH * math.cos(angle))
        bar = GREEN if self._action > 0 else RED
        bodies = [
            Capsule((-2.0, 0.0), (2.0, 0.0), 0.02, GREY),
            *(Capsule((end, -0.1), (end, 0.1), 0.02, GREY) for end in (-RAIL_END, RAIL_END)),
            *(Capsule((e, -0.3), (e, -0.25), 0.01, GREY) for e in (-GOAL_POSITION, GOAL_POSITION)),
            Capsule((x - 0.1, 0.0), (x + 0.1, 0.0), 0.1, BLUE),
            Capsule((x, -0.2), (x + 0.4 * self._action, -0.2), 0.02, bar),
            Capsule((x, 0.0), tip, POLE_RADIUS, (200, 130, 60)),
        ]
        return draw_capsules(bodies, (0.0, 0.0), 4.4)

    def get_state(self) -> list[float]:
        """Return the coordinates and the last action, from which `set_state` continues."""
        return [*self._state, self._action]

    def set_state(self, state: list[float]) -> None:
        """Continue from a state that `get_state` returned."""
        position, angle, velocity, spin, self._action = state
        self._state = (position, angle, velocity, spin)

    def _observe(self) -> Float32[np.ndarray, "5"]:
        position, angle, velocity, spin = self._state
        return np.array(
            (position, math.cos(angle), math.sin(angle), velocity, spin), dtype=np.float32
        )


def _accelerations(
    x: float, angle: float, velocity: float, spin: float, force: float
) -> tuple[float, float]:
    """Return the accelerations of cart and pole under a force on the cart."""
    sine = math.sin(angle)
    coupling = _MOMENT * math.cos(angle)
    push = force - CART_DAMPING * velocity + _MOMENT * sine * spin * spin
    torque = _MOMENT * GRAVITY * sine - POLE_DAMPING * spin
    determinant = _TOTAL_MASS * _HINGE_INERTIA - coupling * coupling
    acceleration = (_HINGE_INERTIA * push - coupling * torque) / determinant
    if x > RAIL_END or x < -RAIL_END:
        push += _limit_force(x, velocity, acceleration, _HINGE_INERTIA / determinant)
        acceleration = (_HINGE_INERTIA * push - coupling * torque) / determinant
    return acceleration, (_TOTAL_MASS * torque - coupling * push) / determinant


def _limit_force(x: float, velocity: float, acceleration: float, mobility: float) -> float:
    """Return the force of a soft end of the rail; ``mobility`` is acceleration per newton.

    MuJoCo's constraint solver in closed form, which one frictionless limit allows: a spring and
    damper set a reference acceleration, and the force approaches it as far as the impedance says.
    """
    inward = -1.0 if x > 0.0 else 1.0
    depth = abs(x) - RAIL_END
    share = min(depth / 0.001, 1.0)
    share = 2.0 * share**2 if share <= 0.5 else 1.0 - 2.0 * (1.0 - share) ** 2
    impedance = 0.9 + 0.05 * share
    reference = _STIFFNESS * impedance * depth - _LIMIT_DAMPING * inward * velocity
    regularisation = _INVERSE_WEIGHT * (1.0 - impedance) / impedance
    return inward * max(reference - inward * acceleration, 0.0) / (mobility + regularisation)


def _next_state(
    x: float, angle: float, velocity: float, spin: float, force: float
) -> tuple[float, float, float, float]:
    """Return the state after one physics step by the classical Runge-Kutta method, as MuJoCo's."""
    h = TIME_STEP
    half = 0.5 * h
    a1, b1 = _accelerations(x, angle, velocity, spin, force)
    v2, s2 = velocity + half * a1, spin + half * b1
    a2, b2 = _accelerations(x + half * velocity, angle + half * spin, v2, s2, force)
    v3, s3 = velocity + half * a2, spin + half * b2
    a3, b3 = _accelerations(x + half * v2, angle + half * s2, v3, s3, force)
    v4, s4 = velocity + h * a3, spin + h * b3
    a4, b4 = _accelerations(x + h * v3, angle + h * s3, v4, s4, force)
    sixth = h / 6.0
    return (
        x + sixth * (velocity + 2.0 * (v2 + v3) + v4),
        angle + sixth * (spin + 2.0 * (s2 + s3) + s4),
        velocity + sixth * (a1 + 2.0 * (a2 + a3) + a4),
        spin + sixth * (b1 + 2.0 * (b2 + b3) + b4),
    )
