"""Environments whose value functions are known."""

import gymnasium
import numpy as np
from gymnasium.spaces import Box


class Probe(gymnasium.Env):
    """One number in [−1, 1] is seen and one is done."""

    observation_space = Box(-1.0, 1.0, (1,), np.float32)
    action_space = Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = self.begin()
        return self.seen(), {}

    def begin(self):
        return 0.0

    def seen(self):
        return np.array([self.state], np.float32)


class OneStep(Probe):
    """Every step is the last one and gives 1: Q = 1."""

    def step(self, action):
        return self.seen(), 1.0, True, False, {}


class TwoSteps(Probe):
    """0, then 1 and the end: Q = γ at first, then 1."""

    def step(self, action):
        last = self.state == 1.0
        self.state = 1.0
        return self.seen(), float(last), last, False, {}


class Endless(Probe):
    """Gives 1 for ever, cut by a time limit of 3 that is no end: Q = 1/(1 − γ)."""

    def begin(self):
        self.num_steps = 0
        return 0.0

    def step(self, action):
        self.num_steps += 1
        return self.seen(), 1.0, False, self.num_steps == 3, {}


class Bandit(Probe):
    """−(a − 0.5)², once: the best action is 0.5."""

    def step(self, action):
        return self.seen(), -float((action[0] - 0.5) ** 2), True, False, {}


class Guess(Probe):
    """The action has to be half of what is seen: −(a − s/2)², once."""

    def begin(self):
        return float(self.np_random.uniform(-1.0, 1.0))

    def step(self, action):
        return self.seen(), -float((action[0] - self.state / 2) ** 2), True, False, {}


class Drift(Probe):
    """x' = x + (a + ε)/4; ends beyond ±1 and is cut after 6 steps; the reward is 1 − x²."""

    def begin(self):
        self.num_steps = 0
        return float(self.np_random.uniform(-0.3, 0.3))

    def step(self, action):
        self.num_steps += 1
        self.state += float(action[0] + self.np_random.normal()) / 4
        reward, ended = 1.0 - self.state**2, abs(self.state) > 1.0
        self.state = float(np.clip(self.state, -1.0, 1.0))
        return self.seen(), reward, ended, self.num_steps == 6 and not ended, {}
