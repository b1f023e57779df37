"""Short trials of runs: what a run will cost that nobody has run yet.

A trial is the run with few steps or episodes, in a temporary folder. Its times are extrapolated:

- a step takes as long as one of the trial, before and after learning begins; so does an
  evaluation, and so does an episode of a tabular run;
- a fit of the models does as many updates as that of the trial, but passes over the data
  patience + 1 times at least, and the data grow; rollouts grow with their length.
"""

from __future__ import annotations

import dataclasses
import math
import tempfile
import time
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

import numpy as np

from narl import storage
from narl.compilation import enable_cache, seconds_waited
from narl.deep.config import Config as TrainingConfig
from narl.remaining_time import MODELS, RANDOM
from narl.sweeps.planned_run import SweepRun
from narl.tabular.config import Config as TabularConfig

RANDOM_STEPS, LEARNING_STEPS = 200, 8
"""Steps of a training in a trial, with random actions and with updates."""
EPISODES = 20
"""Episodes of a tabular run in a trial."""


class Cost(NamedTuple):
    """Seconds and bytes of a whole run."""

    seconds: float
    size: float


def try_out(run: SweepRun) -> Cost:
    """Return what a run will cost, from a trial of a few seconds."""
    enable_cache()
    with tempfile.TemporaryDirectory(prefix="narl-trial-") as folder:
        if isinstance(run.config, TabularConfig):
            return _try_tabular(run.config, Path(folder))
        return _try_training(run.config, Path(folder), run.env_timeout)


def _try_tabular(config: TabularConfig, folder: Path) -> Cost:
    from narl.tabular.stored_run import run_configs

    episodes = min(config.episodes, EPISODES)
    short = dataclasses.replace(config, episodes=episodes, until_solved=False)
    ((done, _),) = run_configs([short], folder)
    seconds, times = done.metrics["seconds"], config.episodes / episodes
    arrays = done.arrays()
    nothing = {name: array[:, :0] for name, array in arrays.items()}
    growing = len(storage.compressed_npz(arrays)) - len(storage.compressed_npz(nothing))
    return Cost(seconds["compile"] + times * seconds["run"], _size(done, growing, times))


def short_training(config: TrainingConfig) -> TrainingConfig:
    """Return the configuration of a trial: random steps, one fit, some updates, one evaluation."""
    initial = min(config.initial_steps, RANDOM_STEPS)
    steps = initial + LEARNING_STEPS
    # As many imagined transitions as in the whole training, or fewer: they need memory.
    every = math.ceil(steps * config.model_every / config.epoch_length)
    return dataclasses.replace(
        config,
        steps=steps,
        initial_steps=initial,
        learn_after=initial,
        epoch_length=steps,
        model_every=max(every, LEARNING_STEPS),
        until_solved=False,
        solved_return=None,
        stop_when_no_better=None,
    )


def _try_training(config: TrainingConfig, folder: Path, env_timeout: float | None) -> Cost:
    from narl.deep.training_run import run_training
    from narl.deep.user_parts import UserParts

    short = short_training(config)
    ends = {0: 0.0}

    def on_step(step: int) -> None:
        ends[step] = time.perf_counter() - seconds_waited()  # without the compiler's seconds

    parts = UserParts(env_timeout=env_timeout)
    ((done, _),) = run_training([short], folder, on_step=on_step, parts=parts)
    lengths = {step: ends[step] - ends[step - 1] for step in range(2, short.steps)}
    first = short.initial_steps + 2  # it waits for the updates of the step before
    usual = median(lengths[step] for step in range(first, short.steps))
    random = median([lengths[step] for step in range(2, short.initial_steps)] or [usual])
    seconds = extrapolated_seconds(config, short, done, random, usual)
    epochs = math.ceil(config.steps / config.epoch_length)
    return Cost(seconds, _size(done, len(done.extra(storage.METRICS_LOG)), epochs))


def extrapolated_seconds(
    config: TrainingConfig, short: TrainingConfig, done: storage.Run, random: float, usual: float
) -> float:
    """Return the seconds of a training from the finished run of its trial.

    ``random`` and ``usual`` are the seconds of a step before and after learning begins.
    """
    spent = done.metrics["seconds"]
    kinds = config.step_schedule.count_kinds(0, config.steps)
    num_evaluations = math.ceil(config.steps / config.epoch_length)
    seconds: float = spent["compile"] + num_evaluations * spent["eval"]
    seconds += kinds[RANDOM] * random + (config.steps - kinds[RANDOM]) * usual
    if not kinds[MODELS]:
        return seconds
    (row,) = storage.rows_from_bytes(done.extra(storage.METRICS_LOG))
    tried = _num_batches(config, short.initial_steps) * max(row["model_epochs"])
    steps = np.linspace(config.initial_steps, config.steps, 50).astype(int).tolist()
    updates = fmean(_num_model_updates(config, step, tried) for step in steps)
    rollout = fmean(map(config.rollout_length_at, steps)) / short.rollout_length_at(0)
    each = spent["model"] * updates / tried + spent["rollout"] * rollout
    return float(seconds + kinds[MODELS] * each)


def _num_batches(config: TrainingConfig, num_steps: int) -> int:
    """Return the batches of an epoch of a fit after so many environment steps."""
    rows = min(num_steps, config.buffer)
    trained = rows - min(rows * config.holdout_share, config.holdout_most)
    return max(math.ceil(trained / config.model_batch), config.least_model_batches)


def _num_model_updates(config: TrainingConfig, num_steps: int, tried: int) -> int:
    """Return the updates of a fit after so many steps, where that of the trial had ``tried``."""
    batches = _num_batches(config, num_steps)
    return min(max(tried, (config.patience + 1) * batches), config.most_model_epochs * batches)


def _size(run: storage.Run, growing: int, times: float) -> float:
    """Return the bytes of a run, with ``growing`` of them multiplied by ``times``."""
    return sum(path.stat().st_size for path in run.path.iterdir()) + growing * (times - 1)
