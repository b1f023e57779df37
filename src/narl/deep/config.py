"""One frozen dataclass of everything that decides a training, apart from its seeds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection
from typing import Any, Literal

import numpy as np

from narl.deep.ensemble import ModelSettings
from narl.deep.sac import SacSettings
from narl.deep.selection import SelectionSettings
from narl.errors import InputError, unknown

ALGORITHMS = ("narl", "mbpo", "sac")


@dataclasses.dataclass(frozen=True)
class Settings:
    """A training of one algorithm on one environment."""

    env: str
    algo: Literal["narl", "mbpo", "sac"] = "narl"
    steps: int = 10_000
    """Environment steps in all, the random ones too."""
    epoch_length: int = 1000
    """Environment steps between two evaluations."""
    initial_steps: int = 1000
    """Steps with random actions before the policy acts."""
    learn_after: int = 1000
    """Steps after which updates begin."""
    updates_per_step: int = 10
    """G, also called UTD."""
    batch: int = 256
    real_share: float = 0.05
    """Share of a batch that comes from the environment and not from the model."""
    buffer: int = 1_000_000
    """Real transitions kept at most."""
    target_entropy: float | None = None
    """Of the temperature; by default minus the number of actions."""
    hidden: tuple[int, ...] = (256, 256)
    discount: float = 0.99
    polyak: float = 0.005
    learning_rate: float = 3e-4
    initial_temperature: float = 1.0

    members: int | None = None
    """M; by default 3 for narl, 7 for mbpo."""
    elites: int | None = None
    """Members that mbpo draws from; by default 5, or all where there are fewer."""
    model_every: int = 250
    """Environment steps between two trainings of the ensemble."""
    model_width: int = 200
    model_depth: int = 4
    scale_targets: bool = True
    """Standardise what the ensemble predicts; the presets, as MBPO, do not."""
    model_learning_rate: float = 1e-3
    model_batch: int = 256
    holdout_share: float = 0.2
    holdout_most: int = 5000
    patience: int = 5
    most_model_epochs: int = 1000

    rollout_batch: int = 100_000
    """Imagined trajectories begun after each training of the ensemble."""
    rollout_schedule: tuple[int, int, int, int] = (20, 150, 1, 1)
    """Length k0 until epoch e0, k1 from epoch e1 on, linear between: (e0, e1, k0, k1)."""
    retain_epochs: int = 1
    """Epochs' worth of imagined transitions that are kept."""

    radius: float | None = 0.1
    """ε_M around the mean over the members; None admits every member."""
    joint: bool = False
    """One maximum of r + γV instead of one for the reward and one for the next state."""
    fallback: Literal["closest", "random"] = "closest"
    """Who is taken when the radius excludes every member."""
    draw: Literal["sample", "mean"] = "sample"
    """What a member contributes: a draw from its Gaussian, or its mean."""
    value_samples: int = 1
    """Actions behind the soft value of a next state."""

    termination: Literal["auto", "known", "learned", "never"] = "auto"
    """auto: the known function of the environment, or learned from data where there is none."""
    obs_scaling: Literal["bounds", "none"] = "bounds"
    """bounds: observations with finite bounds are mapped to [−1, 1]."""
    eval_episodes: int = 5
    """Deterministic episodes after each epoch; the presets, as MBPO, have 1."""
    eval_horizon: int = 1000
    """Steps of an evaluation episode at most, where the environment has no time limit."""
    solved_return: float | None = None
    """Mean evaluation return from which on the task counts as solved."""

    @property
    def uses_model(self) -> bool:
        return self.algo != "sac"

    @property
    def num_members(self) -> int:
        if self.members is not None:
            return self.members
        return 3 if self.algo == "narl" else 7

    @property
    def num_elites(self) -> int:
        return self.elites_of(self.algo)

    def elites_of(self, algo: str) -> int:
        """Members that a lane of this algorithm uses: NARL every one."""
        if algo == "narl":
            return self.num_members
        return min(5 if self.elites is None else self.elites, self.num_members)

    @property
    def num_real(self) -> int:
        """Real transitions in a batch."""
        return int(self.batch * self.real_share) if self.uses_model else self.batch

    @property
    def real_capacity(self) -> int:
        return min(self.buffer, self.steps)

    @property
    def rollouts_per_epoch(self) -> int:
        return math.ceil(self.rollout_batch * self.epoch_length / self.model_every)

    @property
    def longest_rollout(self) -> int:
        """The largest length that the schedule reaches within the steps: at one of its ends."""
        last = max(self.steps - self.initial_steps, 0) // self.epoch_length
        return max(rollout_length(self.rollout_schedule, epoch) for epoch in (0, last))

    @property
    def model_capacity(self) -> int:
        """Imagined transitions that retention and length can need."""
        return self.retained(self.longest_rollout) if self.uses_model else 1

    def retained(self, length: int) -> int:
        """Imagined transitions that count while rollouts have this length.

        At least those of one model: where epochs are short, it serves for several of them.
        """
        return max(self.retain_epochs * self.rollouts_per_epoch, self.rollout_batch) * length

    def rollout_length_at(self, step: int) -> int:
        """k at an environment step; epochs are counted from the end of the random steps."""
        epoch = max(step - self.initial_steps, 0) // self.epoch_length
        return rollout_length(self.rollout_schedule, epoch)

    def sac(self, action_dim: int) -> SacSettings:
        entropy = -float(action_dim) if self.target_entropy is None else self.target_entropy
        return SacSettings(
            target_entropy=entropy,
            hidden=self.hidden,
            discount=self.discount,
            polyak=self.polyak,
            learning_rate=self.learning_rate,
            initial_temperature=self.initial_temperature,
        )

    def model(self) -> ModelSettings:
        return ModelSettings(
            members=self.num_members,
            width=self.model_width,
            depth=self.model_depth,
            scale_targets=self.scale_targets,
            learning_rate=self.model_learning_rate,
            batch=self.model_batch,
            holdout_share=self.holdout_share,
            holdout_most=self.holdout_most,
            patience=self.patience,
            most_epochs=self.most_model_epochs,
        )

    def selection(self) -> SelectionSettings:
        return SelectionSettings(self.joint, self.fallback, self.draw, self.value_samples)


def rollout_length(schedule: tuple[int, int, int, int], epoch: int) -> int:
    """MBPO's schedule: x → k0 + (k1 − k0)·(epoch − e0)/(e1 − e0), clipped, rounded down."""
    first, last, shortest, longest = schedule
    if epoch <= first:
        return shortest
    if epoch >= last:
        return longest
    return shortest + (epoch - first) * (longest - shortest) // (last - first)


def make_settings(env: str, algo: str = "narl", **given: Any) -> Settings:
    """The preset of the environment, then what is given; checked, in one line if wrong."""
    from narl.deep.presets import find_preset

    names = {field.name for field in dataclasses.fields(Settings)}
    for name in given:
        if name in _ELSEWHERE:
            raise InputError(f"option: unknown value {name!r}; it is called {_ELSEWHERE[name]!r}")
        if name not in names:
            raise unknown("option", name, sorted(names))
    given = {name: _plain(value) for name, value in given.items()}
    task = find_preset(env)
    values: dict[str, Any] = dict(task.overrides) if task is not None else {}
    if task is not None and given.get("obs_scaling") is None:
        values["obs_scaling"] = "none"  # as MBPO: its settings were found without
    values |= {name: value for name, value in given.items() if value is not None}
    if "radius" in given and given["radius"] is None:
        values["radius"] = None
    if given.get("initial_steps") is not None and given.get("learn_after") is None:
        values["learn_after"] = given["initial_steps"]
    settings = Settings(env=env, algo=algo, **values)  # type: ignore[arg-type]
    check_settings(settings, {name for name, value in given.items() if value is not None})
    return settings


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    if isinstance(value, tuple | list):
        return tuple(map(_plain, value))
    return value.item() if isinstance(value, np.generic) else value


_ELSEWHERE = {
    "batch_size": "batch",
    "buffer_size": "buffer",
    "ensemble_size": "members",
    "epsilon": "radius",
    "gamma": "discount",
    "gradient_steps": "updates_per_step",
    "learning_starts": "initial_steps",
    "lr": "learning_rate",
    "n_eval_episodes": "eval_episodes",
    "net_arch": "hidden",
    "tau": "polyak",
    "total_timesteps": "steps",
}
"""What other libraries call our options."""

_AT_LEAST_ONE = (
    *("steps", "epoch_length", "initial_steps", "learn_after", "updates_per_step", "batch"),
    *("buffer", "model_every", "model_width", "model_depth", "model_batch", "holdout_most"),
    *("most_model_epochs", "rollout_batch", "retain_epochs", "value_samples", "eval_episodes"),
    "eval_horizon",
)
_CHOICES: dict[str, tuple[str, ...]] = {
    "algo": ALGORITHMS,
    "fallback": ("closest", "random"),
    "draw": ("sample", "mean"),
    "termination": ("auto", "known", "learned", "never"),
    "obs_scaling": ("bounds", "none"),
}
_RANGES: dict[str, tuple[float, float]] = {
    "real_share": (0.0, 1.0),
    "discount": (0.0, 1.0),
    "polyak": (1e-8, 1.0),
    "holdout_share": (0.0, 0.9),
    "learning_rate": (1e-12, 1.0),
    "model_learning_rate": (1e-12, 1.0),
    "initial_temperature": (1e-8, 1e8),
    "target_entropy": (-1e6, 1e6),
    "solved_return": (-1e30, 1e30),
    "radius": (0.0, 1e30),
}


def check_settings(settings: Settings, given: Collection[str] = ("steps",)) -> None:
    """Refuses what cannot be run; the line names the field and the nearest valid value.

    Where two fields do not go together, it names the one that was ``given``.
    """
    for name, valid in _CHOICES.items():
        if getattr(settings, name) not in valid:
            raise unknown(name, str(getattr(settings, name)), valid)
    for name in ("joint", "scale_targets"):
        if not isinstance(value := getattr(settings, name), bool):
            raise InputError(f"{name}: {value!r} is wrong; it must be True or False")
    for name in _AT_LEAST_ONE:
        _check_count(name, getattr(settings, name), 1)
    _check_count("patience", settings.patience, 0)
    for name in ("members", "elites"):
        if getattr(settings, name) is not None:
            _check_count(name, getattr(settings, name), 1)
    for name, bounds in _RANGES.items():
        _check_number(name, getattr(settings, name), *bounds)
    _check_shapes(settings)
    if settings.elites is not None and settings.elites > settings.num_members:
        raise InputError(
            f"elites: {settings.elites} is too large; the nearest valid value is "
            f"{settings.num_members} (members)"
        )
    if settings.learn_after < settings.initial_steps:
        raise InputError(
            f"learn_after: {settings.learn_after} is too small; "
            f"the nearest valid value is {settings.initial_steps} (initial_steps)"
        )
    _check_length(settings, given)


def _check_length(settings: Settings, given: Collection[str]) -> None:
    """Refuses a training that ends before its first update."""
    steps, begin = settings.steps, settings.learn_after
    if steps > begin:
        return
    name, first = "initial_steps", f"{begin} random steps come first"
    if begin > settings.initial_steps:
        name, first = "learn_after", f"updates begin after {begin} steps"
    if "steps" in given or name not in given or steps == 1:
        raise InputError(
            f"steps: {steps} is too small; {first}, so at least {begin + 1}, "
            f"or give a smaller {name}"
        )
    raise InputError(
        f"{name}: {begin} is too large; the nearest valid value is {steps - 1}, "
        f"for there are {steps} steps in all"
    )


def _check_shapes(settings: Settings) -> None:
    """The settings that are several numbers."""
    hidden, schedule = settings.hidden, settings.rollout_schedule
    if not (_are_counts(hidden) and len(hidden) > 0 and min(hidden) > 0):
        raise InputError(f"hidden: {hidden!r} is wrong; it must be widths >= 1, such as 256,256")
    if not (
        _are_counts(schedule)
        and len(schedule) == 4
        and 0 <= schedule[0] <= schedule[1]
        and min(schedule[2:]) > 0
    ):
        raise InputError(
            f"rollout_schedule: {schedule!r} is wrong; it must be e0, e1, k0, k1 with "
            "0 <= e0 <= e1 and k0, k1 >= 1, such as 20,150,1,15"
        )


def _are_counts(values: Any) -> bool:
    return isinstance(values, (tuple, list)) and all(type(value) is int for value in values)


def _check_count(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InputError(f"{name}: {value!r} is wrong; it must be a whole number >= {least}")
    if value < least:
        raise InputError(f"{name}: {value} is too small; the nearest valid value is {least}")


def _check_number(name: str, value: Any, low: float, high: float) -> None:
    if value is None and name in ("target_entropy", "solved_return", "radius"):
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InputError(f"{name}: {value!r} is wrong; it must be a number")
    if name == "radius" and value == math.inf:
        raise InputError("radius: inf is no number; give none, which admits every member")
    if not low <= value <= high:
        nearest = low if not value > low else high
        hint = " (or none, which admits every member)" if name == "radius" else ""
        raise InputError(
            f"{name}: {value} is out of range; the nearest valid value is {nearest:g}{hint}"
        )


Progress = Callable[[int, dict[str, Any]], None]
