"""Fit of the ensemble: bootstrap per member, holdout, early stopping with snapshots."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, Shaped, UInt

from narl.deep.config import Config
from narl.deep.ensemble import (
    Ensemble,
    Scale,
    Weights,
    collapsed_share,
    holdout_error,
    model_loss,
    optimiser,
    symlog,
)
from narl.deep.networks import Network
from narl.deep.replay_buffer import unpack
from narl.deep.shrinking_loop import choose_rows, loop_while

IMPROVEMENT = 0.01
"""Relative fall of a member's holdout error that counts as better."""
SUM_BLOCK = 1024
"""Rows that are summed at a time, whatever the capacity of the buffer."""
SORTED_SIZES = tuple(1024 * 8**i for i in range(7))
"""A shuffle sorts the smallest of these numbers of rows that is enough, or the whole buffer."""


class Data(NamedTuple):
    """Inputs [obs, action] and targets [reward, next_obs − obs] of every row."""

    inputs: Float[Array, "C I"]
    targets: Float[Array, "C O"]


class Split(NamedTuple):
    """Rows that train each member, and rows that are held out."""

    chosen: Int[Array, "M C"]
    """Row of every draw with replacement; the first ``num_train`` count."""
    num_train: Int[Array, ""]
    held: Int[Array, " K"]
    """Rows held out; the first ``num_held`` count."""
    num_held: Int[Array, ""]


class FitReport(NamedTuple):
    """Epochs and holdout errors of one fit, and the share of collapsed variances."""

    epochs: Int[Array, ""]
    holdout_error: Float[Array, " M"]
    collapsed: Float[Array, ""]
    """Share of outputs whose variance bounds have crossed (see `collapsed_share`)."""


class _Task(NamedTuple):
    """Data, scales and random key of one fit, the same in all its epochs."""

    data: Data
    scale: Scale
    num_train: Int[Array, ""]
    held: Data
    held_present: Float[Array, " K"]
    key_shuffle: UInt[Array, "2"]


class _Progress(NamedTuple):
    weights: Weights
    opt: optax.OptState
    best: Network
    """Weights and biases of every member's best epoch; the bounds have no best epoch."""
    best_error: Float[Array, " M"]
    chosen: Int[Array, "M C"]
    idle: Int[Array, ""]
    """Epochs since a member got better."""
    epoch: Int[Array, ""]


def as_data(rows: Float[Array, "C W"], obs_dim: int, config: Config) -> Data:
    """Return inputs and targets of the networks for packed transitions."""
    batch = unpack(rows, obs_dim)
    inputs = jnp.concatenate([batch.obs, batch.action], axis=-1)
    reward = symlog(batch.reward) if config.reward_transform == "symlog" else batch.reward
    targets = jnp.concatenate([reward[:, None], batch.next_obs - batch.obs], axis=-1)
    return Data(inputs, targets)


def fit_scale(inputs: Float[Array, "C I"], present: Bool[Array, " C"]) -> Scale:
    """Return mean and standard deviation of the present rows; a constant column is not scaled.

    The present rows come first.
    """
    num_rows = present.sum()
    share = present[:, None] / num_rows
    mean = _sum_rows(inputs * share, num_rows)
    std = jnp.sqrt(_sum_rows((inputs - mean) ** 2 * share, num_rows))
    # In float32 the mean of a constant is not quite that constant.
    constant = std <= 1e-5 * jnp.maximum(jnp.abs(mean), 0.1)
    return Scale(mean, jnp.where(constant, 1.0, std))


def _sum_rows(values: Float[Array, "C I"], num_rows: Int[Array, ""]) -> Float[Array, " I"]:
    """Sum the first rows, block by block; how many rows follow has no part in the rounding."""
    padded = jnp.pad(values, ((0, -values.shape[0] % SUM_BLOCK), (0, 0)))

    def add(i: Array, total: Float[Array, " I"]) -> Float[Array, " I"]:
        block = jax.lax.dynamic_slice_in_dim(padded, i * SUM_BLOCK, SUM_BLOCK)
        return total + block.sum(0)

    num_blocks = (num_rows + SUM_BLOCK - 1) // SUM_BLOCK
    return jax.lax.fori_loop(0, num_blocks, add, jnp.zeros(values.shape[1]))


def split_rows(key: PRNGKeyArray, capacity: int, num_rows: Int[Array, ""], config: Config) -> Split:
    """Draw a fresh holdout set and fresh bootstrap samples."""
    key_order, key_draw = jax.random.split(key)
    # Rows that are not there get the largest rank, so the first ``num_rows`` are a permutation.
    rank = jax.random.uniform(key_order, (capacity,))
    order = jnp.argsort(jnp.where(jnp.arange(capacity) < num_rows, rank, 2.0))
    share = (config.holdout_share * num_rows).astype(jnp.int32)
    num_held = jnp.minimum(share, config.holdout_most)
    num_train = num_rows - num_held
    draws = _per_member(
        lambda key: jax.random.randint(key, (capacity,), 0, num_train), key_draw, config.num_members
    )
    held = order[: min(config.holdout_most, capacity)]
    return Split(order[num_held + draws], num_train, held, num_held)


def _per_member(
    draw: Callable[[PRNGKeyArray], Array], key: PRNGKeyArray, members: int
) -> Shaped[Array, "M C"]:
    """Draw one row per member; the beginning of a row does not depend on its length.

    So a fit does not depend on the capacity of the buffer, that is, on how long a training will be.
    """
    return jax.vmap(draw)(jax.random.split(key, members))


def _shuffle(key: PRNGKeyArray, chosen: Int[Array, "M C"], num_train: Array) -> Int[Array, "M C"]:
    """Shuffle the order of each member's samples that count."""
    members, capacity = chosen.shape

    def shuffle_first(size: int) -> Int[Array, "M C"]:
        rank = _per_member(lambda key: jax.random.uniform(key, (size,)), key, members)
        rank = jnp.where(jnp.arange(size) < num_train, rank, 2.0)
        order = jnp.argsort(rank, axis=-1)
        return chosen.at[:, :size].set(jnp.take_along_axis(chosen[:, :size], order, axis=-1))

    sizes = [size for size in SORTED_SIZES if size < capacity] + [capacity]
    branches = [functools.partial(shuffle_first, size) for size in sizes]
    return jax.lax.switch((num_train > jnp.array(sizes)).sum(), branches)


def _train_epoch(
    progress: _Progress, data: Data, scale: Scale, num_train: Array, config: Config
) -> tuple[Weights, optax.OptState]:
    """Do one pass over each member's samples; several where they are few."""
    opt = optimiser(config)
    size = min(config.model_batch, progress.chosen.shape[1])
    padded = jnp.pad(progress.chosen, ((0, 0), (0, size)))

    def step(i: Array, now: tuple[Weights, optax.OptState]) -> tuple[Weights, optax.OptState]:
        weights, state = now
        first = (i if is_one_pass else i % num_batches) * size
        rows = jax.lax.dynamic_slice_in_dim(padded, first, size, axis=1)
        batch = data.inputs[rows], data.targets[rows]
        present = (first + jnp.arange(size) < num_train).astype(jnp.float32)
        grad = jax.grad(model_loss)(weights, scale, *batch, present, config.beta_nll)
        change, state = opt.update(grad, state)
        return optax.apply_updates(weights, change), state

    num_batches = (num_train + size - 1) // size
    is_one_pass = config.least_model_batches == 1
    num_steps = num_batches if is_one_pass else jnp.maximum(num_batches, config.least_model_batches)
    return jax.lax.fori_loop(0, num_steps, step, (progress.weights, progress.opt))


def _first_progress(ensemble: Ensemble, chosen: Int[Array, "M C"]) -> _Progress:
    """Return the state at the first epoch, with the weights of the last fit."""
    return _Progress(
        weights=ensemble.weights,
        opt=ensemble.opt,
        best=ensemble.weights.network,
        best_error=jnp.full(ensemble.holdout_error.shape, jnp.inf),
        chosen=chosen,
        idle=jnp.int32(0),
        epoch=jnp.int32(0),
    )


def _epoch(now: _Progress, task: _Task, config: Config) -> _Progress:
    """Train every member for one pass, and see which of them got better."""
    weights, opt = _train_epoch(now, task.data, task.scale, task.num_train, config)
    error = holdout_error(weights, task.scale, *task.held, task.held_present)
    better = (now.best_error - error) > IMPROVEMENT * now.best_error
    better = (better | ~jnp.isfinite(now.best_error)) & jnp.isfinite(error)
    key = jax.random.fold_in(jax.random.wrap_key_data(task.key_shuffle), now.epoch)
    return _Progress(
        weights=weights,
        opt=opt,
        best=choose_rows(better, weights.network, now.best),
        best_error=jnp.where(better, error, now.best_error),
        chosen=_shuffle(key, now.chosen, task.num_train),
        idle=jnp.where(better.any(), 0, now.idle + 1),
        epoch=now.epoch + 1,
    )


def fit_ensemble(
    key: PRNGKeyArray,
    ensemble: Ensemble,
    rows: Float[Array, "C W"],
    num_rows: Int[Array, ""],
    config: Config,
) -> tuple[Ensemble, FitReport]:
    """Fit the ensemble, from the weights of the last fit; every member keeps its best epoch.

    A member got better when its holdout error fell by more than `IMPROVEMENT`; the fit ends after
    more than ``patience`` epochs in which no member got better.
    """
    key_split, key_shuffle = jax.random.split(key)
    obs_dim = ensemble.output_std.shape[0] - 1
    data = as_data(rows, obs_dim, config)
    split = split_rows(key_split, rows.shape[0], num_rows, config)
    # The scale is that of all rows, held-out ones too: every row may start a rollout.
    present = jnp.arange(rows.shape[0]) < num_rows
    scale = fit_scale(data.inputs, present)
    target_scale, data_scale = ensemble.target_scale, fit_scale(data.targets, present)
    if config.scale_targets:
        target_scale = data_scale
        data = data._replace(targets=(data.targets - target_scale.mean) / target_scale.std)
    held = Data(data.inputs[split.held], data.targets[split.held])
    # Without held-out rows, the training rows measure the error.
    num_judged = jnp.where(split.num_held > 0, split.num_held, num_rows)
    held_present = (jnp.arange(split.held.shape[0]) < num_judged).astype(jnp.float32)
    task = _Task(data, scale, split.num_train, held, held_present, jax.random.key_data(key_shuffle))

    def goes_on(now: _Progress) -> Bool[Array, ""]:
        return (now.idle <= config.patience) & (now.epoch < config.most_model_epochs)

    first = _first_progress(ensemble, split.chosen)
    end = loop_while(goes_on, lambda now, task: _epoch(now, task, config), first, task)
    weights = end.weights._replace(network=end.best)
    trained = Ensemble(
        weights=weights,
        opt=end.opt,
        scale=scale,
        target_scale=target_scale,
        output_std=data_scale.std,
        ranked=jnp.argsort(end.best_error),
        holdout_error=end.best_error,
    )
    return trained, FitReport(end.epoch, end.best_error, collapsed_share(weights))
