"""Diagnostics of the ensemble after each fit: what the members believe, and who would be chosen.

The same sample of steps serves every algorithm, so that algorithms can be compared, and every
radius of Fig. 2, so that radii are compared on the same predictions. A radius excludes members as
the options of the training say; an algorithm without these options has their defaults.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray

from narl.deep.bonus_state import BonusState, finite_mean
from narl.deep.ensemble import predict_members
from narl.deep.networks import draw_action
from narl.deep.replay_buffer import Replay, sample, unpack
from narl.deep.rollout import ModelContext, draw_uniforms, make_candidates, select_step
from narl.deep.selection import Candidates, choose_members
from narl.paper import implements

NUM_STEPS = 1000
"""Imagined steps on which the members are compared."""
RADII = (0.1, 5.0, float("inf"))
"""The model radii of Fig. 2; infinity: none."""
_LARGEST_LOG_WEIGHT = 5.0
_ROUNDING = 1e-5
"""Relative error of a value, at most."""


class FitDiagnostics(NamedTuple):
    """The members after one fit, on one-step predictions of their means from real states."""

    holdout_error: Float[Array, " M"]
    distance: Float[Array, " M"]
    """Mean distance ‖ŝ'_m − mean_m ŝ'‖₂."""
    reward_distance: Float[Array, " M"]
    """Mean |r_m − mean_m r|."""
    value_distance: Float[Array, " M"]
    """Mean |V(ŝ'_m) − mean_m V|."""
    selected_at: Float[Array, "3 M"]
    """Share of steps in which each member's next state would be chosen with each of `RADII`."""
    optimistic_share: Float[Array, ""]
    """Share of steps in which the algorithm chooses a value above the members' mean."""
    optimistic_gain: Float[Array, ""]
    """Mean of the chosen value minus the members' mean, in units of the members' deviation."""
    disagreement: Float[Array, ""]
    """Mean disagreement σ of the members, in units of the data."""
    information: Float[Array, ""]
    """Mean of log(1 + epistemic variance / aleatoric variance)."""


class DiagnosedFit(NamedTuple):
    """The diagnostics of a fit, and the numbers that the bonuses' statistics are made of."""

    diagnostics: FitDiagnostics
    disagreement: Float[Array, " B"]
    information: Float[Array, " B"]
    past_information: Float[Array, ""]
    """Mean information where the policy of the last imagination acts."""


@implements("fig:2")
def diagnose(key: PRNGKeyArray, context: ModelContext, real: Replay) -> DiagnosedFit:
    """Compare the members on `NUM_STEPS` steps of the policy from real states."""
    key_start, key_action, key_model, key_past, *others = jax.random.split(key, 7)
    key_uniform, key_radius, key_choice = others
    obs_dim = context.sac.actor[0].w.shape[0]
    obs = unpack(sample(key_start, real, (NUM_STEPS,)), obs_dim).obs
    discrete = context.sac.discrete
    action = draw_action(key_action, context.sac.actor, obs, discrete).action
    uniforms = draw_uniforms(key_uniform, context, NUM_STEPS)
    candidates = make_candidates(key_model, context, obs, action, uniforms)
    mean, values = candidates.mean, candidates.values(candidates.mean.next_obs)
    past_action = draw_action(key_action, context.bonus_state.past_actor, obs, discrete).action
    past = predict_members(key_past, context.ensemble, obs, past_action, context.config)
    offset = mean.next_obs - mean.next_obs.mean(0)
    share, gain = _measure_optimism(key_choice, context, candidates, values)
    return DiagnosedFit(
        FitDiagnostics(
            holdout_error=context.ensemble.holdout_error,
            distance=jnp.sqrt((offset**2).sum(-1)).mean(-1),
            reward_distance=jnp.abs(mean.reward - mean.reward.mean(0)).mean(-1),
            value_distance=jnp.abs(values - values.mean(0)).mean(-1),
            selected_at=_selected_at_radii(key_radius, context, candidates, values),
            optimistic_share=share,
            optimistic_gain=gain,
            disagreement=candidates.disagreement.mean(),
            information=candidates.information.mean(),
        ),
        candidates.disagreement,
        candidates.information,
        finite_mean(past.information),
    )


def _selected_at_radii(
    key: PRNGKeyArray, context: ModelContext, candidates: Candidates, values: Float[Array, "M B"]
) -> Float[Array, "3 M"]:
    """Return how often each member's next state would be chosen, by radius.

    The members' means are compared, without annealing.
    """
    params, reward = context.select_params._replace(strength=1.0), candidates.mean.reward

    def choose(key: PRNGKeyArray, radius: Float[Array, ""]) -> Int[Array, " B"]:
        at_radius = params._replace(numbers=params.numbers._replace(radius=radius))
        return choose_members(key, reward, values, at_radius, candidates.ranked).member

    chosen = jax.vmap(choose)(jax.random.split(key, len(RADII)), jnp.array(RADII))
    return (chosen[:, None] == jnp.arange(reward.shape[0])[:, None]).mean(-1)


def _measure_optimism(
    key: PRNGKeyArray, context: ModelContext, candidates: Candidates, values: Float[Array, "M B"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Return how often, and by how much, the algorithm's choice is above the members' mean value.

    The algorithm chooses as it does in imagined trajectories; the mean of what it chose is valued.
    """
    key_select, key_bonus = jax.random.split(key)
    noiseless = candidates._replace(prediction=candidates.mean)
    selected, _ = select_step(key_select, key_bonus, context, noiseless)
    gain = candidates.values(selected.next_obs[None])[0] - values.mean(0)
    # Values are rounded; the choice among equal values gains nothing.
    gain = jnp.where(jnp.abs(gain) > _ROUNDING * jnp.abs(values).max(0), gain, 0.0)
    std = values.std(0)
    return (gain > 0.0).mean(), jnp.where(std > 0.0, gain / std, 0.0).mean()


def update_bonus_state(context: ModelContext, fit: DiagnosedFit) -> BonusState:
    """Return the running statistics with a fit's numbers, and MaxInfo's weight after it.

    MaxInfoRL does a gradient step on log α₂ per update, so that the information I under the policy
    matches that under a slowly moving copy. Here the copy is the policy of the last imagination,
    and the steps of all updates since are done at once, with the difference in units of I's
    standard deviation, at most 1.
    """
    state, config = context.bonus_state, context.config
    first, now = state.first_disagreement, finite_mean(fit.disagreement)
    grows = jnp.asarray(context.params.numbers.noise_unit_largest)
    information = state.information.add(fit.information)
    lack = (fit.past_information - finite_mean(fit.information)) / information.std
    num_updates = config.model_every * config.updates_per_step
    log_weight = state.log_weight + config.learning_rate * num_updates * jnp.clip(lack, -1.0, 1.0)
    return state._replace(
        disagreement=state.disagreement.add(fit.disagreement),
        information=information,
        first_disagreement=jnp.where((first > 0.0) & ~(grows & (now > first)), first, now),
        log_weight=jnp.clip(log_weight, -_LARGEST_LOG_WEIGHT, _LARGEST_LOG_WEIGHT),
        past_actor=context.sac.actor,
    )
