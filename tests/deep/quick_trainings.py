"""Trainings of 60 steps in three epochs, the first of them with random actions.

All tests use the same few shapes, so that their programs are compiled once.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from narl import storage
from narl.deep.agent import Agent
from narl.deep.checked_config import make_config
from narl.deep.config import Config, used_by
from narl.deep.training_run import TrainingStopped, run_training
from short_trainings import ENV

STEPS = 60
OPTIONS: dict[str, Any] = {
    "epoch_length": 20,
    "initial_steps": 20,
    "updates_per_step": 1,
    "batch": 16,
    "hidden": (8,),
    "members": 2,
    "model_every": 10,
    "model_width": 8,
    "model_depth": 1,
    "model_learning_rate": 0.03,
    "patience": 1,
    "most_model_epochs": 30,
    "rollout_batch": 40,
    "rollout_schedule": (0, 1, 1, 2),
    "eval_episodes": 1,
    "eval_horizon": 40,
}


def quick_options(algo: str = "sac", **changes: Any) -> dict[str, Any]:
    """Return those of `OPTIONS` that an algorithm uses, with changes."""
    used = {name: x for name, x in OPTIONS.items() if algo in (used_by(name) or (algo,))}
    return used | changes


def quick_config(algo: str = "sac", env: str = ENV, **changes: Any) -> Config:
    """Return a configuration of 60 steps; SAC compiles in a third of the time of the others."""
    return make_config(env, algo, **quick_options(algo, **{"steps": STEPS, **changes}))


def quick_agent(algo: str = "sac", env: Any = ENV, **options: Any) -> Agent:
    """Return an agent with these options."""
    return Agent(env, algo=algo, **quick_options(algo, **options))


def actions_of(agent: Agent, seed: int | None = None) -> bytes:
    """Return the bytes of an agent's actions for seven observations."""
    obs = np.random.default_rng(0).normal(size=(7, 2))
    return agent.predict(obs, seed=seed)[0].tobytes()


def train(config: Config, root: Path, **options: Any) -> storage.Run:
    """Train one configuration to its end; return its run."""
    ((run, _),) = run_training([config], root, **options)
    return run


def stop_at(step: int) -> dict[str, Any]:
    """Return options of `run_training` that stop a training after a step."""
    last_step = [0]

    def on_step(number: int) -> None:
        last_step[0] = number

    return {"on_step": on_step, "should_stop": lambda: last_step[0] == step}


def train_until(step: int, configs: list[Config], root: Path, **options: Any) -> None:
    """Train configurations together and stop them after a step."""
    with pytest.raises(TrainingStopped) as stopped:
        run_training(configs, root, **stop_at(step), **options)
    assert stopped.value.step == step
