"""A chart for the page: its Vega-Lite specification, its data in columns, its alternative text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np

from narl.palette import Look
from narl.report.contents import Axis, Chart
from narl.report.number_format import format_number, format_rows
from narl.report.series import Form, Line, form_of, is_share, lines_of

MOST_POINTS = 200
"""Points per line that the page holds at most."""

NUM_TICKS = 6
ROW = 36
"""Pixels of a row in a chart of intervals, which has its name and below it its numbers."""
ROW_DIGITS = 3
FAR = 7
"""Powers of ten from which on a symlog axis shows only every third."""


def drawing(chart: Chart, looks: Mapping[str, Look]) -> dict[str, Any]:
    """Return everything that the page needs to draw a chart."""
    drawn = lines_of(chart, MOST_POINTS)
    texts = _row_texts(drawn) if form_of(chart) == "rows" else [None] * len(drawn)
    return {
        "spec": _specification(chart, drawn, looks),
        "series": [
            _columns(line) | ({} if text is None else {"text": text})
            for line, text in zip(drawn, texts, strict=True)
        ],
        "xLabel": chart.x_label,
        "form": form_of(chart),
    }


def describe(chart: Chart) -> str:
    """Return the chart in words: its axes, and the last value of each line."""
    drawn = lines_of(chart)
    if not drawn:
        return f"Chart: {chart.title}. No data."
    form = form_of(chart)
    ends = [_end(line, form) for line in drawn]
    across = ""
    if (level := reference_level(chart)) is not None:
        across = (
            f" {'Vertical' if form == 'rows' else 'Horizontal'} line: "
            f"{chart.reference_label or 'reference'}, {format_number(level)}."
        )
    if form == "rows":
        return f"Intervals: {chart.title}. {chart.y_label}: {'; '.join(ends)}.{across}"
    kind = {"line": "Line", "dots": "Dot", "bars": "Bar"}[form]
    return (
        f"{kind} chart: {chart.title}. {chart.y_label} against {chart.x_label}. "
        f"Last values: {'; '.join(ends)}.{across}"
    )


def reference_level(chart: Chart) -> float | None:
    """Return the height of the horizontal line, if there is one that the axis can show."""
    level = chart.reference
    if level is None or not math.isfinite(level) or (chart.y_axis == "log" and level <= 0):
        return None
    return float(level)


def _end(line: Line, form: Form) -> str:
    """Return the last value of a line in words, with its band."""
    last = int(np.flatnonzero(np.isfinite(line.y))[-1])
    x, *numbers = (float(values[last]) for values in line[1:])
    ((y, low, high),) = format_rows([numbers])
    has_band = np.isfinite(line.low[last]) and np.isfinite(line.high[last])
    band = f" ({low} to {high})" if has_band else ""
    return f"{line.label} {y}{band}" + ("" if form == "rows" else f" at {format_number(x)}")


def _row_texts(drawn: Sequence[Line]) -> list[str]:
    """Return the numbers beside the rows of a chart of intervals, such as "1.50 [1.25, 1.70]"."""
    rows = [[float(values[0]) for values in line[2:]] for line in drawn]
    return [
        f"{y} [{low}, {high}]" if line.has_band else y
        for line, (y, low, high) in zip(drawn, format_rows(rows, ROW_DIGITS), strict=True)
    ]


def _columns(line: Line) -> dict[str, Any]:
    """Return a line as columns for the page, with null for gaps."""
    columns: dict[str, Any] = {
        "label": line.label,
        "x": _rounded(line.x, digits=7),
        "y": _rounded(line.y),
        "dots": [int(place) for place in np.flatnonzero(line.dots)],
    }
    if line.has_band:
        columns |= {"low": _rounded(line.low), "high": _rounded(line.high)}
    return columns


def _rounded(values: np.ndarray, digits: int = 5) -> list[float | int | None]:
    """Return numbers with as many digits as a screen shows, and the last one exact."""
    rounded = [float(f"{value:.{digits}g}") for value in values[:-1]] + [float(values[-1])]
    return [
        None if math.isnan(value) else int(value) if value.is_integer() else value
        for value in rounded
    ]


def _specification(chart: Chart, drawn: list[Line], looks: Mapping[str, Look]) -> dict[str, Any]:
    """Return the Vega-Lite specification of a chart in its form.

    The page fills the data sets `points`, `cursor` (the points at the cursor) and `at` (one of
    these), and sets the parameter `hidden` to the labels of hidden lines: the scales fit the rest.
    """
    form = form_of(chart)
    height = 300
    if form == "rows":
        layers, height = _row_layers(chart, drawn, looks), ROW * len(drawn)
    elif form == "line":
        layers = _line_layers(chart, drawn, looks)
    else:
        layers = _beside_layers(chart, drawn, looks)
    whole = alt.layer(*layers).add_params(alt.param(name="hidden", value=[]))
    whole = whole.properties(width="container", height=height)
    if form != "rows":
        title = alt.TitleParams(chart.y_label, anchor="start", frame="bounds")
        whole = whole.properties(title=title)
    packed = whole.to_dict()
    return {name: part for name, part in packed.items() if name not in ("$schema", "config")}


def _shown() -> alt.Chart:
    """Return the points of the series that are not hidden."""
    return alt.Chart(alt.NamedData("points")).transform_filter("indexof(hidden, datum.s) < 0")


def _reference(chart: Chart, channel: type[alt.XDatum | alt.YDatum]) -> list[alt.Chart]:
    """Return the reference line, if there is one."""
    if (level := reference_level(chart)) is None:
        return []
    rule = alt.Chart(alt.NamedData("one")).mark_rule(
        clip=True, color="var(--reference)", strokeDash=[5, 4]
    )
    return [rule.encode(channel(level, type="quantitative", title=None))]


def _row_layers(chart: Chart, drawn: list[Line], looks: Mapping[str, Look]) -> list[alt.Chart]:
    """Return one row per series: its interval, and left of the axis its name and its numbers."""
    scale = alt.Scale(domain=[0, 1]) if is_share(chart) else alt.Scale(zero=False, padding=8)
    x = alt.X("y:Q").title(chart.y_label).scale(scale)
    x = x.axis(tickCount=NUM_TICKS, titleAnchor="end")
    y = alt.Y("t:N").sort(None).title(None)
    y = y.axis(labelExpr="split(datum.value, '\\n')", labelLineHeight=14, labelFontSize=12)
    own = [looks.get(line.label) for line in drawn]
    colours = ["var(--link)" if look is None else f"var(--series-{look.colour})" for look in own]
    colour = alt.Color("s:N").legend(None).scale(domain=[x.label for x in drawn], range=colours)
    return [
        *_reference(chart, alt.XDatum),
        _shown()
        .mark_rule(strokeWidth=2.5)
        .encode(alt.X("l:Q").title(chart.y_label).scale(scale), alt.X2("h"), y, colour),
        _shown().mark_point(filled=True, opacity=1, size=70).encode(x, y, colour),
    ]


def _beside_layers(chart: Chart, drawn: list[Line], looks: Mapping[str, Look]) -> list[alt.Chart]:
    """Return bars or dots side by side at every x, each with its band as a stroke.

    Series of one colour differ in their outlines, and only the first of them is filled.
    """
    bars = form_of(chart) == "bars"
    labels = [line.label for line in drawn]
    x = alt.X("x:O").title(chart.x_label).axis(labelAngle=0, grid=False)
    x = x.scale(paddingInner=0.3, paddingOuter=0.15)
    beside = alt.XOffset("s:N").scale(domain=labels)
    y = alt.Y("y:Q").title(None).scale(zero=True, nice=NUM_TICKS)
    y = y.axis(_axis("linear", "y", [part for line in drawn for part in line[2:]]))
    colour, dash = _colour_and_dash(drawn, looks)
    shades = [fill_of(looks[label], bars=bars) for label in labels]
    inside = alt.FillOpacity("s:N").sort(labels).legend(None)
    inside = inside.scale(type="ordinal", domain=labels, range=shades)
    colours = [f"var(--series-{looks[label].colour})" for label in labels]
    outline = alt.Stroke("s:N").legend(None).scale(domain=labels, range=colours)
    mark = _shown().mark_bar() if bars else _shown().mark_point(filled=True, opacity=1, size=64)
    return [
        *_reference(chart, alt.YDatum),
        alt.Chart(alt.NamedData("at")).mark_rule(color="var(--cursor)").encode(x),
        mark.encode(x, y, beside, colour, inside, outline, dash),
        _shown()
        .mark_rule(strokeWidth=2)
        .encode(x, alt.Y("l:Q").title(None), alt.Y2("h"), beside, colour),
        alt.Chart(alt.NamedData("cursor"))
        .mark_point(filled=True, opacity=1, size=64)
        .encode(x, y, beside, colour),
    ]


def fill_of(look: Look, *, bars: bool) -> float:
    """Return the opacity inside bars or dots: those whose outline is dashed are nearly empty."""
    return 0.06 if look.dash else (0.45 if bars else 1.0)


def _line_layers(chart: Chart, drawn: list[Line], looks: Mapping[str, Look]) -> list[alt.Chart]:
    """Return bands, lines, dots and the cursor."""
    dotted = any(line.dots.any() for line in drawn)
    x = alt.X("x:Q").title(chart.x_label).scale(_scale(chart.x_axis, "x", dotted))
    x = x.axis(_axis(chart.x_axis, "x", [line.x for line in drawn]))
    scale = _scale(chart.y_axis, "y", dotted)
    if dotted and chart.y_axis == "linear" and _begins_at_zero(drawn, reference_level(chart)):
        # Round ends would widen the room for dots to a whole step below zero.
        scale = alt.Scale(zero=True, nice=False, padding=4)
    y = alt.Y("y:Q").title(None).scale(scale)
    y = y.axis(_axis(chart.y_axis, "y", [part for line in drawn for part in line[2:]]))
    colour, dash = _colour_and_dash(drawn, looks)
    zoom = alt.selection_interval(
        name="zoom", bind="scales", zoom="wheel![event.ctrlKey || event.metaKey]", clear="dblclick"
    )
    shown = _shown()
    cursor = alt.Chart(alt.NamedData("cursor"))
    return [
        *_reference(chart, alt.YDatum),
        alt.Chart(alt.NamedData("at")).mark_rule(clip=True, color="var(--cursor)").encode(x),
        shown.mark_area(clip=True, opacity=0.16).encode(
            x, alt.Y("l:Q").title(None), alt.Y2("h"), colour
        ),
        shown.mark_line(clip=True, strokeWidth=2, strokeJoin="round")
        .encode(x, y, colour, dash)
        .properties(name="lines")
        .add_params(zoom),
        shown.transform_filter("datum.dot")
        .mark_point(clip=True, filled=True, opacity=1, size=36)
        .encode(x, y, colour),
        cursor.mark_point(clip=True, filled=True, opacity=1, size=64).encode(x, y, colour),
    ]


def _colour_and_dash(
    drawn: list[Line], looks: Mapping[str, Look]
) -> tuple[alt.Color, alt.StrokeDash]:
    labels = [line.label for line in drawn]
    own = [looks[label] for label in labels]
    colours = [f"var(--series-{look.colour})" for look in own]
    dashes = [list(look.dashes) or [1, 0] for look in own]
    return (
        alt.Color("s:N").legend(None).scale(domain=labels, range=colours),
        alt.StrokeDash("s:N").legend(None).scale(domain=labels, range=dashes),
    )


def _scale(axis: Axis, channel: str, dotted: bool) -> alt.Scale:
    """Return a scale that leaves room for dots at both ends; a linear one has round ends."""
    if axis == "linear" and channel == "y":
        return alt.Scale(zero=False, nice=NUM_TICKS, padding=4 if dotted else 0)
    if axis == "linear":
        return alt.Scale(zero=False, nice=not dotted, padding=8 if dotted else 0)
    # whole decades around the data would waste most of the picture
    return alt.Scale(type=axis, nice=False, padding=8 if dotted or channel == "y" else 0)


def _begins_at_zero(drawn: Sequence[Line], reference: float | None) -> bool:
    """Return whether the lowest value or band is at zero, or above it by less than a tick."""
    flat = np.concatenate([part for line in drawn for part in line[2:]])
    low, high = np.nanmin(flat), np.nanmax(flat)
    if reference is not None:
        low, high = min(low, reference), max(high, reference)
    return bool(0 <= low <= high / 10)


def _axis(axis: Axis, channel: str, values: Sequence[np.ndarray]) -> alt.Axis:
    """Return an axis with few, round ticks at any zoom.

    Vega's own ticks are too many on a logarithmic axis.
    """
    flat = np.concatenate(values)
    value, size = "datum.value", "abs(datum.value)"
    brief = f"replace(format({value}, '~e'), '+', '')"
    label = f"{size} >= 1e6 ? {brief} : format({value}, ',~r')"
    if axis == "linear" or (axis == "symlog" and not symlog_ticks(flat)):
        whole = 1 if are_whole(flat) else alt.Undefined
        if channel == "x" and whole == 1 and np.ptp(flat) <= NUM_TICKS:  # such as members
            numbers = list(range(int(flat.min()), int(flat.max()) + 1))
            return alt.Axis(grid=False, values=numbers, format="d")
        usual = f"{size} >= 1e6 ? {brief} : datum.label"
        return alt.Axis(
            grid=channel == "y", tickCount=NUM_TICKS, tickMinStep=whole, labelExpr=usual
        )
    low, high = f"domain('{channel}')[0]", f"domain('{channel}')[1]"
    power = f"floor(log({size}) / LN10 + 1e-9)"
    digit = f"round({size} / pow(10, {power}))"
    if axis == "log":
        ratio = f"{high} / {low}"
        digits = f"{ratio} < 10 ? [1,2,3,5,7] : {ratio} < 1000 ? [1,2,5] : [1]"
        shown = f"{ratio} < 4 || indexof({digits}, {digit}) >= 0"
        ticks: dict[str, Any] = {"tickCount": NUM_TICKS}
    else:
        far = f"max(abs({low}), abs({high}))"
        digits = f"{size} * 20 > {far} ? [1,2,5] : [1]"
        third = f"{far} > 1e{FAR} ? {power} > 0 && {power} % 3 == 0 && {digit} == 1 : "
        shown = f"{value} == 0 || ({third}indexof({digits}, {digit}) >= 0)"
        every = [sign * d * 10.0**p for sign in (-1, 1) for p in range(16) for d in (1, 2, 5)]
        # Vega drops values beyond the count, which has a default
        ticks = {"values": [*every, 0], "tickCount": 1000}
    visible = {"condition": {"test": shown, "value": 1}, "value": 0}
    return alt.Axis(
        **ticks,
        grid=channel == "y",
        gridOpacity=visible,
        tickOpacity=visible,
        labelExpr=f"{shown} ? ({label}) : ''",
        labelOverlap=False,
    )


def are_whole(values: np.ndarray) -> bool:
    """Return whether all values are whole numbers, so that ticks between them mean nothing."""
    known = values[np.isfinite(values)]
    return bool(np.all(known == np.round(known)))


def symlog_ticks(values: np.ndarray) -> list[float]:
    """Return zero and the powers of ten within the values (every third, if there are many).

    The list is empty for values so close together that even ticks suit them better.
    """
    known = values[np.isfinite(values)]
    top, bottom = float(known.max(initial=0)), float(-known.min(initial=0))
    if max(top, bottom) < 2 or (known.min() * known.max() > 0 and np.ptp(np.log(abs(known))) < 3):
        return []
    few = max(top, bottom) > 10**FAR
    powers = [10.0**power for power in (range(3, 19, 3) if few else range(FAR + 1))]
    below = [-power for power in reversed(powers) if power <= bottom]
    return [*below, 0.0, *(power for power in powers if power <= top)]
