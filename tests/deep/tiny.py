"""Networks, models and settings so small that their answers can be worked out by hand."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from narl.deep.config import Settings
from narl.deep.ensemble import Ensemble, ModelSettings, Scale, Weights
from narl.deep.ensemble import optimiser as model_optimiser
from narl.deep.networks import Layer
from narl.deep.rollout import Dream, Lane
from narl.deep.sac import Sac, SacSettings
from narl.deep.sac import optimiser as sac_optimiser
from narl.deep.selection import OPTIMISTIC, SelectionSettings
from narl.deep.termination import never

SAC = SacSettings(target_entropy=-1.0, hidden=(4,))


def layer(w, b):
    return Layer(jnp.asarray(w, jnp.float32), jnp.asarray(b, jnp.float32))


def affine_actor(mean_w, mean_b, log_std=0.0):
    """A policy without hidden layers: mean = obs @ mean_w + mean_b, log std constant."""
    mean_w, mean_b = np.asarray(mean_w, float), np.asarray(mean_b, float)
    w = np.concatenate([mean_w, np.zeros_like(mean_w)], axis=1)
    return (layer(w, np.concatenate([mean_b, np.full_like(mean_b, log_std)])),)


def affine_critic(w, b):
    """Twins without hidden layers: Q_i = [obs, action] · w[i] + b[i]."""
    return (layer(np.asarray(w, float)[..., None], np.asarray(b, float)[..., None]),)


def make_sac(actor, critic, target=None, alpha=1.0, settings=SAC):
    log_alpha = jnp.log(jnp.float32(alpha))
    opt = sac_optimiser(settings)
    return Sac(
        actor=actor,
        critic=critic,
        target=critic if target is None else target,
        log_alpha=log_alpha,
        actor_opt=opt.init(actor),
        critic_opt=opt.init(critic),
        alpha_opt=opt.init(log_alpha),
    )


def affine_ensemble(matrices, offsets, logvar=-60.0):
    """Members whose mean is [obs, action] @ matrices[m] + offsets[m], exactly.

    The activation is swish, and swish(x) − swish(−x) = x.
    """
    matrices, offsets = np.asarray(matrices, float), np.asarray(offsets, float)
    members, num_inputs, num_outputs = matrices.shape
    pair = np.concatenate([np.eye(num_inputs), -np.eye(num_inputs)], axis=1)
    mean_w = np.concatenate([matrices, -matrices], axis=1)
    raw = np.broadcast_to(logvar, (members, num_outputs))
    network = (
        layer(np.stack([pair] * members), np.zeros((members, 2 * num_inputs))),
        layer(
            np.concatenate([mean_w, np.zeros_like(mean_w)], axis=2),
            np.concatenate([offsets, raw], axis=1),
        ),
    )
    bound = jnp.full((members, num_outputs), 100.0)
    weights = Weights(network, bound, -bound)
    return Ensemble(
        weights=weights,
        opt=model_optimiser(ModelSettings()).init(weights),
        scale=Scale(jnp.zeros(num_inputs), jnp.ones(num_inputs)),
        target_scale=Scale(jnp.zeros(num_outputs), jnp.ones(num_outputs)),
        ranked=jnp.arange(members),
        holdout_error=jnp.zeros(members),
    )


def constant_ensemble(outputs, obs_dim=1, action_dim=1, logvar=-60.0):
    """Members that predict [reward, change] whatever the input."""
    outputs = np.asarray(outputs, float)
    zeros = np.zeros((outputs.shape[0], obs_dim + action_dim, obs_dim + 1))
    return affine_ensemble(zeros, outputs, logvar)


def make_dream(ensemble, sac=None, *, selector=OPTIMISTIC, radius=np.inf, ends=never, **selection):
    """Obs and action of one number each unless ``sac`` says otherwise; the value of s is s."""
    if sac is None:
        actor = affine_actor([[0.0]], [0.0])
        sac = make_sac(actor, affine_critic([[1.0, 0.0]] * 2, [0.0, 0.0]), alpha=1e-30)
    members = ensemble.ranked.shape[0]
    lane = Lane(jnp.int32(selector), jnp.float32(radius), jnp.int32(members))
    return Dream(sac, ensemble, lane, ends, SelectionSettings(**selection), discount=0.99)


SETTINGS = Settings(
    env="tiny",
    steps=40,
    epoch_length=10,
    initial_steps=10,
    learn_after=10,
    updates_per_step=2,
    batch=8,
    real_share=0.25,
    hidden=(8,),
    members=2,
    model_every=5,
    model_width=6,
    model_depth=2,
    model_batch=16,
    most_model_epochs=3,
    rollout_batch=16,
    rollout_schedule=(0, 2, 1, 3),
    termination="never",
    eval_horizon=7,
)


def tiny_settings(**changes):
    return dataclasses.replace(SETTINGS, **changes)


def assert_same(a, b):
    """Equal to the last bit, leaf by leaf."""
    leaves_a, leaves_b = jax.tree.leaves(a), jax.tree.leaves(b)
    assert len(leaves_a) == len(leaves_b)
    for x, y in zip(leaves_a, leaves_b, strict=True):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))


def differs(a, b):
    """Whether any leaf differs."""
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return any(not np.array_equal(np.asarray(x), np.asarray(y)) for x, y in pairs)
