"""The runner: scores of a run, independence of batches and chunks, and the end once solved."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from agent_data import noisy_mdp, random_policy, slow
from variants import QUICK, VARIANTS, unoptimised

from narl.errors import InputError
from narl.tabular import (
    Agent,
    Plan,
    TabularMDP,
    deep_sea,
    policy_value,
    random_mdp,
    riverswim,
    run,
    runner,
    solve,
    solved_at,
)
from narl.tabular.problem import make_problem

SCORES = ("regret", "value", "trajectory_gap", "realised_return")


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
    *(("riverswim", name) for name in ("narl-ucrl", "narl-ucrl bootstrap", "narl-ucbvi", "rlsvi")),
    *(("deep_sea", name) for name in ("ucrl2", "opsrl")),
    ("riverswim", "narl-ucrl per stage"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("env", "label"), SEED_CASES)
def test_seed_alone_is_the_seed_in_a_batch(env, label):
    """Ṽ_k is equal to the last bit, so that every decision is the same.

    The scores are sums that XLA orders by the number of seeds: they are equal up to float32
    rounding, and no later episode depends on them. With new noise per stage ‖Ṽ‖ is such a sum
    and enters Ṽ: the one kind of noise without equal bits.
    """
    mdp, num_episodes = {"riverswim": (riverswim(), 40), "deep_sea": (deep_sea(6), 20)}[env]
    name, options = VARIANTS[label]
    batch = run(name, mdp, num_episodes, range(8), **options)
    alone = run(name, mdp, num_episodes, [5], **options)
    tolerance = 2e-6 if "per stage" in label else 0
    np.testing.assert_allclose(alone.value[0], batch.value[5], rtol=tolerance)
    for score in ("regret", "trajectory_gap", "realised_return"):
        actual, expected = getattr(alone, score)[0], getattr(batch, score)[5]
        np.testing.assert_allclose(actual, expected, rtol=2e-6, atol=2e-6, err_msg=score)


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
    *((label, (1, 1, 1)) for label in (*QUICK, "narl-ucrl simplex", "narl-ucrl per stage")),
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
        ([1] * 9 + [0], (), None),  # 9/10 is not below .9
        ([1] * 20 + [0] * 5, (), 23),  # 20/22 = .909, 20/23 = .87
        ([0] + [1] * 50, (), 1),  # solved once is solved
        ([1, 0, 0, 0], (0.8, 3), 3),
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
        ("agent", (3, riverswim(), 1), {}, "a name or an Agent"),
        ("mdp", ("psrl", 3, 1), {}, "TabularMDP"),
        ("agent", ("riverswim", "psrl", 1), {}, "they are swapped"),
        ("env", ("psrl", "riverswm", 1), {}, "did you mean 'riverswim'"),
        ("until_solved", ("psrl", riverswim(), 1), {"until_solved": True}, "deep_sea"),
        ("c", ("narl-ucrl", riverswim(), 1), {"c": -1}, "0"),
        ("options", (RANDOM_AGENT, riverswim(), 1), {"c": 1}, "own"),
        ("env", ("psrl", deep_sea(200), 1), {}, "3.2e+09 numbers per seed"),
        ("env", ("ucrl2-tabularl", deep_sea(200), 1), {}, "3.2e+09 numbers per seed"),
    ],
)
def test_run_refuses_wrong_input(field, args, options, valid):
    with pytest.raises(InputError) as caught:
        run(*args, **options)
    line = str(caught.value)
    assert line.startswith(f"{field}: ")
    assert valid in line
    assert "\n" not in line
