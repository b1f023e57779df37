"""Pieces of the page as HTML; `text`, `inline` and `prose` escape every text."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

from narl.palette import Look
from narl.report.contents import Claim, Table
from narl.report.number_format import MISSING, format_column, format_rows
from narl.report.series import Form

MOST_ROOMY = 6
"""Columns up to which a table is set in letters of the usual size."""
PARTS = ("low", "high", "± std", "lowest seed", "highest seed")
"""Columns whose numbers belong to the column before them and have as many decimals."""
MARKS = {"holds": "✓", "fails": "✗", "undecided": "?"}

_LEADING_NUMBER = re.compile(r"[<>≤≥≈~]?\s*([-−+]?\d[\d,]*\.?\d*(?:e[-−+]?\d+)?)(?![\w.])")
# Not the stars of V* and of a product.
_EMPHASIS = re.compile(r"(?<![\w*)])\*(\w(?:[^*\n]*\w)?)\*(?![\w*])")


def text(value: object) -> str:
    """Return a text escaped for content and attributes."""
    return html.escape(str(value), quote=True)


def prose(value: str, name: str = "") -> str:
    """Return paragraphs, which an empty line separates; text between backticks becomes code."""
    attribute = f' class="{name}"' if name else ""
    return "".join(
        f"<p{attribute}>{inline(part.strip())}</p>"
        for part in re.split(r"\n\s*\n", value)
        if part.strip()
    )


def inline(value: str) -> str:
    """Return a text within a paragraph: `text` becomes code, and *text* is emphasised."""
    parts = re.split(r"`([^`]+)`", text(value))
    words = [_EMPHASIS.sub(r"<em>\1</em>", part) for part in parts[::2]]
    code = [f"<code>{part}</code>" for part in parts[1::2]]
    return "".join(piece for pair in zip(words, [*code, ""], strict=True) for piece in pair)


def script_json(value: Any) -> str:
    """Return JSON for a script element, which nothing in it can end."""
    packed = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return packed.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def anchor(*parts: str) -> str:
    """Return a name for an id or a file: small letters, digits, dots and dashes."""
    return re.sub(r"[^a-z0-9.]+", "-", "-".join(parts).lower()).strip("-.") or "unnamed"


def badge(verdict: str, words: str | None = None) -> str:
    """Return a verdict as a mark and words (the verdict itself), never as a colour alone."""
    words = verdict if words is None else words
    mark = MARKS.get(verdict, "?")
    kind = verdict if verdict in MARKS else "undecided"
    return f'<span class="badge {kind}"><span aria-hidden="true">{mark}</span>{text(words)}</span>'


def tally(claims: Iterable[Claim]) -> str:
    """Return how many claims hold, fail and are undecided."""
    verdicts = [claim.verdict for claim in claims]
    counts = {kind: verdicts.count(kind) for kind in MARKS if kind in verdicts}
    counted = [badge(kind, f"{n} {_plural(kind, n)}") for kind, n in counts.items()]
    return f'<span class="tally">{"".join(counted)}</span>' if counted else MISSING


def swatch(look: Look | None, form: Form = "line") -> str:
    """Return a short piece of a series' line, or its dot; without a look, the reference line."""
    colour = "var(--reference)" if look is None else f"var(--series-{look.colour})"
    dashes = (5, 4) if look is None else look.dashes
    dash = f' stroke-dasharray="{" ".join(map(str, dashes))}"' if dashes else ""
    if form != "line":
        fill = "none" if dashes else colour
        return (
            '<svg class="swatch dot" viewBox="0 0 12 12" aria-hidden="true">'
            f'<circle cx="6" cy="6" r="5" fill="{fill}" stroke="{colour}"{dash}/></svg>'
        )
    return (
        '<svg class="swatch" viewBox="0 0 26 10" aria-hidden="true">'
        f'<line x1="0" y1="5" x2="26" y2="5" stroke="{colour}"{dash}/></svg>'
    )


def facts(pairs: Mapping[str, Any]) -> str:
    """Return names and values in a row."""
    items = [
        f"<div><dt>{text(name)}</dt><dd>{text(_flat(value))}</dd></div>"
        for name, value in pairs.items()
        if value is not None
    ]
    return f'<dl class="facts">{"".join(items)}</dl>' if items else ""


def table(item: Table, id: str, *, is_open: bool = True) -> str:
    """Return a table that can be closed, and that a click on a header sorts.

    A column that is followed by its ends "low" and "high" is shown as one, "1.5 [1.2, 1.7]".
    """
    places = [i for i, name in enumerate(item.columns) if name not in ("low", "high")]
    columns = [[row[place] for row in item.rows] for place in range(len(item.columns))]
    numeric = [_is_numeric(cells) for cells in columns]
    kinds = ["num" if right else "" for right in numeric]
    shown = _formatted(item.columns, columns, numeric)
    has_ends = [item.columns[i + 1 : i + 3] == ["low", "high"] for i in range(len(columns))]
    heads = [
        f'<th scope="col"{_class(kinds[place])}><button type="button">'
        f"{inline(item.columns[place])}</button></th>"
        for place in places
    ]
    rows = []
    for index, row in enumerate(item.rows):
        cells = []
        for place in places:
            tag, scope = ("td", "") if place else ("th", ' scope="row"')
            key = f' data-sort="{text(_sort_key(row[place]))}"'
            words = inline(shown[place][index])
            if has_ends[place]:
                low, high = shown[place + 1][index], shown[place + 2][index]
                words += f' <span class="ends">[{low}, {high}]</span>'
            name = kinds[place] or ("whole" if len(shown[place][index]) <= 30 else "")
            cells.append(f"<{tag}{scope}{_class(name)}{key}>{words}</{tag}>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f'<details class="block" id="{id}"{" open" if is_open else ""}>'
        f'<summary><h3 id="{id}-title">{inline(item.title)}</h3></summary>'
        f'<div class="scroll" tabindex="0" role="region" aria-labelledby="{id}-title">'
        f'<table class="sortable{" wide" if len(places) > MOST_ROOMY else ""}">'
        f"<thead><tr>{''.join(heads)}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
        f"{prose(item.caption, 'muted small')}</details>"
    )


def _formatted(
    names: Sequence[str], columns: Sequence[list[Any]], numeric: Sequence[bool]
) -> list[list[str]]:
    """Return the texts of all cells, column by column; `PARTS` are formatted with their figure."""
    shown: list[list[str]] = []
    while (start := len(shown)) < len(columns):
        end = start + 1
        if not numeric[start]:
            shown.append([_cell(cell) for cell in columns[start]])
            continue
        while end < len(columns) and names[end] in PARTS and numeric[end]:
            end += 1
        if end == start + 1:
            shown.append(format_column(columns[start]))
        else:
            rows = format_rows(list(zip(*columns[start:end], strict=True)))
            shown += [list(cells) for cells in zip(*rows, strict=True)]
    return shown


def claim_list(claims: Sequence[Claim], id: str, runs: str | None = None) -> str:
    """Return claims with verdict, statement, place in the paper and numbers.

    ``runs`` is the name of the list of runs in the page, to which a link leads.
    """
    link = "" if runs is None else f' <a href="#{runs}">Every run</a>'
    items = [
        f'<li id="{anchor(id, "claim", claim.id)}"><div>{badge(claim.verdict)}</div><div>'
        f'<p>{inline(claim.statement)} <span class="muted small">({inline(claim.where)})</span></p>'
        f'<p class="small">Measured: {inline(claim.numbers)}{link}</p></div></li>'
        for claim in claims
    ]
    if not items:
        return ""
    listed = f'<ul class="claims">{"".join(items)}</ul>'
    return f'<div class="block claims-block"><h3>Claims</h3>{listed}</div>'


def _plural(verdict: str, count: int) -> str:
    return {"holds": "hold", "fails": "fail"}.get(verdict, verdict) if count != 1 else verdict


def _flat(value: Any) -> str:
    """Return nested values on one line."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_flat(part)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_flat(part) for part in value)
    return str(value)


def _is_numeric(cells: list[Any]) -> bool:
    known = [cell for cell in cells if cell is not None]
    return bool(known) and all(
        isinstance(cell, Real) and not isinstance(cell, bool) for cell in known
    )


def _cell(value: Any) -> str:
    """Return a cell of a column that does not hold numbers only."""
    if value is None or value == "":
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if _is_numeric([value]):
        return format_column([value])[0]
    return re.sub(r"(?<![\w.)])-(?=\d)", "−", str(value))


def _sort_key(value: Any) -> str:
    """Return the key for sorting: the number, the number a text begins with, or the text."""
    if value is None or value in ("", MISSING):
        return ""
    if isinstance(value, bool) or not isinstance(value, str):
        return str(value)
    number = _LEADING_NUMBER.match(value)
    return number[1].replace(",", "").replace("−", "-") if number else value


def _class(name: str) -> str:
    """Return the class attribute, or nothing without a name."""
    return f' class="{name}"' if name else ""
