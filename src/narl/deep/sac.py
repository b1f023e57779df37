"""Soft actor-critic: losses, the soft value of App. E, and many updates in one scan.

Expectations over discrete actions are exact sums (Christodoulou 2019); those over continuous
actions are estimated from drawn actions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from narl.deep.config import Config
from narl.deep.networks import (
    Network,
    action_gaussian,
    action_log_probs,
    all_twin_values,
    init_actor,
    init_critic,
    squash,
    twin_values,
    values_all_actions,
)
from narl.paper import implements


class Batch(NamedTuple):
    """Transitions; ``done`` is 1 where the episode terminated (not at a time limit).

    With ``optimism_at=update`` reward, next_obs and done have a further axis: one entry per member.
    """

    obs: Float[Array, "B D"]
    action: Float[Array, "B A"]
    reward: Float[Array, "B *M"]
    next_obs: Float[Array, "B *M D"]
    done: Float[Array, "B *M"]


ChooseFn = Callable[[Array, Array], tuple[Array, Array]]
"""Chooses a reward and a value per row from those of M candidates, each of shape [M, B]."""
DrawChooseFn = Callable[[PRNGKeyArray, Array, Array], tuple[Array, Array]]
"""A `ChooseFn` whose choice is drawn with a key."""


class Sac(NamedTuple):
    """Networks, temperature and optimisers: everything that an update changes."""

    actor: Network
    critic: Network
    target: Network
    log_alpha: Float[Array, ""]
    actor_opt: optax.OptState
    critic_opt: optax.OptState
    alpha_opt: optax.OptState

    @property
    def discrete(self) -> bool:
        """Whether actions are discrete; the shapes of the networks tell."""
        return values_all_actions(self.critic, self.actor[0].w.shape[-2])


class Losses(NamedTuple):
    """Losses and other figures of an update."""

    critic_loss: Float[Array, ""]
    actor_loss: Float[Array, ""]
    alpha_loss: Float[Array, ""]
    temperature: Float[Array, ""]
    entropy: Float[Array, ""]
    """−log π(a|s), averaged over the batch; of discrete actions the expectation over a."""
    q_value: Float[Array, ""]
    """Mean of both critics on the batch."""


class Noise(NamedTuple):
    """Standard normal draws behind the actions of one update; empty for discrete actions."""

    target: Float[Array, "B A"]
    actor: Float[Array, "B A"]


def draw_noise(key: PRNGKeyArray, shape: tuple[int, int]) -> Noise:
    """Draw the normal noise of one update."""
    key_target, key_actor = jax.random.split(key)
    return Noise(jax.random.normal(key_target, shape), jax.random.normal(key_actor, shape))


def optimiser(config: Config) -> optax.GradientTransformation:
    """Return Adam, for actor, critics and temperature alike."""
    return optax.adam(config.learning_rate)


def init_sac(
    key: PRNGKeyArray, obs_dim: int, action_dim: int, config: Config, discrete: bool = False
) -> Sac:
    """Return fresh networks; the target critics begin as copies of the critics."""
    key_actor, key_critic = jax.random.split(key)
    actor = init_actor(key_actor, obs_dim, action_dim, config.hidden, discrete)
    normalised = config.critic_norm == "layer"
    critic = init_critic(key_critic, obs_dim, action_dim, config.hidden, discrete, normalised)
    log_alpha = jnp.log(jnp.float32(config.initial_temperature))
    opt = optimiser(config)
    target = jax.tree.map(jnp.copy, critic)
    return Sac(
        actor, critic, target, log_alpha, opt.init(actor), opt.init(critic), opt.init(log_alpha)
    )


def expected_value(
    actor: Network, critic: Network, alpha: Float[Array, ""], obs: Float[Array, "B D"]
) -> tuple[Float[Array, " B"], Float[Array, " B"]]:
    """Return Σ_a π(a|s)·(min_i Q_i(s,a) − α log π(a|s)) over discrete actions; and E log π(a|s)."""
    log_probs = action_log_probs(actor, obs)
    probs, q = jnp.exp(log_probs), all_twin_values(critic, obs).min(0)
    return (probs * (q - alpha * log_probs)).sum(-1), (probs * log_probs).sum(-1)


@implements("app:e")
def soft_value(
    key: PRNGKeyArray, sac: Sac, obs: Float[Array, "*K B D"], num_samples: int = 1
) -> Float[Array, "*K B"]:
    """Estimate V(s) = E_{a∼π}[min_i Q_i(s,a) − α log π(a|s)] from ``num_samples`` actions.

    A leading axis is one of candidates: the noise of the actions is common to them. The value of
    discrete actions is exact.
    """
    alpha, flat = jnp.exp(sac.log_alpha), obs.reshape(-1, obs.shape[-1])
    if sac.discrete:
        return expected_value(sac.actor, sac.critic, alpha, flat)[0].reshape(obs.shape[:-1])
    gaussian = action_gaussian(sac.actor, flat)

    def once(key: PRNGKeyArray) -> Array:
        noise = jax.random.normal(key, (obs.shape[-2], gaussian.mean.shape[-1]))
        noise = jnp.broadcast_to(noise, (*obs.shape[:-1], noise.shape[-1]))
        drawn = squash(gaussian, noise.reshape(gaussian.mean.shape))
        value = twin_values(sac.critic, flat, drawn.action).min(0) - alpha * drawn.log_prob
        return value.reshape(obs.shape[:-1])

    if num_samples == 1:
        return once(key)
    return jax.lax.map(once, jax.random.split(key, num_samples)).mean(0)


def td_target(
    noise: Float[Array, "B A"],
    sac: Sac,
    batch: Batch,
    config: Config,
    choose: ChooseFn | None = None,
) -> Float[Array, " B"]:
    """Return r + γ(1 − done)·[min_i Q'_i(s',a') − α log π(a'|s')] with the target critics.

    Of several candidates per row ``choose`` takes the reward and the value, as ESPI does.
    """
    alpha = jnp.exp(sac.log_alpha)

    def following(next_obs: Float[Array, "B D"]) -> Float[Array, " B"]:
        if sac.discrete:
            return expected_value(sac.actor, sac.target, alpha, next_obs)[0]
        drawn = squash(action_gaussian(sac.actor, next_obs), noise)
        return twin_values(sac.target, next_obs, drawn.action).min(0) - alpha * drawn.log_prob

    if choose is None:
        return batch.reward + config.discount * (1.0 - batch.done) * following(batch.next_obs)
    values = jax.vmap(following, in_axes=1)(batch.next_obs)
    reward, value = choose(batch.reward.T, (1.0 - batch.done.T) * values)
    return reward + config.discount * value


def critic_loss(
    critic: Network, batch: Batch, target: Float[Array, " B"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Return ½ E[(Q_i − target)²], summed over the twins; and the mean value."""
    q = twin_values(critic, batch.obs, batch.action)
    return 0.5 * ((q - target) ** 2).mean(-1).sum(), q.mean()


def actor_loss(
    actor: Network,
    noise: Float[Array, "B A"],
    critic: Network,
    log_alpha: Float[Array, ""],
    obs: Float[Array, "B D"],
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Return E[α log π(a|s) − min_i Q_i(s,a)]; and the mean log density."""
    if values_all_actions(critic, obs.shape[-1]):
        value, log_prob = expected_value(actor, critic, jnp.exp(log_alpha), obs)
        return -value.mean(), log_prob.mean()
    drawn = squash(action_gaussian(actor, obs), noise)
    q = twin_values(critic, obs, drawn.action).min(0)
    return (jnp.exp(log_alpha) * drawn.log_prob - q).mean(), drawn.log_prob.mean()


def alpha_loss(
    log_alpha: Float[Array, ""], log_prob: Float[Array, ""], target_entropy: float
) -> Float[Array, ""]:
    """Return −log α·(E log π + target entropy): α grows while the policy has too little entropy."""
    return -log_alpha * (log_prob + target_entropy)


def update(
    noise: Noise,
    sac: Sac,
    batch: Batch,
    config: Config,
    choose: ChooseFn | None = None,
) -> tuple[Sac, Losses]:
    """Update the critics, then the actor, then the temperature, then the target."""
    opt = optimiser(config)
    target = td_target(noise.target, sac, batch, config, choose)
    (loss_q, q_value), grad = jax.value_and_grad(critic_loss, has_aux=True)(
        sac.critic, batch, target
    )
    step, critic_opt = opt.update(grad, sac.critic_opt)
    critic = optax.apply_updates(sac.critic, step)
    (loss_pi, log_prob), grad = jax.value_and_grad(actor_loss, has_aux=True)(
        sac.actor, noise.actor, critic, sac.log_alpha, batch.obs
    )
    step, actor_opt = opt.update(grad, sac.actor_opt)
    actor = optax.apply_updates(sac.actor, step)
    loss_alpha, grad = jax.value_and_grad(alpha_loss)(
        sac.log_alpha, log_prob, config.entropy_target(batch.action.shape[-1], sac.discrete)
    )
    step, alpha_opt = opt.update(grad, sac.alpha_opt)
    log_alpha = optax.apply_updates(sac.log_alpha, step)
    moved = optax.incremental_update(critic, sac.target, config.polyak)
    losses = Losses(loss_q, loss_pi, loss_alpha, jnp.exp(sac.log_alpha), -log_prob, q_value)
    return Sac(actor, critic, moved, log_alpha, actor_opt, critic_opt, alpha_opt), losses


def update_many(
    key: PRNGKeyArray,
    sac: Sac,
    batches: Batch,
    config: Config,
    choose: DrawChooseFn | None = None,
) -> tuple[Sac, Losses]:
    """Do one update per leading entry of ``batches``, in order, and average the losses."""
    num_updates, num_rows, action_dim = batches.action.shape
    keys = jax.random.split(key, num_updates)
    shape = num_rows, 0 if sac.discrete else action_dim
    # All draws before the loop: in it they would be many small kernels.
    noise = jax.vmap(lambda k: draw_noise(k, shape))(keys)

    def body(sac: Sac, item: tuple[Noise, Batch, Array]) -> tuple[Sac, Losses]:
        noise, batch, key = item
        drawn = None if choose is None else functools.partial(choose, jax.random.fold_in(key, 2))
        return update(noise, sac, batch, config, drawn)

    sac, losses = jax.lax.scan(body, sac, (noise, batches, keys))
    return sac, jax.tree.map(jnp.mean, losses)
