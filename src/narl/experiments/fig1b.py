"""Fig. 1(b): approximate values Ṽ_k against V* on RiverSwim and the stochastic chain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from narl.experiments.analysis import decomposition_table
from narl.experiments.experiment import Experiment, Findings, Result, Scale
from narl.experiments.judgement import Judgement, Part, comparison_table, judge_lower
from narl.paper import implements
from narl.report.contents import Chart, Claim
from narl.report.series import median_band
from narl.tabular.config import Config, make_config

AGENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "NARL Gaussian": ("narl-ucrl", {}),
    "NARL bootstrap": ("narl-ucrl", {"noise": "bootstrap"}),
    "UCRL2": ("ucrl2", {}),
    "UCRL2 (TabulaRL)": ("ucrl2-tabularl", {}),
}
NARL = ("NARL Gaussian", "NARL bootstrap")
BASELINES = ("UCRL2", "UCRL2 (TabulaRL)")
ENVS: dict[str, dict[str, Any]] = {
    "RiverSwim": {"env": "riverswim"},
    "chain": {"env": "stochastic-chain", "size": 10},
}
_SIZES: dict[Scale, tuple[int, int]] = {"smoke": (50, 3), "small": (300, 5), "paper": (1000, 20)}


def cells(scale: Scale) -> dict[str, Config]:
    """Return each agent on each environment."""
    episodes, num_seeds = _SIZES[scale]
    return {
        f"{agent} · {env}": make_config(
            name, episodes=episodes, seeds=range(num_seeds), **where, **options
        )
        for env, where in ENVS.items()
        for agent, (name, options) in AGENTS.items()
    }


def converged(result: Result, tolerance: float = 0.25) -> np.ndarray:
    """Return the first episode from which |Ṽ_k − V*| ≤ tolerance·V* for good, per seed.

    It is K + 1 if there is none.
    """
    v_star = result.run.metrics["v_star"]
    off = np.abs(result.array("value") - v_star) > tolerance * v_star
    last_off = np.where(off.any(axis=1), off.shape[1] - off[:, ::-1].argmax(axis=1), 0)
    return (last_off + 1).astype(float)


def excess(result: Result) -> np.ndarray:
    """Return the mean of Ṽ_k − V* over the run in units of V*, per seed."""
    v_star = result.run.metrics["v_star"]
    return (result.array("value") - v_star).mean(axis=1) / v_star


def takes_twice_as_long(
    slow: str, slow_times: np.ndarray, quick: str, quick_times: np.ndarray, budget: int
) -> Part:
    """Return the condition that one agent takes twice as long as another.

    Where a slow agent does not get there within the run, its time is unknown: then the runs can
    confirm the condition but not contradict it.
    """
    known = bool((slow_times <= budget).all())
    return Part(f"twice {quick}", 2 * quick_times, slow, slow_times, fails_if_above=known)


def _judgements(results: Mapping[str, Result]) -> dict[str, Judgement]:
    """Return the judgement on every claim, by its id."""
    judged = {}
    for env in ENVS:
        over = {agent: excess(results[f"{agent} · {env}"]) for agent in AGENTS}
        when = {agent: converged(results[f"{agent} · {env}"]) for agent in AGENTS}
        budget = results[f"UCRL2 · {env}"].run.metrics["episodes"]
        overestimates = [Part("V* itself", 0.0, b, over[b]) for b in BASELINES]
        overestimates += [Part(a, over[a], b, over[b]) for a in NARL for b in BASELINES]
        slow = [
            takes_twice_as_long(b, when[b], a, when[a], budget) for a in NARL for b in BASELINES
        ]
        judged[f"fig1b-overestimates-{env.lower()}"] = judge_lower(overestimates, "of (Ṽ − V*)/V*")
        judged[f"fig1b-slow-{env.lower()}"] = judge_lower(
            slow, f"first episode from which |Ṽ − V*| ≤ V*/4 for good, never = {budget + 1}"
        )
    return judged


def _claims(judged: Mapping[str, Judgement]) -> list[Claim]:
    claims = []
    for env in ENVS:
        over, slow = f"fig1b-overestimates-{env.lower()}", f"fig1b-slow-{env.lower()}"
        claims.append(
            judged[over].claim(
                over,
                f"On {env}, UCRL2 overestimates values, and more so than NARL.",
                "§5, Fig. 1(b)",
            )
        )
        claims.append(
            judged[slow].claim(
                slow,
                f"On {env}, UCRL2 takes much longer than NARL (twice as long at least) to come to "
                "the true value.",
                "§5, Fig. 1(b); the factor is ours",
            )
        )
    return claims


@implements("fig:1b")
def analyse(scale: Scale, results: Mapping[str, Result]) -> Findings:
    """Return charts of every agent's Ṽ_k with V*, tables and claims."""
    episodes, num_seeds = _SIZES[scale]
    judged = _judgements(results)
    charts, tables = [], []
    for env in ENVS:
        by_agent = {agent: results[f"{agent} · {env}"] for agent in AGENTS}
        v_star = by_agent["UCRL2"].run.metrics["v_star"]
        charts.append(
            Chart(
                f"fig1b-{env.lower()}",
                f"{env}: approximate value Ṽ_k against V*",
                "episode",
                "Ṽ_k(π_k)",
                [
                    median_band(agent, result.array("value"), log=True)
                    for agent, result in by_agent.items()
                ],
                x_axis="log",
                y_axis="log",
                reference=v_star,
                reference_label=f"V* = {v_star:.4f}",
                caption=f"Median and quartiles over {num_seeds} seeds.",
            )
        )
        tables.append(decomposition_table(f"fig1b-terms-{env.lower()}", f"{env}: Eq. 1", by_agent))
    return Findings(
        about=f"RiverSwim (S = 6, H = 20) and the stochastic chain of size 10, {episodes} "
        f"episodes, {num_seeds} seeds. The paper's caption says stochastic chain, its text "
        "RiverSwim.",
        charts=charts,
        tables=[*tables, comparison_table("fig1b-comparisons", judged)],
        claims=_claims(judged),
    )


def seed_scores(result: Result) -> dict[str, list[float]]:
    """Return the first episode from which Ṽ_k is close to V* for good, which the claims quote."""
    return {"close_from_episode": converged(result).tolist()}


TITLE = "Fig. 1(b): approximate against true values"
EXPERIMENT = Experiment("fig1b", TITLE, cells, analyse, seed_scores)
