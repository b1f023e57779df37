"""The runner: what is played, how it is scored, and that batches and chunks do not matter."""

import dataclasses
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_agent import QUICK, VARIANTS, unoptimised
from layouts import quick, slow
from scipy.stats import chisquare

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
    solve,
    solved_at,
    stochastic_chain,
)
from narl.tabular.mdp import evaluate
from narl.tabular.problem import make_problem, make_world
from narl.tabular.registry import agent_options, make_agent
from narl.tabular.run import exact_regret, greedy_policy, play, run_episode

RUN = sys.modules["narl.tabular.run"]  # the name narl.tabular.run itself is the function
SCORES = ("regret", "value", "trajectory_gap", "realised_return")
LEAST_P = 1e-4


@pytest.fixture
def briefly():
    """Compiles in half of the time; not for tests of the last bits."""
    with unoptimised():
        yield


def drawn(seed: int, num_states=5, num_actions=3, horizon=4, num_successors=None) -> TabularMDP:
    """A random MDP with negative and noisy rewards; few successors make it one with slots."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(num_states), (num_states, num_actions))
    if num_successors is not None:
        rank = rng.random(p.shape).argsort(axis=-1).argsort(axis=-1)
        p = np.where(rank < num_successors, p, 0)
        p /= p.sum(-1, keepdims=True)
    r = rng.normal(size=(num_states, num_actions))
    p0 = rng.dirichlet(np.ones(num_states))
    return make_mdp(p, r, p0, horizon, r_std=rng.random(r.shape))


def world_of(mdp: TabularMDP, slots: bool = True):
    problem = make_problem(mdp, 1)
    if not slots:
        problem = dataclasses.replace(problem, successors=None)
    return make_world(mdp, solve(mdp), problem)


def random_policy(seed: int, mdp: TabularMDP) -> np.ndarray:
    shape = mdp.horizon, mdp.num_states
    return np.random.default_rng(seed).integers(mdp.num_actions, size=shape)


def scripted(policies: np.ndarray, num_actions: int, value: float = 0.0, on_trace=None) -> Agent:
    """Plays policies[k], over and over, and claims that each is worth ``value``."""
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


def dreamer() -> Agent:
    """Draws Q and what it believes in afresh every episode: quick to compile, random throughout."""

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


DREAMER = dreamer()


def assert_same(one, other, rows=slice(None)):
    for name in SCORES:
        np.testing.assert_array_equal(getattr(one, name)[rows], getattr(other, name), err_msg=name)


# --- exact regret --------------------------------------------------------------------------

quick_regret = quick(exact_regret)


@pytest.mark.parametrize("sizes", [(5, 3, 4), (12, 2, 6)], ids=["dense", "slots"])
def test_exact_regret_is_what_evaluation_gives(sizes):
    num_states, num_actions, horizon = sizes
    num_successors = 3 if num_states == 12 else None
    for seed in range(20):
        mdp = drawn(seed, num_states, num_actions, horizon, num_successors)
        world, solution = world_of(mdp), solve(mdp)
        assert (world.p.successors is None) == (num_successors is None)
        policy = random_policy(seed, mdp)
        expected = solution.value - float(mdp.p0 @ evaluate(mdp, policy)[0])
        assert float(quick_regret(world, policy)) == pytest.approx(expected, rel=2e-6)


def test_the_regret_of_an_optimal_policy_is_exactly_zero():
    for seed in range(10):
        mdp = drawn(seed)
        assert float(quick_regret(world_of(mdp), solve(mdp).q_star.argmax(-1))) == 0.0
    for mdp in (riverswim(), deep_sea(10), stochastic_chain(7)):
        assert float(quick_regret(world_of(mdp), solve(mdp).q_star.argmax(-1))) == 0.0


def test_a_regret_far_below_the_values_rounding_is_still_exact():
    # Both actions earn 20; the second misses 1e-9 in the last step, with probability 1/2.
    r = np.array([[1000.0, 1000.0], [20.0, 20.0 - 1e-9]])
    p = np.zeros((2, 2, 2))
    p[0] = p[1] = [[0.5, 0.5], [0.5, 0.5]]
    mdp = make_mdp(p, r, [1, 0], horizon=2)
    policy = np.array([[0, 0], [0, 1]])
    assert float(quick_regret(world_of(mdp), policy)) == pytest.approx(0.5e-9, rel=1e-5)


# --- the policy that is played -------------------------------------------------------------


def test_the_greedy_policy_without_ties_is_the_argmax(briefly):
    q = np.random.default_rng(0).normal(size=(4, 5, 3)).astype(np.float32)
    for seed in range(5):
        policy = greedy_policy(jax.random.key(seed), jnp.asarray(q))
        np.testing.assert_array_equal(policy, q.argmax(-1))


def test_ties_are_broken_uniformly_and_independently():
    # A state per pattern: all four tied, two tied (not neighbours), three tied below zero.
    q = jnp.asarray([[[2.0, 2, 2, 2], [1, 0, 1, 0.5], [-3, -1, -1, -1]]])
    tied = [[0, 1, 2, 3], [0, 2], [1, 2, 3]]
    keys = jax.random.split(jax.random.key(0), 12_000)
    policies = np.asarray(quick(jax.vmap(greedy_policy, (0, None)))(keys, q))[:, 0]
    for s, actions in enumerate(tied):
        counts = np.bincount(policies[:, s], minlength=4)
        assert counts.sum() == counts[actions].sum()
        assert chisquare(counts[actions]).pvalue > LEAST_P
    together = np.bincount(2 * policies[:, 0] + (policies[:, 1] == 2), minlength=8)
    assert chisquare(together).pvalue > LEAST_P


def test_infinite_values_are_ties_as_well():
    q = jnp.asarray([[[jnp.inf, jnp.inf, 0.0]]])
    keys = jax.random.split(jax.random.key(1), 2000)
    policies = np.asarray(quick(jax.vmap(greedy_policy, (0, None)))(keys, q))
    counts = np.bincount(policies.ravel(), minlength=3)
    assert counts[2] == 0
    assert chisquare(counts[:2]).pvalue > LEAST_P


# The largest value, two that rounding may have parted from it, and one that is clearly smaller.
NEAR = {
    "positive": ([20.0, 20.0 - 1.5e-5, 19.99, 20.0 - 8e-6], [0, 1, 3]),
    "negative": ([-20.0 - 1.5e-5, -20.0, -20.0 - 8e-6, -20.01], [0, 1, 2]),
    "huge": ([1e29, 1e30, 1e30 * (1 - 5e-7), 1e30 * (1 - 1e-4)], [1, 2]),
    "tiny": ([1e-20, 1e-20 * (1 - 5e-7), 0.9e-20, -1.0], [0, 1]),
    "zero": ([0.0, -1e-3, 0.0, -1e-6], [0, 2]),
    "negative zero": ([-0.0, 0.0, -1e-6, -5.0], [0, 1]),
    "just beyond": ([1.0, 1.0 - 3e-6, 1.0 - 5e-7, 0.0], [0, 2]),
}


def test_values_that_rounding_may_have_parted_are_ties():
    q = np.array([[values for values, _ in NEAR.values()]], np.float32)
    for row, (_, tied) in zip(q[0], NEAR.values(), strict=True):
        assert (row[tied] != row.max()).any() or row.max() == 0  # not equal in float32
    keys = jax.random.split(jax.random.key(3), 12_000)
    policies = np.asarray(quick(jax.vmap(greedy_policy, (0, None)))(keys, jnp.asarray(q)))[:, 0]
    for s, (kind, (_, tied)) in enumerate(NEAR.items()):
        counts = np.bincount(policies[:, s], minlength=4)
        assert counts[tied].sum() == len(keys), kind
        assert chisquare(counts[tied]).pvalue > LEAST_P, kind


def test_a_tie_by_rounding_costs_at_most_a_millionth_of_the_value():
    rng = np.random.default_rng(4)
    q = rng.normal(size=(40, 50, 6)) * 10.0 ** rng.integers(-8, 9, size=(40, 50, 1))
    q[..., 1:4] = q[..., :1] * (1 + rng.normal(scale=1e-6, size=(40, 50, 3)))
    q = q.astype(np.float32)
    chosen = np.asarray(quick(greedy_policy)(jax.random.key(5), jnp.asarray(q)))
    best = q.max(-1).astype(float)
    value = np.take_along_axis(q, chosen[..., None], -1)[..., 0]
    assert (value != best).any()
    assert (value >= best - 1.2e-6 * np.abs(best)).all()


# --- playing -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def played():
    """20 000 episodes of one policy in an MDP with three successors per pair of twelve."""
    mdp = drawn(3, num_states=12, num_actions=2, horizon=6, num_successors=3)
    policy = random_policy(3, mdp)
    keys = jax.random.split(jax.random.key(5), 20_000)
    many = quick(jax.vmap(play, (0, None, None)))
    sparse, full = world_of(mdp), world_of(mdp, slots=False)
    assert sparse.p.successors is not None
    assert full.p.successors is None
    return mdp, policy, many(keys, sparse, policy), many(keys, full, policy)


def test_slots_and_the_dense_table_play_the_same_episodes(played):
    _, _, sparse, full = played
    for one, other in zip(sparse, full, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_first_states_follow_p0(played):
    mdp, _, episodes, _ = played
    counts = np.bincount(episodes.states[:, 0], minlength=12)
    assert chisquare(counts, mdp.p0 * counts.sum()).pvalue > LEAST_P


def test_transitions_follow_p(played):
    mdp, policy, episodes, _ = played
    states, actions = np.asarray(episodes.states), np.asarray(episodes.actions)
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
    assert min(pvalues) > LEAST_P / len(pvalues)


def test_rewards_have_their_mean_and_deviation(played):
    mdp, _, episodes, _ = played
    pair = np.asarray(episodes.states[:, :-1]), np.asarray(episodes.actions)
    z = (np.asarray(episodes.rewards) - mdp.r[pair]) / mdp.r_std[pair]
    num = z.size
    assert z.mean() == pytest.approx(0, abs=4 / np.sqrt(num))
    assert z.std() == pytest.approx(1, abs=4 / np.sqrt(2 * num))
    at_one_pair = z[(pair[0] == 0) & (pair[1] == pair[1][pair[0] == 0][0])]
    assert at_one_pair.mean() == pytest.approx(0, abs=4 / np.sqrt(at_one_pair.size))
    # Noise and moves are drawn apart: the return's variance is not inflated by a common draw.
    assert abs(np.corrcoef(z[:, 0], episodes.states[:, 1])[0, 1]) < 4 / np.sqrt(len(z))


def test_deterministic_rewards_are_exact():
    world, mdp = world_of(riverswim()), riverswim()
    episode = quick(play)(jax.random.key(0), world, jnp.ones((20, 6), int))
    pair = np.asarray(episode.states[:-1]), np.asarray(episode.actions)
    np.testing.assert_array_equal(episode.rewards, mdp.r[pair].astype(np.float32))


def awkward_rows(rng: np.random.Generator, num_states: int) -> np.ndarray:
    """Distributions with zeros anywhere and positive entries down to 1e-30."""
    p = rng.random((200, num_states)) ** rng.integers(1, 60, (200, num_states))
    p *= rng.random(p.shape) < rng.random((200, 1))
    p[p.sum(-1) == 0, rng.integers(num_states)] = 1
    p[:20] = np.eye(num_states)[rng.integers(num_states, size=20)]
    p[20:40, 1:] = 0
    p[20:40, 0], p[20:40, num_states // 2] = 1 - 1e-8, 1e-8
    return p / p.sum(-1, keepdims=True)


@pytest.mark.parametrize("num_states", [4, 9, 40])
def test_no_draw_ever_picks_a_move_of_probability_zero(num_states):
    rng = np.random.default_rng(num_states)
    rows = awkward_rows(rng, num_states)
    u = rng.integers(0, 2**23, 4000)
    u[:2] = 0, 2**23 - 1  # the ends of what a float32 uniform can be
    u = np.float32(u) / np.float32(2**23)
    assert u.max() == np.float32(1) - np.float32(2**-23)
    for first in range(0, len(rows), num_states):
        block = rows[first : first + num_states]
        if len(block) < num_states:
            break
        mdp = make_mdp(block[:, None], np.zeros((num_states, 1)), block[0], horizon=1)
        for slots in (True, False):
            world = world_of(mdp, slots)
            for s in range(num_states):
                thresholds = np.asarray(world.cumulative[s, 0])
                near = np.nextafter(thresholds, np.float32(0))
                draws = np.concatenate([u, thresholds, near])
                draws = draws[draws < 1]
                slot = (draws[:, None] >= thresholds).sum(-1)
                if world.p.successors is not None:
                    slot = np.asarray(world.p.successors)[s, 0, slot]
                assert (mdp.p[s, 0, slot] > 0).all()
        start = (u[:, None] >= np.asarray(world.p0_cumulative)).sum(-1)
        assert (mdp.p0[start] > 0).all()


# --- the scores of a run -------------------------------------------------------------------

NUM_POLICIES = 4


@pytest.fixture(scope="module")
def known():
    """Four known policies in turn, 2000 episodes with eight seeds."""
    mdp = drawn(11)
    policies = np.stack([random_policy(seed, mdp) for seed in range(NUM_POLICIES)])
    values = np.array([policy_value(mdp, policy) for policy in policies])
    with unoptimised():
        return mdp, values, run(scripted(policies, 3, value=1.25), mdp, 2000, range(8))


def test_the_trace_scores_the_executed_policy(known):
    mdp, values, trace = known
    played_values = np.tile(values, 500)
    assert trace.v_star == solve(mdp).value
    expected = np.broadcast_to(played_values, (8, 2000))
    np.testing.assert_allclose(trace.policy_value, expected, rtol=0, atol=2e-6)
    np.testing.assert_allclose(trace.regret, trace.v_star - expected, rtol=2e-6, atol=1e-7)
    assert (trace.value == 1.25).all()
    np.testing.assert_allclose(trace.optimism, trace.v_star - 1.25, rtol=1e-15)
    np.testing.assert_allclose(trace.estimation_error, 1.25 - trace.policy_value, rtol=1e-15)


def by_policy(array: np.ndarray) -> np.ndarray:
    return array.reshape(8, 500, NUM_POLICIES).transpose(2, 0, 1).reshape(NUM_POLICIES, -1)


def test_the_mean_trajectory_gap_is_the_regret(known):
    _, values, trace = known
    gaps = by_policy(trace.trajectory_gap)
    error = gaps.std(axis=1) / np.sqrt(gaps.shape[1])
    assert (np.abs(gaps.mean(axis=1) - (trace.v_star - values)) < 4 * error).all()
    assert (error < 0.1).all()
    assert (gaps >= 0).all()


def test_the_mean_return_is_the_value_of_the_policy(known):
    _, values, trace = known
    returns = by_policy(trace.realised_return)
    error = returns.std(axis=1) / np.sqrt(returns.shape[1])
    assert (np.abs(returns.mean(axis=1) - values) < 4 * error).all()
    assert (error < 0.1).all()


def test_without_marked_actions_nothing_is_bad(known):
    assert known[2].bad is None
    assert known[2].solved_episode is None


@pytest.mark.slow
@pytest.mark.parametrize("label", ["narl-ucrl", "psrl"])
def test_a_run_can_be_replayed_step_by_step(label, briefly):
    mdp, seed, num_episodes = riverswim(4, 5), 7, 4
    name, options = VARIANTS[label]
    trace = run(name, mdp, num_episodes, [seed], **options)
    problem = make_problem(mdp, num_episodes)
    world = make_world(mdp, solve(mdp), problem)
    agent = make_agent(name, agent_options(name, **options), problem)
    key_init, key_episodes = jax.random.split(jax.random.key(seed))
    state = agent.init(key_init, problem)
    for k in range(num_episodes):
        key = jax.random.fold_in(key_episodes, k)
        key_plan, key_ties, key_play, _ = jax.random.split(key, 4)
        plan, _ = agent.plan(key_plan, problem, state)
        policy = greedy_policy(key_ties, plan.q)
        episode = play(key_play, world, policy)
        pair = np.asarray(episode.states[:-1]), np.asarray(episode.actions)
        state, record = run_episode(key, agent, problem, world, state)
        assert trace.policy_value[0, k] == pytest.approx(
            policy_value(mdp, np.asarray(policy)), abs=1e-6
        )
        assert trace.value[0, k] == pytest.approx(float(plan.value), rel=1e-6)
        assert trace.realised_return[0, k] == pytest.approx(mdp.r[pair].sum(), abs=1e-6)
        gap = solve(mdp).gap[(np.arange(5), *pair)].sum()
        assert trace.trajectory_gap[0, k] == pytest.approx(gap, abs=1e-6)
        for name_of, score in zip(record._fields[:4], record[:4], strict=True):
            assert getattr(trace, name_of)[0, k] == pytest.approx(float(score), abs=1e-6)


# --- seeds, batches, chunks ----------------------------------------------------------------


@pytest.fixture(scope="module")
def eight():
    """Eight seeds, 23 episodes: a number that no chunk divides."""
    return run(DREAMER, riverswim(), 23, range(8))


def test_the_same_seeds_give_the_same_trace_to_the_last_bit(eight):
    again = run(DREAMER, riverswim(), 23, range(8))
    assert_same(again, eight)
    np.testing.assert_array_equal(again.seeds, np.arange(8))
    assert eight.regret.shape == (8, 23)


def test_the_order_of_seeds_does_not_matter(eight):
    order = [5, 2, 7, 0, 1, 6, 4, 3]
    assert_same(eight, run(DREAMER, riverswim(), 23, order), rows=order)


def test_different_seeds_differ(eight):
    for name in SCORES:
        assert len(np.unique(getattr(eight, name), axis=0)) == 8
    large = run(DREAMER, riverswim(), 23, range(2**32 - 8, 2**32))
    assert len(np.unique(np.concatenate([eight.value, large.value]), axis=0)) == 16


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [5, 23])
def test_chunks_do_not_matter(eight, chunk, monkeypatch):
    monkeypatch.setattr(RUN, "CHUNK", chunk)
    done = []
    trace = run(DREAMER, riverswim(), 23, range(8), progress=done.append)
    assert done == {5: [5, 10, 15, 20, 23], 23: [23]}[chunk]
    assert_same(eight, trace)


@pytest.mark.slow
def test_fewer_episodes_are_the_beginning_of_more(eight, monkeypatch):
    monkeypatch.setattr(RUN, "CHUNK", 5)
    short = run(DREAMER, riverswim(), 10, range(8))
    for name in SCORES:
        np.testing.assert_array_equal(getattr(short, name), getattr(eight, name)[:, :10])


@pytest.mark.slow
@pytest.mark.parametrize(
    "label",
    [
        *("narl-ucrl", "psrl"),
        *(slow("narl-ucrl theorem"), slow("narl-ucrl centred"), slow("narl-ucrl bootstrap")),
        *(slow("narl-ucbvi fake-reward"), slow("ucbvi theory"), slow("rlsvi theory")),
    ],
)
def test_a_user_who_has_switched_jax_to_64_bits_gets_the_same_trace(label, briefly):
    name, options = VARIANTS[label]
    mdp = riverswim(4, 5)
    plain = run(name, mdp, 12, range(2), **options)
    with jax.enable_x64(True):
        assert jnp.zeros(()).dtype == np.float64  # it is on
        wide = run(name, mdp, 12, range(2), **options)
        assert jnp.zeros(()).dtype == np.float64  # … and still on
    assert_same(wide, plain)


def assert_alone_as_in_a_batch(label: str, mdp: TabularMDP, num_episodes: int) -> None:
    """What holds of one seed alone and the same seed among eight.

    Ṽ_k is equal to the last bit, so that every decision is the same. The scores are sums that XLA
    orders by the number of seeds: they are equal up to float32 rounding, and nothing that
    follows depends on them.
    """
    name, options = VARIANTS[label]
    batch = run(name, mdp, num_episodes, range(8), **options)
    for seed in (0, 5):
        alone = run(name, mdp, num_episodes, [seed], **options)
        np.testing.assert_array_equal(alone.value[0], batch.value[seed])
        for score in ("regret", "trajectory_gap", "realised_return"):
            one, other = getattr(alone, score)[0], getattr(batch, score)[seed]
            np.testing.assert_allclose(one, other, rtol=2e-6, atol=2e-6, err_msg=score)


@pytest.mark.slow
@pytest.mark.parametrize("label", QUICK)
@pytest.mark.parametrize("env", ["riverswim", "deep_sea"])
def test_every_seed_alone_is_the_seed_in_a_batch(label, env):
    mdp, num_episodes = {"riverswim": (riverswim(), 60), "deep_sea": (deep_sea(10), 30)}[env]
    assert_alone_as_in_a_batch(label, mdp, num_episodes)


@pytest.mark.slow
def test_fresh_noise_per_stage_is_equal_up_to_rounding():
    # ‖Ṽ‖ is such a sum, and it does enter Ṽ: the one kind of noise without equal bits.
    options = {"noised": "both", "per_stage": True}
    batch = run("narl-ucrl", riverswim(), 30, range(8), **options)
    alone = run("narl-ucrl", riverswim(), 30, [5], **options)
    np.testing.assert_allclose(alone.value[0], batch.value[5], rtol=2e-6)


def test_a_second_run_of_the_same_shapes_compiles_nothing(monkeypatch, briefly):
    monkeypatch.setattr(RUN, "CHUNK", 10)
    mdp, traced = drawn(2), []
    agent = scripted(random_policy(0, mdp)[None], 3, on_trace=lambda: traced.append(1))
    run(agent, mdp, 20, range(3))
    once = len(traced)
    assert once >= 1
    run(agent, mdp, 20, range(3))
    run(agent, drawn(4), 20, range(5, 8))  # other numbers, same shapes
    run(agent, mdp, 40, range(3))  # more chunks of the same length
    assert len(traced) == once
    run(agent, mdp, 20, range(4))
    assert len(traced) > once


# --- an agent of one's own, and small problems ---------------------------------------------


def test_three_functions_are_an_agent(briefly):
    """Counts what it sees: states and keys reach the agent as promised."""

    def init(key, problem):
        return {"steps": jnp.zeros(()), "last": jnp.int32(-1), "key": jax.random.uniform(key)}

    def plan(key, problem, state):
        q = jnp.zeros((problem.horizon, problem.num_states, problem.num_actions))
        return Plan(q, state["steps"]), state

    def observe(key, problem, state, episode):
        assert episode.states.shape == (problem.horizon + 1,)
        return state | {"steps": state["steps"] + len(episode.rewards), "last": episode.states[-1]}

    trace = run(Agent(init, plan, observe), drawn(0), 5, [3, 4])
    np.testing.assert_array_equal(trace.value, [[0, 4, 8, 12, 16]] * 2)
    assert len(np.unique(trace.regret)) == 10  # all actions tie: another policy every time


def test_an_agent_without_a_state(briefly):
    agent = Agent(
        init=lambda key, problem: (),
        plan=lambda key, problem, state: (Plan(jnp.zeros((4, 5, 3)), jnp.float32(0)), state),
        observe=lambda key, problem, state, episode: state,
    )
    assert run(agent, drawn(0), 3, [0]).regret.shape == (1, 3)


SMALL = {
    "S=1": (1, 3, 2),
    "A=1": (4, 1, 3),
    "H=1": (3, 2, 1),
    "S=12": (12, 2, 3),
}


def assert_runs(label: str, sizes: tuple[int, int, int]) -> None:
    num_states, num_actions, horizon = sizes
    mdp = random_mdp(num_states, num_actions, horizon, reward_std=0.5, seed=1)
    if num_states == 12:
        mdp = drawn(1, *sizes, num_successors=2)
        assert make_problem(mdp, 1).successors is not None
    name, options = VARIANTS[label]
    with unoptimised():
        trace = run(name, mdp, 12, range(2), **options)
    for score in SCORES:
        assert np.isfinite(getattr(trace, score)).all()
    assert (trace.regret >= 0).all()
    if num_actions == 1:
        assert (trace.regret == 0).all()
    else:
        assert len(np.unique(trace.regret)) > 1
    gap_total = trace.trajectory_gap.sum()
    assert gap_total == 0 if num_actions == 1 else gap_total > 0


@pytest.mark.slow
@pytest.mark.parametrize("label", ["narl-ucrl", "narl-ucrl bootstrap"])
def test_the_smallest_problem(label):
    assert_runs(label, (1, 1, 1))


@pytest.mark.slow
@pytest.mark.parametrize("label", VARIANTS)
def test_the_smallest_problem_of_every_kind(label):
    assert_runs(label, (1, 1, 1))


@pytest.mark.slow
@pytest.mark.parametrize("sizes", SMALL.values(), ids=SMALL)
@pytest.mark.parametrize("label", QUICK)
def test_small_problems_with_noisy_rewards(label, sizes):
    assert_runs(label, sizes)


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
def test_solved_by_hand(bad, rule, episode):
    assert solved_at(np.array(bad, dtype=float), *rule) == episode


def deep_sea_script(mdp: TabularMDP, num_bad: int) -> Agent:
    """Takes the left move on the diagonal in the first episodes, then plays the best policy."""
    best = solve(mdp).q_star.argmax(-1)
    bad = np.broadcast_to(mdp.bad.argmax(-1), best.shape)
    q_best, q_bad = (jax.nn.one_hot(jnp.asarray(policy), 2) for policy in (best, bad))

    def plan(key, problem, state):
        return Plan(jnp.where(state < num_bad, q_bad, q_best), jnp.float32(0)), state

    return scripted(best[None], 2)._replace(plan=plan)


def test_a_run_stops_once_every_seed_has_solved_deep_sea(monkeypatch, briefly):
    monkeypatch.setattr(RUN, "CHUNK", 10)
    mdp, done = deep_sea(5), []
    agent = deep_sea_script(mdp, num_bad=20)
    trace = run(agent, mdp, 1000, range(2), until_solved=True, progress=done.append)
    assert done == [10, 20, 30]
    assert trace.regret.shape == (2, 30)
    np.testing.assert_array_equal(trace.bad, [[1] * 20 + [0] * 10] * 2)
    assert trace.solved_episode == [23, 23]
    assert (trace.regret[:, 20:] == 0).all()


def test_a_run_that_solves_nothing_goes_to_its_end(monkeypatch, briefly):
    monkeypatch.setattr(RUN, "CHUNK", 10)
    mdp = deep_sea(5)
    trace = run(deep_sea_script(mdp, num_bad=1000), mdp, 20, range(2), until_solved=True)
    assert trace.regret.shape == (2, 20)
    assert trace.solved_episode == [None, None]


@pytest.mark.slow
def test_the_stochastic_version_has_bsuites_other_rule(monkeypatch, briefly):
    monkeypatch.setattr(RUN, "CHUNK", 30)
    mdp = deep_sea(4, stochastic=True)
    trace = run(deep_sea_script(mdp, num_bad=0), mdp, 1000, range(2), until_solved=True)
    # Not before 100 episodes, and 1000 episodes make 34 chunks of 30.
    assert trace.solved_episode == [100, 100]
    assert trace.regret.shape == (2, 120)


# --- mistakes ------------------------------------------------------------------------------


def refusal(*args, **options) -> str:
    with pytest.raises(InputError) as caught:
        run(*args, **options)
    line = str(caught.value)
    assert "\n" not in line
    return line


@pytest.mark.parametrize(
    ("field", "args", "options", "says"),
    [
        ("agent", ("narl-ucr", riverswim(), 1), {}, "'narl-ucrl'"),
        ("agent", (3, riverswim(), 1), {}, "a name or an Agent"),
        ("mdp", ("psrl", "riverswim", 1), {}, "TabularMDP"),
        ("episodes", ("psrl", riverswim(), 0), {}, ">= 1"),
        ("episodes", ("psrl", riverswim(), -5), {}, ">= 1"),
        ("episodes", ("psrl", riverswim(), 2.5), {}, "whole number"),
        ("episodes", ("psrl", riverswim(), None), {}, "whole number"),
        ("episodes", ("psrl", riverswim(), float("nan")), {}, "whole number"),
        ("episodes", ("psrl", riverswim(), True), {}, "whole number"),
        ("seeds", ("psrl", riverswim(), 1, []), {}, "at least one"),
        ("seeds", ("psrl", riverswim(), 1, [0, -1]), {}, "0..4294967295"),
        ("seeds", ("psrl", riverswim(), 1, [2**32]), {}, "0..4294967295"),
        ("seeds", ("psrl", riverswim(), 1, 5), {}, "such as [0, 1]"),
        ("seeds", ("psrl", riverswim(), 1, "0:5"), {}, "such as [0, 1]"),
        ("seeds", ("psrl", riverswim(), 1, [1.5]), {}, "whole number"),
        ("until_solved", ("psrl", riverswim(), 1), {"until_solved": True}, "deep_sea"),
        ("c", ("narl-ucrl", riverswim(), 1), {"c": -1}, ">= 0"),
        ("members", ("psrl", riverswim(), 1), {"members": 3}, "psrl"),
        ("preset", ("psrl", riverswim(), 1), {"preset": "papr"}, "'paper'"),
        ("options", (scripted(np.zeros((1, 20, 6), int), 2), riverswim(), 1), {"c": 1}, "own"),
    ],
)
def test_a_mistake_is_named_in_one_line(field, args, options, says):
    line = refusal(*args, **options)
    assert line.startswith(f"{field}: ")
    assert says in line
