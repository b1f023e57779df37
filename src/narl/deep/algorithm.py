"""Algorithm 1 of the paper for one replica (one seed of one configuration), as pure functions.

`Algorithm` holds what is static; `ReplicaState` holds everything that changes. The functions are
called in this order by `narl.deep.trainer`:

    init       fresh networks, empty buffers, a random first action
    fit_model  fit the ensemble to the real transitions so far
    imagine    roll the policy out inside the ensemble, optimistically, into the model buffer
    act        store a real transition and choose the next action
    update     improve the policy with SAC on real and imagined transitions
    assess     return inside the model and value of the policy, for the metrics

`narl.deep.replicas` runs them for many replicas at once. Every draw is a function of the replica's
key and of the step, so that a resumed replica draws what it would have drawn.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt

from narl.deep.algorithm_registry import StepRule
from narl.deep.bonus_state import BonusState, init_bonus_state
from narl.deep.config import Config
from narl.deep.ensemble import Ensemble, init_ensemble
from narl.deep.ensemble_fit import FitReport, fit_ensemble
from narl.deep.networks import draw_action, mode_action, twin_values
from narl.deep.optimistic_target import join_candidates, target_choice
from narl.deep.replay_buffer import Replay, add_one, make_replay, pack, sample, unpack
from narl.deep.rollout import (
    ModelContext,
    ReplicaParams,
    SelectionSums,
    branched_rollouts,
    model_returns,
)
from narl.deep.sac import Batch, Losses, Sac, init_sac, update_many
from narl.deep.selection_diagnostics import FitDiagnostics, diagnose, update_bonus_state
from narl.deep.termination import TerminationFn
from narl.deep.termination_model import (
    TerminationModel,
    fit_termination_model,
    init_termination_model,
    predict_termination,
)

CHUNK = 10_000
"""Imagined trajectories that run at a time."""
_FIRST_ACTION = 0xFFFF_FFFF
"""In place of a step's number, for the action before the first step."""
_ACT, _FIT, _IMAGINE, _ASSESS, _UPDATE, _EPISODE = range(6)
"""The purposes of a step's random keys."""


class LossSums(NamedTuple):
    """Sums of the losses since the last assessment, and the number of calls of `update`."""

    losses: Losses
    calls: Float[Array, ""]


class ReplicaState(NamedTuple):
    """Everything that a replica needs to go on, apart from its environment."""

    key: UInt[Array, "2"]
    """The data of the replica's random key."""
    params: ReplicaParams
    sac: Sac
    ensemble: Ensemble | None
    termination: TerminationModel | None
    """The learned rule by which imagined episodes end; None: a known rule is used."""
    real: Replay
    model: Replay
    obs: Float[Array, " D"]
    """The current observation of the environment."""
    action: Float[Array, " A"]
    """The action that was chosen for this observation."""
    loss_sums: LossSums
    bonus_state: BonusState | None
    """Running statistics of what the members disagree on; None without a model."""


ACT_USES = ("key", "sac.actor", "real", "obs", "action", "bonus_state.episode")
"""The fields of the state that `Algorithm.act` uses."""
UPDATE_USES = ("key", "sac", "real", "model", "loss_sums")
"""The fields that `Algorithm.update` uses, unless the update selects among stored candidates."""


class Imagined(NamedTuple):
    """Report of one imagination: what was selected, and what the members believe."""

    sums: SelectionSums
    diagnostics: FitDiagnostics


class StepInfo(NamedTuple):
    """Numbers of a step that all replicas share."""

    num_steps: Int[Array, ""]
    """Real transitions that were stored before this step."""
    length: Int[Array, ""]
    """Rollout length k at this step."""
    retained: Int[Array, ""]
    """Number of imagined transitions that count."""


class Assessment(NamedTuple):
    """The policy as the model and the critics see it, and the losses of the epoch."""

    model_returns: Float[Array, "B H"]
    """Returns inside the model after 1, 2, …, H steps; NaN without a model."""
    mean_model_returns: Float[Array, "B H"]
    """Returns inside the model where imagined steps are the means of the members, without noise."""
    value: Float[Array, " B"]
    """min_i Q_i(s_0, mode of π)."""
    loss_sums: LossSums


@dataclasses.dataclass(frozen=True)
class Algorithm:
    """The pure functions of one replica; its fields are static.

    All but `init` take the state, the replica's own argument (None where it is called ``_``) and
    the numbers of the step, which all replicas share.
    """

    config: Config
    obs_dim: int
    action_dim: int
    known_termination: TerminationFn | None
    """The rule by which imagined episodes end; None: the rule is learned from data."""
    horizon: int
    """Steps of an episode inside the model."""
    step_rules: tuple[StepRule, ...] = ()
    """The ways to select among the members; `ReplicaParams.step_rule` says which one is used."""
    discrete: bool = False
    """Whether actions are one of ``action_dim`` kinds."""

    def init(
        self, seed: UInt[Array, ""], params: ReplicaParams, obs: Float[Array, " D"]
    ) -> ReplicaState:
        """Return fresh networks and empty buffers, with a random first action."""
        key_replica, key_sac, key_model, key_end = jax.random.split(jax.random.key(seed), 4)
        config, dims = self.config, (self.obs_dim, self.action_dim)
        learns_end = config.uses_model and self.known_termination is None
        key_act = jax.random.fold_in(key_replica, _FIRST_ACTION)
        sac = init_sac(key_sac, *dims, config, self.discrete)
        return ReplicaState(
            key=jax.random.key_data(key_replica),
            params=params,
            sac=sac,
            ensemble=init_ensemble(key_model, *dims, config) if config.uses_model else None,
            termination=init_termination_model(key_end, *dims) if learns_end else None,
            real=make_replay(config.real_capacity, *dims),
            model=make_replay(config.model_capacity, *dims, config.num_stored_candidates),
            obs=obs,
            action=self._random_action(key_act),
            loss_sums=zero_losses(),
            # A copy: the buffers of a state are given away with every call.
            bonus_state=init_bonus_state(jax.tree.map(jnp.copy, sac.actor))
            if config.uses_model
            else None,
        )

    def fit_model(
        self, state: ReplicaState, _: Any, info: StepInfo
    ) -> tuple[ReplicaState, FitReport]:
        """Fit the ensemble, and the learned termination, to the real transitions so far."""
        assert state.ensemble is not None
        key_fit, key_end = jax.random.split(_key(state, info, _FIT))
        num_rows = jnp.minimum(info.num_steps, self.config.real_capacity)
        rows = state.real.rows
        ensemble, report = fit_ensemble(key_fit, state.ensemble, rows, num_rows, self.config)
        termination = state.termination
        if termination is not None:
            termination = fit_termination_model(key_end, termination, rows, num_rows, self.obs_dim)
        return state._replace(ensemble=ensemble, termination=termination), report

    def imagine(self, state: ReplicaState, _: Any, info: StepInfo) -> tuple[ReplicaState, Imagined]:
        """Roll the policy out inside the ensemble and store the imagined transitions."""
        key_diagnose, key_rollout = jax.random.split(_key(state, info, _IMAGINE))
        context = self._context(state, info)
        fit = diagnose(key_diagnose, context, state.real)
        bonus_state = update_bonus_state(context, fit)
        model, sums = branched_rollouts(
            key_rollout,
            context._replace(bonus_state=bonus_state),
            state.real,
            state.model,
            info.length,
            info.retained,
            min(CHUNK, self.config.rollout_batch),
        )
        new = state._replace(model=model, bonus_state=bonus_state)
        return new, Imagined(sums, fit.diagnostics)

    def act(
        self, state: ReplicaState, observed: Float[Array, " O"], info: StepInfo, *, random: bool
    ) -> tuple[ReplicaState, Float[Array, " A"]]:
        """Store the real transition and choose the next action.

        ``observed`` is [next_obs, reward, terminated, obs, is_new]: obs is the observation to act
        on, the first of a new episode if is_new is 1, else next_obs.
        """
        end = self.obs_dim
        transition = Batch(
            state.obs, state.action, observed[end], observed[:end], observed[end + 1]
        )
        real = add_one(state.real, pack(transition))
        obs, bonus_state = observed[end + 2 : -1], state.bonus_state
        if bonus_state is not None:
            episode = bonus_state.episode + observed[-1].astype(jnp.int32)
            bonus_state = bonus_state._replace(episode=episode)
        key = _key(state, info, _ACT)
        if random:
            action = self._random_action(key)
            if (repeat := self.config.random_repeat) > 1:
                is_repeated = (info.num_steps + 1) % repeat != 0
                action = jnp.where(is_repeated, state.action, action)
        else:
            action = draw_action(key, state.sac.actor, obs[None], self.discrete).action[0]
        new = state._replace(real=real, obs=obs, action=action, bonus_state=bonus_state)
        return new, action

    def update(
        self, state: ReplicaState, _: Any, info: StepInfo
    ) -> tuple[ReplicaState, Float[Array, ""]]:
        """Do the G updates of SAC that follow an environment step; return the critics' loss."""
        key_batch, key_update = jax.random.split(_key(state, info, _UPDATE))
        batches = self._batches(key_batch, state)
        choose = None
        if self.config.optimism_at == "update":
            context = self._context(state, info)
            choose = target_choice(context.ensemble.ranked, context.select_params)
        sac, losses = update_many(key_update, state.sac, batches, self.config, choose)
        sums = jax.tree.map(jnp.add, state.loss_sums, LossSums(losses, jnp.float32(1.0)))
        return state._replace(sac=sac, loss_sums=sums), losses.critic_loss

    def assess(
        self, state: ReplicaState, starts: Float[Array, "B D"], info: StepInfo
    ) -> tuple[ReplicaState, Assessment]:
        """Return what model and critics expect from ``starts``; reset the sums of the losses."""
        action = mode_action(state.sac.actor, starts, self.discrete)
        value = twin_values(state.sac.critic, starts, action).min(0)
        returns = mean_returns = jnp.full((starts.shape[0], 1), jnp.nan)
        if state.ensemble is not None:
            key, context = _key(state, info, _ASSESS), self._context(state, info)
            returns, mean_returns = model_returns(key, context, starts, self.horizon)
        assessment = Assessment(returns, mean_returns, value, state.loss_sums)
        return state._replace(loss_sums=zero_losses()), assessment

    def _random_action(self, key: PRNGKeyArray) -> Float[Array, " A"]:
        if self.discrete:
            kind = jax.random.randint(key, (), 0, self.action_dim)
            return jax.nn.one_hot(kind, self.action_dim)
        return jax.random.uniform(key, (self.action_dim,), minval=-1.0, maxval=1.0)

    def _batches(self, key: PRNGKeyArray, state: ReplicaState) -> Batch:
        """Draw G batches at once: a share of real transitions, the rest imagined."""
        key_real, key_model = jax.random.split(key)
        config = self.config
        rows = sample(key_real, state.real, (config.updates_per_step, config.num_real))
        if config.num_real == config.batch:
            return unpack(rows, self.obs_dim)
        shape = (config.updates_per_step, config.batch - config.num_real)
        imagined = sample(key_model, state.model, shape)
        if config.optimism_at == "selection":
            return unpack(jnp.concatenate([rows, imagined], axis=1), self.obs_dim)
        return join_candidates(rows, imagined, self.obs_dim, config.num_members)

    def _context(self, state: ReplicaState, info: StepInfo) -> ModelContext:
        assert state.ensemble is not None
        assert state.bonus_state is not None
        learned = state.termination

        def learned_termination(obs: Array, action: Array, next_obs: Array) -> Array:
            assert learned is not None
            return predict_termination(learned, obs, action, next_obs)

        return ModelContext(
            sac=state.sac,
            ensemble=state.ensemble,
            params=state.params,
            is_terminal=self.known_termination or learned_termination,
            config=self.config,
            step_rules=self.step_rules,
            bonus_state=state.bonus_state,
            strength=self._strength(state, info),
            episode_uniform=_episode_uniform(state.key, state.bonus_state.episode),
        )

    def _strength(self, state: ReplicaState, info: StepInfo) -> Float[Array, ""]:
        """Return the strength of the optimism, which is annealed from 1 to 0."""
        steps = jnp.maximum(info.num_steps - self.config.initial_steps, 0).astype(jnp.float32)
        return jnp.clip(1.0 - steps / state.params.numbers.anneal_steps, 0.0, 1.0)


def _episode_uniform(key: UInt[Array, "2"], episode: Int[Array, ""]) -> Float[Array, ""]:
    """Return the uniform number of a real episode, by which Thompson sampling draws a member."""
    key_episode = jax.random.fold_in(jax.random.wrap_key_data(key), episode)
    return jax.random.uniform(jax.random.fold_in(key_episode, _EPISODE))


def _key(state: ReplicaState, info: StepInfo, purpose: int) -> PRNGKeyArray:
    """Return the random key of this step for one purpose."""
    key = jax.random.fold_in(jax.random.wrap_key_data(state.key), info.num_steps)
    return jax.random.fold_in(key, purpose)


def zero_losses() -> LossSums:
    """Return sums over no updates."""
    zero = jnp.float32(0.0)
    return LossSums(Losses(*(zero,) * len(Losses._fields)), zero)
