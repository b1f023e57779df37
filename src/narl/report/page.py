"""The page of a report: one HTML file that loads nothing from outside."""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import vl_convert

from narl.palette import COLOURS, Look
from narl.report.contents import Chart, Section, Table
from narl.report.markup import (
    anchor,
    claim_list,
    facts,
    inline,
    prose,
    script_json,
    swatch,
    table,
    tally,
    text,
)
from narl.report.number_format import format_number
from narl.report.run_list import run_list, runs_anchor
from narl.report.series import choose_looks, form_of, lines_of, num_off_axis
from narl.report.vega_lite import MOST_POINTS, describe, drawing, reference_level

TITLE = "Towards Tractable Optimism in Model‑Based Reinforcement Learning"
MOST_BESIDE = 3
"""Claims that fit beside a chart; more of them are taller than it and go below it."""
NOT_SHOWN = ("time", "seconds")
"""Entries of an environment that belong to a single run, not to the section."""
HINT = (
    "Click a name in a legend to hide or show its series, double-click it to see it alone. "
    "Drag a line chart to pan, hold Ctrl and turn the wheel (or pinch) to zoom, double-click to go "
    "back. With the keyboard, the arrow keys move along a chart. A click on a column's name "
    "sorts a table."
)

BANDS = "Lines are medians over seeds and bands their quartiles unless a caption says otherwise. "
FOOT = (
    f"Of a line with more than {MOST_POINTS} points the page draws {MOST_POINTS}, the last among "
    "them. This file loads nothing from outside."
)


def compose_page(sections: Sequence[Section]) -> str:
    """Return the whole page as HTML."""
    looks = choose_looks(chart for section in sections for chart in section.charts)
    common = _common_environment(sections)
    body = "\n".join(
        [
            _skip_link(sections),
            _navigation(sections),
            '<div class="page">',
            _header(sections),
            "<main>",
            *([_summary(sections)] if _has_experiments(sections) else []),
            *(_section(section, looks, common) for section in sections),
            "</main>",
            _footer(sections),
            "</div>",
            '<div id="tip" role="status" hidden></div>',
        ]
    )
    scripts = [_library(), _asset("page.js")]
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(scripts)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>narl report: {text(', '.join(section.name for section in sections))}</title>\n"
        f"<style>\n{_colours()}{_asset('page.css')}</style>\n</head>\n<body>\n{body}\n"
        + "".join(f"<script>{script}</script>\n" for script in scripts)
        + "</body>\n</html>\n"
    )


def section_anchor(section: Section) -> str:
    """Return the name of a section in the page, such as fig1a-paper."""
    return anchor(section.id, section.scale or "")


def chart_anchor(section: Section, chart: Chart) -> str:
    """Return the name of a chart in the page and of its files, such as fig1a-paper-regret."""
    return anchor(section_anchor(section), chart.id.removeprefix(section.id))


def table_anchor(section: Section, item: Table) -> str:
    """Return the name of a table in the page, such as fig1a-paper-table-terms."""
    return anchor(section_anchor(section), "table", item.id)


def _has_experiments(sections: Sequence[Section]) -> bool:
    return any(section.scale is not None for section in sections)


def _skip_link(sections: Sequence[Section]) -> str:
    if _has_experiments(sections):
        return '<a class="skip" href="#claims">Skip to the claims</a>'
    return f'<a class="skip" href="#{section_anchor(sections[0])}">Skip to the charts</a>'


def _navigation(sections: Sequence[Section]) -> str:
    """Return the list of contents, which stays in sight; a button opens it on small screens."""
    entries = ['<li><a href="#claims">Claims</a></li>'] if _has_experiments(sections) else []
    for section in sections:
        charts = "".join(
            f'<li><a href="#{place}">{inline(title)}</a></li>' for place, title in _parts(section)
        )
        scale = f' <span class="muted">{text(section.scale)}</span>' if section.scale else ""
        entries.append(
            f'<li><a href="#{section_anchor(section)}">{inline(section.title)}{scale}</a>'
            f"{f'<ul>{charts}</ul>' if charts else ''}</li>"
        )
    return (
        '<nav class="contents" aria-label="Contents"><button type="button" aria-expanded="false" '
        f'aria-controls="contents">Contents</button><ul id="contents">{"".join(entries)}</ul></nav>'
    )


def _parts(section: Section) -> list[tuple[str, str]]:
    """Return the names and titles of the parts that the contents list: charts, and few tables.

    The tables of an experiment are folded and left out; those of trainings are the results.
    """
    parts = [(f"chart-{chart_anchor(section, chart)}", chart.title) for chart in section.charts]
    if section.comparison is not None:
        parts.insert(1, (table_anchor(section, section.comparison), section.comparison.title))
    if section.scale is None:
        parts += [(table_anchor(section, item), item.title) for item in section.tables]
    return parts


def _header(sections: Sequence[Section]) -> str:
    compose = _experiments_heading if _has_experiments(sections) else _runs_heading
    return (
        f"<header>\n{compose(sections)}\n{facts(_environment_values(sections))}\n"
        f'<details class="hint"><summary>Using the charts</summary><p>{text(HINT)}</p></details>\n'
        "<noscript><p>The charts on this page need JavaScript. The same figures lie beside it as "
        "PNG and PDF.</p></noscript>\n</header>"
    )


def _footer(sections: Sequence[Section]) -> str:
    words = BANDS + FOOT if _has_experiments(sections) else FOOT
    return f'<footer class="muted small"><p>{text(words)}</p></footer>'


def _runs_heading(sections: Sequence[Section]) -> str:
    num_runs = sum(len(section.runs) for section in sections)
    noun = "training" if all(x.id.startswith("train-") for x in sections) else "run"
    return (
        f'<p class="kicker">narl · report of {noun}s</p>\n'
        f"<h1>{text(', '.join(section.title for section in sections))}</h1>\n"
        f'<p class="lead">{_count(num_runs, noun)}, {_count_charts(sections)}</p>'
    )


def _experiments_heading(sections: Sequence[Section]) -> str:
    claims = [claim for section in _largest(sections) for claim in section.claims]
    num_ours = sum(claim.is_ours for claim in claims)
    num_experiments = len(_largest(sections))
    num_smaller = len(sections) - num_experiments
    repeated = f" ({num_smaller} also at a smaller scale)" if num_smaller else ""
    counts = (
        f"{_count(num_experiments, 'experiment')}"
        f"{repeated}, {_count_charts(sections)}, "
        f"{_count(len(claims) - num_ours, 'claim')} of the paper"
        f"{f' and {num_ours} of ours' if num_ours else ''} put to the test"
    )
    return (
        '<p class="kicker">narl · report of a reproduction</p>\n'
        f"<h1>{text(TITLE)}</h1>\n"
        f'<p class="lead">{counts}: {tally(claims)}</p>'
    )


def _largest(sections: Sequence[Section]) -> list[Section]:
    """Return the first section of every experiment, which is that of its largest scale."""
    return list({section.id: section for section in reversed(sections)}.values())[::-1]


def _summary(sections: Sequence[Section]) -> str:
    """Return a table with one row per experiment: how many of its claims hold, fail or neither.

    The claims themselves stand beside the charts of their experiment.
    """
    rows = [
        f'<tr><th scope="row"><a href="#{section_anchor(section)}">{inline(section.title)}</a></th>'
        f"<td>{text(section.scale or '')}</td><td>{tally(section.claims)}</td></tr>"
        for section in sections
    ]
    heads = "".join(f'<th scope="col">{name}</th>' for name in ("Experiment", "Scale", "Claims"))
    return (
        '<section id="claims"><h2>Claims</h2>\n'
        f'<div class="scroll"><table class="stack"><thead><tr>{heads}</tr></thead>\n'
        f"<tbody>{''.join(rows)}</tbody></table></div>\n"
        '<details class="hint"><summary>Reading the verdicts</summary>'
        "<p>A claim is a statement of the paper (or of ours, where it says so) "
        "as a condition on the measured numbers. It <em>holds</em> if they meet it, <em>fails</em> "
        "if they contradict it, and is <em>undecided</em> if so many seeds cannot tell. The claims "
        "of an experiment, with their numbers, are beside its charts. Agents are "
        "compared by the difference of their means over seeds. Brackets are its 95 % interval "
        "(bootstrap over n seeds): an interval without 0 decides. P(lower) is the probability that "
        "a seed of the first agent lies below a seed of the second.</p></details></section>"
    )


def _section(section: Section, looks: Mapping[str, Look], common: Mapping[str, Any]) -> str:
    """Return the HTML of a section; its facts leave out the ``common`` environment."""
    id = section_anchor(section)
    charts = [
        _chart(chart, f"chart-{chart_anchor(section, chart)}", looks) for chart in section.charts
    ]
    is_odd = len(charts) % 2 == 1
    beside = is_odd and 0 < len(section.claims) <= MOST_BESIDE and section.comparison is None
    wide = section.comparison is not None or (is_odd and not beside)  # the first chart
    if section.claims:
        charts.insert(1, claim_list(section.claims, id, runs_anchor(id) if section.runs else None))
    if section.comparison is not None:
        place = table_anchor(section, section.comparison)
        charts.insert(1, table(section.comparison, place))
    names = {"pair": len(charts) > 1, "odd": wide, "beside": beside}
    grid = " ".join(["charts", *(name for name, is_true in names.items() if is_true)])
    own = {k: v for k, v in _shown(section.environment).items() if k not in common}
    notes = "".join(f"<li>{inline(note)}</li>" for note in section.notes)
    scale = f' <span class="scale">{text(section.scale)} scale</span>' if section.scale else ""
    parts = [
        f'<section class="experiment" id="{id}" aria-labelledby="{id}-title">',
        f'<h2 id="{id}-title">{inline(section.title)}{scale}</h2>',
        *(prose(warning, "warning") for warning in section.warnings),
        *(
            f"{prose(part.text)}\n<p>{_command(part.command)}</p>"
            for part in section.introduction
            if part.command
        ),
        f'<div class="{grid}">{"".join(charts)}</div>' if charts else "",
        *(
            # The tables of experiments may be long; those of trainings have a row for each.
            table(item, table_anchor(section, item), is_open=number == 0 or section.scale is None)
            for number, item in enumerate(section.tables)
        ),
        f'<div class="block"><h3>Notes</h3><ul class="notes">{notes}</ul></div>' if notes else "",
        run_list(section, id, facts(own)),
        "</section>",
    ]
    return "\n".join(part for part in parts if part)


def _chart(chart: Chart, id: str, looks: Mapping[str, Look]) -> str:
    """Return the figure of a chart: title, buttons, legend, data and caption."""
    lines = lines_of(chart)
    head = f"<h3>{inline(chart.title)}</h3>"
    caption = prose(chart.caption) + "".join(f"<p>{text(note)}</p>" for note in _remarks(chart))
    foot = f"<figcaption>{caption}</figcaption>" if caption else ""
    if not lines:
        return (
            f'<figure class="chart" id="{id}">{head}'
            f'<p class="empty">There is no data for this chart.</p>{foot}</figure>'
        )
    form = form_of(chart)
    entries = (
        []
        if form == "rows"
        else [
            f'<li><button type="button" aria-pressed="true" data-series="{text(line.label)}">'
            f"{swatch(looks[line.label], form)}{text(line.label)}</button></li>"
            for line in lines
        ]
    )
    if (level := reference_level(chart)) is not None:
        name = chart.reference_label or format_number(level)
        entries.append(f'<li><span class="fixed">{swatch(None)}{text(name)}</span></li>')
    buttons = "".join(
        f'<button type="button" data-zoom="{act}" aria-label="{words}" title="{words}">{sign}'
        "</button>"
        for act, words, sign in (
            ("in", "Zoom in", "+"),
            ("out", "Zoom out", "−"),
            ("reset", "Show everything", "Reset"),
        )
    )
    zoom = f'<div class="zoom">{buttons}</div>' if form == "line" else ""
    legend = f'<ul class="legend" aria-label="Series of this chart">{"".join(entries)}</ul>'
    return (
        f'<figure class="chart" id="{id}" data-filled>'
        f'<div class="chart-head">{head}{zoom}</div>{legend if entries else ""}'
        f'<div class="plot {form}" role="img" tabindex="0" '
        f'aria-label="{text(describe(chart))}"></div>'
        f'{foot}<script type="application/json">{script_json(drawing(chart, looks))}</script>'
        "</figure>"
    )


def _remarks(chart: Chart) -> list[str]:
    """Return sentences about the points and series that the drawing leaves out."""
    remarks = []
    if num := num_off_axis(chart):
        remarks.append(f"{_count(num, 'point')} at or below zero not on the logarithmic axis.")
    drawn = {line.label for line in lines_of(chart)}
    empty = [series.label for series in chart.series if series.label not in drawn]
    if drawn and empty:
        remarks.append(f"Without data: {', '.join(empty)}.")
    return remarks


def _command(command: str) -> str:
    return f'<code class="command">{text(command)}</code>'


def _shown(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of an environment that the page shows."""
    return {k: v for k, v in environment.items() if k not in NOT_SHOWN and v is not None}


def _environment_values(sections: Sequence[Section]) -> dict[str, str]:
    """Return every entry of the environments with all the values that it has."""
    values: dict[str, dict[str, None]] = {}
    for section in sections:
        for name, value in _shown(section.environment).items():
            values.setdefault(name, {})[str(value)] = None
    return {name: " / ".join(seen) for name, seen in values.items()}


def _common_environment(sections: Sequence[Section]) -> dict[str, Any]:
    """Return the entries that are the same in the environments of all sections."""
    first, *others = [_shown(section.environment) for section in sections]
    return {k: v for k, v in first.items() if all(k in o and o[k] == v for o in others)}


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _count_charts(sections: Sequence[Section]) -> str:
    return _count(sum(len(section.charts) for section in sections), "chart")


def _colours() -> str:
    """Return the colours of the series as CSS variables, for light and dark screens."""

    def variables(shades: list[str]) -> str:
        return "".join(f" --series-{place}: {shade};" for place, shade in enumerate(shades))

    light, dark = variables([c.light for c in COLOURS]), variables([c.dark for c in COLOURS])
    query = "@media screen and (prefers-color-scheme: dark)"
    return f":root {{{light} }}\n{query} {{ :root {{{dark} }} }}\n"


def _asset(name: str) -> str:
    return importlib.resources.files("narl.report").joinpath(name).read_text(encoding="utf-8")


@cache
def _library() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script, which nothing in it can end."""
    code = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return re.sub(r"<(/script|!--)", r"\\x3c\1", code, flags=re.IGNORECASE)


def _policy(scripts: Sequence[str]) -> str:
    """Return a content security policy: these scripts, inline styles, no request to anywhere."""
    hashes = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts
    ]
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'"
    )
