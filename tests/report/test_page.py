"""The page of a report: contents, safety, accessibility, and nothing from outside."""

import base64
import dataclasses
import hashlib
import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
from fake_outcomes import fake_sections, line_chart, small_section
from html_reader import HtmlReader

from narl.palette import COLOURS
from narl.report.contents import Chart, Claim, Introduction, Section, Series, Table, load_outcome
from narl.report.markup import inline
from narl.report.page import chart_anchor, compose_page
from narl.report.series import RANK

HOSTILE = "</script><script>hacked=1</script><img src=x onerror=hacked=1>'\"&amp;<!--"
RESULTS = Path(__file__).resolve().parents[2] / "results"


@pytest.fixture(scope="module")
def reader(page: str) -> HtmlReader:
    return HtmlReader(page)


def read_page(*sections: Section) -> HtmlReader:
    return HtmlReader(compose_page(sections))


def test_page_loads_nothing_from_outside(page: str, reader: HtmlReader) -> None:
    loading = {"src", "srcset", "data", "action", "poster", "background", "ping", "xlink:href"}
    for tag, attributes, _ in reader.elements:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base", "form"}
        assert loading.isdisjoint(attributes)
        assert (attributes.get("href") or "#").startswith("#")
        assert "//" not in (attributes.get("style") or "")
    (style,) = reader.texts("style")
    assert "url(" not in style
    assert "@import" not in style
    without_library = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"https?:|//\w", without_library)


def test_policy_allows_the_two_scripts_and_no_request(reader: HtmlReader) -> None:
    (policy,) = reader.find("meta", **{"http-equiv": "Content-Security-Policy"})
    rules = dict(rule.strip().split(" ", 1) for rule in policy.attributes["content"].split(";"))
    scripts = [script.text for script in reader.find("script") if "type" not in script.attributes]
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()) for text in scripts]
    assert len(scripts) == 2
    assert rules.pop("script-src").split() == [f"'sha256-{digest.decode()}'" for digest in digests]
    assert rules == {
        "default-src": "'none'",
        "style-src": "'unsafe-inline'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_page_holds_everything_in_the_outcomes(reader: HtmlReader) -> None:
    (text,) = reader.texts("body")
    figures = [figure.attributes["id"] for figure in reader.find("figure", "chart")]
    expected = []
    for section in fake_sections():
        (introduction,) = section.introduction
        parts = [section.title, introduction.command, *section.runs]
        parts += [item.title for item in (*section.charts, *section.tables)]
        parts += [str(row[0]) for table in section.tables for row in table.rows]
        parts += [x for c in section.claims for x in (c.statement, c.where, c.numbers)]
        assert [part for part in parts if part.replace("`", "") not in text] == []
        expected += [f"chart-{chart_anchor(section, chart)}" for chart in section.charts]
    assert figures == expected
    badges = reader.texts("span", "badge")
    counts = {"✓holds": 2, "✗fails": 1, "?undecided": 1}
    assert {words: badges.count(words) for words in counts} == counts
    assert reader.texts("p", "empty") == ["There is no data for this chart."]


def test_links_lead_to_ids_that_are_unique(reader: HtmlReader) -> None:
    assert len(reader.ids()) == len(set(reader.ids()))
    assert reader.links()
    assert set(reader.links()) <= set(reader.ids())


def test_header_says_what_was_run_with_which_versions(reader: HtmlReader) -> None:
    (text,) = reader.texts("header")
    assert "2 experiments, 5 charts, 4 claims" in text
    assert "jax0.10.2" in text
    assert "devicecpu / NVIDIA H200" in text
    assert "2026-01-02" not in text  # the time of a single run


def test_contents_lead_to_every_section_and_chart(reader: HtmlReader) -> None:
    (contents,) = reader.texts("nav", "contents")
    for section in fake_sections():
        assert section.title in contents
        assert {f"chart-{chart_anchor(section, chart)}" for chart in section.charts} <= set(
            reader.links()
        )
    assert reader.links()[1] == "claims"


def test_summary_has_one_row_per_experiment_and_claims_follow_the_first_chart(page: str) -> None:
    start, end = page.index('<section id="claims">'), page.index("</section>")
    summary = HtmlReader(page[start:end] + "</section>")
    assert summary.links() == [f"{section.id}-{section.scale}" for section in fake_sections()]
    assert len(summary.find("tr")) == 1 + len(fake_sections())
    badges = summary.texts("span", "badge")
    verdicts = [[claim.verdict for claim in section.claims] for section in fake_sections()]
    assert [int(words[1]) for words in badges] == [
        own.count(kind)
        for own in verdicts
        for kind in ("holds", "fails", "undecided")
        if kind in own
    ]
    for section in fake_sections():
        first, second, *_ = (
            page.index(f'id="chart-{chart_anchor(section, chart)}"') for chart in section.charts
        )
        for claim in section.claims:
            assert page.count(f"<p>{claim.statement} ") == 1
            assert first < page.index(f"<p>{claim.statement} ") < second


def test_second_scale_of_an_experiment_is_not_counted_twice() -> None:
    claim = Claim("c", "It is so.", "§5", "holds", "1")
    large = small_section(scale="paper", claims=[claim])
    small = small_section(scale="small", claims=[dataclasses.replace(claim, verdict="undecided")])
    reader = read_page(large, small)
    (text,) = reader.texts("header")
    count = "1 experiment (1 also at a smaller scale), 2 charts, 1 claim of the paper put to the"
    assert f"{count} test: ✓1 holds" in text
    assert reader.texts("span", "scale") == ["paper scale", "small scale"]


def test_charts_without_lines_have_no_zoom_and_rows_no_legend() -> None:
    bars = line_chart(Series("a", [1.0, 2.0], [0.2, 0.8]), id="bars", x_label=RANK)
    rows = line_chart(Series("b", [1.0], [0.4], [0.1], [0.7]), id="rows", x_label="")
    reader = read_page(small_section(charts=[bars, rows]))
    assert reader.find("div", "zoom") == []
    assert [
        b.attributes["data-series"] for b in reader.find("button") if "data-series" in b.attributes
    ] == ["a"]
    labels = [plot.attributes["aria-label"] for plot in reader.find("div", "plot")]
    assert labels == [
        f"Bar chart: Title. y against {RANK}. Last values: a 0.8 at 2.",
        "Intervals: Title. y: b 0.4 (0.1 to 0.7).",
    ]


def test_only_the_first_table_is_open_and_ends_are_shown_in_brackets() -> None:
    columns = ["agent", "P(x < y)", "low", "high", "seeds"]
    tables = [Table(id_, id_, columns, [["a", 0.44, 0.1358, 0.7259, 10]]) for id_ in "tu"]
    reader = read_page(small_section(tables=tables))
    assert ["open" in part.attributes for part in reader.find("details", "block")] == [True, False]
    assert reader.texts("td", "num")[:2] == ["0.4400 [0.1358, 0.7259]", "10"]
    assert len(reader.find("th", scope="col")) == 3 + 2 * 3  # of the summary and of both tables


@pytest.mark.parametrize(
    ("where", "count"),
    [
        (["§5", "Fig. 1(a); the 40 % are ours"], "2 claims of the paper put to the test"),
        (["ours", "§5", "ours; for §5"], "1 claim of the paper and 2 of ours put"),
        (["ours"], "0 claims of the paper and 1 of ours put"),
    ],
)
def test_header_counts_claims_of_the_paper_and_ours(where: list[str], count: str) -> None:
    claims = [Claim(f"c{i}", "It is so.", place, "holds", "1") for i, place in enumerate(where)]
    (text,) = read_page(small_section(claims=claims)).texts("header")
    assert count in text


def test_our_claims_in_the_results_are_marked_as_ours() -> None:
    claims = [
        claim
        for path in RESULTS.glob("*.json")
        for claim in load_outcome(path).claims
        if not claim.id.startswith(
            ("exploration-", "fewer-steps-", "fading-", "discrete-", "acrobot-", "lander-")
        )
    ]
    assert {claim.id for claim in claims if claim.is_ours} == {
        *("ablation-default", "fair-narl-best", "fair-riverswim"),
        *("fig3a-same-members", "fig3a-exclude-above"),
        *("fig3b-same-members-01", "fig3b-same-members-05", "fig3c-same-members-05"),
    }
    for name in ("exploration", "fewer-steps", "discrete", "acrobot", "lander"):
        assert all(x.is_ours for x in load_outcome(RESULTS / f"{name}-paper.json").claims)


def test_page_can_be_read_without_seeing_it(reader: HtmlReader) -> None:
    levels = [int(tag[1]) for tag, _, _ in reader.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert all(head.attributes.get("scope") in ("col", "row") for head in reader.find("th"))
    plots = [plot.attributes for plot in reader.find("div", "plot")]
    assert len(plots) == 4  # the fifth chart has no data
    assert all(plot["role"] == "img" and "Last values" in plot["aria-label"] for plot in plots)


def test_hostile_text_stays_text() -> None:
    def section(text: str) -> Section:
        series = Series(text, [1.0, 2.0], [1.0, 2.0])
        looks = {"reference": 1.0, "reference_label": text, "caption": text}
        return Section(
            *("exp", text, [Introduction(text, text)]),
            charts=[Chart("c", text, text, text, [series], **looks)],
            tables=[Table("t", text, [text, "b"], [[text, 1.0]], text)],
            claims=[Claim("x", text, text, "holds", text)],
            notes=[text],
            runs=[text],
            environment={text: text, "nested": {"a": [text]}},
            scale=text,
        )

    reader, harmless = read_page(section(HOSTILE)), read_page(section("harmless"))
    assert [e.tag for e in reader.elements] == [e.tag for e in harmless.elements]
    assert reader.texts("main")[0].count(HOSTILE) >= 15
    (data,) = reader.find("script", type="application/json")
    assert json.loads(data.text)["series"][0]["label"] == HOSTILE


def test_introduction_has_paragraphs_code_and_its_commands() -> None:
    introduction = [Introduction("One `a < b`.\n\nTwo.", "first"), Introduction("Three.", "second")]
    reader = read_page(small_section(introduction=introduction, charts=[]))
    paragraphs = reader.texts("p")
    start = paragraphs.index("One a < b.")
    assert paragraphs[start : start + 5] == ["One a < b.", "Two.", "first", "Three.", "second"]
    assert "a < b" in reader.texts("code")


@pytest.mark.parametrize(
    ("words", "markup"),
    [
        (
            "*Above* and *ball*, or *both of them*.",
            "<em>Above</em> and <em>ball</em>, or <em>both of them</em>.",
        ),
        ("`*a*` is code", "<code>*a*</code> is code"),
        ("V* − Q* and 2 * 3 * 4, V*(s) and (V)*x*", "V* − Q* and 2 * 3 * 4, V*(s) and (V)*x*"),
        ("*<b>*, *a<b*", "*&lt;b&gt;*, <em>a&lt;b</em>"),
    ],
)
def test_words_between_stars_are_emphasised_but_not_formulas(words: str, markup: str) -> None:
    assert inline(words) == markup


def test_no_text_of_the_results_shows_its_stars() -> None:
    for path in RESULTS.glob("*.json"):
        outcome = load_outcome(path)
        texts = [outcome.about, *outcome.notes, *(chart.caption for chart in outcome.charts)]
        for words in texts:
            assert not re.search(r"(?<!\w)\*\w", inline(words))


def test_sections_show_their_own_environment_where_it_differs() -> None:
    first = small_section(environment={"jax": "1", "device": "cpu"})
    second = dataclasses.replace(first, id="other", environment={"jax": "1", "device": "gpu"})
    facts = read_page(first, second).texts("dl", "facts")
    assert facts == ["jax1devicecpu / gpu", "devicecpu", "devicegpu"]


def contrast(first: str, second: str) -> float:
    """Return the contrast of two colours by WCAG 2."""

    def luminance(shade: str) -> float:
        parts = np.array([int(shade[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    dim, bright = sorted([luminance(first), luminance(second)])
    return (bright + 0.05) / (dim + 0.05)


def test_text_and_lines_have_enough_contrast(reader: HtmlReader) -> None:
    (style,) = reader.texts("style")
    light, dark = re.findall(r":root \{[^{}]*--ground[^{}]*\}", style)
    for rules in (light, dark):
        shade = dict(re.findall(r"--([\w-]+): (#\w{6});", rules))
        for name in ("text", "muted", "link"):
            assert contrast(shade[name], shade["ground"]) >= 4.5
        for name in ("holds", "fails", "undecided"):
            assert contrast(shade[name], shade[f"{name}-ground"]) >= 4.5
        lines = [colour[rules is dark] for colour in COLOURS]
        assert min(contrast(colour, shade["ground"]) for colour in lines) >= 2.2


def test_page_is_small_and_the_same_every_time(page: str, reader: HtmlReader) -> None:
    assert compose_page(fake_sections()) == page
    assert len(page.encode()) < 2_000_000
    large = [text for text in reader.texts("script") if len(text) > 100_000]
    assert len(large) == 1  # the library is there once, not once per chart


def test_captions_name_points_and_series_that_are_not_drawn(page: str) -> None:
    series = Series("a", [0.0, 1.0, 2.0], [5.0, 0.0, 4.0])
    chart = line_chart(series, x_axis="log", y_axis="log", reference=0.0)
    own = compose_page([small_section(charts=[chart])])
    assert "2 points at or below zero not on the logarithmic axis." in own
    assert "Horizontal line" not in own
    assert "Without data: greedy." in page
    assert 'data-series="greedy"' not in page


def test_figures_of_a_table_have_the_decimals_of_their_intervals() -> None:
    columns = ["a", "mean", "± std", "lowest seed", "x", "low", "high", "other"]
    rows = [
        ["b", -40.2, 10.523, -50.56, -30.7, -50.56, -10.19, 0.5],
        ["c", -20.945, 3.0, -25.0, 0.123, -1.5, 2.0, 0.25],
    ]
    reader = read_page(small_section(tables=[Table("t", "T", columns, rows)]))
    assert reader.texts("td", "num") == [
        *("−40.20", "10.52", "−50.56", "−30.70 [−50.56, −10.19]", "0.50"),
        *("−20.95", "3.00", "−25.00", "0.12 [−1.50, 2.00]", "0.25"),
    ]


def test_tables_sort_by_numbers_and_by_leading_numbers_of_texts() -> None:
    rows = [
        ["b", 1.5, "12 [9, 15]"],
        ["a", None, "-3.5e2 … -1"],
        ["c", -2.0, ""],
        ["d", 0.25, "v1.2"],
    ]
    reader = read_page(small_section(tables=[Table("t", "T", ["A", "B", "C"], rows)]))
    keys = [cell.attributes["data-sort"] for cell in reader.find("td", "num")]
    assert keys == ["1.5", "", "-2.0", "0.25"]
    texts = [(cell.attributes["data-sort"], cell.text) for cell in reader.find("td", "whole")]
    assert texts == [("12", "12 [9, 15]"), ("-3.5e2", "−3.5e2 … −1"), ("", "–"), ("v1.2", "v1.2")]
