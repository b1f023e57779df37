"""The state of one lane (one seed of one configuration) and the programs that advance it.

Everything here is for a single lane; `lanes` runs many of them in one program.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PRNGKeyArray, UInt

from narl.deep.config import Settings
from narl.deep.ensemble import Ensemble, init_ensemble
from narl.deep.ensemble_fit import FitReport, fit
from narl.deep.networks import draw_action, mode_action, twin_values
from narl.deep.replay_buffer import Replay, add_one, make_replay, pack, sample, unpack
from narl.deep.rollout import Dream, Ends, Lane, Selections, branch, imagined_returns
from narl.deep.sac import Batch, Losses, Sac, init_sac, update_many
from narl.deep.termination_model import Ending, ends, fit_ending, init_ending
from narl.paper import implements

_FIRST_ACTION = 0xFFFF_FFFF
"""In place of a step's number, for the action before the first step."""


class Tally(NamedTuple):
    """Sums of what the updates report, since the last evaluation."""

    losses: Losses
    calls: Float[Array, ""]


class Learner(NamedTuple):
    """Everything a lane needs to go on, apart from its environment."""

    key: UInt[Array, "2"]
    """The numbers behind the lane's key; every draw is a function of it and of the step."""
    lane: Lane
    sac: Sac
    ensemble: Ensemble | None
    ending: Ending | None
    real: Replay
    model: Replay
    obs: Float[Array, " D"]
    """Where the environment is."""
    action: Float[Array, " A"]
    """What is to be done there."""
    tally: Tally


class Clock(NamedTuple):
    """What all lanes share at a step."""

    num_steps: Int[Array, ""]
    """Transitions that have been stored before this step."""
    length: Int[Array, ""]
    """Rollout length k."""
    retained: Int[Array, ""]
    """Imagined transitions that count."""


class Judgement(NamedTuple):
    """The policy inside the model and in the critic's eyes."""

    model_returns: Float[Array, "B H"]
    """Of the first 1, 2, …, H steps inside the model."""
    value: Float[Array, " B"]
    """min_i Q_i(s_0, mode of π)."""


@dataclasses.dataclass(frozen=True)
class Programs:
    """The functions of one training; what is static is fixed here."""

    settings: Settings
    obs_dim: int
    action_dim: int
    known_ends: Ends | None
    """None: learned from data."""
    horizon: int
    """Steps of an episode inside the model."""
    chunk: int = 10_000
    """Imagined trajectories at a time."""
    selector: int | None = None
    """How every lane selects; None: each as its own `Lane` says."""

    def begin(self, seed: UInt[Array, ""], lane: Lane, obs: Float[Array, " D"]) -> Learner:
        """Fresh networks and empty buffers; the first action is random."""
        key_lane, key_sac, key_model, key_ending = jax.random.split(jax.random.key(seed), 4)
        settings, dims = self.settings, (self.obs_dim, self.action_dim)
        modelled = settings.uses_model
        key_act = jax.random.fold_in(key_lane, _FIRST_ACTION)
        return Learner(
            key=jax.random.key_data(key_lane),
            lane=lane,
            sac=init_sac(key_sac, *dims, settings.sac(self.action_dim)),
            ensemble=init_ensemble(key_model, *dims, settings.model()) if modelled else None,
            ending=init_ending(key_ending, *dims) if modelled and self._learns_ending else None,
            real=make_replay(settings.real_capacity, *dims),
            model=make_replay(settings.model_capacity, *dims),
            obs=obs,
            action=self._random_action(key_act),
            tally=no_tally(),
        )

    @property
    def _learns_ending(self) -> bool:
        return self.known_ends is None

    def _random_action(self, key: PRNGKeyArray) -> Float[Array, " A"]:
        return jax.random.uniform(key, (self.action_dim,), minval=-1.0, maxval=1.0)

    def act(
        self, learner: Learner, observed: Float[Array, " O"], clock: Clock, *, random: bool
    ) -> tuple[Learner, Float[Array, " A"]]:
        """Stores the transition and chooses the next action.

        ``observed`` is [next_obs, reward, terminated, the observation to act on]: the last
        differs from the first where a new episode has begun.
        """
        end = self.obs_dim
        seen = Batch(learner.obs, learner.action, observed[end], observed[:end], observed[end + 1])
        real = add_one(learner.real, pack(seen))
        obs = observed[end + 2 :]
        key = _key(learner, clock, 0)
        if random:
            action = self._random_action(key)
        else:
            action = draw_action(key, learner.sac.actor, obs[None]).action[0]
        return learner._replace(real=real, obs=obs, action=action), action

    @implements("alg:1")
    def learn(
        self, learner: Learner, nothing: Any, clock: Clock
    ) -> tuple[Learner, Float[Array, ""]]:
        """The G updates of this step."""
        key_batch, key_update = jax.random.split(_key(learner, clock, 4))
        batches = self._batches(key_batch, learner)
        sac_settings = self.settings.sac(self.action_dim)
        sac, losses = update_many(key_update, learner.sac, batches, sac_settings)
        tally = jax.tree.map(jnp.add, learner.tally, Tally(losses, jnp.float32(1.0)))
        return learner._replace(sac=sac, tally=tally), losses.critic_loss

    def _batches(self, key: PRNGKeyArray, learner: Learner) -> Batch:
        """G batches at once: a share of real transitions, the rest imagined."""
        key_real, key_model = jax.random.split(key)
        settings = self.settings
        num_updates, num_real = settings.updates_per_step, settings.num_real
        rows = sample(key_real, learner.real, (num_updates, num_real))
        if num_real < settings.batch:
            shape = (num_updates, settings.batch - num_real)
            imagined = sample(key_model, learner.model, shape)
            rows = jnp.concatenate([rows, imagined], axis=1)
        return unpack(rows, self.obs_dim)

    def train_model(
        self, learner: Learner, nothing: Any, clock: Clock
    ) -> tuple[Learner, FitReport]:
        """Trains ensemble and termination on the real transitions so far."""
        assert learner.ensemble is not None
        key = _key(learner, clock, 1)
        key_fit, key_ending = jax.random.split(key)
        present = jnp.minimum(clock.num_steps, self.settings.real_capacity)
        rows = learner.real.rows
        ensemble, report = fit(key_fit, learner.ensemble, rows, present, self.settings.model())
        ending = learner.ending
        if ending is not None:
            ending = fit_ending(key_ending, ending, rows, present, self.obs_dim)
        return learner._replace(ensemble=ensemble, ending=ending), report

    def roll(self, learner: Learner, nothing: Any, clock: Clock) -> tuple[Learner, Selections]:
        """Fills the model buffer with imagined transitions."""
        key = _key(learner, clock, 2)
        settings = self.settings
        model, selections = branch(
            key,
            self._dream(learner),
            learner.real,
            learner.model,
            clock.length,
            clock.retained,
            settings.rollout_batch,
            min(self.chunk, settings.rollout_batch),
        )
        return learner._replace(model=model), selections

    def judge(
        self, learner: Learner, starts: Float[Array, "B D"], clock: Clock
    ) -> tuple[Learner, Judgement]:
        """What the model and the critic promise from ``starts``; nothing is learned."""
        key = _key(learner, clock, 3)
        action = mode_action(learner.sac.actor, starts)
        value = twin_values(learner.sac.critic, starts, action).min(0)
        returns = jnp.full((starts.shape[0], 1), jnp.nan)
        if learner.ensemble is not None:
            returns = imagined_returns(key, self._dream(learner), starts, self.horizon)
        return learner, Judgement(returns, value)

    def new_tally(self, learner: Learner, nothing: Any, clock: Clock) -> tuple[Learner, Tally]:
        """Hands out the sums and begins them anew."""
        return learner._replace(tally=no_tally()), learner.tally

    def move(
        self, learner: Learner, obs: Float[Array, " D"], clock: Clock
    ) -> tuple[Learner, Float[Array, " D"]]:
        """The environment is elsewhere now."""
        return learner._replace(obs=obs), obs

    def _dream(self, learner: Learner) -> Dream:
        assert learner.ensemble is not None
        known, ending = self.known_ends, learner.ending

        def learned(obs: Array, action: Array, next_obs: Array) -> Array:
            assert ending is not None
            return ends(ending, obs, action, next_obs)

        settings = self.settings
        return Dream(
            sac=learner.sac,
            ensemble=learner.ensemble,
            lane=learner.lane,
            ends=learned if known is None else known,
            selection=settings.selection(),
            discount=settings.discount,
            selector=self.selector,
        )


def _key(learner: Learner, clock: Clock, purpose: int) -> PRNGKeyArray:
    """A key of this step and purpose: a resumed lane draws what it would have drawn."""
    key = jax.random.fold_in(jax.random.wrap_key_data(learner.key), clock.num_steps)
    return jax.random.fold_in(key, purpose)


def no_tally() -> Tally:
    """Nothing yet."""
    zero = jnp.float32(0.0)
    return Tally(Losses(*(zero,) * len(Losses._fields)), zero)
