"""The choice over members that both halves make."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import narl.optimism

optimistic = jax.jit(narl.optimism.optimistic, static_argnames="radius")


def test_without_a_radius_the_largest_member_wins():
    values = jnp.array([[1.0, 5.0], [3.0, -2.0], [2.0, 4.0]])
    choice = optimistic(values)
    np.testing.assert_array_equal(choice.value, [3, 5])
    np.testing.assert_array_equal(choice.member, [1, 0])
    assert choice.admitted.shape == (3, 2)
    assert choice.admitted.all()


def test_a_radius_admits_those_near_the_mean():
    # Means 2 and 0: distances (2, 1, 1) and (1, 5, 4) … the largest within the radius wins.
    values = jnp.array([[4.0, -1.0], [1.0, 5.0], [1.0, -4.0]])
    choice = optimistic(values, radius=1.5)
    np.testing.assert_array_equal(choice.admitted, [[False, True], [True, False], [True, False]])
    np.testing.assert_array_equal(choice.value, [1, -1])
    np.testing.assert_array_equal(choice.member, [1, 0])


def test_the_edge_of_the_radius_is_inside():
    values = jnp.array([0.0, 1.0, 2.0])
    np.testing.assert_array_equal(optimistic(values, radius=1.0).admitted, [True, True, True])
    assert optimistic(values, radius=1.0).member == 2
    np.testing.assert_array_equal(optimistic(values, radius=0.5).admitted, [False, True, False])
    assert optimistic(values, radius=0.5).value == 1


def test_when_all_lie_outside_the_one_closest_to_the_mean_is_taken():
    # Mean 2: distances 2, 1.5, 3.5.
    choice = optimistic(jnp.array([0.0, 0.5, 5.5]), radius=1.0)
    assert not choice.admitted.any()
    assert (choice.member, choice.value) == (1, 0.5)


def test_fallback_and_choice_are_made_apart_for_every_position():
    values = jnp.array([[0.0, 1.0], [10.0, 1.2], [2.0, 1.1]])
    choice = optimistic(values, radius=0.5)
    np.testing.assert_array_equal(choice.member, [2, 1])
    np.testing.assert_allclose(choice.value, [2.0, 1.2])
    np.testing.assert_array_equal(choice.admitted.any(0), [False, True])


@pytest.mark.parametrize("radius", [None, 0.0, 0.3])
def test_one_member_is_always_chosen(radius):
    values = jnp.array([[0.1, -7.3, 1e6]])
    choice = optimistic(values, radius)
    np.testing.assert_array_equal(choice.value, values[0])
    assert not choice.member.any()
    assert choice.admitted.all()


@pytest.mark.parametrize("radius", [None, 5.0])
def test_ties_go_to_the_first(radius):
    choice = optimistic(jnp.array([[1.0], [2.0], [2.0]]), radius)
    assert choice.member[0] == 1
    # … also when two are equally far from the mean.
    assert optimistic(jnp.array([0.0, 1.0]), radius=0.1).member == 0


@pytest.mark.parametrize("shape", [(4,), (2, 3, 4, 5)])
@pytest.mark.parametrize("radius", [None, 0.7, 1e-6])
def test_against_a_loop_over_positions(shape, radius):
    values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    choice = optimistic(values, radius)
    assert choice.value.shape == choice.member.shape == shape[1:]
    assert choice.admitted.shape == shape
    for at in np.ndindex(shape[1:]):
        members = values[(slice(None), *at)]
        distance = np.abs(members - members.mean())
        inside = np.ones(len(members), bool) if radius is None else distance <= radius
        candidates = np.flatnonzero(inside)
        if len(candidates):
            best = max(candidates, key=lambda m, members=members: members[m])
        else:
            best = int(np.argmin(distance))
        assert choice.member[at] == best
        assert choice.value[at] == members[best]
        np.testing.assert_array_equal(choice.admitted[(slice(None), *at)], inside)


def test_infinite_values_are_ordered_too():
    choice = optimistic(jnp.array([-jnp.inf, 2.0, -jnp.inf]))
    assert (choice.member, choice.value) == (1, 2)


def test_the_maximum_passes_gradients_to_the_chosen_member():
    gradient = jax.grad(lambda x: optimistic(x, radius=1.0).value)(jnp.array([0.0, 0.9, 0.5]))
    np.testing.assert_array_equal(gradient, [0, 1, 0])
