"""When an imagined episode terminates, learned from data where no function is known."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from narl.deep.ensemble import Scale
from narl.deep.ensemble_fit import fit_scale
from narl.deep.networks import Network, apply_network, init_network
from narl.deep.replay_buffer import unpack

HIDDEN = (128, 128)
LEARNING_RATE = 1e-3
BATCH = 256
NUM_STEPS = 400
"""Gradient steps at every training of the ensemble, from where the last ended."""


SURE = 1e3
"""The offset where every row is terminal."""


class Ending(NamedTuple):
    """A classifier of (obs, action, next_obs): does the episode terminate there?"""

    network: Network
    opt: optax.OptState
    scale: Scale
    offset: Float[Array, ""]
    """½ log(terminal rows / other rows), −∞ while none has been seen."""


def init_ending(key: PRNGKeyArray, obs_dim: int, action_dim: int) -> Ending:
    """A classifier that says "never"."""
    num_inputs = 2 * obs_dim + action_dim
    network = init_network(key, (num_inputs, *HIDDEN, 1))
    scale = Scale(jnp.zeros(num_inputs), jnp.ones(num_inputs))
    return Ending(network, optax.adam(LEARNING_RATE).init(network), scale, jnp.float32(-jnp.inf))


def _logits(network: Network, scale: Scale, inputs: Float[Array, "B I"]) -> Float[Array, " B"]:
    return apply_network(network, (inputs - scale.mean) / scale.std)[..., 0]


def ends(
    ending: Ending,
    obs: Float[Array, "B D"],
    action: Float[Array, "B A"],
    next_obs: Float[Array, "B D"],
) -> Bool[Array, " B"]:
    """Whether the episode terminates with this step, or the state is no longer finite."""
    inputs = jnp.concatenate([obs, action, next_obs], axis=-1)
    likely = _logits(ending.network, ending.scale, inputs) + ending.offset > 0.0
    return likely | ~jnp.isfinite(next_obs).all(-1)


def fit_ending(
    key: PRNGKeyArray,
    ending: Ending,
    rows: Float[Array, "C W"],
    num_rows: Int[Array, ""],
    obs_dim: int,
) -> Ending:
    """Logistic regression on batches of which half is terminal.

    Terminal transitions are rare (one per episode), so that plain batches would hardly hold any.
    The offset undoes half of the balance, in log odds: undoing none ends too many episodes, undoing
    all of it overlooks a tenth of the ends.
    """
    batch = unpack(rows, obs_dim)
    inputs = jnp.concatenate([batch.obs, batch.action, batch.next_obs], axis=-1)
    present = jnp.arange(rows.shape[0]) < num_rows
    terminal = present & (batch.done > 0.5)
    num_terminal = terminal.sum()
    # Terminal rows first, then the others that are there, then the empty ones.
    order = jnp.argsort(jnp.where(terminal, 0, jnp.where(present, 1, 2)))
    scale = fit_scale(inputs, present)
    opt = optax.adam(LEARNING_RATE)
    half = BATCH // 2

    def loss(network: Network, x: Array) -> Array:
        logits = _logits(network, scale, x)
        return jax.nn.softplus(-logits[:half]).mean() + jax.nn.softplus(logits[half:]).mean()

    def step(now: tuple[Network, optax.OptState], key: PRNGKeyArray) -> tuple[tuple, None]:
        network, state = now
        key_yes, key_no = jax.random.split(key)
        yes = jax.random.randint(key_yes, (half,), 0, jnp.maximum(num_terminal, 1))
        no = jax.random.randint(key_no, (half,), jnp.minimum(num_terminal, num_rows - 1), num_rows)
        x = inputs[order[jnp.concatenate([yes, no])]]
        change, state = opt.update(jax.grad(loss)(network, x), state)
        return (optax.apply_updates(network, change), state), None

    keys = jax.random.split(key, NUM_STEPS)
    (network, state), _ = jax.lax.scan(step, (ending.network, ending.opt), keys)
    seen = num_terminal > 0
    others = num_rows - num_terminal
    half_odds = 0.5 * jnp.log(num_terminal / jnp.maximum(others, 1))
    offset = jnp.where(others > 0, half_odds, SURE)
    offset = jnp.where(seen, offset, -jnp.inf)
    trained = Ending(network, state, scale, offset)
    # Without a terminal row there is nothing to tell apart: the weights stay as they are.
    return jax.tree.map(lambda new, old: jnp.where(seen, new, old), trained, ending)
