"""Branched k-step rollouts: short imagined trajectories from real states."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from narl.deep.ensemble import Ensemble, Prediction, imagine
from narl.deep.networks import draw_action, mode_action
from narl.deep.replay_buffer import Replay, add_where, pack, sample, unpack
from narl.deep.sac import Batch, Sac, soft_value
from narl.deep.selection import (
    OPTIMISTIC,
    Selected,
    SelectionSettings,
    select_elite,
    select_optimistic,
)

Ends = Callable[[Array, Array, Array], Bool[Array, " B"]]
"""(obs, action, next_obs) → whether the episode terminates."""


class Lane(NamedTuple):
    """What may differ between lanes of one program."""

    selector: Int[Array, ""]
    """`selection.RANDOM` or `selection.OPTIMISTIC`."""
    radius: Float[Array, ""]
    """ε_M; infinity for none."""
    num_elites: Int[Array, ""]
    """Members that RANDOM draws from."""


class Dream(NamedTuple):
    """What imagined steps need; nothing of it changes on the way."""

    sac: Sac
    ensemble: Ensemble
    lane: Lane
    ends: Ends
    selection: SelectionSettings
    discount: float
    selector: int | None = None
    """That of all lanes, where they share one: then nothing is computed for the other."""


class Selections(NamedTuple):
    """Sums over the imagined steps of living trajectories."""

    steps: Float[Array, ""]
    chosen: Float[Array, " M"]
    """How often each member gave the next state."""
    reward_chosen: Float[Array, " M"]
    """… and the reward."""
    distance: Float[Array, " M"]
    """‖ŝ'_m − mean_m ŝ'‖₂."""
    value_distance: Float[Array, " M"]
    """|V(ŝ'_m) − mean_m V|, 0 where the selection looks at no values."""
    fallback: Float[Array, ""]
    """Steps in which the radius excluded every member."""
    nonfinite: Float[Array, ""]
    """Steps that were not finite; they count nowhere else and are not stored."""


class Imagined(NamedTuple):
    """One step of a batch of trajectories."""

    batch: Batch
    member: Int[Array, " B"]
    reward_member: Int[Array, " B"]
    fallback: Bool[Array, " B"]
    distance: Float[Array, "M B"]
    value_distance: Float[Array, "M B"]


def no_selections(members: int) -> Selections:
    zero = jnp.zeros(members)
    none = jnp.float32(0.0)
    return Selections(none, zero, zero, zero, zero, none, none)


def imagined_step(
    key: PRNGKeyArray, dream: Dream, obs: Float[Array, "B D"], *, deterministic: bool = False
) -> Imagined:
    """The policy acts, every member predicts, one prediction is taken."""
    key_policy, key_model, key_value, key_select = jax.random.split(key, 4)
    if deterministic:
        action = mode_action(dream.sac.actor, obs)
    else:
        action = draw_action(key_policy, dream.sac.actor, obs).action
    prediction = imagine(key_model, dream.ensemble, obs, action, dream.selection.draw)

    def by_optimism() -> tuple[Selected, Array]:
        values = next_values(key_value, dream, obs, action, prediction)
        selected = select_optimistic(
            key_select, prediction, values, dream.lane.radius, dream.selection, dream.discount
        )
        return selected, jnp.abs(values - values.mean(0))

    def by_chance() -> tuple[Selected, Array]:
        selected = select_elite(
            key_select, prediction, dream.ensemble.ranked, dream.lane.num_elites
        )
        return selected, jnp.zeros(prediction.reward.shape)

    if dream.selector is None:
        selected, value_distance = jax.lax.cond(
            dream.lane.selector == OPTIMISTIC, by_optimism, by_chance
        )
    else:
        selected, value_distance = by_optimism() if dream.selector == OPTIMISTIC else by_chance()
    done = dream.ends(obs, action, selected.next_obs).astype(jnp.float32)
    away = prediction.next_obs - prediction.next_obs.mean(0)
    return Imagined(
        Batch(obs, action, selected.reward, selected.next_obs, done),
        selected.member,
        selected.reward_member,
        selected.fallback,
        jnp.sqrt((away**2).sum(-1)),
        value_distance,
    )


def next_values(
    key: PRNGKeyArray,
    dream: Dream,
    obs: Float[Array, "B D"],
    action: Float[Array, "B A"],
    prediction: Prediction,
) -> Float[Array, "M B"]:
    """The soft value of every member's next state, 0 where the episode ends there."""
    members, num_rows, obs_dim = prediction.next_obs.shape
    flat = prediction.next_obs.reshape(-1, obs_dim)
    value = soft_value(key, dream.sac, flat, dream.selection.value_samples)
    done = jax.vmap(lambda following: dream.ends(obs, action, following))(prediction.next_obs)
    return jnp.where(done, 0.0, value.reshape(members, num_rows))


def _tally(
    sums: Selections, now: Imagined, alive: Bool[Array, " B"], finite: Bool[Array, " B"]
) -> Selections:
    weight = (alive & finite).astype(jnp.float32)
    members = jnp.arange(sums.chosen.shape[0])[:, None]
    return Selections(
        steps=sums.steps + weight.sum(),
        chosen=sums.chosen + (weight * (now.member == members)).sum(-1),
        reward_chosen=sums.reward_chosen + (weight * (now.reward_member == members)).sum(-1),
        distance=sums.distance + jnp.where(weight > 0, now.distance, 0.0).sum(-1),
        value_distance=sums.value_distance + jnp.where(weight > 0, now.value_distance, 0.0).sum(-1),
        fallback=sums.fallback + (weight * now.fallback).sum(),
        nonfinite=sums.nonfinite + (alive & ~finite).sum(),
    )


def branch(
    key: PRNGKeyArray,
    dream: Dream,
    real: Replay,
    model: Replay,
    length: Int[Array, ""],
    retained: Int[Array, ""] | int,
    num_rollouts: int,
    chunk: int,
) -> tuple[Replay, Selections]:
    """``num_rollouts`` trajectories of ``length`` steps, begun at real states drawn uniformly.

    The newest ``retained`` imagined transitions count.

    A trajectory that terminates goes no further. They run ``chunk`` at a time, to bound memory.
    """
    obs_dim = dream.sac.actor[0].w.shape[0]
    num_chunks = -(-num_rollouts // chunk)

    def one_chunk(i: Array, now: tuple[Replay, Selections]) -> tuple[Replay, Selections]:
        key_start, key_steps = jax.random.split(jax.random.fold_in(key, i))
        starts = unpack(sample(key_start, real, (chunk,)), obs_dim).obs
        # The last chunk may reach beyond what was asked for.
        begun = i * chunk + jnp.arange(chunk) < num_rollouts

        def one_step(t: Array, now: tuple) -> tuple:
            model, sums, obs, alive = now
            step = imagined_step(jax.random.fold_in(key_steps, t), dream, obs)
            finite = jnp.isfinite(step.batch.next_obs).all(-1) & jnp.isfinite(step.batch.reward)
            kept = alive & finite
            model = add_where(model, pack(step.batch), kept, retained)
            going_on = kept & (step.batch.done < 0.5)
            return model, _tally(sums, step, alive, finite), step.batch.next_obs, going_on

        model, sums, _, _ = jax.lax.fori_loop(0, length, one_step, (*now, starts, begun))
        return model, sums

    members = dream.ensemble.holdout_error.shape[0]
    return jax.lax.fori_loop(0, num_chunks, one_chunk, (model, no_selections(members)))


def imagined_returns(
    key: PRNGKeyArray, dream: Dream, starts: Float[Array, "B D"], horizon: int
) -> Float[Array, "B H"]:
    """Σ r of the deterministic policy inside the model, from ``starts`` until it terminates.

    After every step: the environment may cut its own episodes before the ``horizon``.
    """

    def go_on(now: tuple) -> Array:
        t, _, alive, _, _ = now
        return (t < horizon) & alive.any()

    def step(now: tuple) -> tuple:
        t, obs, alive, total, sums = now
        moved = imagined_step(jax.random.fold_in(key, t), dream, obs, deterministic=True)
        total = total + jnp.where(alive, moved.batch.reward, 0.0)
        going_on = alive & (moved.batch.done < 0.5) & jnp.isfinite(moved.batch.next_obs).all(-1)
        # A trajectory that ended stays where it was, finite, while the others go on.
        obs = jnp.where(going_on[:, None], moved.batch.next_obs, obs)
        return t + 1, obs, going_on, total, sums.at[:, t].set(total)

    alive = jnp.ones(starts.shape[0], bool)
    total, sums = jnp.zeros(starts.shape[0]), jnp.zeros((starts.shape[0], horizon))
    end = jax.lax.while_loop(go_on, step, (jnp.int32(0), starts, alive, total, sums))
    num_steps, _, _, total, sums = end
    return jnp.where(jnp.arange(horizon) < num_steps, sums, total[:, None])
