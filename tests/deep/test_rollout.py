"""Imagined trajectories inside ensembles that are known exactly."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import (
    affine_actor,
    affine_ensemble,
    assert_same,
    constant_ensemble,
    make_context,
    replica_params,
    sac_with_value,
    tiny_config,
)

from narl.deep.algorithms import Optimism, optimism_of
from narl.deep.replay_buffer import Replay, make_replay, unpack
from narl.deep.rollout import branched_rollouts, model_returns
from narl.deep.selection import select_elite, select_optimistic, take_members

KEY = jax.random.key(2)
# Two equal members: s' = s + 1 and r = s + 2a.
CHAIN = affine_ensemble([[[1.0, 0.0], [2.0, 0.0]]] * 2, [[0.0, 1.0]] * 2)
# Two members that agree on the reward, 1: s' = s + 1 and s' = s + 3.
FORK = constant_ensemble([[1.0, 1.0], [1.0, 3.0]])
CAPACITY = 400
SAC, DECREASING = sac_with_value(1.0), sac_with_value(-1.0)
NARL, MBPO = optimism_of("narl"), optimism_of("mbpo")


def ends_beyond(threshold):
    return lambda obs, action, next_obs: next_obs[..., 0] > threshold


def real_states(*states):
    """Return a buffer of transitions that begin in these states."""
    rows = jnp.full((8, 5), jnp.nan).at[: len(states), 0].set(jnp.array(states, jnp.float32))
    return Replay(rows, jnp.int32(len(states)), jnp.int32(len(states)))


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def jitted(config, chunk, optimisms, key, ensemble, sac, params, threshold, *buffers):
    context = make_context(ensemble, sac, params, optimisms, ends_beyond(threshold), config)
    real, length, retained = buffers
    model = make_replay(CAPACITY, 1, 1)
    return branched_rollouts(key, context, real, model, length, retained, chunk)


def roll(
    ensemble,
    real,
    length,
    num_rollouts=20,
    chunk=20,
    *,
    optimisms=(NARL,),
    params=None,
    sac=SAC,
    threshold=np.inf,
    retained=CAPACITY,
    key=KEY,
    draw="sample",
):
    """Return the imagined transitions that count, oldest first, and the sums."""
    params = replica_params(num_elites=2) if params is None else params
    model, sums = jitted(
        *(tiny_config(rollout_batch=num_rollouts, draw=draw), chunk, optimisms),
        *(key, ensemble, sac, params, jnp.float32(threshold)),
        *(real, jnp.int32(length), jnp.int32(retained)),
    )
    age = np.arange(int(model.size))[::-1]
    newest = (int(model.num_added) - 1 - age) % CAPACITY
    batch = jax.tree.map(lambda x: np.asarray(x)[newest], unpack(model.rows, 1))
    return batch, jax.tree.map(np.asarray, sums)


def test_rollouts_follow_model_until_termination():
    batch, sums = roll(CHAIN, real_states(0, 1, 2, 3), 3, threshold=3.5)
    np.testing.assert_allclose(batch.next_obs, batch.obs + 1.0, rtol=1e-6)
    np.testing.assert_allclose(batch.reward, (batch.obs + 2 * batch.action)[:, 0], rtol=1e-5)
    assert (np.abs(batch.action) < 1.0).all()
    assert batch.action.std() > 0.2
    # Step by step, the trajectories that go on in their order; beyond 3.5 they end.
    alive, expected = batch.obs[:20, 0].tolist(), []
    assert set(alive) <= {0.0, 1.0, 2.0, 3.0}
    for _ in range(3):
        expected += alive
        alive = [s + 1 for s in alive if s + 1 <= 3.5]
    assert batch.obs[:, 0].tolist() == expected
    assert batch.done.tolist() == [float(s + 1 > 3.5) for s in expected]
    assert sums.steps == len(expected) < 60


def test_rollouts_begin_uniformly_over_real_states():
    def first_states(real):
        keys = jax.random.split(KEY, 20)
        return np.concatenate([roll(CHAIN, real, 1, key=key)[0].obs[:, 0] for key in keys])

    wrapped = real_states(*range(8))._replace(num_added=jnp.int32(11))
    states, counts = np.unique(first_states(wrapped), return_counts=True)
    assert states.tolist() == list(range(8))
    np.testing.assert_allclose(counts / 400, 1 / 8, atol=0.08)
    # Rows that were never written are no states.
    assert set(first_states(real_states(0, 1)).tolist()) == {0.0, 1.0}


@pytest.mark.slow
def test_chunks_bound_memory_without_changing_number_of_rollouts():
    batch, sums = roll(FORK, real_states(0), 4, 10, 4)
    assert len(batch.reward) == 40 == sums.steps
    states, counts = np.unique(batch.obs, return_counts=True)
    assert states.tolist() == [0.0, 3.0, 6.0, 9.0]
    assert counts.tolist() == [10] * 4
    batch, sums = roll(FORK, real_states(0), 4, 10, 4, retained=11)
    assert sums.steps == 40
    # Chunks of 4, 4 and 2: all of the last one, and 3 transitions of the one before.
    assert batch.obs[:, 0].tolist() == [9.0] * 3 + [0.0] * 2 + [3.0] * 2 + [6.0] * 2 + [9.0] * 2


def test_narl_takes_state_of_larger_value_and_counts_members():
    batch, sums = roll(FORK, real_states(0), 2)
    np.testing.assert_array_equal(batch.next_obs, batch.obs + 3.0)
    np.testing.assert_array_equal(batch.obs[20:], batch.next_obs[:20])
    assert sums.chosen.tolist() == [0.0, 40.0]
    assert sums.reward_chosen.tolist() == [40.0, 0.0]
    assert sums.fallback == 0.0
    # Both states, and both values, are 1 away from their mean.
    np.testing.assert_allclose(sums.distance, 40.0, rtol=1e-5)
    np.testing.assert_allclose(sums.value_distance, 40.0, rtol=1e-5)


@pytest.mark.parametrize(("radius", "member", "fallback"), [(1.5, 1, 0.0), (0.5, 0, 20.0)])
def test_radius_excludes_members_inside_rollouts(radius, member, fallback):
    """The values are 1 from their mean; a smaller radius excludes both, equally close."""
    batch, sums = roll(FORK, real_states(0), 1, params=replica_params(radius=radius))
    assert sums.chosen[member] == 20.0
    assert sums.fallback == fallback
    assert (batch.next_obs == (1.0, 3.0)[member]).all()


@pytest.mark.parametrize(("sac", "member"), [(SAC, 0), (DECREASING, 1)])
def test_terminal_state_has_value_zero_in_selection(sac, member):
    """s + 3 ends the episode: its value 0 is less than that of s + 1 = 1, but more than −1."""
    batch, sums = roll(FORK, real_states(0), 1, sac=sac, threshold=2.5)
    assert sums.chosen[member] == 20.0
    assert batch.done.tolist() == [float(member)] * 20


def test_mbpo_draws_among_elites_and_computes_no_values():
    batch, sums = roll(FORK, real_states(0), 10, optimisms=(MBPO,))
    assert sums.chosen.sum() == 200
    np.testing.assert_allclose(sums.chosen / 200, 0.5, atol=0.15)
    assert_same(sums.chosen, sums.reward_chosen)
    assert (batch.next_obs == batch.obs + 3.0).sum() == sums.chosen[1]
    assert sums.value_distance.tolist() == [0.0, 0.0]
    ranked = FORK._replace(ranked=jnp.array([1, 0]))
    _, sums = roll(ranked, real_states(0), 10, optimisms=(MBPO,), params=replica_params())
    assert sums.chosen.tolist() == [0.0, 200.0]


def test_nonfinite_steps_counted_but_not_stored():
    broken = constant_ensemble([[1.0, 1.0], [1.0, np.inf]])
    batch, sums = roll(broken, real_states(0), 3, optimisms=(MBPO,))
    assert np.isfinite(batch.next_obs).all()
    assert 0 < len(batch.reward) == sums.steps < 60
    assert sums.chosen.tolist() == [sums.steps, 0.0]
    # A trajectory ends with its first step that is not finite.
    assert 0 < sums.nonfinite <= 20
    _, sums = roll(constant_ensemble([[np.nan, 1.0]] * 2), real_states(0), 3)
    assert (sums.steps, sums.nonfinite) == (0.0, 20.0)


# --- the seam: a user's selection and bonus ---------------------------------------------------


def select_smallest_reward(key, candidates, params):
    """Take the pessimistic step: the smallest reward, with the next state of the same member."""
    return take_members(candidates, candidates.prediction.reward.argmin(0))


def disagreement(candidates, params):
    """Return the radius times the largest difference between the members' next states."""
    next_obs = candidates.prediction.next_obs[..., 0]
    return params.radius * (next_obs.max(0) - next_obs.min(0))


def zero_bonus(candidates, params):
    return jnp.zeros(candidates.obs.shape[0])


def test_user_selection_decides_imagined_steps():
    # r = 5, s' = s + 1; r = 2, s' = s + 2; r = 4, s' = s + 3.
    ensemble = constant_ensemble([[5.0, 1.0], [2.0, 2.0], [4.0, 3.0]])
    batch, sums = roll(
        ensemble, real_states(0), 3, optimisms=(Optimism(select_smallest_reward, None),)
    )
    np.testing.assert_array_equal(batch.next_obs, batch.obs + 2.0)
    assert batch.reward.tolist() == [2.0] * 60
    assert sums.chosen.tolist() == sums.reward_chosen.tolist() == [0.0, 60.0, 0.0]
    assert (sums.value_distance == 0.0).all()


@pytest.mark.parametrize("select", [select_elite, select_optimistic])
def test_user_bonus_added_to_imagined_reward(select):
    """The members' next states are 2 apart: with a radius of 1.5 the bonus is 3."""
    params = replica_params(radius=1.5, num_elites=2)
    with_bonus, without = (
        roll(FORK, real_states(0), 3, optimisms=(Optimism(select, bonus),), params=params)
        for bonus in (disagreement, None)
    )
    np.testing.assert_allclose(with_bonus[0].reward, 1.0 + 3.0, rtol=1e-6)
    # Nothing else changes.
    assert_same(with_bonus[0]._replace(reward=without[0].reward), without[0])
    assert_same(with_bonus[1], without[1])


NOISY = constant_ensemble([[1.0, 1.0], [1.5, -1.0]], logvar=0.0)


@pytest.mark.slow
@pytest.mark.parametrize("optimism", [NARL, MBPO])
def test_zero_bonus_gives_bits_of_algorithm_without_bonus(optimism):
    zero = optimism._replace(bonus=zero_bonus)
    args = (NOISY, real_states(0, 1), 3)
    assert_same(roll(*args, optimisms=(zero,)), roll(*args, optimisms=(optimism,)))


OPTIMISMS = (
    NARL,
    MBPO,
    Optimism(select_smallest_reward, None),
    Optimism(select_elite, disagreement),
)


@pytest.mark.slow
def test_replicas_with_different_optimisms_share_one_program():
    """Each replica gets what its algorithm gives alone, in a batch (vmap) and one by one."""
    params = [replica_params(i, 0.8, 2) for i in range(len(OPTIMISMS))]
    alone = [
        roll(NOISY, real_states(0, 1), 3, optimisms=(optimism,), params=each)
        for optimism, each in zip(OPTIMISMS, params, strict=True)
    ]
    # The case is one in which all algorithms differ.
    assert len({batch.reward.tobytes() for batch, _ in alone}) == len(OPTIMISMS)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *params)
    config = tiny_config(rollout_batch=20)
    buffers = (real_states(0, 1), jnp.int32(3), jnp.int32(CAPACITY))

    def one_replica(params):
        args = (KEY, NOISY, SAC, params, jnp.float32(np.inf), *buffers)
        return jitted(config, 20, OPTIMISMS, *args)

    batched = jax.vmap(one_replica)(stacked)
    for i, (batch, sums) in enumerate(alone):
        one_by_one = roll(NOISY, real_states(0, 1), 3, optimisms=OPTIMISMS, params=params[i])
        assert_same(one_by_one, (batch, sums))
        model, batched_sums = jax.tree.map(lambda x, i=i: np.asarray(x[i]), batched)
        assert model.size == len(batch.reward)
        np.testing.assert_allclose(
            unpack(model.rows, 1).reward[: model.size], batch.reward, rtol=1e-5
        )
        np.testing.assert_array_equal(batched_sums.chosen, sums.chosen)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ensemble", "draw"),
    [
        pytest.param(constant_ensemble([[1.0, 1.0]], logvar=0.0), "sample", id="one member"),
        pytest.param(CHAIN, "mean", id="identical members"),
    ],
)
def test_narl_equals_mbpo_without_disagreement(ensemble, draw):
    options = {"sac": DECREASING, "threshold": 2.0, "draw": draw}
    params = replica_params(radius=0.1, num_elites=1)
    narl, mbpo = (
        roll(ensemble, real_states(0, 1), 3, optimisms=(optimism,), params=params, **options)
        for optimism in (NARL, MBPO)
    )
    assert_same(narl[0], mbpo[0])
    assert narl[1].fallback == 0.0
    assert 0 < narl[0].done.sum() < len(narl[0].done)
    assert len(set(narl[0].reward.tolist())) > 10


# --- returns inside the model -----------------------------------------------------------------


@functools.partial(jax.jit, static_argnames="horizon")
def returns_inside(ensemble, sac, threshold, starts, horizon):
    config = tiny_config(draw="mean")
    context = make_context(ensemble, sac, is_terminal=ends_beyond(threshold), config=config)
    return model_returns(KEY, context, starts, horizon)


@pytest.mark.parametrize("horizon", [2, 6])
def test_model_returns_by_hand(horizon):
    """From 0: 0 + 1 + 2 + 3; from 2: 2 + 3; from 10: 10, as the mode of the action is 0."""
    starts = jnp.array([[0.0], [2.0], [10.0]])
    returns = returns_inside(CHAIN, SAC, 3.5, starts, horizon=horizon)
    expected = [[0.0, 1.0, 3.0, 6.0, 6.0, 6.0], [2.0, *[5.0] * 5], [10.0] * 6]
    np.testing.assert_allclose(returns, np.array(expected)[:, :horizon], rtol=1e-5)


def test_model_returns_use_mode_of_policy():
    """r = 2a with the mode a = tanh(0.5); draws of this policy would be far away."""
    model = affine_ensemble([[[0.0, 0.0], [2.0, 0.0]]] * 2, [[0.0, 1.0]] * 2)
    wide = SAC._replace(actor=affine_actor([[0.0]], [0.5], 2.0))
    returns = returns_inside(model, wide, np.inf, jnp.zeros((3, 1)), horizon=6)
    np.testing.assert_allclose(returns[:, -1], 6 * 2 * np.tanh(0.5), rtol=1e-5)


def test_model_returns_finite_where_trajectory_is_not():
    """s' = (1 + 1e18)·s: from 1 the third state is no longer finite, from 1e30 the first."""
    model = affine_ensemble([[[0.0, 1e18], [0.0, 0.0]]] * 2, [[1.0, 0.0]] * 2)
    starts = jnp.array([[0.0], [1.0], [1e30]])
    returns = returns_inside(model, SAC, np.inf, starts, horizon=6)
    np.testing.assert_allclose(returns[:, -1], [6.0, 3.0, 1.0], rtol=1e-5)
