"""MDPs: exact values against brute force, sampling against the tables, refusals."""

import dataclasses
import itertools

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from narl.errors import InputError
from narl.tabular.mdp import (
    TabularMDP,
    evaluate,
    make_mdp,
    policy_value,
    sample_episode,
    solve,
    with_horizon,
)

SIZES = {"num_states": st.integers(1, 6), "num_actions": st.integers(1, 4)}


def drawn(seed: int, num_states: int, num_actions: int, horizon: int) -> TabularMDP:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(num_states), (num_states, num_actions))
    r = rng.normal(size=(num_states, num_actions))
    p0 = rng.dirichlet(np.ones(num_states))
    return make_mdp(p, r, p0, horizon, r_std=rng.random(r.shape))


def value_by_trajectories(mdp: TabularMDP, policy: np.ndarray) -> float:
    """V(π) as the sum over every path of its probability times its return."""
    total = 0.0
    for path in itertools.product(range(mdp.num_states), repeat=mdp.horizon):
        chance, earned = mdp.p0[path[0]], 0.0
        for h, s in enumerate(path):
            a = policy[h, s]
            earned += mdp.r[s, a]
            if h + 1 < mdp.horizon:
                chance *= mdp.p[s, a, path[h + 1]]
        total += chance * earned
    return total


def every_policy(mdp: TabularMDP) -> list[np.ndarray]:
    shape = mdp.horizon, mdp.num_states
    choices = itertools.product(range(mdp.num_actions), repeat=shape[0] * shape[1])
    return [np.array(choice).reshape(shape) for choice in choices]


def test_a_two_state_mdp_by_hand():
    # "Stay" keeps the state, "go" moves to the other one with probability 1/2.
    # State 1 pays 1 for staying; state 0 pays .2 for staying.
    p = [[[1, 0], [0.5, 0.5]], [[0, 1], [0.5, 0.5]]]
    mdp = make_mdp(p, [[0.2, 0], [1, 0]], [1, 0], horizon=3)
    solution = solve(mdp)
    # One step left: .2 and 1. Two: max(.4, (.2 + 1)/2) = .6 and 2. Three: max(.8, 1.3) = 1.3.
    np.testing.assert_allclose(solution.v_star, [[1.3, 3], [0.6, 2], [0.2, 1], [0, 0]])
    np.testing.assert_allclose(solution.q_star[0], [[0.8, 1.3], [3, 1.3]])
    np.testing.assert_allclose(solution.gap[1], [[0.2, 0], [0, 1.4]], atol=1e-15)
    assert solution.value == pytest.approx(1.3)
    always_stay = np.zeros((3, 2), dtype=int)
    np.testing.assert_allclose(evaluate(mdp, always_stay)[:, 0], [0.6, 0.4, 0.2, 0])


@pytest.mark.parametrize("seed", range(3))
def test_evaluate_and_solve_agree_with_the_sum_over_all_paths(seed):
    mdp = drawn(seed, num_states=2, num_actions=2, horizon=3)
    values = [value_by_trajectories(mdp, policy) for policy in every_policy(mdp)]
    ours = [policy_value(mdp, policy) for policy in every_policy(mdp)]
    np.testing.assert_allclose(ours, values, rtol=0, atol=1e-12)
    assert solve(mdp).value == pytest.approx(max(values), abs=1e-12)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10**6), horizon=st.integers(1, 8), **SIZES)
def test_the_greedy_policy_is_optimal_and_no_other_is_better(
    seed, horizon, num_states, num_actions
):
    mdp = drawn(seed, num_states, num_actions, horizon)
    solution = solve(mdp)
    np.testing.assert_allclose(evaluate(mdp, solution.q_star.argmax(-1)), solution.v_star)
    assert (solution.gap >= 0).all()
    assert (solution.gap.min(axis=-1) == 0).all()
    other = np.random.default_rng(seed).integers(num_actions, size=(horizon, num_states))
    assert (evaluate(mdp, other) <= solution.v_star + 1e-12).all()


def test_sampled_episodes_have_the_tables_frequencies():
    mdp = drawn(7, num_states=3, num_actions=2, horizon=2)
    policy = np.array([[0, 1, 0], [1, 1, 0]])
    rng = np.random.default_rng(0)
    num_episodes = 4000
    episodes = [sample_episode(rng, mdp, policy) for _ in range(num_episodes)]
    states = np.array([episode.states for episode in episodes])
    rewards = np.array([episode.rewards for episode in episodes])
    assert states.shape == (num_episodes, 3)
    assert rewards.shape == (num_episodes, 2)
    expected = mdp.p0
    for h in range(3):
        frequency = np.bincount(states[:, h], minlength=3) / num_episodes
        bound = 5 * np.sqrt(expected * (1 - expected) / num_episodes)
        assert (np.abs(frequency - expected) < bound).all()
        if h < 2:
            expected = expected @ mdp.p[np.arange(3), policy[h]]
    for s in range(3):
        there = rewards[states[:, 0] == s, 0]
        mean, std = mdp.r[s, policy[0, s]], mdp.r_std[s, policy[0, s]]
        assert there.mean() == pytest.approx(mean, abs=5 * std / np.sqrt(len(there)))
        assert there.std() == pytest.approx(std, abs=5 * std / np.sqrt(2 * len(there)))
    for episode in episodes[:20]:
        np.testing.assert_array_equal(episode.actions, policy[[0, 1], episode.states[:2]])
    error = 5 * rewards.sum(axis=1).std() / np.sqrt(num_episodes)
    assert rewards.sum(axis=1).mean() == pytest.approx(policy_value(mdp, policy), abs=error)


def test_the_same_generator_gives_the_same_episode():
    mdp = drawn(1, num_states=4, num_actions=2, horizon=5)
    policy = np.zeros((5, 4), dtype=int)
    one, two = (sample_episode(np.random.default_rng(3), mdp, policy) for _ in range(2))
    np.testing.assert_array_equal(one.states, two.states)
    np.testing.assert_array_equal(one.rewards, two.rewards)


def test_inputs_are_copied_and_float32_rows_are_made_exact():
    p = np.full((3, 1, 3), 1 / 3, dtype=np.float32)
    r = np.zeros((3, 1))
    mdp = make_mdp(p, r, [1, 0, 0], horizon=2)
    np.testing.assert_allclose(mdp.p.sum(axis=-1), 1, rtol=0, atol=1e-15)
    r[0] = 5
    p[0] = 0
    assert mdp.r[0, 0] == 0
    assert mdp.p[0, 0, 0] == pytest.approx(1 / 3, abs=1e-12)


def test_an_mdp_is_a_pytree_whose_horizon_is_static():
    mdp = drawn(0, num_states=2, num_actions=3, horizon=4)
    doubled = jax.tree.map(lambda leaf: 2 * leaf, mdp)
    assert len(jax.tree.leaves(mdp)) == 4
    assert doubled.horizon == 4
    np.testing.assert_array_equal(doubled.r, 2 * mdp.r)
    assert (mdp.num_states, mdp.num_actions) == (2, 3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        mdp.horizon = 5


def test_with_horizon_changes_nothing_else():
    mdp = drawn(0, num_states=2, num_actions=3, horizon=4)
    longer = with_horizon(mdp, 9)
    assert longer.horizon == 9
    assert longer.p is mdp.p
    with pytest.raises(InputError, match=r"^horizon: 0 is wrong"):
        with_horizon(mdp, 0)


P = np.full((2, 1, 2), 0.5)
GOOD = {"p": P, "r": np.zeros((2, 1)), "p0": [1, 0], "horizon": 3}
NAN = P.copy()
NAN[1, 0, 0] = np.nan
NEGATIVE = P.copy()
NEGATIVE[1, 0] = -0.5, 1.5
SHORT = P.copy()
SHORT[1, 0] = 0.5, 0.4


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        ({"p": NAN}, r"p[1, 0, 0] = nan; it must be finite"),
        ({"p": NEGATIVE}, r"p[1, 0, 0] = -0.5; it must not be negative"),
        ({"p": SHORT}, r"p[1, 0, :] sums to 0.9; it must sum to 1"),
        ({"p": P[:, :, :1]}, r"p: shape (2, 1, 1) is wrong; it must be (S, A, S) with S, A >= 1"),
        ({"p": P[:, :0]}, r"p: shape (2, 0, 2) is wrong; it must be (S, A, S) with S, A >= 1"),
        ({"p": P[0]}, r"p: shape (1, 2) is wrong; it must be (S, A, S) with S, A >= 1"),
        ({"p": [[[1, 0]], [[1]]]}, r"p: its rows differ in length; it must be one array"),
        ({"p": P.astype(complex)}, r"p: holds complex128 values; it must hold real numbers"),
        ({"r": P.astype(object)[0]}, r"r: holds object values; it must hold real numbers"),
        ({"r": np.zeros(2)}, r"r: shape (2,) is wrong; it must be (S, A) = (2, 1) as in p"),
        ({"r": [[0], [np.inf]]}, r"r[1, 0] = inf; it must be finite"),
        ({"r_std": [[0], [-1]]}, r"r_std[1, 0] = -1; it must not be negative"),
        ({"r_std": [0]}, r"r_std: shape (1,) is wrong; it must be (S, A) = (2, 1) as in p"),
        ({"bad": [[0]]}, r"bad: shape (1, 1) is wrong; it must be (S, A) = (2, 1) as in p"),
        ({"p0": [1]}, r"p0: shape (1,) is wrong; it must be (S,) = (2,)"),
        ({"p0": [0.5, 0.4]}, r"p0[:] sums to 0.9; it must sum to 1"),
        ({"p0": [-1, 2]}, r"p0[0] = -1; it must not be negative"),
        ({"horizon": 0}, r"horizon: 0 is wrong; it must be a whole number >= 1"),
        ({"horizon": 2.5}, r"horizon: 2.5 is wrong; it must be a whole number >= 1"),
        ({"horizon": True}, r"horizon: True is wrong; it must be a whole number >= 1"),
        ({"horizon": np.nan}, r"horizon: nan is wrong; it must be a whole number >= 1"),
        ({"horizon": "3"}, r"horizon: 3 is wrong; it must be a whole number >= 1"),
        ({"horizon": None}, r"horizon: None is wrong; it must be a whole number >= 1"),
    ],
)
def test_the_entry_at_fault_is_named_in_one_line(wrong, line):
    assert make_mdp(**GOOD).horizon == 3
    with pytest.raises(InputError) as error:
        make_mdp(**GOOD | wrong)
    assert str(error.value) == line


@pytest.mark.parametrize(
    ("policy", "line"),
    [
        (np.zeros((2, 3), dtype=int), r"policy: shape \(2, 3\) is wrong; .* = \(3, 2\)"),
        (np.ones((3, 2), dtype=int), r"policy: actions must lie in 0\.\.0"),
        (-np.ones((3, 2), dtype=int), r"policy: actions must lie in 0\.\.0"),
        (np.zeros((3, 2)), r"policy: holds float64 values; it must hold whole numbers"),
    ],
)
def test_a_policy_that_does_not_fit_is_refused(policy, line):
    with pytest.raises(InputError, match=line):
        evaluate(make_mdp(**GOOD), policy)
