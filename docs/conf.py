"""The site: `make docs` builds it into build/site with Sphinx.

The source folder is the repository, so that README, CHANGELOG and the notebooks are pages too and
every link that works between the files also works on the site. Nothing is loaded from the network:
MathJax, icons and the search index are files of the site.
"""

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config as SectionConfig
from sphinx.ext.napoleon import GoogleDocstring

import narl

project = "narl"
author = "The narl authors"
project_copyright = "The narl authors, MIT licence"
version = release = narl.__version__

root_doc = "docs/index"
include_patterns = [
    *("docs/**", "notebooks/*.ipynb", "policies/*/README.md"),
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md"),
]
exclude_patterns = ["docs/data/**", "**/.ipynb_checkpoints"]
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",
    "sphinx_copybutton",
]

# --- pages ----------------------------------------------------------------------------------

myst_enable_extensions = ["dollarmath", "amsmath", "attrs_inline", "colon_fence"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
nb_execution_mode = "off"  # the notebooks are committed with their outputs
"""Code blocks of pages are run by tests/test_docs.py, notebooks by tests/test_notebook.py."""

# --- the reference, from docstrings -----------------------------------------------------------

default_role = "py:obj"  # `name` in a docstring
autodoc_typehints = "none"  # the shapes of arrays are long; arguments are described instead
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries_show_parents = "hide"

# --- looks ----------------------------------------------------------------------------------

html_theme = "sphinx_book_theme"
html_title = f"narl {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_search_scorer = str(Path(__file__).with_name("static") / "scorer.js")
html_show_sourcelink = False
html_copy_source = False
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system
html_theme_options: dict[str, Any] = {
    "show_toc_level": 2,
    "show_navbar_depth": 1,
    "use_download_button": False,
    "use_fullscreen_button": False,
    "use_source_button": False,
    # A page of wide tables has no contents beside it.
    "secondary_sidebar_items": {"**": ["page-toc"], "docs/claims": []},
    "home_page_in_toc": False,
    "navbar_persistent": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


SOUGHT = {
    "docs/options": ("hyperparameters",),
    "docs/own-environment": (
        *("time limit", "truncated", "custom environment", "gym environment"),
        *("observation normalization", "observation normalisation"),
    ),
    "docs/sweeps": ("hyperparameter tuning", "compare runs"),
    "docs/resume": ("Ctrl-C", "checkpoint", "interrupt"),
}
"""Words by which the search finds a page that is not named like them."""
SECTIONS = SectionConfig(napoleon_use_rtype=False)
REDIRECT = f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>narl</title>
<meta http-equiv="refresh" content="0; url={root_doc}.html">
<p><a href="{root_doc}.html">The documentation of narl</a></p></html>
"""


def _entry(title: str) -> str:
    """Return a title with a capital letter; names of packages stay as they are."""
    return title if title.startswith("narl") else title[0].upper() + title[1:]


def name_readme(app: Sphinx, page: str, source: list[str]) -> None:
    """Give the README the title that the menu has: the reference of the package is called narl."""
    if page == "README":
        source[0] = source[0].replace("# narl\n", "# The project at a glance\n", 1)


def leave_out_of_menu(app: Sphinx, page: str, source: list[str]) -> None:
    """Leave the lists of runs, which the page of the claims leads to, out of the menu."""
    if page.startswith("docs/runs/"):
        source[0] = f"---\norphan: true\n---\n\n{source[0]}"


def add_contents(app: Sphinx, page: str, source: list[str]) -> None:
    """Turn the tables of the first page into the site's table of contents, section by section."""
    if page != root_doc:
        return
    for section in source[0].split("\n## ")[1:]:
        links = re.findall(r"^\| \[(.+?)\]\((\S+)\)", section, re.MULTILINE)
        entries = [f"{_entry(title)} <{Path(link).with_suffix('')}>" for title, link in links]
        caption, listed = section.partition("\n")[0], "\n".join(entries)
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{listed}\n```\n"


def stack_wide_tables(app: Sphinx, doctree: nodes.document) -> None:
    """Prepare wide tables of text for a phone, where the cells of a row are below one another."""
    for head in doctree.findall(nodes.thead):
        table, columns = head.parent.parent, [cell.astext() for cell in head[0]]
        cells = [cell for row in head.parent[-1] for cell in row]
        if len(columns) > 3 and max(len(cell.astext()) for cell in cells) > 100:
            table["classes"].append("stacked")
            if columns[-1] in ("meaning", "verdict"):
                table["classes"].append("last-second")
            for place, cell in enumerate(cells):
                if cell.astext() and place % len(columns):
                    name = f"{columns[place % len(columns)]}: "
                    cell[0].insert(0, nodes.inline("", name, classes=["column"]))


def add_index_entries(app: Sphinx, doctree: nodes.document) -> None:
    """Let the search begin with options in every spelling, words of the glossary and SOUGHT."""
    page = app.env.docname
    entries = [(word, "") for word in SOUGHT.get(page, ())]
    if page == "docs/options":
        for body in doctree.findall(nodes.tbody):
            for row in body:
                name, section = row[0].astext(), body.parent.parent.parent["ids"][0]
                row["ids"].append(f"{section}-{name.replace(' ', '-')}")
                words = {name, name.replace("_", " "), f"--{name.replace('_', '-')}"}
                if section.startswith("names-in"):
                    words = {name, *row[1].astext().split(", ")}
                entries += [(word, row["ids"][0]) for word in sorted(words)]
    if page == "docs/glossary":
        for number, item in enumerate(doctree.findall(nodes.list_item), 1):
            item["ids"].append(f"word-{number}")
            for words in item.findall(nodes.strong):
                entries += [(word, f"word-{number}") for word in words.astext().split(", ")]
    if entries:
        listed = [("single", word, place, "main", None) for word, place in entries]
        doctree += addnodes.index(entries=listed)


def read_sections(app: Sphinx, what: str, name: str, *rest: Any) -> None:
    """Read "Args:", "Returns:" and "Example:" of a docstring; the texts of fields have none."""
    lines: list[str] = rest[-1]
    if what not in ("attribute", "property", "data"):
        lines[:] = str(GoogleDocstring("\n".join(lines), SECTIONS, app, what, name)).splitlines()


def write_front_page(app: Sphinx, error: Exception | None) -> None:
    """Write index.html, which leads to the first page."""
    if error is None and app.builder.format == "html":
        Path(app.outdir, "index.html").write_text(REDIRECT, encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Register what happens while a page is read and after the build."""
    app.connect("source-read", name_readme)
    app.connect("source-read", leave_out_of_menu)
    app.connect("source-read", add_contents)
    app.connect("doctree-read", stack_wide_tables)
    app.connect("doctree-read", add_index_entries)
    app.connect("autodoc-process-docstring", read_sections)
    app.connect("build-finished", write_front_page)
