"""Small environments for trainings that take a second; some of them misbehave on purpose.

`narl train toy_worlds:Toy-v0` finds them, as it finds those of anybody's package.
"""

import gymnasium
import numpy as np
from gymnasium.spaces import Box

FAULTS = {"at": 10**9, "what": "nan"}
"""When a `Broken` goes wrong, counted in its own steps, and how."""


class Toy(gymnasium.Env):
    """A point on a line that is pushed about; it falls off beyond 3."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012

    def __init__(self, render_mode=None):
        self.observation_space = Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = Box(-2.0, 2.0, (1,))
        self.render_mode = render_mode
        self.position = np.zeros(2)
        self.num_taken = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position = 0.5 * self.np_random.normal(size=2)
        self.num_taken = 0
        return self.position.copy(), {}

    def step(self, action):
        self.num_taken += 1
        noise = 0.1 * self.np_random.normal(size=2)
        self.position = 0.9 * self.position + 0.3 * float(np.sum(action)) + noise
        fallen = bool(abs(self.position[0]) > 3.0)
        return self.position.copy(), -float(abs(self.position[0])), fallen, False, {}

    def render(self):
        picture = np.zeros((16, 24, 3), np.uint8)
        picture[:, int(np.clip(12 + 4 * self.position[0], 0, 23))] = 255
        return picture


class Handle:
    """Stands for a simulator that cannot be looked into."""


class Closed(Toy):
    """Keeps something that cannot be captured, from the start on."""

    def __init__(self, render_mode=None):
        super().__init__(render_mode)
        self.handle = Handle()


class LateClosed(Toy):
    """Can be captured until its 150th step in all."""

    def __init__(self, render_mode=None):
        super().__init__(render_mode)
        self.total = 0

    def step(self, action):
        self.total += 1
        if self.total == 150:
            self.handle = Handle()
        return super().step(action)


class Broken(Toy):
    """Works until step FAULTS["at"] of its life."""

    def __init__(self, render_mode=None):
        super().__init__(render_mode)
        self.total = 0

    def step(self, action):
        self.total += 1
        obs, reward, terminated, truncated, info = super().step(action)
        if self.total >= FAULTS["at"]:
            if FAULTS["what"] == "raise":
                raise OSError("the simulator\nis gone")
            if FAULTS["what"] == "nan":
                reward = float("nan")
            if FAULTS["what"] == "shape":
                obs = np.zeros(3)
            if FAULTS["what"] == "huge":
                reward = 1e38
        return obs, reward, terminated, truncated, info


class Always(Broken):
    """Broken from step 150 of its life on, in every process."""

    def step(self, action):
        FAULTS.update(at=150, what="raise")
        return super().step(action)


for kind in (Toy, Closed, LateClosed, Broken, Always):
    name = f"{kind.__name__}-v0"
    if name not in gymnasium.registry:
        gymnasium.register(name, entry_point=f"toy_worlds:{kind.__name__}", max_episode_steps=30)
