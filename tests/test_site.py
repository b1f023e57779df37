"""The site that `make docs` builds: no warnings, nothing from the network, readable on a phone."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from test_docs import DOCS, ROOT, WRITTEN

PROGRAM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
PAGES = (
    *("README", "CHANGELOG", "docs/index", "docs/start", "docs/training", "docs/claims"),
    *("docs/when-optimism-pays", "docs/api/narl", "notebooks/tabular"),
    *("docs/options", "docs/paper-map", "docs/errata"),
)
SOUGHT = {
    "optimism": ["docs/optimism"],
    "radius": ["docs/glossary", "docs/options"],
    "noise-scale": ["docs/options"],
    "ctrl-c": ["docs/resume"],
    "time limit": ["docs/own-environment"],
    "custom environment": ["docs/own-environment"],
    "network architecture": ["docs/options"],
    "early stopping": ["docs/options"],
    "narl.load": ["docs/api/narl"],
    "riverswim": ["notebooks/tabular"],
}
"""Words, and the pages that must be among the first results of their search."""
PHONE = 390
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the built site."""
    pytest.importorskip("sphinx_book_theme")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    done = subprocess.run(
        [*command, "-d", folder / "doctrees", "-c", DOCS, ROOT, folder / "html"],
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / "html"


def test_site_loads_nothing_from_the_network(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(WRITTEN)
    loaded = re.compile(r"<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=\"(https?:[^\"]+)")
    for page in pages:
        assert loaded.findall(page.read_text(encoding="utf-8")) == [], page.name
    assert (site / "_static" / "mathjax" / "tex-chtml.js").exists()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser without a window."""
    playwright = pytest.importorskip("playwright.sync_api")
    if PROGRAM is None:
        pytest.skip("no Chromium is installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=PROGRAM, args=["--no-sandbox"])
        yield browser
        browser.close()


def test_pages_fit_a_phone(site: Path, browser: Any) -> None:
    page = browser.new_page(viewport={"width": PHONE, "height": 800})
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    stacked = "tables => tables.map(table => table.scrollWidth <= table.clientWidth)"
    for name in PAGES:
        page.goto((site / f"{name}.html").as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE, name
        assert all(page.locator("table.stacked").evaluate_all(stacked)), name
    assert problems == []


@pytest.mark.parametrize(("words", "sought"), SOUGHT.items(), ids=SOUGHT)
def test_search_finds_what_a_reader_looks_for(
    words: str, sought: list[str], site: Path, browser: Any
) -> None:
    page = browser.new_page()
    # From files the search shows titles without excerpts, which a browser may not fetch.
    page.goto(f"{(site / 'search.html').as_uri()}?{urlencode({'q': words})}")
    page.wait_for_selector(".search-summary:has-text('finished')")
    links = page.locator("#search-results li a").evaluate_all("all => all.map(a => a.href)")
    first = [link.partition("#")[0] for link in links[:6]]
    assert {(site / f"{name}.html").as_uri() for name in sought} <= set(first), first
