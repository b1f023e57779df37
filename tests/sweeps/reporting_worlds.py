"""An environment that reports the variables of its process which decide how JAX uses GPUs."""

import os
from typing import Any

import gymnasium

from toy_worlds import Toy

NAMES = ("CUDA_VISIBLE_DEVICES", "XLA_PYTHON_CLIENT_MEM_FRACTION")


class Reporting(Toy):
    """A toy whose first step fails with an error that has the variables in it."""

    def step(self, action: Any) -> Any:
        raise OSError(" ".join(f"{name}={os.environ.get(name)}" for name in NAMES))


if "Reporting-v0" not in gymnasium.registry:
    gymnasium.register("Reporting-v0", "reporting_worlds:Reporting", max_episode_steps=30)
