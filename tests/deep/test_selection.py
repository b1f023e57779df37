"""Selection among the members, against brute force in NumPy and at every edge."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny import (
    affine_actor,
    assert_same,
    numbers_of,
    tiny_config,
)

from narl.deep.bonus_state import init_bonus_state
from narl.deep.ensemble import Prediction
from narl.deep.selection import (
    Candidates,
    SelectParams,
    replica_numbers,
    select_elite,
    select_optimistic,
    take_members,
)

KEY = jax.random.key(0)
HALF = tiny_config(discount=0.5)
STATE = init_bonus_state(affine_actor([[0.0]], [0.0]))
INF = float("inf")


def make_candidates(rewards, values, ranked=None, stored=None):
    """Return candidates in which the next state of member m in row b is [10 m + b, −m].

    The rewards are those that members are compared by; ``stored`` are those of the steps.
    """
    members, num_rows = rewards.shape
    m, b = jnp.meshgrid(jnp.arange(members), jnp.arange(num_rows), indexing="ij")
    states = jnp.stack([10 * m + b, -m], axis=-1).astype(jnp.float32)
    scored, zeros = Prediction(rewards, states), jnp.zeros(num_rows)
    return Candidates(
        obs=jnp.zeros((num_rows, 2)),
        action=jnp.zeros((num_rows, 1)),
        prediction=scored if stored is None else Prediction(stored, states),
        mean=scored,
        scored=scored,
        disagreement=zeros,
        information=zeros,
        ranked=jnp.arange(members) if ranked is None else ranked,
        trajectory_uniform=zeros,
        values=lambda: values,
    )


@jax.jit
def jitted(rewards, values, stored, numbers, strength):
    params = SelectParams(numbers, strength, STATE, HALF)
    return select_optimistic(KEY, make_candidates(rewards, values, stored=stored), params)


def select(rewards, values, radius, strength=1.0, stored=None, **options):
    """Select among rewards [M, B] and values [M, B] with a discount of one half."""
    tables = (rewards, values, rewards if stored is None else stored)
    tables = (jnp.asarray(table, jnp.float32) for table in tables)
    chosen = jitted(*tables, numbers_of(radius, **options), jnp.float32(strength))
    return jax.tree.map(np.asarray, chosen)


def select_columns(rewards, values, radius, strength=1.0, **options):
    """Return the member of the reward, that of the state and both fallbacks, for one step."""
    columns = [[x] for x in rewards], [[x] for x in values]
    chosen = select(*columns, radius, strength, **options)
    names = ("reward_member", "member", "reward_fallback", "fallback")
    return tuple(getattr(chosen, name).item() for name in names)


# --- brute force ------------------------------------------------------------------------------


def best_member(scores, judged, radius, options):
    """Return the first member of largest score that is admitted, else of the closest; and if so."""
    mean = sum(judged) / len(judged)
    distance = [abs(x - mean) for x in judged]
    if options["radius_unit"] == "spread":
        radius = radius * (np.std(judged) if radius < INF else 1.0)
    admitted = [
        m
        for m, x in enumerate(judged)
        # In float32 a distance of one standard deviation is known to within some 1e-6.
        if distance[m] <= radius + 1e-6 or (options["exclude"] == "above" and x <= mean)
    ]
    closest = [m for m, far in enumerate(distance) if far <= min(distance) + 1e-6]
    return max(admitted or closest, key=lambda m: (scores[m], -m)), not admitted


def brute_force(rewards, values, radius, options):
    """Return the member of the reward, that of the state and both fallbacks, for one step."""
    total = rewards + 0.5 * values
    if options["joint"]:
        member, fallback = best_member(total, total, radius, options)
        return member, member, fallback, fallback
    by_return = options["exclude_by"] == "return"
    reward_member, reward_fallback = best_member(
        rewards, total if by_return else rewards, radius, options
    )
    member, fallback = best_member(values, total if by_return else values, radius, options)
    return reward_member, member, reward_fallback, fallback


OPTIONS = {
    "radius_unit": ("absolute", "spread"),
    "exclude": ("ball", "above"),
    "exclude_by": ("each", "return"),
    "joint": (False, True),
}


@st.composite
def tables(draw):
    """Draw rewards and values on a grid on which float32 means are exact; ties are common."""
    members = draw(st.sampled_from([1, 2, 3, 5]))
    entry = st.integers(-12, 12).map(lambda k: k * members / 8)
    table = st.lists(st.lists(entry, min_size=4, max_size=4), min_size=members, max_size=members)
    radius = draw(st.sampled_from([0.0, 0.125, 0.5, 1.0, 2.5, 100.0, INF]))
    options = {name: draw(st.sampled_from(values)) for name, values in OPTIONS.items()}
    return np.array(draw(table)), np.array(draw(table)), radius, options


@given(tables())
@settings(max_examples=150, deadline=None)
def test_optimistic_selection_equals_brute_force_under_every_option(case):
    rewards, values, radius, options = case
    chosen = select(rewards, values, radius, **options)
    for b in range(rewards.shape[1]):
        expected = brute_force(rewards[:, b], values[:, b], radius, options)
        reward_member, member, reward_fallback, fallback = expected
        assert (chosen.reward_member[b], chosen.member[b]) == (reward_member, member)
        assert (chosen.reward_fallback[b], chosen.fallback[b]) == (reward_fallback, fallback)
        assert chosen.reward[b] == rewards[reward_member, b]
        assert chosen.next_obs[b].tolist() == [10 * member + b, -member]


# --- by hand ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rewards", "values", "radius", "options", "expected"),
    [
        pytest.param([1, 5, 2], [7, 3, 9], INF, {}, (1, 2, False, False), id="two maxima"),
        pytest.param([0] * 4, [1, 9, 0, 2], 4, {}, (0, 3, False, False), id="9 too far from 3"),
        pytest.param([0, 5, 7], [-9, 18, -3], 0.5, {}, (1, 2, True, True), id="closest to mean"),
        # Of two members, which are equally far from their mean, the better one is taken.
        pytest.param([1, 3], [1, 1], 0.5, {}, (1, 0, True, False), id="no reward admitted"),
        pytest.param([1, 1], [1, 3], 0.5, {}, (0, 1, False, True), id="no value admitted"),
        pytest.param([0, 4, 2], [4, 0, 2], 0, {}, (2, 2, False, False), id="0 admits the mean"),
        # The mean of equal numbers is rounded in float32.
        pytest.param([0.1] * 3, [0.1] * 3, 0, {}, (0, 0, False, False), id="mean of three"),
        pytest.param([0.1] * 7, [0.1] * 7, 0, {}, (0, 0, False, False), id="mean of seven"),
        # Mean 4: the 12 is too far above, and the −6 is admitted because it is below.
        pytest.param(
            *([12, -6, 6], [12, -6, 6], 3, {"exclude": "above"}),
            (2, 2, False, False),
            id="above: best of those not too high",
        ),
        pytest.param(
            *([0, 3, 9], [0, 3, 9], 0, {"exclude": "above"}),
            (1, 1, False, False),
            id="above: never empty",
        ),
        # Standard deviation 6·√(2/3) = 4.9 of 0, 6, 12: the radii are 4.41 and 6.37.
        pytest.param(
            *([0, 6, 12], [0, 6, 12], 0.9, {"radius_unit": "spread"}),
            (1, 1, False, False),
            id="spread: 0.9 deviations",
        ),
        pytest.param(
            *([0, 6, 12], [0, 6, 12], 1.3, {"radius_unit": "spread"}),
            (2, 2, False, False),
            id="spread: 1.3 deviations",
        ),
        # A goal has the value 0, all else −50. An absolute radius leaves it out unless all members
        # see it; a radius of one deviation (24.5, mean −20 or −30) asks for half of the members.
        pytest.param(
            *([0] * 5, [-50, 0, 0, 0, -50], 0.1, {"exclude": "above"}),
            (0, 0, False, False),
            id="a goal that three of five members see is excluded",
        ),
        pytest.param(
            *([0] * 5, [-50, 0, 0, 0, -50], 1, {"exclude": "above", "radius_unit": "spread"}),
            (0, 1, False, False),
            id="spread: a goal that three of five members see is admitted",
        ),
        pytest.param(
            *([0] * 5, [-50, 0, 0, -50, -50], 1, {"exclude": "above", "radius_unit": "spread"}),
            (0, 0, False, False),
            id="spread: a goal that two of five members see is excluded",
        ),
        # r + V/2 is 11, 5, 5 with mean 7: member 0, best in reward and value, is excluded.
        pytest.param(
            *([8, 1, 4], [6, 8, 2], 3, {"exclude_by": "return"}),
            (2, 1, False, False),
            id="return: one exclusion, two maxima",
        ),
        # r + V/2 is 5, 6, 5.
        pytest.param(
            *([1, 2, 5], [8, 8, 0], INF, {"joint": True}), (1, 1, False, False), id="joint: one"
        ),
    ],
)
def test_optimistic_selection_by_hand(rewards, values, radius, options, expected):
    assert select_columns(rewards, values, radius, **options) == expected


@pytest.mark.parametrize("options", [{}, {"radius_unit": "spread"}, {"exclude": "above"}])
def test_two_members_are_admitted_or_excluded_together(options):
    """Both are equally far from their mean, up to rounding: here 1, and one deviation."""
    pairs = np.random.default_rng(0).normal(size=(2, 500))
    pairs = pairs / np.abs(pairs[0] - pairs[1]) * 2
    larger = pairs.argmax(0)
    for radius in (1.0, 1.001):
        chosen = select(pairs, pairs, radius, **options)
        assert not chosen.fallback.any()
        np.testing.assert_array_equal(chosen.member, larger)
    chosen = select(pairs, pairs, 0.999, **options)
    if options.get("exclude") == "above":
        np.testing.assert_array_equal(chosen.member, 1 - larger)
    else:
        assert chosen.fallback.all()
        np.testing.assert_array_equal(chosen.member, larger)


def test_random_fallback_draws_any_member_only_where_all_are_excluded():
    num_rows = 6000
    excluded = np.tile([[0.0], [3.0], [8.0]], (1, num_rows))  # mean 11/3: none within 0.5
    admitted = np.tile([[1.0], [2.0], [3.0]], (1, num_rows))
    chosen = select(excluded, admitted, 0.5, fallback="random")
    assert chosen.reward_fallback.all()
    assert not chosen.fallback.any()
    assert (chosen.member == 1).all()
    counts = np.bincount(chosen.reward_member, minlength=3)
    np.testing.assert_allclose(counts / num_rows, 1 / 3, atol=0.04)
    rows = np.arange(num_rows)
    np.testing.assert_array_equal(chosen.reward, excluded[chosen.reward_member, rows])
    # Where both terms fall back, their draws are independent.
    both = select(excluded, excluded, 0.5, fallback="random")
    assert abs(np.corrcoef(both.member, both.reward_member)[0, 1]) < 0.06
    assert (select(excluded, admitted, 0.5).reward_member == 1).all()


# --- annealing --------------------------------------------------------------------------------


def test_annealed_radius_shrinks_and_no_radius_stays():
    column = [0.0, 4.0, 11.0]  # mean 5: the distances are 5, 1, 6
    for strength, member in ((1.0, 2), (0.9, 1), (0.2, 1)):
        chosen = select_columns(column, column, 6.0, strength, anneal="radius")
        assert chosen[:2] == (member, member)
    assert select_columns(column, column, 6.0, 0.1, anneal="radius")[2:] == (True, True)
    assert select_columns(column, column, INF, 0.0, anneal="radius") == (2, 2, False, False)
    # With anneal=share the radius stays.
    chosen = select(np.tile([[0.0], [4.0], [11.0]], (1, 50)), np.zeros((3, 50)), 6.0, 0.5)
    assert set(chosen.reward_member.tolist()) == {0, 2}


def test_annealed_share_of_steps_is_drawn_from_elites():
    num_rows = 4000
    table = np.tile([[0.0], [4.0], [11.0]], (1, num_rows))
    for strength in (0.0, 0.25, 1.0):
        chosen = select(table, table, INF, strength)
        # The only elite member is 0; reward and state of a step are optimistic together.
        assert set(np.unique(chosen.member)) <= {0, 2}
        assert (chosen.member == 2).mean() == pytest.approx(strength, abs=0.03)
        assert_same(chosen.member, chosen.reward_member)
    none = select(np.tile([[0.0], [3.0], [8.0]], (1, num_rows)), table, 0.5, 0.25)
    # A fallback counts only where optimism chose.
    assert none.reward_fallback.mean() == pytest.approx(0.25, abs=0.03)


# --- draws of elite members -------------------------------------------------------------------


def test_elites_drawn_uniformly():
    num_rows = 6000
    rewards = jnp.tile(jnp.arange(4.0)[:, None], (1, num_rows))

    def no_values():
        raise AssertionError("values are costly; MBPO looks at none")

    candidates = make_candidates(rewards, None, ranked=jnp.array([3, 1, 0, 2]))
    candidates = candidates._replace(values=no_values)
    params = SelectParams(numbers_of(num_elites=2), 1.0, STATE, HALF)
    selected = select_elite(KEY, candidates, params)
    members, counts = np.unique(np.asarray(selected.member), return_counts=True)
    assert members.tolist() == [1, 3]
    np.testing.assert_allclose(counts / num_rows, 0.5, atol=0.03)
    # Reward and next state are of the same member.
    np.testing.assert_array_equal(selected.reward, selected.member)
    np.testing.assert_array_equal(selected.next_obs[:, 1], -selected.member)
    assert_same(selected.member, selected.reward_member)
    assert not selected.fallback.any()
    assert not selected.reward_fallback.any()


def test_take_members_gathers_one_member_per_row():
    rewards = jnp.arange(6.0).reshape(2, 3)
    candidates = make_candidates(rewards, None)
    selected = take_members(candidates, jnp.array([1, 0, 1]))
    assert selected.reward.tolist() == [3.0, 1.0, 5.0]
    assert selected.next_obs[:, 0].tolist() == [10.0, 1.0, 12.0]
    mixed = take_members(candidates, jnp.array([1, 0, 1]), reward_member=jnp.array([0, 1, 1]))
    assert mixed.reward.tolist() == [0.0, 4.0, 5.0]
    assert mixed.next_obs[:, 0].tolist() == [10.0, 1.0, 12.0]


def test_chosen_member_is_stored_and_not_what_it_was_compared_by():
    scored, stored = [[0.0], [5.0]], [[7.0], [-3.0]]
    chosen = select(scored, scored, INF, stored=stored)
    assert (chosen.reward_member.item(), chosen.reward.item()) == (1, -3.0)


# --- options as numbers -----------------------------------------------------------------------


def test_options_become_numbers_of_one_type_for_all_replicas():
    defaults = tiny_config(exclude="ball")
    other = tiny_config(
        radius=None,
        radius_unit="spread",
        exclude="above",
        exclude_by="return",
        joint=True,
        fallback="random",
        score="draw",
        value_critics="target",
        anneal="radius",
        anneal_steps=70,
        noise_scale=2.0,
        noise_unit="largest",
        bonus_weight=3.0,
        reach=4.0,
        one_member_per="trajectory",
        elites=1,
    )
    numbers = replica_numbers([defaults, other])
    assert all(a != b for a, b in numbers)
    assert {array.shape for array in numbers} == {(2,)}
    assert {str(array.dtype) for array in numbers} == {"bool", "int32", "float32"}
    assert numbers.joint.tolist() == numbers.exclude_above.tolist() == [False, True]
    assert numbers.radius.tolist() == [np.float32(0.1), INF]
    assert numbers.anneal_steps.tolist() == [INF, 70.0]
    assert numbers.num_elites[1] == 1


@pytest.mark.parametrize("radius", [INF, 1.0])
def test_choice_among_elites_is_the_choice_among_these_members_alone(radius):
    rng = np.random.default_rng(4)
    rewards, values = (jnp.asarray(rng.normal(size=(5, 40)), jnp.float32) for _ in range(2))
    ranked = jnp.array([3, 0, 4, 1, 2])  # the best first
    options = {"choose_among": "elites", "radius": radius, "exclude": "ball"}
    config = tiny_config(discount=0.5, members=5, elites=3, **options)
    params = SelectParams(numbers_of(radius, 3), 1.0, STATE, config)
    chosen = select_optimistic(KEY, make_candidates(rewards, values, ranked), params)
    elites = ranked[:3]
    alone = select(rewards[elites], values[elites], radius)
    np.testing.assert_array_equal(chosen.member, elites[alone.member])
    np.testing.assert_array_equal(chosen.reward_member, elites[alone.reward_member])
    np.testing.assert_array_equal(chosen.fallback, alone.fallback)
    assert set(np.unique(chosen.member)) == set(elites.tolist())


@pytest.mark.parametrize("joint", [False, True])
def test_random_fallback_among_elites_draws_only_elites(joint):
    """Of the elite members 0, 1 and 2 none is within 1/8 of their mean; member 3 is no elite."""
    num_rows = 6000
    column = [0.0, 3.0, 8.0, 4.0]  # the mean of the elites is 11/3
    table = jnp.tile(jnp.array(column)[:, None], (1, num_rows))
    candidates = make_candidates(table, table, ranked=jnp.array([2, 0, 1, 3]))

    def chosen_by(num_elites, **options):
        config = tiny_config(discount=0.5, members=4, elites=num_elites, **options)
        numbers = numbers_of(0.125, num_elites, fallback="random", joint=joint)
        return select_optimistic(KEY, candidates, SelectParams(numbers, 1.0, STATE, config))

    chosen = chosen_by(3, choose_among="elites")
    assert chosen.fallback.all()
    assert chosen.reward_fallback.all()
    for members in (chosen.member, chosen.reward_member):
        counts = np.bincount(members, minlength=4)
        assert counts[3] == 0
        np.testing.assert_allclose(counts[:3] / num_rows, 1 / 3, atol=0.03)
    # Where every member is elite, the draws are those without elites.
    assert_same(chosen_by(4, choose_among="elites"), chosen_by(4))
