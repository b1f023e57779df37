"""Counts of the data: recording, estimates, the rules for N = 0."""

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
import reference
from agent_data import f32, quick, slow

from narl.tabular.checked_mdp import make_mdp
from narl.tabular.counts import Counts, empty_counts, estimate_model, record_episode
from narl.tabular.envs import deep_sea
from narl.tabular.mdp import Episode
from narl.tabular.problem import Problem, make_problem
from narl.tabular.transitions import dense


def problem_of(num_states, num_actions, horizon, successors=None):
    p0 = f32(np.full(num_states, 1 / num_states))
    slots = None if successors is None else jnp.asarray(successors)
    return Problem(p0, jnp.float32(10), slots, num_states, num_actions, horizon)


def episode_of(states, actions, rewards):
    return Episode(jnp.asarray(states), jnp.asarray(actions), f32(rewards))


record = quick(record_episode)


@quick
def tables_of(stats, problem):
    r_hat, p_hat = estimate_model(stats, problem)
    return r_hat, dense(p_hat, problem.num_states)


# 0 –(a1, .5)→ 1 –(a0, 1)→ 0 –(a1, .1)→ 2 –(a0, −1)→ 2
STATES, ACTIONS, REWARDS = [0, 1, 0, 2, 2], [1, 0, 1, 0], [0.5, 1.0, 0.1, -1.0]


def test_record_and_estimate_by_hand():
    problem = problem_of(3, 2, 4)
    stats = record(empty_counts(problem), problem, episode_of(STATES, ACTIONS, REWARDS))
    np.testing.assert_array_equal(stats.visits, [[0, 2], [1, 0], [1, 0]])
    np.testing.assert_allclose(stats.reward_sum, [[0, 0.6], [1, 0], [-1, 0]], rtol=1e-6)
    expected = np.zeros((3, 2, 3))
    expected[0, 1, 1] = expected[0, 1, 2] = expected[1, 0, 0] = expected[2, 0, 2] = 1
    np.testing.assert_array_equal(stats.transitions, expected)
    r_hat, p_hat = estimate_model(stats, problem)
    np.testing.assert_allclose(r_hat, [[0, 0.3], [1, 0], [-1, 0]], rtol=1e-6)
    third = np.full(3, 1 / 3)
    table = [[third, [0, 0.5, 0.5]], [[1, 0, 0], third], [[0, 0, 1], third]]
    np.testing.assert_allclose(dense(p_hat, 3), table, rtol=1e-6)
    np.testing.assert_array_equal(p_hat.spread, [[1, 0], [0, 1], [0, 1]])


def test_estimate_without_data_is_zero_and_uniform():
    problem = problem_of(4, 2, 3)
    r_hat, p_hat = estimate_model(empty_counts(problem), problem)
    assert not np.asarray(r_hat).any()
    np.testing.assert_allclose(dense(p_hat, 4), 0.25)
    assert empty_counts(problem, 5).visits.shape == (5, 4, 2)
    assert empty_counts(problem, 5).transitions.shape == (5, 4, 2, 4)


def test_weights_select_the_steps_of_each_member():
    problem = problem_of(3, 2, 4)
    episode = episode_of(STATES, ACTIONS, REWARDS)
    masks = f32([[1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 2, 0]])
    stats = record(empty_counts(problem, 4), problem, episode, masks)
    whole = record(empty_counts(problem), problem, episode)
    for field in ("visits", "reward_sum", "transitions"):
        members = np.asarray(getattr(stats, field))
        np.testing.assert_allclose(members[0], getattr(whole, field), rtol=1e-6)
        assert not members[1].any()
    np.testing.assert_array_equal(stats.visits[2], [[0, 1], [0, 0], [0, 0]])
    assert stats.transitions[2, 0, 1, 1] == 1
    np.testing.assert_array_equal(stats.visits[3], [[0, 2], [1, 0], [0, 0]])
    assert stats.transitions[3, 0, 1, 2] == 2
    assert stats.reward_sum[3, 0, 1] == pytest.approx(0.2)
    r_hat, p_hat = tables_of(stats, problem)
    # A member without data at a pair follows the N=0 rule there.
    np.testing.assert_array_equal(r_hat[1], np.zeros((3, 2)))
    np.testing.assert_allclose(p_hat[1], 1 / 3)
    np.testing.assert_allclose(p_hat[2, 0, 1], [0, 1, 0])


@pytest.mark.parametrize("which", ["deep_sea", slow("sparse"), "dense"])
def test_counts_of_many_episodes_are_complete(which):
    rng = np.random.default_rng(3)
    if which == "sparse":
        p = reference.random_kernel(rng, 16, 3, 4)
        mdp = make_mdp(p, rng.random((16, 3)), np.full(16, 1 / 16), 6)
    elif which == "dense":
        p = reference.random_kernel(rng, 5, 2)
        mdp = make_mdp(p, rng.random((5, 2)), np.full(5, 0.2), 6)
    else:
        mdp = deep_sea(5, stochastic=True)
    problem = make_problem(mdp, 40)
    assert (problem.successors is None) == (which == "dense")
    stats = empty_counts(problem)
    visits = np.zeros((mdp.num_states, mdp.num_actions))
    reward_sum = np.zeros(visits.shape)
    transitions = np.zeros(mdp.p.shape)
    for _ in range(40):
        states, actions = [int(rng.choice(mdp.num_states, p=mdp.p0))], []
        rewards = rng.normal(size=mdp.horizon)
        for h in range(mdp.horizon):
            s, a = states[h], int(rng.integers(mdp.num_actions))
            t = int(rng.choice(mdp.num_states, p=mdp.p[s, a]))
            states.append(t)
            actions.append(a)
            visits[s, a] += 1
            reward_sum[s, a] += rewards[h]
            transitions[s, a, t] += 1
        stats = record(stats, problem, episode_of(states, actions, rewards))
    np.testing.assert_array_equal(stats.visits, visits)
    np.testing.assert_array_equal(np.asarray(stats.transitions).sum(-1), visits)
    np.testing.assert_allclose(stats.reward_sum, reward_sum, rtol=1e-4, atol=1e-5)
    r_hat, p_hat = tables_of(stats, problem)
    expected_r, expected_p = reference.estimates(visits, reward_sum, transitions)
    np.testing.assert_allclose(r_hat, expected_r, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(p_hat, expected_p, atol=1e-6)


def test_shapes_are_checked_while_tests_run():
    with pytest.raises(jaxtyping.TypeCheckError, match="reward_sum"):
        Counts(jnp.zeros((3, 2)), jnp.zeros((2, 3)), jnp.zeros((3, 2, 3)))
    with pytest.raises(jaxtyping.TypeCheckError, match="weights"):
        record(
            empty_counts(problem_of(3, 2, 4)), problem_of(3, 2, 4), None, jnp.zeros(4, jnp.int32)
        )
    # JAX puts other objects in place of arrays when it handles a pytree.
    leaves = Counts(jnp.zeros((3, 2)), jnp.zeros((3, 2)), jnp.zeros((3, 2, 3)))
    assert jax.tree.map(lambda leaf: leaf.ndim, leaves).transitions == 3
