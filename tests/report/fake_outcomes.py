"""Made-up outcomes of two experiments, with every kind of chart that real ones have."""

import dataclasses
from typing import Any

import numpy as np

from narl.report.contents import Chart, Claim, Introduction, Outcome, Section, Series, Table

AGENTS = {
    "NARL Gaussian": 27.0,
    "NARL bootstrap": 32.0,
    "UCRL2": 1630.0,
    "UCRL2 (TabulaRL)": 3310.0,
    "OPSRL": 170.0,
    "PSRL": 150.0,
}
ENVIRONMENT = {
    "jax": "0.10.2",
    "device": "cpu",
    "commit": None,
    "time": "2026-01-02T03:04:05.000006+00:00",
    "seconds": 12.5,
}
EPISODES = np.arange(1, 1001)


def growing(label: str, end: float, seed: int = 0) -> Series:
    """Return a line of 1000 points that grows like √k, with a band."""
    steps = np.abs(np.random.default_rng(seed).normal(1, 0.6, 1000)) * EPISODES**-0.5
    y = np.round(np.cumsum(steps) / steps.sum() * end, 6)
    return Series(label, EPISODES.tolist(), y.tolist(), (0.9 * y).tolist(), (1.2 * y).tolist())


def fig1a() -> Outcome:
    """Return charts with every kind of axis and a reference line, and claims of every verdict."""
    regret = [growing(agent, end, seed) for seed, (agent, end) in enumerate(AGENTS.items())]
    optimism = [growing(agent, -end, seed) for seed, (agent, end) in enumerate(AGENTS.items())]
    log = {"x_axis": "log", "y_axis": "log"}
    reference = {"reference": 3.3973, "reference_label": "V* = 3.3973"}
    charts = [
        Chart("fig1a-regret", "Regret", "episode", "regret", regret, caption="On RiverSwim."),
        Chart("fig1a-log", "Regret, logarithmic", "episode", "regret", regret, **log, **reference),
        Chart("fig1a-optimism", "Optimism", "episode", "V* − Ṽ", optimism, y_axis="symlog"),
    ]
    rows = [[agent, end, -0.3 * end, 1e-5 * end] for agent, end in AGENTS.items()]
    table = Table("terms", "Both terms", ["Agent", "Regret", "Optimism", "Gap"], rows, "Medians.")
    claims = [
        Claim("order", "NARL has less regret than UCRL2.", "Fig. 1(a)", "holds", "27 < 1630"),
        Claim("linear", "UCRL2 has linear regret.", "§6.1", "fails", "1.00 for `ucrl2-tabularl`"),
        Claim("best", "Bootstrap is the best.", "Fig. 1(a)", "undecided", "27 and 32 overlap"),
    ]
    runs = [f"narl-ucrl-riverswim-{place:010x}" for place in range(6)]
    return Outcome(
        id="fig1a",
        title="Fig. 1(a): regret",
        scale="paper",
        command="narl reproduce fig1a --scale paper",
        about="RiverSwim with 6 states.\n\n`ucrl2-tabularl` is the paper's baseline code.",
        charts=charts,
        tables=[table],
        claims=claims,
        notes=["The noise is on the reward only; see `docs/decisions.md`."],
        runs=runs,
        environment=ENVIRONMENT,
    )


def fig1c() -> Outcome:
    """Return lines with gaps, a line without data, and a chart without data."""
    sizes = [float(size) for size in range(10, 30, 2)]

    def solved(label: str, factor: float, until: int = 10) -> Series:
        y = [factor * size if place < until else None for place, size in enumerate(sizes)]
        low, high = ([None if v is None else share * v for v in y] for share in (0.8, 1.3))
        return Series(label, sizes, y, low, high)

    series = [
        solved("NARL Gaussian", 1.2),
        solved("PSRL", 16, until=8),
        Series("greedy", sizes, [None] * 10),
        Series("OPSRL", [10.0, 12.0, 14.0], [210.0, None, 420.0]),
    ]
    charts = [
        Chart("fig1c-solved", "Episodes to solve", "N", "episodes", series, y_axis="log"),
        Chart("fig1c-stochastic", "The same, stochastic Deep Sea", "N", "episodes", []),
    ]
    return Outcome(
        id="fig1c",
        title="Fig. 1(c): Deep Sea",
        scale="small",
        command="narl reproduce fig1c --scale small",
        about="About.",
        charts=charts,
        tables=[],
        claims=[Claim("best", "The Gaussian method is best.", "Fig. 1(c)", "holds", "92 < 390")],
        environment={**ENVIRONMENT, "device": "NVIDIA H200"},
    )


def fake_sections() -> list[Section]:
    """Return the sections of both outcomes."""
    return [fig1a().section(), fig1c().section()]


def line_chart(*series: Series, **changes: Any) -> Chart:
    """Return a chart of these series."""
    return dataclasses.replace(Chart("c", "Title", "x", "y", list(series)), **changes)


def small_section(**changes: Any) -> Section:
    """Return a section with one chart of two points."""
    chart = line_chart(Series("a", [1.0, 2.0], [3.0, 4.0]), id="regret", title="Regret")
    introduction = [Introduction("About.", "narl reproduce exp")]
    section = Section("exp", "An experiment", introduction, [chart], [], scale="smoke")
    return dataclasses.replace(section, **changes)
