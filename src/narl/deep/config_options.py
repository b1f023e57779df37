"""The options of a training, in three groups: learning, the model, and optimism.

Every field carries its help, range and the algorithms that use it (see `narl.options`). Together
with those of the episodes they are the fields of `narl.deep.config.Config`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from narl.deep.algorithm_registry import ALGORITHMS, MODEL_BASED
from narl.options import count, number, option, seeds_option

NARL, THOMPSON, HUCRL = ("narl",), ("thompson",), ("hucrl",)
BY_VALUES = ("narl", "hucrl")
"""The algorithms that look at the values of imagined states."""
BY_ELITES = ("narl", "mbpo", "sombrl", "hucrl", "maxinfo")
"""The algorithms that draw members, always or in some steps."""
MAX_STEPS = 1_000_000_000
_TRAINING, _POLICY, _MODEL = "training", "policy (SAC)", "model"
_ROLLOUTS, _OPTIMISM = "imagined rollouts", "optimism"

_SELECTS: dict[str, tuple[Any, ...]] = {"noise": ("model", "both")}
"""The values of other options with which NARL chooses among models."""


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
    )
    batch: int = count(256, "transitions per update", _TRAINING)
    real_share: float = number(
        0.05,
        "share of a batch that comes from the environment, not from the models",
        _TRAINING,
        used_by=MODEL_BASED,
        between=(0.0, 1.0),
    )
    buffer: int = count(1_000_000, "largest number of real transitions that are kept", _TRAINING)
    target_entropy: float | None = number(
        None,
        "entropy of the policy that the temperature aims at",
        _POLICY,
        default_text="preset, or minus the number of actions; (log n)/2 for n discrete actions",
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
    discount: float = number(0.99, "discount factor γ", _POLICY, between=(0.0, 1.0))
    polyak: float = number(
        0.005,
        "share of the critics that is mixed into the target critics at every update (τ)",
        _POLICY,
        preset=True,
        between=(1e-8, 1.0),
    )
    learning_rate: float = number(
        3e-4,
        "Adam's learning rate of actor, critics and temperature",
        _POLICY,
        preset=True,
        between=(1e-12, 1.0),
    )
    initial_temperature: float = number(
        1.0, "temperature α at the beginning", _POLICY, between=(1e-8, 1e8)
    )
    critic_norm: Literal["none", "layer"] = option(
        "none",
        "normalisation of the critics' hidden layers before the activation; layer: mean 0 and "
        "variance 1 over the units",
        group=_POLICY,
    )


@dataclasses.dataclass(frozen=True)
class ModelOptions:
    """The ensemble of models and the rollouts inside it."""

    members: int | None = count(
        None,
        "number of models in the ensemble (M)",
        _MODEL,
        metavar="M",
        used_by=MODEL_BASED,
        preset=True,
        default_text="preset, or "
        + ", ".join(f"{ALGORITHMS[name].members} for {name}" for name in MODEL_BASED),
    )
    elites: int | None = count(
        None,
        "number of models to draw from, the best on held-out data",
        _MODEL,
        used_by=BY_ELITES,
        default_text="5, or all if there are fewer",
    )
    model_every: int = count(
        250,
        "environment steps between two fits of the models",
        _MODEL,
        used_by=MODEL_BASED,
        preset=True,
    )
    model_width: int = count(
        200, "width of a model's hidden layers", _MODEL, used_by=MODEL_BASED, preset=True
    )
    model_depth: int = count(
        4, "number of a model's hidden layers", _MODEL, used_by=MODEL_BASED, preset=True
    )
    scale_targets: bool = option(
        True,
        "standardise what the models predict; MBPO does not",
        used_by=MODEL_BASED,
        default_text="off in MBPO's presets, else on",
        preset=True,
        group=_MODEL,
    )
    reward_transform: Literal["none", "symlog"] = option(
        "none",
        "form in which the models learn rewards: as they are, or sign(r)·log(1 + |r|), for rare "
        "large rewards among small ones",
        used_by=MODEL_BASED,
        preset=True,
        group=_MODEL,
    )
    beta_nll: float = number(
        0.0,
        "power of the predicted variance by which errors are weighted in a fit; 0: the likelihood, "
        "as in MBPO; 1: means as in least squares, so that rare rewards are learned",
        _MODEL,
        used_by=MODEL_BASED,
        preset=True,
        between=(0.0, 1.0),
    )
    model_learning_rate: float = number(
        1e-3,
        "Adam's learning rate of the models",
        _MODEL,
        used_by=MODEL_BASED,
        between=(1e-12, 1.0),
    )
    model_batch: int = count(
        256, "transitions per update of the models", _MODEL, used_by=MODEL_BASED
    )
    holdout_share: float = number(
        0.2,
        "share of the transitions that is held out to judge the models",
        _MODEL,
        used_by=MODEL_BASED,
        between=(0.0, 0.9),
    )
    holdout_most: int = count(
        5000, "largest number of transitions that are held out", _MODEL, used_by=MODEL_BASED
    )
    patience: int = option(
        5,
        "passes over the data without a better model after which a fit ends",
        metavar="N",
        minimum=0,
        used_by=MODEL_BASED,
        group=_MODEL,
    )
    most_model_epochs: int = count(
        1000,
        "largest number of passes over the data in one fit",
        _MODEL,
        used_by=MODEL_BASED,
        preset=True,
    )

    rollout_batch: int = count(
        100_000,
        "imagined trajectories begun after each fit of the models",
        _ROLLOUTS,
        used_by=MODEL_BASED,
        preset=True,
    )
    rollout_schedule: tuple[int, int, int, int] = option(
        (20, 150, 1, 1),
        "length of the trajectories: K0 until epoch E0, K1 from epoch E1 on, linear between; "
        "epochs are counted after the random steps",
        metavar="E0,E1,K0,K1",
        minimum=0,
        used_by=MODEL_BASED,
        preset=True,
        example="20,150,1,15",
        group=_ROLLOUTS,
    )
    recent_starts: float = number(
        0.0,
        "share of imagined trajectories that begin at states of the last epoch; the others begin "
        "at any real state",
        _ROLLOUTS,
        used_by=MODEL_BASED,
        between=(0.0, 1.0),
    )
    retain_epochs: int = count(
        1,
        "number of epochs whose imagined transitions are kept",
        _ROLLOUTS,
        used_by=MODEL_BASED,
        preset=True,
    )
    draw: Literal["sample", "mean"] = option(
        "sample",
        "prediction of a model: a sample from its Gaussian, or the mean",
        used_by=MODEL_BASED,
        group=_ROLLOUTS,
    )
    termination: Literal["auto", "known", "learned", "never"] = option(
        "auto",
        "rule by which imagined episodes end; auto: the known rule of a preset, else learned",
        used_by=MODEL_BASED,
        group=_ROLLOUTS,
    )


@dataclasses.dataclass(frozen=True)
class OptimismOptions:
    """The choice among models and the bonuses on imagined rewards."""

    preset: Literal["narl", "paper"] = option(
        "narl",
        "defaults of the options of optimism: those that an ablation chose, or the reading closest "
        "to the paper's text (members outside μ ± ε are excluded, on both sides)",
        used_by=NARL,
        group=_OPTIMISM,
        only_with=(_SELECTS,),
    )
    noise: Literal["model", "reward", "both"] = option(
        "model",
        "source of optimism: the choice among models, noise on imagined rewards, or both",
        used_by=NARL,
        group=_OPTIMISM,
    )
    noise_scale: float = number(
        0.01,
        "c of noise=reward: the noise has the variance c·σ², σ being the members' disagreement "
        "relative to that after the first fit",
        _OPTIMISM,
        used_by=NARL,
        preset=True,
        between=(0.0, 1e6),
        only_with=({"noise": ("reward", "both")},),
    )
    radius: float | None = option(
        0.1,
        "model radius ε_M: predictions farther from the members' mean are excluded; none admits "
        "all of them",
        metavar="E|none",
        minimum=0.0,
        maximum=1e30,
        used_by=NARL,
        none_text="every member is admitted",
        group=_OPTIMISM,
        only_with=(_SELECTS,),
    )
    radius_unit: Literal["absolute", "spread"] = option(
        "absolute",
        "unit of the radius: 1, or the standard deviation over the members",
        used_by=NARL,
        group=_OPTIMISM,
        only_with=(_SELECTS,),
    )
    exclude: Literal["ball", "above"] = option(
        "above",
        "members that the radius excludes: all outside μ ± ε, or only those above μ + ε",
        used_by=NARL,
        group=_OPTIMISM,
        only_with=(_SELECTS,),
    )
    exclude_by: Literal["each", "return"] = option(
        "each",
        "number that the radius judges: reward and value each for its own maximum, or r + γV for "
        "both",
        used_by=NARL,
        group=_OPTIMISM,
        only_with=(_SELECTS | {"joint": (False,)},),
    )
    choose_among: Literal["all", "elites"] = option(
        "all",
        "members among which is chosen, and whose mean the radius is around: all, or the best on "
        "held-out data (elites)",
        used_by=NARL,
        group=_OPTIMISM,
        only_with=(_SELECTS,),
    )
    score: Literal["mean", "draw"] = option(
        "mean",
        "prediction by which members are compared: the mean of their Gaussian, or a draw",
        used_by=NARL,
        group=_OPTIMISM,
        only_with=(_SELECTS | {"draw": ("sample",)},),
    )
    joint: bool = option(
        False,
        "one maximum of r + γV instead of one maximum of r and one of V",
        used_by=NARL,
        group=_OPTIMISM,
        only_with=(_SELECTS,),
    )
    fallback: Literal["closest", "random"] = option(
        "closest",
        "member that is taken when the radius excludes all of them: the closest to the mean, or "
        "a random one",
        used_by=NARL,
        group=_OPTIMISM,
        only_with=(_SELECTS | {"exclude": ("ball",)},),
    )
    value_samples: int = count(
        1,
        "actions that are averaged for the soft value of an imagined state",
        _OPTIMISM,
        used_by=BY_VALUES,
        only_with=(_SELECTS | {"optimism_at": ("selection",)},),
    )
    value_critics: Literal["online", "target"] = option(
        "online",
        "critics that value imagined states",
        used_by=BY_VALUES,
        group=_OPTIMISM,
        only_with=(_SELECTS | {"optimism_at": ("selection",)},),
    )
    optimism_at: Literal["selection", "update"] = option(
        "selection",
        "time of the optimistic choice: when a step is imagined, or in the target of each update, "
        "for which the steps of all members are stored",
        used_by=NARL,
        group=_OPTIMISM,
        only_with=(_SELECTS,),
    )
    anneal_steps: int | None = count(
        None,
        "environment steps, after the random ones, over which optimism falls linearly to 0",
        _OPTIMISM,
        used_by=("narl", "sombrl", "maxinfo"),
        default_text="it does not fall",
        maximum=MAX_STEPS,
    )
    anneal: Literal["share", "radius"] = option(
        "share",
        "quantity that falls in NARL: the share of optimistic imagined steps, or the radius",
        used_by=NARL,
        group=_OPTIMISM,
    )
    bonus_weight: float = number(
        1.0,
        "λ of the imagined reward (r + λ·b)/(1 + λ)",
        _OPTIMISM,
        used_by=("sombrl",),
        between=(0.0, 1e6),
    )
    reach: float = number(
        1.0,
        "β of s' = μ + β·σ·η: standard deviations that the hallucinated step may be away",
        _OPTIMISM,
        used_by=HUCRL,
        between=(0.0, 1e6),
    )
    num_candidates: int = count(
        8, "draws of η among which the critics choose (K)", _OPTIMISM, used_by=HUCRL
    )
    one_member_per: Literal["episode", "trajectory"] = option(
        "episode",
        "time for which a member is kept: a real episode, or an imagined trajectory",
        used_by=THOMPSON,
        group=_OPTIMISM,
    )
