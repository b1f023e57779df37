"""Charts of an ensemble: returns in the model, selected members, distances, bonuses, fallbacks."""

from __future__ import annotations

from collections.abc import Mapping

from narl.report.contents import Chart, Series
from narl.report.label_colours import DRAWS, MEANS, OUTSIDE
from narl.report.series import RANK, mean_band
from narl.report.training_curves import Rows, by_accuracy, curve, rows_with_model

STEPS, SHARE = "environment steps", "share of imagined steps"
AT_RADIUS = "fit_selected_"
"""Beginning of the metrics of how often members would be selected; the radius follows."""


def model_return_chart(id_: str, label: str, rows: Rows, over: str, idea: str = "") -> Chart:
    """Return the chart of one training's returns inside the model and in the environment.

    ``label`` names the training in the title, or is empty where there is only one. ``over`` is a
    sentence that says what lines and bands are; ``idea`` names a figure of the paper.
    """
    with_model = rows_with_model(rows)
    series = [curve(DRAWS, with_model, "model_return"), curve(OUTSIDE, with_model, "eval_return")]
    text = (
        f"{over} Returns of the deterministic policy from the same first states: inside the "
        "ensemble with its selection, and in the environment. The first line minus the last is how "
        f"much more the model promises than the environment gives{idea}."
    )
    if all("mean_model_return" in row for row in with_model):  # older runs have none
        series.insert(1, curve(MEANS, with_model, "mean_model_return"))
        text += (
            " Inside the model, a next state is a draw of the selected member, or the member's "
            "mean; the difference between these two is the effect of the models' noise."
        )
    title = _title(label, "Return inside the model")
    return Chart(id_, title, STEPS, "return", series, caption=text)


def radius_chart(id_: str, label: str, rows: Rows, over: str, idea: str = "") -> list[Chart]:
    """Return the chart of how often each member of one training would be selected, by radius.

    The arguments are those of `model_return_chart`. The list is empty for an older run, which did
    not record this.
    """
    with_model = rows_with_model(rows)
    columns = [name for name in with_model[0] if name.startswith(AT_RADIUS)]
    if not columns:
        return []
    series = [
        _by_rank(f"ε = {name.removeprefix(AT_RADIUS)}", with_model, name.removeprefix("fit_"))
        for name in columns
    ]
    title = _title(label, "How often each member would be selected")
    caption = (
        f"{over} After every fit, members are ranked by their error on held-out data in this fit, "
        f"then fits are averaged{idea}. A member would be selected if the value of its mean next "
        "state is the largest of those that ε does not exclude, by the options of the training; "
        "a training without a radius is judged by `exclude above` (members whose value is more "
        "than ε above the mean are left out), with `--preset paper` by `exclude ball`. All radii "
        "are compared on the same 1000 steps of the policy from real states, whatever the "
        "algorithm and its radius."
    )
    return [Chart(id_, title, RANK, "share of steps", series, caption=caption)]


def member_charts(
    prefix: str, rows: Mapping[str, Rows], over: str, idea: str = "", more: str = ""
) -> list[Chart]:
    """Return two charts by accuracy: how often members are selected, how far from their mean.

    ``rows`` are those of several trainings by label; the ids of the charts begin with ``prefix``.
    """

    def series(metric: str) -> list[Series]:
        return [_by_rank(label, rows_with_model(log), metric) for label, log in rows.items()]

    return [
        Chart(
            f"{prefix}selected",
            "How often each member is selected",
            RANK,
            SHARE,
            series("selected"),
            caption=f"{over} Members are ranked in every epoch by their error on held-out data, "
            "the mean over the fits of the epoch, then epochs are averaged. A member is selected "
            f"if its next state is taken.{more}",
        ),
        Chart(
            f"{prefix}distance",
            "Each member's distance from the mean",
            RANK,
            "distance from the members' mean",
            series("distance"),
            caption=f"{over} Members are ranked after every fit by their error on held-out data, "
            f"then fits are averaged{idea}. Each member predicts the next state; the distance is "
            "the length of the difference between its prediction and the mean prediction of all "
            "members, in the units of the observation.",
        ),
    ]


def disagreement_chart(id_: str, rows: Mapping[str, Rows], over: str) -> list[Chart]:
    """Return the chart of the members' disagreement; none where no training recorded one."""
    series = _series_not_zero(rows, "disagreement")
    caption = (
        f"{over} The standard deviation of the members' means in units of that of the data, "
        "averaged over the reward and the next state, on 1000 steps of the policy from real "
        "states after every fit."
    )
    title, y = "How far the members disagree", "disagreement"
    return [Chart(id_, title, STEPS, y, series, caption=caption)] if series else []


def bonus_chart(id_: str, rows: Mapping[str, Rows], over: str) -> list[Chart]:
    """Return the chart of the bonus on imagined rewards; none where no training has one."""
    series = _series_not_zero(rows, "bonus")
    caption = f"{over} The mean amount that was added to the reward of an imagined step."
    title, y = "Bonus on imagined rewards", "mean bonus"
    return [Chart(id_, title, STEPS, y, series, caption=caption)] if series else []


def _series_not_zero(rows: Mapping[str, Rows], metric: str) -> list[Series]:
    """Return the curves of a metric that was recorded (older runs may lack it) and is not all 0."""
    logs = {
        label: [row for row in rows_with_model(log) if metric in row] for label, log in rows.items()
    }
    return [
        curve(label, log, metric)
        for label, log in logs.items()
        if any(x for row in log for x in row[metric])
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


def _title(label: str, title: str) -> str:
    """Return the title of a chart of one training, after its label if there is one."""
    return f"{label}: {title[0].lower()}{title[1:]}" if label else title


def _by_rank(label: str, rows: Rows, metric: str) -> Series:
    """Return a metric of the members against their rank: mean ± one std over seeds."""
    values = by_accuracy(rows, metric)
    return mean_band(label, [float(rank) for rank in range(1, values.shape[1] + 1)], values)
