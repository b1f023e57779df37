"""Charts as figures for papers: PNG and PDF files, the same bytes for the same numbers."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import XAxis, YAxis
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    Locator,
    LogLocator,
    MaxNLocator,
    NullLocator,
)

from narl.palette import COLOURS, Look
from narl.report.contents import Axis, Chart
from narl.report.number_format import format_number
from narl.report.series import Line, check_chart, choose_looks, form_of, is_share, lines_of
from narl.report.vega_lite import are_whole, fill_of, reference_level, symlog_ticks

MOST_POINTS = 2000
"""Points per line of a figure at most: more than print can show."""
WIDTH, HEIGHT, ROW = 5.4, 2.95, 0.165
"""Inches: the text width of most papers, the axes' height, and the height of a legend row."""
LINE_OF_LEGEND = 84
"""Letters that fit side by side below a figure."""
STEPS = [1, 2, 2.5, 5, 10]

GREY, FAINT = "#57606a", "#e3e7eb"
STYLE: Any = {  # Any, because its type would be a list of all of matplotlib's settings
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "axes.labelcolor": GREY,
    "axes.edgecolor": "#b4bcc5",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.unicode_minus": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.8,
    "xtick.color": "#b4bcc5",
    "xtick.labelcolor": GREY,
    "ytick.color": "#b4bcc5",
    "ytick.labelcolor": GREY,
    "ytick.major.size": 0,
    "lines.linewidth": 1.5,
    "lines.scale_dashes": False,
    "legend.frameon": False,
    "legend.handlelength": 2.4,
    "legend.columnspacing": 1.6,
    "text.parse_math": False,  # a dollar sign in a label is a dollar sign
    "figure.dpi": 100,
    "savefig.dpi": 200,
    "pdf.fonttype": 42,
}


def draw_figure(chart: Chart, looks: Mapping[str, Look] | None = None) -> Figure:
    """Return the chart as a figure; ``looks`` gives a label the same look in several figures."""
    form = form_of(chart)
    check_chart(chart)
    looks = choose_looks([chart]) if looks is None else looks
    drawn = lines_of(chart, MOST_POINTS)
    names = [line.label for line in drawn]
    level = reference_level(chart)
    if form == "rows":
        with matplotlib.rc_context(STYLE):
            return _draw_rows(chart, drawn, looks)
    if level is not None:
        names.append(chart.reference_label or format_number(level))
    with matplotlib.rc_context(STYLE):
        columns = _num_columns(names)
        height = HEIGHT + ROW * -(-len(names) // columns)
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        axes = figure.subplots()
        axes.set_title(chart.title)
        axes.set_xlabel(chart.x_label)
        axes.set_ylabel(chart.y_label)
        if not drawn:
            axes.set(xticks=[], yticks=[], frame_on=False)
            axes.text(0.5, 0.5, "no data", transform=axes.transAxes, ha="center", color=GREY)
            return figure
        axes.set_xscale(chart.x_axis, **_threshold(chart.x_axis))
        axes.set_yscale(chart.y_axis, **_threshold(chart.y_axis))
        axes.margins(x=0.02)
        if form == "line":
            keys: list[Any] = [_draw(axes, line, looks[line.label]) for line in drawn]
            _ticks(axes.xaxis, chart.x_axis, np.concatenate([line.x for line in drawn]))
        else:
            keys = _draw_beside(axes, drawn, looks, bars=form == "bars")
        if level is not None:
            keys.append(axes.axhline(level, color=GREY, linewidth=1, dashes=(4, 3)))
        heights = [part for line in drawn for part in line[2:]]
        _ticks(axes.yaxis, chart.y_axis, np.concatenate(heights))
        _legend(figure, keys, names, columns)
    return figure


def figure_bytes(figure: Figure, kind: str) -> bytes:
    """Return the bytes of a PNG or PDF file without a date or the name of a program."""
    empty = ("Software",) if kind == "png" else ("Creator", "Producer", "CreationDate")
    file = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(file, format=kind, metadata=dict.fromkeys(empty))
    return file.getvalue()


def _draw(axes: Axes, line: Line, look: Look) -> Line2D:
    """Draw a line with its band and dots, and return the stroke for the legend."""
    colour = COLOURS[look.colour].light
    if line.has_band:
        axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.16, linewidth=0)
    pattern: dict[str, Any] = {"dashes": look.dashes} if look.dashes else {}
    (stroke,) = axes.plot(line.x, line.y, color=colour, solid_joinstyle="round", **pattern)
    x, y = line.x[line.dots], line.y[line.dots]
    axes.plot(x, y, color=colour, linestyle="", marker="o", markersize=3.2)
    return stroke


def _draw_beside(
    axes: Axes, drawn: list[Line], looks: Mapping[str, Look], *, bars: bool
) -> list[Any]:
    """Draw bars or dots side by side with their bands, and return the keys for the legend."""
    values = sorted({float(x) for line in drawn for x in line.x})
    width = 0.65 / len(drawn)
    keys: list[Any] = []
    for place, line in enumerate(drawn):
        look = looks[line.label]
        colour = COLOURS[look.colour].light
        inside = (colour, fill_of(look, bars=bars))
        at = np.searchsorted(values, line.x) + width * (place - (len(drawn) - 1) / 2)
        if bars:
            outline: dict[str, Any] = {"edgecolor": colour, "linestyle": (0, look.dashes or None)}
            keys.append(axes.bar(at, line.y, 0.9 * width, facecolor=inside, **outline))
        else:
            dot: dict[str, Any] = {"marker": "o", "markersize": 4.5, "markerfacecolor": inside}
            # By default the outline would be as transparent as the inside.
            dot["markeredgecolor"] = colour
            keys += axes.plot(at, line.y, color=colour, linestyle="", **dot)
        axes.vlines(at, line.low, line.high, color=colour, linewidth=1.2)
    axes.set_xticks(range(len(values)), [format_number(x) for x in values])
    axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]) if axes.dataLim.y0 < 0 else 0.0)
    return keys


def _draw_rows(chart: Chart, drawn: list[Line], looks: Mapping[str, Look]) -> Figure:
    """Return a figure with one interval per row, the first series at the top."""
    figure = Figure(figsize=(WIDTH, 0.9 + 0.26 * max(2, len(drawn))), layout="constrained")
    axes = figure.subplots()
    axes.set_title(chart.title)
    axes.set_xlabel(chart.y_label)
    axes.grid(visible=False, axis="y")
    axes.grid(visible=True, axis="x")
    for place, line in enumerate(drawn):
        look = looks.get(line.label)
        colour = COLOURS[0 if look is None else look.colour].light
        axes.hlines(place, line.low, line.high, color=colour)
        axes.plot(line.y, [place], color=colour, linestyle="", marker="o", markersize=4.5)
    if (level := reference_level(chart)) is not None:
        axes.axvline(level, color=GREY, linewidth=1, dashes=(4, 3))
    axes.set_yticks(range(len(drawn)), [line.label for line in drawn])
    axes.set_ylim(len(drawn) - 0.4, -0.6)
    if is_share(chart):
        axes.set_xlim(-0.02, 1.02)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_number(float(value))))
    return figure


def _threshold(kind: Axis) -> dict[str, Any]:
    """Return the place where a symlog axis turns linear: at 1, as on the page."""
    return {"linthresh": 1.0} if kind == "symlog" else {}


def _ticks(axis: XAxis | YAxis, kind: Axis, values: np.ndarray) -> None:
    """Set ticks at round places, with plain numbers."""
    if kind == "linear":
        axis.set_major_locator(MaxNLocator(6, steps=STEPS, integer=are_whole(values)))
    elif kind == "log":
        axis.set_major_locator(_log_ticks(values[np.isfinite(values)]))
        axis.set_minor_locator(NullLocator())
    else:
        ticks = symlog_ticks(values) or MaxNLocator(6).tick_values(*axis.get_view_interval())
        axis.set_major_locator(FixedLocator(list(ticks)))
        axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: format_number(float(value))))


def _log_ticks(values: np.ndarray) -> Locator:
    """Return powers of ten, and over a short range also numbers between them."""
    ratio = values.max() / values.min()
    if ratio < 3:
        return MaxNLocator(6, steps=STEPS)
    digits = range(1, 10) if ratio < 10 else (1, 2, 5) if ratio < 1000 else (1,)
    return LogLocator(subs=tuple(digits), numticks=10)


def _num_columns(names: list[str]) -> int:
    width = max((len(name) for name in names), default=0) + 8
    return max(1, min(len(names), LINE_OF_LEGEND // width))


def _legend(figure: Figure, keys: list[Any], names: list[str], columns: int) -> None:
    """Put the legend below the axes, where it covers nothing."""
    # matplotlib leaves out a name that begins with an underscore
    shown = [f"\u200b{name}" if name.startswith("_") else name for name in names]
    figure.legend(keys, shown, loc="outside lower center", ncols=columns)
