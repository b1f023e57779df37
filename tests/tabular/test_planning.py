"""Planners against loops in NumPy and a linear program; inputs are never changed."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest
import reference
from agent_data import assert_plan, f32, quick, slow
from scipy.optimize import brentq, linprog

from narl.tabular.noise import Noise, NoiseProducts, from_vectors, simplex_products
from narl.tabular.planning import (
    extended_value_iteration,
    most_optimistic,
    naevi,
    navi,
    steps_to_go,
    value_iteration,
)
from narl.tabular.transitions import Dynamics

SEEDS = range(2)
"""Instances of each shape; they share one compiled program."""

SHAPES = [slow((1, 2, 1)), slow((3, 1, 8)), (12, 4, 8)]
CLIPPED = [
    slow((1, 2, 1), "none"),
    slow((3, 1, 8), "none"),
    ((5, 2, 4), "horizon"),
    ((12, 4, 8), "none"),
]


def beliefs(seed, shape):
    """Return a sparse kernel as a dense table and in slots, rewards, and P_0."""
    num_states, num_actions, _ = shape
    rng = np.random.default_rng((seed, *shape))
    p = reference.random_kernel(rng, num_states, num_actions, max(1, num_states // 3))
    # Rows without data are uniform: in slots they are all spread.
    unseen = rng.random((num_states, num_actions)) < 0.2
    dense = np.where(unseen[..., None], 1 / num_states, p)
    successors, prob = reference.slots_of(p)
    prob[unseen] = 0
    slots = Dynamics(f32(prob), f32(unseen), jnp.asarray(successors))
    r = reference.random_rewards(rng, num_states, num_actions)
    p0 = rng.dirichlet(np.ones(num_states))
    return rng, dense, slots, r, p0


def jitted(planner, **static):
    """Return a compiled planner; ``horizon`` is static."""
    return quick(functools.partial(planner, **static), static_argnames="horizon")


@pytest.mark.parametrize(("shape", "clip"), CLIPPED)
def test_value_iteration_agrees_with_the_reference(shape, clip):
    plan = jitted(value_iteration, clip=clip)
    for seed in SEEDS:
        _, dense, slots, r, p0 = beliefs(seed, shape)
        expected = reference.value_iteration(dense, r, p0, shape[2], clip)
        for p in (f32(dense), slots):
            assert_plan(plan(p, f32(r), f32(p0), horizon=shape[2]), expected)


def projected(row):
    """Return the nearest distribution: max(x − τ, 0) with τ from bisection."""
    tau = brentq(lambda t: np.maximum(row - t, 0).sum() - 1, row.min() - 1, row.max(), xtol=1e-14)
    return np.maximum(row - tau, 0)


def apply_measure(xi, p, measure):
    """Return the noise ξ under a measure."""
    if measure == "centred":
        return xi - xi.mean(-1, keepdims=True)
    if measure == "simplex":
        return np.apply_along_axis(projected, -1, p + xi) - p
    return xi


@functools.partial(quick, static_argnames=("measure", "horizon", "clip", "clip_reward"))
def naevi_from_tables(p, r, xi_r, xi_p, p0, measure, horizon, clip, clip_reward):
    if measure == "simplex":
        dynamics = simplex_products(xi_p, Dynamics(p, jnp.zeros(r.shape)))
    else:
        dynamics = from_vectors(xi_p, measure)
    noise = Noise(xi_r, dynamics)
    return naevi(p, r, noise, p0, horizon, clip=clip, clip_reward=clip_reward)


@pytest.mark.parametrize(
    ("measure", "shape", "clip", "clip_reward"),
    [
        ("signed", (12, 4, 8), "none", False),
        ("signed", (5, 2, 4), "horizon", True),
        slow("signed", (1, 2, 1), "none", True),
        ("centred", (5, 2, 4), "horizon", True),
        ("simplex", (5, 2, 4), "none", False),
    ],
)
def test_naevi_agrees_with_the_reference(measure, shape, clip, clip_reward):
    num_states, num_actions, horizon = shape
    for seed in SEEDS:
        rng, p, _, r, p0 = beliefs(seed, shape)
        xi_r = rng.normal(size=(3, num_states, num_actions))
        xi_p = 0.3 * rng.normal(size=(2, num_states, num_actions, num_states))
        args = map(f32, (p, r, xi_r, xi_p, p0))
        plan = naevi_from_tables(*args, measure, horizon, clip, clip_reward)
        xi = apply_measure(xi_p, p, measure)
        assert_plan(plan, reference.naevi(p, r, xi_r, xi, p0, horizon, clip, clip_reward))


def test_naevi_uses_the_noise_of_each_stage():
    shape = (5, 2, 4)
    rng, p, slots, r, p0 = beliefs(2, shape)
    xi_r, xi_p = rng.normal(size=(3, 5, 2)), rng.normal(size=(4, 2, 5, 2, 5))
    expected = reference.naevi(p, r, xi_r, xi_p, p0, 4)
    tables = f32(xi_p)

    def product(count, h, v):
        return tables[h] @ v, count + 1

    @quick
    def plan(table):
        return naevi(table, f32(r), Noise(f32(xi_r), NoiseProducts(0, product)), f32(p0), 4)

    for table in (f32(p), slots):
        assert_plan(plan(table), expected)


def test_naevi_by_hand():
    # Two states, one action; state 1 pays .5 and both states stay where they are.
    p = np.array([[[1.0, 0]], [[0, 1.0]]])
    r = np.array([[0.0], [0.5]])
    xi_r = np.array([[[0.1], [-0.2]], [[-1.0], [0.2]]])
    xi_p = np.array([[[[0.0, 1.0]], [[0.0, 0.0]]], [[[2.0, 0.0]], [[0.0, -3.0]]]])
    plan = naevi(p, r, Noise(xi_r, xi_p), np.array([1.0, 0]), 2)
    # h=1: r̃ = (.1, .7). h=0: A is separate from B; B(0) = max(⟨(0,1),V⟩, ⟨(2,0),V⟩) = max(.7, .2)
    # and B(1) = max(0, −3·.7) = 0.
    np.testing.assert_allclose(plan.q[:, :, 0], [[0.1 + 0.1 + 0.7, 0.7 + 0.7], [0.1, 0.7]], 1e-6)
    assert plan.value == pytest.approx(0.9)


@pytest.mark.parametrize("shape", SHAPES)
def test_navi_agrees_with_the_reference(shape):
    num_states, num_actions, horizon = shape
    plan = jitted(navi)
    capped = 0
    for seed in SEEDS:
        rng, dense, slots, r, p0 = beliefs(seed, shape)
        r_tilde = r + rng.normal(size=r.shape)
        q_prev = rng.uniform(0, horizon, (horizon, num_states, num_actions))
        expected = reference.navi(dense, r_tilde, q_prev, p0, horizon)
        capped += (expected[0] == q_prev).sum()
        for p in (f32(dense), slots):
            args = map(f32, (r_tilde, q_prev, p0))
            assert_plan(plan(p, *args, horizon=horizon), expected)
    assert capped > 0 or horizon == 1  # the running minimum has an effect


def test_navi_with_steps_to_go_has_no_running_minimum():
    shape = (5, 2, 4)
    _, dense, _, r, p0 = beliefs(5, shape)
    ladder = steps_to_go(4, 5, 2)
    np.testing.assert_array_equal(ladder[:, 3, 1], [4, 3, 2, 1])
    plan = navi(f32(dense), f32(r + 0.5), ladder, f32(p0), 4)
    expected = reference.navi(dense, r + 0.5, np.full((4, 5, 2), np.inf), p0, 4)
    assert_plan(plan, expected)
    assert (expected[0] == ladder).any()  # the cap H−h binds somewhere


def widths(rng, shape):
    r_width = rng.uniform(0, 0.5, shape[:2])
    p_width = rng.choice([0.0, 0.05, 0.5, 1.5, 5.0], shape[:2])
    return r_width, p_width


@pytest.mark.parametrize(("shape", "clip"), CLIPPED)
def test_extended_value_iteration_agrees_with_the_reference(shape, clip):
    plan = jitted(extended_value_iteration, clip=clip)
    for seed in SEEDS:
        rng, dense, slots, r, p0 = beliefs(seed, shape)
        r_width, p_width = widths(rng, shape)
        args = r, r_width, p_width, p0
        expected = reference.extended_value_iteration(dense, *args, shape[2], clip)
        for p in (f32(dense), slots):
            assert_plan(plan(p, *map(f32, args), horizon=shape[2]), expected)


@pytest.mark.parametrize("tied", [slow(False), True])
def test_extended_value_iteration_with_slots_and_uniform_share(tied):
    # As with a Dirichlet prior: every row has stored successors and a share for all states.
    shape = (12, 2, 4)
    rng, _, _, r, p0 = beliefs(3, shape)
    p = reference.random_kernel(rng, 12, 2, 3)
    successors, prob = reference.slots_of(p)
    share = rng.uniform(0.1, 0.9, (12, 2))
    slots = Dynamics(f32(prob * (1 - share[..., None])), f32(share), jnp.asarray(successors))
    dense = p * (1 - share[..., None]) + share[..., None] / 12
    r_width, p_width = widths(rng, shape)
    args = (np.round(r), 0 * r_width, p_width, p0) if tied else (r, r_width, p_width, p0)
    planners = {False: reference.extended_value_iteration}
    if not tied:
        planners[True] = reference.compounding_value_iteration
    for compounding, planner in planners.items():
        plan = jitted(extended_value_iteration, compounding=compounding)
        assert_plan(plan(slots, *map(f32, args), horizon=4), planner(dense, *args, 4))


@pytest.mark.parametrize("shape", SHAPES)
def test_compounding_agrees_with_the_baseline_code(shape):
    plan = jitted(extended_value_iteration, compounding=True)
    differs = False
    for seed in SEEDS:
        rng, dense, slots, r, p0 = beliefs(seed, shape)
        r_width, p_width = widths(rng, shape)
        args = r, r_width, p_width, p0
        expected = reference.compounding_value_iteration(dense, *args, shape[2])
        for p in (f32(dense), slots):
            assert_plan(plan(p, *map(f32, args), horizon=shape[2]), expected)
        correct = reference.extended_value_iteration(dense, *args, shape[2])
        differs = differs or not np.allclose(expected[0], correct[0])
    assert differs or shape[0] == 1 or shape[2] < 3


def test_compounding_keeps_a_row_whose_best_state_overflows():
    # All values tie at h=1 and the last state is raised: .8 + .3 > 1, so P̂ stays (.2, .8).
    # Looking at the first state instead (.2 + .3 ≤ 1) would write (0, 1) into P̂.
    p = np.array([[[0.2, 0.8]], [[0.2, 0.8]]])
    r, zero, width = np.array([[1.0], [0.0]]), np.zeros((2, 1)), np.full((2, 1), 0.6)
    plan = extended_value_iteration(p, r, zero, width, np.array([1.0, 0.0]), 2, compounding=True)
    np.testing.assert_allclose(plan.q[0, :, 0], [1.5, 0.5], rtol=1e-6)


def best_value(p, width, v):
    """Return max ⟨p̃, v⟩ over distributions with ‖p̃ − p‖₁ ≤ width by a linear program."""
    size = len(p)
    # Variables p̃ and u ≥ |p̃ − p|.
    absolute = np.block([[np.eye(size), -np.eye(size)], [-np.eye(size), -np.eye(size)]])
    budget = np.concatenate([np.zeros(size), np.ones(size)])[None]
    program = linprog(
        np.concatenate([-v, np.zeros(size)]),
        A_ub=np.vstack([absolute, budget]),
        b_ub=np.concatenate([p, -p, [width]]),
        A_eq=np.concatenate([np.ones(size), np.zeros(size)])[None],
        b_eq=[1.0],
    )
    return -program.fun


@pytest.mark.parametrize(("num_states", "tied"), [(1, False), (5, True), (12, False)])
def test_most_optimistic_row_solves_the_linear_program(num_states, tied):
    rng = np.random.default_rng(num_states)
    p = reference.random_kernel(rng, num_states, 3, max(1, num_states // 2))
    width = rng.choice([0.0, 0.1, 0.7, 1.9, 4.0], (num_states, 3))
    v = rng.integers(0, 2, num_states) if tied else rng.uniform(0, 9, num_states)
    p_tilde = np.asarray(quick(most_optimistic)(f32(p), f32(width), f32(v)))
    assert (p_tilde >= 0).all()
    np.testing.assert_allclose(p_tilde.sum(-1), 1, atol=1e-6)
    assert (np.abs(p_tilde - p).sum(-1) <= width + 1e-6).all()
    for s in range(num_states):
        for a in range(3):
            assert p_tilde[s, a] @ v == pytest.approx(best_value(p[s, a], width[s, a], v), abs=1e-5)


@pytest.mark.parametrize("name", ["value_iteration", "naevi", "navi", "extended", "compounding"])
def test_planners_do_not_change_numpy_inputs(name):
    rng, p, _, r, p0 = beliefs(0, (5, 2, 4))
    # JAX may share the memory of float32 arrays on the CPU; P̂ is float64.
    shapes = {"xi_r": (3, 5, 2), "xi_p": (3, 5, 2, 5), "q_prev": (4, 5, 2), "width": (5, 2)}
    arrays = {key: rng.random(shape).astype(np.float32) for key, shape in shapes.items()}
    arrays |= {"p": p, "r": np.float32(r), "p0": np.float32(p0)}
    copies = {key: array.copy() for key, array in arrays.items()}
    for array in arrays.values():
        array.flags.writeable = False
    xi_r, xi_p, q_prev, width, p, r, p0 = arrays.values()
    if name == "value_iteration":
        plan = value_iteration(p, r, p0, 4)
    elif name == "naevi":
        plan = naevi(p, r, Noise(xi_r, xi_p), p0, 4)
    elif name == "navi":
        plan = navi(p, r, q_prev, p0, 4)
    else:
        compounding = name == "compounding"
        plan = extended_value_iteration(p, r, width, width, p0, 4, compounding=compounding)
    assert plan.q.dtype == jnp.float32
    assert np.isfinite(plan.q).all()
    for key, copy in copies.items():
        np.testing.assert_array_equal(arrays[key], copy)
