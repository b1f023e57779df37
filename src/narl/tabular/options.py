"""The options of every tabular agent: declared here once, with help, range and default.

The command line, the checks and the tables in the docs are made from these declarations. The
module does not import JAX, so that `narl tabular --help` answers at once.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Literal, TypeAlias

from narl.options import count, number, option

Clip = Literal["horizon", "none"]
Noised = Literal["reward", "dynamics", "both"]
Measure = Literal["signed", "centred", "simplex"]

SMALLEST, LARGEST = 1e-15, 1e15
"""Numbers beyond these overflow in float32, or vanish as divisors."""
MAX_MEMBERS = 10**6
_REWARD_NOISE, _DYNAMICS_NOISE = ("reward", "both"), ("dynamics", "both")
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


_DYNAMICS_NOISE_DRAWN: tuple[dict[str, tuple[Any, ...]], ...] = (
    {"noise": ("gaussian", "theorem"), "noised": _DYNAMICS_NOISE},
    {"noise": ("bootstrap",), "noised": _DYNAMICS_NOISE, "empty": ("normal",)},
)
"""The settings in which Gaussian noise on the dynamics is drawn."""


@dataclasses.dataclass(frozen=True)
class NarlUcrl:
    """Noise Augmented UCRL: optimism by noise on r̂ and P̂ (Eq. 2)."""

    noise: Literal["gaussian", "theorem", "bootstrap", "bootstrap-prior", "dirichlet"] = _shared(
        "noise",
        "gaussian",
        "gaussian: variance c/N; theorem: Theorem 1's scales and M; bootstrap: members with half "
        "of the data each; bootstrap-prior: members that weight the data by Exp(1) and add one "
        "transition to a random state with a N(0,1) reward, drawn anew in every episode; "
        "dirichlet: posterior samples",
    )
    noised: Noised | None = option(
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
        only_with=_DYNAMICS_NOISE_DRAWN,
    )
    c: float = _shared(
        "c",
        0.005,
        "The variance is c/N(s,a), and 1 where N = 0. The paper prints c = 1",
        only_with=({"noise": ("gaussian",)},),
    )
    members: int = _shared(
        "members",
        10,
        only_with=(
            {"noise": ("gaussian", "dirichlet"), "noised": _REWARD_NOISE, "members_r": (None,)},
            {"noise": ("gaussian", "dirichlet"), "noised": _DYNAMICS_NOISE, "members_p": (None,)},
            {"noise": ("bootstrap", "bootstrap-prior")},
        ),
    )
    members_r: int | None = count(
        None,
        "number M_r of members for the rewards, if it is not M",
        _NOISE,
        metavar="M",
        maximum=MAX_MEMBERS,
        only_with=({"noise": ("gaussian", "theorem", "dirichlet"), "noised": _REWARD_NOISE},),
        default_text="M, or Theorem 1's number with noise theorem",
    )
    members_p: int | None = count(
        None,
        "number M_P of members for the dynamics, if it is not M",
        _NOISE,
        metavar="M",
        maximum=MAX_MEMBERS,
        only_with=({"noise": ("gaussian", "theorem", "dirichlet"), "noised": _DYNAMICS_NOISE},),
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
        details="The proof of optimism needs it; corrected turns it on",
        only_with=tuple({**way, "corrected": (False,)} for way in _DYNAMICS_NOISE_DRAWN),
    )
    empty: Literal["normal", "one", "none"] = option(
        "normal",
        "noise of a bootstrap member that has no data at (s,a)",
        group=_NOISE,
        details="normal: N(0,1) on the reward and N(0,I) on the dynamics (the N=0 rule); one: "
        "reward 1; none: no noise, so r̂ = 0 and P̂ is uniform",
        only_with=({"noise": ("bootstrap",)},),
    )
    epsilon: float = _shared("epsilon", 0.1, only_with=({"noise": ("theorem",)},))
    corrected: bool = _shared(
        "corrected",
        False,
        "σ_r, σ_P, M_r, M_P and new noise at every stage",
        only_with=({"noise": ("theorem",)},),
    )

    @property
    def noised_parts(self) -> Noised:
        """The parts of the model that carry noise, the default filled in."""
        return self.noised or ("reward" if self.noise == "gaussian" else "both")


@dataclasses.dataclass(frozen=True)
class NarlUcbvi:
    """Noise Augmented UCBVI: reward noise on the scale of the value function (Eq. 4)."""

    noise: Literal["gaussian", "theorem", "fake-reward"] = _shared(
        "noise",
        "gaussian",
        "gaussian: variance c·H²/N; theorem: σ = 2Hβ_r of Theorem 2; fake-reward: the bootstrap "
        "over a buffer filled with ±1 rewards (§3.3.1)",
    )
    c: float = _shared(
        "c", 1.0, "The variance is c·H²/N(s,a)", only_with=({"noise": ("gaussian",)},)
    )
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
        only_with=({"noise": ("fake-reward",)},),
    )
    rescaled: bool = option(
        True,
        "scale rewards after adding fake ones, so that their mean is right; the paper does not",
        group=_NOISE,
        only_with=({"noise": ("fake-reward",)},),
    )
    epsilon: float = _shared(
        "epsilon",
        0.1,
        only_with=(
            {"noise": ("theorem",)},
            {"noise": ("fake-reward",), "corrected": (True,), "fakes": (None,)},
        ),
    )
    corrected: bool = _shared(
        "corrected",
        False,
        "σ and M_r, or M_B",
        only_with=({"noise": ("theorem",)}, {"noise": ("fake-reward",), "fakes": (None,)}),
    )


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

    bonus: Literal["hoeffding", "bernstein", "simplified"] = option(
        "hoeffding",
        "exploration bonus: from the range of the value function, from its estimated variance, or "
        "rlberry's scale/√n + (H-h)/n",
        group=_CONFIDENCE,
    )
    constants: Literal["practical", "theory"] = _shared(
        "constants",
        "practical",
        "practical: √(2 ln(2+k)/n) per unit of range",
        only_with=({"bonus": ("hoeffding", "bernstein")},),
    )
    scale: float = _shared(
        "scale", 1.0, "It multiplies the bonus; of the simplified one, the first term"
    )
    delta: float = _shared("delta", 0.05, only_with=({"constants": ("theory",)},))


@dataclasses.dataclass(frozen=True)
class Psrl:
    """PSRL: planning in one MDP drawn from the posterior (Osband et al. 2013)."""

    alpha0: float | None = number(
        1.0,
        "prior weight of each next state (Dirichlet), or none for 1/S",
        _POSTERIOR,
        between=(SMALLEST, LARGEST),
        none_text="1/S",
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
    c: float = _shared("c", 0.1, only_with=({"constants": ("practical",)},))
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
    },
    "strong-prior": {
        "psrl": Psrl(alpha0=None, tau=1e4),
        "opsrl": Opsrl(alpha0=None, tau=1e4),
    },
}
"""Sets of options by name: "paper" as the paper prints them, for the agents whose defaults are
another reading; "strong-prior" for few next states and nearly deterministic rewards."""
