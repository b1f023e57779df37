"""Learned termination: |x| > 0.2 from a thousand transitions, few of which are terminal."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from narl.deep.termination_model import (
    fit_termination_model,
    init_termination_model,
    predict_termination,
)

CAPACITY, NUM_ROWS, OBS_DIM = 1200, 1000, 2

fit = jax.jit(fit_termination_model, static_argnums=4)
predict = jax.jit(predict_termination)


def walk(seed, num_rows, limit=0.2):
    """Return rows of a random walk with a velocity; an episode ends where |x| > limit."""
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
    """Return a buffer with these rows; rows that were never written must not matter."""
    return jnp.full((CAPACITY, rows.shape[1]), 1e3).at[: len(rows)].set(rows)


def predictions(model, rows):
    rows = jnp.asarray(rows)
    return np.asarray(predict(model, rows[:, :2], rows[:, 2:3], rows[:, 4:6]))


@functools.cache
def untrained():
    return jax.jit(init_termination_model, static_argnums=(1, 2))(jax.random.key(0), OBS_DIM, 1)


def train(model, rows, num_times=1):
    for i in range(num_times):
        buffer = ring(rows)
        model = fit(jax.random.key(i), model, buffer, jnp.int32(len(rows)), OBS_DIM)
    return model


@functools.cache
def trained():
    """Return the model after as many fits as a training of a thousand steps has."""
    return train(untrained(), walk(1, NUM_ROWS), num_times=4)


@pytest.mark.slow
def test_rule_is_learned_from_few_terminal_rows():
    rows, others = walk(1, NUM_ROWS), walk(2, 5000)
    assert 30 < rows[:, -1].sum() < 60
    terminal = others[:, -1] > 0.5
    answer = predictions(trained(), others)
    assert (answer == terminal).mean() > 0.98
    assert answer[terminal].mean() > 0.7
    assert answer[~terminal].mean() < 0.01
    # Well inside and well outside of the limit there is hardly an error.
    assert not answer[np.abs(others[:, 4]) < 0.15].any()
    outside = np.abs(others[:, 4]) > 0.22
    assert outside.sum() > 50
    assert answer[outside].mean() > 0.9


@pytest.mark.slow
def test_offset_is_half_of_log_odds():
    num_terminal = walk(1, NUM_ROWS)[:, -1].sum()
    expected = 0.5 * np.log(num_terminal / (NUM_ROWS - num_terminal))
    assert trained().offset == pytest.approx(expected, rel=1e-5)


def test_no_termination_is_predicted_before_first_terminal_row():
    rows = walk(3, 300, limit=np.inf)
    assert not rows[:, -1].any()
    model = train(untrained(), rows)
    jax.tree.map(np.testing.assert_array_equal, model, untrained())
    assert model.offset == -np.inf
    assert not predictions(model, walk(4, 300)).any()


def test_model_stays_when_terminal_rows_are_overwritten():
    same = train(trained(), walk(3, 300, limit=np.inf))
    jax.tree.map(np.testing.assert_array_equal, same, trained())
    other = train(trained(), walk(5, 300))
    assert not np.array_equal(other.network[0].w, trained().network[0].w)


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_state_that_is_not_finite_terminates(broken):
    rows = walk(6, 3, limit=np.inf)
    rows[1, 5] = broken
    for model in (untrained(), trained()):
        assert predictions(model, rows).tolist() == [False, True, False]


def test_only_terminal_rows_are_all_predicted():
    rows = walk(7, 50)
    rows[:, -1] = 1.0
    model = train(untrained(), rows)
    assert predictions(model, rows).all()
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(model))


def test_random_termination_is_not_predicted():
    """One step in ten ends whatever the state: no step is more likely to end than not."""
    rows = walk(8, NUM_ROWS, limit=np.inf)
    rows[:, :2] = np.random.default_rng(0).normal(size=(NUM_ROWS, 2))
    rows[:, 4:6] = rows[:, :2]
    rows[::10, -1] = 1.0
    others = np.concatenate([rows[:, :2] * 0.5, rows[:, 2:4], rows[:, :2] * 0.5, rows[:, -1:]], 1)
    assert predictions(train(untrained(), rows), others).mean() < 0.2
