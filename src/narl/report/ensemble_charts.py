"""Charts of an ensemble: returns inside the model, selected members, distances, fallbacks."""

from __future__ import annotations

from collections.abc import Mapping

from narl.report.document import Chart, Series
from narl.report.series import mean_band
from narl.report.training_curves import Rows, by_accuracy, curve, rows_with_model

INSIDE, OUTSIDE = "inside the model", "in the environment"
RANK = "member, from the least accurate"
STEPS, SHARE = "environment steps", "share of imagined steps"


def model_return_chart(id_: str, title: str, rows: Rows, over: str, idea: str = "") -> Chart:
    """Return the chart of the returns inside the model and in the environment.

    ``over`` is a sentence that says what lines and bands are; ``idea`` names a figure of the paper.
    """
    with_model = rows_with_model(rows)
    return Chart(
        id_,
        title,
        STEPS,
        "return",
        [curve(INSIDE, with_model, "model_return"), curve(OUTSIDE, with_model, "eval_return")],
        caption=f"{over} Returns of the deterministic policy from the same first states: inside "
        "the ensemble with its selection, and in the environment. The difference is the deep "
        f"estimation error{idea}.",
    )


def member_charts(
    prefix: str, rows: Mapping[str, Rows], over: str, idea: str = "", more: str = ""
) -> list[Chart]:
    """Return two charts by accuracy: how often members are selected, how far from their mean.

    ``rows`` are those of several trainings by label; the ids of the charts begin with ``prefix``.
    """

    def series(metric: str) -> list[Series]:
        averages = {label: by_accuracy(rows_with_model(log), metric) for label, log in rows.items()}
        return [
            mean_band(label, [float(rank) for rank in range(1, values.shape[1] + 1)], values)
            for label, values in averages.items()
        ]

    order = (
        f"{over} Members are ranked in every epoch by their error on held-out data, then epochs "
        f"are averaged{idea}."
    )
    return [
        Chart(
            f"{prefix}selected",
            "How often each member is selected",
            RANK,
            SHARE,
            series("selected"),
            caption=f"{order} A member is selected if its next state is taken.{more}",
        ),
        Chart(
            f"{prefix}distance",
            "Each member's distance from the mean",
            RANK,
            "‖ŝ′ − mean over members‖",
            series("distance"),
            caption=f"{order} The distance between a member's mean next state and the mean of "
            "all members, in the units of the observation.",
        ),
    ]


def fallback_chart(id_: str, rows: Mapping[str, Rows], over: str, more: str = "") -> Chart:
    """Return the chart of how often no member lies within the radius."""
    return Chart(
        id_,
        "How often the radius excludes every member",
        STEPS,
        SHARE,
        [curve(label, rows_with_model(log), "fallback") for label, log in rows.items()],
        caption=f"{over} The share of imagined steps in which the value of no member's next state "
        f"lies within the radius{more}.",
    )
