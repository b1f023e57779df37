"""MDPs: exact values against sums over all paths, and checks of the tables."""

import dataclasses
import itertools

import jax
import numpy as np
import pytest
from agent_data import noisy_mdp
from hypothesis import given, settings
from hypothesis import strategies as st

from narl.errors import InputError
from narl.tabular.envs import deep_sea
from narl.tabular.mdp import (
    TabularMDP,
    evaluate,
    make_mdp,
    policy_value,
    scale_rewards,
    solve,
    with_horizon,
)
from narl.tabular.runner import run

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


def test_make_mdp_copies_inputs_and_normalises_float32_rows():
    p = np.full((3, 1, 3), 1 / 3, dtype=np.float32)
    r = np.zeros((3, 1))
    mdp = make_mdp(p, r, [1, 0, 0], horizon=2)
    np.testing.assert_allclose(mdp.p.sum(axis=-1), 1, rtol=0, atol=1e-15)
    r[0] = 5
    p[0] = 0
    assert mdp.r[0, 0] == 0
    assert mdp.p[0, 0, 0] == pytest.approx(1 / 3, abs=1e-12)


def test_mdp_is_a_pytree_with_static_horizon():
    mdp = noisy_mdp(0, num_states=2, num_actions=3, horizon=4)
    doubled = jax.tree.map(lambda leaf: 2 * leaf, mdp)
    assert len(jax.tree.leaves(mdp)) == 4
    assert doubled.horizon == 4
    np.testing.assert_array_equal(doubled.r, 2 * mdp.r)
    assert (mdp.num_states, mdp.num_actions) == (2, 3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        mdp.horizon = 5


def test_with_horizon_changes_only_the_horizon():
    mdp = noisy_mdp(0, num_states=2, num_actions=3, horizon=4)
    longer = with_horizon(mdp, 9)
    assert longer.horizon == 9
    assert longer.p is mdp.p
    with pytest.raises(InputError, match=r"^horizon: 0 is wrong"):
        with_horizon(mdp, 0)


def test_scale_rewards_keeps_the_best_policies():
    mdp = noisy_mdp(3, num_states=4, num_actions=3, horizon=5)
    scaled = scale_rewards(mdp)
    low, span = mdp.r.min(), mdp.r.max() - mdp.r.min()
    assert (scaled.r.min(), scaled.r.max()) == (0, 1)
    np.testing.assert_allclose(scaled.r_std * span, mdp.r_std)
    before, after = solve(mdp), solve(scaled)
    assert after.value * span + 5 * low == pytest.approx(before.value)
    np.testing.assert_allclose(after.gap * span, before.gap, atol=1e-12)
    flat = make_mdp(mdp.p, np.full((4, 3), -2.0), mdp.p0, 5, name="flat")
    assert not scale_rewards(flat).r.any()
    assert scale_rewards(flat).name == "flat-scaled"


# --- slots ---------------------------------------------------------------------------------


def test_slots_and_the_dense_table_make_the_same_mdp():
    rng = np.random.default_rng(0)
    p = np.zeros((12, 2, 12))
    successors = rng.integers(12, size=(12, 2, 3))  # some states twice
    chances = rng.dirichlet(np.ones(3), (12, 2))
    chances[0, 0] = 0.25, 0, 0.75
    for s, a, b in np.ndindex(successors.shape):
        p[s, a, successors[s, a, b]] += chances[s, a, b]
    r, p0 = rng.random((12, 2)), np.eye(12)[3]
    slots = make_mdp(chances, r, p0, 6, successors=successors)
    table = make_mdp(p, r, p0, 6)
    assert slots.prob.shape == table.prob.shape == (12, 2, 3)
    np.testing.assert_array_equal(slots.successors, table.successors)
    np.testing.assert_allclose(slots.p, p, rtol=0, atol=1e-15)
    for mdp in (slots, table):
        np.testing.assert_allclose(mdp.next_state(0, 0), p[0, 0], rtol=0, atol=1e-15)
        assert mdp.portable_dynamics()["p"] is mdp.p  # small tables are dense outside
    # Backward induction over the dense table, by hand.
    v = np.zeros(12)
    for _ in range(6):
        v = (r + p @ v).max(axis=1)
    assert solve(slots).value == pytest.approx(v[3], abs=1e-12)
    policy = np.random.default_rng(1).integers(2, size=(6, 12))
    assert policy_value(slots, policy) == pytest.approx(policy_value(table, policy), abs=1e-12)


def test_few_states_are_stored_dense():
    mdp = make_mdp([[[1.0]], [[1.0]]], np.zeros((2, 1)), [1, 0], 2, successors=[[[1]], [[0]]])
    assert mdp.successors is None
    np.testing.assert_array_equal(mdp.p, [[[0, 1]], [[1, 0]]])


def test_large_deep_sea_needs_little_memory():
    mdp = deep_sea(200)
    assert mdp.prob.shape == (40_000, 2, 1)
    assert sum(leaf.nbytes for leaf in jax.tree.leaves(mdp)) < 10e6
    assert mdp.next_state(0, 0).sum() == 1
    with pytest.raises(InputError, match=r"^p: the dense table of deep_sea-200 has 3.2e\+09 ent"):
        _ = mdp.p


@pytest.mark.slow
def test_large_deep_sea_is_solved_and_run_exactly():
    mdp = deep_sea(100)
    assert solve(mdp).value == pytest.approx(0.99)
    trace = run("greedy", mdp, 2, (0,))
    assert trace.regret.shape == (1, 2)
    # A policy that never earns the reward pays up to .01 for its moves to the right.
    assert ((trace.regret >= 0.99 - 1e-5) & (trace.regret <= 1.0)).all()


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
        ({"p": P[0]}, r"p: shape (1, 2) is wrong; it must be (S, A, S) with S, A >= 1"),
        ({"p": [[[1, 0]], [[1]]]}, r"p: its rows differ in length; it must be one array"),
        ({"p": P.astype(complex)}, r"p: holds complex128 values; it must hold real numbers"),
        ({"r": np.zeros(2)}, r"r: shape (2,) is wrong; it must be (S, A) = (2, 1) as in p"),
        ({"r": [[0], [np.inf]]}, r"r[1, 0] = inf; it must be finite"),
        ({"r_std": [[0], [-1]]}, r"r_std[1, 0] = -1; it must not be negative"),
        ({"bad": [[0]]}, r"bad: shape (1, 1) is wrong; it must be (S, A) = (2, 1) as in p"),
        ({"p0": [1]}, r"p0: shape (1,) is wrong; it must be (S,) = (2,)"),
        ({"p0": [0.5, 0.4]}, r"p0[:] sums to 0.9; it must sum to 1"),
        ({"horizon": 0}, r"horizon: 0 is wrong; it must be a whole number >= 1"),
        ({"horizon": True}, r"horizon: True is wrong; it must be a whole number >= 1"),
    ],
)
def test_make_mdp_names_the_wrong_entry(wrong, line):
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
def test_evaluate_refuses_policies_of_another_shape(policy, line):
    with pytest.raises(InputError, match=line):
        evaluate(make_mdp(**GOOD), policy)
