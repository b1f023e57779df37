"""Environments that never answer, each in one method; `narl train hanging_worlds:HangInStep-v0`."""

import os
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

TRAINING = "NARL_TEST_TRAINING"
"""The variable with the id of the training's process: its workers are other processes."""


class Hanging(gymnasium.Env):
    """An environment that hangs in one method, as its subclass says."""

    hangs_in = ""
    observation_space = Box(-1.0, 1.0, (3,), np.float32)
    action_space = Box(-2.0, 2.0, (1,), np.float32)

    def __init__(self) -> None:
        self.time = 0
        self._hang("__init__")
        if os.environ.get(TRAINING) != str(os.getpid()):
            self._hang("__init__ of a worker")

    def _hang(self, method: str) -> None:
        while self.hangs_in == method:
            time.sleep(1.0)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._hang("reset")
        self.time = 0
        return np.zeros(3, np.float32), {}

    def step(self, action: Any) -> Any:
        self.time += 1
        if self.time == 7:
            self._hang("step")
        return np.zeros(3, np.float32), 0.0, False, self.time == 10, {}

    def close(self) -> None:
        self._hang("close")


METHODS = {
    "HangInStep-v0": "step",
    "HangInReset-v0": "reset",
    "HangInInit-v0": "__init__",
    "HangInClose-v0": "close",
    "HangInInitOfWorker-v0": "__init__ of a worker",
}
"""The methods in which the environments hang, by their ids."""

for _id, _method in METHODS.items():
    gymnasium.register(_id, type(_id[:-3], (Hanging,), {"hangs_in": _method}))
