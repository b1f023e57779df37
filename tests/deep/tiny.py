"""Networks, ensembles and configurations so small that their outputs are known exactly."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from narl.deep.algorithm_registry import step_rule_of
from narl.deep.bonus_state import init_bonus_state
from narl.deep.config import Config
from narl.deep.ensemble import Ensemble, Scale, Weights
from narl.deep.ensemble import optimiser as model_optimiser
from narl.deep.networks import Layer
from narl.deep.rollout import ModelContext, ReplicaParams
from narl.deep.sac import Sac
from narl.deep.sac import optimiser as sac_optimiser
from narl.deep.selection import replica_numbers
from narl.deep.termination import never

CONFIG = Config(
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


def tiny_config(**changes):
    """Return a configuration whose training takes moments, with some fields changed."""
    return dataclasses.replace(CONFIG, **changes)


def layer(w, b):
    """Return a layer of a network in float32."""
    return Layer(jnp.asarray(w, jnp.float32), jnp.asarray(b, jnp.float32))


def affine_actor(mean_w, mean_b, log_std=0.0):
    """Return a policy without hidden layers: mean obs @ mean_w + mean_b, constant log std."""
    mean_w, mean_b = np.asarray(mean_w, float), np.asarray(mean_b, float)
    w = np.concatenate([mean_w, np.zeros_like(mean_w)], axis=1)
    return (layer(w, np.concatenate([mean_b, np.full_like(mean_b, log_std)])),)


def affine_critic(w, b):
    """Return twin critics without hidden layers: Q_i = [obs, action] · w[i] + b[i]."""
    return (layer(np.asarray(w, float)[..., None], np.asarray(b, float)[..., None]),)


def make_sac(actor, critic, target=None, alpha=1.0, config=CONFIG):
    """Return an agent of these networks and this temperature; the target is the critic's copy."""
    log_alpha, opt = jnp.log(jnp.float32(alpha)), sac_optimiser(config)
    return Sac(
        actor=actor,
        critic=critic,
        target=critic if target is None else target,
        log_alpha=log_alpha,
        actor_opt=opt.init(actor),
        critic_opt=opt.init(critic),
        alpha_opt=opt.init(log_alpha),
    )


def sac_with_value(slope):
    """Return an agent for one-dimensional states in which the value of a state s is slope · s."""
    critic = affine_critic([[slope, 0.0]] * 2, [0.0, 0.0])
    return make_sac(affine_actor([[0.0]], [0.0]), critic, alpha=1e-30)


def affine_ensemble(matrices, offsets, logvar=-60.0):
    """Return members whose mean is [obs, action] @ matrices[m] + offsets[m], exactly.

    The activation is swish, and swish(x) − swish(−x) = x. The default variance is 0 in float32.
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
    bound = jnp.full(num_outputs, 100.0)
    weights = Weights(network, bound, -bound)
    return Ensemble(
        weights=weights,
        opt=model_optimiser(CONFIG).init(weights),
        scale=Scale(jnp.zeros(num_inputs), jnp.ones(num_inputs)),
        target_scale=Scale(jnp.zeros(num_outputs), jnp.ones(num_outputs)),
        output_std=jnp.ones(num_outputs),
        ranked=jnp.arange(members),
        holdout_error=jnp.zeros(members),
    )


def constant_ensemble(outputs, logvar=-60.0):
    """Return members that predict [reward, change of a one-dimensional state] for every input."""
    outputs = np.asarray(outputs, float)
    return affine_ensemble(np.zeros((outputs.shape[0], 2, 2)), outputs, logvar)


def numbers_of(radius=np.inf, num_elites=1, **options):
    """Return the numbers of a selection, as arrays; the options are those of a configuration.

    By default the radius excludes on both sides, as the paper's text says.
    """
    numbers = replica_numbers([tiny_config(**{"exclude": "ball", **options})])
    numbers = jax.tree.map(lambda x: jnp.asarray(x[0]), numbers)
    return numbers._replace(radius=jnp.float32(radius), num_elites=jnp.int32(num_elites))


def replica_params(step_rule=0, radius=np.inf, num_elites=1, **options):
    """Return the parameters in which replicas may differ."""
    return ReplicaParams(jnp.int32(step_rule), numbers_of(radius, num_elites, **options))


def make_context(
    ensemble,
    sac=None,
    params=None,
    step_rules="narl",
    is_terminal=never,
    config=CONFIG,
    strength=1.0,
):
    """Return what imagined steps need; by default NARL's, and the value of a state s is s."""
    if isinstance(step_rules, str):
        step_rules = (step_rule_of(tiny_config(algo=step_rules)),)
    params = replica_params() if params is None else params
    sac = sac_with_value(1.0) if sac is None else sac
    state = init_bonus_state(sac.actor)
    return ModelContext(
        sac, ensemble, params, is_terminal, config, step_rules, state, jnp.float32(strength)
    )


def assert_same(a, b):
    """Check that two trees are equal to the last bit, leaf by leaf."""
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))


def differs(a, b):
    """Return whether any leaf of two trees differs."""
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return any(not np.array_equal(np.asarray(x), np.asarray(y)) for x, y in pairs)
