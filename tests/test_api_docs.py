"""The public names of the packages and modules are documented, with examples that run.

A function names every argument under "Args:" and its result under "Returns:"; a class of fields has
a text under every field; every function and class has an example. The same is true of their public
methods, whose examples are run where they have one. The pages docs/api/*.md list every public name.
Some pages have the arguments themselves, and one example for all their names.
"""

import ast
import dataclasses
import doctest
import importlib
import inspect
import re
import sys
import textwrap
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import narl
from narl.options import options_of

ROOT = Path(__file__).resolve().parents[1]
MODULES = ("narl.decomposition", "narl.optimism", "narl.stats", "narl.theory")
PACKAGES = ("narl", "narl.deep", "narl.tabular", *MODULES)
SELF_CONTAINED = ("narl.report", "narl.experiments", "narl.storage", "narl.paper")
"""Packages whose pages have the arguments, and an example, themselves."""
PAGES = (*PACKAGES, *SELF_CONTAINED)
"""The pages docs/api/*.md beside the index."""
TINY = {
    "steps": 60,
    "initial_steps": 20,
    "epoch_length": 20,
    "updates_per_step": 1,
    "batch": 16,
    "hidden": (8,),
    "eval_episodes": 1,
    "eval_horizon": 20,
}
"""Options of examples that train; docs/api/index.md shows the same ones."""
TRAINS = {"Agent", "KeepBest", "SaveEvery", "run_training"}
"""Names whose examples train an agent, which takes a few seconds."""
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def public_objects() -> dict[str, Any]:
    """Return every public function and class by its longest name, each once."""
    objects = {}
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                objects[f"{package}.{name}"] = value
    longest = {id(value): name for name, value in objects.items()}
    return {name: value for name, value in objects.items() if longest[id(value)] == name}


OBJECTS = public_objects()


def marked(name: str) -> Any:
    """Return a name as a parameter: slow if its example trains."""
    marks = [pytest.mark.slow] if name.split(".")[-1] in TRAINS else []
    return pytest.param(name, marks=marks)


def public_methods(classes: dict[str, type]) -> dict[str, Any]:
    """Return the public methods of classes, each once, also those inherited from narl's own."""
    methods = {
        f"{name}.{method}": value
        for name, kind in classes.items()
        for method, value in inspect.getmembers(kind, inspect.isfunction)
        if not method.startswith("_") and value.__module__.startswith("narl.")
    }
    first = {value: name for name, value in reversed(methods.items())}
    return {name: value for name, value in methods.items() if first[value] == name}


CLASSES = {name: value for name, value in OBJECTS.items() if inspect.isclass(value)}
METHODS = public_methods(CLASSES)
EXAMPLES = OBJECTS | {name: value for name, value in METHODS.items() if ">>>" in value.__doc__}
FUNCTIONS = {name: value for name, value in OBJECTS.items() if inspect.isfunction(value)} | METHODS


def documented_arguments(docstring: str) -> set[str]:
    """Return the names under "Args:"."""
    section = re.search(r"^Args:\n((?:    .*\n|\n)+)", docstring + "\n", re.MULTILINE)
    return set(re.findall(r"^    \**(\w+): ", section[1], re.MULTILINE)) if section else set()


def arguments_of(function: Any) -> set[str]:
    return set(inspect.signature(function).parameters) - {"self", "cls"}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_documents_its_arguments_and_result(name: str) -> None:
    function, docstring = FUNCTIONS[name], inspect.getdoc(FUNCTIONS[name])
    assert documented_arguments(docstring) == arguments_of(function)
    is_named = re.search(r"^Returns:$|^\"?Return ", docstring, re.MULTILINE) is not None
    assert is_named or function.__annotations__["return"] in ("None", None)


def field_texts(kind: type) -> dict[str, str]:
    """Return the texts below the fields of a class."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(definition, ast.ClassDef)
    texts = {}
    for field, text in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
            texts[ast.unparse(field.target)] = ast.unparse(text.value)
    return texts


def fields_of(kind: type) -> set[str]:
    """Return the fields of a named tuple or dataclass."""
    if dataclasses.is_dataclass(kind):
        return {field.name for field in dataclasses.fields(kind)}
    return set(getattr(kind, "_fields", ()))


@pytest.mark.parametrize("name", [marked(name) for name in CLASSES])
def test_class_documents_its_fields_or_arguments(name: str) -> None:
    kind = CLASSES[name]
    docstring = inspect.getdoc(kind)
    if fields := fields_of(kind):
        helps = set(options_of(kind)) if dataclasses.is_dataclass(kind) else set()
        assert fields - set(field_texts(kind)) - helps == set()
    elif not issubclass(kind, BaseException) and "Takes the arguments of `Agent`" not in docstring:
        assert documented_arguments(docstring) == arguments_of(kind)


@pytest.mark.parametrize("package", PACKAGES)
def test_tables_and_types_have_a_text(package: str) -> None:
    module = importlib.import_module(package)
    names = [name for name in module.__all__ if not name.startswith("_")]
    values = {name: getattr(module, name) for name in names}
    plain = {
        name
        for name, value in values.items()
        if not (inspect.isclass(value) or inspect.isfunction(value) or inspect.ismodule(value))
    }
    imports = re.findall(r"from (\S+) import (\S+) as", inspect.getsource(module))
    modules = {name: home for home, name in imports}
    for name in plain:
        source = inspect.getsource(importlib.import_module(modules[name]))
        assert re.search(
            rf'^{name}\b[^\n]*=.*?^[\]}})]?\n?"""', source, re.MULTILINE | re.DOTALL
        ), name


# --- examples -------------------------------------------------------------------------------


@pytest.fixture
def substitutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand-ins for TensorBoard and Weights & Biases, which are not installed."""
    writer = SimpleNamespace(add_scalar=lambda *_: None, flush=lambda: None, close=lambda: None)
    board, wandb = ModuleType("tensorboardX"), ModuleType("wandb")
    board.SummaryWriter = lambda folder: writer  # type: ignore[attr-defined]
    run = SimpleNamespace(log=lambda *_, **__: None, finish=lambda: None)
    wandb.init = lambda **_: run  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tensorboardX", board)
    monkeypatch.setitem(sys.modules, "wandb", wandb)


@pytest.mark.usefixtures("substitutes", "registry")
@pytest.mark.parametrize("name", [marked(name) for name in EXAMPLES])
def test_example_gives_what_it_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = {"narl": narl, "np": np, "jax": jax, "jnp": jnp, "tiny": TINY}
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner(optionflags=FLAGS)
    (test,) = finder.find(EXAMPLES[name], name, globs=names)
    assert test.examples, "it has no example"
    report: list[str] = []
    assert runner.run(test, out=report.append).failed == 0, "".join(report)


def test_wrong_examples_are_noticed() -> None:
    assert documented_arguments(
        "Return x.\n\nArgs:\n    x: The\n        y: no.\n    **z: More.\n"
    ) == {*("x", "z")}
    test = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, None)
    assert doctest.DocTestRunner(optionflags=FLAGS).run(test, out=lambda _: None).failed == 1


# --- pages of the reference -----------------------------------------------------------------


def page_of(package: str) -> str:
    return (ROOT / "docs" / "api" / f"{package}.md").read_text(encoding="utf-8")


def entries_of(page: str) -> dict[str, str]:
    """Return the text below every name that a page documents."""
    parts = re.split(r"^\.\. (?:auto|py:)\w+:: (\w+)", page, flags=re.MULTILINE)[1:]
    assert len(set(parts[::2])) == len(parts[::2])
    return dict(zip(parts[::2], parts[1::2], strict=True))


@pytest.mark.parametrize("package", PAGES)
def test_reference_lists_every_public_name(package: str) -> None:
    page = page_of(package)
    shared = re.findall(r"`(\w+)`", page.partition("<!-- elsewhere -->")[2])
    listed, public = {*entries_of(page), *shared}, {*importlib.import_module(package).__all__}
    assert listed == public - {"__version__"}


def test_every_page_of_the_reference_is_checked() -> None:
    pages = {path.stem for path in (ROOT / "docs" / "api").glob("*.md")}
    assert pages == {*PAGES, "index"}


@pytest.mark.parametrize("package", SELF_CONTAINED)
def test_page_documents_every_argument(package: str) -> None:
    module = importlib.import_module(package)
    for name, text in entries_of(page_of(package)).items():
        if callable(value := getattr(module, name)) and name != "Scale":
            documented = re.findall(r"^   :param (\w+): ", text, re.MULTILINE)
            assert documented == list(inspect.signature(value).parameters), name
            assert not inspect.isfunction(value) or "   :returns: " in text, name


@pytest.mark.slow
@pytest.mark.parametrize("package", SELF_CONTAINED)
def test_example_of_a_page_prints_what_it_shows(
    package: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NARL_RUNS", raising=False)
    page = page_of(package)
    code, shown = re.search(
        r"^```python\n(.*?)^```\n```text output\n(.*?)^```$", page, re.MULTILINE | re.DOTALL
    ).groups()
    unused = {name for name in entries_of(page) if not re.search(rf"\b{name}\b", code)}
    assert package != "narl.report" or unused == set()
    exec(code, {"narl": narl, "np": np})
    assert capsys.readouterr().out.split() == shown.split()


def test_page_of_the_reference_shows_the_options_of_its_examples() -> None:
    page = (ROOT / "docs" / "api" / "index.md").read_text(encoding="utf-8")
    shown: dict[str, Any] = {}
    exec(re.search(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[1], shown)
    assert shown["tiny"] == TINY
