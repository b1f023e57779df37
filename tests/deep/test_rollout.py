"""Imagined trajectories inside ensembles that are known exactly."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import (
    affine_actor,
    affine_critic,
    affine_ensemble,
    assert_same,
    constant_ensemble,
    make_context,
    make_sac,
    replica_params,
    sac_with_value,
    tiny_config,
)

from narl.deep.algorithm_registry import step_rule_of
from narl.deep.replay_buffer import Replay, make_replay, pack, unpack, unpack_candidates
from narl.deep.rollout import (
    _start_rows,
    branched_rollouts,
    imagine_step,
    make_candidates,
    model_returns,
    next_values,
)

KEY = jax.random.key(2)
# Two equal members: s' = s + 1 and r = s + 2a.
CHAIN = affine_ensemble([[[1.0, 0.0], [2.0, 0.0]]] * 2, [[0.0, 1.0]] * 2)
# Two members that agree on the reward, 1: s' = s + 1 and s' = s + 3.
FORK = constant_ensemble([[1.0, 1.0], [1.0, 3.0]])
CAPACITY = 400
SAC, DECREASING = sac_with_value(1.0), sac_with_value(-1.0)
OPTIMISMS = tuple(step_rule_of(tiny_config(algo=algo)) for algo in ("narl", "mbpo"))
NARL, MBPO = 0, 1


def ends_beyond(threshold):
    return lambda obs, action, next_obs: next_obs[..., 0] > threshold


def real_states(*states):
    """Return a buffer of transitions that begin in these states."""
    rows = jnp.full((8, 5), jnp.nan).at[: len(states), 0].set(jnp.array(states, jnp.float32))
    return Replay(rows, jnp.int32(len(states)), jnp.int32(len(states)))


@functools.partial(jax.jit, static_argnums=(0, 1))
def jitted(num_rollouts, chunk, key, ensemble, sac, params, threshold, real, length, retained):
    config = tiny_config(rollout_batch=num_rollouts)
    context = make_context(ensemble, sac, params, OPTIMISMS, ends_beyond(threshold), config)
    model = make_replay(CAPACITY, 1, 1)
    return branched_rollouts(key, context, real, model, length, retained, chunk)


def roll(
    ensemble,
    real,
    length,
    num_rollouts=20,
    chunk=20,
    *,
    algo=NARL,
    radius=np.inf,
    num_elites=2,
    sac=SAC,
    threshold=np.inf,
    retained=CAPACITY,
    key=KEY,
):
    """Return the imagined transitions that count, oldest first, and the sums."""
    params = replica_params(algo, radius, num_elites)
    numbers = (real, jnp.int32(length), jnp.int32(retained))
    model, sums = jitted(
        num_rollouts, chunk, key, ensemble, sac, params, jnp.float32(threshold), *numbers
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


def test_a_share_of_rollouts_begins_at_states_of_the_last_epoch():
    config = tiny_config(recent_starts=0.25, epoch_length=2)
    real = real_states(*range(8))._replace(num_added=jnp.int32(11))  # the newest are 1 and 2
    rows = jax.jit(_start_rows, static_argnums=(1, 3))(KEY, config, real, 400)
    states = np.asarray(rows)[:, 0]
    assert set(states[:100].tolist()) == {1.0, 2.0}
    assert set(states[100:].tolist()) == set(range(8))
    young = real_states(5)  # fewer states than an epoch
    assert set(np.asarray(_start_rows(KEY, config, young, 40))[:, 0].tolist()) == {5.0}


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
    assert sums.fallback == sums.reward_fallback == sums.bonus == 0.0


@pytest.mark.parametrize(("radius", "member", "fallback"), [(1.5, 1, 0.0), (0.5, 1, 20.0)])
def test_radius_excludes_members_inside_rollouts(radius, member, fallback):
    """The values are 1 from their mean; a smaller radius excludes both: the better is taken."""
    batch, sums = roll(FORK, real_states(0), 1, radius=radius)
    assert sums.chosen[member] == 20.0
    assert sums.fallback == fallback
    assert sums.reward_fallback == 0.0
    assert (batch.next_obs == (1.0, 3.0)[member]).all()


@pytest.mark.parametrize(("sac", "member"), [(SAC, 0), (DECREASING, 1)])
def test_terminal_state_has_value_zero_in_selection(sac, member):
    """s + 3 ends the episode: its value 0 is less than that of s + 1 = 1, but more than −1."""
    batch, sums = roll(FORK, real_states(0), 1, sac=sac, threshold=2.5)
    assert sums.chosen[member] == 20.0
    assert batch.done.tolist() == [float(member)] * 20


def test_mbpo_draws_among_elites_and_computes_no_values():
    batch, sums = roll(FORK, real_states(0), 10, algo=MBPO)
    assert sums.chosen.sum() == 200
    np.testing.assert_allclose(sums.chosen / 200, 0.5, atol=0.15)
    assert_same(sums.chosen, sums.reward_chosen)
    assert (batch.next_obs == batch.obs + 3.0).sum() == sums.chosen[1]
    ranked = FORK._replace(ranked=jnp.array([1, 0]))
    _, sums = roll(ranked, real_states(0), 10, algo=MBPO, num_elites=1)
    assert sums.chosen.tolist() == [0.0, 200.0]


def test_nonfinite_steps_counted_but_not_stored():
    broken = constant_ensemble([[1.0, 1.0], [1.0, np.inf]])
    batch, sums = roll(broken, real_states(0), 3, algo=MBPO)
    assert np.isfinite(batch.next_obs).all()
    assert 0 < len(batch.reward) == sums.steps < 60
    assert sums.chosen.tolist() == [sums.steps, 0.0]
    # A trajectory ends with its first step that is not finite.
    assert 0 < sums.nonfinite <= 20
    _, sums = roll(constant_ensemble([[np.nan, 1.0]] * 2), real_states(0), 3)
    assert (sums.steps, sums.nonfinite) == (0.0, 20.0)


@functools.partial(jax.jit, static_argnames="horizon")
def returns_inside(ensemble, sac, threshold, starts, horizon):
    """Return the returns under draws and under means, one above the other."""
    context = make_context(ensemble, sac, is_terminal=ends_beyond(threshold))
    return jnp.stack(model_returns(KEY, context, starts, horizon))


@pytest.mark.parametrize("horizon", [2, 6])
def test_model_returns_by_hand(horizon):
    """From 0: 0 + 1 + 2 + 3; from 2: 2 + 3; from 10: 10, as the mode of the action is 0."""
    starts = jnp.array([[0.0], [2.0], [10.0]])
    returns = returns_inside(CHAIN, SAC, 3.5, starts, horizon=horizon)
    expected = [[0.0, 1.0, 3.0, 6.0, 6.0, 6.0], [2.0, *[5.0] * 5], [10.0] * 6]
    for each in returns:
        np.testing.assert_allclose(each, np.array(expected)[:, :horizon], rtol=1e-5, atol=1e-9)


def test_model_returns_under_draws_have_noise_that_those_under_means_have_not():
    """Every step gives 2 with a variance of e^−2, and the members agree."""
    model = constant_ensemble([[2.0, 1.0]] * 2, logvar=-2.0)
    draws, means = returns_inside(model, SAC, np.inf, jnp.zeros((3, 1)), horizon=6)
    np.testing.assert_allclose(means, [[2.0, 4.0, 6.0, 8.0, 10.0, 12.0]] * 3, rtol=1e-5)
    noise = np.diff(np.asarray(draws - means), prepend=0.0)
    assert 0.15 < noise.std() < 0.6  # 0.37 is expected
    assert len(np.unique(noise)) == 18


def test_model_returns_use_mode_of_policy():
    """r = 2a with the mode a = tanh(0.5); draws of this policy would be far away."""
    model = affine_ensemble([[[0.0, 0.0], [2.0, 0.0]]] * 2, [[0.0, 1.0]] * 2)
    wide = SAC._replace(actor=affine_actor([[0.0]], [0.5], 2.0))
    returns = returns_inside(model, wide, np.inf, jnp.zeros((3, 1)), horizon=6)
    np.testing.assert_allclose(returns[..., -1], 6 * 2 * np.tanh(0.5), rtol=1e-5)


def test_model_returns_finite_where_trajectory_is_not():
    """s' = (1 + 1e10)·s: from 1 the fourth state is no longer finite, from 1e30 the first."""
    model = affine_ensemble([[[0.0, 1e10], [0.0, 0.0]]] * 2, [[1.0, 0.0]] * 2)
    starts = jnp.array([[0.0], [1.0], [1e30]])
    returns = returns_inside(model, SAC, np.inf, starts, horizon=6)
    np.testing.assert_allclose(returns[..., -1], [[6.0, 4.0, 1.0]] * 2, rtol=1e-5)


# --- steps of all members, for optimism in the update --------------------------------------------


@functools.partial(jax.jit, static_argnums=0)
def imagine_all(options, ensemble, threshold):
    """Imagine a step from states 0 whose candidates are all stored."""
    config = tiny_config(optimism_at="update", **dict(options))
    rules = (step_rule_of(config),)
    context = make_context(ensemble, SAC, None, rules, ends_beyond(threshold), config)
    return imagine_step(KEY, context, jnp.zeros((20, 1)), jnp.zeros(20))


def test_steps_of_all_members_are_stored_for_the_update():
    """The trajectory follows an elite member; here the only one is member 0."""
    step = imagine_all((), constant_ensemble([[1.0, 1.0], [2.0, 3.0]], logvar=-2.0), 2.0)
    np.testing.assert_allclose(step.batch.reward, [[1.0, 2.0]] * 20, rtol=1e-6)
    np.testing.assert_allclose(step.batch.next_obs[..., 0], [[1.0, 3.0]] * 20, rtol=1e-6)
    assert step.batch.done.tolist() == [[0.0, 1.0]] * 20
    assert step.selected.member.tolist() == [0] * 20
    # The trajectory itself takes a draw.
    assert np.std(step.selected.next_obs) > 0.1
    rows = unpack_candidates(pack(step.batch), 1, 2)
    assert_same(rows, step.batch)


# --- candidates and their values --------------------------------------------------------------


@functools.partial(jax.jit, static_argnames="value_samples")
def candidates_of(ensemble, sac, params, threshold, obs, value_samples=1):
    """Return the arrays of candidates, and their values, for an action of 0."""
    context = make_context(
        ensemble,
        sac,
        params,
        is_terminal=lambda obs, action, next_obs: next_obs[..., 0] > threshold,
        config=tiny_config(value_samples=value_samples),
    )
    num_rows = obs.shape[0]
    made = make_candidates(KEY, context, obs, jnp.zeros((num_rows, 1)), jnp.zeros(num_rows))
    return made._replace(values=made.values())


NOISY = constant_ensemble([[1.0, 1.0], [1.0, 3.0]], logvar=0.0)
WIDE = make_sac(affine_actor([[0.0]], [0.0], 0.5), affine_critic([[1.0, 3.0]] * 2, [0.0, 0.0]))


@pytest.mark.parametrize("score", ["mean", "draw"])
def test_members_are_compared_by_means_or_draws_and_draws_are_stored(score):
    params = replica_params(score=score)
    made = candidates_of(NOISY, sac_with_value(2.0), params, np.inf, jnp.zeros((50, 1)))
    np.testing.assert_allclose(made.mean.next_obs[..., 0], [[1.0] * 50, [3.0] * 50], rtol=1e-6)
    assert np.std(made.prediction.next_obs - made.mean.next_obs) == pytest.approx(1.0, abs=0.3)
    assert np.std(made.prediction.reward - made.mean.reward) == pytest.approx(1.0, abs=0.3)
    assert_same(made.scored, made.mean if score == "mean" else made.prediction)
    np.testing.assert_allclose(made.values, 2.0 * made.scored.next_obs[..., 0], rtol=1e-5)


@pytest.mark.parametrize("value_samples", [1, 3])
def test_equal_candidates_have_equal_values_under_random_actions(value_samples):
    """The noise of the actions is common to the members and differs between the rows."""
    equal = constant_ensemble([[0.0, 1.0]] * 3)
    made = candidates_of(equal, WIDE, replica_params(), np.inf, jnp.zeros((20, 1)), value_samples)
    values = np.asarray(made.values)
    np.testing.assert_array_equal(values, values[:1].repeat(3, axis=0))
    assert len(set(values[0].tolist())) == 20


@pytest.mark.parametrize(("critics", "slope"), [("online", 2.0), ("target", -5.0)])
def test_online_or_target_critics_value_candidates(critics, slope):
    target = affine_critic([[-5.0, 0.0]] * 2, [0.0, 0.0])
    sac, params = sac_with_value(2.0)._replace(target=target), replica_params(value_critics=critics)
    made = candidates_of(NOISY, sac, params, np.inf, jnp.zeros((2, 1)))
    np.testing.assert_allclose(made.values, slope * np.array([[1.0] * 2, [3.0] * 2]), rtol=1e-5)


@pytest.mark.parametrize("threshold", [0.5, 3.5, 100.0])
def test_values_of_next_states_zero_where_episode_ends(threshold):
    """The value of a state is the state, unless the episode ends there."""
    context = make_context(
        constant_ensemble([[0.0, 0.0]] * 3),
        is_terminal=lambda obs, action, next_obs: next_obs[..., 0] > threshold,
    )
    states = np.array([[1.0, 2.0], [2.0, 3.0], [4.0, 5.0]])
    next_obs = jnp.asarray(states, jnp.float32)[..., None]
    values = next_values(KEY, context, jnp.zeros((2, 1)), jnp.zeros((2, 1)), next_obs)
    np.testing.assert_allclose(values, np.where(states > threshold, 0.0, states), rtol=1e-6)
