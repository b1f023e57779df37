"""NARL's agents: the noise at given counts, recovered from the plans."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from agent_data import assert_plan, f32, fix_samples, make_data, quick, slow
from scipy.stats import binom, chisquare, kstest, norm

from narl.tabular import narl_ucrl
from narl.tabular.agent_registry import make_agent
from narl.tabular.checked_options import agent_options
from narl.tabular.counts import Counts, estimate_model
from narl.tabular.envs import riverswim
from narl.tabular.mdp import Episode
from narl.tabular.narl_ucbvi import FakeState, add_fakes, count_heads
from narl.tabular.narl_ucrl import MemberState
from narl.tabular.planning import steps_to_go
from narl.tabular.problem import Problem, make_problem
from narl.tabular.transitions import dense

MIN_PVALUE = 1e-3
VISITS = np.array([[0.0, 1.0], [4.0, 100.0], [7.0, 0.0]])
NUM_KEYS = 3000


def small_data(r_mean=0.4, horizon=2, num_episodes=50):
    """Return data of three states in which every visit of a pair led to the next state."""
    transitions = VISITS[..., None] * np.roll(np.eye(3), 1, axis=1)[:, None, :]
    return make_data(
        counts=(VISITS, r_mean * VISITS, transitions),
        shape=(3, 2, horizon),
        num_episodes=num_episodes,
    )


def agent_of(name, problem, **options):
    return make_agent(agent_options(name, **options), problem)


def plans(agent, problem, state, num_keys=NUM_KEYS):
    """Return q over many keys, [keys, H, S, A]."""
    keys = jax.random.split(jax.random.key(3), num_keys)
    many = quick(jax.vmap(lambda *args: agent.plan(*args)[0].q, in_axes=(0, None, None)))
    return np.asarray(many(keys, problem, state), dtype=float)


def assert_largest_of_normals(x, sigma, members):
    """Check that x is the maximum of ``members`` draws of N(0, σ²)."""
    assert kstest(x / sigma, lambda t: norm.cdf(t) ** members).pvalue > MIN_PVALUE


def terms_of(q, data):
    """Return terms A and B of Eq. 2 for a horizon of 2, and ‖Ṽ^1‖, from the plans."""
    term_a = q[:, 1] - data.r_hat
    v = q[:, 1].max(-1)
    term_b = q[:, 0] - q[:, 1] - np.einsum("sat,nt->nsa", data.p_hat, v)
    return term_a, term_b, np.linalg.norm(v, axis=-1)


RAW = {"clip": "none", "clip_reward": False}


def gaussian_sigma(c):
    return np.where(VISITS == 0, 1, np.sqrt(c / np.maximum(VISITS, 1)))


def theorem_sigmas(epsilon, num_episodes, horizon):
    """Return 2β_r(N, δ/(2SA)) and 2β_P(N, δ/(SA)) with δ = ε/(4T), as printed; 1 where N = 0."""
    delta = epsilon / (4 * num_episodes * horizon)
    n = np.maximum(VISITS, 1)
    sigma_r = 2 * np.sqrt(np.log(2 * np.sqrt(n + 1) * 12 / delta) / n)
    sigma_p = 2 * np.sqrt(4 * np.log(np.sqrt(n + 1) * 2**3 * 6 / delta) / n)
    return np.where(VISITS == 0, 1, sigma_r), np.where(VISITS == 0, 1, sigma_p)


@pytest.mark.parametrize("noise", ["gaussian", slow("theorem")])
def test_reward_and_dynamics_noise_have_their_scale_and_number(noise):
    data = small_data()
    problem, stats = data.layouts[0]
    numbers = {"members_r": 3, "members_p": 7, "noised": "both"}
    scale = {"c": 0.5} if noise == "gaussian" else {}
    agent = agent_of("narl-ucrl", problem, noise=noise, **scale, **numbers, **RAW)
    q = plans(agent, problem, stats)
    if noise == "theorem":
        sigma_r, sigma_p = theorem_sigmas(0.1, 50, 2)
    else:
        sigma_r = sigma_p = gaussian_sigma(0.5)
    term_a, term_b, length = terms_of(q, data)
    for s, a in np.ndindex(VISITS.shape):
        assert_largest_of_normals(term_a[:, s, a], sigma_r[s, a], 3)
        assert_largest_of_normals(term_b[:, s, a] / length, sigma_p[s, a], 7)
    assert abs(np.corrcoef(term_a[:, 1, 0], term_b[:, 1, 0] / length)[0, 1]) < 0.1


@pytest.mark.parametrize(
    ("noise", "noised"),
    [
        ("gaussian", "dynamics"),
        ("bootstrap", "reward"),
        slow("bootstrap", "dynamics"),
        slow("dirichlet", "reward"),
        slow("dirichlet", "dynamics"),
    ],
)
def test_noised_selects_the_parts_with_noise(noise, noised):
    data = small_data()
    problem, stats = data.layouts[0]
    agent = agent_of("narl-ucrl", problem, noise=noise, noised=noised, members=3, **RAW)
    state = stats
    if noise == "bootstrap":
        state = MemberState(stats, jax.tree.map(lambda x: jnp.stack([0 * x] * 3), stats))
    term_a, term_b, _ = terms_of(plans(agent, problem, state, num_keys=20), data)
    if noised == "reward":
        np.testing.assert_allclose(term_b, 0, atol=1e-5)
        assert (term_a.std(0) > 0.001).all()
    else:
        np.testing.assert_allclose(term_a, 0, atol=1e-5)
        # Without reward noise Ṽ^1 is (.4, .4, .4): its mean under a distribution is no surprise.
        assert (term_b.std(0) > 0.001).any() or noise == "dirichlet"


def test_dirichlet_noise_is_the_posterior_sample(monkeypatch):
    data = small_data(horizon=3)
    problem, stats = data.layouts[0]
    rng = np.random.default_rng(0)
    r = rng.uniform(0, 1, (2, 3, 2))
    p = np.stack([reference.random_kernel(rng, 3, 2) for _ in range(5)])
    arguments = fix_samples(monkeypatch, narl_ucrl, r, p)
    options = agent_options("narl-ucrl", noise="dirichlet", members_r=2, members_p=5, **RAW)
    agent = narl_ucrl.narl_ucrl(narl_ucrl.resolve(options, problem))
    plan, _ = quick(agent.plan)(jax.random.key(0), problem, stats)
    assert sorted(arguments, key=len) == [(1.0, 5), (0.0, 1.0, 1.0, 2)]
    xi_r, xi_p = r - data.r_hat, p - data.p_hat
    expected = reference.naevi(data.p_hat, data.r_hat, xi_r, xi_p, data.p0, 3, "none", False)
    assert_plan(plan, expected)


def test_number_of_members_is_that_of_theorem_1():
    problem, _ = small_data().layouts[0]
    delta = 0.1 / (4 * 50 * 2)
    options = narl_ucrl.resolve(agent_options("narl-ucrl", noise="theorem"), problem)
    assert options.members_r == math.ceil(math.log(2 * 3 * 2 * 2 / delta) / 3)
    assert options.members_p == math.ceil(3 + math.log(2 * 2 * 2 / delta) / 3)
    chosen = agent_options("narl-ucrl", noise="theorem", members_r=2)
    assert narl_ucrl.resolve(chosen, problem).members_r == 2
    corrected = agent_options("narl-ucrl", noise="theorem", corrected=True)
    assert narl_ucrl.resolve(corrected, problem).members_r > options.members_r
    both = agent_options("narl-ucrl", noised="both", members=6, members_p=4)
    plain = narl_ucrl.resolve(both, problem)
    assert (plain.members_r, plain.members_p) == (6, 4)


# --- bootstrap --------------------------------------------------------------------------------


def split_members(stats, members, seed=0):
    """Return members with random halves of the data, each with some of every visited pair."""
    rng = np.random.default_rng(seed)
    table = np.asarray(stats.transitions).astype(int)
    halves = rng.binomial(np.broadcast_to(table, (members, *table.shape)), 0.5)
    halves = np.where(halves.sum(-1, keepdims=True) > 0, halves, table)
    visits = halves.sum(-1)
    rewards = rng.uniform(-0.5, 1.5, visits.shape)
    return Counts(f32(visits), f32(visits * rewards), f32(halves)), rewards


def test_bootstrap_members_replace_the_estimates():
    shape = (12, 2, 4)
    rng = np.random.default_rng(1)
    counts = reference.random_counts(rng, reference.random_kernel(rng, *shape[:2], 3), unseen=0)
    data = make_data(counts=counts, shape=shape)
    problem, stats = data.layouts[1]
    members, r_members = split_members(stats, 3)
    agent = agent_of("narl-ucrl", problem, noise="bootstrap", members=3, **RAW)
    plan, _ = quick(agent.plan)(jax.random.key(0), problem, MemberState(stats, members))
    shares = quick(lambda *args: dense(estimate_model(*args)[1], 12))(members, problem)
    p_members = np.asarray(shares, dtype=float)
    assert np.abs(p_members - data.p_hat).max() > 0.1
    xi_r, xi_p = r_members - data.r_hat, p_members - data.p_hat
    args = data.p_hat, data.r_hat, xi_r, xi_p, data.p0, 4, "none", False
    assert_plan(plan, reference.naevi(*args))


def bootstrap_state(stats, members, without=()):
    """Return members with all of the data, except those of ``without``, which have none."""
    keep = np.array([m not in without for m in range(members)], dtype=np.float32)

    def share(x):
        return f32(np.asarray(x) * keep.reshape(-1, *[1] * x.ndim))

    return MemberState(stats, jax.tree.map(share, stats))


def test_bootstrap_member_without_data_has_unit_noise():
    data = small_data()
    problem, stats = data.layouts[1]
    state = bootstrap_state(stats, 1, without=[0])
    agent = agent_of("narl-ucrl", problem, noise="bootstrap", members=1, **RAW)
    q = plans(agent, problem, state)
    # r̃ = N(0,1), and ⟨P̃, Ṽ⟩ = mean(Ṽ) + N(0, ‖Ṽ‖²), whatever r̂ and P̂ are.
    v = q[:, 1].max(-1)
    future = q[:, 0] - q[:, 1] - v.mean(-1)[:, None, None]
    for s, a in np.ndindex(VISITS.shape):
        assert_largest_of_normals(q[:, 1, s, a], 1, 1)
        assert_largest_of_normals(future[:, s, a] / np.linalg.norm(v, axis=-1), 1, 1)


@pytest.mark.parametrize(("rule", "reward"), [("one", 1.0), slow("none", 0.0)])
def test_bootstrap_member_without_data_follows_other_rules(rule, reward):
    data = small_data()
    problem, stats = data.layouts[0]
    agent = agent_of("narl-ucrl", problem, noise="bootstrap", members=1, empty=rule, **RAW)
    q = plans(agent, problem, bootstrap_state(stats, 1, without=[0]), num_keys=3)
    np.testing.assert_allclose(q[:, 1], reward, atol=1e-6)
    np.testing.assert_allclose(q[:, 0], 2 * reward, atol=1e-6)  # P̂ is uniform


@pytest.mark.parametrize("layout", [0, 1], ids=["dense", "slots"])
def test_member_with_prior_adds_one_random_transition(layout):
    data = small_data()
    problem, stats = data.layouts[layout]
    agent = agent_of("narl-ucrl", problem, noise="bootstrap-prior", members=1, **RAW)
    q = plans(agent, problem, bootstrap_state(stats, 1))
    total = VISITS + 1
    # r̃ = (Σr + N(0,1))/(N + 1), in pairs without data as well.
    reward = q[:, 1] * total - data.r_hat * VISITS
    # E_P̃[Ṽ] = (N·Ṽ(next) + Ṽ(random state))/(N + 1): what the last summand was.
    v = q[:, 1].max(-1)
    future = (q[:, 0] - q[:, 1]) * total - np.einsum("sat,nt->nsa", data.p_hat, v) * VISITS
    for s, a in np.argwhere(VISITS > 0):
        assert_largest_of_normals(reward[:, s, a], 1, 1)
        distance = np.abs(future[:, s, a, None] - v)
        assert np.median(distance.min(-1)) < 1e-4
        drawn = np.bincount(distance.argmin(-1), minlength=3)
        assert chisquare(drawn).pvalue > MIN_PVALUE
    assert_largest_of_normals(reward[:, 0, 0], 1, 1)


@pytest.mark.parametrize("noised", ["reward", slow("dynamics")])
def test_prior_is_on_the_noised_parts_only(noised):
    data = small_data()
    problem, stats = data.layouts[0]
    options = {"noise": "bootstrap-prior", "noised": noised, "members": 2}
    agent = agent_of("narl-ucrl", problem, **options, **RAW)
    q = plans(agent, problem, bootstrap_state(stats, 2), num_keys=20)
    term_a, term_b, _ = terms_of(q, data)
    assert (term_a.std(0) > 0.001).all() == (noised == "reward")
    if noised == "reward":
        np.testing.assert_allclose(term_b, 0, atol=1e-5)
    else:
        np.testing.assert_allclose(term_a, 0, atol=1e-5)


def test_members_with_prior_weight_the_data_by_exp_1():
    problem = make_problem(riverswim(horizon=2), 100)
    agent = agent_of("narl-ucrl", problem, noise="bootstrap-prior", members=2000)
    episode = Episode(jnp.array([0, 1, 2]), jnp.array([1, 1]), f32([0, 3]))
    state = agent.init(jax.random.key(0), problem)
    state = quick(agent.observe)(jax.random.key(1), problem, state, episode)
    weights = np.asarray(state.members.visits)
    assert kstest(weights[:, 0, 1], "expon").pvalue > MIN_PVALUE
    assert kstest(weights[:, 1, 1], "expon").pvalue > MIN_PVALUE
    assert abs(np.corrcoef(weights[:, 0, 1], weights[:, 1, 1])[0, 1]) < 0.1
    np.testing.assert_allclose(state.members.reward_sum[:, 1, 1], 3 * weights[:, 1, 1], rtol=1e-6)
    np.testing.assert_array_equal(state.members.transitions[:, 0, 1, 1], weights[:, 0, 1])
    assert state.stats.visits[0, 1] == 1


def test_bootstrap_members_see_half_of_the_data():
    mdp = riverswim(horizon=8)
    problem = make_problem(mdp, 100)
    agent = agent_of("narl-ucrl", problem, noise="bootstrap", members=20)
    episode = Episode(
        jnp.array([0, 1, 2, 1, 2, 3, 2, 1, 0]),
        jnp.array([1, 1, 0, 1, 1, 0, 0, 0]),
        f32(np.arange(8)),
    )

    @quick
    def observe_many(state, keys):
        return jax.lax.scan(
            lambda state, key: (agent.observe(key, problem, state, episode), None), state, keys
        )[0]

    state = agent.init(jax.random.key(0), problem)
    assert state.members.visits.shape == (20, 6, 2)
    state = observe_many(state, jax.random.split(jax.random.key(1), 250))
    whole, members = np.asarray(state.stats.visits), np.asarray(state.members.visits)
    assert whole.sum() == 2000
    seen = whole > 0
    assert not members[:, ~seen].any()
    # Binomial(N, ½) per member and pair.
    z = (members[:, seen] - whole[seen] / 2) / np.sqrt(whole[seen] / 4)
    assert np.abs(z).max() < 4.5
    assert (z**2).mean() == pytest.approx(1, abs=5 * math.sqrt(2 / z.size))
    assert np.abs(np.corrcoef(z)).sum() < 20 + 20 * 19 * 0.6
    np.testing.assert_array_equal(np.asarray(state.members.transitions).sum(-1), members)
    # One coin per transition: a member has the reward of just the moves it has. Pair (2, 0) moves
    # to 1 with reward 2 at step 2 and with reward 6 at step 6.
    rewards = np.asarray(state.members.reward_sum)[:, 3, 0]
    np.testing.assert_allclose(rewards, 5 * members[:, 3, 0])
    split = np.asarray(state.members.reward_sum)[:, 2, 0]
    assert (2 * members[:, 2, 0] <= split).all()
    assert (split <= 6 * members[:, 2, 0]).all()
    assert len(np.unique(split)) > 10


# --- UCBVI ------------------------------------------------------------------------------------


def ucbvi_state(agent, problem, stats):
    return agent.init(jax.random.key(9), problem)._replace(stats=stats)


@pytest.mark.parametrize(("noise", "members"), [("gaussian", 3), slow("theorem", None)])
def test_ucbvi_noise_is_on_the_scale_of_the_values(noise, members):
    data = small_data(r_mean=-1000.0, horizon=3)
    problem, stats = data.layouts[0]
    scale = {"c": 0.5} if noise == "gaussian" else {}
    agent = agent_of("narl-ucbvi", problem, noise=noise, members=members, **scale)
    q = plans(agent, problem, ucbvi_state(agent, problem, stats))
    delta = 0.1 / (4 * 50 * 3)
    number = members or math.ceil(math.log(2 * 3 * 2 * 3 / delta) / 3)
    for s, a in zip(*np.nonzero(VISITS), strict=True):
        n = VISITS[s, a]
        sigma = 3 * math.sqrt(0.5 / n)
        if noise == "theorem":
            sigma = 2 * 3 * math.sqrt(math.log(2 * math.sqrt(n + 1) * 12 / delta) / n)
        assert_largest_of_normals(q[:, 2, s, a] + 1000, sigma, number)
    # An unvisited pair is worth H−h, in every stage.
    np.testing.assert_array_equal(
        q[:, :, VISITS == 0], np.broadcast_to([[3.0], [2], [1]], (NUM_KEYS, 3, 2))
    )


def test_ucbvi_is_capped_at_the_steps_to_go():
    data = small_data(r_mean=5.0, horizon=3)
    problem, stats = data.layouts[1]
    agent = agent_of("narl-ucbvi", problem, c=0.0)
    before = ucbvi_state(agent, problem, stats)
    plan, state = quick(agent.plan)(jax.random.key(0), problem, before)
    np.testing.assert_array_equal(plan.q, steps_to_go(3, 3, 2))
    assert plan.value == pytest.approx(3)
    np.testing.assert_array_equal(state.q, plan.q)


@pytest.mark.parametrize("running_min", [True, False])
def test_ucbvi_q_rises_only_without_the_running_minimum(running_min):
    data = small_data(r_mean=-1.0, horizon=3)
    problem, stats = data.layouts[1]
    agent = agent_of("narl-ucbvi", problem, c=0.0, running_min=running_min)
    make_plan = quick(agent.plan)
    first, state = make_plan(jax.random.key(0), problem, ucbvi_state(agent, problem, stats))
    ladder = steps_to_go(3, 3, 2)
    assert (first.q < ladder).any()
    np.testing.assert_array_equal(state.q, first.q if running_min else ladder)
    _, better = small_data(r_mean=0.5, horizon=3).layouts[1]
    second, _ = make_plan(jax.random.key(1), problem, state._replace(stats=better))
    assert (second.q >= first.q).all()
    assert (second.q > first.q).any() != running_min


# --- fake rewards -----------------------------------------------------------------------------


@pytest.mark.parametrize("num_coins", [32, 45])
def test_count_heads_is_binomial(num_coins):
    heads = np.asarray(
        quick(lambda key: count_heads(key, num_coins, (50, 400)))(jax.random.key(num_coins))
    )
    assert heads.shape == (50, 400)
    assert heads.min() >= 0
    assert heads.max() <= num_coins
    law = binom(num_coins, 0.5)
    low, high = law.ppf(2e-3), law.ppf(1 - 2e-3)
    inside = np.arange(low, high + 1)
    observed = [
        (heads <= low).sum(),
        *[(heads == k).sum() for k in inside[1:-1]],
        (heads >= high).sum(),
    ]
    expected = [law.cdf(low), *law.pmf(inside[1:-1]), law.sf(high - 1)]
    assert chisquare(observed, np.array(expected) * heads.size).pvalue > MIN_PVALUE
    flat = (heads - num_coins / 2).ravel()
    assert abs(np.corrcoef(flat[:-1], flat[1:])[0, 1]) < 5 / math.sqrt(flat.size)


def test_fake_rewards_of_each_sign_are_independent():
    zero = jnp.zeros((4000, 2, 1))
    add = quick(add_fakes, static_argnums=1)
    fake = add(jax.random.key(0), 8, FakeState(zero, zero), jnp.float32(1.0))
    selected, total = np.asarray(fake[0]).ravel(), np.asarray(fake[1]).ravel()
    plus, minus = (selected + total) / 2, (selected - total) / 2
    for heads in (plus, minus):
        counts = np.bincount(heads.astype(int), minlength=9)
        assert chisquare(counts, binom(8, 0.5).pmf(np.arange(9)) * 8000).pvalue > MIN_PVALUE
    assert abs(np.corrcoef(plus, minus)[0, 1]) < 5 / math.sqrt(8000)


def one_pair(num_visits):
    """Return the problem of one state, one action and one step."""
    return Problem(jnp.ones(1), jnp.float32(num_visits), None, 1, 1, 1)


@functools.cache
def fake_state(fakes, num_visits, reward, members):
    """Return the state after visits with the same reward; each member's selection and mean."""
    problem = one_pair(num_visits)
    agent = agent_of("narl-ucbvi", problem, noise="fake-reward", fakes=fakes, members=members)
    episode = Episode(jnp.array([0, 0]), jnp.array([0]), f32([reward]))

    @quick
    def visited(key_init, keys):
        return jax.lax.scan(
            lambda state, key: (agent.observe(key, problem, state, episode), None),
            agent.init(key_init, problem),
            keys,
        )[0]

    state = visited(jax.random.key(5), jax.random.split(jax.random.key(6), num_visits))
    selected, total = (np.asarray(x, dtype=float)[:, 0, 0] for x in state.fake)
    return state, selected, total / np.maximum(selected, 1)


@pytest.mark.parametrize(
    ("n", "members", "rescaled"), [(4000, 40, True), (4000, 40, False), slow(3, 20000, True)]
)
def test_fake_rewards_have_the_right_mean_only_if_rescaled(n, members, rescaled):
    fakes, reward = 2, 0.5
    state, _, means = fake_state(fakes, n, reward, members)
    problem = one_pair(n)
    options = {"fakes": fakes, "members": members, "rescaled": rescaled}
    agent = agent_of("narl-ucbvi", problem, noise="fake-reward", **options)
    plan, _ = quick(agent.plan)(jax.random.key(0), problem, state)
    # n real rewards among 2·M_B fakes per visit and 2·M_B from the start.
    scale = (n + 2 * fakes * (n + 1)) / n if rescaled else 1
    assert float(plan.q[0, 0, 0]) == pytest.approx(min(scale * means.max(), 1), abs=1e-4)
    error = 5 * scale * means.std() / math.sqrt(members)
    assert (scale * means).mean() == pytest.approx(reward if rescaled else reward / 5, abs=error)


def test_number_of_fakes_is_that_of_theorem_3():
    problem = make_problem(riverswim(), 100)
    agent = agent_of("narl-ucbvi", problem, noise="fake-reward", members=500)
    selected = np.asarray(quick(agent.init)(jax.random.key(0), problem).fake[0])
    fakes = math.ceil(20 * math.log(2000))
    assert selected.shape == (500, 6, 2)
    assert selected.mean() == pytest.approx(fakes, abs=5 * math.sqrt(fakes / 2 / selected.size))
    assert selected.var() == pytest.approx(fakes / 2, rel=0.1)
