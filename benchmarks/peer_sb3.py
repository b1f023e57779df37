"""Times Stable-Baselines3's SAC updates; prints one JSON object. Has a venv of its own."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import time
from typing import Any

import gymnasium
import numpy as np
import stable_baselines3
import torch

TRANSITIONS = 10_000
BATCH = 256
HIDDEN = (256, 256)


class HopperShaped(gymnasium.Env):
    """Random transitions of Hopper's dimensions: only the update is timed, so no physics."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (11,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (3,), np.float32)

    def observe(self) -> np.ndarray:
        return self.np_random.standard_normal(11, np.float32)

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        super().reset(seed=seed)
        return self.observe(), {}

    def step(self, action: np.ndarray):
        reward, terminated = self.np_random.standard_normal(), self.np_random.random() < 0.01
        return self.observe(), float(reward), bool(terminated), False, {}


def with_full_buffer(algorithm: Any) -> Any:
    """A new SAC with its library's defaults, after so many steps of its own random exploration."""
    agent = algorithm(
        "MlpPolicy",
        HopperShaped(),
        buffer_size=TRANSITIONS,
        learning_starts=TRANSITIONS,
        batch_size=BATCH,
        ent_coef="auto",
        policy_kwargs={"net_arch": list(HIDDEN)},
        seed=0,
        device="cpu",
    )
    agent.learn(TRANSITIONS)
    if agent._n_updates or agent.replay_buffer.size() != TRANSITIONS:
        raise RuntimeError("the agent should have filled its buffer and made no update")
    return agent


def time_updates(agent: Any, num_updates: int, repeats: int) -> list[float]:
    """Milliseconds per update of each call of `train`, after one call that compiles and warms."""
    agent.train(gradient_steps=num_updates, batch_size=BATCH)
    found = []
    for _ in range(repeats):
        begin = time.perf_counter()
        agent.train(gradient_steps=num_updates, batch_size=BATCH)
        found.append(1000 * (time.perf_counter() - begin) / num_updates)
    if agent._n_updates != (repeats + 1) * num_updates:
        raise RuntimeError(f"made {agent._n_updates} updates, not {(repeats + 1) * num_updates}")
    return found


def arguments(description: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--threads", type=int, choices=(1, 2), default=1)
    parser.add_argument("--updates", type=int, default=200, help="updates in one call")
    parser.add_argument("--repeats", type=int, default=5, help="calls that are timed")
    return parser.parse_args()


def print_answer(package: str, threads: int, found: list[float], also: tuple[str, ...]) -> None:
    versions = {name: importlib.metadata.version(name) for name in (package, *also)}
    answer = {"library": package, "version": versions[package], "threads": threads}
    print(json.dumps({**answer, "ms_per_update": found, "versions": versions}))


def main() -> None:
    given = arguments(__doc__)
    torch.set_num_threads(given.threads)
    agent = with_full_buffer(stable_baselines3.SAC)
    found = time_updates(agent, given.updates, given.repeats)
    print_answer("stable-baselines3", given.threads, found, ("torch", "gymnasium", "numpy"))


if __name__ == "__main__":
    main()
