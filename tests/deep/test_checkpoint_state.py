"""A training as arrays and back: only the imagined rows that count, each where it was."""

import jax
import jax.numpy as jnp
import numpy as np
import probes
import pytest
import tiny

from narl.deep import checkpoint as resume
from narl.deep.counters import LaneSpec
from narl.deep.replay_buffer import Replay
from narl.deep.replicas import CoreLanes, VmapLanes
from narl.deep.trainer import Training
from narl.errors import InputError


def ring(num_added, capacity=7, width=3):
    """Row i of all that were added is filled with i; the rest is −1."""
    rows = np.full((capacity, width), -1.0, np.float32)
    for i in range(num_added):
        rows[i % capacity] = i
    return rows


@pytest.mark.parametrize("piece", [1, 36, 1 << 25])
@pytest.mark.parametrize(("num_added", "num"), [(0, 0), (3, 2), (7, 7), (9, 7), (12, 4), (13, 1)])
def test_the_newest_rows_are_gathered_oldest_first(monkeypatch, piece, num_added, num):
    monkeypatch.setattr(resume, "PIECE", piece)
    replay = Replay(jnp.array(ring(num_added)), jnp.int32(num_added), jnp.int32(num))
    rows = resume.newest_rows(replay, num)
    np.testing.assert_array_equal(resume._rows_in_pieces(replay, num), rows)
    assert rows.shape == (num, 3)
    assert rows[:, 0].tolist() == list(range(num_added - num, num_added))
    back = resume.put_back(np.array([num_added]), [rows], (7, 3))
    kept = [i % 7 for i in range(num_added - num, num_added)]
    np.testing.assert_array_equal(back[0][kept], ring(num_added)[kept])
    assert np.count_nonzero(back[0].any(axis=1)) <= num


def test_many_rings_at_once_each_from_its_own_place():
    replay = Replay(jnp.stack([ring(9), ring(4)]), jnp.array([9, 4]), jnp.array([5, 2]))
    rows = resume.newest_rows(replay, 5)
    np.testing.assert_array_equal(resume._rows_in_pieces(replay, 5), rows)
    assert rows[0, :, 0].tolist() == [4, 5, 6, 7, 8]
    assert rows[1, -2:, 0].tolist() == [2, 3]


def test_rows_of_other_settings_are_refused():
    with pytest.raises(InputError, match=r"imagined\.1 has shape \(8, 3\); same settings needed"):
        resume.put_back(np.array([1, 8]), [np.zeros((1, 3)), np.zeros((8, 3))], (7, 3))
    with pytest.raises(InputError, match=r"imagined\.0 has shape \(1, 4\); same settings needed"):
        resume.put_back(np.array([1]), [np.zeros((1, 4))], (7, 3))


def training(runner):
    settings = tiny.tiny_settings(algo="narl", radius=0.5, steps=30)
    specs = [LaneSpec(seed, "narl", 0.5) for seed in (0, 3)]
    return Training(settings, specs, make_env=probes.Drift, runner=runner)


@pytest.mark.slow
def test_without_room_for_a_copy_the_arrays_are_fetched_at_once(monkeypatch):
    monkeypatch.setattr(resume, "_has_room", lambda size: False)
    monkeypatch.setattr(resume, "_copied", lambda state: 1 / 0)
    one = training(VmapLanes)
    taken = resume.snapshot(one)
    before = {name: array.copy() for name, array in taken.arrays().items()}
    one.advance()
    for name, array in taken.arrays().items():
        assert array.tobytes() == before[name].tobytes(), name
    one.close()


@pytest.mark.slow
@pytest.mark.parametrize("runner", [CoreLanes, VmapLanes])
def test_a_training_comes_back_bit_for_bit_and_its_capture_stays_as_it_was(runner):
    first = training(runner)
    for _ in range(23):
        first.advance()
    arrays, notes = resume.capture(first)
    taken = resume.snapshot(first)
    assert taken.size >= sum(array.nbytes for name, array in arrays.items() if "env." not in name)
    sizes = np.asarray(first.export().model.size)
    assert [arrays[f"imagined.{i}"].shape[0] for i in range(2)] == sizes.tolist()
    assert sizes.min() > 0
    before = {name: array.copy() for name, array in arrays.items()}
    rows = [first.advance() for _ in range(7)]
    for name, array in arrays.items():  # the training went on in memory of its own
        assert array.tobytes() == before[name].tobytes(), name
    fetched = taken.arrays()  # only now, as the thread that writes does
    assert sorted(fetched) == sorted(before)
    for name, array in fetched.items():
        assert array.tobytes() == before[name].tobytes(), name
    assert taken.notes["books"]["step"] == notes["books"]["step"] == 23
    second = training(runner)
    resume.reinstate(second, arrays, notes)
    again = [second.advance() for _ in range(7)]
    drop = {"seconds"}
    assert [row and {k: row[k] for k in row if k not in drop} for row in rows] == [
        row and {k: row[k] for k in row if k not in drop} for row in again
    ]
    a, b = first.export(), second.export()
    rings = [jax.tree.map(jnp.asarray, one.model) for one in (a, b)]
    most = int(rings[0].size.min())
    np.testing.assert_array_equal(*(resume.newest_rows(one, most) for one in rings))
    none = np.zeros(0, np.float32)
    assert resume.same_bits(*(one._replace(model=one.model._replace(rows=none)) for one in (a, b)))
    first.close()
    second.close()
