"""The metrics log keeps every complete row, even if the writing process is killed."""

import numpy as np
import pytest

from narl.errors import InputError
from narl.storage.metrics_log import METRICS_LOG, MetricsLog, rows_from_bytes
from narl.storage.metrics_log import rows_to_bytes as plain_bytes


@pytest.fixture
def log(tmp_path):
    return MetricsLog(tmp_path / METRICS_LOG)


def rows_to_bytes(rows: list[dict]) -> bytes:
    """Return the lines of a log."""
    return plain_bytes(rows, checksums=True)


def row(epoch: int) -> dict:
    return {"epoch": epoch, "return": epoch / 3, "name": "ε\n"}


def test_rows_are_read_in_order(log):
    assert (log.rows(), log.lines()) == ([], b"")
    lines = [log.append(row(epoch)) for epoch in range(3)]
    assert log.rows() == [row(0), row(1), row(2)]
    assert log.lines() == log.path.read_bytes() == rows_to_bytes(log.rows()) == b"".join(lines)
    assert rows_from_bytes(log.lines()) == log.rows()


def test_cleared_log_is_empty(log):
    log.append(row(0))
    for _ in range(2):  # the second time there is no file
        log.clear()
        assert log.rows() == []
    log.append(row(1))
    assert log.rows() == [row(1)]


def test_numbers_become_plain_and_non_finite_ones_null(log):
    log.append({"a": np.nan, "b": np.float32(-np.inf), "c": np.array([0.5, np.nan])})
    log.append({"a": np.int64(3), "b": np.bool_(True), "c": {"list": [np.inf, 0.1]}})
    assert log.rows() == [
        {"a": None, "b": None, "c": [0.5, None]},
        {"a": 3, "b": True, "c": {"list": [None, 0.1]}},
    ]


@pytest.mark.parametrize("num_rows", [0, 2])
@pytest.mark.parametrize("torn", [b"{", b'{"epoch": 2}', b"\x00\x00\xff"])
def test_torn_last_line_is_not_read_and_removed_by_the_next_row(log, torn, num_rows):
    rows = [row(epoch) for epoch in range(num_rows)]
    content = rows_to_bytes(rows) + torn
    log.path.write_bytes(content)
    assert log.rows() == rows
    assert log.path.read_bytes() == content  # reading changes nothing
    log.append(row(2))
    assert log.path.read_bytes() == rows_to_bytes([*rows, row(2)])


def test_restored_log_equals_an_uninterrupted_one(log):
    assert log.restore(b"")
    assert not log.path.exists()
    log.append(row(0))
    lines = log.lines()
    log.append({"epoch": 1, "return": "lost"})
    with log.path.open("ab") as file:
        file.write(b'{"ep')
    assert log.restore(lines)
    assert log.path.read_bytes() == lines
    log.append(row(1))
    assert log.path.read_bytes() == rows_to_bytes([row(0), row(1)])
    assert log.restore(b"")
    assert log.path.read_bytes() == b""


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b"X" + path.read_bytes()[1:]),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(b""),
        lambda path: path.unlink(),
    ],
    ids=["byte", "newline", "empty", "gone"],
)
def test_damaged_log_is_restored_and_reported(log, damage):
    lines = rows_to_bytes([row(0), row(1)])
    log.path.write_bytes(lines)
    damage(log.path)
    assert not log.restore(lines)
    assert log.path.read_bytes() == lines
    assert [path.name for path in log.path.parent.iterdir()] == [METRICS_LOG]


@pytest.mark.parametrize("line", [b"{broken}\n", b"3\n", b"\n", b"\xff\xfe\n"])
def test_damaged_line_is_left_out(log, line):
    log.path.write_bytes(rows_to_bytes([row(0)]) + line)
    log.append(row(1))
    assert log.rows() == [row(0), row(1)]


@pytest.mark.parametrize("num_rows", [0, 1])
def test_full_disk_is_named(log, fail_fsync, num_rows):
    if num_rows:
        log.append(row(0))
    fail_fsync()
    with pytest.raises(OSError, match=r"No space left on device: .*progress\.jsonl"):
        log.append(row(1))


def test_row_that_is_not_json_is_refused_before_anything_is_written(log):
    with pytest.raises(InputError, match=r"progress\.what: a set given; must be a JSON value"):
        log.append({"what": {1}})
    assert not log.path.exists()


KILLED = """
log = storage.MetricsLog(pathlib.Path(sys.argv[1]))
log.append({"epoch": 0})
kill_at(os, "fsync", 1)
log.append({"epoch": 1})
"""


def test_kill_loses_no_row_that_was_appended(log, run_killed):
    run_killed(KILLED, log.path)
    assert log.rows()[0] == {"epoch": 0}
    assert log.restore(rows_to_bytes([{"epoch": 0}]))
    log.append({"epoch": 1})
    assert log.rows() == [{"epoch": 0}, {"epoch": 1}]


def test_every_changed_line_is_left_out_with_a_warning(log, caplog):
    for epoch in range(3):
        log.append(row(epoch))
    content = log.path.read_bytes()
    for place in range(content.index(b"\n") + 1, content.rindex(b"{")):
        damaged = bytearray(content)
        damaged[place] ^= 1
        log.path.write_bytes(damaged)
        caplog.clear()
        kept = [{name: each[name] for name in row(0)} for each in log.rows() if "epoch" in each]
        assert [each for each in kept if each not in (row(0), row(1), row(2))] == [], place
        if len(kept) < 3:
            assert "is damaged and left out" in caplog.text


def test_log_that_is_a_link_is_not_written_to(log, tmp_path):
    (tmp_path / "other").write_text("precious\n")
    log.path.symlink_to("other")
    with pytest.raises(OSError, match="symbolic link"):
        log.append(row(0))
    assert log.rows() == []
    assert (tmp_path / "other").read_text() == "precious\n"
