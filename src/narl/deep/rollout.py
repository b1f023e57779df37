"""Branched k-step rollouts: short imagined trajectories from real states."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from narl.deep.algorithm_registry import StepRule
from narl.deep.bonus_state import BonusState
from narl.deep.config import Config
from narl.deep.ensemble import Ensemble, Prediction, predict_members
from narl.deep.networks import draw_action, mode_action
from narl.deep.optimistic_target import all_candidates
from narl.deep.replay_buffer import Replay, add_where, pack, sample, unpack
from narl.deep.sac import Batch, Sac, soft_value
from narl.deep.selection import Candidates, Selected, SelectParams
from narl.deep.termination import TerminationFn


class ReplicaParams(NamedTuple):
    """Parameters in which the replicas of one program may differ."""

    step_rule: Int[Array, ""]
    """Index of the replica's entry in `ModelContext.step_rules`."""
    numbers: Any
    """The replica's `ReplicaNumbers`."""


class ModelContext(NamedTuple):
    """Everything that imagined steps need; none of it changes during a rollout."""

    sac: Sac
    ensemble: Ensemble
    params: ReplicaParams
    is_terminal: TerminationFn
    config: Config
    step_rules: tuple[StepRule, ...]
    """The ways to select among the members that the replicas of this program use."""
    bonus_state: BonusState
    strength: Float[Array, ""] | float = 1.0
    """1 at the beginning; falls to 0 as the optimism is annealed."""
    episode_uniform: Float[Array, ""] | float = 0.0
    """A number in [0, 1) that is drawn anew for every real episode."""

    @property
    def select_params(self) -> SelectParams:
        """The parameters of a selection or a bonus."""
        return SelectParams(self.params.numbers, self.strength, self.bonus_state, self.config)


class SelectionSums(NamedTuple):
    """Sums over the imagined steps of trajectories that have not ended."""

    steps: Float[Array, ""]
    chosen: Float[Array, " M"]
    """Steps whose next observation each member gave."""
    reward_chosen: Float[Array, " M"]
    """Steps whose reward each member gave."""
    fallback: Float[Array, ""]
    """Steps in which the radius excluded every member's next observation."""
    reward_fallback: Float[Array, ""]
    """Steps in which the radius excluded every member's reward."""
    bonus: Float[Array, ""]
    """Sum of the bonuses on the reward."""
    nonfinite: Float[Array, ""]
    """Steps that were not finite; they are not stored and count in no other sum."""


class ImaginedStep(NamedTuple):
    """One step of a batch of trajectories, and how it was selected."""

    batch: Batch
    """The transitions to store; with ``optimism_at=update`` one per member."""
    selected: Selected
    """The step that the trajectory takes, its reward without the bonus."""
    done: Float[Array, " B"]
    bonus: Float[Array, " B"]


def empty_sums(members: int) -> SelectionSums:
    """Return sums over no steps."""
    zeros, zero = jnp.zeros(members), jnp.float32(0.0)
    return SelectionSums(zero, zeros, zeros, zero, zero, zero, zero)


def make_candidates(
    key: PRNGKeyArray,
    context: ModelContext,
    obs: Float[Array, "B D"],
    action: Float[Array, "B A"],
    trajectory_uniform: Float[Array, " B"],
    noisy: Bool[Array, " B"] | bool = True,
) -> Candidates:
    """Let every member predict the step: a draw of its Gaussian where ``noisy``, else its mean."""
    key_model, key_value = jax.random.split(key)
    forecast = predict_members(key_model, context.ensemble, obs, action, context.config)
    reward = jnp.where(noisy, forecast.draw.reward, forecast.mean.reward)
    is_noisy = jnp.asarray(noisy)[..., None]
    next_obs = jnp.where(is_noisy, forecast.draw.next_obs, forecast.mean.next_obs)
    prediction = Prediction(reward, next_obs)
    by_draws = context.params.numbers.score_draw
    scored = jax.tree.map(lambda a, b: jnp.where(by_draws, a, b), prediction, forecast.mean)

    def values(next_obs: Array | None = None) -> Array:
        next_obs = scored.next_obs if next_obs is None else next_obs
        return next_values(key_value, context, obs, action, next_obs)

    return Candidates(
        obs=obs,
        action=action,
        prediction=prediction,
        mean=forecast.mean,
        scored=scored,
        disagreement=forecast.disagreement,
        information=forecast.information,
        ranked=context.ensemble.ranked,
        trajectory_uniform=trajectory_uniform,
        values=values,
    )


def imagine_step(
    key: PRNGKeyArray,
    context: ModelContext,
    obs: Float[Array, "B D"],
    trajectory_uniform: Float[Array, " B"],
    *,
    deterministic: bool = False,
    noisy: Bool[Array, " B"] | bool = True,
) -> ImaginedStep:
    """Let the policy act and every member predict, then select one prediction per row.

    Predictions are draws where ``noisy`` and the configuration asks for draws, else means.
    """
    key_policy, key_model, key_select, key_bonus = jax.random.split(key, 4)
    sac, config = context.sac, context.config
    if deterministic:
        action = mode_action(sac.actor, obs, sac.discrete)
    else:
        action = draw_action(key_policy, sac.actor, obs, sac.discrete).action
    noisy = noisy if config.draw == "sample" else False
    candidates = make_candidates(key_model, context, obs, action, trajectory_uniform, noisy)
    selected, bonus = select_step(key_select, key_bonus, context, candidates)
    done = context.is_terminal(obs, action, selected.next_obs).astype(jnp.float32)
    batch = Batch(obs, action, selected.reward + bonus, selected.next_obs, done)
    if config.optimism_at == "update":
        batch = all_candidates(candidates, bonus, context.is_terminal)
    return ImaginedStep(batch, selected, done, bonus)


def select_step(
    key: PRNGKeyArray, key_bonus: PRNGKeyArray, context: ModelContext, candidates: Candidates
) -> tuple[Selected, Float[Array, " B"]]:
    """Select as the replica's algorithm does; also return its bonus."""
    params = context.select_params

    def branch(rule: StepRule) -> tuple[Selected, Float[Array, " B"]]:
        selected = rule.select(key, candidates, params)
        if rule.bonus is None:
            return selected, jnp.zeros_like(selected.reward)
        return selected, rule.bonus(key_bonus, candidates, selected, params)

    branches = [functools.partial(branch, rule) for rule in context.step_rules]
    if len(branches) == 1:
        return branches[0]()
    return jax.lax.switch(context.params.step_rule, branches)


def next_values(
    key: PRNGKeyArray,
    context: ModelContext,
    obs: Float[Array, "B D"],
    action: Float[Array, "B A"],
    next_obs: Float[Array, "K B D"],
) -> Float[Array, "K B"]:
    """Return the soft value of next states, 0 where the episode ends there.

    The noise of the policy's actions is common to the K candidates of a row, so that candidates
    that agree have equal values.
    """
    sac, numbers = context.sac, context.params.numbers
    critic = jax.tree.map(
        lambda a, b: jnp.where(numbers.value_critics_target, a, b), sac.target, sac.critic
    )
    value = soft_value(key, sac._replace(critic=critic), next_obs, context.config.value_samples)
    done = jax.vmap(lambda after: context.is_terminal(obs, action, after))(next_obs)
    return jnp.where(done, 0.0, value)


def _add_step(
    sums: SelectionSums, step: ImaginedStep, alive: Bool[Array, " B"], finite: Bool[Array, " B"]
) -> SelectionSums:
    weight = (alive & finite).astype(jnp.float32)
    members, selected = jnp.arange(sums.chosen.shape[0])[:, None], step.selected
    return SelectionSums(
        steps=sums.steps + weight.sum(),
        chosen=sums.chosen + (weight * (selected.member == members)).sum(-1),
        reward_chosen=sums.reward_chosen + (weight * (selected.reward_member == members)).sum(-1),
        fallback=sums.fallback + (weight * selected.fallback).sum(),
        reward_fallback=sums.reward_fallback + (weight * selected.reward_fallback).sum(),
        bonus=sums.bonus + jnp.where(weight > 0, step.bonus, 0.0).sum(),
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

    ``config.rollout_batch`` trajectories begin at real states drawn uniformly, a share of them
    (``recent_starts``) at states of the last epoch. ``chunk`` of them run at a time, which bounds
    the memory. A trajectory stops where it terminates. The newest ``retained`` imagined transitions
    count.
    """
    num_rollouts = context.config.rollout_batch
    obs_dim = context.sac.actor[0].w.shape[0]
    num_chunks = -(-num_rollouts // chunk)

    def one_chunk(i: Array, carry: tuple[Replay, SelectionSums]) -> tuple[Replay, SelectionSums]:
        key_start, key_steps, key_uniform = jax.random.split(jax.random.fold_in(key, i), 3)
        starts = unpack(_start_rows(key_start, context.config, real, chunk), obs_dim).obs
        # The last chunk may reach beyond the number of rollouts.
        begun = i * chunk + jnp.arange(chunk) < num_rollouts
        uniforms = draw_uniforms(key_uniform, context, chunk)

        def one_step(t: Array, carry: tuple) -> tuple:
            model, sums, obs, alive = carry
            step = imagine_step(jax.random.fold_in(key_steps, t), context, obs, uniforms)
            rows, next_obs = pack(step.batch), step.selected.next_obs
            finite = jnp.isfinite(rows).all(-1) & jnp.isfinite(next_obs).all(-1)
            kept = alive & finite
            model = add_where(model, rows, kept, retained)
            still_alive = kept & (step.done < 0.5)
            return model, _add_step(sums, step, alive, finite), next_obs, still_alive

        model, sums, _, _ = jax.lax.fori_loop(0, length, one_step, (*carry, starts, begun))
        return model, sums

    members = context.ensemble.holdout_error.shape[0]
    return jax.lax.fori_loop(0, num_chunks, one_chunk, (model, empty_sums(members)))


def _start_rows(
    key: PRNGKeyArray, config: Config, real: Replay, num_rows: int
) -> Float[Array, "B W"]:
    """Draw the real transitions at whose first state imagined trajectories begin."""
    num_recent = round(config.recent_starts * num_rows)
    if num_recent == 0:
        return sample(key, real, (num_rows,))
    key_recent, key_all = jax.random.split(key)
    newest = real._replace(size=jnp.minimum(real.size, config.epoch_length))
    recent = sample(key_recent, newest, (num_recent,))
    return jnp.concatenate([recent, sample(key_all, real, (num_rows - num_recent,))])


def draw_uniforms(key: PRNGKeyArray, context: ModelContext, num_rows: int) -> Float[Array, " B"]:
    """Return a uniform number per imagined trajectory.

    With ``one_member_per=episode`` it is the number of the real episode for all of them.
    """
    drawn = jax.random.uniform(key, (num_rows,))
    by_trajectory = context.params.numbers.one_member_per_trajectory
    return jnp.where(by_trajectory, drawn, context.episode_uniform)


def model_returns(
    key: PRNGKeyArray, context: ModelContext, starts: Float[Array, "B D"], horizon: int
) -> tuple[Float[Array, "B H"], Float[Array, "B H"]]:
    """Return the deterministic policy's Σ r inside the model after each of ``horizon`` steps.

    The first returns are under draws of the members' predictions, the second under their means. The
    rewards are without a bonus. A sum stops growing where an imagined episode terminates. All
    lengths are returned, because the environment may truncate its own episodes before the
    ``horizon``.
    """
    num_starts = starts.shape[0]
    noisy = jnp.arange(2 * num_starts) < num_starts
    uniforms = jnp.tile(draw_uniforms(jax.random.fold_in(key, horizon), context, num_starts), 2)

    def any_alive(carry: tuple) -> Array:
        t, _, alive, _, _ = carry
        return (t < horizon) & alive.any()

    def step(carry: tuple) -> tuple:
        t, obs, alive, total, sums = carry
        key_step = jax.random.fold_in(key, t)
        imagined = imagine_step(key_step, context, obs, uniforms, deterministic=True, noisy=noisy)
        selected = imagined.selected
        total = total + jnp.where(alive, selected.reward, 0.0)
        still_alive = alive & (imagined.done < 0.5) & jnp.isfinite(selected.next_obs).all(-1)
        # A trajectory that ended keeps its last finite observation while the others go on.
        obs = jnp.where(still_alive[:, None], selected.next_obs, obs)
        return t + 1, obs, still_alive, total, sums.at[:, t].set(total)

    alive = jnp.ones(2 * num_starts, bool)
    total, sums = jnp.zeros(2 * num_starts), jnp.zeros((2 * num_starts, horizon))
    begin = (jnp.int32(0), jnp.tile(starts, (2, 1)), alive, total, sums)
    num_steps, _, _, total, sums = jax.lax.while_loop(any_alive, step, begin)
    sums = jnp.where(jnp.arange(horizon) < num_steps, sums, total[:, None])
    return sums[:num_starts], sums[num_starts:]
