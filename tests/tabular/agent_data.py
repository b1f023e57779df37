"""Data of an agent in both layouts: dense counts, and counts in slots."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference

from narl.tabular import TabularMDP, make_mdp
from narl.tabular.counts import Counts
from narl.tabular.problem import Problem


class Data(NamedTuple):
    """Counts in float64, their estimates, and both layouts of a problem and its `Counts`."""

    counts: tuple[np.ndarray, np.ndarray, np.ndarray]
    r_hat: np.ndarray
    p_hat: np.ndarray
    p0: np.ndarray
    layouts: list[tuple[Problem, Counts]]


def slow(*values):
    """Return the parameters of a case for the slow tests."""
    return pytest.param(*values, marks=pytest.mark.slow)


def quick(function, **options):
    """Return `jax.jit` of a program that runs once: compiling takes longer than running it."""
    level = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
    return jax.jit(function, compiler_options=level, **options)


def f32(x):
    return jnp.asarray(x, jnp.float32)


def make_data(seed=0, shape=(12, 2, 4), num_slots=3, num_episodes=50, counts=None):
    """Return random counts (or the given ones) of a sparse kernel."""
    num_states, num_actions, horizon = shape
    rng = np.random.default_rng(seed)
    p = reference.random_kernel(rng, num_states, num_actions, min(num_slots, num_states))
    if counts is None:
        counts = reference.random_counts(rng, p)
    else:
        p = counts[2] > 0
    visits, reward_sum, transitions = counts
    successors, _ = reference.slots_of(p)
    padded = np.concatenate([transitions, np.zeros((*visits.shape, 1))], axis=-1)
    in_slots = np.take_along_axis(padded, successors, axis=-1)
    p0 = rng.dirichlet(np.ones(num_states))
    layouts = []
    for table, slots in ((transitions, None), (in_slots, jnp.asarray(successors))):
        problem = Problem(
            p0=f32(p0),
            num_episodes=jnp.float32(num_episodes),
            successors=slots,
            num_states=num_states,
            num_actions=num_actions,
            horizon=horizon,
        )
        layouts.append((problem, Counts(f32(visits), f32(reward_sum), f32(table))))
    return Data(counts, *reference.estimates(*counts), p0, layouts)


def noisy_mdp(seed: int, num_states=5, num_actions=3, horizon=4, num_successors=None) -> TabularMDP:
    """Return a random MDP with negative and noisy rewards; few successors give it slots."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(num_states), (num_states, num_actions))
    if num_successors is not None:
        rank = rng.random(p.shape).argsort(axis=-1).argsort(axis=-1)
        p = np.where(rank < num_successors, p, 0)
        p /= p.sum(-1, keepdims=True)
    r = rng.normal(size=(num_states, num_actions))
    p0 = rng.dirichlet(np.ones(num_states))
    return make_mdp(p, r, p0, horizon, r_std=rng.random(r.shape))


def random_policy(seed: int, mdp: TabularMDP) -> np.ndarray:
    shape = mdp.horizon, mdp.num_states
    return np.random.default_rng(seed).integers(mdp.num_actions, size=shape)


def assert_plan(plan, expected):
    """Compare a plan in float32 with (q, value) in float64."""
    q, value = expected
    atol = 2e-5 * max(1.0, np.abs(q).max())
    assert plan.q.shape == q.shape
    np.testing.assert_allclose(plan.q, q, rtol=0, atol=atol)
    np.testing.assert_allclose(plan.value, value, rtol=0, atol=atol)


def fix_samples(monkeypatch, module, r, p) -> list[tuple]:
    """Make posterior draws return r and p; return a list that collects their arguments."""
    arguments = []

    def rewards(key, stats, mu0, tau0, tau, members):
        arguments.append((mu0, tau0, tau, members))
        return f32(r)

    def dynamics(key, stats, problem, alpha0, members):
        arguments.append((alpha0, members))
        return f32(p)

    monkeypatch.setattr(module, "sample_rewards", rewards)
    monkeypatch.setattr(module, "sample_dynamics", dynamics)
    return arguments
