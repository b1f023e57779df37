"""Charts of an ensemble: what it promises, who is selected, how far apart its members are."""

from __future__ import annotations

from collections.abc import Mapping

from narl.report.document import Chart, Series
from narl.report.training_curves import Rows, around_mean, by_accuracy, curve, modelled

INSIDE, OUTSIDE = "inside the model", "in the environment"
RANK = "member, from the least accurate"
STEPS, SHARE = "environment steps", "share of imagined steps"


def promise_chart(id_: str, title: str, rows: Rows, over: str, idea: str = "") -> Chart:
    """The return inside the model and for real; ``over`` says what lines and bands are."""
    return Chart(
        id_,
        title,
        STEPS,
        "return",
        [
            curve(INSIDE, modelled(rows), "model_return"),
            curve(OUTSIDE, modelled(rows), "eval_return"),
        ],
        caption=f"{over} The deterministic policy from the same first states, once by the ensemble "
        f"with its selection and once for real; the distance is the deep estimation error{idea}.",
    )


def member_charts(
    prefix: str, rows: Mapping[str, Rows], over: str, idea: str = "", more: str = ""
) -> list[Chart]:
    """How often members are selected and how far they are from their mean, by accuracy."""

    def series(name: str) -> list[Series]:
        found = {label: by_accuracy(modelled(those), name) for label, those in rows.items()}
        return [
            around_mean(label, [float(k) for k in range(1, values.shape[1] + 1)], values)
            for label, values in found.items()
        ]

    order = (
        f"{over} Members are ranked anew in every epoch by their error on held-out data, and "
        f"epochs are averaged{idea}."
    )
    return [
        Chart(
            f"{prefix}selected",
            "How often each member is selected",
            RANK,
            SHARE,
            series("selected"),
            caption=f"{order} Whose next state is taken.{more}",
        ),
        Chart(
            f"{prefix}distance",
            "Each member's distance from the mean",
            RANK,
            "‖ŝ′ − mean over members‖",
            series("distance"),
            caption=f"{order} Of the next states that the members propose, in the units of the "
            "observation.",
        ),
    ]


def fallback_chart(id_: str, rows: Mapping[str, Rows], over: str, more: str = "") -> Chart:
    """How often no member is within the radius."""
    return Chart(
        id_,
        "How often the radius excludes every member",
        STEPS,
        SHARE,
        [curve(label, modelled(those), "fallback") for label, those in rows.items()],
        caption=f"{over} For the reward or for the next state{more}.",
    )
