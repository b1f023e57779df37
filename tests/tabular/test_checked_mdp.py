"""MDPs made from arrays: how they are stored, and the checks of every entry."""

import numpy as np
import pytest
from agent_data import noisy_mdp

from narl.errors import InputError
from narl.tabular.checked_mdp import make_mdp, with_horizon
from narl.tabular.exact_values import policy_value, solve


def test_make_mdp_copies_inputs_and_normalises_float32_rows():
    p = np.full((3, 1, 3), 1 / 3, dtype=np.float32)
    r = np.zeros((3, 1))
    mdp = make_mdp(p, r, [1, 0, 0], horizon=2)
    np.testing.assert_allclose(mdp.p.sum(axis=-1), 1, rtol=0, atol=1e-15)
    r[0] = 5
    p[0] = 0
    assert mdp.r[0, 0] == 0
    assert mdp.p[0, 0, 0] == pytest.approx(1 / 3, abs=1e-12)


def test_with_horizon_changes_only_the_horizon():
    mdp = noisy_mdp(0, num_states=2, num_actions=3, horizon=4)
    longer = with_horizon(mdp, 9)
    assert longer.horizon == 9
    assert longer.p is mdp.p
    with pytest.raises(InputError, match=r"^horizon: 0 is wrong"):
        with_horizon(mdp, 0)


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
