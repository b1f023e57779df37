"""The page of errata names tests that exist, and every test of an erratum is on it."""

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "errata.md"


def names_of_tests(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def test_page_and_tests_name_each_other():
    named = set(re.findall(r"`(test_[a-z0-9_]+)`", PAGE.read_text(encoding="utf-8")))
    errata = [path for path in HERE.glob("test_errata_*.py") if path.name != Path(__file__).name]
    written = set().union(*(names_of_tests(path) for path in errata))
    assert named == written


def test_every_entry_has_its_six_parts():
    entries = re.split(r"^### ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert len(entries) >= 15
    for entry in entries:
        for part in ("Where", "Printed", "Right", "Why", "Code", "Test"):
            assert f"**{part}.**" in entry, f"{entry.splitlines()[0]}: no {part}"
