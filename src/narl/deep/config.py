"""The configuration of a training: one frozen dataclass that decides its outcome.

Every field carries its help, range and the algorithms that use it. The command line, the checks,
the groups of `narl train --help` and the table in the docs are made from these fields.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal

from narl import storage
from narl.deep.algorithm_registry import ALGORITHMS, MODEL_BASED, find_algorithm
from narl.deep.config_options import NUM_ELITES, LearningOptions, ModelOptions
from narl.deep.optimism_options import OptimismOptions
from narl.options import choices_of, count, number, option, option_fields, options_of
from narl.remaining_time import StepSchedule

EPOCH_COLUMNS = ("epoch", "step", "eval_return")
"""Columns that every row of a training's metrics log has."""
_EPISODES = "episodes and evaluation"
ENV_CODE = "env_code"
"""The name under which runs and checkpoints record the hash of their environment's code."""
CHECKPOINT_EVERY = 1
"""Epochs between two checkpoints, unless another number is given."""


@dataclasses.dataclass(frozen=True)
class Config(OptimismOptions, ModelOptions, LearningOptions):
    """Everything that decides the outcome of a training of one algorithm on one environment.

    `make_config` makes it and checks it. The options come in the order of the base classes from
    the last to the first; docs/options.md describes each of them.

    Example:
        >>> config = narl.NARL("Pendulum-v1", members=5).config
        >>> config.algo, config.num_members, config.steps
        ('narl', 5, 10000)
    """

    obs_scaling: Literal["bounds", "none"] = option(
        "bounds",
        "bounds: observations with finite bounds are mapped to [-1, 1]",
        default_text="none in MBPO's presets and for LunarLander, else bounds",
        preset=True,
        group=_EPISODES,
    )
    eval_episodes: int = count(
        5,
        "deterministic episodes after each epoch",
        _EPISODES,
        default_text="1 in MBPO's presets and for narl/SparsePendulum, else 5",
        preset=True,
    )
    eval_horizon: int = count(
        1000,
        "largest number of steps in such an episode, if the environment has no time limit",
        _EPISODES,
    )
    solved_return: float | None = number(
        None,
        "mean evaluation return from which on the task counts as solved",
        _EPISODES,
        preset=True,
        between=(-1e30, 1e30),
    )
    stop_when_no_better: int | None = count(
        None,
        "stop after so many evaluations in turn that were no better than the best one (mean over "
        "the seeds)",
        _EPISODES,
        default_text="it does not stop",
        in_old_records=False,
    )

    @property
    def uses_model(self) -> bool:
        """Whether the algorithm learns a model."""
        return find_algorithm(self.algo).select is not None

    @property
    def num_members(self) -> int:
        """Members of the ensemble."""
        return find_algorithm(self.algo).members if self.members is None else self.members

    @property
    def num_elites(self) -> int:
        """Members to draw from."""
        return min(NUM_ELITES if self.elites is None else self.elites, self.num_members)

    @property
    def num_stored_candidates(self) -> int:
        """Number of outcomes (reward, next state, end) stored per imagined transition."""
        return self.num_members if self.optimism_at == "update" else 1

    @property
    def num_real(self) -> int:
        """Real transitions in a batch."""
        return int(self.batch * self.real_share) if self.uses_model else self.batch

    @property
    def real_capacity(self) -> int:
        """Rows of the buffer of real transitions."""
        return min(self.buffer, self.steps)

    @property
    def model_capacity(self) -> int:
        """Rows of the buffer of imagined transitions."""
        return self.retained(self._longest_rollout) if self.uses_model else 1

    @property
    def _longest_rollout(self) -> int:
        """The largest length that the schedule reaches within the steps, at one of its ends."""
        last = max(self.steps - self.initial_steps, 0) // self.epoch_length
        return max(rollout_length(self.rollout_schedule, epoch) for epoch in (0, last))

    def retained(self, length: int) -> int:
        """Return how many imagined transitions count while rollouts have this length.

        They are at least those of one fit: where epochs are short, one fit serves several epochs.

        Args:
            length: The steps of a rollout.
        """
        per_epoch = math.ceil(self.rollout_batch * self.epoch_length / self.model_every)
        return max(self.retain_epochs * per_epoch, self.rollout_batch) * length

    def rollout_length_at(self, step: int) -> int:
        """Return the rollout length k at an environment step.

        Args:
            step: The number of environment steps so far.
        """
        epoch = max(step - self.initial_steps, 0) // self.epoch_length
        return rollout_length(self.rollout_schedule, epoch)

    @property
    def step_schedule(self) -> StepSchedule:
        """The steps of the fits and evaluations, for the estimate of the time left."""
        return StepSchedule(
            learn_after=self.learn_after,
            epoch_length=self.epoch_length,
            first_fit=self.initial_steps,
            model_every=self.model_every if self.uses_model else 0,
        )

    def entropy_target(self, action_dim: int, discrete: bool = False) -> float:
        """Return the target entropy.

        By default it is minus the number of action dimensions (Box); half of log n, the largest
        entropy (n Discrete actions).

        Args:
            action_dim: The dimension of an action, or the number of discrete actions.
            discrete: Whether the actions are discrete.
        """
        if self.target_entropy is not None:
            return self.target_entropy
        return 0.5 * math.log(action_dim) if discrete else -float(action_dim)

    def record(self) -> dict[str, Any]:
        """Return the JSON that a run folder records; the run's id is a hash of it."""
        settings = dataclasses.asdict(self)
        seeds, until_solved = settings.pop("seeds"), settings.pop("until_solved")
        for name, description in options_of(Config).items():
            if not description.in_old_records and settings[name] == getattr(Config, name):
                del settings[name]
        return {
            "experiment": "train",
            "algo": self.algo,
            "env": self.env,
            "seeds": list(seeds),
            "until_solved": until_solved,
            "settings": settings,
        }

    @property
    def run_id(self) -> str:
        """The id of the run that this configuration leads to."""
        return storage.run_id(self.record())

    @property
    def shape(self) -> tuple[Any, ...]:
        """The fields in which all replicas of one program agree."""
        options = options_of(Config)
        shared = (x for name, x in vars(self).items() if not options[name].per_replica)
        # A training that may stop early is a program of its own.
        own = None if self.stop_when_no_better is None else self.run_id
        return self.uses_model, self.num_members, own, *shared

    def numbers(self) -> dict[str, bool | float]:
        """Return the numbers in which the replicas of one program may differ.

        A number has the name of its option; None is infinity. A word is one bool for each choice
        but the first, such as ``exclude_above``.
        """
        numbers: dict[str, bool | float] = {"num_elites": self.num_elites}
        for name, annotation, description, _ in option_fields(Config):
            value = getattr(self, name)
            if description.per_replica != "number":
                continue
            if words := choices_of(annotation, description):
                numbers |= {f"{name}_{word}": value == word for word in words[1:]}
            elif isinstance(value, bool):
                numbers[name] = value
            else:
                numbers[name] = math.inf if value is None else float(value)
        return numbers


def rollout_length(schedule: tuple[int, int, int, int], epoch: int) -> int:
    """Return MBPO's k0 + (k1 − k0)·(epoch − e0)/(e1 − e0), clipped and rounded down."""
    first, last, shortest, longest = schedule
    if epoch <= first:
        return shortest
    if epoch >= last:
        return longest
    return shortest + (epoch - first) * (longest - shortest) // (last - first)


def used_by(name: str) -> tuple[str, ...]:
    """Return the algorithms that use an option; empty: all of them."""
    users = options_of(Config)[name].used_by
    if users == MODEL_BASED:
        return tuple(algo for algo, spec in ALGORITHMS.items() if spec.select is not None)
    others = (algo for algo, spec in ALGORITHMS.items() if name in spec.options)
    return (*users, *others) if users else ()
