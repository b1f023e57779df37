"""The same data as a learner holds it: with dense counts, and with counts in slots."""

from typing import NamedTuple

import brute
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from narl.tabular.counts import Stats
from narl.tabular.problem import Problem


class Data(NamedTuple):
    """Counts in float64, what they estimate, and both layouts of a problem and its `Stats`."""

    counts: tuple[np.ndarray, np.ndarray, np.ndarray]
    r_hat: np.ndarray
    p_hat: np.ndarray
    p0: np.ndarray
    layouts: list[tuple[Problem, Stats]]


def slow(*values):
    """Parameters of a case for the slow tests."""
    return pytest.param(*values, marks=pytest.mark.slow)


def quick(function, **options):
    """`jax.jit` for programs that run once: compiling takes longer than running them."""
    level = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
    return jax.jit(function, compiler_options=level, **options)


def f32(x):
    return jnp.asarray(x, jnp.float32)


def data_of(seed=0, shape=(12, 2, 4), num_slots=3, num_episodes=50, counts=None):
    """Random counts (or those given) of a sparse kernel."""
    num_states, num_actions, horizon = shape
    rng = np.random.default_rng(seed)
    p = brute.random_kernel(rng, num_states, num_actions, min(num_slots, num_states))
    if counts is None:
        counts = brute.random_counts(rng, p)
    else:
        p = counts[2] > 0
    visits, reward_sum, transitions = counts
    successors, _ = brute.slots_of(p)
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
        layouts.append((problem, Stats(f32(visits), f32(reward_sum), f32(table))))
    return Data(counts, *brute.estimates(*counts), p0, layouts)


def assert_plan(plan, expected):
    """A plan in float32 against (q, value) in float64."""
    q, value = expected
    atol = 2e-5 * max(1.0, np.abs(q).max())
    assert plan.q.shape == q.shape
    np.testing.assert_allclose(plan.q, q, rtol=0, atol=atol)
    np.testing.assert_allclose(plan.value, value, rtol=0, atol=atol)


def fix_samples(monkeypatch, module, r, p) -> list[tuple]:
    """Makes posterior draws return r and p; the list fills with what was asked for."""
    asked = []

    def rewards(key, stats, mu0, tau0, tau, members):
        asked.append((mu0, tau0, tau, members))
        return f32(r)

    def dynamics(key, stats, problem, alpha0, members):
        asked.append((alpha0, members))
        return f32(p)

    monkeypatch.setattr(module, "sample_rewards", rewards)
    monkeypatch.setattr(module, "sample_dynamics", dynamics)
    return asked
