"""Fig. 4: return inside the model and in the environment, for the nine configurations of Table 2.

Fig. 2 is drawn from one of them: how often each member is selected under each radius.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float

from narl.experiments.experiment import Experiment, Findings, Result, Scale, Size
from narl.experiments.fig3a import ENV, TINY
from narl.experiments.judgement import Judgement, Part, comparison_table, judge_lower
from narl.experiments.table2 import cell_label, nine_configurations
from narl.paper import implements
from narl.report.contents import Table
from narl.report.ensemble_charts import member_charts, model_return_chart, radius_chart
from narl.report.markup import anchor
from narl.report.series import count_seeds, over_seeds
from narl.report.training_curves import Rows, by_accuracy, rows_with_model

if TYPE_CHECKING:
    from narl.deep.config import Config

TITLE_2 = "Fig. 2: which member is selected under optimism?"
TITLE_4 = "Fig. 4: delusional world models, inside the model and in the environment"
MANY = cell_label(10, None)
"""The configuration that the paper names: ten members, no radius."""
FEW = cell_label(3, 0.1)


_SIZES: dict[Scale, Size] = {
    "smoke": Size(600, 1, TINY),
    "small": Size(3000, 1),
    "paper": Size(3000, 10),
}


def cells(scale: Scale) -> dict[str, Config]:
    """Return the configurations of Table 2; below paper scale, two of them."""
    nine = nine_configurations(_SIZES[scale].shared_options())
    return nine if scale == "paper" else {label: nine[label] for label in (FEW, MANY)}


def selection_cells(scale: Scale) -> dict[str, Config]:
    """Return the one configuration of Fig. 2: ten members, selected among without a radius."""
    return {MANY: cells(scale)[MANY]}


def _last(rows: Rows, metric: str) -> Float[np.ndarray, " N"]:
    return np.array(rows_with_model(rows)[-1][metric], np.float64)


def _table(rows: Mapping[str, Rows]) -> Table:
    names = ("eval_return", "model_return", "mean_model_return")
    body: list[list[Any]] = []
    for label, log in rows.items():
        real, draws, means = (_last(log, name) for name in names)
        gap = draws - real
        body.append(
            [label, *(float(x.mean()) for x in (real, draws, means, gap))]
            + [float(real.min()), float(gap.max())]
        )
    return Table(
        "fig4",
        "Returns at the last step",
        ["configuration", "in the environment", "inside the model", "inside, means"]
        + ["difference", "worst seed in the environment", "largest difference"],
        body,
        "Means over seeds. Inside the model a next state is a draw of the selected member, or its "
        "mean. The difference is that of the draws and the environment.",
    )


@implements("fig:4")
def analyse(scale: Scale, results: Mapping[str, Result]) -> Findings:
    """Return the two learning curves of every configuration, and whether models were exploited."""
    size = _SIZES[scale]
    rows = {label: result.rows() for label, result in results.items()}
    real, inside = (
        {label: _last(log, name) for label, log in rows.items()}
        for name in ("eval_return", "model_return")
    )
    judged: dict[str, Judgement] = {
        "fig4-delusion": judge_lower(
            [Part("in the environment", real[MANY], "inside the model", inside[MANY])],
            f"return of {MANY}",
        ),
        "fig4-fails-to-learn": judge_lower(
            [Part(MANY, real[MANY], FEW, real[FEW])], "return in the environment"
        ),
    }
    statements = {
        "fig4-delusion": "With M = 10 and no radius, the return inside the model is larger than in "
        "the environment.",
        "fig4-fails-to-learn": "M = 10 without a radius learns less within 3000 steps than M = 3 "
        "with ε_M = 0.1.",
    }
    return Findings(
        about=f"`{ENV}`, NARL with each M and ε_M of Table 2 in the paper's reading (`--preset "
        f"paper`), {count_seeds(size.num_seeds)}, {size.steps} environment steps.",
        charts=[
            model_return_chart(anchor("fig4", label), label, log, over_seeds(size.num_seeds))
            for label, log in rows.items()
        ],
        tables=[_table(rows), comparison_table("fig4-comparisons", judged)],
        claims=[judged[id_].claim(id_, text, "App. C, Fig. 4") for id_, text in statements.items()],
    )


class _Selection(NamedTuple):
    """Shares of the choices by seed and member under each radius, least accurate member first."""

    none: Float[np.ndarray, "N M"]
    wide: Float[np.ndarray, "N M"]
    narrow: Float[np.ndarray, "N M"]
    distance: Float[np.ndarray, "N M"]
    """Mean distance of a member's next state from the members' mean."""


def _selection(rows: Rows) -> _Selection:
    fitted = rows_with_model(rows)
    names = ("selected_none", "selected_5", "selected_0.1", "distance")
    return _Selection(*(by_accuracy(fitted, name) for name in names))


def correlations(
    a: Float[np.ndarray, "N M"], b: Float[np.ndarray, "N M"]
) -> Float[np.ndarray, " N"]:
    """Return Pearson's correlation over members, per seed; 0 where one of them is constant."""
    a, b = (x - x.mean(axis=1, keepdims=True) for x in (a, b))
    scale = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    return np.where(scale > 0, (a * b).sum(axis=1) / np.where(scale > 0, scale, 1.0), 0.0)


def unevenness(shares: Float[np.ndarray, "N M"]) -> Float[np.ndarray, " N"]:
    """Return the share of choices that would have to change for all members to be even."""
    return 0.5 * np.abs(shares - 1.0 / shares.shape[1]).sum(axis=1)


def _selection_judgements(found: _Selection) -> dict[str, Judgement]:
    even = 1.0 / found.none.shape[1]
    narrow, none = unevenness(found.narrow), unevenness(found.none)
    return {
        "fig2-correlated": judge_lower(
            [Part("no correlation", 0.0, "measured", correlations(found.none, found.distance))],
            "correlation of selection and distance over members",
        ),
        "fig2-worst-member": judge_lower(
            [Part("even", even, "least accurate member", found.none[:, 0])],
            "share of choices without a radius",
        ),
        "fig2-wide-radius": judge_lower(
            [
                Part(
                    "ε = 5",
                    found.none[:, 0] - found.wide[:, 0],
                    "ε = 0.1",
                    found.none[:, 0] - found.narrow[:, 0],
                )
            ],
            "reduction of the least accurate member's share of choices",
        ),
        "fig2-radius": judge_lower(
            [Part("ε = 0.1", narrow, "no radius", none)],
            "share of choices away from an even selection",
        ),
    }


STATEMENTS_2 = {
    "fig2-correlated": "Without a radius, members are selected the more often, the further their "
    "next states are from the mean.",
    "fig2-worst-member": "Without a radius, the least accurate member is selected more often than "
    "evenly.",
    "fig2-wide-radius": "A wide radius (ε_M = 5) reduces the use of the least accurate member only "
    "a little: less than ε_M = 0.1 does.",
    "fig2-radius": "With ε_M = 0.1 members are selected more evenly than without a radius.",
}


@implements("fig:2")
def analyse_selection(scale: Scale, results: Mapping[str, Result]) -> Findings:
    """Return how often each member would be selected under each radius, by accuracy."""
    size = _SIZES[scale]
    rows = {label: result.rows() for label, result in results.items()}
    found = _selection(rows[MANY])
    judged = _selection_judgements(found)
    over = over_seeds(size.num_seeds)
    body = [
        [rank + 1, *(float(shares[:, rank].mean()) for shares in found)]
        for rank in range(found.none.shape[1])
    ]
    return Findings(
        about=f"`{ENV}`, NARL with ten members and no radius in the paper's reading (`--preset "
        f"paper`), {count_seeds(size.num_seeds)}, {size.steps} environment steps: the training of "
        "`fig4`. The paper does not say how many members its figure has.",
        charts=[
            *radius_chart("fig2", "", rows[MANY], over),
            *member_charts("fig2-", rows, over),
        ],
        tables=[
            Table(
                "fig2-members",
                "Choices by rank of the member",
                ["rank", "no radius", "ε = 5", "ε = 0.1", "distance from the mean"],
                body,
                "Rank 1 is the member with the largest error on held-out data. Shares of the "
                "choices on 1000 steps after every fit; means over fits and seeds.",
            ),
            comparison_table("fig2-comparisons", judged),
        ],
        claims=[judged[id_].claim(id_, text, "§6.1, Fig. 2") for id_, text in STATEMENTS_2.items()],
    )


FIG2 = Experiment("fig2", TITLE_2, selection_cells, analyse_selection)
FIG4 = Experiment("fig4", TITLE_4, cells, analyse)
