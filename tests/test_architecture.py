"""The import rules: packages know only those below them, and docs use only public names."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

import narl

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "narl"
PAGES = (*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", *ROOT.glob("notebooks/*.ipynb"))
PYTHON_BLOCK = re.compile(r"^```python\b[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)

PACKAGES = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
MAY_IMPORT = {
    "storage": set(),
    "tabular": {"storage"},
    "deep": {"storage"},
    "report": {"storage", "tabular", "deep"},
    "experiments": {"storage", "tabular", "deep", "report"},
    "commands": PACKAGES,
}
"""The packages that each package may import."""
ENTRY_POINTS = {"__init__", "__main__", "cli", "registration"}
"""Modules beside the packages that import packages; the others serve all packages."""


def imported_names(tree: ast.AST) -> Iterator[str]:
    """Yield the full name of every import, those inside functions too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def parts_imported_by(path: Path) -> set[str]:
    """Return the packages and modules directly below `narl` that a file imports."""
    names = imported_names(ast.parse(path.read_text(encoding="utf-8")))
    return {name.split(".")[1] for name in names if name.startswith("narl.")}


def test_every_package_has_a_rule() -> None:
    assert set(MAY_IMPORT) == PACKAGES


@pytest.mark.parametrize("package", sorted(MAY_IMPORT))
def test_package_imports_only_packages_below_it(package: str) -> None:
    allowed = MAY_IMPORT[package] | {package}
    for path in (SOURCE / package).rglob("*.py"):
        assert parts_imported_by(path) & PACKAGES <= allowed, path


def test_storage_imports_errors_only() -> None:
    for path in (SOURCE / "storage").rglob("*.py"):
        assert parts_imported_by(path) <= {"storage", "errors", "__version__"}, path


def test_modules_that_serve_all_packages_import_none() -> None:
    modules = [path for path in SOURCE.glob("*.py") if path.stem not in ENTRY_POINTS]
    assert len(modules) > 5
    for path in modules:
        assert parts_imported_by(path).isdisjoint(PACKAGES), path


# --- docs use public names --------------------------------------------------------------------


def python_blocks(page: Path) -> list[str]:
    """Return the Python code of a page or a notebook."""
    if page.suffix == ".ipynb":
        cells = nbformat.read(page, as_version=4).cells
        code = [cell.source for cell in cells if cell.cell_type == "code"]
        return [re.sub(r"^%.*$", "", source, flags=re.MULTILINE) for source in code]
    return PYTHON_BLOCK.findall(page.read_text(encoding="utf-8"))


def names_used(code: str) -> Iterator[str]:
    """Yield the names of narl that are imported, or used as narl.deep.NARL and the like."""
    tree = ast.parse(code)
    yield from (name for name in imported_names(tree) if name.partition(".")[0] == "narl")
    for node in ast.walk(tree):
        chain: list[str] = []
        while isinstance(node, ast.Attribute):
            chain.insert(0, node.attr)
            node = node.value
        if chain and isinstance(node, ast.Name) and node.id == "narl":
            yield ".".join(["narl", *chain])


def is_public(name: str) -> bool:
    """Return whether a name is narl, one of its public names, or a public name of those."""
    _, *parts = name.split(".")
    if not parts:
        return True
    if parts[0] not in narl.__all__:
        return False
    if len(parts) == 1 or not (SOURCE / parts[0] / "__init__.py").exists():
        return not any(part.startswith("_") for part in parts)
    return parts[1] in importlib.import_module(f"narl.{parts[0]}").__all__


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_docs_use_public_names_only(page: Path) -> None:
    names = {name for code in python_blocks(page) for name in names_used(code)}
    assert {name for name in names if not is_public(name)} == set()


def test_private_names_are_recognised() -> None:
    code = "import narl\nfrom narl.deep.sac import update\nnarl.tabular.run(narl.tabular.mdp.x)"
    private = {name for name in names_used(code) if not is_public(name)}
    assert private == {"narl.deep.sac.update", "narl.tabular.mdp.x", "narl.tabular.mdp"}
