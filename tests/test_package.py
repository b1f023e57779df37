"""`import narl`: quick, with every public name, and one version everywhere."""

import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import narl

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = [
    "narl",
    *(f"narl.{name}" for name in narl.__all__ if inspect.ismodule(getattr(narl, name))),
]
"""The packages and modules from which users import."""


def test_import_of_narl_and_its_halves_imports_nothing_heavy() -> None:
    program = (
        "import sys, narl, narl.deep, narl.tabular\n"
        "narl.InputError, narl.deep.EnvironmentFault\n"
        "print(*sys.modules)"
    )
    environment = {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    modules = done.stdout.split()
    assert "narl.errors" in modules
    heavy = {"jax", "numpy", "scipy", "gymnasium", "matplotlib", "altair", "rich", "tyro"}
    assert heavy.isdisjoint(modules)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_exists(package: str) -> None:
    module = importlib.import_module(package)
    for name in module.__all__:
        assert getattr(module, name) is not None
        assert name in dir(module)


def test_house_rules_name_every_public_package() -> None:
    rules = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    sentence = rules.partition("- Users import from ")[2].partition(". ")[0]
    assert set(re.findall(r"`(.+?)`", sentence)) == set(PACKAGES)


@pytest.mark.parametrize(
    "package",
    ["narl", "narl.deep", "narl.tabular", "narl.report", "narl.stats", "narl.theory"]
    + ["narl.experiments"],
)
def test_type_checkers_see_every_public_name(package: str) -> None:
    """A type checker takes a name as exported where the name is imported as itself."""
    module = importlib.import_module(package)
    lines = re.findall(r"^    from \S+ import (.+)$", inspect.getsource(module), re.MULTILINE)
    assert lines == [f"{name} as {name}" for name in (line.split()[0] for line in lines)]
    assert sorted(line.split()[0] for line in lines) == sorted({*module.__all__} - {"__version__"})


def test_lazy_names_are_those_of_their_modules() -> None:
    from narl.deep import checked_config, finite_check, named_agents

    assert narl.NARL is narl.deep.NARL is named_agents.NARL
    assert narl.NonFiniteError is finite_check.NonFiniteError
    assert narl.deep.make_config is checked_config.make_config


@pytest.mark.parametrize("package", ["narl", "narl.deep", "narl.tabular"])
def test_unknown_name_is_an_attribute_error(package: str) -> None:
    module = importlib.import_module(package)
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        module.nothing  # noqa: B018
    with pytest.raises(ImportError, match="nothing"):
        exec(f"from {package} import nothing")


def test_version_is_the_same_everywhere() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.+)$", citation, re.MULTILINE).group(1) == narl.__version__
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert narl.__version__ in re.findall(r"^## \[(.+?)\]", changelog, re.MULTILINE)
