"""Training of the ensemble: who trains on what, when it stops and which weights are kept."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import assert_same, differs

from narl.deep.ensemble import ModelSettings, Scale, holdout_error, init_ensemble, predict
from narl.deep.ensemble_fit import (
    Data,
    _Progress,
    _shuffle,
    _train_epoch,
    as_data,
    fit,
    fit_scale,
    split_rows,
)
from narl.deep.replay_buffer import pack
from narl.deep.sac import Batch

KEY = jax.random.key(11)
SMALL = ModelSettings(members=3, width=8, depth=1, batch=16, most_epochs=2)
SCALED = dataclasses.replace(SMALL, batch=256, scale_targets=True)
CAPACITY, NUM_ROWS = 60, 40

TRACED = ("learning_rate", "patience", "most_epochs", "improvement", "holdout_share")
"""Settings that a single program can take as arguments."""


def with_traced(program):
    """Compiled once for all values of the traced settings."""

    def with_values(values, settings, *args):
        return program(*args, dataclasses.replace(settings, **values))

    jitted = jax.jit(with_values, static_argnums=1)

    def call(*args):
        *rest, settings = args
        values = {name: getattr(settings, name) for name in TRACED}
        static = dataclasses.replace(settings, **dict.fromkeys(TRACED))
        return jitted(values, static, *rest)

    return call


trained = with_traced(fit)
split = with_traced(lambda key, num_rows, settings: split_rows(key, CAPACITY, num_rows, settings))
shuffle = jax.jit(_shuffle)
judge = jax.jit(holdout_error)


def system(seed, num_rows, noise=0.1):
    """r = s − a and s' = s + 0.5 a + 0.2, both with noise."""
    rng = np.random.default_rng(seed)
    obs, action = rng.normal(size=(num_rows, 1)), rng.uniform(-1, 1, (num_rows, 1))
    reward = (obs - action)[:, 0] + noise * rng.normal(size=num_rows)
    next_obs = obs + 0.5 * action + 0.2 + noise * rng.normal(size=(num_rows, 1))
    arrays = (obs, action, reward, next_obs, np.zeros(num_rows))
    return pack(Batch(*(jnp.asarray(x, jnp.float32) for x in arrays)))


ROWS = system(0, CAPACITY)


@functools.cache
def fresh():
    return jax.jit(init_ensemble, static_argnums=(1, 2, 3))(jax.random.key(3), 1, 1, SMALL)


def run(rows=ROWS, num_rows=NUM_ROWS, settings=SMALL, ensemble=None, key=KEY):
    ensemble = fresh() if ensemble is None else ensemble
    return trained(key, ensemble, rows, jnp.int32(num_rows), settings)


def split_of(key=KEY, num_rows=NUM_ROWS, settings=SMALL):
    """The split that `fit` makes with this key, as NumPy arrays."""
    key_split, _ = jax.random.split(key)
    return jax.tree.map(np.asarray, split(key_split, jnp.int32(num_rows), settings))


def test_data_are_inputs_and_changes():
    batch = Batch(
        jnp.array([[1.0, 2.0]]),
        jnp.array([[3.0]]),
        jnp.array([4.0]),
        jnp.array([[1.5, 1.0]]),
        jnp.array([1.0]),
    )
    data = as_data(pack(batch), 2)
    assert data.inputs.tolist() == [[1.0, 2.0, 3.0]]
    assert data.targets.tolist() == [[4.0, 0.5, -1.0]]


def test_scale_is_of_the_rows_that_are_there():
    inputs = np.random.default_rng(1).normal([3.0, -50.0], [2.0, 0.1], (30, 2))
    present = np.arange(30) < 20
    garbage = np.where(present[:, None], inputs, 1e5)
    scale = fit_scale(jnp.asarray(garbage, jnp.float32), jnp.asarray(present))
    np.testing.assert_allclose(scale.mean, inputs[:20].mean(0), rtol=1e-5)
    np.testing.assert_allclose(scale.std, inputs[:20].std(0), rtol=1e-3)


@pytest.mark.parametrize("num_rows", [3, 1000, 70_001])
def test_a_constant_column_is_not_scaled(num_rows):
    """Even where float32 makes its mean a little different from itself."""
    constants = jnp.array([0.0, 0.1, -7.3, 1000.1, 3e4])
    inputs = jnp.broadcast_to(constants, (num_rows, 5))
    scale = jax.jit(fit_scale)(inputs, jnp.ones(num_rows, bool))
    assert scale.std.tolist() == [1.0] * 5
    np.testing.assert_allclose(scale.mean, constants, rtol=1e-5)


@pytest.mark.parametrize("num_rows", [1, 4, 5, 37, CAPACITY])
def test_split_holds_out_a_share_and_draws_the_rest_with_replacement(num_rows):
    parts = split_of(num_rows=num_rows)
    assert parts.num_held == num_rows // 5
    assert parts.num_train == num_rows - num_rows // 5
    held = set(parts.held[: parts.num_held].tolist())
    assert len(held) == parts.num_held
    assert held <= set(range(num_rows))
    drawn = parts.chosen[:, : parts.num_train]
    assert set(drawn.ravel().tolist()) <= set(range(num_rows)) - held
    if num_rows == CAPACITY:
        for member in drawn:  # with replacement 63 % are expected to be there
            assert 0.45 < len(set(member.tolist())) / parts.num_train < 0.8
        assert not np.array_equal(drawn[0], drawn[1])


def test_every_training_row_may_be_drawn_and_the_split_is_fresh():
    seen, held = set(), []
    for seed in range(30):
        parts = split_of(jax.random.key(seed))
        seen |= set(parts.chosen[:, : parts.num_train].ravel().tolist())
        held.append(frozenset(parts.held[: parts.num_held].tolist()))
    assert seen == set(range(NUM_ROWS))
    assert set().union(*held) == set(range(NUM_ROWS))
    assert len(set(held)) == 30


def test_holdout_is_capped():
    parts = split_of(settings=dataclasses.replace(SMALL, holdout_most=3))
    assert parts.num_held == 3
    assert parts.held.shape == (3,)
    assert parts.num_train == NUM_ROWS - 3


def test_shuffling_permutes_the_draws_that_count():
    chosen = jnp.arange(2 * 10).reshape(2, 10)
    mixed = np.asarray(shuffle(KEY, chosen, jnp.int32(6)))
    assert sorted(mixed[0, :6]) == list(range(6))
    assert sorted(mixed[1, :6]) == list(range(10, 16))
    assert mixed[0, :6].tolist() != list(range(6))
    assert mixed[0, :6].tolist() != (mixed[1, :6] - 10).tolist()


@pytest.mark.slow
def test_held_rows_never_train():
    once = dataclasses.replace(SMALL, most_epochs=1)
    parts = split_of(settings=once)
    held, drawn = parts.held[: parts.num_held], parts.chosen[0, 0]
    reward = 2
    ensemble, report = run(settings=once)
    poisoned, poisoned_report = run(ROWS.at[held, reward].add(100.0), settings=once)
    assert_same(poisoned.weights, ensemble.weights)
    assert_same(poisoned.opt, ensemble.opt)
    assert (poisoned_report.holdout_error > 100 * report.holdout_error).all()
    # … while one row that does train changes them.
    other, _ = run(ROWS.at[drawn, reward].add(100.0), settings=once)
    assert differs(other.weights, ensemble.weights)


@pytest.mark.slow
def test_rows_that_are_not_there_do_not_matter():
    assert_same(run(), run(ROWS.at[NUM_ROWS:].set(1e6)))


def python_fit(settings, key=KEY):
    """The rule of the paper's models as a plain loop: the weights of every epoch, then a choice."""
    key_split, key_shuffle = jax.random.split(key)
    parts = split(key_split, jnp.int32(NUM_ROWS), settings)
    data = as_data(ROWS, 1)
    scale = fit_scale(data.inputs, jnp.arange(CAPACITY) < NUM_ROWS)
    held = parts.held[: int(parts.num_held)]
    judged = Data(data.inputs[held], data.targets[held])
    one_epoch = jax.jit(
        lambda w, o, c: _train_epoch(
            _Progress(w, o, w, jnp.zeros(3), c, jnp.int32(0), jnp.int32(0)),
            data,
            scale,
            parts.num_train,
            settings,
        )
    )
    ensemble = fresh()
    weights, opt, chosen = ensemble.weights, ensemble.opt, parts.chosen
    best, best_error, best_epoch, idle, errors = [None] * 3, [np.inf] * 3, [-1] * 3, 0, []
    while idle <= settings.patience and len(errors) < settings.most_epochs:
        weights, opt = one_epoch(weights, opt, chosen)
        error = np.asarray(judge(weights, scale, *judged, jnp.ones(len(held))))
        idle += 1
        for m in range(3):
            if not np.isfinite(best_error[m]) or 1 - error[m] / best_error[m] > 0.01:
                best[m] = jax.tree.map(lambda x, m=m: np.asarray(x[m]), weights)
                best_error[m], best_epoch[m], idle = error[m], len(errors), 0
        chosen = shuffle(jax.random.fold_in(key_shuffle, len(errors)), chosen, parts.num_train)
        errors.append(error)
    return best, best_error, best_epoch, errors


@pytest.mark.slow
def test_every_member_keeps_its_best_epoch_and_the_training_stops():
    settings = dataclasses.replace(SMALL, learning_rate=0.05, patience=2, most_epochs=60)
    ensemble, report = run(settings=settings)
    best, best_error, best_epoch, errors = python_fit(settings)
    assert report.epochs == len(errors) < 60
    # The case is one: members ended worse than they were, and their best epochs differ.
    assert max(best_epoch) == len(errors) - 4
    assert len(set(best_epoch)) > 1
    assert (errors[-1] > np.array(best_error)).any()
    np.testing.assert_allclose(report.holdout_error, best_error, rtol=1e-4)
    for m in range(3):
        kept = jax.tree.map(lambda x, m=m: np.asarray(x[m]), ensemble.weights)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4), kept, best[m]
        )


@pytest.mark.slow
@pytest.mark.parametrize("patience", [0, 2, 5])
def test_training_stops_after_more_idle_epochs_than_patience(patience):
    """Without learning only the first epoch, from nothing, counts as better."""
    still = dataclasses.replace(SMALL, learning_rate=0.0, patience=patience, most_epochs=50)
    ensemble, report = run(settings=still)
    assert report.epochs == 1 + patience + 1
    assert_same(ensemble.weights, fresh().weights)


@pytest.mark.slow
def test_training_stops_after_the_most_epochs():
    _, report = run()
    assert report.epochs == SMALL.most_epochs < SMALL.patience


def test_training_continues_from_where_the_last_ended():
    first, report = run()
    num_batches = 2  # 32 rows that train, 16 at a time
    assert first.opt[0].count == num_batches * report.epochs
    again, more = run(ensemble=first, key=jax.random.key(12))
    assert again.opt[0].count == num_batches * (report.epochs + more.epochs)
    still = dataclasses.replace(SMALL, learning_rate=0.0)
    kept, _ = run(ensemble=first, settings=still)
    assert_same(kept.weights, first.weights)
    assert differs(kept.opt, first.opt)


def test_members_are_ranked_by_holdout_error():
    for seed in range(3):
        ensemble, report = run(key=jax.random.key(seed))
        assert ensemble.ranked.tolist() == np.argsort(report.holdout_error).tolist()
        assert_same(ensemble.holdout_error, report.holdout_error)
    assert ensemble.holdout_error[ensemble.ranked[0]] == ensemble.holdout_error.min()


@pytest.mark.parametrize("num_rows", [1, 2, 5, 7])
def test_fewer_rows_than_a_batch(num_rows):
    ensemble, report = run(num_rows=num_rows)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(ensemble))
    assert ensemble.opt[0].count == report.epochs


@pytest.mark.slow
def test_a_ring_smaller_than_a_batch():
    assert SCALED.batch > CAPACITY
    ensemble, report = run(settings=SCALED)
    assert ensemble.opt[0].count == report.epochs
    assert differs(ensemble.weights, fresh().weights)


def test_without_a_holdout_the_training_rows_judge():
    none = dataclasses.replace(SMALL, holdout_share=0.0, most_epochs=20, learning_rate=3e-3)
    ensemble, report = run(settings=none)
    data = as_data(ROWS[:NUM_ROWS], 1)

    def error(weights):
        return judge(weights, ensemble.scale, *data, jnp.ones(NUM_ROWS))

    np.testing.assert_allclose(report.holdout_error, error(ensemble.weights), rtol=1e-4)
    assert report.epochs > none.patience + 2
    assert (report.holdout_error < 0.7 * error(fresh().weights)).all()


def test_numbers_that_are_not_finite_end_the_training_at_once():
    endless = dataclasses.replace(SMALL, patience=1, most_epochs=1000)
    ensemble, report = run(ROWS.at[:, 2].set(jnp.nan), settings=endless)
    assert report.epochs == 2
    assert np.isinf(report.holdout_error).all()
    assert_same(ensemble.weights, fresh().weights)


@pytest.mark.slow
def test_scaled_targets_look_the_same_whatever_their_units():
    reward, following = 2, 3
    ensemble, report = run(settings=SCALED)
    units = ROWS.at[:, reward].multiply(64.0).at[:, reward].add(32.0)
    other, other_report = run(units, settings=SCALED)
    for a, b in zip(jax.tree.leaves(ensemble.weights), jax.tree.leaves(other.weights), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-3)
    np.testing.assert_allclose(report.holdout_error, other_report.holdout_error, rtol=1e-2)
    rewards = np.asarray(ROWS)[:NUM_ROWS, reward]
    assert ensemble.target_scale.mean[0] == pytest.approx(rewards.mean(), rel=1e-4)
    assert ensemble.target_scale.std[0] == pytest.approx(rewards.std(), rel=1e-4)
    changes = np.asarray(ROWS)[:NUM_ROWS, following] - np.asarray(ROWS)[:NUM_ROWS, 0]
    assert ensemble.target_scale.std[1] == pytest.approx(changes.std(), rel=1e-4)
    assert other.target_scale.std[0] == pytest.approx(64 * rewards.std(), rel=1e-4)
    # Without it there is no scale.
    plain, _ = run()
    assert plain.target_scale.mean.tolist() == [0.0, 0.0]
    assert plain.target_scale.std.tolist() == [1.0, 1.0]


def noisy_system(num_rows, std):
    """s' = 0.9 s + 0.3 a + std(s)·ε and r = −s + 0.5 + 0.2·ε."""
    rng = np.random.default_rng(5)
    obs, action = rng.uniform(-1, 1, (num_rows, 1)), rng.uniform(-1, 1, (num_rows, 1))
    reward = 0.5 - obs[:, 0] + 0.2 * rng.normal(size=num_rows)
    next_obs = 0.9 * obs + 0.3 * action + std(obs) * rng.normal(size=(num_rows, 1))
    arrays = (obs, action, reward, next_obs, np.zeros(num_rows))
    return pack(Batch(*(jnp.asarray(x, jnp.float32) for x in arrays)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "std", [lambda s: 0.1 + 0.0 * s, lambda s: 0.05 * np.exp(s)], ids=["constant", "by state"]
)
def test_recovers_the_mean_and_variance_of_a_noisy_linear_system(std):
    # Every epoch counts as better, so that the last one is kept.
    settings = ModelSettings(members=3, width=32, depth=2, most_epochs=150, improvement=-1e9)
    ensemble = init_ensemble(jax.random.key(0), 1, 1, settings)
    rows = noisy_system(8000, std)
    fitted, report = trained(KEY, ensemble, rows, jnp.int32(8000), settings)
    least = (0.2**2 + np.mean(std(np.linspace(-1, 1, 1001)) ** 2)) / 2
    np.testing.assert_allclose(report.holdout_error, least, rtol=0.1)
    obs, action = np.meshgrid(np.linspace(-0.9, 0.9, 13), np.linspace(-0.9, 0.9, 7))
    inputs = np.stack([obs.ravel(), action.ravel()], axis=1)
    given = predict(fitted.weights, fitted.scale, jnp.asarray(inputs, jnp.float32))
    s, a = inputs.T
    np.testing.assert_allclose(given.mean[..., 0], np.tile(0.5 - s, (3, 1)), atol=0.1)
    np.testing.assert_allclose(given.mean[..., 1], np.tile(0.3 * a - 0.1 * s, (3, 1)), atol=0.06)
    spread = np.exp(0.5 * np.asarray(given.logvar))
    np.testing.assert_allclose(spread[..., 0], 0.2, rtol=0.2)
    np.testing.assert_allclose(spread[..., 1], np.tile(std(s), (3, 1)), rtol=0.35)
    # On average it is closer than that.
    assert np.mean(spread[..., 1] / std(s)) == pytest.approx(1.0, abs=0.08)


def test_scale_is_the_data_s():
    ensemble, _ = run()
    inputs = np.asarray(as_data(ROWS, 1).inputs)[:NUM_ROWS]
    expected = Scale(inputs.mean(0), inputs.std(0))
    for given, wanted in zip(ensemble.scale, expected, strict=True):
        np.testing.assert_allclose(given, wanted, rtol=1e-4, atol=1e-6)
