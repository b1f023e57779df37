"""A training as arrays and back: only the imagined rows that count, each in its place."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick_trainings import quick_config
from tiny import assert_same

from narl.deep import snapshot as snapshot_module
from narl.deep.device_programs import Device
from narl.deep.replay_buffer import Replay
from narl.deep.replicas import BatchedReplicas, ThreadedReplicas
from narl.deep.selection_diagnostics import FitDiagnostics
from narl.deep.trainer import Trainer
from narl.errors import InputError

CONFIGS = (quick_config("narl", seeds=(3,)), quick_config("mbpo", seeds=(4, 5)))


def ring(num_added, capacity=7, width=3):
    """Return a ring in which the i-th added row is filled with i; other rows are −1."""
    rows = np.full((capacity, width), -1.0, np.float32)
    for i in range(num_added):
        rows[i % capacity] = i
    return rows


@pytest.mark.parametrize("piece", [1, 36, 1 << 25])
@pytest.mark.parametrize(("num_added", "num"), [(0, 0), (3, 2), (7, 7), (9, 7), (12, 4), (13, 1)])
def test_newest_rows_are_gathered_oldest_first_and_put_back(monkeypatch, piece, num_added, num):
    monkeypatch.setattr(snapshot_module, "PIECE_BYTES", piece)
    replay = Replay(jnp.array(ring(num_added)), jnp.int32(num_added), jnp.int32(num))
    rows = snapshot_module.newest_rows(replay, num)
    np.testing.assert_array_equal(snapshot_module._rows_in_pieces(replay, num), rows)
    assert rows.shape == (num, 3)
    assert rows[:, 0].tolist() == list(range(num_added - num, num_added))
    for capacity in (7, 10):  # also into a longer ring
        (restored,) = snapshot_module.put_rows(np.array([num_added]), [rows], (capacity, 3))
        places = [i % capacity for i in range(num_added - num, num_added)]
        np.testing.assert_array_equal(restored[places], rows)
        assert np.count_nonzero(restored.any(axis=1)) <= num


def test_rows_of_many_rings_are_gathered_from_the_place_of_each():
    replay = Replay(jnp.stack([ring(9), ring(4)]), jnp.array([9, 4]), jnp.array([5, 2]))
    rows = snapshot_module.newest_rows(replay, 5)
    np.testing.assert_array_equal(snapshot_module._rows_in_pieces(replay, 5), rows)
    assert rows[0, :, 0].tolist() == [4, 5, 6, 7, 8]
    assert rows[1, -2:, 0].tolist() == [2, 3]


@pytest.mark.parametrize("shape", [(8, 3), (1, 4)])
def test_rows_of_another_configuration_are_refused(shape):
    rows = [np.zeros((1, 3), np.float32), np.zeros(shape, np.float32)]
    with pytest.raises(InputError, match=r"checkpoint: imagined\.1 has shape .* same config"):
        snapshot_module.put_rows(np.array([1, 8]), rows, (7, 3))


def test_diagnostics_that_an_old_checkpoint_lacks_are_not_numbers():
    """Two replicas, three fits: numbers per replica and fit have this shape."""
    added = ("optimistic_share", "optimistic_gain")
    report = FitDiagnostics(
        *(np.full((2, 3), float(i)) for i in range(len(FitDiagnostics._fields)))
    )
    arrays = {f"reports.diagnostics.{name}": x for name, x in report._asdict().items()}
    assert_same(snapshot_module._report("diagnostics", arrays), report)
    old = {name: x for name, x in arrays.items() if not name.endswith(added)}
    restored = snapshot_module._report("diagnostics", old)._asdict()
    for name, x in report._asdict().items():
        expected = np.full((2, 3), np.nan) if name in added else x
        np.testing.assert_array_equal(restored[name], expected)
    del old["reports.diagnostics.distance"]
    with pytest.raises(KeyError, match="distance"):
        snapshot_module._report("diagnostics", old)


def without_seconds(rows):
    return [row and {name: x for name, x in row.items() if name != "seconds"} for row in rows]


def assert_same_arrays(arrays, expected):
    assert sorted(arrays) == sorted(expected)
    for name, array in arrays.items():
        assert array.tobytes() == expected[name].tobytes(), name


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ThreadedReplicas, BatchedReplicas])
def test_training_is_restored_bit_for_bit(cache, kind, monkeypatch):
    with contextlib.closing(Trainer(CONFIGS, make_replicas=kind)) as first:
        for _ in range(33):
            first.step()
        arrays, notes = snapshot_module.capture(first)
        snapshot = snapshot_module.take_snapshot(first)
        monkeypatch.setattr(snapshot_module, "_device_has_room", lambda size: False)
        fetched = snapshot_module.take_snapshot(first)
        expected = {name: array.copy() for name, array in arrays.items()}
        sizes = np.asarray(first.to_host().model.size)
        rows = [first.step() for _ in range(27)]
        # The training has gone on in memory of its own, whenever the arrays are asked for.
        for each in (arrays, snapshot.arrays(), fetched.arrays()):
            assert_same_arrays(each, expected)
        last = first.to_host()
    state_bytes = sum(array.nbytes for name, array in arrays.items() if "env." not in name)
    assert snapshot.size >= state_bytes
    assert [arrays[f"imagined.{i}"].shape[0] for i in range(3)] == sizes.tolist()
    assert sizes.min() > 0
    assert snapshot.notes["counters"]["step"] == notes["counters"]["step"] == 33
    with contextlib.closing(Trainer(CONFIGS, make_replicas=kind)) as second:
        snapshot_module.restore(second, arrays, notes)
        assert without_seconds(second.step() for _ in range(27)) == without_seconds(rows)
        assert rows[-1]["step"] == 60
        assert_same(_with_counting_rows(second.to_host()), _with_counting_rows(last))


def _with_counting_rows(state):
    """Return a state with those imagined rows only that count."""
    model = jax.tree.map(jnp.asarray, state.model)
    rows = snapshot_module.newest_rows(model, int(model.size.min()))
    return state._replace(model=state.model._replace(rows=rows))


@pytest.mark.slow
def test_restored_replica_selects_as_its_configuration_says(cache, monkeypatch):
    """The index of a step rule depends on the device: a batch holds only the rules in use."""
    monkeypatch.setattr(Device, "compile", lambda self, algorithm, info: None)

    def step_rules(trainer):
        indices = trainer.to_host().params.step_rule
        return [trainer.algorithm.step_rules[i] for i in indices]

    with contextlib.closing(Trainer(CONFIGS)) as first:
        arrays, notes = snapshot_module.capture(first)
        expected = step_rules(first)
    assert not any("params" in name for name in arrays)
    arrays["state.params.step_rule"] = np.full(3, 9)  # as checkpoints of earlier versions have it
    with contextlib.closing(Trainer(CONFIGS, make_replicas=BatchedReplicas)) as second:
        snapshot_module.restore(second, arrays, notes)
        assert step_rules(second) == expected
        assert second.algorithm.step_rules != first.algorithm.step_rules


def test_checkpoint_of_another_format_is_refused():
    with pytest.raises(InputError, match="checkpoint: it is of another version of narl"):
        snapshot_module.restore(None, {}, {"books": {}})
