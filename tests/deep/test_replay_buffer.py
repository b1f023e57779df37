"""The ring of transitions against a Python list, at its edges and far beyond its capacity."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narl.deep import replay_buffer as module
from narl.deep.replay_buffer import Replay, make_replay, pack, row_width, unpack
from narl.deep.sac import Batch

OBS_DIM, ACTION_DIM = 2, 1
WIDTH = row_width(OBS_DIM, ACTION_DIM)
CAPACITY, BLOCK = 7, 5
ALL, NONE = jnp.ones(BLOCK, bool), jnp.zeros(BLOCK, bool)

add_one, add_where = jax.jit(module.add_one), jax.jit(module.add_where)
sample = jax.jit(module.sample, static_argnums=2)


def row(number):
    return jnp.full(WIDTH, float(number))


def block(first):
    """Return rows with the numbers first, first + 1, …"""
    return jnp.arange(first, first + BLOCK, dtype=jnp.float32)[:, None] * jnp.ones(WIDTH)


def empty(capacity=CAPACITY):
    return make_replay(capacity, OBS_DIM, ACTION_DIM)


def contents(replay):
    """Return the rows that count, oldest first, each by its number."""
    age = np.arange(int(replay.size))[::-1]
    return np.asarray(replay.rows)[(int(replay.num_added) - 1 - age) % replay.capacity, 0].tolist()


def test_pack_and_unpack_keep_columns():
    batch = Batch(
        obs=jnp.array([[1.0, 2.0], [8.0, 9.0]]),
        action=jnp.array([[3.0], [10.0]]),
        reward=jnp.array([4.0, 11.0]),
        next_obs=jnp.array([[5.0, 6.0], [12.0, 13.0]]),
        done=jnp.array([7.0, 14.0]),
    )
    rows = pack(batch)
    assert rows.tolist() == [list(range(1, 8)), list(range(8, 15))]
    for before, after in zip(batch, unpack(rows, OBS_DIM), strict=True):
        np.testing.assert_array_equal(before, after)
    # Any number of leading axes, none included.
    assert pack(jax.tree.map(lambda x: x[0], batch)).tolist() == list(range(1, 8))
    assert unpack(rows[None], OBS_DIM).next_obs.shape == (1, 2, 2)


def test_ring_overwrites_oldest():
    replay = empty(3)
    assert contents(replay) == []
    for number in range(5):
        replay = add_one(replay, row(number))
    assert contents(replay) == [2, 3, 4]
    assert replay.rows[:, 0].tolist() == [3, 4, 2]


def test_masked_rows_dropped_and_order_kept():
    replay = add_where(empty(), block(10), jnp.array([1, 0, 1, 1, 0], bool), CAPACITY)
    assert replay.rows[:, 0].tolist() == [10, 12, 13, 0, 0, 0, 0]
    replay = add_where(replay, block(20), NONE, CAPACITY)
    assert contents(replay) == [10, 12, 13]
    replay = add_where(replay, block(30), ALL, CAPACITY)
    assert contents(replay) == [12, 13, 30, 31, 32, 33, 34]


def test_limit_excludes_oldest_for_good():
    replay = add_where(empty(), block(0), ALL, 3)
    assert contents(replay) == [2, 3, 4]
    replay = add_where(replay, block(10), NONE, 6)
    assert contents(replay) == [2, 3, 4]
    replay = add_where(replay, block(20), ALL, 6)
    assert contents(replay) == [4, 20, 21, 22, 23, 24]


def test_block_as_large_as_ring_replaces_all():
    replay = Replay(jnp.zeros((BLOCK, WIDTH)), jnp.int32(2 * BLOCK - 1), jnp.int32(BLOCK))
    replay = add_where(replay, block(50), ALL, BLOCK)
    assert contents(replay) == [50, 51, 52, 53, 54]
    assert replay.num_added < 2 * BLOCK


BLOCKS = st.tuples(st.lists(st.booleans(), min_size=BLOCK, max_size=BLOCK), st.integers(1, 9))


@given(st.lists(st.one_of(st.none(), BLOCKS), max_size=25))
@settings(max_examples=60, deadline=None)
def test_ring_equals_list_of_newest(operations):
    """Every operation adds one row (None), or the marked rows of a block with a limit."""
    replay, expected, number = empty(), [], 1
    for operation in operations:
        if operation is None:
            replay = add_one(replay, row(number))
            expected = [*expected, number][-CAPACITY:]
            number += 1
        else:
            kept, limit = operation
            replay = add_where(replay, block(number), jnp.array(kept), jnp.int32(limit))
            added = [number + i for i in range(BLOCK) if kept[i]]
            expected = [*expected, *added][-min(limit, CAPACITY) :]
            number += BLOCK
        assert contents(replay) == expected
        assert 0 <= replay.num_added < 2 * CAPACITY


@pytest.mark.parametrize(("num_rows", "limit"), [(3, 7), (7, 7), (23, 7), (16, 2)])
def test_samples_uniform_over_rows_that_count(num_rows, limit):
    replay = empty()
    for number in range(num_rows):
        replay = add_where(replay, block(number), jnp.arange(BLOCK) < 1, jnp.int32(limit))
    drawn = np.asarray(sample(jax.random.key(0), replay, (4000, 2)))
    assert drawn.shape == (4000, 2, WIDTH)
    numbers, counts = np.unique(drawn[..., 0], return_counts=True)
    size = min(num_rows, limit)
    assert numbers.tolist() == list(range(num_rows - size, num_rows))
    spread = np.sqrt((1 - 1 / size) / size / 8000)
    np.testing.assert_allclose(counts / 8000, 1 / size, atol=5 * spread + 1e-9)
    # Rows of one batch are drawn independently.
    assert abs(np.corrcoef(drawn[..., 0].T)[0, 1]) < 0.06
