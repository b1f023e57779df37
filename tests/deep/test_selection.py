"""Which member is taken, against brute force in NumPy and at every edge."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import assert_same, constant_ensemble, make_dream

from narl.deep.ensemble import Prediction
from narl.deep.rollout import next_values
from narl.deep.selection import SelectionSettings, select_elite, select_optimistic, take
from narl.optimism import optimistic

KEY = jax.random.key(0)
SEPARATE, JOINT = SelectionSettings(), SelectionSettings(joint=True)
RANDOM_FALLBACK = SelectionSettings(fallback="random")
DISCOUNT = 0.5
INF = float("inf")

select = jax.jit(select_optimistic, static_argnums=(4, 5))
by_chance = jax.jit(select_elite)


def choose(rewards, values, radius, options=SEPARATE, key=KEY):
    """Selects; the next state of member m at position b is [10 m + b, −m]."""
    rewards, values = jnp.asarray(rewards, jnp.float32), jnp.asarray(values, jnp.float32)
    members, num_rows = rewards.shape
    m, b = np.meshgrid(np.arange(members), np.arange(num_rows), indexing="ij")
    states = jnp.asarray(np.stack([10 * m + b, -m], axis=-1), jnp.float32)
    chosen = select(
        key, Prediction(rewards, states), values, jnp.float32(radius), options, DISCOUNT
    )
    return jax.tree.map(np.asarray, chosen)


def best_of(column, radius):
    """The first member with the largest value within the radius; the closest if there is none."""
    mean = sum(column) / len(column)
    inside = [m for m, value in enumerate(column) if abs(value - mean) <= radius]
    if inside:
        return max(inside, key=lambda m: (column[m], -m)), False
    return min(range(len(column)), key=lambda m: (abs(column[m] - mean), m)), True


@st.composite
def tables(draw):
    """Rewards and values on a grid on which float32 computes means exactly; ties are common."""
    members = draw(st.sampled_from([1, 2, 3, 5]))
    entry = st.integers(-12, 12).map(lambda k: k * members / 8)
    table = st.lists(st.lists(entry, min_size=4, max_size=4), min_size=members, max_size=members)
    radius = draw(st.sampled_from([0.0, 0.125, 0.5, 1.0, 2.5, 100.0, INF]))
    return np.array(draw(table)), np.array(draw(table)), radius


@given(tables())
@settings(max_examples=80, deadline=None)
def test_selection_is_brute_force(case):
    rewards, values, radius = case
    chosen = choose(rewards, values, radius)
    together = choose(rewards, values, radius, JOINT)
    for b in range(rewards.shape[1]):
        reward_member, no_reward = best_of(rewards[:, b], radius)
        member, no_value = best_of(values[:, b], radius)
        assert chosen.reward_member[b] == reward_member
        assert chosen.member[b] == member
        assert chosen.fallback[b] == (no_reward or no_value)
        assert chosen.reward[b] == rewards[reward_member, b]
        assert chosen.next_obs[b].tolist() == [10 * member + b, -member]
        member, nobody = best_of(rewards[:, b] + DISCOUNT * values[:, b], radius)
        assert together.member[b] == together.reward_member[b] == member
        assert together.fallback[b] == nobody
        assert together.reward[b] == rewards[member, b]
        assert together.next_obs[b].tolist() == [10 * member + b, -member]


def test_two_maxima_are_apart():
    chosen = choose([[1.0], [5.0], [2.0]], [[7.0], [3.0], [9.0]], INF)
    assert chosen.reward.tolist() == [5.0]
    assert chosen.reward_member.tolist() == [1]
    assert chosen.member.tolist() == [2]
    assert chosen.next_obs.tolist() == [[20.0, -2.0]]
    # 1 + 3.5, 5 + 1.5 and 2 + 4.5: a tie of the last two, the first of which is taken.
    together = choose([[1.0], [5.0], [2.0]], [[7.0], [3.0], [9.0]], INF, JOINT)
    assert together.member.tolist() == together.reward_member.tolist() == [1]


def test_the_radius_excludes_the_outlier():
    # The mean is 3: at a radius of 4 the 9 is out, and the 2 is the best of the others.
    chosen = choose([[0.0]] * 4, [[1.0], [9.0], [0.0], [2.0]], 4.0)
    assert chosen.member.tolist() == [3]
    assert not chosen.fallback[0]
    assert choose([[0.0]] * 4, [[1.0], [9.0], [0.0], [2.0]], 6.0).member.tolist() == [1]


def test_all_outside_takes_the_closest_and_never_the_first_by_default():
    # Means 4 and 2.
    chosen = choose([[0.0], [5.0], [7.0]], [[-9.0], [18.0], [-3.0]], 0.5)
    assert chosen.reward_member.tolist() == [1]
    assert chosen.member.tolist() == [2]
    assert chosen.fallback.tolist() == [True]


def test_one_term_outside_is_a_fallback():
    chosen = choose([[1.0, 1.0], [1.0, 3.0]], [[0.0, 1.0], [8.0, 1.0]], 0.5)
    assert chosen.fallback.tolist() == [True, True]
    chosen = choose([[1.0], [1.0]], [[2.0], [2.0]], 0.5)
    assert chosen.fallback.tolist() == [False]


def test_random_fallback_draws_anybody_and_only_where_nobody_is_inside():
    num_rows = 6000
    spread = np.tile([[0.0], [4.0], [8.0]], (1, num_rows))
    spread[1] = 3.0  # mean 11/3: nobody within 0.5
    inside = np.tile([[1.0], [2.0], [3.0]], (1, num_rows))
    chosen = choose(spread, inside, 0.5, RANDOM_FALLBACK)
    assert chosen.fallback.all()
    assert (chosen.member == 1).all()
    counts = np.bincount(np.asarray(chosen.reward_member), minlength=3)
    np.testing.assert_allclose(counts / num_rows, 1 / 3, atol=0.04)
    np.testing.assert_array_equal(
        chosen.reward, spread[np.asarray(chosen.reward_member), np.arange(num_rows)]
    )
    # Both terms outside: drawn apart.
    both = choose(spread, spread, 0.5, RANDOM_FALLBACK)
    assert abs(np.corrcoef(both.member, both.reward_member)[0, 1]) < 0.06
    # The default takes the closest instead.
    assert (choose(spread, inside, 0.5).reward_member == 1).all()


def test_ties_go_to_the_first():
    chosen = choose([[2.0], [3.0], [3.0]], [[5.0], [5.0], [5.0]], INF)
    assert chosen.reward_member.tolist() == [1]
    assert chosen.member.tolist() == [0]


def test_radius_zero():
    # Equal values lie on their mean; different ones are all outside and equally close.
    assert choose([[2.0], [2.0]], [[1.0], [1.0]], 0.0).fallback.tolist() == [False]
    chosen = choose([[1.0], [2.0]], [[4.0], [3.0]], 0.0)
    assert chosen.fallback.tolist() == [True]
    assert (chosen.reward_member.tolist(), chosen.member.tolist()) == ([0], [0])
    # In float32 as well, where 0.1 + 0.1 + 0.1 is not three times 0.1.
    for members in (3, 7):
        same = np.full((members, 1), 0.1, np.float32)
        assert choose(same, same, 0.0).fallback.tolist() == [False]
    # A member that predicts the mean itself is inside.
    assert choose([[0.0], [4.0], [2.0]], [[0.0], [4.0], [2.0]], 0.0).member.tolist() == [2]


def test_an_infinite_radius_is_none():
    rng = np.random.default_rng(3)
    rewards, values = rng.normal(size=(2, 5, 20)) * 1e6
    chosen = choose(rewards, values, INF)
    np.testing.assert_array_equal(chosen.reward_member, rewards.argmax(0))
    np.testing.assert_array_equal(chosen.member, values.argmax(0))
    assert not chosen.fallback.any()
    for table, member in ((rewards, chosen.reward_member), (values, chosen.member)):
        without = optimistic(jnp.asarray(table, jnp.float32), None)
        np.testing.assert_array_equal(without.member, member)


def test_one_member_is_taken_whatever_the_radius():
    for radius in (0.0, 0.1, INF):
        for options in (SEPARATE, JOINT, RANDOM_FALLBACK):
            chosen = choose([[1.0, -2.0]], [[5.0, 1e6]], radius, options)
            assert chosen.member.tolist() == chosen.reward_member.tolist() == [0, 0]
            assert chosen.reward.tolist() == [1.0, -2.0]
            assert not chosen.fallback.any()


def test_elites_are_drawn_uniformly_and_nobody_else():
    num_rows = 6000
    prediction = Prediction(
        jnp.tile(jnp.arange(4.0)[:, None], (1, num_rows)),
        jnp.tile(10.0 * jnp.arange(4.0)[:, None, None], (1, num_rows, 2)),
    )
    chosen = by_chance(KEY, prediction, jnp.array([3, 1, 0, 2]), 2)
    members, counts = np.unique(np.asarray(chosen.member), return_counts=True)
    assert members.tolist() == [1, 3]
    np.testing.assert_allclose(counts / num_rows, 0.5, atol=0.03)
    # Reward and next state are of the same member.
    np.testing.assert_array_equal(chosen.reward, chosen.member)
    np.testing.assert_array_equal(chosen.next_obs, 10 * np.tile(chosen.member, (2, 1)).T)
    assert_same(chosen.member, chosen.reward_member)
    assert not chosen.fallback.any()


def test_take():
    table = jnp.arange(6.0).reshape(2, 3)
    assert take(table, jnp.array([1, 0, 1])).tolist() == [3, 1, 5]


@jax.jit
def valued(key, model, obs, prediction, threshold):
    dream = make_dream(model, ends=lambda obs, action, following: following[..., 0] > threshold)
    return next_values(key, dream, obs, jnp.zeros((2, 1)), prediction)


@pytest.mark.parametrize("threshold", [0.5, 3.5, 100.0])
def test_terminal_states_are_worth_nothing(threshold):
    """s' = s + 1, s + 2, s + 4 and the value of s' is s', unless the episode ends there."""
    model = constant_ensemble([[0.0, 1.0], [0.0, 2.0], [0.0, 4.0]])
    obs = jnp.array([[0.0], [1.0]])
    states = np.array([[1.0, 2.0], [2.0, 3.0], [4.0, 5.0]])
    prediction = Prediction(jnp.zeros((3, 2)), jnp.asarray(states, jnp.float32)[..., None])
    values = valued(KEY, model, obs, prediction, threshold)
    np.testing.assert_allclose(values, np.where(states > threshold, 0.0, states), rtol=1e-6)
