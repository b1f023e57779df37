"""The options of optimism: the choice among models and the bonuses on imagined rewards."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Literal

from narl.deep.config_options import MAX_STEPS
from narl.options import NOT_NONE, OtherThan, count, number, option

NARL, THOMPSON, HUCRL = ("narl",), ("thompson",), ("hucrl",)
BY_VALUES = ("narl", "hucrl")
"""The algorithms that look at the values of imagined states."""
_OPTIMISM = "optimism"

_SELECTS: dict[str, tuple[Any, ...]] = {"noise": ("model", "both")}
"""The values of other options with which NARL chooses among models."""
_EXCLUDES = _SELECTS | {"radius": (NOT_NONE,), "members": (OtherThan(1),)}
"""The values with which a radius can exclude members."""

_narl_option = functools.partial(
    option, used_by=NARL, group=_OPTIMISM, per_replica="number", only_with=(_SELECTS,)
)
"""Declares an option of NARL's choice among models."""


@dataclasses.dataclass(frozen=True)
class OptimismOptions:
    """The choice among models and the bonuses on imagined rewards."""

    preset: Literal["narl", "paper"] = _narl_option(
        "narl",
        "defaults of the options of optimism: those of the environment's preset, or the reading "
        "closest to the paper's text in every environment",
        per_replica="setup",
    )
    noise: Literal["model", "reward", "both"] = _narl_option(
        "model",
        "source of optimism: the choice among models, noise on imagined rewards, or both",
        per_replica="setup",
        only_with=(),
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
        per_replica="number",
        search=(0.001, 1.0),
    )
    noise_unit: Literal["first", "largest"] = option(
        "first",
        "unit of σ in noise=reward: the mean disagreement after the first fit, or the largest "
        "after any fit so far",
        used_by=NARL,
        group=_OPTIMISM,
        only_with=({"noise": ("reward", "both"), "noise_scale": (OtherThan(0.0),)},),
        per_replica="number",
        in_old_records=False,
    )
    radius: float | None = _narl_option(
        0.1,
        "model radius ε_M: predictions further than this from the members' mean are excluded "
        "(with exclude=above only those above it); none admits all of them",
        metavar="E|none",
        minimum=0.0,
        maximum=1e30,
        none_text="every member is admitted",
        only_with=(_SELECTS | {"members": (OtherThan(1),)},),
        preset=True,
        search=(0.01, 1.0),
    )
    radius_unit: Literal["absolute", "spread"] = _narl_option(
        "absolute",
        "unit of the radius: 1, or the standard deviation over the members",
        only_with=(_EXCLUDES,),
    )
    exclude: Literal["ball", "above"] = _narl_option(
        "ball",
        "members that the radius excludes: all outside μ ± ε, or only those above μ + ε",
        only_with=(_EXCLUDES,),
    )
    exclude_by: Literal["each", "return"] = _narl_option(
        "each",
        "number that the radius judges: reward and value each for its own maximum, or r + γV for "
        "both",
        only_with=(_EXCLUDES | {"joint": (False,)},),
    )
    choose_among: Literal["all", "elites"] = _narl_option(
        "all",
        "members among which is chosen, and whose mean the radius is around: all, or the best on "
        "held-out data (elites; a difference only with more members than elites)",
        per_replica="",
        in_old_records=False,
    )
    score: Literal["mean", "draw"] = _narl_option(
        "mean",
        "prediction by which members are compared: the mean of their Gaussian, or a draw",
        only_with=(_SELECTS | {"draw": ("sample",)},),
    )
    joint: bool = _narl_option(
        False,
        "one maximum of r + γV instead of one maximum of r and one of V",
    )
    fallback: Literal["closest", "random"] = _narl_option(
        "closest",
        "member that is taken when the radius excludes all of them: the closest to the mean, or "
        "a random one",
        only_with=(_EXCLUDES | {"exclude": ("ball",)},),
    )
    value_samples: int = count(
        1,
        "actions that are averaged for the soft value of an imagined state",
        _OPTIMISM,
        used_by=BY_VALUES,
        only_with=(_SELECTS | {"optimism_at": ("selection",)},),
        search=(1, 8),
    )
    value_critics: Literal["online", "target"] = option(
        "online",
        "critics that value imagined states",
        used_by=BY_VALUES,
        group=_OPTIMISM,
        only_with=(_SELECTS | {"optimism_at": ("selection",)},),
        per_replica="number",
    )
    optimism_at: Literal["selection", "update"] = _narl_option(
        "selection",
        "time of the optimistic choice: when a step is imagined, or in the target of each update, "
        "for which the steps of all members are stored (their means, or draws with score=draw)",
        per_replica="",
    )
    anneal_steps: int | None = count(
        None,
        "environment steps, after the random ones, over which optimism falls linearly to 0",
        _OPTIMISM,
        used_by=("narl", "sombrl", "maxinfo"),
        default_text="it does not fall",
        maximum=MAX_STEPS,
        per_replica="number",
    )
    anneal: Literal["share", "radius"] = _narl_option(
        "share",
        "quantity that falls in NARL: the share of optimistic imagined steps, or the radius (with "
        "exclude=above the choice then ends among members below the mean, which is pessimistic)",
        only_with=(_SELECTS | {"anneal_steps": (NOT_NONE,)},),
    )
    bonus_weight: float = number(
        1.0,
        "λ of the imagined reward (r + λ·b)/(1 + λ)",
        _OPTIMISM,
        used_by=("sombrl",),
        between=(0.0, 1e6),
        per_replica="number",
        search=(0.1, 10.0),
    )
    reach: float = number(
        1.0,
        "β of s' = μ + β·σ·η: standard deviations that the hallucinated step may be away",
        _OPTIMISM,
        used_by=HUCRL,
        between=(0.0, 1e6),
        per_replica="number",
        search=(0.1, 10.0),
    )
    num_candidates: int = count(
        8,
        "draws of η among which the critics choose (K)",
        _OPTIMISM,
        used_by=HUCRL,
        only_with=({"reach": (OtherThan(0.0),)},),
        search=(2, 32),
    )
    one_member_per: Literal["episode", "trajectory"] = option(
        "episode",
        "time for which a member is kept: a real episode, or an imagined trajectory",
        used_by=THOMPSON,
        group=_OPTIMISM,
        per_replica="number",
    )
