"""The report: one page that needs nothing from outside, and figures for papers."""

import base64
import dataclasses
import hashlib
import itertools
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import matplotlib
import numpy as np
import pytest

from fake_outcomes import curve, fig1a, fig1b, fig1c, outcomes
from narl.errors import InputError
from narl.report import draw_figure, write_report
from narl.report.charts import describe, drawing, symlog_ticks
from narl.report.document import Chart, Claim, Outcome, Series, Table, load
from narl.report.figures import picture
from narl.report.number_format import column, plain
from narl.report.page import chart_id, compose
from narl.report.palette import COLOURS, looks
from narl.report.series import lines, thin

HOSTILE = "</script><script>hacked=1</script><img src=x onerror=hacked=1>'\"&amp;<!--"
VOID = {"meta", "line", "br"}


class Reader(HTMLParser):
    """The page as a list of elements (tag, attributes, its own text), and all of its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.open: list[int] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), []))
        if tag not in VOID:
            self.open.append(len(self.elements) - 1)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), []))

    def handle_endtag(self, tag: str) -> None:
        assert self.elements[self.open.pop()][0] == tag, f"</{tag}> does not close what is open"

    def handle_data(self, data: str) -> None:
        for place in self.open:
            self.elements[place][2].append(data)

    def find(self, tag: str, **wanted: str) -> list[tuple[dict[str, str | None], str]]:
        return [
            (attributes, "".join(text))
            for name, attributes, text in self.elements
            if name == tag and all(attributes.get(key) == value for key, value in wanted.items())
        ]

    def of_class(self, tag: str, name: str) -> list[tuple[dict[str, str | None], str]]:
        return [found for found in self.find(tag) if name in (found[0].get("class") or "").split()]


def small(**changes: object) -> Outcome:
    """An outcome with one chart of two points."""
    chart = Chart("regret", "Regret", "episode", "regret", [Series("a", [1.0, 2.0], [3.0, 4.0])])
    empty = Outcome(
        "exp", "An experiment", "smoke", "narl reproduce exp", "About.", [chart], [], []
    )
    return dataclasses.replace(empty, **changes)


def chart_of(*series: Series, **changes: object) -> Chart:
    return dataclasses.replace(Chart("c", "Title", "x", "y", list(series)), **changes)


@pytest.fixture(scope="module")
def page() -> str:
    return compose(outcomes())


@pytest.fixture(scope="module")
def reader(page: str) -> Reader:
    return Reader(page)


# --- the page -------------------------------------------------------------------------------------


def test_the_page_asks_for_nothing_from_outside(page: str, reader: Reader) -> None:
    loading = {"src", "srcset", "data", "action", "poster", "background", "ping", "xlink:href"}
    for tag, attributes, _ in reader.elements:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base", "form"}
        assert loading.isdisjoint(attributes)
        assert (attributes.get("href") or "#").startswith("#")
        assert "//" not in (attributes.get("style") or "")
    (style,) = reader.find("style")
    assert "url(" not in style[1]
    assert "@import" not in style[1]
    outside_of_the_library = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"https?:|//\w", outside_of_the_library)


def test_the_policy_allows_the_two_scripts_of_the_page_and_no_request(reader: Reader) -> None:
    ((policy, _),) = reader.find("meta", **{"http-equiv": "Content-Security-Policy"})
    rules = dict(rule.strip().split(" ", 1) for rule in policy["content"].split(";"))
    scripts = [text for attributes, text in reader.find("script") if "type" not in attributes]
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()) for text in scripts]
    assert len(scripts) == 2
    assert rules.pop("script-src").split() == [f"'sha256-{digest.decode()}'" for digest in digests]
    assert rules == {
        "default-src": "'none'",
        "style-src": "'unsafe-inline'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_everything_in_the_outcomes_is_on_the_page(reader: Reader) -> None:
    ((_, text),) = reader.find("body")
    figures = {attributes["id"] for attributes, _ in reader.of_class("figure", "chart")}
    for outcome in outcomes():
        assert all(part in text for part in (outcome.title, outcome.command, *outcome.runs))
        for chart in outcome.charts:
            assert f"chart-{chart_id(outcome, chart)}" in figures
            assert chart.title in text
        for table in outcome.tables:
            assert table.title in text
            assert all(str(row[0]) in text for row in table.rows)
        for claim in outcome.claims:
            assert all(part.replace("`", "") in text for part in (claim.statement, claim.where))
            assert claim.numbers.replace("`", "") in text
    assert len(figures) == 12
    verdicts = [claim.verdict for outcome in outcomes() for claim in outcome.claims]
    badges = [text for _, text in reader.of_class("span", "badge")]
    for mark, kind in (("✓", "holds"), ("✗", "fails"), ("?", "undecided")):
        assert badges.count(mark + kind) == 2 * verdicts.count(kind)  # in the summary, in its place


def test_links_lead_somewhere_and_names_are_given_once(reader: Reader) -> None:
    ids = [attributes["id"] for _, attributes, _ in reader.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [attributes["href"] for attributes, _ in reader.find("a")]
    assert links
    assert {link[1:] for link in links} <= set(ids)


def test_the_header_says_what_was_run_with_what(reader: Reader) -> None:
    ((_, text),) = reader.find("header")
    assert "5 experiments, 12 charts, 6 claims" in text
    assert "narl reproduce ablation --scale small" in text
    assert "jax0.10.2" in text
    assert "devicecpu / NVIDIA H200" in text
    assert "2026-01-02" not in text  # the time of one of the runs says nothing of them all


def test_the_header_tells_the_papers_claims_from_ours() -> None:
    def header(*where: str) -> str:
        claims = [Claim(f"c{i}", "It is so.", at, "holds", "1") for i, at in enumerate(where)]
        ((_, text),) = Reader(compose([small(claims=claims)])).find("header")
        return text

    assert "2 claims of the paper put to the test" in header("§5", "Fig. 1(a); the 40 % are ours")
    assert "1 claim of the paper and 2 of ours put" in header("ours", "§5", "ours; for §5")
    assert "0 claims of the paper and 1 of ours put" in header("ours")


def test_of_the_committed_claims_the_choice_of_the_default_is_ours() -> None:
    results = Path(__file__).resolve().parents[1] / "results"
    for path in results.glob("*.json"):
        outcome = load(path)
        ours = [claim.id for claim in outcome.claims if claim.is_ours]
        if outcome.id == "ablation":
            assert ours == ["ablation-default"]
        elif outcome.id in ("fig1a", "fig1b", "fig1c", "table1"):
            assert outcome.claims
            assert ours == []


def test_the_page_can_be_read_without_seeing_it(reader: Reader) -> None:
    levels = [int(tag[1]) for tag, _, _ in reader.elements if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert all(head[0].get("scope") in ("col", "row") for head in reader.find("th"))
    plots = reader.of_class("div", "plot")
    assert len(plots) == 11  # the twelfth chart has no data
    assert all(plot["role"] == "img" and "Last values" in plot["aria-label"] for plot, _ in plots)


def test_a_chart_without_data_says_so(reader: Reader) -> None:
    ((_, text),) = reader.of_class("p", "empty")
    assert text == "There is no data for this chart."


def test_hostile_text_stays_text() -> None:
    chart = Chart(
        "c", HOSTILE, HOSTILE, HOSTILE, [Series(HOSTILE, [1.0, 2.0], [1.0, 2.0])],
        reference=1.0, reference_label=HOSTILE, caption=HOSTILE,
    )  # fmt: skip
    table = Table("t", HOSTILE, [HOSTILE, "b"], [[HOSTILE, 1.0]], HOSTILE)
    claim = Claim("x", HOSTILE, HOSTILE, "holds", HOSTILE)
    environment = {HOSTILE: HOSTILE, "nested": {"a": [HOSTILE]}}
    bad = Outcome(
        "exp", HOSTILE, HOSTILE, HOSTILE, HOSTILE, [chart], [table], [claim],
        [HOSTILE], [HOSTILE], environment,
    )  # fmt: skip
    good = small(
        tables=[dataclasses.replace(table, rows=[["a", 1.0]], caption="b")], claims=[claim],
        notes=["n"], runs=["r"], environment=environment,
    )  # fmt: skip
    reader = Reader(compose([bad]))
    tags = {tag for tag, _, _ in reader.elements}
    assert tags <= {tag for tag, _, _ in Reader(compose([good])).elements} | {"figcaption"}
    assert len(reader.find("script")) == 3
    ((_, text),) = reader.find("main")
    assert text.count(HOSTILE) >= 15
    ((_, packed),) = reader.find("script", type="application/json")
    assert json.loads(packed)["series"][0]["label"] == HOSTILE


def test_backticks_are_code_and_empty_lines_part_paragraphs() -> None:
    reader = Reader(compose([small(about="One `a < b`.\n\nTwo.", charts=[])]))
    assert "a < b" in [text for _, text in reader.find("code")]
    assert {"One a < b.", "Two."} <= {text for _, text in reader.find("p")}


def test_text_can_be_told_from_its_ground(reader: Reader) -> None:
    (style,) = reader.find("style")
    light, dark = re.findall(r":root \{[^{}]*--ground[^{}]*\}", style[1])
    for rules in (light, dark):
        shade = dict(re.findall(r"--([\w-]+): (#\w{6});", rules))
        for name in ("text", "muted", "link"):
            assert contrast(shade[name], shade["ground"]) >= 4.5
        for name in ("holds", "fails", "undecided"):
            assert contrast(shade[name], shade[f"{name}-ground"]) >= 4.5
        grounds = [colour[rules is dark] for colour in COLOURS]
        assert min(contrast(colour, shade["ground"]) for colour in grounds) >= 2.2


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2."""

    def luminance(shade: str) -> float:
        parts = np.array([int(shade[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    dim, bright = sorted([luminance(one), luminance(other)])
    return (bright + 0.05) / (dim + 0.05)


def test_the_page_is_small_and_the_same_every_time(page: str, reader: Reader) -> None:
    assert compose(outcomes()) == page
    assert len(page.encode()) < 2_000_000
    large = [text for _, text in reader.find("script") if len(text) > 100_000]
    assert len(large) == 1  # the library is there once, not once per chart


# --- what is drawn --------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", ["linear", "log", "symlog"])
@pytest.mark.parametrize("num", [2, 199, 200, 201, 1000, 54321])
def test_thinning_keeps_order_and_both_ends(axis: str, num: int) -> None:
    x = np.arange(1, num + 1, dtype=float)
    kept = thin(x, 200, axis)
    assert kept[0] == 0
    assert kept[-1] == num - 1
    assert len(kept) <= 200
    assert np.all(np.diff(kept) > 0)
    assert num > 200 or len(kept) == num


def test_thinning_is_even_on_the_axis_that_is_drawn() -> None:
    x = np.arange(1, 100_001, dtype=float)
    even = np.diff(x[thin(x, 200, "linear")])
    assert even.max() / even.min() < 1.01
    late = np.diff(np.log(x[thin(x, 200, "log")]))[-100:]
    assert late.max() / late.min() < 1.1
    assert np.sum(x[thin(x, 200, "log")] < 1000) > 80
    assert np.sum(x[thin(x, 200, "linear")] < 1000) <= 3


def test_the_page_holds_the_last_point_as_it_is() -> None:
    line = curve("a", 1234.5678, seed=0)
    (packed,) = drawing(chart_of(line), {"a": looks([chart_of(line)])["a"]})["series"]
    assert len(packed["x"]) == len(packed["y"]) == len(packed["low"]) == 200
    assert (packed["x"][0], packed["x"][-1], packed["y"][-1]) == (1, 1000, 1234.5678)
    assert (packed["low"][-1], packed["high"][-1]) == (line.low[-1], line.high[-1])


def test_missing_values_are_gaps_and_lone_points_are_marked() -> None:
    long = [float(i) for i in range(60)]
    y = [None if i in (9, 11, 30) else 1.0 + i for i in range(60)]
    chart = chart_of(Series("a", long, y), Series("b", [1.0, 2.0], [float("inf"), 5.0]))
    first, second = drawing(chart, looks([chart]))["series"]
    assert [i for i, value in enumerate(first["y"]) if value is None] == [9, 11, 30]
    assert first["dots"] == [10]
    assert "low" not in first
    assert (second["y"], second["dots"]) == ([None, 5], [1])


def test_points_are_drawn_in_the_order_of_x() -> None:
    (line,) = lines(
        chart_of(Series("a", [3.0, 1.0, 2.0], [30.0, 10.0, None], [0, 0, 0], [9, 9, 9]))
    )
    assert line.x.tolist() == [1, 2, 3]
    np.testing.assert_array_equal(line.y, [10, np.nan, 30])


def test_a_logarithmic_axis_leaves_out_what_it_has_no_place_for_and_says_so() -> None:
    series = Series("a", [0.0, 1.0, 2.0, 3.0], [5.0, 0.0, 4.0, 8.0], [0, 0, 0.0, 2.0], [9, 9, 9, 9])
    chart = chart_of(series, x_axis="log", y_axis="log", reference=0.0)
    (line,) = lines(chart)
    assert line.x.tolist() == [1, 2, 3]
    np.testing.assert_array_equal(line.y, [np.nan, 4, 8])
    np.testing.assert_array_equal(line.low, [2, 2, 2])  # the smallest that can be drawn
    page = compose([small(charts=[chart])])
    assert "2 points at or below zero not on the logarithmic axis." in page
    assert "Horizontal line" not in page


def test_a_series_without_data_is_named() -> None:
    page = compose([fig1c()])
    assert "Without data: greedy." in page
    assert 'data-series="greedy"' not in page


def test_the_words_for_a_chart_give_the_last_values() -> None:
    chart = chart_of(
        Series("a", [1.0, 2.0, 3.0], [4.0, 5000.0, None], [3, 4000, None], [5, 6000.5, None]),
        Series("b", [1.0, 2.0], [-1.0, -2.5]),
        reference=3.3973,
        reference_label="V*",
    )
    assert describe(chart) == (
        "Line chart: Title. y against x. Last values: a 5,000 (4,000 to 6,000) at 2; b −2.5 at 2. "
        "Horizontal line: V*, 3.397."
    )


def test_ticks_of_a_symmetric_logarithmic_axis() -> None:
    values = np.array([-20.0, np.nan, 150.0])
    assert symlog_ticks(values) == [-10, -1, 0, 1, 10, 100]
    assert symlog_ticks(np.array([-3e8, 2000.0])) == [-1e6, -1e3, 0, 1e3]
    assert symlog_ticks(np.array([3.3, 3.9])) == symlog_ticks(np.array([-1.0, 1.0])) == []


def test_a_label_looks_the_same_in_every_chart_and_no_two_are_alike_in_one() -> None:
    charts = [chart for outcome in outcomes() for chart in outcome.charts]
    style = looks(charts)
    for chart in charts:
        own = [style[series.label] for series in chart.series]
        assert len(set(own)) == len(own)
    nine = looks([chart_of(*(Series(str(i), [1.0], [1.0]) for i in range(30)))])
    assert len(set(nine.values())) == 30
    assert [nine[str(i)].colour for i in range(8)] == list(range(8))
    assert [nine[str(i)].dash for i in (0, 7, 8, 15, 16, 29)] == [0, 0, 1, 1, 2, 3]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"), (0.0, "0"), (-0.0, "0"), (12345, "12,345"), (12345.678, "12,346"),
        (3.3973, "3.397"), (-8.1, "−8.1"), (0.00123456, "0.001235"), (1.2e-5, "1.2e−5"),
        (-2.5e9, "−2.5e9"), (None, "–"), (float("nan"), "–"), (float("inf"), "–"),
        (999.99, "1,000"), (np.int64(10128), "10,128"),
    ],
)  # fmt: skip
def test_numbers_as_people_read_them(value: float | None, shown: str) -> None:
    assert plain(value) == shown


def test_numbers_under_each_other_have_as_many_decimals() -> None:
    assert column([27.035, 1630.2, None]) == ["27.04", "1,630.20", "–"]
    assert column([1, 20, 3000]) == ["1", "20", "3,000"]
    assert column([1.0, 0.1, 0.002]) == ["1.000", "0.100", "0.002"]
    assert column([-39158.32, -7.557]) == ["−39,158", "−7.557"]
    assert column([1e-7, 5.25]) == ["1e−7", "5.25"]


def test_tables_sort_by_numbers_and_by_those_that_texts_begin_with() -> None:
    rows = [
        ["b", 1.5, "12 [9, 15]"],
        ["a", None, "-3.5e2 … -1"],
        ["c", -2.0, ""],
        ["d", 0.25, "v1.2"],
    ]
    reader = Reader(compose([small(tables=[Table("t", "T", ["A", "B", "C"], rows)])]))
    keys = [cell["data-sort"] for cell, _ in reader.of_class("td", "num")]
    assert keys == ["1.5", "", "-2.0", "0.25"]
    texts = [(cell["data-sort"], text) for cell, text in reader.of_class("td", "whole")]
    assert texts == [("12", "12 [9, 15]"), ("-3.5e2", "−3.5e2 … −1"), ("", "–"), ("v1.2", "v1.2")]


# --- figures --------------------------------------------------------------------------------------


def test_a_figure_has_the_lines_axes_and_names_of_its_chart() -> None:
    before = dict(matplotlib.rcParams)
    (chart, _) = fig1b().charts
    figure = draw_figure(chart)
    (axes,) = figure.axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "log")
    assert (axes.get_title("left"), axes.get_xlabel()) == (chart.title, chart.x_label)
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == [*(series.label for series in chart.series), "V* = 3.3973"]
    np.testing.assert_allclose(axes.lines[0].get_ydata(), chart.series[0].y)
    assert len(axes.collections) == 4
    assert dict(matplotlib.rcParams) == before


def test_the_legend_of_a_figure_covers_nothing() -> None:
    for chart in (fig1a().charts[0], fig1c().charts[0]):
        figure = draw_figure(chart)
        figure.draw_without_rendering()
        (axes,) = figure.axes
        assert figure.legends[0].get_window_extent().y1 < axes.get_tightbbox().y0
        assert figure.legends[0].get_window_extent().x0 > 0
        assert figure.legends[0].get_window_extent().x1 < figure.bbox.x1


def test_a_figure_shows_gaps_as_gaps_and_lone_points_as_dots() -> None:
    figure = draw_figure(chart_of(Series("a", [1.0, 2.0, 3.0], [1.0, None, 3.0])))
    line, dots = figure.axes[0].lines
    np.testing.assert_array_equal(line.get_ydata(), [1, np.nan, 3])
    assert (dots.get_marker(), dots.get_xdata().tolist()) == ("o", [1, 3])


def test_a_symlog_axis_ends_near_the_data() -> None:
    figure = draw_figure(chart_of(Series("a", [1.0, 2.0], [-1e9, 10.0]), y_axis="symlog"))
    low, high = figure.axes[0].get_ylim()
    assert -1e10 < low < -1e9
    assert 10 < high < 200


def test_a_figure_without_data_says_so() -> None:
    figure = draw_figure(chart_of(Series("a", [1.0], [None]), y_axis="log", reference=2.0))
    assert [text.get_text() for text in figure.axes[0].texts] == ["no data"]


@pytest.mark.parametrize("axis", ["linear", "log", "symlog"])
@pytest.mark.parametrize("values", [[1.0, 1.0], [3.3, 3.9], [2.0, 7.0], [0.1, 9e4], [1e-3, 0.1]])
def test_every_axis_has_ticks_with_plain_numbers(axis: str, values: list[float]) -> None:
    chart = chart_of(Series("$x_1$ {", [1.0, 2.0], values), y_axis=axis, title="5 $ and $ 6")
    figure = draw_figure(chart)
    figure.draw_without_rendering()
    low, high = sorted(figure.axes[0].get_ylim())
    ticks = [t for t in figure.axes[0].yaxis.get_ticklabels() if low <= t.get_position()[1] <= high]
    labels = [tick.get_text() for tick in ticks]
    assert labels
    assert all(re.fullmatch(r"−?[\d,.]+(e−?\d+)?", label) for label in labels)
    assert figure.axes[0].get_title("left") == "5 $ and $ 6"


@pytest.mark.parametrize("kind", ["png", "pdf"])
def test_figures_are_the_same_bytes_and_carry_no_date(kind: str) -> None:
    chart = fig1c().charts[0]
    one, two = (picture(draw_figure(chart), kind) for _ in range(2))
    assert one == two
    assert b"Date" not in one
    assert b"atplotlib" not in one


# --- files and bad input --------------------------------------------------------------------------


def test_the_report_is_one_page_and_two_files_per_chart(tmp_path: Path) -> None:
    out = tmp_path / "new" / "page.html"
    written = write_report([fig1c(), small()], out)
    names = ["fig1c-paper-solved", "fig1c-paper-stochastic", "exp-smoke-regret"]
    folder = tmp_path / "new" / "page-figures"
    files = [folder / f"{name}.{kind}" for name in names for kind in ("png", "pdf")]
    assert written == [out, *files]
    assert sorted(out.parent.rglob("*")) == sorted([*written, folder])
    assert out.read_text(encoding="utf-8") == compose([fig1c(), small()])
    assert files[0].read_bytes().startswith(b"\x89PNG")
    assert files[1].read_bytes().startswith(b"%PDF")
    elsewhere = write_report([small()], out, figures=tmp_path / "f")
    assert elsewhere == [
        out,
        tmp_path / "f" / "exp-smoke-regret.png",
        tmp_path / "f/exp-smoke-regret.pdf",
    ]


def refuse(found: list[Outcome], out: Path) -> str:
    """The one line with which a report is refused; nothing is written."""
    before = sorted(out.parent.rglob("*"))
    with pytest.raises(InputError) as caught:
        write_report(found, out)
    assert sorted(out.parent.rglob("*")) == before
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_no_results(tmp_path: Path) -> None:
    assert refuse([], tmp_path / "r.html") == (
        "report: no results found; run `narl reproduce` first"
    )


def test_results_given_twice(tmp_path: Path) -> None:
    chart = small().charts[0]
    claim = Claim("x", "s", "w", "holds", "n")
    for twice, words in (
        ([small(), small()], "two charts|two results are of experiment exp-smoke"),
        ([small(charts=[chart, chart])], "two charts are named exp-smoke-regret"),
        ([small(claims=[claim, claim])], "experiment exp-smoke has two claims x"),
    ):
        assert re.search(words, refuse(twice, tmp_path / "r.html"))


def test_lists_that_do_not_fit_together(tmp_path: Path) -> None:
    short = chart_of(Series("a", [1.0, 2.0], [1.0]))
    message = refuse([small(charts=[short])], tmp_path / "r.html")
    assert message == "report: chart c, series 'a': y has 1 values; it must have 2, as x has"
    with pytest.raises(InputError, match="series 'a': low has 3 values"):
        draw_figure(chart_of(Series("a", [1.0], [1.0], [1.0, 2.0, 3.0], [1.0])))
    twins = chart_of(Series("a", [1.0], [1.0]), Series("a", [1.0], [2.0]))
    assert "two series are labelled 'a'" in refuse([small(charts=[twins])], tmp_path / "r.html")
    ragged = Table("t", "T", ["A", "B"], [["a", 1], ["b"]])
    message = refuse([small(tables=[ragged])], tmp_path / "r.html")
    assert message == "report: table t, row 2: 1 cells; it must have 2, as there are columns"


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    assert f"{tmp_path} is a folder" in refuse([small()], tmp_path)
    (tmp_path / "file").write_text("x", encoding="utf-8")
    assert "cannot be written" in refuse([small()], tmp_path / "file" / "r.html")


def test_an_axis_of_few_whole_numbers_has_these_and_no_others() -> None:
    def ticks(*x: float) -> set[str]:
        chart = chart_of(Series("a", list(x), [1.0] * len(x)))
        spec = json.dumps(drawing(chart, looks([chart]))["spec"])
        return set(re.findall(r'"values": (\[[^]]*\])', spec))

    assert ticks(1.0, 2.0, 3.0) == {"[1, 2, 3]"}
    assert ticks(1.0, 2.5, 3.0) == set()
    assert ticks(0.0, 1000.0, 2000.0) == set()
