"""An ensemble of probabilistic networks that predicts reward and next observation (§6.1)."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from narl.deep.config import Config
from narl.deep.networks import Network, apply_network, init_network, truncated_normal
from narl.paper import implements

DECAY = (2.5e-5, 5e-5, 7.5e-5, 7.5e-5, 1e-4)
"""MBPO's weight decay of each layer; with other depths the middle value serves between."""
BOUND_WEIGHT = 0.01
"""Weight of Σ max_logvar − Σ min_logvar, which draws the shared bounds together."""
BLOCK, GPU_BLOCK = 256, 1024
"""Held-out rows whose outputs are predicted at a time; more on a GPU, where small kernels wait."""


class Scale(NamedTuple):
    """Mean and standard deviation of the networks' inputs or targets."""

    mean: Float[Array, " I"]
    std: Float[Array, " I"]


class Weights(NamedTuple):
    """Parameters that gradient descent changes; the member axis leads in the network."""

    network: Network
    max_logvar: Float[Array, " O"]
    """Upper bound of the log variances, shared by the members as in MBPO."""
    min_logvar: Float[Array, " O"]


class Ensemble(NamedTuple):
    """The ensemble: weights of all members, optimiser, scales and accuracy."""

    weights: Weights
    opt: optax.OptState
    scale: Scale
    target_scale: Scale
    """Scale of the networks' outputs; mean 0 and deviation 1 without `scale_targets`."""
    output_std: Float[Array, " O"]
    """Standard deviation of [reward, next_obs − obs] over the data: the unit of disagreement."""
    ranked: Int[Array, " M"]
    """The members by their holdout error, best first: the elite ones lead."""
    holdout_error: Float[Array, " M"]
    """Mean squared error of each member on the data held out at the last training."""


class Gaussian(NamedTuple):
    """A predicted distribution of [reward, next_obs − obs]."""

    mean: Float[Array, "M B O"]
    logvar: Float[Array, "M B O"]


class Prediction(NamedTuple):
    """Reward and next observation that every member predicts.

    Example:
        >>> prediction = narl.deep.Prediction(reward=np.zeros((3, 5)), next_obs=np.zeros((3, 5, 2)))
        >>> prediction.reward.shape  # 3 members, 5 steps
        (3, 5)
    """

    reward: Float[Array, "M B"]
    """The reward of each step, by member."""
    next_obs: Float[Array, "M B D"]
    """The next observation of each step, by member."""


class Forecast(NamedTuple):
    """Predictions of all members for a batch of steps, and how far the members disagree."""

    mean: Prediction
    draw: Prediction
    """One draw from every member's Gaussian."""
    disagreement: Float[Array, " B"]
    """σ: standard deviation of the members' means, in units of the data, averaged over outputs."""
    information: Float[Array, " B"]
    """log(1 + epistemic variance / aleatoric variance), averaged over outputs."""


def symlog(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return sign(x)·log(1 + |x|), which is close to x near 0 and grows slowly."""
    return jnp.sign(x) * jnp.log1p(jnp.abs(x))


def symexp(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return the number whose `symlog` is x; |x| beyond 30 counts as 30, which stays finite."""
    return jnp.sign(x) * jnp.expm1(jnp.minimum(jnp.abs(x), 30.0))


def optimiser(config: Config) -> optax.GradientTransformation:
    """Return Adam with the models' learning rate."""
    return optax.adam(config.model_learning_rate)


def decays(depth: int) -> tuple[float, ...]:
    """Return the weight decay of each of the ``depth + 1`` layers."""
    if depth + 1 == len(DECAY):
        return DECAY
    middle = (DECAY[2],) * max(depth - 2, 0)
    return (DECAY[0], DECAY[1], *middle)[:depth] + (DECAY[-1],)


def init_ensemble(key: PRNGKeyArray, obs_dim: int, action_dim: int, config: Config) -> Ensemble:
    """Return untrained members that differ in their first weights."""
    num_inputs, num_outputs = obs_dim + action_dim, obs_dim + 1
    sizes = (num_inputs, *(config.model_width,) * config.model_depth, 2 * num_outputs)
    keys = jax.random.split(key, config.num_members)
    network = jax.vmap(lambda k: init_network(k, sizes, truncated_normal))(keys)
    bounds = jnp.ones(num_outputs)
    weights = Weights(network, 0.5 * bounds, -10.0 * bounds)
    return Ensemble(
        weights=weights,
        opt=optimiser(config).init(weights),
        scale=Scale(jnp.zeros(num_inputs), jnp.ones(num_inputs)),
        target_scale=Scale(jnp.zeros(num_outputs), jnp.ones(num_outputs)),
        output_std=jnp.ones(num_outputs),
        ranked=jnp.arange(config.num_members),
        holdout_error=jnp.full(config.num_members, jnp.inf, jnp.float32),
    )


def predict(
    weights: Weights, scale: Scale, inputs: Float[Array, "M B I"] | Float[Array, "B I"]
) -> Gaussian:
    """Return mean and log variance of every member for its own inputs (or for the same ones)."""
    outputs = _outputs(weights.network, scale, inputs)
    return _gaussian(outputs, weights.max_logvar, weights.min_logvar)


def _on_cpu() -> bool:
    return jax.default_backend() == "cpu"


def _outputs(
    network: Network, scale: Scale, inputs: Float[Array, "M B I"] | Float[Array, "B I"]
) -> Float[Array, "M B P"]:
    x = (inputs - scale.mean) / scale.std
    if x.ndim == 2:
        x = jnp.broadcast_to(x, (network[0].w.shape[0], *x.shape))
    return apply_network(network, x, jax.nn.swish, short_chain=not _on_cpu())


def _gaussian(
    outputs: Float[Array, "M B P"], high: Float[Array, " O"], low: Float[Array, " O"]
) -> Gaussian:
    mean, raw = jnp.split(outputs, 2, axis=-1)
    logvar = high - jax.nn.softplus(high - raw)
    return Gaussian(mean, low + jax.nn.softplus(logvar - low))


def model_loss(
    weights: Weights,
    scale: Scale,
    inputs: Float[Array, "M B I"],
    targets: Float[Array, "M B O"],
    present: Float[Array, " B"],
    beta: float = 0.0,
) -> Float[Array, ""]:
    """Return negative log-likelihood and weight decay, summed over the members, and the bounds.

    The weight of the bounds stands once against the likelihoods of all members, as in MBPO.
    ``present`` is 0 for the rows that only fill up the last batch. With ``beta`` every error is
    weighted by the predicted variance to this power (β-NLL, Seitzer et al. 2022): the likelihood
    alone explains rare large rewards by a large variance and never learns their mean. The weight of
    an output's bounds shrinks with that of its errors.
    """
    outputs = _outputs(weights.network, scale, inputs)
    high, low = weights.max_logvar, weights.min_logvar

    def loss(outputs: Array, high: Array, low: Array) -> Array:
        return _likelihood(_gaussian(outputs, high, low), high - low, targets, present, beta)

    layers = zip(decays(len(weights.network) - 1), weights.network, strict=True)
    decay = sum(0.5 * rate * (layer.w**2).sum() for rate, layer in layers)
    if _on_cpu():
        return loss(outputs, high, low) + decay
    # The gradient of the bounds is a sum over all rows. Behind the barrier it is computed beside
    # the gradient of the outputs, for which the layers wait.
    fixed = jax.lax.stop_gradient
    beside = loss(jax.lax.optimization_barrier(fixed(outputs)), high, low)
    return loss(outputs, fixed(high), fixed(low)) + (beside - fixed(beside)) + decay


def _likelihood(
    given: Gaussian,
    bounds: Float[Array, " O"],
    targets: Float[Array, "M B O"],
    present: Float[Array, " B"],
    beta: float,
) -> Float[Array, ""]:
    error = (given.mean - targets) ** 2 * jnp.exp(-given.logvar) + given.logvar
    if beta > 0.0:
        importance = jax.lax.stop_gradient(jnp.exp(beta * given.logvar))
        share = present[:, None] / (present.sum() * given.mean.shape[0])
        error, bounds = error * importance, bounds * (importance * share).sum((0, 1))
    likelihood = (error.mean(-1) * present).sum(-1) / present.sum()
    return likelihood.sum() + BOUND_WEIGHT * bounds.sum()


def holdout_error(
    weights: Weights,
    scale: Scale,
    inputs: Float[Array, "B I"],
    targets: Float[Array, "B O"],
    present: Float[Array, " B"],
) -> Float[Array, " M"]:
    """Return the mean squared error of every member's mean.

    The present rows come first. Only the blocks of rows that hold some of them are predicted.
    """
    size = min(BLOCK if _on_cpu() else GPU_BLOCK, inputs.shape[0])

    def predict_block(i: Array, means: Float[Array, "M B O"]) -> Float[Array, "M B O"]:
        block = jax.lax.dynamic_slice_in_dim(inputs, i * size, size)
        mean = predict(weights, scale, block).mean
        return jax.lax.dynamic_update_slice_in_dim(means, mean, i * size, axis=1)

    num_blocks = jnp.ceil(present.sum() / size).astype(jnp.int32)
    means = jnp.zeros((weights.network[0].w.shape[0], *targets.shape))
    means = jax.lax.fori_loop(0, num_blocks, predict_block, means)
    error = ((means - targets) ** 2).mean(-1)
    return (error * present).sum(-1) / jnp.maximum(present.sum(), 1.0)


def collapsed_share(weights: Weights) -> Float[Array, ""]:
    """Return the share of outputs whose upper bound has fallen below the lower one.

    The variance of such an output is a constant, and its network gets no gradient.
    """
    return (weights.max_logvar < weights.min_logvar).mean()


@implements("sec:6.1-ensemble")
def predict_members(
    key: PRNGKeyArray,
    ensemble: Ensemble,
    obs: Float[Array, "B D"],
    action: Float[Array, "B A"],
    config: Config,
) -> Forecast:
    """Return mean and a draw of every member's prediction, and how far the members disagree."""
    inputs = jnp.concatenate([obs, action], axis=-1)
    given = predict(ensemble.weights, ensemble.scale, inputs)
    scale = ensemble.target_scale
    noise = jax.random.normal(key, given.mean.shape)
    drawn = given.mean + jnp.exp(0.5 * given.logvar) * noise
    epistemic = (given.mean * scale.std).std(0)
    aleatoric = jnp.exp(given.logvar).mean(0) * scale.std**2

    def native(output: Float[Array, "M B O"]) -> Prediction:
        output = output * scale.std + scale.mean
        reward = output[..., 0]
        if config.reward_transform == "symlog":
            reward = symexp(reward)
        return Prediction(reward, obs + output[..., 1:])

    information = jnp.log1p(epistemic**2 / jnp.maximum(aleatoric, 1e-12))

    def mean(output: Float[Array, "B O"]) -> Float[Array, " B"]:
        # XLA fuses a sum, but not a product, with what follows: so the result has the same bits
        # in every program, whatever else the program holds.
        share = jnp.full(output.shape[-1], 1.0 / output.shape[-1])
        return jnp.dot(output, share, precision="highest")

    disagreement, information = mean(epistemic / ensemble.output_std), mean(information)
    return Forecast(native(given.mean), native(drawn), disagreement, information)
