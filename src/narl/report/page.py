"""The report as one HTML file that needs nothing from outside."""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import vl_convert

from narl.report.charts import MOST_POINTS, describe, drawing, reference
from narl.report.document import Chart, Outcome
from narl.report.markup import (
    anchor,
    badge,
    claim_list,
    data,
    facts,
    inline,
    prose,
    swatch,
    table,
    tally,
    text,
)
from narl.report.number_format import plain
from narl.report.palette import COLOURS, Look, looks
from narl.report.series import lines, num_off_axis

TITLE = "Towards Tractable Optimism in Model‑Based Reinforcement Learning"
LEFT_OUT = ("time", "seconds")
"""Of the environment: they belong to a single run, not to the experiment."""
HINT = (
    "Click a name in a legend to hide or show its line, double-click it to see it alone. "
    "Drag a chart to pan, hold Ctrl and turn the wheel (or pinch) to zoom, double-click to go "
    "back. With the keyboard, the arrow keys walk along a chart. A click on a column's name "
    "sorts a table."
)

BANDS = "Lines are medians over seeds and bands their quartiles unless a caption says otherwise. "
FOOT = (
    f"Of a line with more than {MOST_POINTS} points the page draws {MOST_POINTS}, the last among "
    "them. This file loads nothing from outside."
)


def compose(outcomes: Sequence[Outcome]) -> str:
    """The whole page."""
    style = looks(chart for outcome in outcomes for chart in outcome.charts)
    common = _common([outcome.environment for outcome in outcomes])
    body = "\n".join(
        [
            _skip(outcomes),
            _header(outcomes),
            "<main>",
            *([_summary(outcomes)] if _reproduces(outcomes) else []),
            *(_experiment(outcome, style, common) for outcome in outcomes),
            "</main>",
            _footer(outcomes),
            '<div id="tip" role="status" hidden></div>',
        ]
    )
    scripts = [_library(), _asset("page.js")]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(scripts)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>narl report: {text(', '.join(_name(o) for o in outcomes))}</title>\n"
        f"<style>\n{_colours()}{_asset('page.css')}</style>\n</head>\n<body>\n{body}\n"
        + "".join(f"<script>{script}</script>\n" for script in scripts)
        + "</body>\n</html>\n"
    )


def outcome_id(outcome: Outcome) -> str:
    """The name of an experiment's section."""
    return anchor(outcome.id, outcome.scale)


def chart_id(outcome: Outcome, chart: Chart) -> str:
    """The name of a chart and of its files: fig1a-paper-regret."""
    return anchor(outcome_id(outcome), chart.id.removeprefix(outcome.id))


def _name(outcome: Outcome) -> str:
    return f"{outcome.id} ({outcome.scale})" if outcome.scale else outcome.title


def _reproduces(outcomes: Sequence[Outcome]) -> bool:
    """Whether experiments are shown; trainings have no scale and test no claims."""
    return any(outcome.scale for outcome in outcomes)


def _skip(outcomes: Sequence[Outcome]) -> str:
    if _reproduces(outcomes):
        return '<a class="skip" href="#claims">Skip to the claims</a>'
    return f'<a class="skip" href="#{outcome_id(outcomes[0])}">Skip to the charts</a>'


def _header(outcomes: Sequence[Outcome]) -> str:
    body = _of_experiments(outcomes) if _reproduces(outcomes) else _of_trainings(outcomes)
    return (
        f"<header>\n{body}\n{facts(_anywhere(outcomes))}\n"
        f'<p class="muted small hint">{text(HINT)}</p>\n'
        "<noscript><p>The charts on this page need JavaScript. The same figures lie beside it as "
        "PNG and PDF.</p></noscript>\n</header>"
    )


def _footer(outcomes: Sequence[Outcome]) -> str:
    words = BANDS + FOOT if _reproduces(outcomes) else FOOT
    return f'<footer class="muted small"><p>{text(words)}</p></footer>'


def _of_trainings(outcomes: Sequence[Outcome]) -> str:
    num_charts = sum(len(outcome.charts) for outcome in outcomes)
    num_runs = sum(len(outcome.runs) for outcome in outcomes)
    links = ", ".join(
        f'<a href="#{outcome_id(outcome)}">{inline(outcome.title)}</a>' for outcome in outcomes
    )
    return (
        '<p class="kicker">narl · report of trainings</p>\n'
        f"<h1>{text(', '.join(outcome.title for outcome in outcomes))}</h1>\n"
        f'<p class="lead">{_count(num_runs, "training")}, {_count(num_charts, "chart")}'
        f"{f': {links}' if len(outcomes) > 1 else ''}</p>"
    )


def _of_experiments(outcomes: Sequence[Outcome]) -> str:
    rows = [
        f'<tr><th scope="row"><a href="#{outcome_id(outcome)}">{inline(outcome.title)}</a></th>'
        f"<td>{text(outcome.scale)}</td>"
        f'<td><code class="command">{text(outcome.command)}</code></td>'
        f"<td>{tally(outcome.claims)}</td></tr>"
        for outcome in outcomes
    ]
    num_charts = sum(len(outcome.charts) for outcome in outcomes)
    claims = [claim for outcome in outcomes for claim in outcome.claims]
    num_ours = sum(claim.is_ours for claim in claims)
    counts = (
        f"{_count(len(outcomes), 'experiment')}, {_count(num_charts, 'chart')}, "
        f"{_count(len(claims) - num_ours, 'claim')} of the paper"
        f"{f' and {num_ours} of ours' if num_ours else ''} put to the test"
    )
    return (
        '<p class="kicker">narl · report of a reproduction</p>\n'
        f"<h1>{text(TITLE)}</h1>\n"
        f'<p class="lead">{counts}: {tally(claims)}</p>\n'
        '<div class="scroll"><table class="stack"><thead><tr><th scope="col">Experiment</th>'
        '<th scope="col">Scale</th><th scope="col">Made again by</th><th scope="col">Claims</th>'
        f"</tr></thead>\n<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _summary(outcomes: Sequence[Outcome]) -> str:
    order = {"fails": 0, "undecided": 1, "holds": 2}
    rows = [
        f'<tr><td data-sort="{order.get(claim.verdict, 1)}">{badge(claim.verdict)}</td>'
        f'<th scope="row" class="statement">'
        f'<a href="#{anchor(outcome_id(outcome), "claim", claim.id)}">{inline(claim.statement)}</a>'
        f'</th><td>{inline(claim.where)}</td><td><a href="#{outcome_id(outcome)}">'
        f"{text(_name(outcome))}</a></td></tr>"
        for outcome in outcomes
        for claim in outcome.claims
    ]
    heads = "".join(
        f'<th scope="col"><button type="button">{name}</button></th>'
        for name in ("Verdict", "Statement", "Where", "Tested in")
    )
    listed = (
        '<div class="scroll"><table class="sortable stack claims-table">'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>{''.join(rows)}</tbody></table></div>"
        if rows
        else '<p class="muted">No claims were tested.</p>'
    )
    return (
        '<section id="claims"><h2>Claims</h2>\n'
        '<p class="muted">A claim is a statement of the paper (or of ours, where it says so) as a '
        "condition on the measured numbers. It <em>holds</em> if they meet it, <em>fails</em> if "
        "they contradict it, and is <em>undecided</em> if this scale or spread cannot tell.</p>\n"
        f"{listed}</section>"
    )


def _experiment(outcome: Outcome, style: Mapping[str, Look], common: Mapping[str, Any]) -> str:
    id = outcome_id(outcome)
    charts = [_chart(chart, f"chart-{chart_id(outcome, chart)}", style) for chart in outcome.charts]
    grid = "charts" + (" pair" if len(charts) > 1 else "") + (" odd" if len(charts) % 2 else "")
    tables = [table(item, anchor(id, "table", item.id)) for item in outcome.tables]
    own = {k: v for k, v in _shown(outcome.environment).items() if k not in common}
    notes = "".join(f"<li>{inline(note)}</li>" for note in outcome.notes)
    runs = "".join(f"<li><code>{text(run)}</code></li>" for run in outcome.runs)
    scale = f' <span class="scale">{text(outcome.scale)} scale</span>' if outcome.scale else ""
    parts = [
        f'<section class="experiment" id="{id}" aria-labelledby="{id}-title">',
        f'<h2 id="{id}-title">{inline(outcome.title)}{scale}</h2>',
        *_introduction(outcome),
        facts(own),
        f'<div class="{grid}">{"".join(charts)}</div>' if charts else "",
        claim_list(outcome, id),
        *tables,
        f'<div class="block"><h3>Notes</h3><ul class="notes">{notes}</ul></div>' if notes else "",
        f"<details><summary>{_count(len(outcome.runs), 'run')} behind it</summary>"
        f"<ul>{runs}</ul></details>"
        if runs
        else "",
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _introduction(outcome: Outcome) -> list[str]:
    """What was run and the command for it; of several trainings, each with its own."""
    about = [part for part in re.split(r"\n\s*\n", outcome.about) if part.strip()]
    commands = outcome.command.splitlines()
    if len(about) != len(commands):
        about, commands = [outcome.about], [outcome.command]
    return [
        f'{prose(words)}\n<p><code class="command">{text(command)}</code></p>'
        for words, command in zip(about, commands, strict=True)
    ]


def _chart(chart: Chart, id: str, style: Mapping[str, Look]) -> str:
    drawn = lines(chart)
    head = f"<h3>{inline(chart.title)}</h3>"
    caption = prose(chart.caption) + "".join(f"<p>{text(note)}</p>" for note in _remarks(chart))
    foot = f"<figcaption>{caption}</figcaption>" if caption else ""
    if not drawn:
        return (
            f'<figure class="chart" id="{id}">{head}'
            f'<p class="empty">There is no data for this chart.</p>{foot}</figure>'
        )
    entries = [
        f'<li><button type="button" aria-pressed="true" data-series="{text(line.label)}">'
        f"{swatch(style[line.label])}{text(line.label)}</button></li>"
        for line in drawn
    ]
    if (level := reference(chart)) is not None:
        name = chart.reference_label or plain(level)
        entries.append(f'<li><span class="fixed">{swatch(None)}{text(name)}</span></li>')
    zoom = "".join(
        f'<button type="button" data-zoom="{act}" aria-label="{words}" title="{words}">{sign}'
        "</button>"
        for act, words, sign in (
            ("in", "Zoom in", "+"),
            ("out", "Zoom out", "−"),
            ("reset", "Show everything", "Reset"),
        )
    )
    return (
        f'<figure class="chart" id="{id}" data-filled>'
        f'<div class="chart-head">{head}<div class="zoom">{zoom}</div></div>'
        f'<ul class="legend" aria-label="Lines of this chart">{"".join(entries)}</ul>'
        f'<div class="plot" role="img" tabindex="0" aria-label="{text(describe(chart))}"></div>'
        f'{foot}<script type="application/json">{data(drawing(chart, style))}</script></figure>'
    )


def _remarks(chart: Chart) -> list[str]:
    """What the drawing leaves out."""
    remarks = []
    if num := num_off_axis(chart):
        remarks.append(f"{_count(num, 'point')} at or below zero not on the logarithmic axis.")
    empty = len(chart.series) - len(lines(chart))
    if empty and empty < len(chart.series):
        known = {line.label for line in lines(chart)}
        names = ", ".join(series.label for series in chart.series if series.label not in known)
        remarks.append(f"Without data: {names}.")
    return remarks


def _shown(environment: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in environment.items() if k not in LEFT_OUT and v is not None}


def _anywhere(outcomes: Sequence[Outcome]) -> dict[str, str]:
    """Every part of the environments, with all the values it had."""
    values: dict[str, dict[str, None]] = {}
    for outcome in outcomes:
        for name, value in _shown(outcome.environment).items():
            values.setdefault(name, {})[str(value)] = None
    return {name: " / ".join(seen) for name, seen in values.items()}


def _common(environments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What all experiments were run with."""
    first, *others = [_shown(environment) for environment in environments]
    return {k: v for k, v in first.items() if all(k in o and o[k] == v for o in others)}


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _colours() -> str:
    def block(shades: list[str]) -> str:
        return "".join(f" --series-{place}: {shade};" for place, shade in enumerate(shades))

    light, dark = block([c.light for c in COLOURS]), block([c.dark for c in COLOURS])
    query = "@media screen and (prefers-color-scheme: dark)"
    return f":root {{{light} }}\n{query} {{ :root {{{dark} }} }}\n"


def _asset(name: str) -> str:
    return importlib.resources.files("narl.report").joinpath(name).read_text(encoding="utf-8")


@cache
def _library() -> str:
    """Vega, Vega-Lite and Vega-Embed, once for the page; nothing in it ends its script element."""
    code = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return re.sub(r"<(/script|!--)", r"\\x3c\1", code, flags=re.IGNORECASE)


def _policy(scripts: Sequence[str]) -> str:
    """A content security policy: these scripts, inline styles, and no request to anywhere."""
    hashes = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts
    ]
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'"
    )
