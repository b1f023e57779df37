"""Table 1: every algorithm run, with the measured growth of regret and the printed bound."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from narl.experiments.analysis import cumulative_regret, decomposition_table, final_regret
from narl.experiments.experiment import Experiment, Findings, Result, Scale
from narl.paper import implements
from narl.report.contents import Chart, Claim, Table, Verdict
from narl.report.series import median_band
from narl.stats import Growth, growth_exponent
from narl.tabular.config import Config, make_config


class Row(NamedTuple):
    """A row of the table: an agent and its bound without logarithms, as powers of S, A and H."""

    agent: str
    options: dict
    bound: str
    powers: tuple[float, float, float]


_UCRL = ("S·H·√(A·T)", (1.0, 0.5, 1.0))
_NA_UCRL = ("S·H·√(S·A·T)", (1.5, 0.5, 1.0))
ROWS: dict[str, Row] = {
    "UCRL (ucrl2)": Row("ucrl2", {}, *_UCRL),
    "UCBVI (Hoeffding)": Row("ucbvi", {}, "√(H·S·A·T)", (0.5, 0.5, 0.5)),
    "UCBVI (Bernstein)": Row("ucbvi", {"bonus": "bernstein"}, "√(H·S·A·T)", (0.5, 0.5, 0.5)),
    "UCBVI (constants of the proof)": Row(
        "ucbvi", {"bonus": "bernstein", "constants": "theory"}, "√(H·S·A·T)", (0.5, 0.5, 0.5)
    ),
    "RLSVI": Row("rlsvi", {}, "S·H^2.5·√(S·A·T)", (1.5, 0.5, 2.5)),
    "RLSVI (constants of the proof)": Row(
        "rlsvi", {"constants": "theory"}, "S·H^2.5·√(S·A·T)", (1.5, 0.5, 2.5)
    ),
    "Posterior sampling (psrl)": Row("psrl", {}, *_UCRL),
    "Noise Augmented UCRL": Row("narl-ucrl", {}, *_NA_UCRL),
    "Noise Augmented UCRL, bootstrap": Row("narl-ucrl", {"noise": "bootstrap"}, *_NA_UCRL),
    "Noise Augmented UCRL (Theorem 1)": Row("narl-ucrl", {"noise": "theorem"}, *_NA_UCRL),
    "Noise Augmented UCBVI": Row("narl-ucbvi", {}, *_UCRL),
    "Noise Augmented UCBVI (Theorem 2)": Row("narl-ucbvi", {"noise": "theorem"}, *_UCRL),
    "Noise Augmented UCBVI (Theorem 3)": Row("narl-ucbvi", {"noise": "fake-reward"}, *_UCRL),
}
_SIZES: dict[Scale, tuple[int, int]] = {"smoke": (60, 3), "small": (2000, 5), "paper": (20000, 20)}
STATES, ACTIONS, HORIZON = 6, 2, 20


def cells(scale: Scale) -> dict[str, Config]:
    """Return the agent of each row on RiverSwim."""
    episodes, num_seeds = _SIZES[scale]
    return {
        label: make_config(
            row.agent, env="riverswim", episodes=episodes, seeds=range(num_seeds), **row.options
        )
        for label, row in ROWS.items()
    }


def bound_at(row: Row, num_steps: float) -> float:
    """Return the printed bound without constants and logarithms."""
    s, a, h = row.powers
    return STATES**s * ACTIONS**a * HORIZON**h * math.sqrt(num_steps)


def grows_no_faster(growth: Growth) -> Verdict:
    """Return whether regret grows no faster than √T: the exponent's interval lies below 0.6.

    The verdict is never "fails": no finite run refutes a bound with hidden constants.
    """
    return "holds" if math.isfinite(growth.exponent) and growth.high <= 0.6 else "undecided"


@implements("table:1")
def analyse(scale: Scale, results: Mapping[str, Result]) -> Findings:
    """Return the growth of regret over the last half of the run, for every row."""
    episodes, num_seeds = _SIZES[scale]
    num_steps = HORIZON * np.arange(1, episodes + 1)
    rows, claims, lines = [], [], []
    for label, row in ROWS.items():
        regret = cumulative_regret(results[label])
        growth = growth_exponent(num_steps, regret)
        final = final_regret(results[label])
        mean = float(final.mean())
        bound = bound_at(row, num_steps[-1])
        interval = f"{growth.low:.2f} … {growth.high:.2f}"
        rows.append(
            [label, row.bound, float(np.median(final)), mean, float(final.max())]
            + [growth.exponent, interval, mean / bound]
        )
        lines.append(median_band(label, regret, log=True))
        claims.append(
            Claim(
                f"table1-{'-'.join(re.findall('[a-z0-9]+', label.lower()))}",
                f"{label}: regret grows no faster than √T, as its bound {row.bound} says.",
                "Table 1",
                grows_no_faster(growth),
                f"mean regret grows with exponent {growth.exponent:.2f} "
                f"[{growth.low:.2f}, {growth.high:.2f}] over the last half of T, n = {num_seeds}; "
                f"it is {mean:.4g} after {episodes} episodes, {mean / bound:.2g} "
                "of the bound without constants and logarithms",
            )
        )
    columns = ["agent", "printed bound (Õ)", "median regret", "mean regret", "worst seed's regret"]
    columns += ["exponent of T (mean regret)", "its 95 % interval"]
    table = Table(
        "table1",
        "Table 1, measured",
        [*columns, "mean regret / bound"],
        rows,
        "The exponent is the slope of log mean regret against log T between T/2 and T: ½ is what "
        "the bounds allow, 1 is no learning. The interval is a bootstrap over seeds. A bound holds "
        "for large T and with its constants: an exponent near 1 says that T is still small for "
        "these constants, not that the theorem is wrong. A few stuck seeds (bootstrap) show in the "
        "mean, in the exponent and in the worst seed, but not in the median.",
    )
    chart = Chart(
        "table1",
        "RiverSwim: regret of every row of Table 1",
        "episode",
        "regret",
        lines,
        x_axis="log",
        y_axis="log",
        caption=f"Median and quartiles over {num_seeds} seeds. The exponents of the claims are "
        "those of the mean: where a few seeds never learn, the mean grows with exponent 1 although "
        "the median drawn here is flat (Noise Augmented UCRL, bootstrap).",
    )
    return Findings(
        about=f"RiverSwim (S = 6, A = 2, H = 20), {episodes} episodes, {num_seeds} seeds.",
        charts=[chart],
        tables=[table, decomposition_table("table1-terms", "Eq. 1", results)],
        claims=claims,
    )


def seed_scores(result: Result) -> dict[str, list[float]]:
    """Return the regret of the first half of the run, where the fit of the exponent begins."""
    regret = cumulative_regret(result)
    return {"half_way_regret": regret[:, regret.shape[1] // 2 - 1].tolist()}


TITLE = "Table 1: regret bounds, measured"
EXPERIMENT = Experiment("table1", TITLE, cells, analyse, seed_scores)
