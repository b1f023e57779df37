"""Compares `narl/SparseCartPole-v0` with dm_control's sparse cart-pole, step by step.

Prints the figures of docs/tasks.md. Needs an environment of its own; JAX is not used:

    python3 -m venv .venv-dmc
    .venv-dmc/bin/pip install dm_control==1.0.50 mujoco==3.17.0 gymnasium==1.4.0 jaxtyping
    MUJOCO_GL=disable PYTHONPATH=src .venv-dmc/bin/python benchmarks/compare_dm_control.py

dm_control plays six episodes. Every step of narl's environment (two physics steps) begins at
dm_control's state, since trajectories at the ends of the rail are chaotic. The episodes are played
again with a tolerance of 0 in MuJoCo's solver, which is at work only where the rail ends.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from dm_control import suite
from dm_control.rl import control

from narl.tasks.cart_pole import ACTION_REPEAT, RAIL_END, SparseCartPole

STEPS = 500
Policy = Callable[[np.ndarray, int, np.random.Generator], float]
"""(state, number of the step, random generator) → action; a state is (x, θ, ẋ, θ̇)."""


class Step(NamedTuple):
    """One step of both environments from the same state."""

    touches: bool
    """Whether an end of the rail pushes back during the step."""
    state_error: float
    obs_error: float
    reward: float
    """dm_control's reward, summed over the physics steps."""
    same_reward: bool


def random_push(state: np.ndarray, t: int, rng: np.random.Generator) -> float:
    """Draw a new action for every step."""
    return rng.uniform(-1.0, 1.0)


def push_to_both_ends(state: np.ndarray, t: int, rng: np.random.Generator) -> float:
    """Push for two seconds to one side, then for two seconds to the other."""
    return 1.0 if t // 100 % 2 == 0 else -1.0


def push_right(state: np.ndarray, t: int, rng: np.random.Generator) -> float:
    """Push to the right, sometimes more and sometimes less."""
    return rng.uniform(0.0, 1.0)


def push_left(state: np.ndarray, t: int, rng: np.random.Generator) -> float:
    """Push to the left, sometimes more and sometimes less."""
    return -push_right(state, t, rng)


def balance(state: np.ndarray, t: int, rng: np.random.Generator) -> float:
    """Balance the pole while the cart goes to and fro across the bounds of the reward."""
    aim = 0.4 * np.sin(t / 40.0)
    push = np.array([0.1, 3.0, 0.2, 0.7]) @ (state - np.array([aim, 0.0, 0.0, 0.0]))
    return float(np.clip(push + rng.normal(0.0, 0.05), -1.0, 1.0))


UPRIGHT = (0.0, 0.05, 0.0, 0.0)
EPISODES: tuple[tuple[Policy, tuple[float, ...] | None], ...] = (
    (random_push, None),
    (push_to_both_ends, None),
    (push_right, None),
    (push_left, None),
    (balance, UPRIGHT),
    (balance, UPRIGHT),
)
"""The policies of the episodes and their first states; None: as dm_control draws it."""


def play(seed: int, tolerance: float | None) -> list[Step]:
    """Play the episode of this number in dm_control and compare each step.

    ``tolerance`` is that of MuJoCo's solver; None leaves it as it is.
    """
    policy, first = EPISODES[seed]
    env = suite.load("cartpole", "swingup_sparse", task_kwargs={"random": seed})
    env.reset()
    if tolerance is not None:
        env.physics.model.opt.tolerance = tolerance
    if first is not None:
        with env.physics.reset_context():
            env.physics.set_state(np.array(first))
    ours, rng = SparseCartPole(action_cost=0.0), np.random.default_rng(seed)
    ours.reset(seed=seed)
    return [compare_step(env, ours, policy, t, rng) for t in range(STEPS)]


def compare_step(
    env: control.Environment,
    ours: SparseCartPole,
    policy: Policy,
    t: int,
    rng: np.random.Generator,
) -> Step:
    """Do one step in both environments from the state of dm_control's."""
    state = env.physics.get_state()
    action = np.array([policy(state, t, rng)])
    ours.set_state([*state.tolist(), 0.0])
    our_obs, our_reward, *_ = ours.step(action)
    reward, touches = 0.0, False
    for _ in range(ACTION_REPEAT):
        touches |= abs(env.physics.cart_position()) > RAIL_END
        now = env.step(action)
        reward += now.reward
    after = env.physics.get_state()
    touches |= bool(abs(after[0]) > RAIL_END)
    obs = np.concatenate([now.observation["position"], now.observation["velocity"]])
    return Step(
        touches=touches,
        state_error=np.abs(np.array(ours.get_state()[:4]) - after).max(),
        obs_error=np.abs(our_obs - obs.astype(np.float32)).max(),
        reward=reward,
        same_reward=our_reward == reward,
    )


def print_differences(steps: list[Step]) -> None:
    """Print the largest differences, apart from and at the ends of the rail."""
    for place, touches in (("between the ends of the rail", False), ("at an end", True)):
        group = [step for step in steps if step.touches == touches]
        print(
            f"  {place}, {len(group)} steps: states differ by at most "
            f"{max(step.state_error for step in group):.1e}, observations (float32) by at most "
            f"{max(step.obs_error for step in group):.1e}"
        )
    counts = [sum(step.reward == value for step in steps) for value in (0.0, 1.0, 2.0)]
    print("  steps with a reward of 0, 1 and 2:", *map(int, counts))
    print("  steps with different rewards:", sum(not step.same_reward for step in steps))


def main() -> None:
    """Play all episodes with both tolerances and print the differences."""
    versions = (f"{name} {importlib.metadata.version(name)}" for name in ("dm_control", "mujoco"))
    print(*versions, sep=", ")
    print(f"{len(EPISODES)} episodes of {STEPS} steps, each of {ACTION_REPEAT} physics steps")
    for title, tolerance in (("dm_control's tolerance", None), ("a tolerance of 0", 0.0)):
        print(f"with {title} in MuJoCo's solver:")
        played = [play(seed, tolerance) for seed in range(len(EPISODES))]
        print_differences([step for episode in played for step in episode])


if __name__ == "__main__":
    main()
