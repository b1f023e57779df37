"""The baselines of Table 1: backups against loops in NumPy, noise against its distribution."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from agent_data import assert_plan, f32, fix_samples, make_data, quick, slow
from scipy.stats import kstest

from narl.tabular import baselines
from narl.tabular.baselines import CountState
from narl.tabular.counts import estimate_model
from narl.tabular.envs import riverswim
from narl.tabular.mdp import Episode
from narl.tabular.options import Greedy, Opsrl, Psrl, Rlsvi, Ucbvi, Ucrl2, Ucrl2Tabularl
from narl.tabular.problem import make_problem

MIN_PVALUE = 1e-3


def plan(agent, problem, stats, episode=7.0, seed=0):
    state = CountState(stats, jnp.float32(episode))
    result, after = quick(agent.plan)(jax.random.key(seed), problem, state)
    # Planning does not change the state.
    jax.tree.map(np.testing.assert_array_equal, after, state)
    return result


def test_greedy_plans_with_the_estimates():
    data = make_data(1)
    expected = reference.value_iteration(data.p_hat, data.r_hat, data.p0, 4)
    for problem, stats in data.layouts:
        assert_plan(plan(baselines.greedy(Greedy()), problem, stats), expected)


def ucrl_widths(data, episode, delta, scale=1.0):
    """Return √(4 ln(2SA(k+1)/δ)/n) and √S times as much, n = max(N, 1)."""
    visits = data.counts[0]
    num_states, num_actions = visits.shape
    r_width = np.zeros(visits.shape)
    for s, a in np.ndindex(visits.shape):
        log_term = math.log(2 * num_states * num_actions * (episode + 1) / delta)
        r_width[s, a] = scale * math.sqrt(4 * log_term / max(visits[s, a], 1))
    return r_width, math.sqrt(num_states) * r_width


@pytest.mark.parametrize(("clip", "scale"), [("horizon", 1.0), slow("none", 0.05)])
def test_ucrl2_agrees_with_the_reference(clip, scale):
    data = make_data(2)
    r_width, p_width = ucrl_widths(data, 7, 0.1, scale)
    if clip == "horizon":
        r_width = np.minimum(r_width, np.maximum(1 - data.r_hat, 0))
    args = data.r_hat, r_width, p_width, data.p0, 4, clip
    expected = reference.extended_value_iteration(data.p_hat, *args)
    agent = baselines.ucrl2(Ucrl2(delta=0.1, scale=scale, clip=clip))
    assert_plan(plan(agent, *data.layouts[1]), expected)


@pytest.mark.parametrize("compounding", [True, slow(False)])
def test_ucrl2_tabularl_agrees_with_the_baseline_code(compounding):
    data = make_data(3)
    visits, reward_sum, transitions = data.counts
    r_mean = reward_sum / (1 + visits)
    p_mean = (1 + transitions) / (12 + visits)[..., None]
    widths = ucrl_widths(data, 7, 0.05, 0.2)
    kind = "compounding" if compounding else "extended"
    planner = getattr(reference, f"{kind}_value_iteration")
    expected = planner(p_mean, r_mean, *widths, data.p0, 4)
    agent = baselines.ucrl2_tabularl(Ucrl2Tabularl(scale=0.2, compounding=compounding))
    assert_plan(plan(agent, *data.layouts[1]), expected)


def ucbvi_bonus(data, bonus, constants, horizon, num_episodes, episode, scale, delta):
    visits = data.counts[0]
    num_states, num_actions = visits.shape

    def at(h, s, a, variance):
        n = max(visits[s, a], 1)
        if bonus == "simplified":
            return scale / math.sqrt(n) + (horizon - h) / n
        if constants == "practical":
            log_term = math.log(2 + episode)
            if bonus == "hoeffding":
                return scale * (horizon - h) * math.sqrt(2 * log_term / n)
            spread = math.sqrt(2 * variance * log_term / n) + (horizon - h) * log_term / n
            return scale * (spread + math.sqrt(2 * log_term / n))
        log_term = math.log(5 * num_states * num_actions * num_episodes * horizon / delta)
        if bonus == "hoeffding":
            return scale * 7 * horizon * log_term / math.sqrt(n)
        first = math.sqrt(8 * log_term * variance / n) + 14 * horizon * log_term / (3 * n)
        return scale * (first + math.sqrt(8 * horizon**2 / n))

    return at


@pytest.mark.parametrize(
    ("bonus", "constants", "scale", "shape"),
    [
        ("hoeffding", "practical", 1.0, (5, 4, 8)),
        ("bernstein", "practical", 0.1, (12, 2, 4)),
        ("simplified", "practical", 0.5, (5, 4, 8)),
        slow("hoeffding", "theory", 0.003, (5, 4, 8)),
        slow("bernstein", "theory", 0.003, (5, 4, 8)),
    ],
)
def test_ucbvi_agrees_with_the_reference(bonus, constants, scale, shape):
    data = make_data(4, shape)
    numbers = ucbvi_bonus(data, bonus, constants, shape[2], 50, 7, scale, 0.2)
    unseen = data.counts[0] == 0
    expected = reference.ucbvi(data.p_hat, data.r_hat, numbers, unseen, data.p0, shape[2])
    capped = expected[0] == np.arange(shape[2], 0, -1)[:, None, None]
    assert (capped & ~unseen).any() or scale < 1  # the cap binds, where the bonus is large
    assert (~capped).any()  # … and does not hide everything
    options = Ucbvi(bonus=bonus, constants=constants, scale=scale, delta=0.2)
    found = plan(baselines.ucbvi(options), *data.layouts[1])
    assert_plan(found, expected)
    ladder = np.arange(shape[2], 0, -1)[:, None] * np.ones(unseen.sum())
    np.testing.assert_array_equal(np.asarray(found.q)[:, unseen], ladder)


@pytest.mark.parametrize("spread", [0.01, 300.0])
def test_variance_of_large_and_similar_values_does_not_cancel(spread):
    data = make_data(6)
    v = f32(1e4 + spread * np.random.default_rng(7).random(12))
    exact = np.asarray(v, float)  # as rounded to float32
    mean = data.p_hat @ exact
    expected = (data.p_hat * (exact - mean[..., None]) ** 2).sum(-1)
    assert (expected > 0).any()
    for problem, stats in data.layouts:
        p_hat = estimate_model(stats, problem)[1]
        found = np.asarray(quick(baselines._variance)(p_hat, v))
        assert (found >= 0).all()
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6 * spread**2)


def rlsvi_plans(options, data, num_keys=400, episode=7.0):
    """Return q over many keys, [keys, H, S, A]."""
    agent = baselines.rlsvi(options)
    keys = jax.random.split(jax.random.key(1), num_keys)
    many = quick(jax.vmap(lambda *args: agent.plan(*args)[0], in_axes=(0, None, None)))
    problem, stats = data.layouts[1]
    return np.asarray(many(keys, problem, CountState(stats, jnp.float32(episode))).q, dtype=float)


def noise_of(q, data, clip):
    """Return w_h = Q_h − (Σr + ΣV_{h+1}(s'))/(n+1), recovered from the plan."""
    visits, reward_sum, transitions = data.counts
    horizon = q.shape[1]
    w = np.zeros(q.shape)
    v = np.zeros((len(q), q.shape[2]))
    for h in range(horizon - 1, -1, -1):
        w[:, h] = q[:, h] - (reward_sum + np.einsum("sat,nt->nsa", transitions, v)) / (visits + 1)
        v = q[:, h].max(-1)
        v = np.clip(v, 0, horizon - h) if clip == "horizon" else v
    return w


@pytest.mark.parametrize(
    ("constants", "clip"),
    [
        ("practical", "horizon"),
        slow("practical", "none"),
        slow("theory", "none"),
    ],
)
def test_rlsvi_adds_independent_noise_of_its_scale_to_every_q(constants, clip):
    data = make_data(5)
    visits = data.counts[0]
    options = Rlsvi(constants=constants, c=0.3, clip=clip)
    to_go = np.arange(4, 0, -1)[:, None, None]
    if constants == "theory":
        beta = 0.5 * 12 * 4**3 * math.log(2 * 4 * 12 * 2 * 8)
    else:
        beta = 0.3 * to_go
    scale = np.sqrt(beta / (visits + 1)) * np.ones((4, 12, 2))
    z = noise_of(rlsvi_plans(options, data), data, clip) / scale
    assert kstest(z.ravel(), "norm").pvalue > MIN_PVALUE
    for h in range(4):
        assert z[:, h].std() == pytest.approx(1, abs=5 / math.sqrt(2 * z[:, h].size))
    between = np.corrcoef(z.reshape(len(z), -1).T)
    assert np.abs(between - np.eye(96)).max() < 6 / math.sqrt(len(z))


def test_rlsvi_without_noise_is_regression_towards_zero():
    data = make_data(6)
    expected = reference.rlsvi(data.counts, np.zeros((4, 12, 2)), data.p0, 4, "horizon")
    agent = baselines.rlsvi(Rlsvi(c=0.0, clip="horizon"))
    assert_plan(plan(agent, *data.layouts[1]), expected)


@pytest.mark.parametrize("members", [slow(1), 3])
def test_posterior_sampling_takes_the_largest_q_over_mdps(members, monkeypatch):
    data = make_data(7)
    rng = np.random.default_rng(0)
    r = rng.normal(size=(members, 12, 2))
    p = np.stack([reference.random_kernel(rng, 12, 2) for _ in range(members)])
    arguments = fix_samples(monkeypatch, baselines, r, p)
    prior = {"alpha0": 2.0, "mu0": 0.1, "tau0": 3.0, "tau": 4.0}
    if members == 1:
        agent = baselines.psrl(Psrl(**prior))
    else:
        agent = baselines.opsrl(Opsrl(members=members, **prior))
    problem, stats = data.layouts[0]
    found = plan(agent, problem, stats)
    assert sorted(arguments, key=len) == [(2.0, members), (0.1, 3.0, 4.0, members)]
    samples = [reference.value_iteration(p[m], r[m], data.p0, 4)[0] for m in range(members)]
    best = np.max(samples, axis=0)
    assert_plan(found, (best, data.p0 @ best[0].max(-1)))


AGENTS = {
    "greedy": baselines.greedy(Greedy()),
    "ucrl2-tabularl": baselines.ucrl2_tabularl(Ucrl2Tabularl()),
    "opsrl": baselines.opsrl(Opsrl()),
}


@pytest.mark.parametrize("name", AGENTS)
def test_baselines_start_empty_and_count_episodes(name):
    agent, problem = AGENTS[name], make_problem(riverswim(horizon=3), 10)
    state = agent.init(jax.random.key(0), problem)
    assert state.episode == 0
    assert not np.asarray(state.stats.visits).any()
    episode = Episode(jnp.array([0, 1, 0, 0]), jnp.array([1, 0, 0]), f32([0.0, 0.0, 0.005]))
    for k in (1, 2):
        state = agent.observe(jax.random.key(k), problem, state, episode)
        assert state.episode == k
        np.testing.assert_array_equal(state.stats.visits[:2], [[k, k], [k, 0]])
        assert float(state.stats.visits.sum()) == 3 * k
