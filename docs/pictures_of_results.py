"""Pictures of stored numbers: does it work, when does it pay, figures of the paper."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from picture_style import FAINT, GREY

from narl.palette import ALGORITHM_COLOURS, COLOURS
from narl.report.contents import Chart, Outcome, Series, load_outcome
from narl.report.figures import draw_figure
from narl.report.label_colours import colour_of
from narl.report.seed_range import cut_chart

ROOT = Path(__file__).parents[1]
RESULTS, DATA = ROOT / "results", ROOT / "docs" / "data"
NOISE, CHOICE = "NARL, noise on rewards", "NARL, choice among models"
DASHED: dict[str, Any] = {"linestyle": (0, (4, 2))}
"""The look of the second line of one colour."""


def look(label: str) -> dict[str, Any]:
    """Return colour and dashes of an algorithm of `exploration`, the same in every picture."""
    place = colour_of(label)
    assert place is not None, label
    return {"color": COLOURS[place].light} | (DASHED if label == CHOICE else {})


def read_outcome(experiment: str) -> Outcome:
    """Return the outcome of an experiment at the paper's scale."""
    return load_outcome(RESULTS / f"{experiment}-paper.json")


def draw_pays() -> Figure:
    """Draw does it work (Fig. 1(a)) and when does it pay (seven tasks)."""
    regret = read_outcome("fig1a").charts[0]
    exploration = read_outcome("exploration")
    tasks = [chart for chart in exploration.charts if chart.id.endswith("-returns")]
    figure = Figure(figsize=(7.6, 7.2), layout="constrained")
    *panels, key_panel = figure.subplots(3, 3).ravel()
    tabular: dict[str, dict[str, Any]] = {
        "NARL Gaussian": {"color": _colour("narl-ucrl")},
        "PSRL": {"color": _colour("psrl"), "label": "PSRL (RiverSwim)"},
        "UCRL2": {"color": _colour("ucrl2"), "label": "UCRL2 (RiverSwim)", **DASHED},
    }
    _draw_lines(panels[0], regret.series, tabular)
    panels[0].set(title="RiverSwim: regret (low is good)", xlabel="episodes", yscale="log")
    deep = {label: look(label) for label in (NOISE, CHOICE, "SOMBRL", "MBPO")}
    for axes, chart in zip(panels[1:], tasks, strict=True):
        _draw_lines(axes, cut_chart(chart, exploration.trainings).series, deep)
        axes.set(title=f"{chart.title}: return", xlabel="environment steps")
    keys = [*panels[1].lines, *panels[0].lines[1:]]  # NARL's line is blue in all panels
    for axes in panels:
        axes.title.set_fontsize(10)
        axes.locator_params(axis="x", nbins=4)
    key_panel.axis("off")
    key_panel.legend(handles=keys, loc="center", frameon=False)
    return figure


def draw_all_tasks() -> Figure:
    """Draw the aggregate of `exploration`: IQM, probability of improvement, profiles."""
    charts = {chart.id: chart for chart in read_outcome("exploration").charts}
    score, improvement, profile = (
        charts[f"exploration-{part}"] for part in ("iqm", "improvement", "profile")
    )
    figure = Figure(figsize=(5.2, 5.8), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=(1, 1.1))
    left = figure.add_subplot(grid[0, 0])
    right = figure.add_subplot(grid[0, 1], sharey=left)
    labels = [x.label for x in sorted(score.series, key=lambda x: x.y[0] or 0.0, reverse=True)]
    for axes, chart in ((left, score), (right, improvement)):
        _draw_intervals(axes, chart, labels)
    left.set_title("Score (IQM)", fontsize=10, loc="left")
    left.set(xlim=(0, 1.1), xticks=[0, 0.5, 1], xticklabels=["0", "0.5", "1"])
    right.set_title("P(more than MBPO)", fontsize=10, loc="left")
    right.axvline(0.5, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
    right.set(xlim=(0, 1), xticks=[0, 0.5, 1], xticklabels=["0", "0.5", "1"])
    right.tick_params(labelleft=False)
    below = figure.add_subplot(grid[1, :])
    _draw_lines(below, profile.series, {label: look(label) for label in labels})
    below.set_title("Share of runs with a larger score", fontsize=10, loc="left")
    below.set(xlabel="score", ylim=(0, 1), xlim=(0, 2))  # few runs have more
    figure.legend(
        handles=below.lines, loc="outside lower center", ncols=2, frameon=False, fontsize=9
    )
    return figure


def _draw_intervals(axes: Axes, chart: Chart, labels: list[str]) -> None:
    """Draw one interval per label, the first at the top; a label without one stays empty."""
    by_label = {series.label: series for series in chart.series}
    for place, label in enumerate(labels):
        if (series := by_label.get(label)) and series.low and series.high:
            colour = look(label)["color"]
            axes.hlines(place, series.low, series.high, color=colour, linewidth=1.8)
            axes.plot(series.y, [place], "o", color=colour, markersize=6)
    axes.set_yticks(range(len(labels)), labels, fontsize=9)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.grid(axis="x", color=FAINT, linewidth=0.6)


def draw_diagnostics() -> Figure:
    """Draw healthy and unhealthy curves of two diagnostics, means over four and ten seeds."""
    pendulum, car = "narl/SparsePendulum-v0", "MountainCarContinuous-v0"
    figure = Figure(figsize=(5.2, 5.0), layout="constrained")
    panels = figure.subplots(2, 2).ravel()
    runs = {
        "Model and truth agree": _diagnostics(pendulum, "reward.03"),
        "Nothing is found": _diagnostics(pendulum, "mbpo"),
        "The model promises too much": _diagnostics(car, "narl-reward"),
    }
    looks: dict[str, dict[str, Any]] = {
        "eval_return": {"color": "#009e73"},
        "model_return": {"color": "#56b4e9"},
        "mean_model_return": {"color": "#cc79a7", **DASHED},
    }
    for axes, (title, run) in zip(panels, runs.items(), strict=False):
        for name, its_look in looks.items():
            axes.plot(run["step"], run[name], label=name, **its_look)
        axes.set_title(title, fontsize=10, loc="left")
    panels[1].set_ylim(-40, 210)
    last = panels[3]
    for run, label, place in (
        (runs["Model and truth agree"], NOISE, 0.75),
        (runs["Nothing is found"], "MBPO", 0.28),
    ):
        last.plot(run["step"], run["disagreement"], color=look(label)["color"])
        text = label.replace(", ", ",\n")
        last.text(
            0.98, place, text, color=look(label)["color"], transform=last.transAxes, ha="right"
        )
    last.set_title("Disagreement", fontsize=10, loc="left")
    last.set_ylim(0, 0.065)
    for axes in panels:
        axes.locator_params(axis="x", nbins=3)
    panels[2].set_xlabel("environment steps")
    last.set_xlabel("environment steps")
    figure.legend(handles=panels[0].lines, loc="outside lower center", ncols=3, frameon=False)
    return figure


def _diagnostics(env: str, configuration: str) -> dict[str, np.ndarray]:
    """Return steps, diagnostics and the mean return of a configuration in docs/data."""
    stored = json.loads((DATA / "optimism.json").read_text(encoding="utf-8"))["trainings"]
    training = next(x for x in stored if x["env"] == env and configuration in x["configurations"])
    found = training["configurations"][configuration]
    columns = {name: np.array(values, float) for name, values in found["diagnostics"].items()}
    returns = np.array(list(found["eval_return"].values()), float).mean(axis=0)
    return {"step": np.array(training["step"]), "eval_return": returns, **columns}


def draw_stored_chart(experiment: str, chart_id: str) -> Figure:
    """Draw a chart of a stored outcome as the report does."""
    outcome = read_outcome(experiment)
    chart = next(chart for chart in outcome.charts if chart.id == chart_id)
    return draw_figure(cut_chart(chart, outcome.trainings))


def _colour(algorithm: str) -> str:
    return COLOURS[ALGORITHM_COLOURS[algorithm]].light


def _draw_lines(axes: Axes, series: list[Series], looks: dict[str, dict[str, Any]]) -> None:
    by_label = {each.label: each for each in series}
    for label, its_look in looks.items():
        each = by_label[label]
        y, low, high = (np.array(x, float) for x in (each.y, each.low, each.high))
        axes.plot(each.x, y, **{"label": label} | its_look)
        axes.fill_between(each.x, low, high, color=its_look["color"], alpha=0.15, linewidth=0)
