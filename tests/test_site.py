"""The site that `make docs` builds: no warnings, nothing from the network, readable on a phone."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from test_docs import DOCS, ROOT, WRITTEN

PROGRAM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
PAGES = (
    *("README", "CHANGELOG", "docs/index", "docs/start", "docs/training", "docs/claims"),
    *("docs/when-optimism-pays", "docs/api/narl", "notebooks/tabular"),
)
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


@pytest.mark.skipif(PROGRAM is None, reason="no Chromium is installed")
def test_pages_fit_a_phone_and_search_finds_them(site: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=PROGRAM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": PHONE, "height": 800})
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        for name in PAGES:
            page.goto((site / f"{name}.html").as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= PHONE, name
        assert problems == []
        # From files the search shows titles without excerpts, which a browser may not fetch.
        page.goto(f"{(site / 'search.html').as_uri()}?q=riverswim")
        page.wait_for_selector("#search-results a[href*='docs/tutorial.html']")
        browser.close()
