"""Imagined trajectories inside models that are known exactly."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import (
    affine_actor,
    affine_critic,
    affine_ensemble,
    assert_same,
    constant_ensemble,
    make_dream,
    make_sac,
)

from narl.deep.replay_buffer import Replay, make_replay, unpack
from narl.deep.rollout import Lane, branch, imagined_returns
from narl.deep.selection import OPTIMISTIC, RANDOM

KEY = jax.random.key(2)
# Two equal members: s' = s + 1 and r = s + 2a.
CHAIN = affine_ensemble([[[1.0, 0.0], [2.0, 0.0]]] * 2, [[0.0, 1.0]] * 2)
# Two members that agree on the reward, 1: s' = s + 1 and s' = s + 3.
FORK = constant_ensemble([[1.0, 1.0], [1.0, 3.0]])
CAPACITY = 400
ACTOR = affine_actor([[0.0]], [0.0])
# The value of a state s is s, or −s.
HOPEFUL = make_sac(ACTOR, affine_critic([[1.0, 0.0]] * 2, [0.0, 0.0]), alpha=1e-30)
GLOOMY = make_sac(ACTOR, affine_critic([[-1.0, 0.0]] * 2, [0.0, 0.0]), alpha=1e-30)


def ends_beyond(threshold):
    return lambda obs, action, next_obs: next_obs[..., 0] > threshold


def real_states(*states):
    """A buffer of transitions that begin in these states."""
    rows = jnp.full((8, 5), jnp.nan).at[: len(states), 0].set(jnp.array(states, jnp.float32))
    return Replay(rows, jnp.int32(len(states)), jnp.int32(len(states)))


@functools.partial(jax.jit, static_argnums=(0, 1))
def rolled(num_rollouts, chunk, key, ensemble, sac, lane, threshold, real, length, retained):
    dream = make_dream(ensemble, sac, ends=ends_beyond(threshold))._replace(lane=lane)
    model = make_replay(CAPACITY, 1, 1)
    return branch(key, dream, real, model, length, retained, num_rollouts, chunk)


def roll(
    ensemble,
    real,
    length,
    num_rollouts=10,
    chunk=4,
    *,
    sac=HOPEFUL,
    selector=OPTIMISTIC,
    radius=np.inf,
    threshold=np.inf,
    retained=CAPACITY,
    key=KEY,
    num_elites=2,
):
    """What `branch` leaves: the rows that count, oldest first, and the sums."""
    lane = Lane(jnp.int32(selector), jnp.float32(radius), jnp.int32(num_elites))
    rest = (jnp.float32(threshold), real, jnp.int32(length), jnp.int32(retained))
    model, sums = rolled(num_rollouts, chunk, key, ensemble, sac, lane, *rest)
    age = np.arange(int(model.size))[::-1]
    at = (int(model.num_added) - 1 - age) % CAPACITY
    batch = jax.tree.map(lambda x: np.asarray(x)[at], unpack(model.rows, 1))
    return batch, jax.tree.map(np.asarray, sums)


def test_rows_are_the_steps_of_the_model_until_it_terminates():
    batch, sums = roll(CHAIN, real_states(0, 1, 2, 3), 3, 20, 20, threshold=3.5)
    np.testing.assert_allclose(batch.next_obs, batch.obs + 1.0, rtol=1e-6)
    np.testing.assert_allclose(batch.reward, (batch.obs + 2 * batch.action)[:, 0], rtol=1e-5)
    assert (np.abs(batch.action) < 1.0).all()
    assert batch.action.std() > 0.2
    # Step by step, the ones that go on in their order; a state beyond 3.5 is the last one.
    alive, expected = batch.obs[:20, 0].tolist(), []
    assert set(alive) <= {0.0, 1.0, 2.0, 3.0}
    for _ in range(3):
        expected += alive
        alive = [s + 1 for s in alive if s + 1 <= 3.5]
    assert batch.obs[:, 0].tolist() == expected
    assert batch.done.tolist() == [float(s + 1 > 3.5) for s in expected]
    assert sums.steps == len(expected) < 60


def test_next_state_of_a_step_is_the_state_of_the_following_one():
    batch, _ = roll(FORK, real_states(0, 10, 20), 4, 20, 20)
    obs, following = batch.obs.reshape(4, 20), batch.next_obs.reshape(4, 20)
    np.testing.assert_array_equal(obs[1:], following[:-1])
    assert not batch.done.any()


@pytest.mark.slow
@pytest.mark.parametrize(("num_rollouts", "chunk"), [(20, 20), (10, 4)])
def test_chunks_do_not_change_how_many_there_are(num_rollouts, chunk):
    batch, sums = roll(FORK, real_states(0), 3, num_rollouts, chunk)
    assert len(batch.reward) == 3 * num_rollouts == sums.steps
    states, counts = np.unique(batch.obs, return_counts=True)
    assert states.tolist() == [0.0, 3.0, 6.0]
    assert counts.tolist() == [num_rollouts] * 3


def first_states(real):
    """Where 400 rollouts begin."""
    keys = jax.random.split(KEY, 20)
    return np.concatenate([roll(CHAIN, real, 1, 20, 20, key=key)[0].obs[:, 0] for key in keys])


def test_rollouts_begin_uniformly_over_the_real_states():
    real = real_states(*range(8))._replace(num_added=jnp.int32(11))
    states, counts = np.unique(first_states(real), return_counts=True)
    assert states.tolist() == list(range(8))
    np.testing.assert_allclose(counts / 400, 1 / 8, atol=0.08)
    # Rows that were never written are no states.
    starts = first_states(real_states(0, 1))
    assert len(starts) == 400
    assert set(starts.tolist()) == {0.0, 1.0}


@pytest.mark.slow
def test_only_the_retained_ones_count():
    batch, sums = roll(FORK, real_states(0), 4, retained=11)
    assert sums.steps == 40
    # Chunks of 4, 4 and 2: all of the last one, and 3 of the one before.
    assert batch.obs[:, 0].tolist() == [9.0] * 3 + [0.0] * 2 + [3.0] * 2 + [6.0] * 2 + [9.0] * 2


def test_optimism_takes_the_state_of_larger_value_and_counts_it():
    batch, sums = roll(FORK, real_states(0), 2)
    np.testing.assert_array_equal(batch.next_obs, batch.obs + 3.0)
    assert sums.chosen.tolist() == [0.0, 20.0]
    assert sums.reward_chosen.tolist() == [20.0, 0.0]
    assert sums.fallback == 0.0
    # Both are 1 away from their mean, as states and as values.
    np.testing.assert_allclose(sums.distance, 20.0, rtol=1e-5)
    np.testing.assert_allclose(sums.value_distance, 20.0, rtol=1e-5)


@pytest.mark.parametrize(("radius", "member", "fallback"), [(1.5, 1, 0.0), (0.5, 0, 10.0)])
def test_the_radius_holds_inside_rollouts(radius, member, fallback):
    """The values are 1 from their mean; with less than that all are out, and equally close."""
    batch, sums = roll(FORK, real_states(0), 1, radius=radius)
    assert sums.chosen[member] == 10.0
    assert sums.fallback == fallback
    assert (batch.next_obs == (1.0, 3.0)[member]).all()


def test_a_terminal_state_is_worth_nothing_in_the_selection():
    """s + 3 ends the episode and is worth 0: less than s + 1 = 1, but more than −1."""
    batch, sums = roll(FORK, real_states(0), 1, threshold=2.5)
    assert sums.chosen.tolist() == [10.0, 0.0]
    assert not batch.done.any()
    batch, sums = roll(FORK, real_states(0), 1, sac=GLOOMY, threshold=2.5)
    assert sums.chosen.tolist() == [0.0, 10.0]
    assert batch.done.all()


def test_chance_draws_members_and_looks_at_no_values():
    batch, sums = roll(FORK, real_states(0), 10, 20, 20, selector=RANDOM)
    assert sums.chosen.sum() == 200
    np.testing.assert_allclose(sums.chosen / 200, 0.5, atol=0.15)
    assert_same(sums.chosen, sums.reward_chosen)
    assert (batch.next_obs == batch.obs + 3.0).sum() == sums.chosen[1]
    assert sums.value_distance.tolist() == [0.0, 0.0]
    ranked = FORK._replace(ranked=jnp.array([1, 0]))
    _, sums = roll(ranked, real_states(0), 10, 20, 20, selector=RANDOM, num_elites=1)
    assert sums.chosen.tolist() == [0.0, 200.0]


def test_numbers_that_are_not_finite_are_not_stored():
    broken = constant_ensemble([[1.0, 1.0], [1.0, np.inf]])
    batch, sums = roll(broken, real_states(0), 3, 20, 20, selector=RANDOM)
    assert np.isfinite(batch.next_obs).all()
    assert 0 < len(batch.reward) == sums.steps < 60
    assert sums.chosen.tolist() == [sums.steps, 0.0]
    _, sums = roll(constant_ensemble([[np.nan, 1.0]] * 2), real_states(0), 3)
    assert sums.steps == 0.0


@pytest.mark.slow
def test_optimism_with_one_member_is_mbpo_with_one_member():
    noisy = constant_ensemble([[1.0, 1.0]], logvar=0.0)
    options = {"radius": 0.1, "threshold": 2.0, "sac": GLOOMY}
    by_chance = roll(noisy, real_states(0, 1), 3, selector=RANDOM, **options)
    by_optimism = roll(noisy, real_states(0, 1), 3, selector=OPTIMISTIC, **options)
    assert_same(by_chance, by_optimism)
    batch, sums = by_chance
    assert 0 < batch.done.sum() < 10
    assert 10 < sums.steps < 30
    assert len(set(batch.reward.tolist())) > 10


@functools.partial(jax.jit, static_argnames="horizon")
def returned(key, ensemble, sac, threshold, starts, horizon):
    dream = make_dream(ensemble, sac, ends=ends_beyond(threshold), draw="mean")
    return imagined_returns(key, dream, starts, horizon)


@pytest.mark.parametrize("horizon", [2, 6])
def test_returns_inside_the_model(horizon):
    """From 0: 0 + 1 + 2 + 3; from 2: 2 + 3; from 10: 10, as the mode of the action is 0."""
    starts = jnp.array([[0.0], [2.0], [10.0]])
    returns = returned(KEY, CHAIN, HOPEFUL, 3.5, starts, horizon=horizon)
    expected = [[0.0, 1.0, 3.0, 6.0, 6.0, 6.0], [2.0, *[5.0] * 5], [10.0] * 6]
    np.testing.assert_allclose(returns, np.array(expected)[:, :horizon], rtol=1e-5)


def test_return_of_the_mode_and_not_of_a_draw():
    """r = 2a with the mode a = tanh(0.5); the policy itself is as wide as it may be."""
    model = affine_ensemble([[[0.0, 0.0], [2.0, 0.0]]] * 2, [[0.0, 1.0]] * 2)
    wide = HOPEFUL._replace(actor=affine_actor([[0.0]], [0.5], 2.0))
    returns = returned(KEY, model, wide, np.inf, jnp.zeros((3, 1)), horizon=5)
    np.testing.assert_allclose(returns[:, -1], 5 * 2 * np.tanh(0.5), rtol=1e-5)


def test_return_stays_finite_where_a_trajectory_is_not():
    """s' = (1 + 1e18)·s: from 1 the third state is no longer finite, from 1e30 the first."""
    model = affine_ensemble([[[0.0, 1e18], [0.0, 0.0]]] * 2, [[1.0, 0.0]] * 2)
    starts = jnp.array([[0.0], [1.0], [1e30]])
    returns = returned(KEY, model, HOPEFUL, np.inf, starts, horizon=6)
    np.testing.assert_allclose(returns[:, -1], [6.0, 3.0, 1.0], rtol=1e-5)
