"""Counts of faults that were tried: how many were survived, and what was lost in the others."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import io
import signal
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from narl import cli
from narl.errors import InputError


@dataclasses.dataclass
class Tally:
    """One row of the table: a kind of fault."""

    name: str
    tried: int = 0
    lost: list[str] = dataclasses.field(default_factory=list)
    """A line for each trial that ended wrongly."""
    notes: list[str] = dataclasses.field(default_factory=list)
    """Further lines about them, such as smaller examples that are lost, too."""

    @contextlib.contextmanager
    def trial(self, what: str, seconds: int = 120) -> Iterator[None]:
        """Count a trial: it is lost if it raises an error or takes too long."""
        self.tried += 1
        try:
            with time_limit(seconds):
                yield
        except Exception as error:
            text = " ".join(str(error).split())[:300]
            self.lost.append(f"{what}: {type(error).__name__}: {text}")


def print_table(tallies: Iterable[Tally]) -> None:
    """Print tried, survived and lost of every kind of fault, and what was lost."""
    rows = [(x.name, x.tried, x.tried - len(x.lost), len(x.lost)) for x in tallies]
    width = max(len(name) for name, *_ in rows)
    print(f"{'fault':<{width}}  tried  survived  lost")
    for name, tried, survived, lost in rows:
        print(f"{name:<{width}}  {tried:5}  {survived:8}  {lost:4}")
    for tally in tallies:
        for line in (*tally.lost, *tally.notes):
            print(f"LOST {tally.name}: {line}")


@contextlib.contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise TimeoutError after so many seconds; only the main thread can be interrupted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def expire(number: int, frame: object) -> None:
        raise TimeoutError(f"it took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, expire)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def refused_in_one_line(*kinds: type[Exception], naming: str = "") -> Iterator[None]:
    """Allow an InputError, or one of other kinds, if its message is one line that names this."""
    try:
        yield
    except (InputError, *kinds) as error:
        if "\n" in str(error):
            raise AssertionError(f"more than one line: {error}") from error
        if naming not in str(error):
            raise AssertionError(f"{naming} is not named: {error}") from error


class Answer(NamedTuple):
    """The exit status and the output of a call of `narl`."""

    status: int
    out: str
    err: str


@functools.cache
def _found_source(kind: Any, find: Any = inspect.getsourcelines) -> Any:
    try:
        return find(kind)
    except (OSError, TypeError) as error:
        return error


def _source_lines(kind: Any) -> Any:
    """Return the source of a class, which is looked for once.

    Narl and tyro look for the docstrings of arguments there, which takes two thirds of a call.
    """
    found = _found_source(kind)
    if isinstance(found, Exception):
        raise found
    return found


def call_narl(*words: str) -> Answer:
    """Run `narl` in this process."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(inspect, "getsourcelines", _source_lines),
    ):
        status = cli.main(words)
    return Answer(status, out.getvalue(), err.getvalue())


def check_answer(answer: Answer, statuses: Iterable[int] = (0, 2)) -> None:
    """Check that `narl` ended as it should: with a known status, and an error in one line."""
    last = answer.err.strip().splitlines()[-1:]
    assert answer.status in statuses, (answer.status, last)
    assert "Traceback" not in answer.err, answer.err[-500:]
    if answer.status:
        assert last, "no error was printed"
        assert last[0].startswith("narl: "), last
        assert "--debug shows where" not in last[0], last


def check_status(runs: Path) -> None:
    """Check that `narl sweep --status` answers; its exit status is 1 if a run has failed."""
    for option in ("--json", "--seeds-per-run=1"):
        answer = call_narl("sweep", "--status", "--runs", str(runs), option)
        assert answer.status in (0, 1), answer
        assert answer.err == "", answer.err
