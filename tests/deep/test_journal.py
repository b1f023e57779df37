"""The journal holds whole rows, whatever happens to the process that writes it."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from narl.deep.journal import NAME, Journal
from narl.errors import InputError

SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture
def journal(tmp_path):
    return Journal(tmp_path / NAME)


def row(epoch: int) -> dict:
    return {"epoch": epoch, "return": epoch / 3, "name": "ε\n"}


def test_rows_come_back_in_order(journal):
    assert (journal.rows(), journal.offset) == ([], 0)
    offsets = [journal.append(row(epoch)) for epoch in range(3)]
    assert journal.rows() == [row(0), row(1), row(2)]
    assert journal.offset == offsets[-1] == journal.path.stat().st_size
    assert Journal(journal.path).rows() == journal.rows()
    lines = journal.path.read_text().splitlines()
    assert [json.loads(line) for line in lines] == journal.rows()


def test_numbers_become_plain_and_those_that_are_not_finite_null(journal):
    journal.append(
        {
            "nan": float("nan"),
            "inf": np.float32(-np.inf),
            "members": np.array([0.5, np.nan]),
            "jax": jnp.float32(1.5),
            "count": np.int64(3),
            "solved": np.bool_(True),
            "nested": {"list": [float("inf"), 0.1]},
        }
    )
    assert "NaN" not in journal.path.read_text()
    assert journal.rows() == [
        {
            "nan": None,
            "inf": None,
            "members": [0.5, None],
            "jax": 1.5,
            "count": 3,
            "solved": True,
            "nested": {"list": [None, 0.1]},
        }
    ]


@pytest.mark.parametrize("torn", [b"{", b'{"epoch": 2', b'{"epoch": 2}', b"\x00\x00\xff"])
def test_a_torn_last_line_is_not_read_and_cut_by_the_next_row(journal, torn):
    end = [journal.append(row(epoch)) for epoch in range(2)][-1]
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole + torn)
    assert journal.rows() == [row(0), row(1)]
    assert journal.offset == end
    assert journal.path.read_bytes() == whole + torn  # a reader changes nothing
    journal.append(row(2))
    assert journal.rows() == [row(0), row(1), row(2)]
    assert journal.path.read_bytes().startswith(whole + b'{"epoch": 2, "return"')


def test_a_torn_first_line_is_cut(journal):
    journal.path.write_bytes(b'{"epo')
    assert (journal.rows(), journal.offset) == ([], 0)
    journal.append(row(0))
    assert journal.rows() == [row(0)]


def test_a_resumed_journal_equals_the_uninterrupted_one(journal, tmp_path):
    uninterrupted = Journal(tmp_path / "uninterrupted.jsonl")
    for epoch in range(5):
        uninterrupted.append(row(epoch))
    journal.append(row(0))
    offset = journal.append(row(1))
    journal.append(row(2))
    journal.append({"epoch": 3, "return": "of the part that is lost"})
    with journal.path.open("ab") as file:
        file.write(b'{"ep')
    resumed = Journal(journal.path)
    resumed.truncate_after(offset)
    assert resumed.offset == offset
    for epoch in range(2, 5):
        resumed.append(row(epoch))
    assert resumed.path.read_bytes() == uninterrupted.path.read_bytes()


def test_truncating_to_nothing_and_to_all(journal):
    journal.truncate_after(0)
    assert not journal.path.exists()
    journal.append(row(0))
    end = journal.append(row(1))
    with journal.path.open("ab") as file:
        file.write(b'{"ep')
    journal.truncate_after(end)
    assert journal.path.stat().st_size == end
    journal.truncate_after(0)
    assert journal.path.read_bytes() == b""


@pytest.mark.parametrize("by", [-1, 1, 1000])
def test_an_offset_that_is_no_end_of_a_line_is_refused(journal, by):
    end = journal.append(row(0))
    journal.path.write_bytes(journal.path.read_bytes() + b"torn")
    with pytest.raises(InputError, match=rf"offset {end + by} given; must be the end of a line"):
        journal.truncate_after(end + by)
    with pytest.raises(InputError, match="offset -1 given"):
        journal.truncate_after(-1)
    assert journal.rows() == [row(0)]


@pytest.mark.parametrize("line", [b"{broken}\n", b"3\n", b"\n", b"\xff\xfe\n"])
def test_a_damaged_line_is_named(journal, line):
    journal.append(row(0))
    with journal.path.open("ab") as file:
        file.write(line)
    with pytest.raises(InputError, match=r"^progress.jsonl: line 2 is damaged; [^\n]*$"):
        journal.rows()


def test_a_row_that_is_not_json_is_refused_and_nothing_is_written(journal):
    with pytest.raises(InputError, match=r"progress\.what: a set given; must be a JSON value"):
        journal.append({"what": {1}})
    assert not journal.path.exists()


def test_it_is_frozen(journal):
    with pytest.raises(dataclasses.FrozenInstanceError):
        journal.path = Path("elsewhere")


KILLED = """
import os, pathlib, signal, sys
from narl.deep.journal import Journal

journal = Journal(pathlib.Path(sys.argv[1]))
journal.append({"epoch": 0})
fsync = os.fsync
os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)
journal.append({"epoch": 1})
"""


def test_kill_9_loses_no_row_that_was_appended(journal):
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(journal.path)],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        timeout=60,
    )
    assert killed.returncode == -signal.SIGKILL
    assert journal.rows()[0] == {"epoch": 0}
    journal.truncate_after(len('{"epoch": 0}\n'))
    journal.append({"epoch": 1})
    assert journal.rows() == [{"epoch": 0}, {"epoch": 1}]
