"""The options of all tabular agents as a type, for editors and type checkers.

`narl.tabular.options` declares them with their ranges and defaults; a test compares both.
"""

from collections.abc import Iterable
from typing import Literal, TypedDict

from narl.tabular.options import Clip, Measure, Noised


class AgentSettings(TypedDict, total=False):
    """Options of agents by name; each agent takes some of them."""

    noise: Literal[
        "gaussian", "theorem", "bootstrap", "bootstrap-prior", "dirichlet", "fake-reward"
    ]
    noised: Noised | None
    measure: Measure
    c: float
    members: int | None
    members_r: int | None
    members_p: int | None
    clip: Clip
    clip_reward: bool
    per_stage: bool
    empty: Literal["normal", "one", "none"]
    epsilon: float
    corrected: bool
    running_min: bool
    fakes: int | None
    rescaled: bool
    delta: float
    scale: float
    compounding: bool
    bonus: Literal["hoeffding", "bernstein", "simplified"]
    constants: Literal["practical", "theory"]
    alpha0: float | None
    mu0: float
    tau0: float
    tau: float


class Settings(AgentSettings, total=False):
    """Options of `narl.tabular.make_config` by name: those of `Config`, then those of agents."""

    episodes: int
    seeds: Iterable[int] | str
    size: int | None
    horizon: int | None
    env_seed: int
    scale_rewards: bool
    until_solved: bool
    preset: Literal["paper", "strong-prior"] | None
