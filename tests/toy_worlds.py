"""Small environments for trainings that take a second; some of them fail on purpose.

`narl train toy_worlds:Toy-v0` finds them, like those of any other package.
"""

from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.spaces import Box

FAULTS: dict[str, Any] = {"at": 10**9, "what": "nan"}
"""The step from which on `Broken` fails, counted over all episodes, and the kind of failure."""


class Toy(gymnasium.Env):
    """A point on a line that is pushed about; an episode ends beyond 3."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 20}

    def __init__(self, render_mode=None):
        self.observation_space = Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = Box(-2.0, 2.0, (1,))
        self.render_mode = render_mode
        self.position = np.zeros(2)
        self.total_steps = 0
        """Steps of all episodes."""

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position = 0.5 * self.np_random.normal(size=2)
        return self.position.copy(), {}

    def step(self, action):
        self.total_steps += 1
        noise = 0.1 * self.np_random.normal(size=2)
        self.position = 0.9 * self.position + 0.3 * float(np.sum(action)) + noise
        fallen = bool(abs(self.position[0]) > 3.0)
        return self.position.copy(), -float(abs(self.position[0])), fallen, False, {}

    def render(self):
        picture = np.zeros((16, 24, 3), np.uint8)
        picture[:, int(np.clip(12 + 4 * self.position[0], 0, 23))] = 255
        return picture


class Broken(Toy):
    """Works until step FAULTS["at"], then fails as FAULTS["what"] says."""

    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        if self.total_steps >= FAULTS["at"]:
            if FAULTS["what"] == "raise":
                raise OSError("the simulator\nis gone")
            if FAULTS["what"] == "interrupt":
                raise KeyboardInterrupt
            if FAULTS["what"] == "shape":
                obs = np.zeros(3)
            reward = {"nan": float("nan"), "huge": 1e38}.get(FAULTS["what"], reward)
        return obs, reward, terminated, truncated, info


class Always(Broken):
    """Fails from step 150 on, in every process."""

    def step(self, action):
        FAULTS.update(at=150, what="raise")
        return super().step(action)


for kind in (Toy, Broken, Always):
    name = f"{kind.__name__}-v0"
    if name not in gymnasium.registry:
        gymnasium.register(name, entry_point=f"toy_worlds:{kind.__name__}", max_episode_steps=30)
