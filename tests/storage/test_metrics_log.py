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

from narl.errors import InputError
from narl.storage.metrics_log import NAME, MetricsLog, rows_from_bytes, rows_to_bytes, valid_lines

SOURCE = Path(__file__).parents[2] / "src"


@pytest.fixture
def journal(tmp_path):
    return MetricsLog(tmp_path / NAME)


def row(epoch: int) -> dict:
    return {"epoch": epoch, "return": epoch / 3, "name": "ε\n"}


def test_rows_come_back_in_order(journal):
    assert (journal.rows(), journal.offset) == ([], 0)
    offsets = [journal.append(row(epoch)) for epoch in range(3)]
    assert journal.rows() == [row(0), row(1), row(2)]
    assert journal.offset == offsets[-1] == journal.path.stat().st_size
    assert MetricsLog(journal.path).rows() == journal.rows()
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
    uninterrupted = MetricsLog(tmp_path / "uninterrupted.jsonl")
    for epoch in range(5):
        uninterrupted.append(row(epoch))
    journal.append(row(0))
    journal.append(row(1))
    lines = journal.lines()
    journal.append(row(2))
    journal.append({"epoch": 3, "return": "of the part that is lost"})
    with journal.path.open("ab") as file:
        file.write(b'{"ep')
    resumed = MetricsLog(journal.path)
    assert resumed.restore(lines)
    assert resumed.lines() == resumed.path.read_bytes() == lines
    for epoch in range(2, 5):
        resumed.append(row(epoch))
    assert resumed.path.read_bytes() == uninterrupted.path.read_bytes()


def test_cutting_to_nothing_and_to_all(journal):
    assert journal.restore(b"")
    assert not journal.path.exists()
    journal.append(row(0))
    journal.append(row(1))
    whole = journal.path.read_bytes()
    with journal.path.open("ab") as file:
        file.write(b'{"ep')
    assert journal.restore(whole)
    assert journal.path.read_bytes() == whole
    assert journal.restore(b"")
    assert journal.path.read_bytes() == b""


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b"X" + path.read_bytes()[1:]),
        lambda path: path.write_bytes(path.read_bytes().replace(b'"return"', b'"reXurn"', 1)),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(b""),
        lambda path: path.unlink(),
    ],
    ids=["byte", "key", "newline", "empty", "gone"],
)
def test_what_was_damaged_is_restored(journal, damage):
    journal.append(row(0))
    journal.append(row(1))
    whole = journal.path.read_bytes()
    damage(journal.path)
    journal.path.with_name(f".{NAME}").write_bytes(b"what a kill left of an earlier attempt")
    assert not journal.restore(whole)
    assert journal.path.read_bytes() == whole
    assert [path.name for path in journal.path.parent.iterdir()] == [NAME]


@pytest.mark.parametrize("line", [b"{broken}\n", b"3\n", b"\n", b"\xff\xfe\n"])
def test_a_damaged_line_is_left_out(journal, line):
    journal.append(row(0))
    with journal.path.open("ab") as file:
        file.write(line)
    journal.append(row(1))
    assert journal.rows() == [row(0), row(1)]


@pytest.mark.parametrize(
    "line",
    [
        b'{"stXp": 20, "r": [1, 2]}\n',
        b'{"step": 20}\n',
        b'{"step": 20, "r": [1]}\n',
        b'{"step": "20", "r": [1, 2]}\n',
        b'{"step": true, "r": [1, 2]}\n',
        b'{"step": 10, "r": [1, 2]}\n',
        b'{"step": 90, "r": [1, 2]}\n',
        b'{"step": 20, "r": [1, 2]\n',
        b"[20]\n",
    ],
)
def test_what_cannot_be_a_row_of_the_training_is_not_sound(line):
    first, last = ({"step": step, "r": [0.5, None], "n": 3} for step in (10, 30))
    lines = rows_to_bytes([first]) + line + rows_to_bytes([last])
    assert rows_from_bytes(valid_lines(lines, ["r"], lanes=2, last_step=40)) == [first, last]
    assert rows_from_bytes(valid_lines(lines, ["r"], lanes=2, last_step=20)) == [first]
    whole = rows_to_bytes([first, {**first, "step": 20}, last])
    assert valid_lines(whole, ["r"], lanes=2, last_step=30) == whole


def test_a_full_disk_is_named(journal, monkeypatch):
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"progress\.jsonl was not written: No space left"):
        journal.append(row(0))


def test_a_row_that_is_not_json_is_refused_and_nothing_is_written(journal):
    with pytest.raises(InputError, match=r"progress\.what: a set given; must be a JSON value"):
        journal.append({"what": {1}})
    assert not journal.path.exists()


def test_it_is_frozen(journal):
    with pytest.raises(dataclasses.FrozenInstanceError):
        journal.path = Path("elsewhere")


KILLED = """
import os, pathlib, signal, sys
from narl.storage.metrics_log import MetricsLog

journal = MetricsLog(pathlib.Path(sys.argv[1]))
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
    assert journal.restore(b'{"epoch": 0}\n')
    journal.append({"epoch": 1})
    assert journal.rows() == [{"epoch": 0}, {"epoch": 1}]
