"""Blocks of the pages that are not run: commands are read up to their configuration, and Python is
compiled. The commands in the README's table of commands are read, too."""

import importlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

import narl
from narl.errors import InputError
from test_docs import ROOT, WRITTEN, anchors, blocks

STOPS = {
    "tabular": ("narl.commands.tabular._run",),
    "train": (
        "narl.commands.training_console.TrainingConsole.train",
        "narl.commands.train_extend.find_run",
    ),
    "sweep": ("narl.commands.sweep._run",),
    "tune": ("narl.sweeps.tuning.tune",),
    "eval": ("narl.commands.eval.evaluate",),
    "play": ("narl.commands.load_policy.load_policy",),
    "resume": ("narl.commands.resume.find_run",),
    "reproduce": ("narl.commands.reproduce._prepare_runs",),
    "report": ("narl.commands.report._trainings", "narl.commands.report._experiments"),
    "runs": ("narl.commands.runs.runs_folder",),
    "paper": ("narl.paper.implementations",),
    "doctor": ("narl.commands.doctor.examine",),
    "completion": ("narl.commands.completion.completion_script",),
}
"""What a command calls once its arguments are read and its configuration is checked."""


class Reached(Exception):
    """The command has read its arguments and made its configuration."""


def commands_in(text: str) -> Iterator[list[str]]:
    """Yield the words of every `narl …` line of a block."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line.removesuffix(" &"), comments=True)
        if words[:1] == ["narl"]:
            yield words[1:]


def commands_of(path: Path) -> list[list[str]]:
    """Return the commands of a page that no test runs."""
    text, is_readme = path.read_text(encoding="utf-8"), path == ROOT / "README.md"
    found = [
        words
        for block in blocks(text)
        if block.language == "bash" and ("no-run" in block.words or is_readme)
        for words in commands_in(block.text)
    ]
    table = text.partition("## Which command do I want?")[2].partition("\n## ")[0]
    rows = "\n".join(re.findall(r"^\|.*\|$", table, re.MULTILINE))
    shown = re.findall(r"`(narl [^`]*)`", rows)
    assert not is_readme or len(shown) > 15
    return found + [words for line in shown for words in commands_in(line)]


def stop_at_configurations(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*arguments: object, **options: object) -> None:
        raise Reached

    for target in (target for targets in STOPS.values() for target in targets):
        monkeypatch.setattr(target, stop)


def read_command(words: list[str]) -> None:
    """Call a command; `Reached` says that it is right."""
    if "--help" in words:
        return
    with pytest.raises(Reached):
        importlib.import_module(f"narl.commands.{words[0]}").main(words[1:])


@pytest.mark.parametrize(
    "path", [path for path in WRITTEN if commands_of(path)], ids=lambda p: p.name
)
def test_commands_that_are_not_run_have_arguments_that_exist(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stop_at_configurations(monkeypatch)
    narl.tabular.save_npz(tmp_path / "my.npz", narl.tabular.riverswim())  # the file of the README
    for words in commands_of(path):
        read_command(words)
    assert [file.name for file in tmp_path.iterdir()] == ["my.npz"]


def test_wrong_commands_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stop_at_configurations(monkeypatch)
    for line in (
        "narl train Hopper-v5 --radus 3",
        "narl tabular psrl riverswm",
        "narl sweep Hopper-v5 --algo narl,mpbo",
        "narl reproduce fig9",
    ):
        with pytest.raises(InputError):
            read_command(*commands_in(line))
    assert len(list(commands_in("cd x\nnarl runs  # all\nnarl train X \\\n  --steps 3 &\n"))) == 2


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_python_that_is_not_run_compiles(path: Path) -> None:
    for block in blocks(path.read_text(encoding="utf-8")):
        if block.language == "python":
            compile("\n" * block.line + block.text, str(path), "exec")


@pytest.mark.parametrize("path", sorted(ROOT.glob("notebooks/*.ipynb")), ids=lambda path: path.name)
def test_links_of_notebooks_have_targets(path: Path) -> None:
    cells = nbformat.read(path, as_version=4).cells
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    assert links
    for link in links:
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve()
        assert target.is_file(), f"{path.name}: {link} leads nowhere"
        assert not anchor or anchor in anchors(target), f"{path.name}: {link}: no such heading"
