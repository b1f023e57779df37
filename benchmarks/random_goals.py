"""What random actions find: the share of random episodes that meet the goal of a sparse task.

    python benchmarks/random_goals.py [--episodes 100]

Each random action is repeated for 1, 5, 10, 20 or 40 steps, as with `--random-repeat`. The goal of
a task is met if the episode ends there, or if a step's reward without the cost of the action is at
least a half.
"""

import argparse

import gymnasium
import numpy as np

import narl  # registers narl's tasks  # noqa: F401

REPEATS = (1, 5, 10, 20, 40)
TASKS = {
    "MountainCarContinuous-v0": None,
    "MountainCar-v0": None,
    "Acrobot-v1": None,
    "narl/SparsePendulum-cost0-v0": 0.5,
    "narl/SparseCartPole-cost0-v0": 0.5,
    "narl/SparseReacher-cost0-v0": 0.5,
}
"""The tasks, and the reward that a goal gives; None: the episode ends at the goal."""


def meets_goal(env: gymnasium.Env, seed: int, repeat: int, least: float | None) -> bool:
    """Return whether one episode of repeated random actions meets the goal."""
    env.reset(seed=seed)
    env.action_space.seed(seed)
    step, action = 0, None
    while True:
        if step % repeat == 0:
            action = env.action_space.sample()
        _, reward, terminated, truncated, _ = env.step(action)
        step += 1
        if terminated if least is None else reward >= least:
            return True
        if terminated or truncated:
            return False


def main() -> None:
    """Print a row for every task."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=100)
    episodes = parser.parse_args().episodes
    print("| task, steps | " + " | ".join(map(str, REPEATS)) + " |", flush=True)
    for name, least in TASKS.items():
        env = gymnasium.make(name)
        shares = [
            np.mean([meets_goal(env, seed, repeat, least) for seed in range(episodes)])
            for repeat in REPEATS
        ]
        steps = env.spec.max_episode_steps
        numbers = " | ".join(f"{100 * share:.0f} %" for share in shares)
        print(f"| {name}, {steps} | {numbers} |", flush=True)


if __name__ == "__main__":
    main()
