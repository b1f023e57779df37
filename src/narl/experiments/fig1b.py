"""Fig. 1(b): approximate values Ṽ_k against V* on RiverSwim and the stochastic chain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from narl.experiments.analysis import all_hold, decomposition_table, is_below, spread
from narl.experiments.experiment import Experiment, Findings, Result, Scale
from narl.paper import implements
from narl.report.document import Chart, Claim, Verdict
from narl.report.series import median_band
from narl.tabular.config import Config, make_config

AGENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "NARL Gaussian": ("narl-ucrl", {}),
    "NARL bootstrap": ("narl-ucrl", {"noise": "bootstrap"}),
    "UCRL2": ("ucrl2", {}),
    "UCRL2 (TabulaRL)": ("ucrl2-tabularl", {}),
}
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


def takes_twice_as_long(x: np.ndarray, y: np.ndarray, budget: int) -> Verdict:
    """Return whether x takes twice as long as y; undecided if both are longer than the run."""
    if np.median(y) > budget:
        return "undecided" if np.median(x) > budget else "fails"
    return is_below(2 * y, x)


def _claims(results: Mapping[str, Result]) -> list[Claim]:
    claims = []
    baselines = ("UCRL2", "UCRL2 (TabulaRL)")
    for env in ENVS:
        over = {agent: excess(results[f"{agent} · {env}"]) for agent in AGENTS}
        when = {agent: converged(results[f"{agent} · {env}"]) for agent in AGENTS}
        narl = ("NARL Gaussian", "NARL bootstrap")
        budget = results[f"UCRL2 · {env}"].run.metrics["episodes"]
        claims.append(
            Claim(
                f"fig1b-overestimates-{env.lower()}",
                f"On {env}, UCRL2 overestimates values, and more so than NARL.",
                "§5, Fig. 1(b)",
                all_hold(
                    [is_below([0.0], over[b]) for b in baselines]
                    + [is_below(over[a], over[b]) for a in narl for b in baselines]
                ),
                "mean of (Ṽ − V*)/V*: " + "; ".join(f"{a} {spread(over[a])}" for a in AGENTS),
            )
        )
        claims.append(
            Claim(
                f"fig1b-slow-{env.lower()}",
                f"On {env}, UCRL2 takes much longer than NARL (twice as long at least) to come to "
                "the true value.",
                "§5, Fig. 1(b); the factor is ours",
                all_hold(
                    [takes_twice_as_long(when[b], when[a], budget) for a in narl for b in baselines]
                ),
                "episode from which |Ṽ − V*| ≤ V*/4 for good: "
                + "; ".join(f"{a} {spread(when[a])}" for a in AGENTS)
                + f" (never: {budget + 1})",
            )
        )
    return claims


@implements("fig:1b")
def analyse(scale: Scale, results: Mapping[str, Result]) -> Findings:
    """Return charts of every agent's Ṽ_k with V*, tables and claims."""
    episodes, num_seeds = _SIZES[scale]
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
        tables=tables,
        claims=_claims(results),
    )


EXPERIMENT = Experiment("fig1b", "Fig. 1(b): approximate against true values", cells, analyse)
