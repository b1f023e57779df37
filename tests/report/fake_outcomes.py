"""Made-up outcomes of four experiments, with every kind of chart that real ones have."""

import dataclasses
from typing import Any

import numpy as np

from narl.report.document import (
    Chart,
    Claim,
    Introduction,
    Outcome,
    Section,
    Series,
    Table,
)

AGENTS = {
    "NARL Gaussian": 27.0,
    "NARL bootstrap": 32.0,
    "UCRL2": 1630.0,
    "UCRL2 (TabulaRL)": 3310.0,
    "OPSRL": 170.0,
    "PSRL": 150.0,
}
ENVIRONMENT = {
    "narl": "0.1.0",
    "jax": "0.10.2",
    "python": "3.11.2",
    "device": "cpu",
    "commit": None,
    "time": "2026-01-02T03:04:05.000006+00:00",
    "seconds": 12.5,
}
CAPTION = "Median over 20 seeds; the band spans the quartiles."
EPISODES = np.arange(1, 1001)


def growing(label: str, end: float, seed: int = 0) -> Series:
    """Return a line of 1000 points that grows like √k, with a band."""
    steps = np.abs(np.random.default_rng(seed).normal(1, 0.6, 1000)) * EPISODES**-0.5
    y = np.round(np.cumsum(steps) / steps.sum() * end, 6)
    return Series(label, EPISODES.tolist(), y.tolist(), (0.9 * y).tolist(), (1.2 * y).tolist())


def falling(label: str, begin: float, end: float) -> Series:
    """Return a line that settles, like an approximate value."""
    y = end + (begin - end) / np.sqrt(EPISODES)
    return Series(label, EPISODES.tolist(), y.tolist(), (0.9 * y).tolist(), (1.1 * y).tolist())


def fig1a() -> Outcome:
    """Return linear, logarithmic and symmetric logarithmic axes; three verdicts; notes and runs."""
    regret = [growing(agent, end, seed) for seed, (agent, end) in enumerate(AGENTS.items())]
    optimism = [growing(agent, -end, seed) for seed, (agent, end) in enumerate(AGENTS.items())]
    y = "cumulative regret"
    axes = {"x_axis": "log", "y_axis": "log"}
    charts = [
        Chart("fig1a-regret", "Regret on RiverSwim", "episode", y, regret, caption=CAPTION),
        Chart("fig1a-log", "Regret, both axes logarithmic", "episode", y, regret, **axes),
        Chart("fig1a-optimism", "Optimism", "episode", "V* − Ṽ", optimism, y_axis="symlog"),
    ]
    rows = [[agent, end, -0.3 * end, 1e-5 * end] for agent, end in AGENTS.items()]
    table = Table("terms", "Both terms", ["Agent", "Regret", "Optimism", "Gap"], rows, CAPTION)
    claims = [
        Claim("order", "NARL has less regret than UCRL2.", "Fig. 1(a)", "holds", "27 < 1630"),
        Claim("linear", "UCRL2 has linear regret.", "§6.1", "fails", "1.00 for `ucrl2-tabularl`"),
        Claim("best", "Bootstrap is the best.", "Fig. 1(a)", "undecided", "27 and 32 overlap"),
    ]
    notes = ["The noise is on the reward only; see `docs/decisions.md`."]
    runs = [f"narl-ucrl-riverswim-{place:010x}" for place in range(6)]
    about = "RiverSwim with 6 states.\n\n`ucrl2-tabularl` is the paper's baseline code."
    command = "narl reproduce fig1a --scale paper"
    return Outcome(
        "fig1a", "Fig. 1(a): regret", "paper", command, about, charts, [table], claims, notes, runs,
        dict(ENVIRONMENT),
    )  # fmt: skip


def fig1b() -> Outcome:
    """Return a chart with a reference line."""
    ratios = {"NARL Gaussian": 1.0, "NARL bootstrap": 0.9, "UCRL2": 3.0, "UCRL2 (TabulaRL)": 16.0}
    values = [falling(agent, 6 * ratio, 3.4 * ratio) for agent, ratio in ratios.items()]
    reference = {"reference": 3.3973, "reference_label": "V* = 3.3973"}
    chart = Chart("fig1b", "Values", "episode", "value", values, y_axis="log", **reference)
    claim = Claim("over", "UCRL2 overestimates the value.", "Fig. 1(b)", "holds", "Ṽ/V* is 3.1")
    command = "narl reproduce fig1b --scale paper"
    return Outcome(
        "fig1b", "Fig. 1(b): values", "paper", command, "About.", [chart], [], [claim],
        environment=dict(ENVIRONMENT),
    )  # fmt: skip


def fig1c() -> Outcome:
    """Return lines with gaps, a line without data, and a chart without data."""
    sizes = [float(size) for size in range(10, 30, 2)]

    def solved(label: str, factor: float, until: int = 10) -> Series:
        y = [factor * size if place < until else None for place, size in enumerate(sizes)]
        low, high = ([None if v is None else share * v for v in y] for share in (0.8, 1.3))
        return Series(label, sizes, y, low, high)

    series = [solved("NARL Gaussian", 1.2), solved("PSRL", 16, until=8)]
    series += [Series("greedy", sizes, [None] * 10)]
    series += [Series("OPSRL", [10.0, 12.0, 14.0], [210.0, None, 420.0])]
    charts = [
        Chart("fig1c-solved", "Episodes to solve", "N", "episodes", series, y_axis="log"),
        Chart("fig1c-stochastic", "The same, stochastic Deep Sea", "N", "episodes", []),
    ]
    rows = [[size, "10 of 10", None, f"{12 * size:g} [{9 * size:g}, …]"] for size in sizes]
    table = Table("solved", "Seeds that solved it", ["N", "NARL", "PSRL", "Gaussian"], rows)
    claim = Claim("best", "The Gaussian method is best.", "Fig. 1(c)", "holds", "92 < 390")
    command = "narl reproduce fig1c --scale paper"
    return Outcome(
        "fig1c", "Fig. 1(c): Deep Sea", "paper", command, "About.", charts, [table], [claim],
        environment={**ENVIRONMENT, "device": "NVIDIA H200"},
    )  # fmt: skip


def ablation() -> Outcome:
    """Return more lines than there are colours, and no claims."""
    c = [1.0, 0.1, 0.01]
    readings = [Series(f"reading {k}", c, [100 * k * v**0.2 for v in c]) for k in range(1, 12)]
    chart = Chart("ablation-c", "Regret by c", "c", "regret", readings, x_axis="log")
    command = "narl reproduce ablation --scale small"
    return Outcome(
        "ablation", "Ablation", "small", command, "About.", [chart], [], [],
        environment=dict(ENVIRONMENT),
    )  # fmt: skip


def outcomes() -> list[Outcome]:
    """Return all four outcomes."""
    return [fig1a(), fig1b(), fig1c(), ablation()]


def line_chart(*series: Series, **changes: Any) -> Chart:
    """Return a chart of these series."""
    return dataclasses.replace(Chart("c", "Title", "x", "y", list(series)), **changes)


def small_section(**changes: Any) -> Section:
    """Return a section with one chart of two points."""
    chart = line_chart(Series("a", [1.0, 2.0], [3.0, 4.0]), id="regret", title="Regret")
    introduction = [Introduction("About.", "narl reproduce exp")]
    section = Section("exp", "An experiment", introduction, [chart], [], scale="smoke")
    return dataclasses.replace(section, **changes)
