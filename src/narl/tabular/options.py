"""The options of every tabular agent: declared here once, with help, range and default.

The command line, the checks and the tables in the docs are made from these declarations. The
module does not import JAX, so that `narl tabular --help` answers at once.
"""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

from narl.errors import InputError, unknown
from narl.options import (
    OptionField,
    check_used_by,
    check_value,
    count,
    number,
    option,
    option_fields,
)

Clip = Literal["horizon", "none"]
Measure = Literal["signed", "centred", "simplex"]

SMALLEST, LARGEST = 1e-15, 1e15
"""Numbers beyond these overflow in float32, or vanish as divisors."""
MAX_MEMBERS = 10**6
_NOISE, _PLANNING, _CONFIDENCE, _POSTERIOR = "noise", "planning", "confidence", "posterior"

_SHARED: dict[str, Any] = {
    "noise": functools.partial(
        option,
        help="kind of noise; bootstrap and dirichlet are for narl-ucrl, fake-reward for narl-ucbvi",
        group=_NOISE,
    ),
    "c": functools.partial(
        number,
        help="scale of the variance of Gaussian noise, such as c/N",
        group=_NOISE,
        metavar="C",
        between=(0.0, LARGEST),
    ),
    "members": functools.partial(
        count,
        help="number M of noise vectors, bootstrap members or posterior samples",
        group=_NOISE,
        metavar="M",
        maximum=MAX_MEMBERS,
    ),
    "clip": functools.partial(
        option, help="horizon: clip values to [0, H-h]; none: do not clip", group=_PLANNING
    ),
    "epsilon": functools.partial(
        number,
        help="the theorems hold with probability 1 - EPS",
        group=_CONFIDENCE,
        metavar="EPS",
        between=(SMALLEST, 1.0),
        below_maximum=True,
    ),
    "corrected": functools.partial(
        option,
        help="scales and numbers of members that the proofs need, instead of the printed ones",
        group=_CONFIDENCE,
    ),
    "delta": functools.partial(
        number,
        help="failure probability of the confidence sets",
        group=_CONFIDENCE,
        metavar="DELTA",
        between=(SMALLEST, 1.0),
        below_maximum=True,
    ),
    "scale": functools.partial(
        number,
        help="factor of the confidence widths or of the bonus",
        group=_CONFIDENCE,
        between=(0.0, LARGEST),
    ),
    "constants": functools.partial(
        option,
        help="constants of the bonus or of the noise: practical ones, or those of the proofs",
        group=_CONFIDENCE,
    ),
}


def _shared(name: str, default: Any, details: str = "", **more: Any) -> Any:
    """Declare an option that several agents have; ``details`` is its meaning for one of them."""
    return _SHARED[name](default, details=details, **more)


@dataclasses.dataclass(frozen=True)
class NarlUcrl:
    """Noise Augmented UCRL: optimism by noise on r̂ and P̂ (Eq. 2)."""

    noise: Literal["gaussian", "theorem", "bootstrap", "dirichlet"] = _shared(
        "noise",
        "gaussian",
        "gaussian: variance c/N; theorem: Theorem 1's scales and M; bootstrap: members with half "
        "of the data each; dirichlet: posterior samples",
    )
    noised: Literal["reward", "dynamics", "both"] | None = option(
        None,
        "parts of the model that carry noise",
        group=_NOISE,
        default_text="reward with noise gaussian, else both",
    )
    measure: Measure = option(
        "signed",
        "treatment of the noisy dynamics: a signed measure, noise centred to sum 0, or a "
        "projection to the simplex",
        group=_NOISE,
    )
    c: float = _shared(
        "c", 0.005, "The variance is c/N(s,a), and 1 where N = 0. The paper prints c = 1"
    )
    members: int = _shared("members", 10)
    members_r: int | None = count(
        None,
        "number M_r of members for the rewards, if it is not M",
        _NOISE,
        metavar="M",
        maximum=MAX_MEMBERS,
        default_text="M, or Theorem 1's number with noise theorem",
    )
    members_p: int | None = count(
        None,
        "number M_P of members for the dynamics, if it is not M",
        _NOISE,
        metavar="M",
        maximum=MAX_MEMBERS,
        default_text="M, or Theorem 1's number with noise theorem",
    )
    clip: Clip = _shared("clip", "horizon", "The proofs in the appendix need the clipping")
    clip_reward: bool = option(
        True,
        "clip noisy rewards to [0, 1]",
        group=_PLANNING,
        details="It is the appendix's first assumption",
    )
    per_stage: bool = option(
        False,
        "draw new dynamics noise at every stage h",
        group=_NOISE,
        details="The proof of optimism needs it",
    )
    empty: Literal["normal", "one", "none"] = option(
        "normal",
        "noise of a bootstrap member that has no data at (s,a)",
        group=_NOISE,
        details="normal: N(0,1) on the reward and N(0,I) on the dynamics (the N=0 rule); one: "
        "reward 1; none: no noise, so r̂ = 0 and P̂ is uniform",
    )
    epsilon: float = _shared("epsilon", 0.1, "Only for noise theorem")
    corrected: bool = _shared(
        "corrected", False, "For noise theorem: σ_r, σ_P, M_r, M_P and new noise at every stage"
    )


@dataclasses.dataclass(frozen=True)
class NarlUcbvi:
    """Noise Augmented UCBVI: reward noise on the scale of the value function (Eq. 4)."""

    noise: Literal["gaussian", "theorem", "fake-reward"] = _shared(
        "noise",
        "gaussian",
        "gaussian: variance c·H²/N; theorem: σ = 2Hβ_r of Theorem 2; fake-reward: the bootstrap "
        "over a buffer filled with ±1 rewards (§3.3.1)",
    )
    c: float = _shared("c", 1.0, "The variance is c·H²/N(s,a)")
    members: int | None = _shared(
        "members",
        None,
        "Only rewards have members (M_r); with noise theorem their number is Theorem 2's",
        default_text="10",
    )
    running_min: bool = option(
        True, "take the minimum with the previous episode's Q (Eq. 4)", group=_PLANNING
    )
    fakes: int | None = count(
        None,
        "number M_B of fake rewards of each sign per real reward",
        _NOISE,
        metavar="M_B",
        maximum=10**9,
        default_text="Theorem 3's H·log(T)",
    )
    rescaled: bool = option(
        True,
        "scale rewards after adding fake ones, so that their mean is right; the paper does not",
        group=_NOISE,
    )
    epsilon: float = _shared("epsilon", 0.1, "Only for noise theorem and fake-reward")
    corrected: bool = _shared("corrected", False, "σ, M_r and M_B")


@dataclasses.dataclass(frozen=True)
class Ucrl2:
    """UCRL2: extended value iteration over L1 confidence sets (Jaksch et al. 2010)."""

    delta: float = _shared("delta", 0.05)
    scale: float = _shared("scale", 1.0, "It multiplies both widths; 1 is the paper's baseline")
    clip: Clip = _shared("clip", "horizon", "The paper's baseline code does not clip")


@dataclasses.dataclass(frozen=True)
class Ucrl2Tabularl:
    """UCRL2 as the paper's baseline code computes it: the slack of each backup stays in P̂."""

    delta: float = _shared("delta", 0.05)
    scale: float = _shared("scale", 1.0, "It multiplies both widths; 1 is the paper's baseline")
    compounding: bool = option(
        True,
        "keep the slack of each backup in the estimated dynamics, as the baseline code does",
        group=_PLANNING,
        details="Off: the same code (priors, no clip) without this error",
    )


@dataclasses.dataclass(frozen=True)
class Ucbvi:
    """UCBVI: an exploration bonus on Q (Azar et al. 2017)."""

    bonus: Literal["hoeffding", "bernstein"] = option(
        "hoeffding",
        "exploration bonus: from the range of the value function, or from its estimated variance",
        group=_CONFIDENCE,
    )
    constants: Literal["practical", "theory"] = _shared(
        "constants", "practical", "practical: √(2 ln(2+k)/n) per unit of range"
    )
    scale: float = _shared("scale", 1.0, "It multiplies the bonus")
    delta: float = _shared("delta", 0.05, "Only for constants theory")


@dataclasses.dataclass(frozen=True)
class Psrl:
    """PSRL: planning in one MDP drawn from the posterior (Osband et al. 2013)."""

    alpha0: float = number(
        1.0,
        "prior weight of each next state (Dirichlet)",
        _POSTERIOR,
        between=(SMALLEST, LARGEST),
    )
    mu0: float = number(0.0, "prior mean of the rewards", _POSTERIOR, between=(-LARGEST, LARGEST))
    tau0: float = number(
        1.0, "prior precision of the mean rewards", _POSTERIOR, between=(SMALLEST, LARGEST)
    )
    tau: float = number(
        1.0,
        "precision of the reward noise that the posterior assumes",
        _POSTERIOR,
        between=(SMALLEST, LARGEST),
    )


@dataclasses.dataclass(frozen=True)
class Opsrl(Psrl):
    """OPSRL: the largest Q over several MDPs drawn from the posterior."""

    members: int = _shared("members", 10, "The number of MDPs drawn per episode")


@dataclasses.dataclass(frozen=True)
class Rlsvi:
    """RLSVI: randomised value functions, new Gaussian noise on every Q_h (Russo 2019)."""

    constants: Literal["practical", "theory"] = _shared(
        "constants",
        "practical",
        "practical: noise variance c·(H−h)/(n+1); theory: β_k = ½·S·H³·ln(2HSAk) over (n+1)",
    )
    c: float = _shared("c", 0.1, "Only for constants practical")
    clip: Clip = _shared("clip", "none", "The analysis of RLSVI does not clip")


@dataclasses.dataclass(frozen=True)
class Greedy:
    """Certainty equivalence: planning with r̂ and P̂, without exploration."""


AgentOptions: TypeAlias = (
    NarlUcrl | NarlUcbvi | Ucrl2 | Ucrl2Tabularl | Ucbvi | Psrl | Opsrl | Rlsvi | Greedy
)

AGENT_OPTIONS: dict[str, type[AgentOptions]] = {
    "narl-ucrl": NarlUcrl,
    "narl-ucbvi": NarlUcbvi,
    "ucrl2": Ucrl2,
    "ucrl2-tabularl": Ucrl2Tabularl,
    "ucbvi": Ucbvi,
    "psrl": Psrl,
    "opsrl": Opsrl,
    "rlsvi": Rlsvi,
    "greedy": Greedy,
}
"""The agents by name, and the options of each."""

PRESETS: dict[str, dict[str, AgentOptions]] = {
    "paper": {
        "narl-ucrl": NarlUcrl(noised="both", c=1.0, clip="none", clip_reward=False),
        "narl-ucbvi": NarlUcbvi(rescaled=False),
        "ucrl2": Ucrl2(clip="none"),
    }
}
"""Options as the paper prints them, for the agents whose defaults are another reading."""


def used_by(name: str) -> tuple[str, ...]:
    """Return the agents that have an option of this name."""
    return tuple(
        agent
        for agent, options in AGENT_OPTIONS.items()
        if any(field.name == name for field in dataclasses.fields(options))
    )


def agent_options(agent: str, preset: str | None = None, **given: Any) -> AgentOptions:
    """Return the checked options of an agent: the preset's or the defaults, then the given ones."""
    if agent not in AGENT_OPTIONS:
        raise unknown("agent", agent, AGENT_OPTIONS)
    options = AGENT_OPTIONS[agent]()
    if preset is not None:
        if not isinstance(preset, str) or preset not in PRESETS:
            raise unknown("preset", str(preset), PRESETS)
        options = PRESETS[preset].get(agent, options)
    names = {field.name for field in all_option_fields()}
    for name in given:
        if name not in names:
            raise unknown("option", name, sorted(names))
    check_used_by(given, used_by, agent, "agent")
    fields = {field.name: field for field in option_fields(type(options))}
    for name, value in given.items():
        given[name] = check_value(name, value, fields[name].annotation, fields[name].option)
    options = dataclasses.replace(options, **given)
    if isinstance(options, NarlUcrl):
        _check_noise(options)
    return options


def _check_noise(options: NarlUcrl) -> None:
    """Refuse options of the noise that contradict each other."""
    if options.noise == "bootstrap":
        for name in ("members_r", "members_p"):
            if getattr(options, name) not in (None, options.members):
                raise InputError(
                    f"{name}: bootstrap members hold rewards and dynamics together; "
                    f"leave it out or make it {options.members} like members"
                )
    if options.noise in ("bootstrap", "dirichlet") and options.measure == "simplex":
        raise InputError(
            f"measure: 'simplex' is for gaussian and theorem noise; "
            f"with {options.noise} noise the nearest is 'signed'"
        )


@functools.cache
def all_option_fields() -> tuple[OptionField, ...]:
    """Return the options of all agents, each once, with the agents that use it.

    None stands for the default of the agent.
    """
    by_name: dict[str, dict[str, OptionField]] = {}
    for agent, options in AGENT_OPTIONS.items():
        for field in option_fields(options):
            by_name.setdefault(field.name, {})[agent] = field
    return tuple(_merge(by_agent) for by_agent in by_name.values())


def _merge(by_agent: dict[str, OptionField]) -> OptionField:
    """Return one field for an option that several agents have, perhaps with other choices."""
    first = next(iter(by_agent.values()))
    users: dict[str, list[str]] = {}
    for agent, field in by_agent.items():
        users.setdefault(field.option.default_as_text(field.default), []).append(agent)
    texts = [f"{text} for {' and '.join(agents)}" for text, agents in users.items()]
    description = dataclasses.replace(
        first.option,
        used_by=tuple(by_agent),
        choices=_all_choices(field.annotation for field in by_agent.values()),
        default_text=next(iter(users)) if len(users) == 1 else ", ".join(texts),
    )
    return OptionField(first.name, first.annotation, description, None)


def _all_choices(annotations: Iterable[Any]) -> tuple[str, ...]:
    """Return the choices of several Literal types (or None), each once."""
    kinds = [kind for hint in annotations for kind in (hint, *typing.get_args(hint))]
    literals = [kind for kind in kinds if typing.get_origin(kind) is Literal]
    return tuple(dict.fromkeys(choice for kind in literals for choice in typing.get_args(kind)))
