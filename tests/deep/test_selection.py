"""Selection among the members, against brute force in NumPy and at every edge."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import assert_same, constant_ensemble, make_context, tiny_config

from narl.deep.ensemble import Prediction
from narl.deep.rollout import next_values
from narl.deep.selection import (
    Candidates,
    SelectParams,
    select_elite,
    select_optimistic,
    take_members,
)

KEY = jax.random.key(0)
SEPARATE = tiny_config(discount=0.5)
JOINT = tiny_config(discount=0.5, joint=True)
RANDOM_FALLBACK = tiny_config(discount=0.5, fallback="random")
INF = float("inf")


def make_candidates(rewards, values, ranked=None):
    """Return candidates in which the next state of member m in row b is [10 m + b, −m]."""
    members, num_rows = rewards.shape
    m, b = jnp.meshgrid(jnp.arange(members), jnp.arange(num_rows), indexing="ij")
    states = jnp.stack([10 * m + b, -m], axis=-1).astype(jnp.float32)
    ranked = jnp.arange(members) if ranked is None else ranked
    obs, action = jnp.zeros((num_rows, 2)), jnp.zeros((num_rows, 1))
    return Candidates(obs, action, Prediction(rewards, states), ranked, lambda: values)


@functools.partial(jax.jit, static_argnums=4)
def jitted(key, rewards, values, radius, config):
    params = SelectParams(radius, 1, config)
    return select_optimistic(key, make_candidates(rewards, values), params)


def select(rewards, values, radius, config=SEPARATE):
    rewards, values = jnp.asarray(rewards, jnp.float32), jnp.asarray(values, jnp.float32)
    return jax.tree.map(np.asarray, jitted(KEY, rewards, values, jnp.float32(radius), config))


def best_member(column, radius):
    """Return the first member of largest value within the radius, else the closest; and if so."""
    mean = sum(column) / len(column)
    admitted = [m for m, value in enumerate(column) if abs(value - mean) <= radius]
    if admitted:
        return max(admitted, key=lambda m: (column[m], -m)), False
    return min(range(len(column)), key=lambda m: (abs(column[m] - mean), m)), True


@st.composite
def tables(draw):
    """Draw rewards and values on a grid on which float32 means are exact; ties are common."""
    members = draw(st.sampled_from([1, 2, 3, 5]))
    entry = st.integers(-12, 12).map(lambda k: k * members / 8)
    table = st.lists(st.lists(entry, min_size=4, max_size=4), min_size=members, max_size=members)
    radius = draw(st.sampled_from([0.0, 0.125, 0.5, 1.0, 2.5, 100.0, INF]))
    return np.array(draw(table)), np.array(draw(table)), radius


@given(tables())
@settings(max_examples=80, deadline=None)
def test_optimistic_selection_equals_brute_force(case):
    rewards, values, radius = case
    separate, joint = (select(rewards, values, radius, config) for config in (SEPARATE, JOINT))
    for b in range(rewards.shape[1]):
        reward_member, reward_fallback = best_member(rewards[:, b], radius)
        member, value_fallback = best_member(values[:, b], radius)
        assert separate.reward_member[b] == reward_member
        assert separate.member[b] == member
        assert separate.fallback[b] == (reward_fallback or value_fallback)
        assert separate.reward[b] == rewards[reward_member, b]
        assert separate.next_obs[b].tolist() == [10 * member + b, -member]
        member, fallback = best_member(rewards[:, b] + 0.5 * values[:, b], radius)
        assert joint.member[b] == joint.reward_member[b] == member
        assert joint.fallback[b] == fallback
        assert joint.reward[b] == rewards[member, b]
        assert joint.next_obs[b].tolist() == [10 * member + b, -member]
    np.testing.assert_array_equal(separate.values, values.astype(np.float32))


@pytest.mark.parametrize(
    ("rewards", "values", "radius", "reward_member", "member", "fallback"),
    [
        pytest.param([1, 5, 2], [7, 3, 9], INF, 1, 2, False, id="two maxima"),
        pytest.param([0, 0, 0, 0], [1, 9, 0, 2], 4, 0, 3, False, id="9 is too far from 3"),
        pytest.param([0, 5, 7], [-9, 18, -3], 0.5, 1, 2, True, id="closest to 4 and to 2"),
        pytest.param([1, 3], [1, 1], 0.5, 0, 0, True, id="no reward admitted"),
        pytest.param([0, 4, 2], [4, 0, 2], 0, 2, 2, False, id="radius 0 admits the mean"),
        # The mean of equal numbers is rounded in float32.
        pytest.param([0.1] * 3, [0.1] * 3, 0, 0, 0, False, id="mean of three"),
        pytest.param([0.1] * 7, [0.1] * 7, 0, 0, 0, False, id="mean of seven"),
    ],
)
def test_optimistic_selection_by_hand(rewards, values, radius, reward_member, member, fallback):
    selected = select([[x] for x in rewards], [[x] for x in values], radius)
    assert selected.reward_member.tolist() == [reward_member]
    assert selected.member.tolist() == [member]
    assert selected.fallback.tolist() == [fallback]


def test_random_fallback_draws_any_member_only_where_all_are_excluded():
    num_rows = 6000
    excluded = np.tile([[0.0], [3.0], [8.0]], (1, num_rows))  # mean 11/3: none within 0.5
    admitted = np.tile([[1.0], [2.0], [3.0]], (1, num_rows))
    selected = select(excluded, admitted, 0.5, RANDOM_FALLBACK)
    assert selected.fallback.all()
    assert (selected.member == 1).all()
    counts = np.bincount(selected.reward_member, minlength=3)
    np.testing.assert_allclose(counts / num_rows, 1 / 3, atol=0.04)
    rows = np.arange(num_rows)
    np.testing.assert_array_equal(selected.reward, excluded[selected.reward_member, rows])
    # Where both terms fall back, their draws are independent.
    both = select(excluded, excluded, 0.5, RANDOM_FALLBACK)
    assert abs(np.corrcoef(both.member, both.reward_member)[0, 1]) < 0.06
    assert (select(excluded, admitted, 0.5).reward_member == 1).all()


def test_elites_drawn_uniformly():
    num_rows = 6000
    rewards = jnp.tile(jnp.arange(4.0)[:, None], (1, num_rows))

    def no_values():
        raise AssertionError("values are costly; MBPO looks at none")

    candidates = make_candidates(rewards, None, ranked=jnp.array([3, 1, 0, 2]))
    candidates = candidates._replace(values=no_values)
    selected = select_elite(KEY, candidates, SelectParams(INF, 2, SEPARATE))
    members, counts = np.unique(np.asarray(selected.member), return_counts=True)
    assert members.tolist() == [1, 3]
    np.testing.assert_allclose(counts / num_rows, 0.5, atol=0.03)
    # Reward and next state are of the same member.
    np.testing.assert_array_equal(selected.reward, selected.member)
    np.testing.assert_array_equal(selected.next_obs[:, 1], -selected.member)
    assert_same(selected.member, selected.reward_member)
    assert not selected.fallback.any()
    assert selected.values is None


def test_take_members_gathers_one_member_per_row():
    rewards = jnp.arange(6.0).reshape(2, 3)
    candidates = make_candidates(rewards, None)
    selected = take_members(candidates, jnp.array([1, 0, 1]))
    assert selected.reward.tolist() == [3.0, 1.0, 5.0]
    assert selected.next_obs[:, 0].tolist() == [10.0, 1.0, 12.0]
    mixed = take_members(candidates, jnp.array([1, 0, 1]), reward_member=jnp.array([0, 1, 1]))
    assert mixed.reward.tolist() == [0.0, 4.0, 5.0]
    assert mixed.next_obs[:, 0].tolist() == [10.0, 1.0, 12.0]


@pytest.mark.parametrize("threshold", [0.5, 3.5, 100.0])
def test_values_of_next_states_zero_where_episode_ends(threshold):
    """The value of a state is the state, unless the episode ends there."""
    context = make_context(
        constant_ensemble([[0.0, 0.0]] * 3),
        is_terminal=lambda obs, action, next_obs: next_obs[..., 0] > threshold,
    )
    states = np.array([[1.0, 2.0], [2.0, 3.0], [4.0, 5.0]])
    prediction = Prediction(jnp.zeros((3, 2)), jnp.asarray(states, jnp.float32)[..., None])
    values = next_values(KEY, context, jnp.zeros((2, 1)), jnp.zeros((2, 1)), prediction)
    np.testing.assert_allclose(values, np.where(states > threshold, 0.0, states), rtol=1e-6)
