"""Every way to be optimistic on ensembles whose members are known exactly.

All algorithms are branches of one program, as they are in a training of several.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import (
    assert_same,
    constant_ensemble,
    make_context,
    replica_params,
    sac_with_value,
    tiny_config,
)

from narl.deep.algorithm_registry import MODEL_BASED, step_rule_of
from narl.deep.bonus_state import Moments, init_bonus_state
from narl.deep.replay_buffer import Replay, make_replay, unpack
from narl.deep.rollout import branched_rollouts, imagine_step

KEY = jax.random.key(6)
SAC = sac_with_value(1.0)
CONFIG = tiny_config(discount=0.5, num_candidates=200)
RULES = {algo: step_rule_of(tiny_config(algo=algo)) for algo in MODEL_BASED} | {
    "narl-reward": step_rule_of(tiny_config(noise="reward")),
    "narl-both": step_rule_of(tiny_config(noise="both")),
}
NO_STATE = init_bonus_state(SAC.actor)
NUM_ROWS = 400


@jax.jit
def program(params, ensemble, state, strength, uniform):
    context = make_context(ensemble, SAC, params, tuple(RULES.values()), config=CONFIG)
    context = context._replace(bonus_state=state, strength=strength)
    return imagine_step(KEY, context, jnp.zeros((NUM_ROWS, 1)), uniform)


def imagine(name, ensemble, state=NO_STATE, strength=1.0, uniform=0.0, **options):
    """Imagine one step from states 0, in which the value of a state s is s."""
    params = replica_params(list(RULES).index(name), **options)
    uniforms = jnp.full(NUM_ROWS, uniform)
    return program(params, ensemble, state, jnp.float32(strength), uniforms)


def moments(num, mean, std):
    """Return the moments of so many numbers."""
    return Moments(*map(jnp.float32, (num, mean, num * std**2)))


# --- members that agree -----------------------------------------------------------------------

AGREEING = pytest.mark.parametrize(
    "ensemble",
    [
        pytest.param(constant_ensemble([[2.0, 1.0]], logvar=0.0), id="one member"),
        pytest.param(constant_ensemble([[2.0, 1.0]] * 3, logvar=0.0), id="identical members"),
    ],
)


@AGREEING
@pytest.mark.parametrize("name", RULES)
def test_every_algorithm_is_mbpo_where_members_agree(name, ensemble):
    """Members have noise of their own: with one elite member all take the draws of the first.

    SOMBRL's reward (r + λ·0)/(1 + λ) is half of it.
    """
    plain = imagine("mbpo", ensemble).batch
    for radius in (0.0, 0.1, np.inf):
        batch = imagine(name, ensemble, radius=radius).batch
        if name == "sombrl":
            batch = batch._replace(reward=2.0 * batch.reward)
        assert_same((batch.obs, batch.action, batch.done), (plain.obs, plain.action, plain.done))
        np.testing.assert_allclose(batch.reward, plain.reward, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(batch.next_obs, plain.next_obs, rtol=1e-5, atol=1e-5)


READINGS = (
    {"exclude": "above"},
    {"exclude": "ball", "fallback": "random"},
    {"joint": True},
    {"radius_unit": "spread"},
    {"exclude_by": "return"},
    {"value_critics": "target"},
    {"anneal": "radius"},
)
"""Options of NARL's choice among models; `numbers_of` excludes on both sides by default."""


@AGREEING
@pytest.mark.parametrize("radius", [0.0, 0.1, np.inf])
@pytest.mark.parametrize("reading", READINGS, ids=str)
def test_every_reading_of_narl_is_mbpo_where_members_agree(reading, radius, ensemble):
    plain = imagine("mbpo", ensemble).batch
    step = imagine("narl", ensemble, radius=radius, **reading)
    assert_same(step.batch, plain)
    # Rounding excludes nobody, so that there is no fallback.
    assert not (step.selected.fallback | step.selected.reward_fallback).any()


@pytest.mark.parametrize("radius", [0.0, 0.1, np.inf])
@pytest.mark.parametrize(("num_members", "logvar"), [(1, 0.0), (3, -60.0)])
def test_choice_by_draws_is_mbpo_with_one_member_or_without_noise(radius, num_members, logvar):
    """Of members that agree but for their noise, a choice by draws takes the luckiest."""
    ensemble = constant_ensemble([[2.0, 1.0]] * num_members, logvar=logvar)
    plain = imagine("mbpo", ensemble).batch
    assert_same(imagine("narl", ensemble, radius=radius, score="draw").batch, plain)
    noisy = constant_ensemble([[2.0, 1.0]] * 3, logvar=0.0)
    lucky = imagine("narl", noisy, score="draw").batch.reward
    assert lucky.mean() == pytest.approx(2.0 + 0.846, abs=0.15)  # E max of 3 normal draws


# --- one optimistic member --------------------------------------------------------------------

OPTIMIST = constant_ensemble([[1.0, 1.0], [1.0, 1.0], [4.0, 5.0]])
"""Means: reward 2, state 7/3. Standard deviations: √2 and 4√2/3."""
STD = np.sqrt(2.0), 4.0 * np.sqrt(2.0) / 3.0


@pytest.mark.parametrize(
    ("name", "options", "member"),
    [
        ("narl", {"radius": np.inf}, 2),
        ("narl", {"radius": 0.1}, 0),  # all are excluded; 0 and 1 are closest to the mean
        ("narl", {"radius": 0.1, "exclude": "above"}, 0),
        ("narl", {"radius": 3.0}, 2),
        ("narl", {"radius": 1.3, "radius_unit": "spread"}, 0),
        ("narl", {"radius": 1.5, "radius_unit": "spread"}, 2),
        ("narl", {"radius": np.inf, "joint": True}, 2),
        ("narl", {"radius": 0.0, "exclude_by": "return"}, 0),
        ("mbpo", {}, 0),
        ("thompson", {"uniform": 0.0}, 0),
        ("thompson", {"uniform": 0.34}, 1),
        ("thompson", {"uniform": 0.67}, 2),
        ("thompson", {"uniform": 0.9999999}, 2),
    ],
)
def test_selection_takes_or_leaves_the_optimistic_member(name, options, member):
    step = imagine(name, OPTIMIST, **options)
    assert step.selected.member.tolist() == step.selected.reward_member.tolist()
    assert step.selected.member.tolist() == [member] * NUM_ROWS
    reward, state = ([1.0, 1.0], [1.0, 1.0], [4.0, 5.0])[member]
    np.testing.assert_allclose(step.batch.reward, reward, rtol=1e-6)
    np.testing.assert_allclose(step.batch.next_obs, state, rtol=1e-6)
    assert not step.bonus.any()


@pytest.mark.parametrize("reach", [0.0, 1.0, 3.0])
def test_hucrl_takes_best_of_hallucinated_steps(reach):
    """r + γV(s') of 200 draws in the box μ ± β·σ; at the corner it is largest."""
    batch = imagine("hucrl", OPTIMIST, reach=reach).batch
    eta = np.stack([batch.reward - 2.0, batch.next_obs[:, 0] - 7 / 3]) / np.array(STD)[:, None]
    if reach == 0.0:
        np.testing.assert_allclose(eta, 0.0, atol=1e-5)
        return
    eta = eta / reach
    assert (np.abs(eta) <= 1.0 + 1e-5).all()
    gain = eta[0] * STD[0] + 0.5 * eta[1] * STD[1]
    largest = STD[0] + 0.5 * STD[1]
    # Of 200 draws the best has a mean distance of √(π/200·ab/2) from the corner, a, b the sides.
    assert (gain > 0.6 * largest).all()
    assert gain.mean() > 0.88 * largest


def few_draws(num_candidates):
    """Return η of H-UCRL with so few candidates, the first of which is η = 0."""
    config = tiny_config(discount=0.5, num_candidates=num_candidates)
    params = replica_params(reach=1.0)
    rules = (RULES["hucrl"],)
    context = make_context(OPTIMIST, SAC, params, rules, config=config)
    batch = imagine_step(KEY, context, jnp.zeros((NUM_ROWS, 1)), jnp.zeros(NUM_ROWS)).batch
    eta = np.stack([batch.reward - 2.0, batch.next_obs[:, 0] - 7 / 3]) / np.array(STD)[:, None]
    return np.where(np.abs(eta) < 1e-5, 0.0, eta)


def test_hucrl_with_one_candidate_takes_the_mean():
    assert not few_draws(1).any()


def test_hucrl_weighs_reward_against_discounted_value():
    """Beside η = 0 there is one draw, taken where r + γV(s') gains: in half of the square."""
    eta = few_draws(2)
    is_drawn = eta.any(axis=0)
    gain = eta[0] * STD[0] + 0.5 * eta[1] * STD[1]
    assert (gain[is_drawn] > 0).all()
    assert 0.4 < is_drawn.mean() < 0.6
    # The draws cover the half of [−1, 1]² in which the gain is above 0, also its two narrow ends.
    assert eta[0].min() < -0.3
    assert eta[1].min() < -0.8


def test_hucrl_with_reach_zero_has_the_noise_of_one_elite_member():
    noisy = constant_ensemble([[1.0, 1.0], [1.0, 1.0], [4.0, 5.0]], logvar=0.0)
    plain, mean = imagine("mbpo", noisy).batch, imagine("hucrl", noisy, reach=0.0).batch
    np.testing.assert_allclose(mean.reward - 2.0, plain.reward - 1.0, atol=1e-5)
    np.testing.assert_allclose(mean.next_obs - 7 / 3, plain.next_obs - 1.0, atol=1e-5)


# --- bonuses ----------------------------------------------------------------------------------

SIGMA = sum(STD) / 2
"""Disagreement of OPTIMIST: the mean over reward and state, in units of 1."""


@pytest.mark.parametrize(("weight", "strength"), [(1.0, 1.0), (3.0, 1.0), (0.0, 1.0), (3.0, 0.5)])
def test_sombrl_reward_by_hand(weight, strength):
    """r = 1 of the only elite member becomes (1 + λ·b)/(1 + λ) with b = (σ − 0.5)/2."""
    state = NO_STATE._replace(disagreement=moments(10, 0.5, 2.0))
    step = imagine("sombrl", OPTIMIST, state, strength, bonus_weight=weight)
    weight, b = weight * strength, (SIGMA - 0.5) / 2.0
    np.testing.assert_allclose(step.batch.reward, (1.0 + weight * b) / (1.0 + weight), rtol=1e-5)
    np.testing.assert_allclose(step.selected.reward, 1.0, rtol=1e-6)
    np.testing.assert_allclose(step.batch.next_obs, 1.0, rtol=1e-6)


def test_maxinfo_bonus_by_hand():
    """With aleatoric variances of 1, I is the mean of log(1 + 2) and log(1 + 32/9)."""
    noisy = constant_ensemble([[1.0, 1.0], [1.0, 1.0], [4.0, 5.0]], logvar=0.0)
    state = NO_STATE._replace(
        information=moments(10, 0.3, 4.0), log_weight=jnp.log(jnp.float32(7.0))
    )
    information = (np.log(3.0) + np.log1p(32 / 9)) / 2
    for strength in (1.0, 0.5, 0.0):
        step = imagine("maxinfo", noisy, state, strength)
        expected = strength * 7.0 * (information - 0.3) / 4.0
        np.testing.assert_allclose(step.bonus, expected, rtol=1e-4)


@pytest.mark.parametrize("name", ["narl-reward", "narl-both"])
def test_reward_noise_is_largest_of_normal_draws(name):
    """With σ = 1 after the first fit and c = 4: twice the largest of 3 normal draws, times σ."""
    state = NO_STATE._replace(first_disagreement=jnp.float32(1.0))
    step = imagine(name, OPTIMIST, state, noise_scale=4.0)
    draws = np.asarray(step.bonus) / (2.0 * SIGMA)
    assert draws.mean() == pytest.approx(0.846, abs=0.12)  # E max of 3 normal draws
    assert draws.std() == pytest.approx(0.748, abs=0.12)
    assert_same(step.batch.reward, step.selected.reward + step.bonus)
    # The selection is that of the models, as without the noise.
    alone = imagine("narl" if name == "narl-both" else "mbpo", OPTIMIST)
    assert_same(step.selected, alone.selected)


def test_reward_noise_fades_with_disagreement_annealing_and_scale():
    def noise(first=1.0, strength=1.0, ensemble=OPTIMIST, scale=1.0):
        state = NO_STATE._replace(first_disagreement=jnp.float32(first))
        step = imagine("narl-reward", ensemble, state, strength, noise_scale=scale)
        return np.asarray(step.bonus)

    np.testing.assert_allclose(noise(first=2.0), noise() / 2, rtol=1e-5)
    np.testing.assert_allclose(noise(strength=0.25), noise() / 2, rtol=1e-5)
    np.testing.assert_allclose(noise(scale=9.0), 3 * noise(), rtol=1e-5)
    assert not noise(strength=0.0).any()
    assert not noise(scale=0.0).any()
    half = constant_ensemble([[1.0, 1.0], [1.0, 1.0], [2.5, 3.0]])
    np.testing.assert_allclose(noise(ensemble=half), noise() / 2, rtol=1e-5)


# --- Thompson sampling along trajectories -----------------------------------------------------

STRIDES = constant_ensemble([[0.0, 1.0], [0.0, 10.0], [0.0, 100.0]])


@functools.partial(jax.jit, static_argnums=0)
def thompson_rollouts(per, episode_uniform):
    """Return the last observations of 60 trajectories of 3 steps."""
    params = replica_params(one_member_per=per)
    context = make_context(STRIDES, SAC, params, "thompson", config=tiny_config(rollout_batch=60))
    context = context._replace(episode_uniform=episode_uniform)
    real = Replay(jnp.zeros((4, 5)), jnp.int32(4), jnp.int32(4))
    model = make_replay(200, 1, 1)
    model, _ = branched_rollouts(KEY, context, real, model, jnp.int32(3), 200, 60)
    return unpack(model.rows[120:180], 1).next_obs[:, 0]


def test_thompson_keeps_one_member_for_a_trajectory():
    last, counts = np.unique(np.asarray(thompson_rollouts("trajectory", 0.0)), return_counts=True)
    np.testing.assert_allclose(last, [3.0, 30.0, 300.0])
    assert counts.min() > 8


@pytest.mark.parametrize(("uniform", "last"), [(0.1, 3.0), (0.5, 30.0), (0.9, 300.0)])
def test_thompson_keeps_one_member_for_all_trajectories_of_an_episode(uniform, last):
    np.testing.assert_allclose(thompson_rollouts("episode", uniform), last)
