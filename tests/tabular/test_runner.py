"""The runner: episodes, scores, and independence of batches and chunks."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agent_data import noisy_mdp, quick, slow
from scipy.stats import chisquare
from variants import VARIANTS, unoptimised

from narl.errors import InputError
from narl.tabular import (
    Agent,
    Plan,
    TabularMDP,
    deep_sea,
    make_mdp,
    policy_value,
    random_mdp,
    riverswim,
    run,
    runner,
    solve,
    solved_at,
)
from narl.tabular.options import agent_options
from narl.tabular.problem import _cumulate, make_problem, make_world
from narl.tabular.registry import make_agent
from narl.tabular.runner import exact_regret, greedy_policy, play, run_episode

SCORES = ("regret", "value", "trajectory_gap", "realised_return")
MIN_PVALUE = 1e-4

quick_regret = quick(exact_regret)
many_policies = quick(jax.vmap(greedy_policy, (0, None)))


def world_of(mdp: TabularMDP, slots: bool = True):
    problem = make_problem(mdp, 1)
    if not slots:
        problem = dataclasses.replace(problem, successors=None)
    return make_world(mdp, solve(mdp), problem)


def random_policy(seed: int, mdp: TabularMDP) -> np.ndarray:
    shape = mdp.horizon, mdp.num_states
    return np.random.default_rng(seed).integers(mdp.num_actions, size=shape)


def scripted(policies: np.ndarray, num_actions: int, value: float = 0.0, on_trace=None) -> Agent:
    """Return an agent that plays the policies in turn and estimates ``value`` for each."""
    q = jax.nn.one_hot(jnp.asarray(policies), num_actions)

    def plan(key, problem, state):
        if on_trace is not None:
            on_trace()
        return Plan(q[state % len(policies)], jnp.float32(value)), state

    return Agent(
        init=lambda key, problem: jnp.int32(0),
        plan=plan,
        observe=lambda key, problem, state, episode: state + 1,
    )


def make_random_agent() -> Agent:
    """Return an agent that draws Q and its estimate anew: quick to compile, random throughout."""

    def plan(key, problem, state):
        key_q, key_value = jax.random.split(key)
        shape = problem.horizon, problem.num_states, problem.num_actions
        q = jax.random.normal(key_q, shape) + state
        return Plan(q, jax.random.normal(key_value) + state), state

    return Agent(
        init=lambda key, problem: jax.random.normal(key),
        plan=plan,
        observe=lambda key, problem, state, episode: state + jax.random.normal(key),
    )


RANDOM_AGENT = make_random_agent()


def assert_same(trace, other, rows=slice(None)):
    for name in SCORES:
        actual, expected = getattr(trace, name)[rows], getattr(other, name)
        np.testing.assert_array_equal(actual, expected, err_msg=name)


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


# --- the scores of a run -------------------------------------------------------------------

NUM_POLICIES = 4


@pytest.fixture(scope="module")
def known():
    """Four known policies in turn, 2000 episodes with eight seeds."""
    mdp = noisy_mdp(11)
    policies = np.stack([random_policy(seed, mdp) for seed in range(NUM_POLICIES)])
    values = np.array([policy_value(mdp, policy) for policy in policies])
    with unoptimised():
        return mdp, values, run(scripted(policies, 3, value=1.25), mdp, 2000, range(8))


def test_trace_scores_the_executed_policy(known):
    mdp, values, trace = known
    assert trace.v_star == solve(mdp).value
    expected = np.broadcast_to(np.tile(values, 500), (8, 2000))
    np.testing.assert_allclose(trace.policy_value, expected, rtol=0, atol=2e-6)
    np.testing.assert_allclose(trace.regret, trace.v_star - expected, rtol=2e-6, atol=1e-7)
    assert (trace.value == 1.25).all()
    np.testing.assert_allclose(trace.optimism, trace.v_star - 1.25, rtol=1e-15)
    np.testing.assert_allclose(trace.estimation_error, 1.25 - trace.policy_value, rtol=1e-15)
    assert trace.bad is None
    assert trace.solved_episode is None


@pytest.mark.parametrize("name", ["trajectory_gap", "realised_return"])
def test_mean_of_sampled_scores_is_the_exact_value(known, name):
    _, values, trace = known
    expected = trace.v_star - values if name == "trajectory_gap" else values
    by_policy = getattr(trace, name).reshape(8, 500, NUM_POLICIES)
    samples = by_policy.transpose(2, 0, 1).reshape(NUM_POLICIES, -1)
    error = samples.std(axis=1) / np.sqrt(samples.shape[1])
    assert (np.abs(samples.mean(axis=1) - expected) < 4 * error).all()
    assert (error < 0.1).all()
    assert (samples >= 0).all() or name == "realised_return"


@pytest.mark.slow
def test_run_is_the_sequence_of_its_steps(fast_compile):
    mdp, seed, num_episodes = riverswim(4, 5), 7, 3
    trace = run("narl-ucrl", mdp, num_episodes, [seed], noise="bootstrap")
    problem = make_problem(mdp, num_episodes)
    world = make_world(mdp, solve(mdp), problem)
    agent = make_agent("narl-ucrl", agent_options("narl-ucrl", noise="bootstrap"), problem)
    make_plan, make_step = quick(agent.plan), quick(run_episode, static_argnums=1)
    key_init, key_episodes = jax.random.split(jax.random.key(seed))
    state = agent.init(key_init, problem)
    for k in range(num_episodes):
        key = jax.random.fold_in(key_episodes, k)
        key_plan, key_ties, key_play, _ = jax.random.split(key, 4)
        plan, _ = make_plan(key_plan, problem, state)
        policy = greedy_policy(key_ties, plan.q)
        episode = play(key_play, world, policy)
        pair = np.asarray(episode.states[:-1]), np.asarray(episode.actions)
        state, record = make_step(key, agent, problem, world, state)
        expected = {
            "policy_value": policy_value(mdp, np.asarray(policy)),
            "value": float(plan.value),
            "realised_return": mdp.r[pair].sum(),
            "trajectory_gap": solve(mdp).gap[(np.arange(5), *pair)].sum(),
        }
        for score, number in expected.items():
            assert getattr(trace, score)[0, k] == pytest.approx(number, abs=1e-6)
        for score, number in zip(record._fields[:4], record[:4], strict=True):
            assert getattr(trace, score)[0, k] == pytest.approx(float(number), abs=1e-6)


# --- seeds, batches, chunks ----------------------------------------------------------------


@pytest.fixture(scope="module")
def eight_seeds():
    """Eight seeds, 23 episodes: a number that no chunk divides."""
    return run(RANDOM_AGENT, riverswim(), 23, range(8))


def test_seeds_decide_the_trace_to_the_last_bit(eight_seeds):
    again = run(RANDOM_AGENT, riverswim(), 23, range(8))
    assert_same(again, eight_seeds)
    np.testing.assert_array_equal(again.seeds, np.arange(8))
    assert eight_seeds.regret.shape == (8, 23)
    order = [5, 2, 7, 0, 1, 6, 4, 3]
    assert_same(eight_seeds, run(RANDOM_AGENT, riverswim(), 23, order), rows=order)


def test_different_seeds_differ(eight_seeds):
    for name in SCORES:
        assert len(np.unique(getattr(eight_seeds, name), axis=0)) == 8
    large = run(RANDOM_AGENT, riverswim(), 23, range(2**32 - 8, 2**32))
    assert len(np.unique(np.concatenate([eight_seeds.value, large.value]), axis=0)) == 16


@pytest.mark.parametrize(
    ("num_episodes", "chunk", "progress"), [(23, 5, [5, 10, 15, 20, 23]), (10, 5, [5, 10])]
)
def test_chunks_do_not_change_the_trace(eight_seeds, num_episodes, chunk, progress, monkeypatch):
    monkeypatch.setattr(runner, "CHUNK", chunk)
    done = []
    trace = run(RANDOM_AGENT, riverswim(), num_episodes, range(8), progress=done.append)
    assert done == progress
    for name in SCORES:
        expected = getattr(eight_seeds, name)[:, :num_episodes]
        np.testing.assert_array_equal(getattr(trace, name), expected)


@pytest.mark.slow
@pytest.mark.parametrize("label", ["narl-ucrl theorem", "psrl", "ucbvi theory"])
def test_run_is_the_same_with_jax_in_64_bits(label, fast_compile):
    name, options = VARIANTS[label]
    mdp = riverswim(4, 5)
    expected = run(name, mdp, 12, range(2), **options)
    with jax.enable_x64(True):
        assert jnp.zeros(()).dtype == np.float64  # 64 bits are on
        trace = run(name, mdp, 12, range(2), **options)
        assert jnp.zeros(()).dtype == np.float64  # … and still on
    assert_same(trace, expected)


SEED_CASES = [
    *(
        ("riverswim", label)
        for label in ("narl-ucrl", "narl-ucrl bootstrap", "narl-ucrl dirichlet")
    ),
    *(("riverswim", label) for label in ("narl-ucbvi", "ucrl2", "ucbvi", "rlsvi")),
    *(("deep_sea", label) for label in ("ucrl2", "opsrl")),
]


@pytest.mark.slow
@pytest.mark.parametrize(("env", "label"), SEED_CASES)
def test_seed_alone_is_the_seed_in_a_batch(env, label):
    """Ṽ_k is equal to the last bit, so that every decision is the same.

    The scores are sums that XLA orders by the number of seeds: they are equal up to float32
    rounding, and no later episode depends on them.
    """
    mdp, num_episodes = {"riverswim": (riverswim(), 40), "deep_sea": (deep_sea(6), 20)}[env]
    name, options = VARIANTS[label]
    batch = run(name, mdp, num_episodes, range(8), **options)
    alone = run(name, mdp, num_episodes, [5], **options)
    np.testing.assert_array_equal(alone.value[0], batch.value[5])
    for score in ("regret", "trajectory_gap", "realised_return"):
        actual, expected = getattr(alone, score)[0], getattr(batch, score)[5]
        np.testing.assert_allclose(actual, expected, rtol=2e-6, atol=2e-6, err_msg=score)


@pytest.mark.slow
def test_seed_alone_with_new_noise_per_stage_is_equal_up_to_rounding():
    # ‖Ṽ‖ is such a sum and enters Ṽ: the one kind of noise without equal bits.
    options = {"noised": "both", "per_stage": True}
    batch = run("narl-ucrl", riverswim(), 30, range(8), **options)
    alone = run("narl-ucrl", riverswim(), 30, [5], **options)
    np.testing.assert_allclose(alone.value[0], batch.value[5], rtol=2e-6)


def test_second_run_of_the_same_shapes_compiles_nothing(monkeypatch, fast_compile):
    monkeypatch.setattr(runner, "CHUNK", 10)
    mdp, traced = noisy_mdp(2), []
    agent = scripted(random_policy(0, mdp)[None], 3, on_trace=lambda: traced.append(1))
    run(agent, mdp, 20, range(3))
    once = len(traced)
    assert once >= 1
    run(agent, mdp, 20, range(3))
    run(agent, noisy_mdp(4), 20, range(5, 8))  # other numbers, same shapes
    run(agent, mdp, 40, range(3))  # more chunks of the same length
    assert len(traced) == once
    run(agent, mdp, 20, range(4))
    assert len(traced) > once


# --- agents of users, and small problems ---------------------------------------------------


def test_user_agent_receives_states_keys_and_episodes(fast_compile):
    def init(key, problem):
        return {"steps": jnp.zeros(()), "last": jnp.int32(-1), "key": jax.random.uniform(key)}

    def plan(key, problem, state):
        q = jnp.zeros((problem.horizon, problem.num_states, problem.num_actions))
        return Plan(q, state["steps"]), state

    def observe(key, problem, state, episode):
        assert episode.states.shape == (problem.horizon + 1,)
        return state | {"steps": state["steps"] + len(episode.rewards), "last": episode.states[-1]}

    trace = run(Agent(init, plan, observe), noisy_mdp(0), 5, [3, 4])
    np.testing.assert_array_equal(trace.value, [[0, 4, 8, 12, 16]] * 2)
    assert len(np.unique(trace.regret)) == 10  # all actions tie: another policy every time


SMALL_CASES = [
    *((label, (1, 1, 1)) for label in VARIANTS),
    *((label, (12, 2, 3)) for label in ("narl-ucrl bootstrap", "ucrl2", "opsrl", "rlsvi")),
    *(("narl-ucrl", sizes) for sizes in ((1, 3, 2), (3, 2, 1))),
]


@pytest.mark.slow
@pytest.mark.parametrize(("label", "sizes"), SMALL_CASES)
def test_agents_run_on_small_problems(label, sizes, fast_compile):
    num_states, num_actions, horizon = sizes
    mdp = random_mdp(num_states, num_actions, horizon, reward_std=0.5, seed=1)
    if num_states == 12:
        mdp = noisy_mdp(1, *sizes, num_successors=2)
        assert make_problem(mdp, 1).successors is not None
    name, options = VARIANTS[label]
    trace = run(name, mdp, 12, range(2), **options)
    for score in SCORES:
        assert np.isfinite(getattr(trace, score)).all()
    assert (trace.regret >= 0).all()
    if num_actions == 1:
        assert (trace.regret == 0).all()
        assert (trace.trajectory_gap == 0).all()
    else:
        assert len(np.unique(trace.regret)) > 1
        assert trace.trajectory_gap.sum() > 0


# --- Deep Sea: solved ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bad", "rule", "episode"),
    [
        ([0], (), 1),  # 0/1 < .9
        ([1], (), None),
        ([1, 0], (), 2),  # 1/2
        ([1] * 9 + [0], (), None),  # 9/10 is not below .9
        ([1] * 9 + [0, 0], (), 11),  # 9/11
        ([1] * 20 + [0] * 5, (), 23),  # 20/22 = .909, 20/23 = .87
        ([0] + [1] * 50, (), 1),  # solved once is solved
        ([1, 0, 0, 0], (0.8, 3), 3),
        ([0] * 99, (0.8, 100), None),
        ([0] * 100, (0.8, 100), 100),
        ([1] * 80 + [0] * 20, (0.8, 100), None),
        ([1] * 80 + [0] * 21, (0.8, 100), 101),
        ([], (), None),
    ],
)
def test_solved_at_by_hand(bad, rule, episode):
    assert solved_at(np.array(bad, dtype=float), *rule) == episode


def deep_sea_script(mdp: TabularMDP, num_bad: int) -> Agent:
    """Return an agent that leaves the diagonal in the first episodes, then plays optimally."""
    best = solve(mdp).q_star.argmax(-1)
    bad = np.broadcast_to(mdp.bad.argmax(-1), best.shape)
    q_best, q_bad = (jax.nn.one_hot(jnp.asarray(policy), 2) for policy in (best, bad))

    def plan(key, problem, state):
        return Plan(jnp.where(state < num_bad, q_bad, q_best), jnp.float32(0)), state

    return scripted(best[None], 2)._replace(plan=plan)


@pytest.mark.parametrize(
    ("num_bad", "stochastic", "solved", "num_episodes"),
    [(20, False, 23, 30), (1000, False, None, 1000), slow(0, True, 100, 100)],
)
def test_until_solved_stops_once_every_seed_has_solved(
    num_bad, stochastic, solved, num_episodes, monkeypatch, fast_compile
):
    monkeypatch.setattr(runner, "CHUNK", 10)
    mdp, done = deep_sea(4, stochastic=stochastic), []
    agent = deep_sea_script(mdp, num_bad)
    trace = run(agent, mdp, 1000, range(2), until_solved=True, progress=done.append)
    assert trace.regret.shape == (2, num_episodes)
    assert done == list(range(10, num_episodes + 1, 10))
    assert trace.solved_episode == [solved, solved]
    if not stochastic:
        bad = np.arange(num_episodes) < num_bad
        np.testing.assert_array_equal(trace.bad, [bad, bad])
        np.testing.assert_array_equal(trace.regret == 0, [~bad, ~bad])


# --- mistakes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "args", "options", "valid"),
    [
        ("agent", ("narl-ucr", riverswim(), 1), {}, "'narl-ucrl'"),
        ("agent", (3, riverswim(), 1), {}, "a name or an Agent"),
        ("mdp", ("psrl", "riverswim", 1), {}, "TabularMDP"),
        ("episodes", ("psrl", riverswim(), 0), {}, "1"),
        ("seeds", ("psrl", riverswim(), 1, []), {}, "at least one"),
        ("until_solved", ("psrl", riverswim(), 1), {"until_solved": True}, "deep_sea"),
        ("c", ("narl-ucrl", riverswim(), 1), {"c": -1}, "0"),
        ("options", (RANDOM_AGENT, riverswim(), 1), {"c": 1}, "own"),
    ],
)
def test_run_refuses_wrong_input(field, args, options, valid):
    with pytest.raises(InputError) as caught:
        run(*args, **options)
    line = str(caught.value)
    assert line.startswith(f"{field}: ")
    assert valid in line
    assert "\n" not in line
