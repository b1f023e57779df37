"""The report as a browser shows it: charts drawn, interaction, nothing from outside."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import chromium
from fake_outcomes import outcomes
from narl.report.document import Series, Table
from narl.report.number_format import plain
from narl.report.page import chart_id, compose
from narl.report.palette import looks
from narl.report.series import lines
from test_report import HOSTILE, chart_of, small

PROGRAM = chromium.find()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        PROGRAM is None, reason=f"no browser: none of {', '.join(chromium.NAMES)} is on the path"
    ),
]
READY = "document.documentElement?.dataset.ready"
REGRET = "#chart-fig1a-paper-regret"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(compose(outcomes()), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Tab]:
    assert PROGRAM is not None
    with chromium.chromium(PROGRAM, tmp_path_factory.mktemp("chromium")) as tab:
        yield tab


@pytest.fixture
def tab(browser: chromium.Tab, report: Path) -> chromium.Tab:
    """The report, opened anew in a window of 1280 × 900."""
    browser.size(1280, 900)
    browser.media()
    browser.open(report, READY)
    return browser


def box(tab: chromium.Tab, selector: str) -> dict[str, float]:
    """Where an element is, scrolled to the middle of the window."""
    found = f"document.querySelector({json.dumps(selector)})"
    tab.evaluate(f"{found}.scrollIntoView({{block: 'center', behavior: 'instant'}})")
    place: dict[str, float] = tab.evaluate(f"{found}.getBoundingClientRect().toJSON()")
    return place


def middle(tab: chromium.Tab, selector: str) -> tuple[float, float]:
    place = box(tab, selector)
    return place["x"] + place["width"] / 2, place["y"] + place["height"] / 2


def click(tab: chromium.Tab, selector: str, times: int = 1) -> None:
    x, y = middle(tab, selector)
    for count in range(1, times + 1):
        for kind in ("mousePressed", "mouseReleased"):
            tab.mouse(kind, x, y, button="left", clickCount=count)


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.05)


def num(tab: chromium.Tab, selector: str) -> int:
    return int(tab.evaluate(f"document.querySelectorAll({json.dumps(selector)}).length"))


def ticks(tab: chromium.Tab, chart: str, axis: str = "y") -> list[str]:
    """What stands at the ticks of an axis, from low to high."""
    shown = tab.evaluate(
        f"[...document.querySelectorAll('{chart} .role-axis-label')[{axis == 'y':d}].children]"
        ".filter(t => t.getAttribute('opacity') != 0).map(t => t.textContent).filter(Boolean)"
    )
    return sorted(shown, key=lambda text: float(text.replace(",", "").replace("−", "-")))


def test_every_chart_is_drawn_and_nothing_is_loaded(tab: chromium.Tab, report: Path) -> None:
    assert tab.evaluate(READY) == "drawn"
    style = looks(chart for outcome in outcomes() for chart in outcome.charts)
    for outcome in outcomes():
        for chart in outcome.charts:
            drawn = lines(chart)
            plot = f"#chart-{chart_id(outcome, chart)} .plot svg"
            assert num(tab, plot) == bool(drawn)
            strokes = tab.evaluate(
                f"[...document.querySelectorAll('{plot} .mark-line path')]"
                ".filter(path => path.getAttribute('d').length > 5)"
                ".map(path => path.getAttribute('stroke'))"
            )
            expected = [f"var(--series-{style[line.label].colour})" for line in drawn]
            assert sorted(strokes) == sorted(expected)
            grid = num(tab, f"{plot} .role-axis-grid line:not([opacity='0'])")
            assert (grid >= 2) == bool(drawn)
            bands = sum(line.has_band for line in drawn)
            assert num(tab, f"{plot} .mark-area path[d*='Z']") == bands
            dots = sum(int(line.dots.sum()) for line in drawn)
            assert num(tab, f"{plot} .mark-symbol path") == dots
    assert tab.problems() == []
    assert tab.requests() == [report.as_uri()]
    assert tab.evaluate("performance.getEntriesByType('resource').length") == 0


def test_the_page_could_not_load_anything_if_it_tried(tab: chromium.Tab) -> None:
    tab.evaluate("fetch('http://localhost:9/x').catch(() => 0)")
    tab.evaluate("new Promise(r => { const i = new Image(); i.onerror = r; i.src = 'data:,x'; })")
    tab.evaluate(
        "document.head.append(Object.assign(document.createElement('script'), "
        "{textContent: 'window.hacked = 1'}))"
    )
    blocked = " ".join(tab.problems())
    assert "connect-src" in blocked
    assert "img-src" in blocked
    assert "script-src" in blocked
    assert tab.evaluate("window.hacked") is None


def test_the_legend_hides_and_shows_lines_and_the_axis_fits_the_rest(tab: chromium.Tab) -> None:
    strokes = f"{REGRET} .mark-line path"
    names = ["NARL Gaussian", "NARL bootstrap", "UCRL2", "UCRL2 (TabulaRL)", "OPSRL", "PSRL"]
    pressed = f"[...document.querySelectorAll('{REGRET} [aria-pressed=true]')].length"
    assert ticks(tab, REGRET)[-1] == "4,000"
    for name in names[2:4]:
        click(tab, f"{REGRET} [data-series='{name}']")
    tab.wait(f"document.querySelectorAll('{strokes}').length == 4")
    eventually(lambda: ticks(tab, REGRET)[-1] == "250")
    assert tab.evaluate(pressed) == 4
    click(tab, f"{REGRET} [data-series='UCRL2']")
    tab.wait(f"document.querySelectorAll('{strokes}').length == 5")
    click(tab, f"{REGRET} [data-series='PSRL']", times=2)  # alone
    tab.wait(f"document.querySelectorAll('{strokes}').length == 1")
    click(tab, f"{REGRET} [data-series='PSRL']", times=2)  # all again
    tab.wait(f"document.querySelectorAll('{strokes}').length == 6")
    assert tab.evaluate(pressed) == 6
    eventually(lambda: ticks(tab, REGRET)[-1] == "4,000")
    assert tab.problems() == []


def test_the_pointer_and_the_arrow_keys_show_values_and_quartiles(tab: chromium.Tab) -> None:
    regret = outcomes()[0].charts[0].series
    place = box(tab, f"{REGRET} .plot")
    tab.mouse("mouseMoved", place["x"] + place["width"] - 9, place["y"] + place["height"] / 2)
    tab.wait(f"document.querySelectorAll('{REGRET} .mark-symbol path').length == 6")
    assert tab.evaluate("tip.querySelector('p').textContent") == "episode 1,000"
    rows = tab.evaluate(
        "[...tip.querySelectorAll('tr')].map(r => [...r.cells].map(c => c.innerText))"
    )
    highest = sorted(regret, key=lambda series: -series.y[-1])
    for row, series in zip(rows, highest, strict=True):
        assert row[0] == series.label
        assert row[1] == plain(series.y[-1])
        assert row[2] == f"{plain(series.low[-1])} to {plain(series.high[-1])}"
    place = tab.evaluate("tip.getBoundingClientRect().toJSON()")
    assert min(place["left"], place["top"]) >= 0
    assert place["right"] <= 1280
    assert place["bottom"] <= 900
    tab.mouse("mouseMoved", 2, 2)
    tab.wait("tip.hidden")
    tab.evaluate(f"document.querySelector('{REGRET} .plot').focus()")
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft"):
        tab.send("Input.dispatchKeyEvent", type="keyDown", key=key)
    tab.wait("tip.querySelector('p').textContent == 'episode 1'")
    assert tab.problems() == []


def test_zooming_panning_and_going_back(tab: chromium.Tab) -> None:
    def both() -> tuple[list[str], list[str]]:
        return ticks(tab, REGRET, "x"), ticks(tab, REGRET, "y")

    whole = both()
    click(tab, f"{REGRET} [data-zoom=in]")
    eventually(lambda: both()[0] != whole[0] and both()[1] != whole[1])
    near = both()
    x, y = middle(tab, f"{REGRET} .plot")
    tab.mouse("mousePressed", x, y, button="left", clickCount=1)
    tab.mouse("mouseMoved", x + 100, y, button="left", buttons=1)
    tab.mouse("mouseReleased", x + 100, y, button="left", clickCount=1)
    eventually(lambda: both()[0] != near[0])
    click(tab, f"{REGRET} [data-zoom=reset]")
    eventually(lambda: both() == whole)
    x, y = middle(tab, f"{REGRET} .plot")
    tab.mouse("mouseWheel", x, y, deltaX=0, deltaY=-300, modifiers=2)  # with Ctrl
    eventually(lambda: both() != whole)
    click(tab, f"{REGRET} .plot", times=2)
    eventually(lambda: both() == whole)
    top = tab.evaluate("scrollY")
    tab.mouse("mouseWheel", x, y, deltaX=0, deltaY=200)  # without Ctrl the page scrolls
    tab.wait(f"scrollY > {top} + 100")
    assert both() == whole
    assert tab.problems() == []


def test_tables_sort_by_a_click_with_what_is_missing_last(
    browser: chromium.Tab, tmp_path: Path
) -> None:
    rows = [["b", 20.5, "12 [9]"], ["a", None, "−3 [1]"], ["c", -1000.0, "x"], ["d", 3.0, "2.5"]]
    page = tmp_path / "tables.html"
    page.write_text(compose([small(tables=[Table("t", "T", ["A", "B", "C"], rows)])]), "utf-8")
    browser.open(page, READY)
    first = "[...document.querySelectorAll('#exp-smoke-table-t tbody th')].map(c => c.textContent)"

    def order(column: int) -> str:
        click(browser, f"#exp-smoke-table-t thead th:nth-child({column}) button")
        return "".join(browser.evaluate(first))

    assert order(1) == "abcd"
    assert order(1) == "dcba"
    assert order(2) == "cdba"
    assert order(2) == "bdca"
    assert order(3) == "adbc"
    sorted_by = "[...document.querySelectorAll('th[aria-sort]')].map(h => h.ariaSort + h.innerText)"
    assert browser.evaluate(sorted_by) == ["ascendingC"]
    assert browser.problems() == []


def test_hostile_text_does_nothing(browser: chromium.Tab, tmp_path: Path) -> None:
    chart = chart_of(Series(HOSTILE, [1.0, 2.0], [1.0, 2.0]), title=HOSTILE, x_label=HOSTILE)
    page = tmp_path / "hostile.html"
    page.write_text(compose([small(charts=[chart], about=HOSTILE)]), encoding="utf-8")
    browser.open(page, READY)
    assert browser.evaluate("document.querySelector('.role-axis-title').textContent") == HOSTILE
    assert browser.evaluate("window.hacked") is None
    place = box(browser, ".plot")
    browser.mouse("mouseMoved", place["x"] + 100, place["y"] + 100)
    browser.wait("tip.querySelector('th').textContent.length > 20")
    assert browser.problems() == []
    assert browser.requests() == [page.as_uri()]


def test_the_page_fits_a_phone_and_the_night(tab: chromium.Tab, report: Path) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    stroke = f"getComputedStyle(document.querySelector('{REGRET} .mark-line path')).stroke"
    assert tab.evaluate(ground) == "rgb(255, 255, 255)"
    assert tab.evaluate(stroke) == "rgb(0, 114, 178)"
    tab.media(scheme="dark")
    assert tab.evaluate(ground) == "rgb(20, 23, 27)"
    assert tab.evaluate(stroke) == "rgb(0, 130, 204)"
    tab.size(390, 844, mobile=True)
    tab.open(report, READY)
    assert tab.evaluate("document.documentElement.scrollWidth") == 390
    widths = tab.evaluate("[...document.querySelectorAll('.plot svg')].map(s => s.clientWidth)")
    assert len(widths) == 11
    assert all(300 < width <= 390 for width in widths)
    tab.media("print")
    assert tab.evaluate("getComputedStyle(document.querySelector('.zoom')).display") == "none"
    assert tab.problems() == []
