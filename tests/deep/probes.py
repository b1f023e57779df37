"""Probe environments: one number observed, one number as action, and known values."""

import gymnasium
import numpy as np
from gymnasium.spaces import Box


class Probe(gymnasium.Env):
    """An environment whose observation and action are one number in [−1, 1] each."""

    observation_space = Box(-1.0, 1.0, (1,), np.float32)
    action_space = Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.num_steps = 0
        self.state = self.first_state()
        return self.observation(), {}

    def first_state(self):
        return 0.0

    def observation(self):
        return np.array([self.state], np.float32)


class OneStep(Probe):
    """Every step ends the episode with a reward of 1: Q = 1."""

    def step(self, action):
        return self.observation(), 1.0, True, False, {}


class TwoSteps(Probe):
    """State 0, then state 1, which ends the episode with a reward of 1: Q = γ, then 1."""

    def step(self, action):
        is_last = self.state == 1.0
        self.state = 1.0
        return self.observation(), float(is_last), is_last, False, {}


class Endless(Probe):
    """A reward of 1 for ever, truncated by a time limit of 3: Q = 1/(1 − γ)."""

    def step(self, action):
        self.num_steps += 1
        return self.observation(), 1.0, False, self.num_steps == 3, {}


class Bandit(Probe):
    """One step with reward −(a − 0.5)²: the best action is 0.5."""

    def step(self, action):
        return self.observation(), -float((action[0] - 0.5) ** 2), True, False, {}


class Guess(Probe):
    """One step with reward −(a − s/2)²: the best action is half of the random state."""

    def first_state(self):
        return float(self.np_random.uniform(-1.0, 1.0))

    def step(self, action):
        return self.observation(), -float((action[0] - self.state / 2) ** 2), True, False, {}


class Drift(Probe):
    """x' = x + (a + ε)/4 with reward 1 − x'²; ends beyond ±1, truncated after 6 steps."""

    def first_state(self):
        return float(self.np_random.uniform(-0.3, 0.3))

    def step(self, action):
        self.num_steps += 1
        self.state += float(action[0] + self.np_random.normal()) / 4
        reward, ended = 1.0 - self.state**2, abs(self.state) > 1.0
        self.state = float(np.clip(self.state, -1.0, 1.0))
        return self.observation(), reward, ended, self.num_steps == 6 and not ended, {}
