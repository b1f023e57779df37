"""Branched k-step rollouts: short imagined trajectories from real states."""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from narl.deep.algorithm_registry import StepRule
from narl.deep.config import Config
from narl.deep.ensemble import Ensemble, Prediction, sample_members
from narl.deep.networks import draw_action, mode_action
from narl.deep.replay_buffer import Replay, add_where, pack, sample, unpack
from narl.deep.sac import Batch, Sac, soft_value
from narl.deep.selection import Candidates, Selected, SelectParams
from narl.deep.termination import TerminationFn


class ReplicaParams(NamedTuple):
    """Parameters in which the replicas of one program may differ."""

    step_rule: Int[Array, ""]
    """Index of the replica's entry in `ModelContext.step_rules`."""
    radius: Float[Array, ""]
    """Model radius ε_M; infinity for none."""
    num_elites: Int[Array, ""]
    """Members from which MBPO draws."""


class ModelContext(NamedTuple):
    """Everything that imagined steps need; none of it changes during a rollout."""

    sac: Sac
    ensemble: Ensemble
    params: ReplicaParams
    is_terminal: TerminationFn
    config: Config
    step_rules: tuple[StepRule, ...]
    """The ways to select among the members that the replicas of this program use."""


class SelectionSums(NamedTuple):
    """Sums over the imagined steps of trajectories that have not ended."""

    steps: Float[Array, ""]
    chosen: Float[Array, " M"]
    """Steps whose next observation each member gave."""
    reward_chosen: Float[Array, " M"]
    """Steps whose reward each member gave."""
    distance: Float[Array, " M"]
    """Sum of the distances ‖ŝ'_m − mean_m ŝ'‖₂."""
    value_distance: Float[Array, " M"]
    """Sum of |V(ŝ'_m) − mean_m V|; 0 where the selection looks at no values."""
    fallback: Float[Array, ""]
    """Steps in which the radius excluded every member."""
    nonfinite: Float[Array, ""]
    """Steps that were not finite; they are not stored and count in no other sum."""


class ImaginedStep(NamedTuple):
    """One step of a batch of trajectories, and how it was selected."""

    batch: Batch
    member: Int[Array, " B"]
    reward_member: Int[Array, " B"]
    fallback: Bool[Array, " B"]
    distance: Float[Array, "M B"]
    value_distance: Float[Array, "M B"]


def empty_sums(members: int) -> SelectionSums:
    """Return sums over no steps."""
    zeros, zero = jnp.zeros(members), jnp.float32(0.0)
    return SelectionSums(zero, zeros, zeros, zeros, zeros, zero, zero)


def imagine_step(
    key: PRNGKeyArray,
    context: ModelContext,
    obs: Float[Array, "B D"],
    *,
    deterministic: bool = False,
) -> ImaginedStep:
    """Let the policy act and every member predict, then select one prediction per row."""
    key_policy, key_model, key_value, key_select = jax.random.split(key, 4)
    actor, config = context.sac.actor, context.config
    if deterministic:
        action = mode_action(actor, obs)
    else:
        action = draw_action(key_policy, actor, obs).action
    prediction = sample_members(key_model, context.ensemble, obs, action, config.draw)
    candidates = Candidates(
        obs,
        action,
        prediction,
        context.ensemble.ranked,
        values=lambda: next_values(key_value, context, obs, action, prediction),
    )
    selected, value_distance = _select(key_select, context, candidates)
    done = context.is_terminal(obs, action, selected.next_obs).astype(jnp.float32)
    offset = prediction.next_obs - prediction.next_obs.mean(0)
    return ImaginedStep(
        Batch(obs, action, selected.reward, selected.next_obs, done),
        selected.member,
        selected.reward_member,
        selected.fallback,
        jnp.sqrt((offset**2).sum(-1)),
        value_distance,
    )


def _select(
    key: PRNGKeyArray, context: ModelContext, candidates: Candidates
) -> tuple[Selected, Float[Array, "M B"]]:
    """Select as the replica's algorithm does; also return the distances of the members' values."""
    replica = context.params
    params = SelectParams(replica.radius, replica.num_elites, context.config)

    def branch(rule: StepRule) -> tuple[Selected, Float[Array, "M B"]]:
        selected = rule.select(key, candidates, params)
        if rule.bonus is not None:
            reward = selected.reward + rule.bonus(candidates, params)
            selected = selected._replace(reward=reward)
        values = selected.values
        if values is None:
            value_distance = jnp.zeros(candidates.prediction.reward.shape)
        else:
            value_distance = jnp.abs(values - values.mean(0))
        return selected._replace(values=None), value_distance

    branches = [functools.partial(branch, rule) for rule in context.step_rules]
    if len(branches) == 1:
        return branches[0]()
    return jax.lax.switch(replica.step_rule, branches)


def next_values(
    key: PRNGKeyArray,
    context: ModelContext,
    obs: Float[Array, "B D"],
    action: Float[Array, "B A"],
    prediction: Prediction,
) -> Float[Array, "M B"]:
    """Return the soft value of every member's next state, 0 where the episode ends there."""
    members, num_rows, obs_dim = prediction.next_obs.shape
    flat = prediction.next_obs.reshape(-1, obs_dim)
    value = soft_value(key, context.sac, flat, context.config.value_samples)
    done = jax.vmap(lambda next_obs: context.is_terminal(obs, action, next_obs))(
        prediction.next_obs
    )
    return jnp.where(done, 0.0, value.reshape(members, num_rows))


def _add_step(
    sums: SelectionSums, step: ImaginedStep, alive: Bool[Array, " B"], finite: Bool[Array, " B"]
) -> SelectionSums:
    weight = (alive & finite).astype(jnp.float32)
    members = jnp.arange(sums.chosen.shape[0])[:, None]
    value_distance = jnp.where(weight > 0, step.value_distance, 0.0)
    return SelectionSums(
        steps=sums.steps + weight.sum(),
        chosen=sums.chosen + (weight * (step.member == members)).sum(-1),
        reward_chosen=sums.reward_chosen + (weight * (step.reward_member == members)).sum(-1),
        distance=sums.distance + jnp.where(weight > 0, step.distance, 0.0).sum(-1),
        value_distance=sums.value_distance + value_distance.sum(-1),
        fallback=sums.fallback + (weight * step.fallback).sum(),
        nonfinite=sums.nonfinite + (alive & ~finite).sum(),
    )


def branched_rollouts(
    key: PRNGKeyArray,
    context: ModelContext,
    real: Replay,
    model: Replay,
    length: Int[Array, ""],
    retained: Int[Array, ""] | int,
    chunk: int,
) -> tuple[Replay, SelectionSums]:
    """Add imagined trajectories of ``length`` steps to the ``model`` buffer.

    ``config.rollout_batch`` trajectories begin at real states drawn uniformly; ``chunk`` of them
    run at a time to bound memory. A trajectory stops where it terminates. The newest ``retained``
    imagined transitions count.
    """
    num_rollouts = context.config.rollout_batch
    obs_dim = context.sac.actor[0].w.shape[0]
    num_chunks = -(-num_rollouts // chunk)

    def one_chunk(i: Array, carry: tuple[Replay, SelectionSums]) -> tuple[Replay, SelectionSums]:
        key_start, key_steps = jax.random.split(jax.random.fold_in(key, i))
        starts = unpack(sample(key_start, real, (chunk,)), obs_dim).obs
        # The last chunk may reach beyond the number of rollouts.
        begun = i * chunk + jnp.arange(chunk) < num_rollouts

        def one_step(t: Array, carry: tuple) -> tuple:
            model, sums, obs, alive = carry
            step = imagine_step(jax.random.fold_in(key_steps, t), context, obs)
            finite = jnp.isfinite(step.batch.next_obs).all(-1) & jnp.isfinite(step.batch.reward)
            kept = alive & finite
            model = add_where(model, pack(step.batch), kept, retained)
            still_alive = kept & (step.batch.done < 0.5)
            return model, _add_step(sums, step, alive, finite), step.batch.next_obs, still_alive

        model, sums, _, _ = jax.lax.fori_loop(0, length, one_step, (*carry, starts, begun))
        return model, sums

    members = context.ensemble.holdout_error.shape[0]
    return jax.lax.fori_loop(0, num_chunks, one_chunk, (model, empty_sums(members)))


def model_returns(
    key: PRNGKeyArray, context: ModelContext, starts: Float[Array, "B D"], horizon: int
) -> Float[Array, "B H"]:
    """Return the deterministic policy's Σ r inside the model after each of ``horizon`` steps.

    The sum stops growing where an imagined episode terminates. All lengths are returned, because
    the environment may truncate its own episodes before the ``horizon``.
    """

    def any_alive(carry: tuple) -> Array:
        t, _, alive, _, _ = carry
        return (t < horizon) & alive.any()

    def step(carry: tuple) -> tuple:
        t, obs, alive, total, sums = carry
        imagined = imagine_step(jax.random.fold_in(key, t), context, obs, deterministic=True).batch
        total = total + jnp.where(alive, imagined.reward, 0.0)
        still_alive = alive & (imagined.done < 0.5) & jnp.isfinite(imagined.next_obs).all(-1)
        # A trajectory that ended keeps its last finite observation while the others go on.
        obs = jnp.where(still_alive[:, None], imagined.next_obs, obs)
        return t + 1, obs, still_alive, total, sums.at[:, t].set(total)

    alive = jnp.ones(starts.shape[0], bool)
    total, sums = jnp.zeros(starts.shape[0]), jnp.zeros((starts.shape[0], horizon))
    end = jax.lax.while_loop(any_alive, step, (jnp.int32(0), starts, alive, total, sums))
    num_steps, _, _, total, sums = end
    return jnp.where(jnp.arange(horizon) < num_steps, sums, total[:, None])
