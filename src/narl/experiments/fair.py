"""A fair comparison of the tabular agents (ours): one dial each, tuned on seeds of its own.

The figures of the paper compare agents with the settings that their authors chose. Here every agent
has one number that is tuned, on seeds 2000–2007; the regret is reported on seeds 900–915.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from narl.experiments.analysis import final_regret
from narl.experiments.experiment import Experiment, Findings, Result, Scale
from narl.experiments.judgement import Judgement, Part, comparison_table, judge_lower
from narl.report.contents import Chart, Series, Table
from narl.tabular.config import Config, make_config

TUNING_SEEDS, REPORT_SEEDS = range(2000, 2008), range(900, 916)


class TunedAgent(NamedTuple):
    """An agent, the option that is tuned, and the values that are tried."""

    agent: str
    options: dict[str, Any]
    dial: str
    values: tuple[float, ...]
    default: float
    """The value without tuning; one of the values."""


GAUSSIAN, BOOTSTRAP, PRIOR = "NARL Gaussian", "NARL bootstrap", "NARL bootstrap with prior"
NARL_UCBVI, GREEDY = "NARL-UCBVI", "greedy"
PSRL, OPSRL = "PSRL, strong prior", "OPSRL, strong prior"
NARL = (GAUSSIAN, BOOTSTRAP, PRIOR, NARL_UCBVI)
_SCALES = (1e-5, 1e-4, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
_SIZES_OF_ENSEMBLES = (2, 3, 10, 20, 50)
_STRONG = {"preset": "strong-prior"}
AGENTS: dict[str, TunedAgent] = {
    GAUSSIAN: TunedAgent(
        "narl-ucrl", {}, "c", (4e-5, 2e-4, 0.001, 0.005, 0.02, 0.1, 0.5, 2.0), 0.005
    ),
    BOOTSTRAP: TunedAgent("narl-ucrl", {"noise": "bootstrap"}, "members", _SIZES_OF_ENSEMBLES, 10),
    PRIOR: TunedAgent(
        "narl-ucrl", {"noise": "bootstrap-prior"}, "members", _SIZES_OF_ENSEMBLES, 10
    ),
    NARL_UCBVI: TunedAgent(
        "narl-ucbvi", {}, "c", (1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0), 1.0
    ),
    "UCBVI Hoeffding": TunedAgent("ucbvi", {}, "scale", _SCALES, 1.0),
    "UCBVI Bernstein": TunedAgent("ucbvi", {"bonus": "bernstein"}, "scale", _SCALES, 1.0),
    "UCBVI simplified": TunedAgent("ucbvi", {"bonus": "simplified"}, "scale", _SCALES, 1.0),
    "UCRL2": TunedAgent("ucrl2", {}, "scale", _SCALES, 1.0),
    PSRL: TunedAgent("psrl", _STRONG, "tau", (0.1, 1.0, 10.0, 100.0, 1e4, 1e6, 1e8), 1e4),
    OPSRL: TunedAgent("opsrl", _STRONG, "tau", (0.1, 1.0, 100.0, 1e4, 1e6, 1e8), 1e4),
    "RLSVI": TunedAgent("rlsvi", {}, "c", (1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0), 0.1),
    GREEDY: TunedAgent(GREEDY, {}, "", (0.0,), 0.0),
}
MDPS: dict[str, tuple[dict[str, Any], int]] = {
    "RiverSwim": ({"env": "riverswim"}, 1000),
    "noisy RiverSwim": ({"env": "noisy-riverswim"}, 1000),
    "chain 10": ({"env": "stochastic-chain", "size": 10}, 1000),
    "Deep Sea 10": ({"env": "deep-sea", "size": 10}, 400),
    "stochastic Deep Sea 10": ({"env": "deep-sea-stochastic", "size": 10}, 400),
    "random MDP 0": ({"env": "random-mdp", "env_seed": 0}, 1000),
    "random MDP 1": ({"env": "random-mdp", "env_seed": 1}, 1000),
    "FrozenLake": ({"env": "gym:FrozenLake-v1", "horizon": 20}, 500),
    "six arms": ({"env": "six-arms"}, 1000),
}
"""The options of each MDP and its number of episodes."""
SKIPPED = {(OPSRL, "Deep Sea 10"), (OPSRL, "stochastic Deep Sea 10")}
"""OPSRL draws ten tables of S²A probabilities per episode, which takes long on Deep Sea."""


class Size(NamedTuple):
    """The size of the experiment at one scale."""

    mdps: tuple[str, ...]
    shorter: int
    """The factor by which there are fewer episodes than at paper scale."""
    num_tuning: int
    num_report: int


_SIZES: dict[Scale, Size] = {
    "smoke": Size(("RiverSwim",), 50, 2, 2),
    "small": Size(("RiverSwim", "noisy RiverSwim", "Deep Sea 10", "random MDP 0"), 4, 4, 6),
    "paper": Size(tuple(MDPS), 1, len(TUNING_SEEDS), len(REPORT_SEEDS)),
}
Cells = dict[tuple[str, str, float], Any]
"""Something for every agent, MDP and value of the dial."""


def _label(agent: str, mdp: str, value: float) -> str:
    dial = AGENTS[agent].dial
    return f"{agent} · {mdp} · {dial}={value:g}" if dial else f"{agent} · {mdp}"


def _keys(scale: Scale) -> list[tuple[str, str, float]]:
    return [
        (agent, mdp, value)
        for mdp in _SIZES[scale].mdps
        for agent, tuned in AGENTS.items()
        for value in tuned.values
        if (agent, mdp) not in SKIPPED
    ]


def cells(scale: Scale) -> dict[str, Config]:
    """Return every agent on every MDP with every value of its dial, on all seeds."""
    size = _SIZES[scale]
    seeds = (*TUNING_SEEDS[: size.num_tuning], *REPORT_SEEDS[: size.num_report])
    configs = {}
    for agent, mdp, value in _keys(scale):
        tuned, (env, episodes) = AGENTS[agent], MDPS[mdp]
        dial: dict[str, Any] = {tuned.dial: value} if tuned.dial else {}
        configs[_label(agent, mdp, value)] = make_config(
            tuned.agent,
            **env,
            episodes=episodes // size.shorter,
            seeds=seeds,
            swept=tuned.dial if isinstance(value, float) and tuned.dial else None,
            **tuned.options,
            **dial,
        )
    return configs


def uniform_loss(cell: Config) -> float:
    """Return the expected regret of uniformly random actions in every episode of a cell."""
    from narl.tabular import make_mdp, solve

    mdp = cell.make_mdp()
    # The mean over actions as the only action: its value is that of random actions.
    p, r = mdp.p.mean(axis=1, keepdims=True), mdp.r.mean(axis=1, keepdims=True)
    uniform = make_mdp(p, r, mdp.p0, mdp.horizon)
    return cell.episodes * (solve(mdp).value - solve(uniform).value)


class Comparison:
    """The regrets of all agents, and the values of their dials that the tuning seeds choose."""

    def __init__(self, scale: Scale, results: Mapping[str, Result]) -> None:
        size = _SIZES[scale]
        self.mdps = size.mdps
        self.regret: Cells = {}
        """Regret per reported seed."""
        self.share: Cells = {}
        """Regret per reported seed over that of random actions."""
        self._tuning: Cells = {}
        self.loss: dict[str, float] = {}
        for agent, mdp, value in _keys(scale):
            result = results[_label(agent, mdp, value)]
            if mdp not in self.loss:
                assert isinstance(result.cell, Config)
                self.loss[mdp] = uniform_loss(result.cell)
            regret, key = final_regret(result), (agent, mdp, value)
            self.regret[key] = regret[size.num_tuning :]
            # A regret of exactly 0 has no logarithm.
            share = np.maximum(regret / self.loss[mdp], 1e-9)
            self._tuning[key], self.share[key] = share[: size.num_tuning], share[size.num_tuning :]

    def has_all(self, agent: str) -> bool:
        """Return whether an agent was run on every MDP."""
        return all((agent, mdp) not in SKIPPED for mdp in self.mdps)

    def best_on(self, agent: str, mdp: str) -> float:
        """Return the value with the smallest mean regret on one MDP, by the tuning seeds."""
        return min(AGENTS[agent].values, key=lambda v: float(self._tuning[agent, mdp, v].mean()))

    def best_for_all(self, agent: str) -> float:
        """Return the value with the smallest geometric mean over MDPs, by the tuning seeds."""
        return min(AGENTS[agent].values, key=lambda v: self._tuning_score(agent, v))

    def _tuning_score(self, agent: str, value: float) -> float:
        means = [self._tuning[agent, mdp, value].mean() for mdp in self.mdps]
        return geometric_mean(np.array(means))

    def score(
        self, agent: str, values: Mapping[str, float], over_seeds: Callable[..., Any] = np.mean
    ) -> float:
        """Return the geometric mean over MDPs of the mean share, for a value on each MDP.

        The mean over seeds can be replaced by np.median, or by np.max for the worst seed of each
        MDP, which need not be the same one everywhere.
        """
        shares = [over_seeds(self.share[agent, mdp, values[mdp]]) for mdp in self.mdps]
        return geometric_mean(np.array(shares))

    def overall(self, agent: str, values: Mapping[str, float]) -> list[float]:
        """Return the scores by mean, median and worst seed in %, for a value on each MDP."""
        return [100 * self.score(agent, values, kind) for kind in (np.mean, np.median, np.max)]

    def count_edges(self) -> tuple[int, int]:
        """Return the tuned values that are the smallest or largest of their grid, and all.

        Where the neighbour is as good, as where every regret is the smallest possible, the value
        does not count.
        """
        at_edge = []
        for agent, tuned in AGENTS.items():
            for mdp in self.mdps if tuned.dial else ():
                if (agent, mdp) in SKIPPED:
                    continue
                means = [float(self._tuning[agent, mdp, v].mean()) for v in tuned.values]
                best = min(means)
                at_edge.append(best == means[0] < means[1] or best == means[-1] < means[-2])
        return sum(at_edge), len(at_edge)

    def seed_scores(self, agent: str) -> Float[np.ndarray, " N"]:
        """Return the geometric mean over MDPs per reported seed, with one value for all MDPs."""
        value = self.best_for_all(agent)
        shares = np.array([self.share[agent, mdp, value] for mdp in self.mdps])
        return np.exp(np.log(shares).mean(axis=0))

    def best_agent(self, agents: tuple[str, ...]) -> str:
        """Return the agent that the tuning seeds prefer, with one value for all MDPs."""
        complete = [agent for agent in agents if self.has_all(agent)]
        return min(complete, key=lambda a: self._tuning_score(a, self.best_for_all(a)))


def geometric_mean(values: Float[np.ndarray, " N"]) -> float:
    """Return the geometric mean of positive numbers."""
    return float(np.exp(np.log(values).mean()))


OVERALL = ["geometric mean", "median", "worst seed"]
"""The columns with the numbers of `Comparison.overall`."""


def _overview(found: Comparison) -> list[Table]:
    """Return regrets over those of random actions: tuned for each MDP, and for all at once."""
    own_rows: list[list[Any]] = []
    one_rows: list[list[Any]] = []
    for agent, tuned in AGENTS.items():
        on = [mdp for mdp in found.mdps if (agent, mdp) not in SKIPPED]
        complete = found.has_all(agent)
        own = {mdp: found.best_on(agent, mdp) for mdp in on}
        shares = {mdp: 100 * float(found.share[agent, mdp, own[mdp]].mean()) for mdp in on}
        own_rows.append([agent, *(shares.get(mdp) for mdp in found.mdps)])
        own_rows[-1] += found.overall(agent, own) if complete else [None] * len(OVERALL)
        if not complete:
            continue
        value = found.best_for_all(agent)
        one = [100 * float(found.share[agent, mdp, value].mean()) for mdp in found.mdps]
        overall = found.overall(agent, dict.fromkeys(found.mdps, value))
        default = found.overall(agent, dict.fromkeys(found.mdps, tuned.default))
        dial = f"{tuned.dial} = {value:g}" if tuned.dial else "none"
        one_rows.append([agent, dial, *one, *overall, *default])
    mean = 1 + len(found.mdps)  # the place of the geometric mean
    own_rows.sort(key=lambda row: np.inf if row[mean] is None else row[mean])
    one_rows.sort(key=lambda row: row[mean + 1])
    num_edges, num_tuned = found.count_edges()
    unit = (
        "Mean regret over the reported seeds, in % of the regret of uniformly random actions, "
        "K·(V* − V(random)). Geometric mean: of these means over the MDPs. Median and worst seed: "
        "the same with the median, or the largest regret, of the seeds on each MDP"
    )
    return [
        Table(
            "fair-one",
            "One value of the dial for all MDPs",
            ["agent", "dial", *found.mdps, *OVERALL, *(f"{name}, untuned" for name in OVERALL)],
            one_rows,
            f"{unit}. Untuned: with the agent's default.",
        ),
        Table(
            "fair-own",
            "The dial tuned for each MDP",
            ["agent", *found.mdps, *OVERALL],
            own_rows,
            f"{unit}. Empty: not run. {num_edges} of the {num_tuned} tuned values are the smallest "
            "or the largest that was tried; there a value outside may be better.",
        ),
    ]


def _details(found: Comparison) -> Table:
    """Return mean, median and worst seed of every agent on every MDP, tuned for each MDP."""
    rows: list[list[Any]] = []
    for mdp in found.mdps:
        for agent, tuned in AGENTS.items():
            if (agent, mdp) in SKIPPED:
                continue
            value = found.best_on(agent, mdp)
            regret = found.regret[agent, mdp, value]
            default = found.regret[agent, mdp, tuned.default]
            numbers = [regret.mean(), np.median(regret), regret.max()]
            numbers += [default.mean(), np.median(default), default.max(), found.loss[mdp]]
            dial = f"{tuned.dial} = {value:g}" if tuned.dial else "none"
            rows.append([mdp, agent, dial, *map(float, numbers)])
    return Table(
        "fair-regret",
        "Regret at the end, with the dial tuned for each MDP and untuned",
        ["MDP", "agent", "tuned dial"]
        + [
            f"{kind}, {dial}"
            for dial in ("tuned", "untuned")
            for kind in ("mean regret", "median", "worst seed")
        ]
        + ["regret of random actions"],
        rows,
        "Sums over all episodes, on the reported seeds.",
    )


def _chart(found: Comparison) -> Chart:
    """Return the geometric mean of every agent against its dial, relative to the best value."""
    series = []
    for agent, tuned in AGENTS.items():
        if len(tuned.values) > 1 and found.has_all(agent):
            best = found.best_for_all(agent)
            y: list[float | None] = [
                100 * found.score(agent, dict.fromkeys(found.mdps, value)) for value in tuned.values
            ]
            series.append(Series(agent, [value / best for value in tuned.values], y))
    return Chart(
        "fair-dials",
        "Regret against the dial",
        "value of the dial over the one chosen",
        "geometric mean, % of random actions",
        series,
        x_axis="log",
        y_axis="log",
        caption="At 1 stands the value that the tuning seeds chose; each agent's dial has its own "
        "unit. Reported seeds.",
    )


def _judgements(found: Comparison) -> dict[str, Judgement]:
    """Return the judgement on every claim, by its id."""
    rivals = tuple(agent for agent in AGENTS if agent not in NARL)
    narl, rival = found.best_agent(NARL), found.best_agent(rivals)
    scores = {agent: 100 * found.seed_scores(agent) for agent in (narl, rival)}

    def on_riverswim(agent: str, value: float) -> Any:
        return found.regret[agent, "RiverSwim", value]

    riverswim = [
        Part(
            f"{agent} (untuned)",
            on_riverswim(agent, AGENTS[agent].default),
            f"{other} (tuned)",
            on_riverswim(other, found.best_on(other, "RiverSwim")),
        )
        for agent in (GAUSSIAN, BOOTSTRAP)
        for other in rivals
        if other != GREEDY
    ]
    return {
        "fair-narl-best": judge_lower(
            [Part(narl, scores[narl], rival, scores[rival])],
            "geometric mean over MDPs per seed, % of random actions",
        ),
        "fair-riverswim": judge_lower(riverswim, "regret on RiverSwim"),
    }


STATEMENTS = {
    "fair-narl-best": "With one dial for all MDPs, tuned for every agent, the best version of NARL "
    "has less regret than the best rival.",
    "fair-riverswim": "Both versions of NARL have less regret on RiverSwim than every rival, also "
    "when the rivals are tuned there (as in Fig. 1(a), where they are not).",
}
"""The statement of every claim, by its id."""


def analyse(scale: Scale, results: Mapping[str, Result]) -> Findings:
    """Return the tables of tuned and untuned regrets, the dials' chart, and the claims."""
    size = _SIZES[scale]
    found = Comparison(scale, results)
    judged = _judgements(found)
    grids = "; ".join(
        f"{agent}: {tuned.dial} in {', '.join(f'{value:g}' for value in tuned.values)}"
        for agent, tuned in AGENTS.items()
        if tuned.dial
    )
    return Findings(
        about=f"{len(AGENTS)} agents on {len(size.mdps)} MDPs. Each agent has one dial, tuned on "
        f"{size.num_tuning} seeds (from {TUNING_SEEDS[0]}) by the mean regret and reported on "
        f"{size.num_report} others (from {REPORT_SEEDS[0]}).",
        charts=[_chart(found)],
        tables=[*_overview(found), _details(found), comparison_table("fair-comparisons", judged)],
        claims=[judged[id_].claim(id_, text, "ours") for id_, text in STATEMENTS.items()],
        notes=[
            f"The dials: {grids}.",
            "PSRL and OPSRL have the strong prior (Dirichlet 1/S). OPSRL is not run on Deep Sea: "
            "it draws ten tables of S²A probabilities per episode.",
        ],
    )


EXPERIMENT = Experiment("fair", "A fair comparison: every agent tuned", cells, analyse)
