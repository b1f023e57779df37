"""The ring against a Python list, at its edges and far beyond its capacity."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narl.deep.replay_buffer import (
    Replay,
    add_one,
    add_where,
    make_replay,
    pack,
    row_width,
    sample,
    unpack,
)
from narl.deep.sac import Batch

OBS_DIM, ACTION_DIM = 2, 1
WIDTH = row_width(OBS_DIM, ACTION_DIM)
CAPACITY, BLOCK = 7, 5

one = jax.jit(add_one)
where = jax.jit(add_where)
draw = jax.jit(sample, static_argnums=2)


def row(number):
    return jnp.full(WIDTH, float(number))


def block(first):
    return jnp.arange(first, first + BLOCK, dtype=jnp.float32)[:, None] * jnp.ones(WIDTH)


def contents(replay):
    """The rows that count, oldest first, each by its number."""
    age = np.arange(int(replay.size))[::-1]
    return np.asarray(replay.rows)[(int(replay.num_added) - 1 - age) % replay.capacity, 0].tolist()


def test_pack_and_unpack():
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


def test_ring_wraps():
    replay = make_replay(3, OBS_DIM, ACTION_DIM)
    assert contents(replay) == []
    for number in range(5):
        replay = one(replay, row(number))
    assert contents(replay) == [2, 3, 4]
    assert replay.rows[:, 0].tolist() == [3, 4, 2]


def test_masked_rows_are_dropped_and_the_others_keep_their_order():
    replay = make_replay(CAPACITY, OBS_DIM, ACTION_DIM)
    replay = where(replay, block(10), jnp.array([1, 0, 1, 1, 0], bool), CAPACITY)
    assert contents(replay) == [10, 12, 13]
    assert replay.rows[:, 0].tolist() == [10, 12, 13, 0, 0, 0, 0]
    replay = where(replay, block(20), jnp.zeros(5, bool), CAPACITY)
    assert contents(replay) == [10, 12, 13]
    replay = where(replay, block(30), jnp.ones(5, bool), CAPACITY)
    assert contents(replay) == [12, 13, 30, 31, 32, 33, 34]


def test_the_limit_shuts_out_the_oldest_for_good():
    replay = make_replay(CAPACITY, OBS_DIM, ACTION_DIM)
    all_of_them, none = jnp.ones(5, bool), jnp.zeros(5, bool)
    replay = where(replay, block(0), all_of_them, 3)
    assert contents(replay) == [2, 3, 4]
    replay = where(replay, block(10), none, 6)
    assert contents(replay) == [2, 3, 4]
    replay = where(replay, block(20), all_of_them, 6)
    assert contents(replay) == [4, 20, 21, 22, 23, 24]


def test_a_block_as_large_as_the_ring():
    replay = Replay(jnp.zeros((BLOCK, WIDTH)), jnp.int32(2 * BLOCK - 1), jnp.int32(BLOCK))
    replay = where(replay, block(50), jnp.ones(5, bool), BLOCK)
    assert contents(replay) == [50, 51, 52, 53, 54]
    assert replay.num_added < 2 * BLOCK


@given(
    st.lists(
        st.one_of(
            st.just(None),  # one row
            st.tuples(st.lists(st.booleans(), min_size=BLOCK, max_size=BLOCK), st.integers(1, 9)),
        ),
        max_size=25,
    )
)
@settings(max_examples=60, deadline=None)
def test_ring_is_a_list_of_the_newest(operations):
    replay, expected, number = make_replay(CAPACITY, OBS_DIM, ACTION_DIM), [], 1
    for operation in operations:
        if operation is None:
            replay = one(replay, row(number))
            expected = [*expected, number][-CAPACITY:]
            number += 1
        else:
            kept, limit = operation
            replay = where(replay, block(number), jnp.array(kept), jnp.int32(limit))
            added = [number + i for i in range(BLOCK) if kept[i]]
            expected = [*expected, *added][-min(limit, CAPACITY) :]
            number += BLOCK
        assert contents(replay) == expected
        assert 0 <= replay.num_added < 2 * CAPACITY


@pytest.mark.parametrize(("num_rows", "limit"), [(3, 7), (7, 7), (23, 7), (23, 4), (16, 2)])
def test_samples_are_uniform_over_all_that_count(num_rows, limit):
    replay = make_replay(CAPACITY, OBS_DIM, ACTION_DIM)
    keep_first = jnp.array([1, 0, 0, 0, 0], bool)
    for number in range(num_rows):
        replay = where(replay, block(number), keep_first, jnp.int32(limit))
    drawn = draw(jax.random.key(0), replay, (80, 100))
    assert drawn.shape == (80, 100, WIDTH)
    numbers, counts = np.unique(np.asarray(drawn[..., 0]), return_counts=True)
    present = min(num_rows, limit)
    assert numbers.tolist() == list(range(num_rows - present, num_rows))
    share = 1 / present
    spread = np.sqrt(share * (1 - share) / 8000)
    np.testing.assert_allclose(counts / 8000, share, atol=5 * spread + 1e-9)


def test_rows_of_a_block_are_drawn_independently():
    replay = make_replay(CAPACITY, OBS_DIM, ACTION_DIM)
    replay = where(replay, block(0), jnp.ones(5, bool), CAPACITY)
    drawn = np.asarray(draw(jax.random.key(1), replay, (4000, 2)))[..., 0]
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 0.06
