"""Fixtures of the report's tests: the page of made-up outcomes, and `narl` in an empty folder."""

from collections.abc import Callable
from typing import NamedTuple

import pytest


class Answer(NamedTuple):
    """The exit status and the output of a command."""

    status: int
    out: str
    err: str


@pytest.fixture(scope="session")
def page() -> str:
    """The page of all made-up outcomes."""
    from fake_outcomes import outcomes

    from narl.report.page import compose_page

    return compose_page([outcome.section() for outcome in outcomes()])


@pytest.fixture
def call(
    tmp_path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Answer]:
    """Call `narl` in an empty folder, in this process."""
    from narl import cli

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NARL_RUNS", raising=False)

    def call_narl(*arguments: str) -> Answer:
        status = cli.main(arguments)
        return Answer(status, *capsys.readouterr())

    return call_narl
