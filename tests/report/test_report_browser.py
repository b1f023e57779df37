"""The report in a browser: charts drawn, interaction, and nothing loaded from outside."""

import dataclasses
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_outcomes import fake_sections, line_chart, small_section
from test_page import HOSTILE, RESULTS
from test_run_list import training_section

from narl.report.contents import Claim, Introduction, Series, Table, load_outcome
from narl.report.number_format import format_rows
from narl.report.page import chart_anchor, compose_page
from narl.report.series import RANK, choose_looks, lines_of

playwright = pytest.importorskip("playwright.sync_api")

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PROGRAM = next((path for name in NAMES if (path := shutil.which(name))), None)
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars")
REGRET = "#chart-fig1a-paper-regret"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason=f"none of {', '.join(NAMES)} is installed"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator["playwright.Browser"]:
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=PROGRAM, args=FLAGS)
        yield browser
        browser.close()


class Tab:
    """A tab with a report, and the problems and requests since it was opened."""

    def __init__(self, browser: "playwright.Browser", address: str) -> None:
        self.address = address
        self.page = browser.new_page(viewport={"width": 1280, "height": 900})
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", self._note_message)
        self.open()

    def _note_message(self, message: "playwright.ConsoleMessage") -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def open(self) -> None:
        """Open the report and wait until every chart is drawn."""
        self.page.goto(self.address)
        self.page.wait_for_selector("html[data-ready=drawn]", state="attached")

    def ticks(self, chart: str, axis: str) -> list[str]:
        """Return the visible labels of an axis, from low to high."""
        labels = self.page.locator(f"{chart} .role-axis-label").nth(int(axis == "y"))
        shown = labels.locator("text:not([opacity='0'])").all_text_contents()
        numbers = {text: float(text.replace(",", "").replace("−", "-")) for text in shown if text}
        return sorted(numbers, key=lambda text: numbers[text])

    def wait_for_count(self, selector: str, count: int) -> None:
        playwright.expect(self.page.locator(selector)).to_have_count(count)

    def wait_until(self, is_true: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 20
        while not is_true():
            assert time.monotonic() < deadline, "the page never came to this state"
            self.page.wait_for_timeout(50)


@pytest.fixture
def open_page(browser: "playwright.Browser", tmp_path: Path) -> Iterator[Callable[[str], Tab]]:
    """Open a page in a tab, which must have no problems in the end."""
    tabs: list[Tab] = []

    def open_(content: str) -> Tab:
        (tmp_path / "report.html").write_text(content, encoding="utf-8")
        tabs.append(Tab(browser, (tmp_path / "report.html").as_uri()))
        return tabs[-1]

    yield open_
    for tab in tabs:
        tab.page.close()
        assert tab.problems == []


@pytest.fixture
def tab(open_page: Callable[[str], Tab], page: str) -> Tab:
    """A tab with the report of the made-up outcomes."""
    return open_page(page)


def test_link_of_a_claim_opens_the_folded_list_of_runs(
    open_page: Callable[[str], Tab],
) -> None:
    tab = open_page(compose_page([training_section()]))
    runs = tab.page.locator("#exp-smoke-runs")
    assert runs.get_attribute("open") is None
    tab.page.locator("a[href='#exp-smoke-runs']").click()
    assert runs.get_attribute("open") is not None
    training = runs.locator("details")
    assert training.get_attribute("open") is None
    tab.page.goto(f"{tab.address}#exp-smoke-runs-1")
    tab.page.reload()
    tab.page.wait_for_selector("html[data-ready=drawn]", state="attached")
    assert training.get_attribute("open") is not None
    assert training.locator("td").first.is_visible()


def test_every_chart_is_drawn_and_nothing_is_loaded(tab: Tab) -> None:
    sections = fake_sections()
    looks = choose_looks(chart for section in sections for chart in section.charts)
    for section in sections:
        for chart in section.charts:
            lines = lines_of(chart)
            plot = tab.page.locator(f"#chart-{chart_anchor(section, chart)} .plot svg")
            assert plot.count() == bool(lines)
            strokes = plot.locator(".mark-line path").evaluate_all(
                "paths => paths.filter(path => path.getAttribute('d').length > 5)"
                ".map(path => path.getAttribute('stroke'))"
            )
            expected = [f"var(--series-{looks[line.label].colour})" for line in lines]
            assert sorted(strokes) == sorted(expected)
            grid = plot.locator(".role-axis-grid line:not([opacity='0'])").count()
            assert (grid >= 2) == bool(lines)
            bands = sum(line.has_band for line in lines)
            assert plot.locator(".mark-area path[d*='Z']").count() == bands
            dots = sum(int(line.dots.sum()) for line in lines)
            assert plot.locator(".mark-symbol path").count() == dots
    assert tab.requests == [tab.address]
    assert tab.page.evaluate("performance.getEntriesByType('resource').length") == 0


def test_legend_hides_lines_and_the_axis_fits_the_rest(tab: Tab) -> None:
    strokes, pressed = f"{REGRET} .mark-line path", f"{REGRET} [aria-pressed=true]"

    def button(name: str) -> "playwright.Locator":
        return tab.page.locator(f"{REGRET} [data-series='{name}']")

    assert tab.ticks(REGRET, "y")[-1] == "4,000"
    button("UCRL2").click()
    button("UCRL2 (TabulaRL)").click()
    tab.wait_for_count(strokes, 4)
    tab.wait_for_count(pressed, 4)
    tab.wait_until(lambda: tab.ticks(REGRET, "y")[-1] == "250")
    button("UCRL2").click()
    tab.wait_for_count(strokes, 5)
    button("PSRL").dblclick()  # alone
    tab.wait_for_count(strokes, 1)
    button("PSRL").dblclick()  # all again
    tab.wait_for_count(strokes, 6)
    tab.wait_for_count(pressed, 6)
    tab.wait_until(lambda: tab.ticks(REGRET, "y")[-1] == "4,000")


def test_pointer_and_arrow_keys_show_values_and_quartiles(tab: Tab) -> None:
    plot, tip = tab.page.locator(f"{REGRET} .plot"), tab.page.locator("#tip")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    tab.page.mouse.move(box["x"] + box["width"] - 9, box["y"] + box["height"] / 2)
    tab.wait_for_count(f"{REGRET} .mark-symbol path", 6)
    assert tip.locator("p").text_content() == "episode 1,000"
    rows = [row.locator("th, td").all_inner_texts() for row in tip.locator("tr").all()]
    regret = sorted(fake_sections()[0].charts[0].series, key=lambda series: -series.y[-1])
    assert rows == [
        [
            series.label,
            y,
            f"{low} to {high}",
        ]
        for series in regret
        for y, low, high in format_rows([[series.y[-1], series.low[-1], series.high[-1]]])
    ]
    place = tip.bounding_box()
    assert min(place["x"], place["y"]) >= 0
    assert place["x"] + place["width"] <= 1280
    assert place["y"] + place["height"] <= 900
    tab.page.mouse.move(2, 2)
    playwright.expect(tip).to_be_hidden()
    plot.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft"):
        plot.press(key)
    playwright.expect(tip.locator("p")).to_have_text("episode 1")


def test_zooming_panning_and_reset(tab: Tab) -> None:
    def shown() -> tuple[list[str], list[str]]:
        return tab.ticks(REGRET, "x"), tab.ticks(REGRET, "y")

    plot, whole = tab.page.locator(f"{REGRET} .plot"), shown()
    tab.page.locator(f"{REGRET} [data-zoom=in]").click()
    tab.wait_until(lambda: shown()[0] != whole[0] and shown()[1] != whole[1])
    near = shown()
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    tab.page.mouse.move(x, y)
    tab.page.mouse.down()
    tab.page.mouse.move(x + 100, y)
    tab.page.mouse.up()
    tab.wait_until(lambda: shown()[0] != near[0])
    tab.page.locator(f"{REGRET} [data-zoom=reset]").click()
    tab.wait_until(lambda: shown() == whole)
    tab.page.mouse.move(x, y)
    tab.page.keyboard.down("Control")
    tab.page.mouse.wheel(0, -300)
    tab.page.keyboard.up("Control")
    tab.wait_until(lambda: shown() != whole)
    plot.dblclick()
    tab.wait_until(lambda: shown() == whole)
    top = tab.page.evaluate("scrollY")
    tab.page.mouse.wheel(0, 200)  # without Ctrl the page scrolls
    tab.wait_until(lambda: tab.page.evaluate("scrollY") > top + 100)
    assert shown() == whole


def test_click_on_a_column_sorts_with_missing_values_last(open_page) -> None:
    rows = [["b", 20.5, "12 [9]"], ["a", None, "−3 [1]"], ["c", -1000.0, "x"], ["d", 3.0, "2.5"]]
    section = small_section(tables=[Table("t", "T", ["A", "B", "C"], rows)])
    tab = open_page(compose_page([section]))
    table = tab.page.locator("#exp-smoke-table-t")
    orders = []
    for column in (1, 1, 2, 2, 3):
        table.locator(f"thead th:nth-child({column}) button").click()
        orders.append("".join(table.locator("tbody th").all_text_contents()))
    assert orders == ["abcd", "dcba", "cdba", "bdca", "adbc"]
    assert tab.page.locator("th[aria-sort=ascending]").all_inner_texts() == ["C"]


def test_hostile_text_does_nothing(open_page) -> None:
    chart = line_chart(Series(HOSTILE, [1.0, 2.0], [1.0, 2.0]), title=HOSTILE, x_label=HOSTILE)
    section = small_section(charts=[chart], introduction=[Introduction(HOSTILE, HOSTILE)])
    tab = open_page(compose_page([section]))
    assert tab.page.locator(".role-axis-title").first.text_content() == HOSTILE
    tab.page.locator(".plot").hover()
    playwright.expect(tab.page.locator("#tip th")).to_have_text(HOSTILE)
    assert tab.page.evaluate("window.hacked") is None
    assert tab.requests == [tab.address]


def test_page_fits_dark_screens_phones_and_print(tab: Tab) -> None:
    colours = (
        "[getComputedStyle(document.body).backgroundColor, "
        f"getComputedStyle(document.querySelector('{REGRET} .mark-line path')).stroke]"
    )
    assert tab.page.evaluate(colours) == ["rgb(255, 255, 255)", "rgb(0, 114, 178)"]
    tab.page.emulate_media(color_scheme="dark")
    assert tab.page.evaluate(colours) == ["rgb(20, 23, 27)", "rgb(0, 130, 204)"]
    tab.page.set_viewport_size({"width": 390, "height": 844})
    tab.open()
    assert tab.page.evaluate("document.documentElement.scrollWidth") == 390
    plots = tab.page.locator(".plot svg")
    widths = plots.evaluate_all("plots => plots.map(plot => plot.clientWidth)")
    assert len(widths) == 4
    assert all(300 < width <= 390 for width in widths)
    tab.page.emulate_media(media="print")
    assert tab.page.locator(".zoom").first.is_hidden()


@pytest.mark.parametrize(
    ("num_charts", "num_claims"), [(1, 2), (1, 8), (2, 2), (3, 3), (3, 6), (4, 8)]
)
def test_claims_are_beside_or_below_the_first_chart(
    open_page, num_charts: int, num_claims: int
) -> None:
    series = Series("a", [1.0, 2.0], [3.0, 4.0])
    charts = [line_chart(series, id=f"chart{i}") for i in range(num_charts)]
    claims = [Claim(f"c{i}", "It is so. " * 9, "§5", "holds", "1") for i in range(num_claims)]
    tab = open_page(compose_page([small_section(charts=charts, claims=claims)]))
    assert tab.page.locator(".charts > :nth-child(2).claims-block").count() == 1
    place = "[...parts].map(e => e.getBoundingClientRect()).map(e => [e.left, e.top, e.bottom])"
    for width in (1280, 390):
        tab.page.set_viewport_size({"width": width, "height": 900})
        parts = tab.page.locator(".charts > *").evaluate_all(f"parts => {place}")
        (left, top, bottom), (claims_left, claims_top, _), *others = parts
        is_beside = claims_left > left
        assert claims_top == top if is_beside else 0 < claims_top - bottom < 50
        assert is_beside == (width == 1280 and num_charts % 2 == 1 and num_claims <= 3)
        if width == 1280:  # no row has an empty place
            rows = [other_top for _, other_top, _ in others]
            assert rows.count(top) == (num_charts % 2 == 0)
            assert all(rows.count(row) == 2 for row in rows if row != top)


def test_axis_of_small_returns_begins_at_zero_and_shows_whole_dots(open_page) -> None:
    series = Series("a", [1.0, 2.0, 3.0], [0.0, 30.0, 1000.0])
    tab = open_page(compose_page([small_section(charts=[line_chart(series, id="returns")])]))
    chart = "#chart-exp-smoke-returns"
    assert tab.ticks(chart, "y") == ["0", "200", "400", "600", "800", "1,000"]
    lowest, axis = (
        tab.page.locator(f"{chart} {part}").first.bounding_box()
        for part in (".mark-symbol path", ".role-axis-domain line")
    )
    assert lowest["y"] + lowest["height"] <= axis["y"] + 1


def test_contents_stay_in_sight_and_open_on_a_phone(tab: Tab) -> None:
    contents, button = tab.page.locator("#contents"), tab.page.locator("nav.contents button")
    here = tab.page.locator("nav.contents a[aria-current]")
    tab.page.locator("nav.contents a[href='#fig1c-small']").click()
    tab.wait_until(lambda: "Deep Sea" in here.inner_text())
    playwright.expect(contents).to_be_in_viewport()
    assert button.is_hidden()
    tab.page.set_viewport_size({"width": 390, "height": 844})
    playwright.expect(button).to_be_in_viewport()
    assert contents.is_hidden()
    button.click()
    playwright.expect(contents).to_be_in_viewport()
    tab.page.locator("nav.contents a[href='#claims']").click()
    playwright.expect(contents).to_be_hidden()
    playwright.expect(tab.page.locator("#claims h2")).to_be_in_viewport()


def test_bars_show_their_values_and_rows_their_numbers(open_page) -> None:
    series = [
        Series(label, [1.0, 2.0], [y, 0.5], [0.1, 0.4], [0.7, 0.6])
        for label, y in (("a", 0.2), ("b", 0.3))
    ]
    bars = line_chart(*series, id="bars", x_label=RANK, y_label="share")
    rows = line_chart(
        Series("first", [1.0], [0.444], [0.1], [0.7]), id="rows", x_label="", y_label="probability"
    )
    tab = open_page(compose_page([small_section(charts=[bars, rows])]))
    chart = "#chart-exp-smoke-bars"
    assert tab.page.locator(f"{chart} .mark-rect path[d*='h']").count() == 4
    assert tab.ticks(chart, "y")[0] == "0.0"
    plot = tab.page.locator(f"{chart} .plot")
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    tab.page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 0.5 * box["height"])
    playwright.expect(tab.page.locator("#tip p")).to_have_text(f"{RANK} 1")
    assert tab.page.locator("#tip th").all_inner_texts() == ["b", "a"]
    name = "#chart-exp-smoke-rows .role-axis-label text tspan"
    tab.wait_for_count(name, 2)
    assert tab.page.locator(name).all_text_contents() == ["first", "0.444 [0.100, 0.700]"]
    interval = tab.page.locator("#chart-exp-smoke-rows .mark-rule line").first.bounding_box()
    place = tab.page.locator(name).last.bounding_box()
    assert place["x"] + place["width"] < interval["x"]
    assert tab.page.locator("#chart-exp-smoke-rows .plot").bounding_box()["height"] < 120


def test_wide_tables_fit_a_desktop_and_scroll_inside_themselves_on_a_phone(open_page) -> None:
    columns = ["claim", "x", "y", "verdict", "mean of x", "mean of y", "difference", "low", "high"]
    columns += ["IQM", "low", "high", "P", "low", "high", "seeds", "detectable", "needed"]
    row = ["fig1b-overestimates-riverswim", "NARL Gaussian (as printed)", "twice UCRL2 (TabulaRL)"]
    numbers = [-1526.805, -1544.191, -1510.124]
    row += ["undecided", 18.29932, 3354.104, *numbers, *numbers, 0.4804, 0.3269, 0.6384]
    table = Table("t", "T", columns, [[*row, 16, 2.90814, 234.0]] * 40)
    tab = open_page(compose_page([small_section(tables=[table])]))
    size = "e => [e.scrollWidth - e.clientWidth, e.scrollHeight - e.clientHeight]"
    scroll = tab.page.locator("#exp-smoke-table-t .scroll")
    wider, taller = scroll.evaluate(size)
    assert wider <= 1
    assert taller > 0  # a long table does not push the rest of the page away
    tab.page.set_viewport_size({"width": 390, "height": 844})
    assert scroll.evaluate(size)[0] > 100
    assert tab.page.evaluate("document.documentElement.scrollWidth") == 390


def test_first_chart_is_near_the_top_and_all_tables_of_the_results_fit(open_page) -> None:
    names = ("fig1a", "exploration", "discrete")
    sections = [load_outcome(RESULTS / f"{name}-paper.json").section() for name in names]
    others = [dataclasses.replace(sections[0], id=f"other-{i}") for i in range(13)]
    tab = open_page(compose_page([*sections, *others]))
    top = "document.querySelector('figure.chart').getBoundingClientRect().top + scrollY"
    assert tab.page.evaluate(top) < 1.5 * 900
    tab.page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
    boxes = tab.page.locator(".scroll")
    wider = boxes.evaluate_all("boxes => boxes.map(e => e.scrollWidth - e.clientWidth)")
    assert len(wider) > 60
    assert max(wider) <= 1
