"""Made-up outcomes of all five experiments, of the size and shape of real ones."""

import numpy as np

from narl.report.document import Chart, Claim, Outcome, Series, Table

AGENTS = {
    "NARL Gaussian": 27.0,
    "NARL bootstrap": 32.0,
    "UCRL2": 1630.0,
    "UCRL2 (TabulaRL)": 3310.0,
    "OPSRL": 170.0,
    "PSRL": 150.0,
    "UCBVI": 820.0,
    "RLSVI": 410.0,
    "greedy": 3297.0,
}
ENVIRONMENT = {
    "narl": "0.1.0",
    "jax": "0.10.2",
    "jaxlib": "0.10.2",
    "numpy": "2.4.6",
    "python": "3.11.2",
    "platform": "Linux-6.1-x86_64",
    "device": "cpu",
    "commit": None,
    "time": "2026-01-02T03:04:05.000006+00:00",
    "seconds": 12.5,
}
EPISODES = 1000
BANDS = "Median over 20 seeds; the band spans the quartiles."


def curve(label: str, end: float, seed: int, power: float = 0.5, start: int = 1) -> Series:
    """A growing line with a band."""
    rng = np.random.default_rng(seed)
    x = np.arange(start, EPISODES + start)
    steps = np.abs(rng.normal(1, 0.6, EPISODES)) * (x / EPISODES) ** (power - 1)
    y = np.cumsum(steps)
    y = y / y[-1] * end
    spread = 0.08 + 0.1 * np.abs(np.sin(x / 300 + seed))
    parts = (y, y * (1 - spread), y * (1 + 1.4 * spread))
    return Series(label, x.tolist(), *(np.round(part, 6).tolist() for part in parts))


def falling(label: str, begin: float, end: float, seed: int) -> Series:
    """A line that settles, like an approximate value."""
    rng = np.random.default_rng(seed)
    x = np.arange(EPISODES)
    y = end + (begin - end) / np.sqrt(1 + x / 8) + rng.normal(0, 0.02, EPISODES) * abs(end)
    return Series(label, x.tolist(), y.tolist(), (0.93 * y).tolist(), (1.06 * y).tolist())


def decomposition(agents: dict[str, float], id: str) -> Table:
    rows = [
        [
            agent,
            round(end, 3),
            round(end * 0.86, 3),
            round(end * 1.22, 3),
            round(-end * (0.3 + 0.05 * place), 3),
            round(end * (1.3 + 0.05 * place), 3),
            0.1 + 0.013 * place,
        ]
        for place, (agent, end) in enumerate(agents.items())
    ]
    columns = ["Agent", "Regret", "25 %", "75 %", "Optimism", "Estimation error", "Seconds"]
    caption = (
        "Cumulative over 1000 episodes, median of 20 seeds. Regret = optimism + error (Eq. 1)."
    )
    return Table(id, "Regret and its two terms, every agent", columns, rows, caption)


def fig1a() -> Outcome:
    six = dict(list(AGENTS.items())[:6])
    series = [curve(agent, end, place) for place, (agent, end) in enumerate(six.items())]
    optimism = [
        Series(
            s.label, s.x, [-0.4 * y for y in s.y], [-0.5 * y for y in s.y], [-0.3 * y for y in s.y]
        )
        for s in series
    ]
    log = [curve(agent, end, place) for place, (agent, end) in enumerate(six.items())]
    charts = [
        Chart(
            "fig1a-regret", "Cumulative regret on RiverSwim", "episode",
            "cumulative regret", series, caption=BANDS,
        ),
        Chart(
            "fig1a-regret-log", "The same on logarithmic axes", "episode",
            "cumulative regret", log, x_axis="log", y_axis="log", caption=BANDS,
        ),
        Chart(
            "fig1a-optimism", "The optimism term of Eq. 1", "episode",
            "cumulative V* − Ṽ", optimism, y_axis="symlog", caption=BANDS,
        ),
    ]  # fmt: skip
    claims = [
        Claim(
            "order", "NARL, with Gaussian or bootstrap noise, has lower regret than UCRL2.",
            "Section 6.1, Fig. 1(a)", "holds",
            "Median at 1000 episodes: Gaussian 27.0 [23.2, 33.0], bootstrap 32.0 [27.5, 39.0], "
            "UCRL2 1630 [1402, 1989].",
        ),
        Claim(
            "ucrl2-linear", "UCRL2 has linear regret: it is too optimistic to learn.",
            "Section 6.1, Fig. 1(a)", "fails",
            "Slope of log regret over the last half 0.71 for UCRL2; 1.00 for `ucrl2-tabularl`, "
            "whose extended value iteration compounds.",
        ),
        Claim(
            "best", "Bootstrap noise is the best of all on RiverSwim.", "Fig. 1(a)", "undecided",
            "Gaussian 27.0 [23.2, 33.0] and bootstrap 32.0 [27.5, 39.0] overlap.",
        ),
    ]  # fmt: skip
    return Outcome(
        "fig1a", "Fig. 1(a): regret on RiverSwim", "paper", "narl reproduce fig1a --scale paper",
        "RiverSwim with 6 states and horizon 20, 1000 episodes, 20 seeds. Every agent plans anew "
        "in each episode; regret is the exact one of the executed policy.\n\n`ucrl2-tabularl` "
        "is the paper's baseline code with its compounding slack.",
        charts, [decomposition(six, "decomposition")], claims,
        ["The paper's figure shows neither axis values nor the number of seeds for OPSRL.",
         "The noise is on the reward only, c = 0.001; see `docs/decisions.md`."],
        [f"narl-ucrl-riverswim-{place:010x}" for place in range(6)], dict(ENVIRONMENT),
    )  # fmt: skip


def fig1b() -> Outcome:
    def values(star: float) -> list[Series]:
        return [
            falling("NARL Gaussian", 2.2 * star, star, 1),
            falling("NARL bootstrap", 1.4 * star, star, 2),
            falling("UCRL2", 6 * star, 3 * star, 3),
            falling("UCRL2 (TabulaRL)", 18 * star, 16 * star, 4),
        ]

    charts = [
        Chart(
            f"fig1b-{env}", f"Approximate value against the true one, {title}", "episode",
            "value of the start state", values(star), y_axis="log",
            reference=star, reference_label=f"V* = {star}", caption=BANDS,
        )
        for env, title, star in (
            ("riverswim", "RiverSwim", 3.3973), ("chain", "stochastic chain", 0.9044)
        )
    ]  # fmt: skip
    claim = Claim(
        "overestimates", "UCRL2 overestimates the value by far; NARL's estimate comes close.",
        "Fig. 1(b)", "holds", "Ṽ/V* at the end: UCRL2 3.1, Gaussian 1.01, bootstrap 0.99.",
    )  # fmt: skip
    return Outcome(
        "fig1b", "Fig. 1(b): approximate against true values", "paper",
        "narl reproduce fig1b --scale paper", "The value each agent believes it will get.",
        charts, [], [claim], environment=dict(ENVIRONMENT),
    )  # fmt: skip


def fig1c() -> Outcome:
    sizes = list(range(10, 30, 2))

    def solved(label: str, factor: float, power: float, until: int = 10) -> Series:
        y = [factor * (size / 10) ** power if i < until else None for i, size in enumerate(sizes)]
        low = [None if v is None else 0.8 * v for v in y]
        high = [None if v is None else 1.3 * v for v in y]
        return Series(label, [float(size) for size in sizes], y, low, high)

    series = [
        solved("NARL Gaussian", 12, 2.0), solved("NARL bootstrap", 129, 1.1),
        solved("PSRL", 160, 2.6, until=8), solved("UCBVI", 900, 3.0, until=3),
        Series("greedy", [float(size) for size in sizes], [None] * 10),
    ]  # fmt: skip
    solo = Series("OPSRL", [10.0, 12.0, 14.0], [210.0, None, 420.0])
    charts = [
        Chart(
            "fig1c-solved", "Episodes to solve Deep Sea", "N", "episodes to solve",
            [*series, solo], y_axis="log", caption="Median over 10 seeds, quartiles as band. "
            "A line ends where fewer than half of the seeds solve within 4000 episodes.",
        ),
        Chart("fig1c-stochastic", "The same, stochastic Deep Sea", "N", "episodes", []),
    ]  # fmt: skip
    rows = [
        [size, "10 of 10", None if place > 7 else 160.5 * place, f"{12 * place} [{9 * place}, …]"]
        for place, size in enumerate(sizes, start=1)
    ]
    table = Table("solved", "Seeds that solved it", ["N", "NARL", "PSRL", "Gaussian"], rows)
    claim = Claim(
        "gaussian-best", "On Deep Sea the Gaussian method is best.", "Section 6.1, Fig. 1(c)",
        "holds", "N = 28: Gaussian 92 [80, 110] episodes, bootstrap 390 [350, 430].",
    )  # fmt: skip
    return Outcome(
        "fig1c", "Fig. 1(c): Deep Sea", "paper", "narl reproduce fig1c --scale paper",
        "Deep Sea of bsuite for N = 10, 12, …, 28, to solution or 4000 episodes.",
        charts, [table], [claim], environment={**ENVIRONMENT, "device": "NVIDIA H200"},
    )  # fmt: skip


def table1() -> Outcome:
    series = [curve(agent, end, place) for place, (agent, end) in enumerate(AGENTS.items())]
    rows = [
        [agent, "S H √(A T)", 0.5 + 0.05 * place, 1.2e-5 * 10**place, place % 2 == 0]
        for place, agent in enumerate(AGENTS)
    ]
    columns = ["Agent", "Printed bound", "Measured exponent", "Ratio", "Within"]
    return Outcome(
        "table1", "Table 1: every row, run", "paper", "narl reproduce table1 --scale paper",
        "The growth of regret with T, fitted over the last three quarters of the episodes.",
        [Chart("table1", "Regret of every row of Table 1", "episode", "cumulative regret", series,
               x_axis="log", y_axis="log", caption=BANDS)],
        [Table("bounds", "Measured growth beside the printed bound", columns, rows),
         decomposition(AGENTS, "decomposition")],
        [Claim("sublinear", "Every algorithm of Table 1 has sublinear regret.", "Table 1",
               "undecided", "UCRL2's exponent 0.83 [0.79, 0.88] still falls at 1000 episodes.")],
        environment=dict(ENVIRONMENT),
    )  # fmt: skip


def ablation() -> Outcome:
    c = [1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001]
    readings = ["reward only", "both, signed", "both, centred", "both, simplex", "fresh per stage"]
    sweep = [
        Series(
            reading, c, [v ** (0.2 + 0.1 * k) * 100 * (k + 1) for v in c],
            [v ** (0.2 + 0.1 * k) * 80 * (k + 1) for v in c],
            [v ** (0.2 + 0.1 * k) * 130 * (k + 1) for v in c],
        )
        for k, reading in enumerate(readings)
    ]  # fmt: skip
    members = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]
    by_m = [
        Series(f"M sweep, c = {value:g}", members, [90 / (1 + m) + 20 * value for m in members])
        for value in c
    ]
    curves = [curve(f"c = {value:g}", 20 + 100 * value, k) for k, value in enumerate(c)]
    charts = [
        Chart("ablation-readings", "Readings of Eq. 2, RiverSwim", "c", "regret", sweep,
              x_axis="log", y_axis="log", caption=BANDS),
        Chart("ablation-readings-deep-sea", "Readings of Eq. 2, Deep Sea N = 20", "c",
              "episodes to solve", sweep[::-1], x_axis="log", y_axis="log", caption=BANDS),
        Chart("ablation-members", "Number of members M", "M", "regret", by_m, x_axis="log"),
        Chart("ablation-c", "Regret by c, reward noise only", "episode", "cumulative regret",
              curves, caption=BANDS),
    ]  # fmt: skip
    rows = [[reading, v, 100.0 * v * (k + 1)] for k, reading in enumerate(readings) for v in c]
    return Outcome(
        "ablation", "Ablation: which reading of the paper fits its findings", "small",
        "narl reproduce ablation --scale small", "The readings of Eq. 2, a sweep of c, one of M.",
        charts, [Table("all", "All cells", ["Reading", "c", "Regret"], rows)], [],
        ["Both environments have deterministic rewards, which flatter a small constant."],
        environment=dict(ENVIRONMENT),
    )  # fmt: skip


def outcomes() -> list[Outcome]:
    """All five."""
    return [fig1a(), fig1b(), fig1c(), table1(), ablation()]
