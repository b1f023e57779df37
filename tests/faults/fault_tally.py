"""Counts of faults that were tried: how many were survived, and what was lost in the others."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import signal
import threading
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from narl import cli
from narl.errors import InputError


@dataclasses.dataclass
class Tally:
    """One row of the table: a kind of fault."""

    name: str
    tried: int = 0
    lost: list[str] = dataclasses.field(default_factory=list)
    """A line for each trial that ended wrongly."""

    @contextlib.contextmanager
    def trial(self, what: str, seconds: int = 120) -> Iterator[None]:
        """Count a trial: it is lost if it raises an error or takes too long."""
        self.tried += 1
        try:
            with _time_limit(seconds):
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
        for line in tally.lost:
            print(f"LOST {tally.name}: {line}")


@contextlib.contextmanager
def _time_limit(seconds: int) -> Iterator[None]:
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
def refused_in_one_line(*kinds: type[Exception]) -> Iterator[None]:
    """Allow an InputError, or one of other kinds, if its message is one line."""
    try:
        yield
    except (InputError, *kinds) as error:
        if "\n" in str(error):
            raise AssertionError(f"more than one line: {error}") from error


class Answer(NamedTuple):
    """The exit status and the output of a call of `narl`."""

    status: int
    out: str
    err: str


def call_narl(*words: str) -> Answer:
    """Run `narl` in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
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
