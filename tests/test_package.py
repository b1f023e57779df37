"""`import narl`: light, with every public name within reach, and one version everywhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import narl

ROOT = Path(__file__).resolve().parent.parent


def test_importing_narl_imports_nothing_heavy() -> None:
    heavy = {"jax", "numpy", "scipy", "gymnasium", "matplotlib", "altair", "rich", "tyro"}
    program = "import sys, narl, narl.errors; narl.InputError; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert "narl.errors" in loaded
    assert heavy.isdisjoint(loaded)


@pytest.mark.parametrize("name", narl.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(narl, name) is not None
    assert name in dir(narl)


def test_what_learning_raises_can_be_caught() -> None:
    from narl import errors
    from narl.deep import trainer

    assert narl.EnvironmentFault is errors.EnvironmentFault
    assert narl.Fault is trainer.Fault


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'narl' has no attribute 'tabluar'"):
        narl.tabluar  # noqa: B018
    with pytest.raises(ImportError, match="tabluar"):
        from narl import tabluar  # noqa: F401


def test_the_version_is_the_same_everywhere() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.+)$", citation, re.MULTILINE).group(1) == narl.__version__
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## \[(.+?)\]", changelog, re.MULTILINE)
    assert narl.__version__ in headings
