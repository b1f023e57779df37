"""Fig. 1(a): regret on RiverSwim (S = 6, H = 20; 20 seeds; median and quartiles)."""

from __future__ import annotations

from collections.abc import Mapping

from narl.experiments.analysis import (
    band,
    below,
    cumulative_regret,
    decomposition_table,
    final_regret,
    spread,
    terms,
    worst,
)
from narl.experiments.experiment import Experiment, Result, Scale
from narl.paper import implements
from narl.report.document import Chart, Claim, Outcome, Series
from narl.tabular.config import Study, study

GAUSSIAN = "NARL Gaussian"
PRINTED = "NARL Gaussian (as printed)"
BOOTSTRAP = "NARL bootstrap"
UCRL2 = "UCRL2"
TABULARL = "UCRL2 (TabulaRL)"
OPSRL = "OPSRL"
PSRL = "PSRL"

_SIZES: dict[Scale, tuple[int, int]] = {"smoke": (50, 3), "small": (300, 5), "paper": (1000, 20)}


_LEFT_OUT = "The agent as printed is left out: its Ṽ explodes (see the table)."
_CAPTIONS = {
    "optimism": f"Below 0 the agent overrates itself: Ṽ above V*. {_LEFT_OUT}",
    "estimation_error": f"How far Ṽ lies above the value of the policy played. {_LEFT_OUT}",
}


def cells(scale: Scale) -> dict[str, Study]:
    """Every agent of the figure, and the Gaussian agent exactly as printed."""
    episodes, num_seeds = _SIZES[scale]
    where = {"env": "riverswim", "episodes": episodes, "seeds": range(num_seeds)}
    return {
        GAUSSIAN: study("narl-ucrl", **where),
        BOOTSTRAP: study("narl-ucrl", noise="bootstrap", **where),
        PRINTED: study("narl-ucrl", preset="paper", **where),
        UCRL2: study("ucrl2", **where),
        TABULARL: study("ucrl2-tabularl", **where),
        OPSRL: study("opsrl", **where),
        PSRL: study("psrl", **where),
    }


def _claims(results: Mapping[str, Result]) -> list[Claim]:
    regret = {label: final_regret(result) for label, result in results.items()}
    most = {
        label: result.run.metrics["v_star"] * result.run.metrics["episodes"]
        for label, result in results.items()
    }
    narl = (GAUSSIAN, BOOTSTRAP)
    rivals = (UCRL2, TABULARL, OPSRL, PSRL)

    def figures(labels: tuple[str, ...]) -> str:
        return "; ".join(f"{label} {spread(regret[label])}" for label in labels)

    poor = [below([0.4 * most[label]], regret[label]) for label in (UCRL2, TABULARL)]
    tenth = [below(regret[a], regret[b] / 10) for a in narl for b in (UCRL2, TABULARL)]
    return [
        Claim(
            "fig1a-strong",
            "Both versions of NARL do well on RiverSwim: each has less regret than every rival.",
            "§5, Fig. 1(a)",
            worst([below(regret[a], regret[b]) for a in narl for b in rivals]),
            figures((*narl, *rivals)),
        ),
        Claim(
            "fig1a-ucrl2-poor",
            "UCRL2 does poorly: it loses over 40 % of what can be lost, both as the baseline code "
            "computes it and computed correctly.",
            "§5, Fig. 1(a); the 40 % are ours",
            worst(poor),
            f"{figures((UCRL2, TABULARL))}; most that can be lost {most[UCRL2]:.0f}",
        ),
        Claim(
            "fig1a-tenth",
            "NARL's regret is below a tenth of UCRL2's.",
            "§5, Fig. 1(a), our reading of the gap drawn there",
            worst(tenth),
            figures((*narl, UCRL2, TABULARL)),
        ),
        Claim(
            "fig1a-printed",
            "The Gaussian agent as printed (c = 1, signed noise on rewards and dynamics, no clip) "
            "has less regret than UCRL2.",
            "§5, settings of the Gaussian agent",
            below(regret[PRINTED], regret[UCRL2]),
            figures((PRINTED, UCRL2)),
        ),
    ]


@implements("fig:1a", "sec:5-gaussian", "sec:5-bootstrap")
def analyse(scale: Scale, results: Mapping[str, Result]) -> Outcome:
    """Regret curves, the optimism decomposition of every agent, and the claims."""
    episodes, num_seeds = _SIZES[scale]
    curves = [band(label, cumulative_regret(result)) for label, result in results.items()]
    charts = [
        Chart(
            "fig1a",
            "RiverSwim: cumulative regret",
            "episode",
            "regret",
            curves,
            y_axis="log",
            caption=f"Median and quartiles over {num_seeds} seeds; exact regret of the executed "
            "policy. The axis is logarithmic because the agents lie three orders apart.",
        )
    ]
    for name, title in (("optimism", "optimism"), ("estimation_error", "estimation error")):
        # As printed Ṽ reaches 1e15 in the first episodes: it would flatten all other lines.
        lines: list[Series] = [
            band(label, terms(r)[name]) for label, r in results.items() if label != PRINTED
        ]
        charts.append(
            Chart(
                f"fig1a-{name}",
                f"RiverSwim: cumulative {title} (Eq. 1)",
                "episode",
                title,
                lines,
                y_axis="symlog",
                reference=0.0,
                reference_label="0",
                caption=_CAPTIONS[name],
            )
        )
    return Outcome(
        id="fig1a",
        title="Fig. 1(a): regret on RiverSwim",
        scale=scale,
        command="",
        about=f"RiverSwim with S = 6 and H = 20, {episodes} episodes, {num_seeds} seeds.",
        charts=charts,
        tables=[decomposition_table("fig1a-terms", "The Optimism Decomposition", results)],
        claims=_claims(results),
    )


EXPERIMENT = Experiment("fig1a", "Fig. 1(a): regret on RiverSwim", cells, analyse)
