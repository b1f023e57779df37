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
    trainings=[TRAINING],
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


def test_row_of_one_claim_has_its_numbers_verdict_and_seeds(claims: ModuleType) -> None:
    row = claims.statement_row(claims.Statement("It is.", "§6", "drawn", ("fig3a-a",)), OUTCOMES)
    measured = "NARL: 1; MBPO: 2. Difference −1"
    assert row == ["It is. (§6)", "drawn", measured, "7", "*holds*<br>[`fig3a`](#fig3a)"]


def test_row_of_several_claims_names_them_and_one_failure_fails_it(claims: ModuleType) -> None:
    statement = claims.Statement("It is.", "ours", "–", ("fig3a-a", "fig3a-b", "fig3b-c"))
    row = claims.statement_row(statement, OUTCOMES)
    assert row[0] == "It is."
    assert row[2].split("<br>")[1:] == [
        "• *fails*: no comparison (`fig3a-b`)",
        "• not run yet (`fig3b`)",
    ]
    assert row[4] == "*fails*<br>[`fig3a`](#fig3a)<br>`fig3b`"


def test_statement_without_a_run_is_not_run_yet(claims: ModuleType) -> None:
    for ids in ((), ("fig3b-c",), ("fig3a-a", "fig3b-c")):
        statement = claims.Statement("It is.", "§6", "–", ids)
        assert claims.verdict_of(statement, OUTCOMES) == "not run yet"
    assert claims.statement_row(claims.Statement("It is.", "§6", "–"), OUTCOMES)[2:] == [
        *("not run yet", "–", "*not run yet*")
    ]


@pytest.mark.parametrize(("mean", "verdict"), [(105, "agrees"), (200, "differs")])
def test_printed_mean_agrees_if_the_interval_contains_0(
    claims: ModuleType, mean: float, verdict: str
) -> None:
    printed = claims.Printed(mean, 12.0, 10, "fig3a", "t", (3,), ("mean", "std", "seeds"))
    statement = claims.Statement("Steps", "Table 2", f"{mean}", printed=printed)
    assert claims.verdict_of(statement, OUTCOMES) == verdict
    # Equal deviations and seeds: 18 degrees of freedom, t = 2.101.
    reach = 2.1009 * math.sqrt(2 * 12.0**2 / 9)
    interval = claims.welch(printed, *claims.measure(printed, OUTCOME))
    assert interval == pytest.approx((110 - mean - reach, 110 - mean + reach), abs=1e-2)
    assert claims.statement_row(statement, OUTCOMES)[3] == "10"


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


def test_trainings_are_listed_with_their_commands(claims: ModuleType) -> None:
    assert claims.training_row(TRAINING) == [
        *("NARL", "12,346 (12,346)", "105 s with 30 replicas", f"`{TRAINING.command}`")
    ]
    section = claims.runs_section(OUTCOME)
    assert section.startswith("### fig3a\n")
    assert "[results/fig3a-paper.json](../results/fig3a-paper.json); 2 runs" in section


def test_every_link_of_the_page_leads_somewhere(claims: ModuleType) -> None:
    page = claims.page()
    headings = {
        re.sub(r"[^a-z0-9-]", "", text.lower().replace(" ", "-"))
        for text in re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#([^)]+)\)", page)) <= headings
    files = re.findall(r"\]\((\.\./results/[^)]+)\)", page)
    assert len(files) >= 12
    assert all((DOCS / file).is_file() for file in files)
    widths = {line.replace(r"\|", "").count("|") for line in page.splitlines() if line[:1] == "|"}
    assert widths == {5, 6}  # trainings and our statements, the paper's statements
