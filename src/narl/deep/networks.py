"""Networks as plain functions over nested tuples: multilayer perceptron, actor, twin critic.

The actor of discrete actions gives a logit per action, and its critics a value per action. Actions
are then vectors of 0 and a single 1 (see `narl.deep.spaces`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

LOG_STD_RANGE = (-20.0, 2.0)
"""Range to which the actor's log standard deviation is clipped, as in SAC's reference code."""


class Layer(NamedTuple):
    """An affine map; leading axes are independent copies of it (members, twins)."""

    w: Float[Array, "*C I O"]
    b: Float[Array, "*C O"]


class NormalisedLayer(NamedTuple):
    """An affine map whose outputs are normalised: mean 0 and variance 1 over the outputs."""

    w: Float[Array, "*C I O"]
    b: Float[Array, "*C O"]


Network = tuple[Layer | NormalisedLayer, ...]
Initialiser = Callable[[PRNGKeyArray, int, int], Float[Array, "I O"]]


def glorot(key: PRNGKeyArray, fan_in: int, fan_out: int) -> Float[Array, "I O"]:
    """Draw weights uniformly, with variance 2/(fan_in + fan_out)."""
    bound = math.sqrt(6.0 / (fan_in + fan_out))
    return jax.random.uniform(key, (fan_in, fan_out), minval=-bound, maxval=bound)


def truncated_normal(key: PRNGKeyArray, fan_in: int, fan_out: int) -> Float[Array, "I O"]:
    """Draw weights of N(0, 1/(4 fan_in)), cut at two standard deviations, as MBPO's models do."""
    draw = jax.random.truncated_normal(key, -2.0, 2.0, (fan_in, fan_out))
    return draw / (2.0 * math.sqrt(fan_in))


def init_network(
    key: PRNGKeyArray, sizes: Sequence[int], initialiser: Initialiser = glorot
) -> Network:
    """Return layers between consecutive ``sizes``, with biases of 0."""
    keys = jax.random.split(key, len(sizes) - 1)
    pairs = zip(keys, sizes[:-1], sizes[1:], strict=True)
    return tuple(Layer(initialiser(k, i, o), jnp.zeros(o)) for k, i, o in pairs)


def apply_network(
    network: Network,
    x: Float[Array, "*C B I"],
    activation: Callable[[Array], Array] = jax.nn.relu,
    short_chain: bool = False,
) -> Float[Array, "*C B O"]:
    """Return the network's output; the last layer is affine.

    With ``short_chain`` fewer kernels of the gradient wait for another one. On a GPU that makes the
    fits of an ensemble quicker, but not the updates of SAC, which has networks side by side.
    """
    add, multiply = (add_bias, jnp.matmul) if short_chain else (_plain_sum, narrow_product)
    for layer in network[:-1]:
        x = add(x @ layer.w, layer.b)
        x = activation(normalise(x) if isinstance(layer, NormalisedLayer) else x)
    return add(multiply(x, network[-1].w), network[-1].b)


def _plain_sum(x: Float[Array, "*C B O"], b: Float[Array, "*C O"]) -> Float[Array, "*C B O"]:
    return x + b[..., None, :]


@jax.custom_vjp
def add_bias(x: Float[Array, "*C B O"], b: Float[Array, "*C O"]) -> Float[Array, "*C B O"]:
    """Return x + b. In its gradient the sum over the rows is a kernel of its own.

    Few blocks of threads compute that sum, and the layer below need not wait for it. It has no
    derivative in forward mode (`jax.jvp`).
    """
    return _plain_sum(x, b)


def _bias_forward(x: Array, b: Array) -> tuple[Array, None]:
    return _plain_sum(x, b), None


def _bias_backward(_: None, ct: Array) -> tuple[Array, Array]:
    return ct, jax.lax.optimization_barrier(ct).sum(-2)


add_bias.defvjp(_bias_forward, _bias_backward)


def normalise(x: Float[Array, "*C O"]) -> Float[Array, "*C O"]:
    """Return x with mean 0 and variance 1 over the last axis (layer normalisation)."""
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-6)


@jax.custom_vjp
def narrow_product(x: Float[Array, "*C B I"], w: Float[Array, "*C I O"]) -> Float[Array, "*C B O"]:
    """Return x @ w for few outputs O, with a gradient that is quick on a CPU.

    The gradient for w is computed as the transpose of ctᵀ @ x: xᵀ @ ct, a wide matrix times a
    narrow one, takes five times as long. The barrier keeps the compiler from undoing the change.
    """
    return x @ w


def _narrow_forward(x: Array, w: Array) -> tuple[Array, tuple[Array, Array]]:
    return x @ w, (x, w)


def _narrow_backward(saved: tuple[Array, Array], ct: Array) -> tuple[Array, Array]:
    x, w = saved
    grad = jax.lax.optimization_barrier(ct.mT @ x)
    return ct @ w.mT, grad.mT


narrow_product.defvjp(_narrow_forward, _narrow_backward)


class ActionGaussian(NamedTuple):
    """A Gaussian before it is squashed by tanh."""

    mean: Float[Array, "B A"]
    log_std: Float[Array, "B A"]


class Drawn(NamedTuple):
    """An action in (−1, 1) and the logarithm of its density."""

    action: Float[Array, "B A"]
    log_prob: Float[Array, " B"]


def init_actor(
    key: PRNGKeyArray,
    obs_dim: int,
    action_dim: int,
    hidden: Sequence[int],
    discrete: bool = False,
) -> Network:
    """Return the policy's network: mean and log standard deviation, or logit, of every action."""
    return init_network(key, (obs_dim, *hidden, action_dim if discrete else 2 * action_dim))


def action_gaussian(actor: Network, obs: Float[Array, "B D"]) -> ActionGaussian:
    """Return the Gaussian of π(·|obs) before the tanh."""
    mean, log_std = jnp.split(apply_network(actor, obs), 2, axis=-1)
    return ActionGaussian(mean, jnp.clip(log_std, *LOG_STD_RANGE))


def squash(given: ActionGaussian, noise: Float[Array, "B A"]) -> Drawn:
    """Return the action tanh(mean + std·noise) and its log density.

    log(1 − tanh(u)²) = 2(log 2 − u − softplus(−2u)) stays finite where tanh is 1 in float32.
    """
    u = given.mean + jnp.exp(given.log_std) * noise
    gaussian = -0.5 * noise**2 - given.log_std - 0.5 * math.log(2.0 * math.pi)
    volume = 2.0 * (math.log(2.0) - u - jax.nn.softplus(-2.0 * u))
    return Drawn(jnp.tanh(u), (gaussian - volume).sum(-1))


def action_log_probs(actor: Network, obs: Float[Array, "B D"]) -> Float[Array, "B A"]:
    """Return log π(a|obs) of every discrete action."""
    return jax.nn.log_softmax(apply_network(actor, obs))


def draw_action(
    key: PRNGKeyArray, actor: Network, obs: Float[Array, "B D"], discrete: bool = False
) -> Drawn:
    """Draw an action a ~ π(·|obs) per observation."""
    if discrete:
        log_probs = action_log_probs(actor, obs)
        action = jax.nn.one_hot(jax.random.categorical(key, log_probs), log_probs.shape[-1])
        return Drawn(action, (action * log_probs).sum(-1))
    given = action_gaussian(actor, obs)
    return squash(given, jax.random.normal(key, given.mean.shape))


def mode_action(
    actor: Network, obs: Float[Array, "B D"], discrete: bool = False
) -> Float[Array, "B A"]:
    """Return the action of a policy that is evaluated: tanh(mean), or the most likely one."""
    if discrete:
        logits = apply_network(actor, obs)
        return jax.nn.one_hot(logits.argmax(-1), logits.shape[-1])
    return jnp.tanh(action_gaussian(actor, obs).mean)


def init_critic(
    key: PRNGKeyArray,
    obs_dim: int,
    action_dim: int,
    hidden: Sequence[int],
    discrete: bool = False,
    normalised: bool = False,
) -> Network:
    """Return twin critics, stacked along a leading axis of 2."""
    sizes = (obs_dim, *hidden, action_dim) if discrete else (obs_dim + action_dim, *hidden, 1)
    critic = jax.vmap(lambda k: init_network(k, sizes))(jax.random.split(key, 2))
    if not normalised:
        return critic
    return (*(NormalisedLayer(*layer) for layer in critic[:-1]), critic[-1])


def twin_values(
    critic: Network, obs: Float[Array, "B D"], action: Float[Array, "B A"]
) -> Float[Array, "2 B"]:
    """Return the values Q_1(s,a) and Q_2(s,a)."""
    if values_all_actions(critic, obs.shape[-1]):
        return (all_twin_values(critic, obs) * action).sum(-1)
    x = jnp.concatenate([obs, action], axis=-1)
    return apply_network(critic, jnp.broadcast_to(x, (2, *x.shape)))[..., 0]


def all_twin_values(critic: Network, obs: Float[Array, "B D"]) -> Float[Array, "2 B A"]:
    """Return the values Q_1(s,a) and Q_2(s,a) of every discrete action."""
    return apply_network(critic, jnp.broadcast_to(obs, (2, *obs.shape)))


def values_all_actions(critic: Network, obs_dim: int) -> bool:
    """Return whether critics give a value per discrete action: actions are not among the inputs."""
    return critic[0].w.shape[-2] == obs_dim
