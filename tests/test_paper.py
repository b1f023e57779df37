"""The paper map: complete in itself, complete in the code, and current in docs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from narl import paper
from narl.errors import InputError
from narl.report.page import TITLE

ROOT = Path(__file__).parent.parent
MAP = ROOT / "docs" / "paper-map.md"
SOURCE = ROOT / "src"


def test_title_of_the_paper_is_the_same_everywhere():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    title = re.findall(r'title: "(Towards [^"]+)"', citation)[0]
    pages = ("README.md", "docs/index.md", "docs/errata.md", "notebooks/tabular.ipynb")
    texts = [(ROOT / page).read_text(encoding="utf-8") for page in pages]
    # The page of the report has a hyphen at which no line breaks.
    for text in (*texts, paper.__doc__, TITLE.replace("\u2011", "-")):
        assert title in text


@paper.implements("eq:1", "eq:2")
def tagged():
    return 1


@paper.implements("eq:1")
class Tagged:
    pass


def _numbers(pattern: str) -> set[int]:
    """All n in "Eq. 7, 8" or "Eq. 19–26", wherever the table says where a statement is."""
    found: set[int] = set()
    for entry in paper.ENTRIES:
        for listed in re.findall(pattern + r" (\d+(?:(?:, |–)\d+(?![\dL]))*)", entry.where):
            for part in listed.split(", "):
                ends = [int(end) for end in part.split("–")]
                found.update(range(ends[0], ends[-1] + 1))
    return found


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("Eq\\.", 27),
        ("Lemma", 9),
        ("Theorem", 4),
        ("Corollary", 4),
        ("Assumption", 2),
        ("Algorithm", 1),
        ("Table", 2),
        ("Fig\\.", 4),
    ],
)
def test_every_numbered_statement_of_the_paper_is_in_the_table(name, count):
    assert _numbers(name) == set(range(1, count + 1))


def test_ids_are_unique_and_entries_are_whole():
    ids = [entry.id for entry in paper.ENTRIES]
    assert len(ids) == len(set(ids))
    for entry in paper.ENTRIES:
        assert re.fullmatch(r"[a-z0-9.:-]+", entry.id), entry
        assert entry.kind
        assert re.search(r"L\d+", entry.where), entry
        assert entry.code == (not entry.reason), entry
        assert "|" not in entry.title + entry.where + entry.reason, entry


def test_the_lines_named_are_in_reading_order():
    first = [int(re.search(r"L(\d+)", entry.where).group(1)) for entry in paper.ENTRIES]
    assert all(line <= 1104 for line in first)
    assert first == sorted(first)


def test_implements_records_and_returns_the_object_unchanged():
    assert tagged() == 1
    assert isinstance(Tagged(), Tagged)
    assert f"{__name__}:tagged" in paper._registry["eq:2"]
    assert f"{__name__}:Tagged" in paper._registry["eq:1"]


def test_an_unknown_id_is_refused_at_import():
    with pytest.raises(InputError, match=r"'eq:22'.*did you mean 'eq:2'"):
        paper.implements("eq:1", "eq:22")


def test_a_function_made_at_run_time_is_refused():
    with pytest.raises(TypeError, match="tag the function around it"):

        @paper.implements("eq:1")
        def local():
            pass


def test_implementations_name_only_the_package_and_every_id():
    found = paper.implementations()
    assert list(found) == [entry.id for entry in paper.ENTRIES]
    for names in found.values():
        assert all(name.startswith("narl.") for name in names)


def test_everything_that_should_have_code_has_code():
    assert paper.missing(paper.implementations()) == []


def test_what_is_named_exists():
    for names in paper.implementations().values():
        for name in names:
            module, qualname = name.split(":")
            found = sys.modules[module]
            for part in qualname.split("."):
                found = getattr(found, part)
            assert found is not None


def test_what_has_no_code_is_missing_unless_it_says_why():
    nothing = {entry.id: [] for entry in paper.ENTRIES}
    missing = paper.missing(nothing)
    assert "sec:6.1" in missing
    assert not {entry.id for entry in paper.ENTRIES if not entry.code} & set(missing)


def test_a_missing_optional_dependency_is_passed_over_and_a_missing_part_of_narl_is_not(
    monkeypatch,
):
    def fail(name):
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(paper.importlib, "import_module", lambda name: fail("tensorboardX.x"))
    assert paper._import_unless_optional("narl.board") is None
    monkeypatch.setattr(paper.importlib, "import_module", lambda name: fail("narl.gone"))
    with pytest.raises(ModuleNotFoundError):
        paper._import_unless_optional("narl.board")


def test_check_tells_what_is_wrong_in_one_line(tmp_path, monkeypatch, capsys):
    full = {entry.id: ["narl.x:y"] for entry in paper.ENTRIES}
    monkeypatch.setattr(paper, "implementations", lambda: full)
    page = tmp_path / "map.md"
    assert paper.main(["--check", str(page)]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert paper.main(["--write", str(page)]) == 0
    assert paper.main(["--check", str(page)]) == 0
    assert capsys.readouterr().err == ""
    page.write_text(page.read_text().replace("narl.x:y", "narl.x:z", 1))
    assert paper.main(["--check", str(page)]) == 1
    assert "is out of date" in capsys.readouterr().err
    monkeypatch.setattr(paper, "implementations", lambda: full | {"eq:2": []})
    assert paper.main(["--check", str(page)]) == 1
    assert "nothing implements eq:2" in capsys.readouterr().err


def test_markdown_lists_every_entry_and_says_why_some_have_no_code():
    page = paper.markdown()
    for entry in paper.ENTRIES:
        assert f"| `{entry.id}` | {entry.where} | {entry.title} |" in page
        assert entry.reason in page


@pytest.mark.slow
def test_the_module_as_a_program_writes_the_same_page(tmp_path):
    page = tmp_path / "map.md"
    subprocess.run(
        [sys.executable, "-m", "narl.paper", "--write", str(page)],
        check=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    assert page.read_text(encoding="utf-8") == paper.markdown()


def test_the_committed_map_is_current(capsys):
    status = paper.main(["--check", str(MAP)])
    assert (status, capsys.readouterr().err) == (0, "")
