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
"""Weight of Σ max_logvar − Σ min_logvar, which draws the bounds together."""


class Scale(NamedTuple):
    """Mean and standard deviation of the networks' inputs or targets."""

    mean: Float[Array, " I"]
    std: Float[Array, " I"]


class Weights(NamedTuple):
    """Parameters that gradient descent changes; the member axis leads."""

    network: Network
    max_logvar: Float[Array, "M O"]
    min_logvar: Float[Array, "M O"]


class Ensemble(NamedTuple):
    """The ensemble: weights of all members, optimiser, scales and accuracy."""

    weights: Weights
    opt: optax.OptState
    scale: Scale
    target_scale: Scale
    """Scale of the targets; mean 0 and deviation 1 without `scale_targets`."""
    ranked: Int[Array, " M"]
    """The members by their holdout error, best first: the elite ones lead."""
    holdout_error: Float[Array, " M"]
    """Mean squared error of each member on the data held out at the last training."""


class Gaussian(NamedTuple):
    """A predicted distribution of [reward, next_obs − obs]."""

    mean: Float[Array, "M B O"]
    logvar: Float[Array, "M B O"]


class Prediction(NamedTuple):
    """Reward and next observation that every member predicts."""

    reward: Float[Array, "M B"]
    next_obs: Float[Array, "M B D"]


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
    bounds = jnp.ones((config.num_members, num_outputs))
    weights = Weights(network, 0.5 * bounds, -10.0 * bounds)
    return Ensemble(
        weights=weights,
        opt=optimiser(config).init(weights),
        scale=Scale(jnp.zeros(num_inputs), jnp.ones(num_inputs)),
        target_scale=Scale(jnp.zeros(num_outputs), jnp.ones(num_outputs)),
        ranked=jnp.arange(config.num_members),
        holdout_error=jnp.full(config.num_members, jnp.inf, jnp.float32),
    )


def predict(
    weights: Weights, scale: Scale, inputs: Float[Array, "M B I"] | Float[Array, "B I"]
) -> Gaussian:
    """Return mean and log variance of every member for its own inputs (or for the same ones)."""
    x = (inputs - scale.mean) / scale.std
    members = weights.max_logvar.shape[0]
    if x.ndim == 2:
        x = jnp.broadcast_to(x, (members, *x.shape))
    mean, raw = jnp.split(apply_network(weights.network, x, jax.nn.swish), 2, axis=-1)
    high, low = weights.max_logvar[:, None], weights.min_logvar[:, None]
    logvar = high - jax.nn.softplus(high - raw)
    return Gaussian(mean, low + jax.nn.softplus(logvar - low))


def model_loss(
    weights: Weights,
    scale: Scale,
    inputs: Float[Array, "M B I"],
    targets: Float[Array, "M B O"],
    present: Float[Array, " B"],
) -> Float[Array, ""]:
    """Return negative log-likelihood, bounds and weight decay, summed over the members.

    ``present`` is 0 for the rows that only fill up the last batch.
    """
    given = predict(weights, scale, inputs)
    error = (given.mean - targets) ** 2 * jnp.exp(-given.logvar) + given.logvar
    likelihood = (error.mean(-1) * present).sum(-1) / present.sum()
    bounds = (weights.max_logvar - weights.min_logvar).sum()
    layers = zip(decays(len(weights.network) - 1), weights.network, strict=True)
    decay = sum(0.5 * rate * (layer.w**2).sum() for rate, layer in layers)
    return likelihood.sum() + BOUND_WEIGHT * bounds + decay


def holdout_error(
    weights: Weights,
    scale: Scale,
    inputs: Float[Array, "B I"],
    targets: Float[Array, "B O"],
    present: Float[Array, " B"],
) -> Float[Array, " M"]:
    """Return the mean squared error of every member's mean."""
    error = ((predict(weights, scale, inputs).mean - targets) ** 2).mean(-1)
    return (error * present).sum(-1) / jnp.maximum(present.sum(), 1.0)


@implements("sec:6.1-ensemble")
def sample_members(
    key: PRNGKeyArray,
    ensemble: Ensemble,
    obs: Float[Array, "B D"],
    action: Float[Array, "B A"],
    draw: str = "sample",
) -> Prediction:
    """Draw one prediction from every member, or take every member's ``mean``."""
    inputs = jnp.concatenate([obs, action], axis=-1)
    given = predict(ensemble.weights, ensemble.scale, inputs)
    output = given.mean
    if draw == "sample":
        noise = jax.random.normal(key, output.shape)
        output = output + jnp.exp(0.5 * given.logvar) * noise
    output = output * ensemble.target_scale.std + ensemble.target_scale.mean
    return Prediction(output[..., 0], obs + output[..., 1:])
