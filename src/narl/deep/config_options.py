"""The options of learning and of the model; those of optimism are in `optimism_options`.

Every field carries its help, range and the algorithms that use it (see `narl.options`). Together
with those of the episodes they are the fields of `narl.deep.config.Config`.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Literal

from narl.deep.algorithm_registry import ALGORITHMS, MODEL_BASED
from narl.options import NOT_NONE, count, number, option, seeds_option

BY_ELITES = ("narl", "mbpo", "sombrl", "hucrl", "maxinfo")
"""The algorithms that draw members, always or in some steps."""
MAX_STEPS = 1_000_000_000
NUM_ELITES = 5
"""Members to draw from by default, if there are so many."""
_TRAINING, _POLICY, _MODEL = "training", "policy (SAC)", "model"
_ROLLOUTS = "imagined rollouts"

_model_option, _model_count, _model_number = (
    functools.partial(declare, group=_MODEL, used_by=MODEL_BASED)
    for declare in (option, count, number)
)
"""Declare options of all algorithms with a model."""


@dataclasses.dataclass(frozen=True)
class LearningOptions:
    """Environment, algorithm and length of a training, and the options of SAC."""

    env: str = option(
        help="Gymnasium's id, or module:id for an environment that a module registers",
        metavar="ENV",
    )
    algo: str = option(
        "narl",
        "; ".join(f"{name}: {spec.summary}" for name, spec in ALGORITHMS.items()),
        metavar="|".join(ALGORITHMS),
        per_replica="setup",
    )
    seeds: tuple[int, ...] = seeds_option((0,), "0")
    until_solved: bool = option(
        False, "stop when every seed has reached the return that counts as solved", switch=True
    )

    steps: int = count(
        10_000,
        "environment steps of each seed, the random ones included",
        maximum=MAX_STEPS,
        preset=True,
    )
    epoch_length: int = count(
        1000, "environment steps between two evaluations", _TRAINING, preset=True
    )
    initial_steps: int = count(
        1000, "steps with random actions before the policy acts", _TRAINING, preset=True
    )
    random_repeat: int = count(
        1,
        "steps for which each random action of the beginning is repeated",
        _TRAINING,
        preset=True,
        in_old_records=False,
    )
    learn_after: int = count(
        1000,
        "environment steps after which the updates begin",
        _TRAINING,
        default_text="the initial steps",
        preset=True,
    )
    updates_per_step: int = count(
        10,
        "SAC updates per environment step (G, also called UTD)",
        _TRAINING,
        metavar="G",
        preset=True,
        search=(5, 40),
    )
    batch: int = count(256, "transitions per update", _TRAINING, preset=True, search=(64, 512))
    real_share: float = number(
        0.05,
        "share of a batch that comes from the environment, not from the models",
        _TRAINING,
        used_by=MODEL_BASED,
        preset=True,
        between=(0.0, 1.0),
        search=(0.01, 0.5),
    )
    buffer: int = count(1_000_000, "largest number of real transitions that are kept", _TRAINING)
    target_entropy: float | None = number(
        None,
        "entropy of the policy that the temperature aims at",
        _POLICY,
        default_text="preset, or minus the number of action dimensions (Box); half of log n (n "
        "Discrete actions)",
        preset=True,
        between=(-1e6, 1e6),
    )
    hidden: tuple[int, ...] = option(
        (256, 256),
        "widths of the hidden layers of actor and critics",
        preset=True,
        metavar="N,N",
        minimum=1,
        example="256,256",
        group=_POLICY,
    )
    discount: float = number(
        0.99,
        "discount factor γ",
        _POLICY,
        preset=True,
        between=(0.0, 1.0),
        search=(0.95, 0.999),
    )
    polyak: float = number(
        0.005,
        "share of the critics that is mixed into the target critics at every update (τ)",
        _POLICY,
        preset=True,
        between=(1e-8, 1.0),
        search=(0.001, 0.05),
    )
    learning_rate: float = number(
        3e-4,
        "Adam's learning rate of actor, critics and temperature",
        _POLICY,
        preset=True,
        between=(1e-12, 1.0),
        search=(1e-4, 1e-3),
    )
    initial_temperature: float = number(
        1.0, "temperature α at the beginning", _POLICY, between=(1e-8, 1e8), search=(0.1, 10.0)
    )
    critic_norm: Literal["none", "layer"] = option(
        "none",
        "normalisation of the critics' hidden layers before the activation; layer: mean 0 and "
        "variance 1 over the units",
        group=_POLICY,
        preset=True,
        in_old_records=False,
    )


@dataclasses.dataclass(frozen=True)
class ModelOptions:
    """The ensemble of models and the rollouts inside it."""

    members: int | None = _model_count(
        None,
        "number of models in the ensemble (M)",
        metavar="M",
        preset=True,
        default_text="preset, or "
        + ", ".join(f"{ALGORITHMS[name].members} for {name}" for name in MODEL_BASED),
        per_replica="setup",
        search=(2, 7),
    )
    elites: int | None = count(
        None,
        "number of models to draw from, the best on held-out data",
        _MODEL,
        used_by=BY_ELITES,
        only_with=(
            {"noise": ("reward",)},
            {"optimism_at": ("update",)},
            {"choose_among": ("elites",)},
            {"anneal_steps": (NOT_NONE,), "anneal": ("share",)},
        ),
        default_text=f"{NUM_ELITES}, or all if there are fewer",
        per_replica="setup",
    )
    model_every: int = _model_count(
        250, "environment steps between two fits of the models", preset=True, search=(100, 1000)
    )
    model_width: int = _model_count(
        200, "width of a model's hidden layers", preset=True, search=(100, 400)
    )
    model_depth: int = _model_count(
        4, "number of a model's hidden layers", preset=True, search=(2, 5)
    )
    scale_targets: bool = _model_option(
        True,
        "standardise what the models predict; MBPO does not",
        default_text="off in MBPO's presets, else on",
        preset=True,
    )
    reward_transform: Literal["none", "symlog"] = _model_option(
        "none",
        "form in which the models learn rewards: as they are, or sign(r)·log(1 + |r|), for rare "
        "large rewards among small ones",
        preset=True,
    )
    beta_nll: float = _model_number(
        0.0,
        "power of the predicted variance by which errors are weighted in a fit; 0: the likelihood, "
        "as in MBPO; 1: means as in least squares, so that rare rewards are learned",
        preset=True,
        between=(0.0, 1.0),
        search=(0.0, 1.0),
    )
    model_learning_rate: float = _model_number(
        1e-3, "Adam's learning rate of the models", between=(1e-12, 1.0), search=(3e-4, 3e-3)
    )
    model_batch: int = _model_count(256, "transitions per update of the models", search=(64, 512))
    holdout_share: float = _model_number(
        0.2,
        "share of the transitions that is held out to judge the models",
        between=(0.0, 0.9),
        search=(0.05, 0.4),
    )
    holdout_most: int = _model_count(5000, "largest number of transitions that are held out")
    least_model_batches: int = _model_count(
        1,
        "least number of batches in an epoch of a fit; where data are few, an epoch passes over "
        "them several times",
        details="With 1 an epoch is one pass, as in MBPO: with 500 transitions that are two "
        "batches, and a fit can end after a dozen steps of gradient descent.",
        preset=True,
        in_old_records=False,
        search=(1, 100),
    )
    patience: int = _model_count(
        5, "epochs without a better model after which a fit ends", minimum=0, search=(1, 10)
    )
    most_model_epochs: int = _model_count(
        1000, "largest number of epochs, which are passes over the data, in one fit", preset=True
    )

    rollout_batch: int = _model_count(
        100_000,
        "imagined trajectories begun after each fit of the models",
        group=_ROLLOUTS,
        preset=True,
        search=(10_000, 200_000),
    )
    rollout_schedule: tuple[int, int, int, int] = _model_option(
        (20, 150, 1, 1),
        "length of the trajectories: K0 until epoch E0, K1 from epoch E1 on, linear between; "
        "epochs are counted after the random steps",
        metavar="E0,E1,K0,K1",
        minimum=0,
        preset=True,
        example="20,150,1,15",
        group=_ROLLOUTS,
    )
    recent_starts: float = _model_number(
        0.0,
        "share of imagined trajectories that begin at states of the last epoch; the others begin "
        "at any real state",
        group=_ROLLOUTS,
        in_old_records=False,
        between=(0.0, 1.0),
        search=(0.0, 1.0),
    )
    retain_epochs: int = _model_count(
        1,
        "number of epochs whose imagined transitions are kept",
        group=_ROLLOUTS,
        preset=True,
        search=(1, 10),
    )
    draw: Literal["sample", "mean"] = _model_option(
        "sample",
        "prediction of a model: a sample from its Gaussian, or the mean",
        group=_ROLLOUTS,
        preset=True,
    )
    termination: Literal["auto", "known", "learned", "never"] = _model_option(
        "auto",
        "rule by which imagined episodes end; auto: the known rule of a preset, else learned",
        group=_ROLLOUTS,
    )
