"""Fig. 1(c): episodes to solve Deep Sea as it grows (N = 10, 12, …, 28)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from narl.experiments.analysis import capped, decomposition_table, episodes_to_solve
from narl.experiments.experiment import Experiment, Findings, Result, Scale
from narl.experiments.judgement import Judgement, Part, comparison_table, judge_lower
from narl.paper import implements
from narl.report.contents import Chart, Claim, Series, Table
from narl.stats import median_iqr
from narl.tabular.config import Config, make_config

GAUSSIAN = "NARL Gaussian"
BOOTSTRAP = "NARL bootstrap"
PRINTED = "NARL Gaussian (as printed)"
BEST = "fig1c-gaussian-best"
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


def gaussian_against_bootstrap(
    solved_at: Mapping[str, Mapping[int, np.ndarray]], budget: int
) -> Judgement:
    """Return whether Gaussian noise needs fewer episodes than bootstrap at every size."""
    gaussian, bootstrap = solved_at[GAUSSIAN], solved_at[BOOTSTRAP]
    parts = [
        Part(
            f"Gaussian, N={size}",
            capped(gaussian[size], budget),
            f"bootstrap, N={size}",
            capped(bootstrap[size], budget),
        )
        for size in gaussian
    ]
    return judge_lower(parts, f"episodes, never = {budget}")


def _claims(
    solved_at: Mapping[str, Mapping[int, np.ndarray]], budget: int, best: Judgement
) -> list[Claim]:
    def all_seeds_solve(agent: str) -> tuple[bool, str]:
        counts = {size: int(np.isfinite(t).sum()) for size, t in solved_at[agent].items()}
        total = {size: len(t) for size, t in solved_at[agent].items()}
        text = ", ".join(f"N={size}: {counts[size]}/{total[size]}" for size in counts)
        return counts == total, f"{agent} within {budget} episodes: {text}"

    both = [all_seeds_solve(GAUSSIAN), all_seeds_solve(BOOTSTRAP)]
    printed = all_seeds_solve(PRINTED)
    return [
        Claim(
            "fig1c-solves",
            f"NARL solves all Deep Sea tasks (every seed, within {budget} episodes).",
            "§5, Fig. 1(c)",
            "holds" if all(ok for ok, _ in both) else "fails",
            "; ".join(text for _, text in both),
        ),
        best.claim(
            BEST,
            "The Gaussian method is best: it needs fewer episodes than bootstrap at every size.",
            "§5, Fig. 1(c)",
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
    best = gaussian_against_bootstrap(solved_at, budget)
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
        + [float(x) if np.isfinite(x) else None for x in (np.median(t), capped(t, budget).mean())]
        + [float(t.max()) if np.isfinite(t.max()) else None]
        for agent in AGENTS
        for size, t in solved_at[agent].items()
    ]
    table = Table(
        "fig1c-solved",
        "Deep Sea: seeds that solved it, and when",
        ["agent", "N", "solved", "median episode", "mean episode", "worst seed"],
        rows,
        f"The mean counts a seed that did not solve it as {budget}. The worst seed is empty where "
        "a seed did not solve it, the median where half of them did not.",
    )
    last = {a: results[f"{a} · {max(solved_at[a])}"] for a in AGENTS}
    return Findings(
        about=f"bsuite's deterministic Deep Sea, N = {', '.join(map(str, sizes))}, {num_seeds} "
        f"seeds, at most {budget} episodes. PSRL up to N = {LARGEST['PSRL']}.",
        charts=[chart],
        tables=[
            table,
            decomposition_table("fig1c-terms", "Eq. 1 at the largest size run", last),
            comparison_table("fig1c-comparisons", {BEST: best}),
        ],
        claims=_claims(solved_at, budget, best),
        notes=[
            "Runs stop once all seeds have solved it, so regrets of agents are over "
            "different numbers of episodes.",
            "What is said of Gaussian noise is true of these sizes and of deterministic moves: "
            "from N = 28 to 40 its episodes grow like N^3 and those of bootstrap like N^1.1, so "
            "that bootstrap is faster at N = 40, and on the stochastic Deep Sea some seeds fail "
            "from N = 28 on.",
        ],
    )


EXPERIMENT = Experiment("fig1c", "Fig. 1(c): Deep Sea", cells, analyse)
