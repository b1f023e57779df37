"""Plots with matplotlib and tables for pandas of traces, agents and stored runs.

Every algorithm has the same colour in all plots (`narl.palette`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

from narl.errors import InputError, unknown
from narl.lazy_names import import_extra
from narl.option_differences import differing_options
from narl.options import as_text
from narl.palette import ALGORITHM_COLOURS, COLOURS, DASHES, Look, assign_looks
from narl.run_lookup import find_run
from narl.stats import median_iqr
from narl.storage import METRICS_LOG, Run, UnfinishedRun, default_root, rows_from_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_POINTS = 2000
"""Points of a line at most; more cannot be seen."""
LINE_OF_LEGEND = 85
"""Letters of a legend, with the strokes between them, that fit below a plot."""
SUMS = {"regret": "regret", "optimism": "optimism", "estimation_error": "estimation error"}
"""The terms of Eq. 1, which are summed over the episodes."""
PER_EPISODE = {"value": "the agent's own value", "realised_return": "return"}
RETURN, CUMULATIVE = "eval_return", "cumulative"


class Curve(NamedTuple):
    """One line of a plot with a band over the seeds: a metric of a trace, an agent or a run."""

    algorithm: str
    env: str
    settings: Mapping[str, Any]
    """Options by name; those that differ between curves of an algorithm are in their labels."""
    x: Float[np.ndarray, " K"]
    values: Float[np.ndarray, "N K"]
    x_label: str
    y_label: str
    use_median: bool
    """Whether the line is the median with quartiles, else the mean ± one standard deviation, at
    most to the lowest and the highest seed."""

    def band(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return x, the line, and the lower and the upper end of the band."""
        places = np.unique(np.linspace(0, len(self.x) - 1, MOST_POINTS).round().astype(int))
        values = self.values[:, places]
        if self.use_median:
            middle, low, high = median_iqr(values, axis=0)
        else:
            middle, std = values.mean(axis=0), values.std(axis=0)
            # As in reports: beyond the seeds there may be impossible values.
            low = np.maximum(middle - std, values.min(axis=0))
            high = np.minimum(middle + std, values.max(axis=0))
        return self.x[places], middle, low, high


@runtime_checkable
class HasCurve(Protocol):
    """An object that can be plotted: a trace or an agent."""

    def curve(self, metric: str | None = None) -> Curve:
        """Return a metric as a curve; by default regret, or the return of evaluations."""


def plot(
    *runs: HasCurve | Run | UnfinishedRun | str | Path,
    metric: str | None = None,
    labels: Sequence[str] | None = None,
    ax: Axes | None = None,
    root: Path | str | None = None,
) -> Axes:
    """Draw traces, agents or stored runs into one plot and return its axes.

    Lines are medians with quartiles over the seeds of tabular runs. Those of trainings are means ±
    one standard deviation over the seeds, at most to the lowest and the highest seed.

    Args:
        *runs: Traces or agents, stored runs, or names of stored runs as on the command line: an id,
            its beginning or its last ten digits, a folder, or "latest".
        metric: regret, optimism, estimation_error, value or realised_return of tabular runs, by
            default the cumulative regret; a column of docs/metrics.md of trainings, by default the
            return.
        labels: One label per run; by default the algorithm and the options that differ.
        ax: The axes to draw into; by default new ones.
        root: The folder of the stored runs, as in `narl.storage` (`--runs` on the command line); by
            default that of `narl runs`.

    Returns:
        The axes.

    Example:
        >>> traces = [narl.run(name, "riverswim", 20, "0:3") for name in ("psrl", "greedy")]
        >>> [text.get_text() for text in narl.plot(*traces).get_legend().get_texts()]
        ['psrl', 'greedy']
    """
    if not runs:
        raise InputError("runs: there are none; give traces, agents, runs or ids of runs")
    curves = [_curve_of(run, metric, Path(root) if root else default_root()) for run in runs]
    if len({curve.x_label for curve in curves}) > 1:
        raise InputError("runs: tabular runs and trainings given; a plot shows one of both kinds")
    names = label_curves(curves) if labels is None else list(labels)
    if len(names) != len(curves):
        raise InputError(f"labels: {len(names)} given for {len(curves)} runs; give one for each")
    return draw_curves(dict(zip(names, curves, strict=True)), ax)


def draw_curves(curves: Mapping[str, Curve], ax: Axes | None = None) -> Axes:
    """Draw labelled curves with their bands over the seeds; return the axes."""
    import matplotlib.pyplot as plt
    from matplotlib.transforms import ScaledTranslation

    columns = max(1, LINE_OF_LEGEND // (max(map(len, curves)) + 8))
    is_new = ax is None
    if ax is None:
        height = 4.0 + 0.2 * -(-len(curves) // columns)
        _, ax = plt.subplots(figsize=(6.4, height), layout="constrained")
    looks = _looks(curves)
    for label, curve in curves.items():
        x, middle, low, high = curve.band()
        colour, dashes = COLOURS[looks[label].colour].light, looks[label].dashes
        pattern: dict[str, Any] = {"dashes": dashes} if dashes else {}
        ax.plot(x, middle, color=colour, label=label, linewidth=1.5, **pattern)
        if len(curve.values) > 1:
            ax.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0)
    first = next(iter(curves.values()))
    ax.set_xlabel(first.x_label)
    labels = {curve.y_label for curve in curves.values()}
    are_sums = all(label.startswith(CUMULATIVE) for label in labels)
    several = "sum over the episodes so far" if are_sums else ""
    ax.set_ylabel(first.y_label if len(labels) == 1 else several)
    if len(envs := {curve.env for curve in curves.values()}) == 1 and envs != {""}:
        ax.set_title(envs.pop(), loc="left")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", alpha=0.3)
    if is_new:  # below the axes, where the legend covers no band
        below = ax.transAxes + ScaledTranslation(0.0, -0.5, ax.figure.dpi_scale_trans)
        place: dict[str, Any] = {"bbox_to_anchor": (0.5, 0.0), "bbox_transform": below}
        ax.legend(frameon=False, loc="upper center", ncols=columns, **place)
    else:
        ax.legend(frameon=False)
    return ax


def _looks(curves: Mapping[str, Curve]) -> dict[str, Look]:
    """Return the looks of labels: the colour of the algorithm, and dashes where it has several.

    The dashes are enough for six curves of an algorithm; further ones have other colours.
    """
    fixed: dict[str, int] = {}
    counts: Counter[str] = Counter()
    for label, curve in curves.items():
        counts[curve.algorithm] += 1
        if curve.algorithm in ALGORITHM_COLOURS and counts[curve.algorithm] <= len(DASHES):
            fixed[label] = ALGORITHM_COLOURS[curve.algorithm]
    return assign_looks([list(curves)], fixed)


def label_curves(curves: Sequence[Curve]) -> list[str]:
    """Return labels that tell curves apart: algorithm, environment, settings that differ."""
    several_envs = len({curve.env for curve in curves}) > 1
    labels: list[str] = []
    for curve in curves:
        alike = [other.settings for other in curves if other.algorithm == curve.algorithm]
        names = [name for name in differing_options(alike) if name in curve.settings]
        differing = [f"{name}={as_text(curve.settings[name])}" for name in names]
        on = f" on {curve.env}" if several_envs else ""
        labels.append(", ".join([f"{curve.algorithm or 'agent'}{on}", *differing]))
    return [
        f"{label} #{labels[: i + 1].count(label)}" if labels.count(label) > 1 else label
        for i, label in enumerate(labels)
    ]


# --- curves of traces, agents and stored runs -------------------------------------------------


def tabular_curve(
    scores: Mapping[str, Float[np.ndarray, "N K"]],
    metric: str | None,
    *,
    algorithm: str,
    env: str,
    settings: Mapping[str, Any],
) -> Curve:
    """Return a metric of a tabular run; the terms of Eq. 1 are summed over the episodes."""
    metric = metric or "regret"
    names = SUMS | PER_EPISODE
    if metric not in names:
        raise unknown("metric", metric, names)
    values = scores[metric].cumsum(axis=1) if metric in SUMS else scores[metric]
    label = f"{CUMULATIVE} {names[metric]}" if metric in SUMS else names[metric]
    x = np.arange(1, values.shape[1] + 1, dtype=np.float64)
    return Curve(algorithm, env, settings, x, values, "episode", label, True)


def training_curve(
    rows: Sequence[Mapping[str, Any]],
    metric: str | None,
    *,
    algorithm: str,
    env: str,
    settings: Mapping[str, Any],
) -> Curve:
    """Return a metric of a training against its environment steps."""
    metric = metric or RETURN
    if not rows:
        raise InputError(f"plot: {algorithm} on {env} has no finished epoch yet; let it learn")
    usable = {name for row in rows for name, column in row.items() if _is_per_seed(column)}
    if metric not in usable:
        raise unknown("metric", metric, sorted(usable))
    with_metric = [row for row in rows if _is_per_seed(row.get(metric))]
    x = np.array([row["step"] for row in with_metric], np.float64)
    columns = [[np.nan if v is None else float(v) for v in row[metric]] for row in with_metric]
    y_label = "return" if metric == RETURN else metric.replace("_", " ")
    values = np.array(columns, np.float64).T
    return Curve(algorithm, env, settings, x, values, "environment steps", y_label, False)


def _is_per_seed(column: Any) -> bool:
    """Return whether a column of a row has one number (or None) for every seed."""
    is_list = isinstance(column, list | tuple) and len(column) > 0
    return is_list and all(x is None or isinstance(x, Real) for x in column)


def _curve_of(run: Any, metric: str | None, root: Path) -> Curve:
    if isinstance(run, str | Path):
        run = find_run(root, str(run))
    if isinstance(run, HasCurve):
        return run.curve(metric)
    if not isinstance(run, Run | UnfinishedRun):
        raise InputError(
            f"runs: a {type(run).__name__} given; it must be a trace, an agent, a run or its id"
        )
    return curve_of_run(run, metric)


def curve_of_run(run: Run | UnfinishedRun, metric: str | None = None) -> Curve:
    """Return a metric of a stored run; by default regret, or the return of evaluations."""
    config = run.config
    env = str(config.get("env", ""))
    if config.get("experiment") == "train":
        rows = run.rows() if isinstance(run, UnfinishedRun) else _rows(run)
        algorithm, settings = str(config.get("algo", "")), config.get("settings", {})
        return training_curve(rows, metric, algorithm=algorithm, env=env, settings=settings)
    if isinstance(run, UnfinishedRun) or config.get("experiment") != "tabular":
        raise InputError(f"runs: {run.path.name} is no run of `narl tabular` or `narl train`")
    arrays = {name: x.astype(np.float64) for name, x in run.arrays().items()}
    if not {"regret", "value"} <= arrays.keys() or "v_star" not in run.metrics:
        raise InputError(f"run: {run.path.name} does not hold the regret of its episodes")
    v_star = float(run.metrics["v_star"])
    terms = {
        "optimism": v_star - arrays["value"],
        "estimation_error": arrays["value"] - (v_star - arrays["regret"]),
    }
    algorithm, settings = str(config.get("agent", "")), config.get("options", {})
    return tabular_curve(arrays | terms, metric, algorithm=algorithm, env=env, settings=settings)


def _rows(run: Run) -> list[dict[str, Any]]:
    return rows_from_bytes(run.extra(METRICS_LOG))


# --- tables for pandas ------------------------------------------------------------------------


def data_frame(columns: Mapping[str, Any]) -> Any:
    """Return a pandas.DataFrame of columns."""
    return import_extra("pandas", "pandas").DataFrame(dict(columns))


def epoch_columns(
    rows: Sequence[Mapping[str, Any]], seeds: Sequence[int]
) -> dict[str, list[float | int | None]]:
    """Return the metrics of epochs as columns, with one row for every epoch and seed.

    Lists over the ensemble's members become columns such as holdout_error_0; the seconds of an
    epoch, which all seeds share, stand beside every seed.
    """
    records = [
        {"step": row["step"], "seed": seed} | dict(_entries(row, place))
        for row in rows
        for place, seed in enumerate(seeds)
    ]
    names = dict.fromkeys(name for record in records for name in record)
    return {name: [record.get(name) for record in records] for name in names}


def _entries(row: Mapping[str, Any], place: int) -> Iterable[tuple[str, Any]]:
    """Yield the numbers of one seed in a row, by name."""
    for name, column in row.items():
        if isinstance(column, Mapping):
            yield from ((f"{name}_{part}", value) for part, value in column.items())
        elif not isinstance(column, list | tuple):
            yield name, column
        elif isinstance(own := column[place], list | tuple):
            yield from (
                (f"{name}_{i}", x) for i, x in enumerate(own) if not isinstance(x, list | tuple)
            )
        else:
            yield name, own
