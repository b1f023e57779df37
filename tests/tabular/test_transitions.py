"""Transition probabilities in slots agree with dense tables."""

import jax.numpy as jnp
import numpy as np
import pytest
import reference
from agent_data import f32, quick

from narl.tabular.envs import deep_sea, random_mdp, riverswim
from narl.tabular.transitions import (
    Dynamics,
    as_dynamics,
    dense,
    dense_rows,
    expect,
    expect_rows,
    reachable_states,
    slot_values,
    take_slots,
    tidy_slots,
)


@quick
def dense_and_means(kernel, v):
    return dense(kernel, 12), expect(kernel, v)


def in_slots(p, spread=None):
    successors, prob = reference.slots_of(p)
    spread = np.zeros(p.shape[:2]) if spread is None else spread
    prob = prob * (1 - spread[..., None])
    return Dynamics(f32(prob), f32(spread), jnp.asarray(successors))


@pytest.mark.parametrize("num_states", [4, 8, 12, 25])
def test_reachable_states_are_in_order(num_states):
    p = reference.random_kernel(np.random.default_rng(num_states), num_states, 3, num_states // 4)
    successors = reachable_states(p)
    expected, prob = reference.slots_of(p)
    np.testing.assert_array_equal(successors, expected)
    assert successors.dtype == np.int32
    np.testing.assert_array_equal(take_slots(p, successors), prob)
    np.testing.assert_array_equal(take_slots(p, None), p)


def test_slots_are_used_only_where_they_save_work():
    rng = np.random.default_rng(0)
    assert reachable_states(reference.random_kernel(rng, 8, 2, 8)) is None
    assert reachable_states(riverswim().p) is None
    assert reachable_states(random_mdp(num_states=10).p) is None
    assert reachable_states(np.ones((1, 1, 1))) is None
    identity = np.eye(4)[:, None]
    np.testing.assert_array_equal(reachable_states(identity), np.arange(4)[:, None, None])
    assert reachable_states(deep_sea(6).p).shape == (36, 2, 1)
    assert reachable_states(deep_sea(6, stochastic=True).p).shape == (36, 2, 2)


def test_tidy_slots_merges_sorts_and_drops():
    # The pair of state 0 names state 2 twice and state 1 with probability 0; that of state 1
    # names states in descending order; that of state 2 a single one, in three slots.
    successors = np.array([[[2, 1, 2]], [[2, 1, 0]], [[1, 1, 1]]])
    prob = np.array([[[0.25, 0, 0.75]], [[0.2, 0.3, 0.5]], [[0.5, 0.25, 0.25]]])
    given = prob.copy(), successors.copy()
    tidy_prob, tidy = tidy_slots(prob, successors)
    np.testing.assert_array_equal(tidy, [[[2, 3, 3]], [[0, 1, 2]], [[1, 3, 3]]])
    np.testing.assert_array_equal(tidy_prob, [[[1, 0, 0]], [[0.5, 0.3, 0.2]], [[1, 0, 0]]])
    np.testing.assert_array_equal((prob, successors), given)  # inputs are not changed
    table = [[[0, 0, 1]], [[0.5, 0.3, 0.2]], [[0, 1, 0]]]
    np.testing.assert_array_equal(dense_rows(tidy_prob, tidy, 3), table)
    v = np.array([1.0, 10.0, 100.0])
    np.testing.assert_allclose(expect_rows(tidy_prob, tidy, v), np.array(table) @ v)
    np.testing.assert_allclose(expect_rows(np.array(table), None, v), np.array(table) @ v)


@pytest.mark.parametrize("num_slots", [1, 3, 12])
@pytest.mark.parametrize("spreading", [False, True])
def test_slots_and_dense_tables_have_equal_expectations(num_slots, spreading):
    rng = np.random.default_rng(num_slots)
    p = reference.random_kernel(rng, 12, 2, num_slots)
    spread = rng.choice([0, 0.25, 1], (12, 2)) if spreading else np.zeros((12, 2))
    kernel = in_slots(p, spread)
    table = p * (1 - spread[..., None]) + spread[..., None] / 12
    v = rng.normal(size=12)
    for form in (kernel, as_dynamics(table)):
        tables, means = dense_and_means(form, f32(v))
        np.testing.assert_allclose(tables, table, atol=1e-6)
        np.testing.assert_allclose(means, table @ v, atol=1e-5)


def test_unused_slots_have_no_effect():
    # The pair reaches state 1 only; its second slot is unused and points past the end.
    successors = jnp.array([[[1, 2]], [[0, 1]]])
    kernel = Dynamics(f32([[[1, 0.7]], [[0.5, 0.5]]]), jnp.zeros((2, 1)), successors)
    v = jnp.array([3.0, 5.0])
    np.testing.assert_array_equal(slot_values(v, successors), [[[5, 0]], [[3, 5]]])
    np.testing.assert_allclose(expect(kernel, v)[:, 0], [5, 4])
    np.testing.assert_allclose(dense(kernel, 2)[:, 0], [[0, 1], [0.5, 0.5]])


@pytest.mark.parametrize("slotted", [False, True])
def test_members_can_be_a_leading_axis(slotted):
    rng = np.random.default_rng(2)
    p = reference.random_kernel(rng, 12, 2, 3)
    successors, _ = reference.slots_of(p)
    weights = rng.dirichlet(np.ones(successors.shape[-1]), (5, 12, 2)) * (successors < 12)
    tables = np.zeros((5, 12, 2, 13))
    np.put_along_axis(tables, np.broadcast_to(successors, weights.shape), weights, axis=-1)
    tables = tables[..., :12]
    spread = rng.random((5, 12, 2))
    if slotted:
        kernel = Dynamics(f32(weights), f32(spread), jnp.asarray(successors))
    else:
        kernel = Dynamics(f32(tables), f32(spread))
    v = rng.normal(size=12)
    table, means = dense_and_means(kernel, f32(v))
    np.testing.assert_allclose(means, tables @ v + spread * v.mean(), atol=1e-5)
    np.testing.assert_allclose(table, tables + spread[..., None] / 12, atol=1e-6)


def test_as_dynamics_keeps_dynamics():
    kernel = in_slots(reference.random_kernel(np.random.default_rng(3), 6, 2, 2))
    assert as_dynamics(kernel) is kernel
    table = np.full((2, 3, 1, 3), 1 / 3)
    wrapped = as_dynamics(table)
    assert wrapped.successors is None
    assert wrapped.spread.shape == (2, 3, 1)
    assert not wrapped.spread.any()
