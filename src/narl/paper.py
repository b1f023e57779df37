"""The paper's equations, theorems, tables and figures, and the code that implements each.

The paper is "Towards Tractable Optimism in Model-Based Reinforcement Learning" (UAI 2021).
`ENTRIES` lists it in reading order; `where` gives the section and the line of the LaTeX source.
The decorator `@implements("eq:2")` marks a function or class that implements an entry, and
`python -m narl.paper --check docs/paper-map.md` checks that no entry is left out.
"""

import argparse
import importlib
import pkgutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from narl.errors import unknown

__all__ = ["ENTRIES", "Entry", "implementations", "implements"]

Half = Literal["tabular", "deep", "both"]
Tagged = TypeVar("Tagged", bound=Callable[..., object])

_KINDS = {
    "def": "definition",
    "eq": "equation",
    "alg": "algorithm",
    "assumption": "assumption",
    "lemma": "lemma",
    "corollary": "corollary",
    "theorem": "theorem",
    "proof": "proof",
    "sec": "section",
    "app": "appendix",
    "table": "table",
    "fig": "figure",
}


@dataclass(frozen=True)
class Entry:
    """One statement of the paper; `reason` says why there is no code where `code` is False."""

    id: str
    title: str
    where: str
    half: Half = "tabular"
    code: bool = True
    reason: str = ""

    @property
    def kind(self) -> str:
        """The kind of statement, from the first part of the id: equation, lemma, figure, …"""
        return _KINDS[self.id.partition(":")[0]]


ENTRIES: tuple[Entry, ...] = (
    Entry(
        "def:mdp",
        "Finite-horizon MDP (S, A, P, H, r, P_0) and the estimators r_hat, P_hat",
        "§2 L156–158, §3 L246",
    ),
    Entry(
        "def:value",
        "V(π) and the value vectors V^h(π), in the true and in the approximate MDP",
        "§2 L161–165, L193",
    ),
    Entry(
        "table:1",
        "Tabular algorithms, their noise-augmented equivalents and regret bounds",
        "Table 1, §2 L167",
    ),
    Entry("def:regret", "R(T) = Σ_k V(π*) − V(π_k)", "§2 L188–193", "both"),
    Entry(
        "eq:1",
        "Optimism decomposition: regret = optimism + estimation error",
        "Eq. 1, §2 L198; App. B L784",
        "both",
    ),
    Entry("alg:1", "Noise Augmented RL (NARL)", "Algorithm 1, §3 L223"),
    Entry(
        "assumption:1",
        "Rewards are 1-sub-Gaussian with means in [0, 1]",
        "Assumption 1, §3 L248",
        code=False,
        reason="a condition on the MDP under which the theorems hold; planners do not need it",
    ),
    Entry(
        "lemma:confidence",
        "Time-uniform confidence radii β_r and β_P, and the event E",
        "Lemma 1, §3.1 L256–274; Lemma 4, App. A.1 L549",
    ),
    Entry(
        "sec:posterior",
        "Dynamics noise from posterior sampling: optimistic posterior sampling",
        "§3.2 L282",
    ),
    Entry(
        "eq:2",
        "Noise Augmented Extended Value Iteration (NAEVI), terms A and B",
        "Eq. 2, §3.2 L288–294",
        "both",
    ),
    Entry(
        "eq:3",
        "The sampled r_tilde^(m), P_tilde^(m) and the maximising r_tilde, P_tilde",
        "Eq. 3, §3.2 L295–303",
        "both",
    ),
    Entry(
        "theorem:1",
        "NARL-UCRL with Gaussian noise: σ_r, σ_P, M_r, M_P and O(SH√(SAT)) regret",
        "Theorem 1, §3.2 L306; App. B.3–B.4 L1012–1027",
    ),
    Entry(
        "eq:4",
        "Noise Augmented Value Iteration (NAVI): running minimum and cap",
        "Eq. 4, §3.3 L327; App. B.5 L1032",
    ),
    Entry(
        "theorem:2",
        "NARL-UCBVI with Gaussian noise: σ_r = 2Hβ_r, M_r and O(SH√(AT)) regret",
        "Theorem 2, §3.3 L338; App. B.5 L1029",
    ),
    Entry(
        "sec:3.3.1",
        "Bootstrap of the rewards with ±1 fake rewards",
        "§3.3.1 L348–362; App. A.3 L615",
    ),
    Entry(
        "theorem:3",
        "NARL-UCBVI with bootstrap noise: M_B = H log T, M_r and O(SH√(AT)) regret",
        "Theorem 3, §3.3.1 L366",
    ),
    Entry(
        "lemma:gaussian-tail",
        "Lower bound on the Gaussian tail P(X − μ > t)",
        "Lemma 2, §4 L381 (Eq. 5)",
    ),
    Entry(
        "lemma:reward-anticoncentration",
        "With σ = 2β_r a noised reward exceeds r with probability at least 1/10",
        "Lemma 3, §4 L391 (Eq. 6); Lemma 5, App. A.2 L562 (Eq. 9)",
    ),
    Entry(
        "corollary:reward",
        "The largest of M_r noised rewards is optimistic and within Lβ_r of r",
        "Corollary 1, §4 L401 (Eq. 7, 8); Corollary 2, App. A.2 L588–608 (Eq. 10, 11, 12)",
    ),
    Entry("fig:1a", "RiverSwim: regret", "Fig. 1(a), §5 L434, L446"),
    Entry(
        "fig:1b", "Approximate against true values of NARL and UCRL2", "Fig. 1(b), §5 L435, L446"
    ),
    Entry("fig:1c", "Deep Sea: episodes to solve", "Fig. 1(c), §5 L436, L448"),
    Entry("sec:5-gaussian", "Practical Gaussian noise: M = 10 draws of variance c/N", "§5 L444"),
    Entry(
        "sec:5-bootstrap",
        "Practical bootstrap noise: M = 10 models with 50 % of the data each",
        "§5 L444",
    ),
    Entry(
        "sec:6.1-ensemble",
        "Noise from an ensemble of probabilistic networks, SAC inside the model",
        "§6.1 L461",
        "deep",
    ),
    Entry(
        "sec:6.1-selection",
        "Optimistic choice over members: highest reward and best next state",
        "§6.1 L463; App. E L1099–1103",
        "deep",
    ),
    Entry(
        "sec:6.1-elite",
        "MBPO's random choice among elite members, the rival",
        "§6.1 L463, L491",
        "deep",
    ),
    Entry(
        "fig:2",
        "How often each ensemble member is selected",
        "Fig. 2, §6.1 L465, L489",
        "deep",
    ),
    Entry("fig:3a", "InvertedPendulum against MBPO", "Fig. 3(a), §6.2 L479", "deep"),
    Entry("fig:3b", "Hopper against MBPO", "Fig. 3(b), §6.2 L480", "deep"),
    Entry(
        "fig:3c",
        "HalfCheetah against MBPO",
        "Fig. 3(c), §6.2 L481",
        "deep",
    ),
    Entry(
        "sec:6.1",
        "Model radius constraint ε_M around the mean over members",
        "§6.1 L491–493; App. E L1101",
        "deep",
    ),
    Entry(
        "table:2",
        "Steps to solve InvertedPendulum for M × ε_M",
        "Table 2, §6.2 L498–522",
        "deep",
    ),
    Entry("assumption:2", "Rewards r_tilde clipped to [0, 1]", "Assumption 2, App. A L542"),
    Entry(
        "sec:n0",
        "The N = 0 rules for r_hat, P_hat and the noise of unvisited pairs",
        "App. A.4 L621; App. A.5 L709",
    ),
    Entry(
        "lemma:reward-anticoncentration-general",
        "The same for σ = γβ_r, with probability at least p(γ)",
        "Lemma 6, App. A.4 L625 (Eq. 13)",
    ),
    Entry(
        "corollary:reward-general",
        "Optimism and distance of the largest noised reward for σ = γβ_r",
        "Corollary 3, App. A.4 L650 (Eq. 14, 15)",
    ),
    Entry(
        "lemma:dynamics-anticoncentration",
        "With σ = 2β_P noised dynamics overestimate E[v] with probability at least 1/(9S)",
        "Lemma 7, App. A.5 L665; proof L711",
    ),
    Entry(
        "corollary:dynamics",
        "The best of M_P noised dynamics is optimistic and close to P in ℓ1",
        "Corollary 4, App. A.5 L673–693 (Eq. 16, 17)",
    ),
    Entry(
        "theorem:optimism",
        "V_tilde_k(π_k) ≥ V(π*) with probability at least 1 − 2δ, given M_r and M_P",
        "Theorem 4, App. A.5 L698; proof App. A.6 L733 (Eq. 18)",
    ),
    Entry(
        "proof:b1",
        "Bound of term B: r_tilde against r in the true dynamics",
        "App. B.1 L792–863",
        code=False,
        reason="a step of the proof of Theorem 1; no algorithm uses it",
    ),
    Entry(
        "proof:b2",
        "Bound of term A: recursion over h, martingale and counting argument",
        "Lemma 8, App. B.2 L866–1010 (Eq. 19–26)",
        code=False,
        reason="a step of the proof of Theorem 1; no algorithm uses it",
    ),
    Entry(
        "lemma:ucbvi-anticoncentration",
        "With σ = 2Hβ_r a noised reward exceeds r + b_k with probability at least 1/10",
        "Lemma 9, App. B.5 L1039 (Eq. 27)",
    ),
    Entry(
        "fig:4",
        "Delusional world models: return inside the model and in the environment",
        "Fig. 4, App. C L1054–1064",
        "deep",
    ),
    Entry("app:d", "Implementation details: MBPO's settings", "App. D L1066", "deep"),
    Entry(
        "app:e",
        "Extended soft policy iteration: soft values, optimistic reward and dynamics",
        "App. E L1070–1103",
        "deep",
    ),
    Entry(
        "app:e-ucrl2",
        "Extended value iteration of UCRL2: max over a confidence set of dynamics",
        "App. E L1085–1088",
    ),
)

_BY_ID = {entry.id: entry for entry in ENTRIES}
_registry: dict[str, list[str]] = {}


def implements(*ids: str) -> Callable[[Tagged], Tagged]:
    """Record that the decorated function or class implements these entries of the paper."""
    for id_ in ids:
        if id_ not in _BY_ID:
            raise unknown("implements", id_, _BY_ID)

    def record(tagged: Tagged) -> Tagged:
        name = f"{tagged.__module__}:{tagged.__qualname__}"
        if "<locals>" in name:
            raise TypeError(f"implements: {name} is made at run time; tag the function around it")
        for id_ in ids:
            names = _registry.setdefault(id_, [])
            if name not in names:
                names.append(name)
        return tagged

    return record


def implementations() -> dict[str, list[str]]:
    """Return the "module:qualname" of the code of every entry; all of the package is imported."""
    package = importlib.import_module("narl")
    for info in pkgutil.walk_packages(package.__path__, "narl.", onerror=lambda name: None):
        if not info.name.endswith("__main__"):
            _import_unless_optional(info.name)
    return {
        id_: sorted(name for name in _registry.get(id_, []) if name.startswith("narl."))
        for id_ in _BY_ID
    }


def _import_unless_optional(module: str) -> None:
    """Import a module of the package; pass over one whose optional dependency is missing."""
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "narl":
            raise


def missing(code: dict[str, list[str]]) -> list[str]:
    """Return the ids that should have code and have none."""
    return [entry.id for entry in ENTRIES if entry.code and not code[entry.id]]


def markdown() -> str:
    """Return the page `docs/paper-map.md`: every entry and its code."""
    code_of = implementations()
    lines = [
        "# The paper, and where it is in the code",
        "",
        "Made by `python -m narl.paper --write docs/paper-map.md`; do not edit. L… are lines of",
        "the paper's LaTeX source. Known errors in the paper are in [errata.md](errata.md).",
        "",
        "| Id | In the paper | What | Half | Code |",
        "|---|---|---|---|---|",
    ]
    for entry in ENTRIES:
        code = "<br>".join(f"`{name}`" for name in code_of[entry.id])
        if not code:
            code = "not yet implemented" if entry.code else f"none: {entry.reason}"
        lines.append(f"| `{entry.id}` | {entry.where} | {entry.title} | {entry.half} | {code} |")
    return "\n".join(lines) + "\n"


def check(path: Path) -> str | None:
    """Return a line that says what is wrong with the map, or None if it is complete and current."""
    if gaps := missing(implementations()):
        return f"paper map: nothing implements {', '.join(gaps)}"
    if not path.is_file() or path.read_text(encoding="utf-8") != markdown():
        return f"paper map: {path} is out of date; run `python -m narl.paper --write {path}`"
    return None


def main(arguments: list[str] | None = None) -> int:
    """Print the map, write it to a file (--write) or check a file against it (--check)."""
    parser = argparse.ArgumentParser(prog="python -m narl.paper", description=main.__doc__)
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--check", type=Path, metavar="FILE", help="exit 1 if FILE is not current")
    action.add_argument("--write", type=Path, metavar="FILE", help="write the map to FILE")
    chosen = parser.parse_args(arguments)
    from narl.storage import write_file  # here, because the decorator alone needs no storage

    if chosen.check:
        problem = check(chosen.check)
        if problem:
            print(problem, file=sys.stderr)
        return 1 if problem else 0
    if chosen.write:
        write_file(chosen.write, markdown().encode())
    else:
        print(markdown(), end="")
    return 0


if __name__ == "__main__":
    # The registry lives in the module `narl.paper`; as `__main__` this file is a second copy.
    sys.exit(importlib.import_module("narl.paper").main())
