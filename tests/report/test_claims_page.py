"""The page of claims: rows of statements, printed numbers, and links to the runs behind them."""

import dataclasses
import importlib
import math
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from test_run_list import TRAINING

from narl.errors import InputError
from narl.report.contents import Claim, Outcome, Table

DOCS = Path(__file__).resolve().parents[2] / "docs"
TABLE = Table("t", "T", ["M", "mean", "std", "seeds"], [[3, 110.0, 12.0, 10], [5, 90.0, 1.0, 10]])
OUTCOME = Outcome(
    id="fig3a",
    title="NARL against MBPO",
    scale="paper",
    command="narl reproduce fig3a --scale paper",
    about="About.",
    charts=[],
    tables=[TABLE],
    claims=[
        Claim("fig3a-a", "A.", "§6", "holds", "NARL: 1; MBPO: 2. Difference −1, n = 7, P = 1."),
        Claim("fig3a-b", "B.", "§6", "fails", "no comparison"),
    ],
    runs=["a", "b"],
    trainings=[
        dataclasses.replace(TRAINING, label=label)
        for label in ("MBPO", "NARL", "B, 0.1", "SAC", "B, 0.2")
    ],
    environment={"narl": "1", "jax": "2", "device": "cpu"},
)
OUTCOMES = {"fig3a": OUTCOME}


@pytest.fixture(scope="module")
def claims() -> ModuleType:
    """The script that makes the page."""
    sys.path.insert(0, str(DOCS))
    try:
        return importlib.import_module("make_claims")
    finally:
        sys.path.remove(str(DOCS))


@pytest.fixture(autouse=True)
def named_runs(claims: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs behind the made-up claims."""
    patterns = {"fig3a-a": "narl|mbpo", r"fig3a-(b)": r"\1.*"}
    monkeypatch.setattr(sys.modules["claim_runs"], "RUNS", patterns)


def test_row_of_one_claim_has_its_numbers_verdict_and_seeds(claims: ModuleType) -> None:
    row = claims.statement_row(claims.Statement("It is.", "§6", "drawn", ("fig3a-a",)), OUTCOMES)
    measured = "NARL: 1; MBPO: 2. Difference −1"
    runs = "[`fig3a`](runs/fig3a.md): [1–2](runs/fig3a.md#run-1)"
    assert row == ["It is. (§6)", "drawn", measured, "7", f"*holds*<br>{runs}"]


def test_row_of_several_claims_names_them_and_one_failure_fails_it(claims: ModuleType) -> None:
    statement = claims.Statement("It is.", "ours", "–", ("fig3a-a", "fig3a-b", "fig3b-c"))
    row = claims.statement_row(statement, OUTCOMES)
    assert row[0] == "It is."
    assert row[2].split("<br>")[1:] == [
        "• *fails*: no comparison (`fig3a-b`)",
        "• not run yet (`fig3b`)",
    ]
    runs = "[`fig3a`](runs/fig3a.md): [1–3](runs/fig3a.md#run-1), [5](runs/fig3a.md#run-5)"
    assert row[4] == f"*fails*<br>{runs}<br>`fig3b`"


def test_statement_without_a_run_is_not_run_yet(claims: ModuleType) -> None:
    for ids in (("fig3b-c",), ("fig3a-a", "fig3b-c")):
        statement = claims.Statement("It is.", "§6", "–", ids)
        assert claims.verdict_of(statement, OUTCOMES) == "not run yet"
    statement = claims.Statement("It is.", "§6", "–", ("fig3b-c",))
    row = claims.statement_row(statement, OUTCOMES)
    assert row[2:] == ["not run yet", "–", "*not run yet*<br>`fig3b`"]


def test_statement_without_an_experiment_is_not_tested(claims: ModuleType) -> None:
    row = claims.statement_row(claims.Statement("It is.", "§6", "–"), OUTCOMES)
    assert row[2:] == ["not tested", "–", "*not tested*"]


def test_claim_whose_runs_are_not_named_is_refused(claims: ModuleType) -> None:
    without = dataclasses.replace(OUTCOME, trainings=[])
    assert claims.runs_behind("fig3a-b", without) == []
    for claim, outcome in (
        ("fig3a-c", without),
        ("fig3a-b", dataclasses.replace(OUTCOME, trainings=[TRAINING])),
    ):
        with pytest.raises(InputError, match=f"no runs of fig3a for the claim {claim}"):
            claims.runs_behind(claim, outcome)


def test_numbers_in_turn_are_one_range(claims: ModuleType) -> None:
    assert claims.ranges({7, 1, 3, 2}) == [(1, 3), (7, 7)]
    assert claims.ranges([]) == []


@pytest.mark.parametrize(("mean", "verdict"), [(105, "agrees"), (200, "differs")])
def test_printed_mean_agrees_if_the_interval_contains_0(
    claims: ModuleType, mean: float, verdict: str
) -> None:
    columns = ("mean", "std", "seeds")
    printed = claims.Printed(mean, 12.0, 10, "fig3a", "t", (3,), columns, "NARL")
    statement = claims.Statement("Steps", "Table 2", f"{mean}", printed=printed)
    assert claims.verdict_of(statement, OUTCOMES) == verdict
    # Equal deviations and seeds: 18 degrees of freedom, t = 2.101.
    reach = 2.1009 * math.sqrt(2 * 12.0**2 / 9)
    interval = claims.welch(printed, *claims.measure(printed, OUTCOME))
    assert interval == pytest.approx((110 - mean - reach, 110 - mean + reach), abs=1e-2)
    row = claims.statement_row(statement, OUTCOMES)
    assert (row[3], row[4].partition(": ")[2]) == ("10", "[2](runs/fig3a.md#run-2)")


def test_claims_that_no_statement_names_are_refused(claims: ModuleType) -> None:
    with pytest.raises(InputError, match="no claim fig3a-"):
        claims.check([OUTCOME])
    named = {id_ for statement in claims.STATEMENTS for id_ in statement.claims}
    known = [Claim(id_, "", "§6", "holds", "") for id_ in named if id_.startswith("fig3a-")]
    new = Claim("fig3a-new", "", "§6", "holds", "")
    claims.check([dataclasses.replace(OUTCOME, claims=known)])
    claims.check(
        [dataclasses.replace(OUTCOME, claims=[*known, dataclasses.replace(new, where="ours")])]
    )
    with pytest.raises(InputError, match="no statement names the claim fig3a-new"):
        claims.check([dataclasses.replace(OUTCOME, claims=[*known, new])])


def test_experiments_are_listed_with_their_pages(claims: ModuleType) -> None:
    assert claims.experiment_row(OUTCOME) == [
        *("[`fig3a`](runs/fig3a.md)", "NARL against MBPO", f"`{OUTCOME.command}`"),
        *("2", "narl 1, JAX 2, cpu"),
    ]


def anchors(page: str) -> set[str]:
    """Return the anchors of the headings of a page."""
    return {
        re.sub(r"[^a-z0-9-]", "", text.lower().replace(" ", "-"))
        for text in re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    }


def test_every_link_of_the_pages_leads_somewhere(
    claims: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # the stored claims, and the runs that are named for them
    pages = claims.pages()
    assert len(pages) >= 18
    for path, page in pages.items():
        for link in set(re.findall(r"\]\(([^)]+)\)", page)):
            file, _, anchor = link.partition("#")
            target = (path.parent / file).resolve() if file else path
            known = pages.get(target) or target.read_text(encoding="utf-8")
            assert not anchor or anchor in anchors(known), f"{path.name}: {link}"
    page = pages[DOCS / "claims.md"]
    assert len(re.findall(r"runs/fig3a\.md#run-\d", page)) >= 5
    widths = {line.replace(r"\|", "").count("|") for line in page.splitlines() if line[:1] == "|"}
    assert widths == {5, 6}  # our statements, the paper's statements and the experiments


def test_pages_are_small(claims: ModuleType) -> None:
    assert all(path.stat().st_size < 600_000 for path in (DOCS / "runs").glob("*.md"))
