"""Fig. 1(c): episodes to solve Deep Sea as it grows (N = 10, 12, …, 28)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from narl.experiments.analysis import below, decomposition_table, spread, worst
from narl.experiments.experiment import Experiment, Result, Scale
from narl.paper import implements
from narl.report.document import Chart, Claim, Outcome, Series, Table
from narl.stats import median_iqr
from narl.tabular.config import Study, study

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


def cells(scale: Scale) -> dict[str, Study]:
    """Each agent on each size, stopped when all seeds have solved it."""
    sizes, episodes, num_seeds = _SIZES[scale]
    return {
        f"{agent} · {size}": study(
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


def solved(result: Result) -> np.ndarray:
    """Per seed, the episode at which it was solved; infinity if it was not."""
    return np.array([np.inf if e is None else e for e in result.run.metrics["solved_episode"]])


def _claims(when: Mapping[str, Mapping[int, np.ndarray]], budget: int) -> list[Claim]:
    def every(agent: str) -> tuple[bool, str]:
        counts = {size: int(np.isfinite(t).sum()) for size, t in when[agent].items()}
        total = {size: len(t) for size, t in when[agent].items()}
        text = ", ".join(f"N={size}: {counts[size]}/{total[size]}" for size in counts)
        return counts == total, f"{agent} within {budget} episodes: {text}"

    largest = max(when[GAUSSIAN])
    both = [every(GAUSSIAN), every(BOOTSTRAP)]
    pairs = [below(when[GAUSSIAN][n], when[BOOTSTRAP][n]) for n in when[GAUSSIAN]]
    printed = every(PRINTED)
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
            worst(pairs),
            f"at N={largest}: Gaussian {spread(when[GAUSSIAN][largest])}, "
            f"bootstrap {spread(when[BOOTSTRAP][largest])}",
        ),
        Claim(
            "fig1c-printed",
            f"The Gaussian agent as printed solves all Deep Sea tasks (within {budget} episodes).",
            "§5, settings of the Gaussian agent",
            "holds" if printed[0] else "fails",
            printed[1],
        ),
    ]


def _line(agent: str, when: Mapping[int, np.ndarray]) -> Series:
    """Median and quartiles, as far as the median seed solved it."""
    sizes = list(when)
    bands = [median_iqr(times) for times in when.values()]

    def finite(index: int) -> list[float | None]:
        return [float(b[index]) if np.isfinite(b[index]) else None for b in bands]

    return Series(agent, [float(n) for n in sizes], finite(0), finite(1), finite(2))


@implements("fig:1c")
def analyse(scale: Scale, results: Mapping[str, Result]) -> Outcome:
    """Episodes to solve, against N."""
    sizes, budget, num_seeds = _SIZES[scale]
    when = {
        agent: {
            size: solved(results[f"{agent} · {size}"])
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
        [_line(agent, when[agent]) for agent in AGENTS],
        y_axis="log",
        caption=f"Median and quartiles over {num_seeds} seeds; a line ends where the median seed "
        f"is not solved within {budget} episodes. Solved: less than 90 % of all episodes so far "
        "left the diagonal (bsuite's rule).",
    )
    rows = [
        [agent, size, f"{int(np.isfinite(t).sum())}/{len(t)}"]
        + [float(x) if np.isfinite(x) else None for x in (np.median(t), t.max())]
        for agent in AGENTS
        for size, t in when[agent].items()
    ]
    table = Table(
        "fig1c-solved",
        "Deep Sea: seeds that solved it, and when",
        ["agent", "N", "solved", "median episode", "last episode"],
        rows,
        "Empty where not all (or not half) of the seeds solved it.",
    )
    last = {a: results[f"{a} · {max(when[a])}"] for a in AGENTS}
    return Outcome(
        id="fig1c",
        title="Fig. 1(c): Deep Sea",
        scale=scale,
        command="",
        about=f"bsuite's deterministic Deep Sea, N = {', '.join(map(str, sizes))}, {num_seeds} "
        f"seeds, at most {budget} episodes. PSRL up to N = {LARGEST['PSRL']}.",
        charts=[chart],
        tables=[table, decomposition_table("fig1c-terms", "Eq. 1 at the largest size run", last)],
        claims=_claims(when, budget),
        notes=[
            "Runs stop once all seeds have solved it, so regrets of agents are over "
            "different numbers of episodes."
        ],
    )


EXPERIMENT = Experiment("fig1c", "Fig. 1(c): Deep Sea", cells, analyse)
