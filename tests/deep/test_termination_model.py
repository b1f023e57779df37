"""A termination that is learned: |x| > 0.2 from a thousand transitions, few of them terminal."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import assert_same, differs

from narl.deep.termination_model import ends, fit_ending, init_ending

CAPACITY, NUM_ROWS, OBS_DIM = 1200, 1000, 2

fitted = jax.jit(fit_ending, static_argnums=4)
says = jax.jit(ends)


def walk(seed, num_rows, limit=0.2):
    """Rows of a random walk with a velocity; the episode ends where |x| > limit."""
    rng = np.random.default_rng(seed)
    rows, x, v = [], 0.0, 0.0
    for _ in range(num_rows):
        action = rng.uniform(-1.0, 1.0)
        faster = 0.8 * v + 0.03 * action
        further = x + faster
        done = abs(further) > limit
        rows.append([x, v, action, 1.0, further, faster, float(done)])
        x, v = (rng.uniform(-0.05, 0.05), 0.0) if done else (further, faster)
    return np.array(rows, np.float32)


def ring(rows):
    """The rows in a buffer; what was never written must not matter."""
    return jnp.full((CAPACITY, rows.shape[1]), 1e3).at[: len(rows)].set(rows)


def asked(ending, rows):
    rows = jnp.asarray(rows)
    return np.asarray(says(ending, rows[:, :2], rows[:, 2:3], rows[:, 4:6]))


@functools.cache
def untrained():
    return jax.jit(init_ending, static_argnums=(1, 2))(jax.random.key(0), OBS_DIM, 1)


def train(ending, rows, num_times=1):
    for i in range(num_times):
        buffer = ring(rows)
        ending = fitted(jax.random.key(i), ending, buffer, jnp.int32(len(rows)), OBS_DIM)
    return ending


@functools.cache
def trained():
    """After as many trainings as a thousand steps bring about."""
    return train(untrained(), walk(1, NUM_ROWS), num_times=4)


@pytest.mark.slow
def test_learns_the_rule_from_few_terminal_rows():
    rows, others = walk(1, NUM_ROWS), walk(2, 5000)
    assert 30 < rows[:, -1].sum() < 60
    terminal = others[:, -1] > 0.5
    answer = asked(trained(), others)
    assert (answer == terminal).mean() > 0.98
    assert answer[terminal].mean() > 0.7
    assert answer[~terminal].mean() < 0.01
    # Well inside and well outside it is sure.
    assert not answer[np.abs(others[:, 4]) < 0.15].any()
    outside = np.abs(others[:, 4]) > 0.22
    assert outside.sum() > 50
    assert answer[outside].mean() > 0.9


@pytest.mark.slow
def test_offset_is_half_the_log_odds_of_the_data():
    num_terminal = walk(1, NUM_ROWS)[:, -1].sum()
    expected = 0.5 * np.log(num_terminal / (NUM_ROWS - num_terminal))
    assert trained().offset == pytest.approx(expected, rel=1e-5)


def test_says_never_before_it_has_seen_an_end():
    rows = walk(3, 300, limit=np.inf)
    assert not rows[:, -1].any()
    ending = train(untrained(), rows)
    assert_same(ending, untrained())
    assert ending.offset == -np.inf
    assert not asked(ending, walk(4, 300)).any()


def test_keeps_what_it_knows_when_the_ends_are_gone():
    """In a small ring the terminal rows may all be overwritten."""
    assert_same(train(trained(), walk(3, 300, limit=np.inf)), trained())
    assert differs(train(trained(), walk(5, 300)).network, trained().network)


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_a_state_that_is_not_finite_is_an_end(broken):
    rows = walk(6, 3, limit=np.inf)
    rows[1, 5] = broken
    for ending in (untrained(), trained()):
        assert asked(ending, rows).tolist() == [False, True, False]


def test_nothing_but_ends():
    """Every row terminal: it must say so and stay finite."""
    rows = walk(7, 50)
    rows[:, -1] = 1.0
    ending = train(untrained(), rows)
    assert asked(ending, rows).all()
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(ending))


def test_chance_is_not_called_an_end():
    """Where one step in ten ends whatever the state, no step is likelier to end than not."""
    rows = walk(8, NUM_ROWS, limit=np.inf)
    rows[:, :2] = np.random.default_rng(0).normal(size=(NUM_ROWS, 2))
    rows[:, 4:6] = rows[:, :2]
    rows[::10, -1] = 1.0
    others = np.concatenate([rows[:, :2] * 0.5, rows[:, 2:4], rows[:, :2] * 0.5, rows[:, -1:]], 1)
    assert asked(train(untrained(), rows), others).mean() < 0.2
