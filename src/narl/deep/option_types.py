"""The options of a training as a type, for editors and type checkers.

`narl.deep.config.Config` declares them with their ranges and defaults; a test compares both.
"""

from collections.abc import Sequence
from typing import Literal, TypedDict


class AgentSettings(TypedDict, total=False):
    """Options of `narl.Agent` by name: all of `Config` but environment, algorithm and seeds."""

    until_solved: bool
    steps: int
    epoch_length: int
    initial_steps: int
    random_repeat: int
    learn_after: int
    updates_per_step: int
    batch: int
    real_share: float
    buffer: int
    target_entropy: float | None
    hidden: Sequence[int]
    discount: float
    polyak: float
    learning_rate: float
    initial_temperature: float
    critic_norm: Literal["none", "layer"]
    members: int | None
    elites: int | None
    model_every: int
    model_width: int
    model_depth: int
    scale_targets: bool
    reward_transform: Literal["none", "symlog"]
    beta_nll: float
    model_learning_rate: float
    model_batch: int
    least_model_batches: int
    holdout_share: float
    holdout_most: int
    patience: int
    most_model_epochs: int
    rollout_batch: int
    rollout_schedule: Sequence[int]
    recent_starts: float
    retain_epochs: int
    draw: Literal["sample", "mean"]
    preset: Literal["narl", "paper"]
    noise: Literal["model", "reward", "both"]
    noise_scale: float
    noise_unit: Literal["first", "largest"]
    radius: float | None
    radius_unit: Literal["absolute", "spread"]
    exclude: Literal["ball", "above"]
    exclude_by: Literal["each", "return"]
    choose_among: Literal["all", "elites"]
    score: Literal["mean", "draw"]
    joint: bool
    fallback: Literal["closest", "random"]
    value_samples: int
    value_critics: Literal["online", "target"]
    optimism_at: Literal["selection", "update"]
    anneal_steps: int | None
    anneal: Literal["share", "radius"]
    bonus_weight: float
    reach: float
    num_candidates: int
    one_member_per: Literal["episode", "trajectory"]
    obs_scaling: Literal["bounds", "none"]
    eval_episodes: int
    eval_horizon: int
    solved_return: float | None
    stop_when_no_better: int | None


class Settings(AgentSettings, total=False):
    """Options of `narl.deep.make_config` by name: all of `Config` but environment and algorithm."""

    seeds: Sequence[int] | str
    termination: Literal["auto", "known", "learned", "never"]
