"""The choice over members, which both halves of the paper share."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import narl.optimism

optimistic = jax.jit(narl.optimism.optimistic, static_argnames="radius")


@pytest.mark.parametrize(
    ("values", "radius", "member", "admitted"),
    [
        ([1.0, 3.0, 2.0], None, 1, [True, True, True]),
        ([-np.inf, 2.0, -np.inf], None, 1, [True, True, True]),
        ([1.0, 2.0, 2.0], None, 1, [True, True, True]),  # ties: the first
        ([4.0, 1.0, 1.0], 1.5, 1, [False, True, True]),  # mean 2
        ([0.0, 1.0, 2.0], 1.0, 2, [True, True, True]),  # the radius itself is inside
        ([0.0, 1.0, 2.0], 0.5, 1, [False, True, False]),
        ([0.0, 0.5, 5.5], 1.0, 1, [False, False, False]),  # none: the closest to the mean
        ([0.0, 1.0], 0.1, 1, [False, False]),  # equally close: the larger
        ([0.3, 0.1], 0.01, 0, [False, False]),  # also where the mean is rounded
        ([0.1], 0.0, 0, [True]),
        ([-7.3], 0.0, 0, [True]),
    ],
)
def test_optimistic_by_hand(values, radius, member, admitted):
    choice = optimistic(jnp.array(values), radius)
    assert choice.member == member
    assert choice.value == np.float32(values[member])
    np.testing.assert_array_equal(choice.admitted, admitted)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("above_only", [False, True])
@pytest.mark.parametrize("radius", [0.1, 1.5])
def test_a_radius_leaves_out_members_without_a_finite_value(wrong, above_only, radius):
    values = jnp.array([[0.0], [1.0], [5.0], [wrong]])
    choice = narl.optimism.optimistic(values, radius, above_only=above_only)
    rest = narl.optimism.optimistic(values[:3], radius, above_only=above_only)
    assert (choice.member, choice.value) == (rest.member, rest.value)
    np.testing.assert_array_equal(choice.admitted, [*rest.admitted, [False]])
    # Where the numbers that the radius judges are not finite, it is the same.
    judged = narl.optimism.optimistic(
        values.at[3].set(9.0), radius, judged=values, above_only=above_only
    )
    assert judged.member == rest.member


def test_without_a_finite_value_the_choice_is_not_finite_either():
    choice = narl.optimism.optimistic(jnp.full((3, 1), np.nan), 0.1)
    assert np.isnan(choice.value)
    assert not choice.admitted.any()


@pytest.mark.parametrize("shape", [(1, 3), (2, 3, 4, 5)])
@pytest.mark.parametrize("radius", [None, 0.7, 1e-6])
def test_optimistic_agrees_with_a_loop_over_positions(shape, radius):
    values = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    choice = optimistic(values, radius)
    assert choice.value.shape == choice.member.shape == shape[1:]
    assert choice.admitted.shape == shape
    for at in np.ndindex(shape[1:]):
        members = values[(slice(None), *at)]
        distance = np.abs(members - members.mean())
        inside = np.ones(len(members), bool) if radius is None else distance <= radius
        closest = distance <= distance.min() + 1e-6
        best = int(np.argmax(np.where(inside if inside.any() else closest, members, -np.inf)))
        assert choice.member[at] == best
        assert choice.value[at] == members[best]
        np.testing.assert_array_equal(choice.admitted[(slice(None), *at)], inside)


@pytest.mark.parametrize(
    ("radius", "above_only", "member"),
    [
        (None, False, 2),  # the largest of those that take part
        (0.5, False, 1),  # their mean is 2, and 1 and 3 are too far from it
        (0.5, True, 1),
        (0.1, False, 1),
        (1.0, False, 2),
    ],
)
def test_only_members_among_which_is_chosen_count(radius, above_only, member):
    values, among = jnp.array([1.0, 2.0, 3.0, 100.0]), jnp.array([True, True, True, False])
    choice = narl.optimism.optimistic(values, radius, above_only=above_only, among=among)
    assert choice.member == member
    assert not choice.admitted[3]
    rest = narl.optimism.optimistic(values[:3], radius, above_only=above_only)
    assert choice.member == rest.member
    np.testing.assert_array_equal(choice.admitted[:3], rest.admitted)


def test_a_member_that_takes_no_part_does_not_widen_the_radius():
    """0, 3.4 and 8 have the mean 3.8: none is within 0.1, and 3.4 is the closest."""
    among = jnp.array([True, True, True, False])
    for other in (4.0, 1e6):
        choice = narl.optimism.optimistic(jnp.array([0.0, 3.4, 8.0, other]), 0.1, among=among)
        assert (int(choice.member), bool(choice.admitted.any())) == (1, False)


def test_closest_member_is_taken_among_those_that_take_part():
    values = jnp.array([0.0, 0.5, 5.5, 2.0])  # the mean of the first three is 2
    choice = narl.optimism.optimistic(values, 1.0, among=jnp.array([True, True, True, False]))
    assert choice.member == 1


def test_optimistic_passes_gradients_to_the_chosen_member():
    gradient = jax.grad(lambda x: optimistic(x, radius=1.0).value)(jnp.array([0.0, 0.9, 0.5]))
    np.testing.assert_array_equal(gradient, [0, 1, 0])
