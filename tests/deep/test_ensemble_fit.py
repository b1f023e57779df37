"""The fit of the ensemble: rows that train, when a fit ends and which weights are kept."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import assert_same, differs, tiny_config

from narl.deep import ensemble_fit as module
from narl.deep.ensemble import holdout_error, init_ensemble, predict
from narl.deep.ensemble_fit import Data, _Progress, _shuffle, _train_epoch, as_data, fit_scale
from narl.deep.replay_buffer import pack
from narl.deep.sac import Batch

KEY = jax.random.key(11)
SMALL = tiny_config(
    members=3, model_width=8, model_depth=1, most_model_epochs=2, scale_targets=False
)
SCALED = dataclasses.replace(SMALL, model_batch=256, scale_targets=True)
CAPACITY, NUM_ROWS = 60, 40
REWARD, NEXT_OBS = 2, 3
"""Columns of the packed rows."""
TRACED = ("model_learning_rate", "patience", "most_model_epochs", "holdout_share")
"""Fields that one compiled program can take as arguments."""


def compiled(function):
    """Return the function of a configuration, compiled once for all values of TRACED."""

    def with_values(values, config, *args):
        return function(*args, dataclasses.replace(config, **values))

    jitted = jax.jit(with_values, static_argnums=1)

    def call(*args):
        *args, config = args
        values = {name: getattr(config, name) for name in TRACED}
        return jitted(values, dataclasses.replace(config, **dict.fromkeys(TRACED)), *args)

    return call


fit_ensemble = compiled(module.fit_ensemble)
split_rows = compiled(lambda key, num, config: module.split_rows(key, CAPACITY, num, config))
shuffle, judge = jax.jit(_shuffle), jax.jit(holdout_error)
init = jax.jit(init_ensemble, static_argnums=(1, 2, 3))


def system(num_rows, seed=0, std=lambda s: 0.1, reward_std=0.1):
    """Return packed transitions of r = s − a and s' = s + 0.5 a + 0.2, both with noise."""
    rng = np.random.default_rng(seed)
    obs, action = rng.uniform(-1, 1, (2, num_rows, 1))
    reward = (obs - action)[:, 0] + reward_std * rng.normal(size=num_rows)
    next_obs = obs + 0.5 * action + 0.2 + std(obs) * rng.normal(size=(num_rows, 1))
    arrays = (obs, action, reward, next_obs, np.zeros(num_rows))
    return pack(Batch(*(jnp.asarray(x, jnp.float32) for x in arrays)))


ROWS = system(CAPACITY)


@functools.cache
def untrained():
    return init(jax.random.key(3), 1, 1, SMALL)


def fit(rows=ROWS, num_rows=NUM_ROWS, config=SMALL, ensemble=None, key=KEY):
    ensemble = untrained() if ensemble is None else ensemble
    return fit_ensemble(key, ensemble, rows, jnp.int32(num_rows), config)


def split(key=KEY, num_rows=NUM_ROWS, config=SMALL):
    """Return the split that a fit makes with this key, as NumPy arrays."""
    key_split, _ = jax.random.split(key)
    return jax.tree.map(np.asarray, split_rows(key_split, jnp.int32(num_rows), config))


def test_data_are_inputs_and_changes():
    rows = jnp.array([[1.0, 2.0, 3.0, 4.0, 1.5, 1.0, 1.0]])  # obs, action, reward, next_obs, done
    data = as_data(rows, 2, SMALL)
    assert data.inputs.tolist() == [[1.0, 2.0, 3.0]]
    assert data.targets.tolist() == [[4.0, 0.5, -1.0]]
    data = as_data(rows, 2, dataclasses.replace(SMALL, reward_transform="symlog"))
    np.testing.assert_allclose(data.targets, [[np.log(5.0), 0.5, -1.0]], rtol=1e-6)


def test_scale_ignores_absent_rows():
    inputs = np.random.default_rng(1).normal([3.0, -50.0], [2.0, 0.1], (30, 2))
    present = np.arange(30) < 20
    with_garbage = np.where(present[:, None], inputs, 1e5)
    scale = fit_scale(jnp.asarray(with_garbage, jnp.float32), jnp.asarray(present))
    np.testing.assert_allclose(scale.mean, inputs[:20].mean(0), rtol=1e-5)
    np.testing.assert_allclose(scale.std, inputs[:20].std(0), rtol=1e-3)


@pytest.mark.parametrize("num_rows", [3, 70_001])
def test_constant_column_not_scaled(num_rows):
    """The mean of a constant differs a little from the constant in float32."""
    constants = jnp.array([0.0, 0.1, -7.3, 1000.1, 3e4])
    inputs = jnp.broadcast_to(constants, (num_rows, 5))
    scale = jax.jit(fit_scale)(inputs, jnp.ones(num_rows, bool))
    assert scale.std.tolist() == [1.0] * 5
    np.testing.assert_allclose(scale.mean, constants, rtol=1e-5)


@pytest.mark.parametrize("num_rows", [1, 4, 5, 37, CAPACITY])
def test_split_holds_out_share_and_draws_others_with_replacement(num_rows):
    parts = split(num_rows=num_rows)
    assert parts.num_held == num_rows // 5
    assert parts.num_train == num_rows - num_rows // 5
    held = set(parts.held[: parts.num_held].tolist())
    assert len(held) == parts.num_held
    assert held <= set(range(num_rows))
    drawn = parts.chosen[:, : parts.num_train]
    assert set(drawn.ravel().tolist()) <= set(range(num_rows)) - held
    if num_rows == CAPACITY:
        for member in drawn:  # with replacement 63 % are expected to occur
            assert 0.45 < len(set(member.tolist())) / parts.num_train < 0.8
        assert not np.array_equal(drawn[0], drawn[1])


def test_split_is_fresh_and_reaches_every_row():
    drawn, held = set(), []
    for seed in range(30):
        parts = split(jax.random.key(seed))
        drawn |= set(parts.chosen[:, : parts.num_train].ravel().tolist())
        held.append(frozenset(parts.held[: parts.num_held].tolist()))
    assert drawn == set().union(*held) == set(range(NUM_ROWS))
    assert len(set(held)) == 30


def test_holdout_capped():
    parts = split(config=dataclasses.replace(SMALL, holdout_most=3))
    assert (parts.num_held, parts.held.shape, parts.num_train) == (3, (3,), NUM_ROWS - 3)


def test_shuffle_permutes_draws_that_count():
    chosen = jnp.arange(2 * 10).reshape(2, 10)
    mixed = np.asarray(shuffle(KEY, chosen, jnp.int32(6)))
    assert sorted(mixed[0, :6]) == list(range(6))
    assert sorted(mixed[1, :6]) == list(range(10, 16))
    assert mixed[0, :6].tolist() != list(range(6))
    assert mixed[0, :6].tolist() != (mixed[1, :6] - 10).tolist()


@pytest.mark.parametrize("num_train", [1, 1024, 1025, 9000, 20_000])
def test_shuffle_sorts_few_rows_like_the_whole_buffer(num_train):
    """The order is that of the ranks of all rows, the rows that do not count being last."""
    chosen = np.random.default_rng(2).integers(0, 20_000, (2, 20_000)).astype(np.int32)
    rank = [jax.random.uniform(key, 20_000) for key in jax.random.split(KEY, 2)]
    rank = np.where(np.arange(20_000) < num_train, np.stack(rank), 2.0)
    expected = np.take_along_axis(chosen, np.argsort(rank, axis=1, kind="stable"), axis=1)
    mixed = shuffle(KEY, jnp.asarray(chosen), jnp.int32(num_train))
    np.testing.assert_array_equal(mixed, expected)
    assert (num_train == 1) == np.array_equal(mixed, chosen)


@pytest.mark.parametrize("num_passes", [1, 2, 2.5])
def test_epoch_with_few_rows_passes_over_them_several_times(num_passes):
    config = dataclasses.replace(SMALL, model_batch=4)
    parts, data = split(config=config), as_data(ROWS, 1, SMALL)
    scale = fit_scale(data.inputs, jnp.arange(CAPACITY) < NUM_ROWS)
    num_batches = -(-int(parts.num_train) // 4)
    assert num_batches > 1

    def train_epoch(weights, opt, config, num_train):
        progress = _Progress(weights, opt, weights.network, jnp.zeros(3), parts.chosen, 0, 0)
        return _train_epoch(progress, data, scale, num_train, config)

    least = int(num_passes * num_batches)
    several = dataclasses.replace(config, least_model_batches=least)
    found = train_epoch(untrained().weights, untrained().opt, several, parts.num_train)
    expected, left = (untrained().weights, untrained().opt), least
    while left > 0:  # by hand: whole passes, and the beginning of another
        rows = min(int(parts.num_train), 4 * left)
        expected = train_epoch(*expected, config, jnp.int32(rows))
        left -= num_batches
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7), *[found, expected]
    )
    if num_passes == 1:
        assert_same(
            found, train_epoch(untrained().weights, untrained().opt, config, parts.num_train)
        )


def test_held_and_absent_rows_never_train():
    once = dataclasses.replace(SMALL, most_model_epochs=1)
    parts = split(config=once)
    held, drawn = parts.held[: parts.num_held], parts.chosen[0, 0]
    ensemble, report = fit(config=once)
    poisoned, poisoned_report = fit(ROWS.at[held, REWARD].add(100.0), config=once)
    assert_same((poisoned.weights, poisoned.opt), (ensemble.weights, ensemble.opt))
    assert (poisoned_report.holdout_error > 100 * report.holdout_error).all()
    trained_row_changed, _ = fit(ROWS.at[drawn, REWARD].add(100.0), config=once)
    assert differs(trained_row_changed.weights, ensemble.weights)
    assert_same(fit(ROWS.at[NUM_ROWS:].set(1e6), config=once), (ensemble, report))


def python_fit(config):
    """Return best weights, errors and epochs of the members and all errors, by a plain loop."""
    key_split, key_shuffle = jax.random.split(KEY)
    parts = split_rows(key_split, jnp.int32(NUM_ROWS), config)
    data = as_data(ROWS, 1, SMALL)
    scale = fit_scale(data.inputs, jnp.arange(CAPACITY) < NUM_ROWS)
    held = parts.held[: int(parts.num_held)]
    held_data = Data(data.inputs[held], data.targets[held])

    @jax.jit
    def train_epoch(weights, opt, chosen):
        numbers = jnp.zeros(3), chosen, *jnp.int32([0, 0])
        progress = _Progress(weights, opt, weights.network, *numbers)
        return _train_epoch(progress, data, scale, parts.num_train, config)

    weights, opt, chosen = untrained().weights, untrained().opt, parts.chosen
    best, best_error, best_epoch, idle, errors = [None] * 3, [np.inf] * 3, [-1] * 3, 0, []
    while idle <= config.patience and len(errors) < config.most_model_epochs:
        weights, opt = train_epoch(weights, opt, chosen)
        error = np.asarray(judge(weights, scale, *held_data, jnp.ones(len(held))))
        idle += 1
        for m in range(3):
            if not np.isfinite(best_error[m]) or 1 - error[m] / best_error[m] > 0.01:
                best[m] = jax.tree.map(lambda x, m=m: np.asarray(x[m]), weights.network)
                best_error[m], best_epoch[m], idle = error[m], len(errors), 0
        chosen = shuffle(jax.random.fold_in(key_shuffle, len(errors)), chosen, parts.num_train)
        errors.append(error)
    return best, best_error, best_epoch, errors, weights


@pytest.mark.slow
def test_fit_equals_plain_loop_with_early_stopping_and_snapshots():
    config = dataclasses.replace(SMALL, model_learning_rate=0.05, patience=2, most_model_epochs=60)
    ensemble, report = fit(config=config)
    best, best_error, best_epoch, errors, last = python_fit(config)
    assert report.epochs == len(errors) < 60
    # Members ended worse than they were, and their best epochs differ.
    assert max(best_epoch) == len(errors) - 4
    assert len(set(best_epoch)) > 1
    assert (errors[-1] > np.array(best_error)).any()
    np.testing.assert_allclose(report.holdout_error, best_error, rtol=1e-4)
    for m in range(3):
        kept = jax.tree.map(lambda x, m=m: np.asarray(x[m]), ensemble.weights.network)
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4), kept, best[m]
        )
    # A snapshot holds weights and biases; the bounds, which the members share, are the last ones.
    for name in ("max_logvar", "min_logvar"):
        bound, expected = getattr(ensemble.weights, name), getattr(last, name)
        np.testing.assert_allclose(bound, expected, rtol=1e-4)
        assert differs(bound, getattr(untrained().weights, name))
    assert report.collapsed == 0.0


@pytest.mark.parametrize("patience", [0, 5])
def test_fit_ends_after_more_idle_epochs_than_patience(patience):
    """Without learning only the first epoch counts as better."""
    ensemble, report = fit(
        config=dataclasses.replace(
            SMALL, model_learning_rate=0.0, patience=patience, most_model_epochs=50
        )
    )
    assert report.epochs == 1 + patience + 1
    assert_same(ensemble.weights, untrained().weights)


def test_fit_continues_from_last_fit_and_ranks_members():
    first, report = fit()
    assert first.ranked.tolist() == np.argsort(report.holdout_error).tolist() != [0, 1, 2]
    assert_same(first.holdout_error, report.holdout_error)
    assert report.epochs == SMALL.most_model_epochs < SMALL.patience
    num_batches = 2  # 32 rows that train, 16 at a time
    assert first.opt[0].count == num_batches * report.epochs
    again, more = fit(ensemble=first, key=jax.random.key(12))
    assert again.opt[0].count == num_batches * (report.epochs + more.epochs)
    kept, _ = fit(ensemble=first, config=dataclasses.replace(SMALL, model_learning_rate=0.0))
    assert_same(kept.weights, first.weights)
    assert differs(kept.opt, first.opt)


@pytest.mark.parametrize(("num_rows", "config"), [(1, SMALL), (7, SMALL), (NUM_ROWS, SCALED)])
def test_rows_or_buffer_smaller_than_batch(num_rows, config):
    assert SCALED.model_batch > CAPACITY
    ensemble, report = fit(num_rows=num_rows, config=config)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(ensemble))
    assert ensemble.opt[0].count == report.epochs
    assert differs(ensemble.weights, untrained().weights)


@pytest.mark.slow
@pytest.mark.parametrize(("replicas", "least"), [(1, 1), (2, 12)])
def test_fit_has_the_same_bits_whatever_the_capacity(replicas, least):
    """The 1600 rows are more than one block of each kind and than the smallest sort."""
    config = dataclasses.replace(
        SMALL, model_width=32, model_batch=256, holdout_most=300, least_model_batches=least
    )
    start, rows = init(KEY, 1, 1, config), system(replicas * 1600).reshape(replicas, 1600, -1)
    keys, fits = jax.random.split(KEY, replicas), []

    def one(key, rows, num_rows):
        return module.fit_ensemble(key, start, rows, num_rows, config)

    many = jax.vmap(one, in_axes=(0, 0, None)) if replicas > 1 else one
    for capacity in (1600, 5000, 20_000):
        padded = jnp.pad(rows, ((0, 0), (0, capacity - 1600), (0, 0)))
        given = (keys, padded) if replicas > 1 else (keys[0], padded[0])
        fits.append(jax.jit(many)(*given, jnp.int32(1600)))
    assert_same(fits[1], fits[0])
    assert_same(fits[2], fits[0])
    assert (fits[0][0].opt[0].count == SMALL.most_model_epochs * max(least, 6)).all()
    # Replicas have the same number of rows, so that only one of the sorts is run.
    assert "cond[" in str(jax.make_jaxpr(many)(*given, jnp.int32(1600)))


def test_training_rows_measure_error_without_holdout():
    config = dataclasses.replace(
        SMALL, holdout_share=0.0, most_model_epochs=20, model_learning_rate=3e-3
    )
    ensemble, report = fit(config=config)
    data = as_data(ROWS[:NUM_ROWS], 1, SMALL)

    def error(weights):
        return judge(weights, ensemble.scale, *data, jnp.ones(NUM_ROWS))

    np.testing.assert_allclose(report.holdout_error, error(ensemble.weights), rtol=1e-4)
    assert report.epochs > config.patience + 2
    assert (report.holdout_error < 0.7 * error(untrained().weights)).all()


def test_nonfinite_rows_end_fit_at_once_with_old_networks():
    endless = dataclasses.replace(SMALL, patience=1, most_model_epochs=1000)
    ensemble, report = fit(ROWS.at[:, REWARD].set(jnp.nan), config=endless)
    assert report.epochs == 2
    assert np.isinf(report.holdout_error).all()
    assert_same(ensemble.weights.network, untrained().weights.network)


def test_scales_are_those_of_data_whatever_the_units():
    raw, _ = fit()
    inputs = np.asarray(as_data(ROWS, 1, SMALL).inputs)[:NUM_ROWS]
    np.testing.assert_allclose(raw.scale.mean, inputs.mean(0), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(raw.scale.std, inputs.std(0), rtol=1e-4)
    assert raw.target_scale.mean.tolist() == [0.0, 0.0]
    assert raw.target_scale.std.tolist() == [1.0, 1.0]
    scaled, report = fit(config=SCALED)
    targets = np.asarray(as_data(ROWS, 1, SMALL).targets)[:NUM_ROWS]
    np.testing.assert_allclose(scaled.target_scale.mean, targets.mean(0), rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(scaled.target_scale.std, targets.std(0), rtol=1e-4)
    other_units = ROWS.at[:, REWARD].multiply(64.0).at[:, REWARD].add(32.0)
    other, other_report = fit(other_units, config=SCALED)
    for a, b in zip(jax.tree.leaves(scaled.weights), jax.tree.leaves(other.weights), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-3)
    np.testing.assert_allclose(report.holdout_error, other_report.holdout_error, rtol=1e-2)
    assert other.target_scale.std[0] == pytest.approx(64 * targets[:, 0].std(), rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "std", [lambda s: 0.1 + 0.0 * s, lambda s: 0.05 * np.exp(s)], ids=["constant", "by state"]
)
def test_mean_and_variance_of_noisy_linear_system_recovered(std, monkeypatch):
    # Every epoch counts as better, so that the last one is kept.
    monkeypatch.setattr(module, "IMPROVEMENT", -1e9)
    config = dataclasses.replace(
        SMALL, model_width=32, model_depth=2, model_batch=256, most_model_epochs=150
    )
    rows = system(8000, 5, std, reward_std=0.2)
    ensemble, report = jax.jit(module.fit_ensemble, static_argnums=4)(
        KEY, init(jax.random.key(0), 1, 1, config), rows, jnp.int32(8000), config
    )
    noise = (0.2**2 + np.mean(std(np.linspace(-1, 1, 1001)) ** 2)) / 2
    np.testing.assert_allclose(report.holdout_error, noise, rtol=0.1)
    obs, action = np.meshgrid(np.linspace(-0.9, 0.9, 13), np.linspace(-0.9, 0.9, 7))
    s, a = obs.ravel(), action.ravel()
    inputs = jnp.asarray(np.stack([s, a], axis=1), jnp.float32)
    gaussian = predict(ensemble.weights, ensemble.scale, inputs)
    np.testing.assert_allclose(gaussian.mean[..., 0], np.tile(s - a, (3, 1)), atol=0.1)
    np.testing.assert_allclose(gaussian.mean[..., 1], np.tile(0.5 * a + 0.2, (3, 1)), atol=0.06)
    spread = np.exp(0.5 * np.asarray(gaussian.logvar))
    np.testing.assert_allclose(spread[..., 0], 0.2, rtol=0.2)
    np.testing.assert_allclose(spread[..., 1], np.tile(std(s), (3, 1)), rtol=0.35)
    # On average it is closer than that.
    assert np.mean(spread[..., 1] / std(s)) == pytest.approx(1.0, abs=0.08)
