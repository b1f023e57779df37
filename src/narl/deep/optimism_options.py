"""The options of optimism: the choice among models and the bonuses on imagined rewards."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

from narl.deep.config_options import MAX_STEPS
from narl.options import count, number, option

NARL, THOMPSON, HUCRL = ("narl",), ("thompson",), ("hucrl",)
BY_VALUES = ("narl", "hucrl")
"""The algorithms that look at the values of imagined states."""
_OPTIMISM = "optimism"

_SELECTS: dict[str, tuple[Any, ...]] = {"noise": ("model", "both")}
"""The values of other options with which NARL chooses among models."""


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
