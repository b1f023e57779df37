"""Learned termination of imagined episodes, for environments whose rule is not known."""

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
"""Gradient steps at every training of the ensemble; they continue the steps before."""
CERTAIN = 1e3
"""Offset of the logits where every row is terminal."""


class TerminationModel(NamedTuple):
    """A classifier of (obs, action, next_obs): does the episode terminate there?"""

    network: Network
    opt: optax.OptState
    scale: Scale
    offset: Float[Array, ""]
    """½ log(terminal rows / other rows); −∞ while there has been no terminal row."""


def init_termination_model(key: PRNGKeyArray, obs_dim: int, action_dim: int) -> TerminationModel:
    """Return a classifier that predicts no termination at all."""
    num_inputs = 2 * obs_dim + action_dim
    network = init_network(key, (num_inputs, *HIDDEN, 1))
    scale = Scale(jnp.zeros(num_inputs), jnp.ones(num_inputs))
    opt = optax.adam(LEARNING_RATE).init(network)
    return TerminationModel(network, opt, scale, jnp.float32(-jnp.inf))


def _logits(network: Network, scale: Scale, inputs: Float[Array, "B I"]) -> Float[Array, " B"]:
    return apply_network(network, (inputs - scale.mean) / scale.std)[..., 0]


def predict_termination(
    model: TerminationModel,
    obs: Float[Array, "B D"],
    action: Float[Array, "B A"],
    next_obs: Float[Array, "B D"],
) -> Bool[Array, " B"]:
    """Return whether each step terminates its episode; a state that is not finite does."""
    inputs = jnp.concatenate([obs, action, next_obs], axis=-1)
    likely = _logits(model.network, model.scale, inputs) + model.offset > 0.0
    return likely | ~jnp.isfinite(next_obs).all(-1)


def fit_termination_model(
    key: PRNGKeyArray,
    model: TerminationModel,
    rows: Float[Array, "C W"],
    num_rows: Int[Array, ""],
    obs_dim: int,
) -> TerminationModel:
    """Return the model after logistic regression on batches of which half is terminal.

    Terminal transitions are rare (at most one per episode), so that uniform batches would hardly
    contain any. The classifier trains on balanced batches; at prediction time we correct half of
    the resulting bias (in log-odds). Without the correction too many episodes are ended, and
    correcting all of it overlooks a tenth of the terminal transitions.
    """
    batch = unpack(rows, obs_dim)
    inputs = jnp.concatenate([batch.obs, batch.action, batch.next_obs], axis=-1)
    present = jnp.arange(rows.shape[0]) < num_rows
    terminal = present & (batch.done > 0.5)
    num_terminal = terminal.sum()
    # Terminal rows first, then all other rows that are filled, then the empty ones.
    order = jnp.argsort(jnp.where(terminal, 0, jnp.where(present, 1, 2)))
    scale = fit_scale(inputs, present)
    opt = optax.adam(LEARNING_RATE)
    half = BATCH // 2

    def loss(network: Network, x: Array) -> Array:
        logits = _logits(network, scale, x)
        return jax.nn.softplus(-logits[:half]).mean() + jax.nn.softplus(logits[half:]).mean()

    def step(carry: tuple[Network, optax.OptState], key: PRNGKeyArray) -> tuple[tuple, None]:
        network, opt_state = carry
        key_terminal, key_other = jax.random.split(key)
        first_other = jnp.minimum(num_terminal, num_rows - 1)
        terminal_rows = jax.random.randint(key_terminal, (half,), 0, jnp.maximum(num_terminal, 1))
        other_rows = jax.random.randint(key_other, (half,), first_other, num_rows)
        x = inputs[order[jnp.concatenate([terminal_rows, other_rows])]]
        change, opt_state = opt.update(jax.grad(loss)(network, x), opt_state)
        return (optax.apply_updates(network, change), opt_state), None

    keys = jax.random.split(key, NUM_STEPS)
    (network, opt_state), _ = jax.lax.scan(step, (model.network, model.opt), keys)
    any_terminal = num_terminal > 0
    num_other = num_rows - num_terminal
    half_odds = 0.5 * jnp.log(num_terminal / jnp.maximum(num_other, 1))
    offset = jnp.where(num_other > 0, half_odds, CERTAIN)
    offset = jnp.where(any_terminal, offset, -jnp.inf)
    trained = TerminationModel(network, opt_state, scale, offset)
    # Without a terminal row there is nothing to tell apart: the weights stay as they are.
    return jax.tree.map(lambda new, old: jnp.where(any_terminal, new, old), trained, model)
