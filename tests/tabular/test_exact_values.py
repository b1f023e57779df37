"""Exact values of MDPs and policies, against hand-computed ones and sums over all paths."""

import itertools

import numpy as np
import pytest
from agent_data import noisy_mdp
from hypothesis import given, settings
from hypothesis import strategies as st

from narl.errors import InputError
from narl.tabular.checked_mdp import make_mdp
from narl.tabular.exact_values import evaluate, policy_value, solve
from narl.tabular.mdp import TabularMDP

SIZES = {"num_states": st.integers(1, 6), "num_actions": st.integers(1, 4)}


def value_by_trajectories(mdp: TabularMDP, policy: np.ndarray) -> float:
    """Return V(π) as the sum over every path of its probability times its return."""
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


def test_two_state_mdp_by_hand():
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
    mdp = noisy_mdp(seed, num_states=2, num_actions=2, horizon=3)
    values = [value_by_trajectories(mdp, policy) for policy in every_policy(mdp)]
    ours = [policy_value(mdp, policy) for policy in every_policy(mdp)]
    np.testing.assert_allclose(ours, values, rtol=0, atol=1e-12)
    assert solve(mdp).value == pytest.approx(max(values), abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), horizon=st.integers(1, 8), **SIZES)
def test_greedy_policy_is_optimal(seed, horizon, num_states, num_actions):
    mdp = noisy_mdp(seed, num_states, num_actions, horizon)
    solution = solve(mdp)
    np.testing.assert_allclose(evaluate(mdp, solution.q_star.argmax(-1)), solution.v_star)
    assert (solution.gap >= 0).all()
    assert (solution.gap.min(axis=-1) == 0).all()
    other = np.random.default_rng(seed).integers(num_actions, size=(horizon, num_states))
    assert (evaluate(mdp, other) <= solution.v_star + 1e-12).all()


@pytest.mark.parametrize(
    ("policy", "line"),
    [
        (np.zeros((2, 3), dtype=int), r"policy: shape \(2, 3\) is wrong; .* = \(3, 2\)"),
        (np.ones((3, 2), dtype=int), r"policy: actions must lie in 0\.\.0"),
        (-np.ones((3, 2), dtype=int), r"policy: actions must lie in 0\.\.0"),
        (np.zeros((3, 2)), r"policy: holds float64 values; it must hold whole numbers"),
    ],
)
def test_evaluate_refuses_policies_of_another_shape(policy, line):
    mdp = make_mdp(np.full((2, 1, 2), 0.5), np.zeros((2, 1)), [1, 0], horizon=3)
    with pytest.raises(InputError, match=line):
        evaluate(mdp, policy)
