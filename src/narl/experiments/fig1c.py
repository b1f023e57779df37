"""Fig. 1(c): episodes to solve Deep Sea as it grows (N = 10, 12, …, 28)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from narl.experiments.analysis import (
    all_hold,
    decomposition_table,
    episodes_to_solve,
    is_below,
    spread,
)
from narl.experiments.experiment import Experiment, Findings, Result, Scale
from narl.paper import implements
from narl.report.document import Chart, Claim, Series, Table
from narl.stats import median_iqr
from narl.tabular.config import Config, make_config

GAUSSIAN = "NARL Gaussian"
BOOTSTRAP = "NARL bootstrap"
PRINTED = "NARL Gaussian (as printed)"
AGENTS: dict[str, tuple[str, dict]] = {
    GAUSSIAN: ("narl-ucrl", {}),
    BOOTSTRAP: ("narl-ucrl", {"noise": "bootstrap"}),
    PRINTED: ("narl-ucrl", {"preset": "paper"}),
    "PSRL": ("psrl", {}),
    "UCRL2": ("ucrl2", {}),
    "UCBVI (Bernstein)": ("ucbvi", {"bonus": "bernstein"}),
    "RLSVI": ("rlsvi", {}),
    "greedy": ("greedy", {}),
}
LARGEST = {"PSRL": 20}
"""PSRL draws a full table of S²A probabilities per episode; beyond N = 20 that takes hours."""

_SIZES: dict[Scale, tuple[Sequence[int], int, int]] = {
    "smoke": ((4, 6), 60, 2),
    "small": ((10, 14, 18), 300, 3),
    "paper": (range(10, 30, 2), 1000, 10),
}


def cells(scale: Scale) -> dict[str, Config]:
    """Return each agent on each size, stopped when all seeds have solved the task."""
    sizes, episodes, num_seeds = _SIZES[scale]
    return {
        f"{agent} · {size}": make_config(
            name,
            env="deep-sea",
            size=size,
            episodes=episodes,
            seeds=range(num_seeds),
            until_solved=True,
            **options,
        )
        for agent, (name, options) in AGENTS.items()
        for size in sizes
        if size <= LARGEST.get(agent, size)
    }


def _claims(solved_at: Mapping[str, Mapping[int, np.ndarray]], budget: int) -> list[Claim]:
    def all_seeds_solve(agent: str) -> tuple[bool, str]:
        counts = {size: int(np.isfinite(t).sum()) for size, t in solved_at[agent].items()}
        total = {size: len(t) for size, t in solved_at[agent].items()}
        text = ", ".join(f"N={size}: {counts[size]}/{total[size]}" for size in counts)
        return counts == total, f"{agent} within {budget} episodes: {text}"

    largest = max(solved_at[GAUSSIAN])
    both = [all_seeds_solve(GAUSSIAN), all_seeds_solve(BOOTSTRAP)]
    pairs = [is_below(solved_at[GAUSSIAN][n], solved_at[BOOTSTRAP][n]) for n in solved_at[GAUSSIAN]]
    printed = all_seeds_solve(PRINTED)
    return [
        Claim(
            "fig1c-solves",
            f"NARL solves all Deep Sea tasks (every seed, within {budget} episodes).",
            "§5, Fig. 1(c)",
            "holds" if all(ok for ok, _ in both) else "fails",
            "; ".join(text for _, text in both),
        ),
        Claim(
            "fig1c-gaussian-best",
            "The Gaussian method is best: it needs fewer episodes than bootstrap at every size.",
            "§5, Fig. 1(c)",
            all_hold(pairs),
            f"at N={largest}: Gaussian {spread(solved_at[GAUSSIAN][largest])}, "
            f"bootstrap {spread(solved_at[BOOTSTRAP][largest])}",
        ),
        Claim(
            "fig1c-printed",
            f"The Gaussian agent as printed solves all Deep Sea tasks (within {budget} episodes).",
            "§5, settings of the Gaussian agent",
            "holds" if printed[0] else "fails",
            printed[1],
        ),
    ]


def _line(agent: str, solved_at: Mapping[int, np.ndarray]) -> Series:
    """Return the median and the quartiles, up to the last size that the median seed solves."""
    sizes = list(solved_at)
    bands = [median_iqr(times) for times in solved_at.values()]

    def finite(index: int) -> list[float | None]:
        return [float(b[index]) if np.isfinite(b[index]) else None for b in bands]

    return Series(agent, [float(n) for n in sizes], finite(0), finite(1), finite(2))


@implements("fig:1c")
def analyse(scale: Scale, results: Mapping[str, Result]) -> Findings:
    """Return the episodes to solve against N, tables and claims."""
    sizes, budget, num_seeds = _SIZES[scale]
    solved_at = {
        agent: {
            size: episodes_to_solve(results[f"{agent} · {size}"])
            for size in sizes
            if f"{agent} · {size}" in results
        }
        for agent in AGENTS
    }
    chart = Chart(
        "fig1c",
        "Deep Sea: episodes to solve",
        "size N",
        "episodes",
        [_line(agent, solved_at[agent]) for agent in AGENTS],
        y_axis="log",
        caption=f"Median and quartiles over {num_seeds} seeds; a line ends where the median seed "
        f"is not solved within {budget} episodes. Solved: less than 90 % of all episodes so far "
        "left the diagonal (bsuite's rule).",
    )
    rows = [
        [agent, size, f"{int(np.isfinite(t).sum())}/{len(t)}"]
        + [float(x) if np.isfinite(x) else None for x in (np.median(t), t.max())]
        for agent in AGENTS
        for size, t in solved_at[agent].items()
    ]
    table = Table(
        "fig1c-solved",
        "Deep Sea: seeds that solved it, and when",
        ["agent", "N", "solved", "median episode", "last episode"],
        rows,
        "Empty where not all (or not half) of the seeds solved it.",
    )
    last = {a: results[f"{a} · {max(solved_at[a])}"] for a in AGENTS}
    return Findings(
        about=f"bsuite's deterministic Deep Sea, N = {', '.join(map(str, sizes))}, {num_seeds} "
        f"seeds, at most {budget} episodes. PSRL up to N = {LARGEST['PSRL']}.",
        charts=[chart],
        tables=[table, decomposition_table("fig1c-terms", "Eq. 1 at the largest size run", last)],
        claims=_claims(solved_at, budget),
        notes=[
            "Runs stop once all seeds have solved it, so regrets of agents are over "
            "different numbers of episodes."
        ],
    )


EXPERIMENT = Experiment("fig1c", "Fig. 1(c): Deep Sea", cells, analyse)
