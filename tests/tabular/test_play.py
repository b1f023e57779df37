"""One episode: exact regret, the greedy policy with its ties, and the draws of an MDP."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agent_data import noisy_mdp, quick, random_policy
from scipy.stats import chisquare

from narl.tabular import TabularMDP, make_mdp, policy_value, riverswim, solve
from narl.tabular.problem import _cumulate, make_problem, make_world
from narl.tabular.runner import exact_regret, greedy_policy, play

MIN_PVALUE = 1e-4

quick_regret = quick(exact_regret)
many_policies = quick(jax.vmap(greedy_policy, (0, None)))


def world_of(mdp: TabularMDP, slots: bool = True):
    problem = make_problem(mdp, 1)
    if not slots:
        problem = dataclasses.replace(problem, successors=None)
    return make_world(mdp, solve(mdp), problem)


# --- exact regret --------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(5, 3, 4), (12, 2, 6)], ids=["dense", "slots"])
def test_exact_regret_is_the_difference_of_values(sizes):
    num_successors = 3 if sizes[0] == 12 else None
    for seed in range(10):
        mdp = noisy_mdp(seed, *sizes, num_successors)
        world = world_of(mdp)
        assert (world.p.successors is None) == (num_successors is None)
        policy = random_policy(seed, mdp)
        expected = solve(mdp).value - policy_value(mdp, policy)
        assert float(quick_regret(world, policy)) == pytest.approx(expected, rel=2e-6)
        assert float(quick_regret(world, solve(mdp).q_star.argmax(-1))) == 0.0


def test_regret_below_the_rounding_of_values_is_exact():
    # Both actions earn 20; the second misses 1e-9 in the last step, with probability 1/2.
    r = np.array([[1000.0, 1000.0], [20.0, 20.0 - 1e-9]])
    mdp = make_mdp(np.full((2, 2, 2), 0.5), r, [1, 0], horizon=2)
    policy = np.array([[0, 0], [0, 1]])
    assert float(quick_regret(world_of(mdp), policy)) == pytest.approx(0.5e-9, rel=1e-5)


# --- the policy that is played -------------------------------------------------------------

TIES = {
    # The largest value, values that rounding may have separated from it, and smaller ones.
    "all equal": ([2.0, 2.0, 2.0, 2.0], [0, 1, 2, 3]),
    "two equal": ([1.0, 0.0, 1.0, 0.5], [0, 2]),
    "below zero": ([-3.0, -1.0, -1.0, -1.0], [1, 2, 3]),
    "infinite": ([np.inf, np.inf, 0.0, -np.inf], [0, 1]),
    "no tie": ([1.0, 3.0, 2.0, 0.0], [1]),
    "rounded": ([20.0, 20.0 - 1.5e-5, 19.99, 20.0 - 8e-6], [0, 1, 3]),
    "rounded, negative": ([-20.0 - 1.5e-5, -20.0, -20.0 - 8e-6, -20.01], [0, 1, 2]),
    "rounded, huge": ([1e29, 1e30, 1e30 * (1 - 5e-7), 1e30 * (1 - 1e-4)], [1, 2]),
    "rounded, tiny": ([1e-20, 1e-20 * (1 - 5e-7), 0.9e-20, -1.0], [0, 1]),
    "zero": ([0.0, -1e-3, 0.0, -1e-6], [0, 2]),
    "negative zero": ([-0.0, 0.0, -1e-6, -5.0], [0, 1]),
    "barely smaller": ([1.0, 1.0 - 3e-6, 1.0 - 5e-7, 0.0], [0, 2]),
}


def test_greedy_policy_breaks_ties_uniformly_and_independently():
    q = np.array([[values for values, _ in TIES.values()]], np.float32)
    keys = jax.random.split(jax.random.key(0), 12_000)
    policies = np.asarray(many_policies(keys, jnp.asarray(q)))[:, 0]
    for s, (kind, (_, tied)) in enumerate(TIES.items()):
        counts = np.bincount(policies[:, s], minlength=4)
        assert counts[tied].sum() == len(keys), kind
        assert len(tied) == 1 or chisquare(counts[tied]).pvalue > MIN_PVALUE, kind
    together = np.bincount(2 * policies[:, 0] + (policies[:, 1] == 2), minlength=8)
    assert chisquare(together).pvalue > MIN_PVALUE


# --- playing -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def played():
    """20 000 episodes of one policy in an MDP of 12 states with three successors per pair."""
    mdp = noisy_mdp(3, num_states=12, num_actions=2, horizon=6, num_successors=3)
    policy = random_policy(3, mdp)
    keys = jax.random.split(jax.random.key(5), 20_000)
    many = quick(jax.vmap(play, (0, None, None)))
    sparse, full = world_of(mdp), world_of(mdp, slots=False)
    assert sparse.p.successors is not None
    assert full.p.successors is None
    return mdp, policy, many(keys, sparse, policy), many(keys, full, policy)


def test_play_is_the_same_with_slots_and_dense(played):
    _, _, sparse, full = played
    jax.tree.map(np.testing.assert_array_equal, sparse, full)


def test_play_follows_p0_and_p(played):
    mdp, policy, episodes, _ = played
    states, actions = np.asarray(episodes.states), np.asarray(episodes.actions)
    first = np.bincount(states[:, 0], minlength=12)
    assert chisquare(first, mdp.p0 * first.sum()).pvalue > MIN_PVALUE
    np.testing.assert_array_equal(actions, policy[np.arange(6), states[:, :-1]])
    counts = np.zeros(mdp.p.shape)
    np.add.at(counts, (states[:, :-1], actions, states[:, 1:]), 1)
    assert counts[mdp.p == 0].sum() == 0
    pvalues = []
    for s, a in np.argwhere(counts.sum(-1) > 500):
        there = mdp.p[s, a] > 0
        expected = mdp.p[s, a, there] * counts[s, a].sum()
        pvalues.append(chisquare(counts[s, a, there], expected).pvalue)
    assert len(pvalues) >= 12
    assert min(pvalues) > MIN_PVALUE / len(pvalues)


def test_play_draws_rewards_with_mean_and_deviation(played):
    mdp, _, episodes, _ = played
    pair = np.asarray(episodes.states[:, :-1]), np.asarray(episodes.actions)
    z = (np.asarray(episodes.rewards) - mdp.r[pair]) / mdp.r_std[pair]
    assert z.mean() == pytest.approx(0, abs=4 / np.sqrt(z.size))
    assert z.std() == pytest.approx(1, abs=4 / np.sqrt(2 * z.size))
    at_one_pair = z[(pair[0] == 0) & (pair[1] == pair[1][pair[0] == 0][0])]
    assert at_one_pair.mean() == pytest.approx(0, abs=4 / np.sqrt(at_one_pair.size))
    # Noise and moves have separate draws: a common one would change the variance of returns.
    assert abs(np.corrcoef(z[:, 0], episodes.states[:, 1])[0, 1]) < 4 / np.sqrt(len(z))


def test_play_gives_deterministic_rewards_exactly():
    mdp = riverswim()
    episode = quick(play)(jax.random.key(0), world_of(mdp), jnp.ones((20, 6), int))
    pair = np.asarray(episode.states[:-1]), np.asarray(episode.actions)
    np.testing.assert_array_equal(episode.rewards, mdp.r[pair].astype(np.float32))


def extreme_rows(rng: np.random.Generator, num_states: int) -> np.ndarray:
    """Return distributions with zeros anywhere and positive entries down to 1e-30."""
    p = rng.random((200, num_states)) ** rng.integers(1, 60, (200, num_states))
    p *= rng.random(p.shape) < rng.random((200, 1))
    p[p.sum(-1) == 0, rng.integers(num_states)] = 1
    p[:20] = np.eye(num_states)[rng.integers(num_states, size=20)]
    p[20:40, 1:] = 0
    p[20:40, 0], p[20:40, num_states // 2] = 1 - 1e-8, 1e-8
    return p / p.sum(-1, keepdims=True)


@pytest.mark.parametrize("num_states", [4, 40])
def test_draws_never_pick_an_outcome_of_probability_zero(num_states):
    rng = np.random.default_rng(num_states)
    u = rng.integers(0, 2**23, 4000)
    u[:2] = 0, 2**23 - 1  # the smallest and the largest uniform draw in float32
    u = np.float32(u) / np.float32(2**23)
    assert u.max() == np.float32(1) - np.float32(2**-23)
    for row in extreme_rows(rng, num_states):
        for p in (row, row[row > 0]):  # dense, and in slots
            thresholds = np.float32(_cumulate(p))
            draws = np.concatenate([u, thresholds, np.nextafter(thresholds, np.float32(0))])
            outcome = (draws[draws < 1, None] >= thresholds).sum(-1)
            assert (p[outcome] > 0).all()
