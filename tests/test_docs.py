"""The documentation is true: links exist, code blocks run and print the outputs that are shown.

Every ```python and ```bash block of a page is run, in the order of the page, in one namespace and
one empty folder per page; of the README only ```python blocks. The word after the language may be:

    no-run      the block is not run (it installs something, or takes long)
    file=x.py   the block is written to this file and not run by itself
    exit=2      the command must end with this status, and its stderr counts as its output

A block ```text output shows what the block before it printed. Numbers must agree to their last
digit, or within a tolerance (```text output 30%), or not at all (```text output any-numbers, for
trainings that another processor's rounding changes); "…" stands for any text.

`python tests/test_docs.py` rewrites the tables that are made from the code.
"""

import ast
import contextlib
import dataclasses
import inspect
import io
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = (
    *("architecture.md", "decomposition.md", "diagnostics.md", "formats.md", "metrics.md"),
    *("own-environment.md", "own-mdp.md", "own-optimism.md", "reproduction.md", "resume.md"),
    *("rivals.md", "start.md", "sweeps.md", "training.md", "tutorial.md", "tutorial-deep.md"),
    *("when-optimism-pays.md", "../README.md"),
)
FENCE = re.compile(r"^```(\S+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = r"(?<![\w.])[-−]?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?!\w)"


class Block(NamedTuple):
    """A fenced block: its language, the words after it, its text and its line."""

    language: str
    words: list[str]
    text: str
    line: int


def read(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def blocks(page: str) -> list[Block]:
    return [
        Block(match[1], match[2].split(), match[3], page[: match.start()].count("\n") + 1)
        for match in FENCE.finditer(page)
    ]


# --- outputs --------------------------------------------------------------------------------


def difference(shown: str, printed: str, tolerance: float) -> str | None:
    """Describe how an output differs from the one on a page; None if it does not."""
    pattern = ""
    for piece in re.split(rf"({NUMBER}|…|\s+)", shown.strip()):
        if piece == "…":
            pattern += r".*?"
        elif re.fullmatch(NUMBER, piece):
            pattern += f"({NUMBER})"
        else:
            pattern += r"\s+" if piece.isspace() else re.escape(piece)
    match = re.fullmatch(pattern, printed.strip(), re.DOTALL)
    if match is None:
        return "the words differ"
    if math.isinf(tolerance):
        return None
    for before, now in zip(re.findall(NUMBER, shown), match.groups(), strict=True):
        expected, actual = (float(text.replace("−", "-")) for text in (before, now))
        digits = len(before.partition(".")[2]) if "e" not in before else 0
        if abs(expected - actual) > max(10.0**-digits, tolerance * abs(expected)) * (1 + 1e-9):
            return f"{before} is shown, {now} came out"
    return None


def test_outputs_are_compared_word_by_word_and_number_by_number() -> None:
    shown = "regret 16.5 of UCRL2, kept in runs/…\ndone"
    assert difference(shown, "regret   16.6 of UCRL2, kept in runs/x-12\ndone\n", 0.0) is None
    assert difference(shown, "regret 16.7 of UCRL2, kept in runs/x\ndone", 0.0)
    assert difference(shown, "regret 16.7 of UCRL2, kept in runs/x\ndone", 0.1) is None
    assert difference(shown, "regret 16.5 of UCRL3, kept in runs/x\ndone", 0.1)
    assert difference(shown, "regret 16.5 of UCRL2, kept in runs/x", 0.1)
    assert difference("[23, None]", "[23, 24]", 0.5)
    assert difference("step 10: 0", "step 10: -80.5", math.inf) is None
    assert difference("step 10: 0", "step 10: None", math.inf)


# --- running the pages ----------------------------------------------------------------------


def run_bash(block: Block, folder: Path, environment: dict[str, str]) -> str:
    status = next((int(word[5:]) for word in block.words if word.startswith("exit=")), 0)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.text],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == status, f"{block.text}\n{done.stdout}\n{done.stderr}"
    return done.stderr if status else done.stdout


def run_python(block: Block, path: Path, namespace: dict[str, Any]) -> str:
    out = io.StringIO()
    # Blank lines first, so that a traceback names the page and its line.
    code = compile("\n" * block.line + block.text, str(path), "exec")
    with contextlib.redirect_stdout(out):
        exec(code, namespace)
    return out.getvalue()


def run_page(path: Path, folder: Path, environment: dict[str, str]) -> int:
    """Run the blocks of a page and compare their outputs; return how many were run."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    languages = {"python"} if path.name == "README.md" else {"python", "bash"}
    printed, count = None, 0
    for block in blocks(path.read_text(encoding="utf-8")):
        target = next((word[5:] for word in block.words if word.startswith("file=")), None)
        if target is not None:
            (folder / target).write_text(block.text, encoding="utf-8")
        elif block.language in languages and "no-run" not in block.words:
            count += 1
            if block.language == "bash":
                printed = run_bash(block, folder, environment)
            else:
                printed = run_python(block, path, namespace)
        elif block.words[:1] == ["output"]:
            where = f"{path.name}:{block.line}"
            assert printed is not None, f"{where}: no block is run before this output"
            percent = [float(word[:-1]) for word in block.words if word.endswith("%")]
            tolerance = percent[0] / 100 if percent else 0.0
            if "any-numbers" in block.words:
                tolerance = math.inf
            problem = difference(block.text, printed, tolerance)
            assert problem is None, f"{where}: {problem}; it is now\n{printed}"
    return count


@pytest.fixture
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """`narl` of this checkout on the PATH, whether or not it is installed as a command."""
    home = tmp_path_factory.mktemp("home")
    command = home / "narl"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m narl "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    others = {name: value for name, value in os.environ.items() if not name.startswith("NARL_")}
    return others | {
        "PATH": f"{home}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "PYTHONWARNINGS": "error",
        "XDG_CACHE_HOME": str(home / "cache"),
        "COLUMNS": "100",
    }


@pytest.mark.slow
@pytest.mark.usefixtures("registry")
@pytest.mark.parametrize("name", PAGES)
def test_page_runs_and_prints_the_outputs_shown(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "agg")
    assert run_page(DOCS / name, tmp_path, environment) > 0


def test_every_page_with_code_that_runs_is_run() -> None:
    def has_code(page: Path) -> bool:
        found = blocks(page.read_text(encoding="utf-8"))
        return any(b.language in ("python", "bash") and "no-run" not in b.words for b in found)

    pages = [page for page in DOCS.glob("*.md") if has_code(page)]
    assert {page.name for page in pages} == {name for name in PAGES if "/" not in name}


# --- links ----------------------------------------------------------------------------------


def anchors(path: Path) -> set[str]:
    """Return the anchors that GitHub gives a page's headings."""
    titles = re.findall(r"^#+ (.+)$", FENCE.sub("", path.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


WRITTEN = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md"), *ROOT.glob("policies/*/*.md")])


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_links_have_targets(path: Path) -> None:
    prose = re.sub(r"`[^`\n]+`", "", FENCE.sub("", path.read_text(encoding="utf-8")))
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        assert target.exists(), f"{path.name}: {link} leads nowhere"
        assert target.is_relative_to(ROOT), f"{path.name}: {link} leads out of the repository"
        if anchor:
            assert anchor in anchors(target), f"{path.name}: {link}: no such heading"


def test_index_names_every_page_once_in_its_tables() -> None:
    rows = re.findall(r"^\| \[.+?\]\((\S+)\)", read("index.md"), re.MULTILINE)
    named = [(DOCS / row).resolve() for row in rows]
    listed = {DOCS / "index.md", *(DOCS / "runs").glob("*.md")}  # runs are in the table of claims
    pages = {*WRITTEN, *ROOT.glob("notebooks/*.ipynb")} - listed
    assert sorted(named) == sorted(pages)


def test_pictures_have_a_text_and_a_script_and_are_small() -> None:
    shown = set()
    for path in WRITTEN:
        for text, file in re.findall(r"!\[([^\]]*)\]\((\S+)\)", path.read_text(encoding="utf-8")):
            assert len(text) > 20, f"{path.name}: {file} needs a text for those who cannot see it"
            shown.add((path.parent / file).resolve())
    scripts = "".join(path.read_text(encoding="utf-8") for path in DOCS.glob("make_*.py"))
    for picture in (DOCS / "pictures").iterdir():
        assert picture in shown, f"{picture.name} is on no page"
        assert f'"{picture.name}"' in scripts or f'"{picture.stem}"' in scripts, picture.name
        assert picture.stat().st_size < 2e6


# --- tables that are made from the code -----------------------------------------------------


def options_tables() -> str:
    from narl.options import markdown_table, option_fields
    from narl.tabular import AGENTS

    lines = []
    for name, spec in AGENTS.items():
        fields = option_fields(spec.options)
        lines += [f"### {name}", "", " ".join(inspect.getdoc(spec.options).split()), ""]
        lines += [markdown_table(fields) if fields else "No options.", ""]
    return "\n".join(lines)


def sizes_table() -> str:
    from narl.experiments import EXPERIMENTS, SCALES
    from narl.experiments.experiment import length

    lines = ["| experiment | " + " | ".join(SCALES) + " |", "| --- |" + " --- |" * len(SCALES)]
    for experiment in EXPERIMENTS.values():
        cells = []
        for scale in SCALES:
            studies = experiment.cells(scale).values()
            lengths = {length(study) for study in studies}
            size = "–".join(map(str, sorted({min(lengths), max(lengths)})))
            (seeds,) = {len(study.seeds) for study in studies}
            cells.append(f"{len(studies)} × {size} × {seeds}")
        lines.append(f"| `{experiment.id}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


TABLES = {"options": ("own-mdp.md", options_tables), "sizes": ("reproduction.md", sizes_table)}


def split_at_table(name: str) -> tuple[str, str, str]:
    """Return a page before, in and after the table of this name."""
    page = read(TABLES[name][0])
    begin, end = f"<!-- {name}: made by tests/test_docs.py -->\n", f"<!-- end of {name} -->"
    before, _, rest = page.partition(begin)
    table, _, after = rest.partition(end)
    assert after, f"the page lacks {begin!r} or {end!r}"
    return before + begin, table, end + after


@pytest.mark.parametrize("name", TABLES)
def test_tables_equal_those_made_from_the_code(name: str) -> None:
    assert split_at_table(name)[1].strip() == TABLES[name][1]().strip(), (
        "run: python tests/test_docs.py"
    )


def test_pages_agree_on_the_minutes_to_a_first_policy_and_a_comparison() -> None:
    start, index, readme = (
        " ".join(read(page).split()) for page in ("start.md", "index.md", "../README.md")
    )
    found = re.search(
        r"own in (\d+) minutes, and to a comparison of two algorithms in (\d+)\.", start
    )
    assert found is not None
    policy, comparison = found.groups()
    assert f"own in {policy} minutes, and to a comparison in {comparison}." in index
    row = f"own environment: {policy} minutes; a comparison of two algorithms: {comparison} minutes"
    assert row in index
    assert f"for your own environment in {policy} minutes." in readme


def claim_ids() -> set[str]:
    """Return the ids of all claims, of the committed outcomes and of calls in the code.

    An id with a variable part, such as f"fig1b-slow-{env}", is cut before that part.
    """
    outcomes = (ROOT / "results").glob("*-paper.json")
    stored = (json.loads(path.read_text(encoding="utf-8"))["claims"] for path in outcomes)
    ids = {claim["id"] for claims in stored for claim in claims}
    for path in (ROOT / "src" / "narl" / "experiments").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Claim" and node.args:
                first = node.args[0]
                start = first.values[0] if isinstance(first, ast.JoinedStr) else first
                if isinstance(start, ast.Constant):
                    ids.add(start.value)
    return ids


def test_every_claim_is_explained() -> None:
    ids = claim_ids()
    assert len(ids) >= 12
    explained = re.findall(r"`([a-z0-9]+-[a-z0-9-]*)(…?)`", read("reproduction.md"))
    assert {
        id_
        for id_ in ids
        if not any(id_ == name or (more and id_.startswith(name)) for name, more in explained)
        and (id_, "…") not in explained
    } == set()


def test_pages_name_the_version_of_the_package() -> None:
    import narl

    citation = re.search(r"version = \{([\d.]+)\}", read("../README.md"))
    assert citation is not None
    assert citation[1] == narl.__version__


def test_every_metric_is_explained() -> None:
    from narl.tabular import AGENTS, Trace

    page = read("metrics.md")
    derived = {name for name, value in vars(Trace).items() if isinstance(value, property)}
    known = {field.name for field in dataclasses.fields(Trace)} | derived | set(AGENTS)
    described = {"seeds", "agent", "options"}  # what was run, not what came out
    assert {name for name in known - described if f"`{name}`" not in page} == set()


def test_every_metric_of_a_training_is_explained() -> None:
    from narl.deep import metrics
    from narl.deep.sac import Losses

    source = inspect.getsource(metrics)
    names = set(re.findall(r'^ +"(\w+)": ', source, re.MULTILINE)) | set(Losses._fields)
    names |= {f"fit_selected_{name}" for name in metrics.RADIUS_NAMES}
    assert {"eval_return", "nonfinite", "fit_selected_0.1"} <= names
    page = read("metrics.md")
    assert {name for name in names if f"`{name}`" not in page} == set()


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "src"))
    for table in TABLES:
        before, _, after = split_at_table(table)
        page_name, make = TABLES[table]
        (DOCS / page_name).write_text(f"{before}\n{make()}\n{after}", encoding="utf-8")
