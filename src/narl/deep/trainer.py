"""The host loop of Algorithm 1: environments step on the host while the device learns.

`Trainer.step` is one environment step of every replica: it calls the functions of
`narl.deep.algorithm`, on the device, in the paper's order. Programs, their thread and the check of
their results are in `device_programs`, episodes of the evaluation in `evaluation`, and what is
counted and timed in `counters`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from narl.deep.algorithm import Algorithm, ReplicaState, StepInfo
from narl.deep.algorithm_registry import StepRule, step_rules_of
from narl.deep.config import Config
from narl.deep.counters import new_counters, timed
from narl.deep.device_programs import Device, Result
from narl.deep.environment_pool import open_environments
from narl.deep.evaluation import Evaluator
from narl.deep.finite_check import FiniteCheck
from narl.deep.metrics import epoch_metrics
from narl.deep.replicas import Replicas, make_replicas
from narl.deep.rollout import ReplicaParams
from narl.deep.selection import replica_numbers
from narl.deep.training_environment import choose_termination, env_recipe
from narl.deep.user_parts import NO_PARTS, UserParts
from narl.errors import InputError
from narl.paper import implements


class Trainer:
    """The replicas of one program, each with an environment of its own.

    The replicas are those of all ``configs``, which must have one `shape`: every seed of the first,
    then every seed of the second, and so on.
    """

    def __init__(
        self,
        configs: Sequence[Config],
        parts: UserParts = NO_PARTS,
        *,
        make_replicas: Callable[[int], Replicas] = make_replicas,
    ) -> None:
        if len({config.shape for config in configs}) > 1:
            raise InputError(
                "configs: they cannot be trained together; they may differ in algorithm (with a "
                "model), options of optimism, elites and seeds only"
            )
        self.config, self.parts = configs[0], parts
        self.replica_configs = [config for config in configs for _ in config.seeds]
        self.seeds = [seed for config in configs for seed in config.seeds]
        self.last_step = self.config.steps
        """The step at which the training is over."""
        self.inactive: set[int] = set()
        """Replicas that are done: they step, learn and stop nothing any more."""
        self.counters = new_counters(len(self.seeds))
        with contextlib.ExitStack() as opened:
            self.replicas = make_replicas(len(self.seeds))
            opened.callback(self.replicas.close)
            self.envs = open_environments(
                env_recipe(self.config, parts.env),
                self.seeds,
                num_workers=parts.env_workers,
                timeout=parts.env_timeout,
                spare=self.replicas.batched,
            )
            opened.callback(self.envs.close)
            self.horizon = self.envs.example.time_limit or self.config.eval_horizon
            self._evaluator = Evaluator(self.config, self.seeds, self.envs, self.horizon)
            step_rules, indices = step_rules_of(
                self.replica_configs, parts.select, parts.bonus, batched=self.replicas.batched
            )
            self.algorithm = self._make_algorithm(step_rules)
            self._check = FiniteCheck(self)
            state = self._init_state(indices)
            self._device = Device(self.algorithm, self.replicas, state, self._check)
            opened.callback(self._device.close)
            self._device.compile(self.algorithm, self._step_info())
            self.close = opened.pop_all().close
        self._update: Result | None = None
        """The last update."""
        self._fit: Result | None = None
        """The fit that was begun while the policies were evaluated."""

    # --- Algorithm 1 ------------------------------------------------------------------------

    @implements("alg:1")
    def step(self) -> dict[str, Any] | None:
        """Take one environment step with every replica; at the end of an epoch, its metrics."""
        # The paper's loop is rotated. A pass of the paper fits the model and imagines, then acts
        # and updates. Here the fit stands at the end of the step before, so that it runs on the
        # device while the host evaluates the policies. The action is chosen one step ahead, before
        # the update, so that the update runs while the environments take the next step.
        info = self._step_info()
        observed = self._step_environments()
        self._act_and_update(observed, info)
        self.counters.step += 1
        metrics = self._end_epoch(info) if self._epoch_is_over else None
        if self._model_is_due:
            self._fit_model()
            self._imagine()
        return metrics

    @timed("env")
    def _step_environments(self) -> Float[np.ndarray, "N O"]:
        """Step the environments; return one input row of `Algorithm.act` per replica."""
        rows = np.zeros((len(self.seeds), 2 * self.algorithm.obs_dim + 3), np.float32)
        outcomes = self.envs.step({i: self._action[i] for i in self.active})
        for i, (next_obs, reward, terminated, is_new, obs) in outcomes.items():
            self.counters.add_reward(i, reward, is_new)
            rows[i] = np.concatenate([next_obs, [reward, terminated], obs, [is_new]])
        return rows

    @timed("sac")
    def _act_and_update(self, observed: Float[np.ndarray, "N O"], info: StepInfo) -> None:
        """Store the transitions, choose the next actions, then begin the updates of this step."""
        # The action is for the next step.
        is_random = self.counters.step + 1 < self.config.initial_steps
        action = self._device.act(observed, info, random=is_random)
        last_update = self._update
        if self.counters.step >= self.config.learn_after:
            self._update = self._device.update(info)
        self._action = action.get()
        if last_update is not None:
            last_update.get()  # it is done by now: this checks its loss

    @timed("model")
    def _fit_model(self) -> None:
        """Fit the ensemble to the real transitions so far."""
        fit = self._fit or self._device.fit_model(self._step_info())
        self._fit = None
        self.counters.reports["fit"] = fit.get()

    @timed("rollout")
    def _imagine(self) -> None:
        """Fill the model buffer with imagined transitions."""
        imagined = self._device.imagine(self._step_info()).get()
        self.counters.add_imagined(imagined.sums, imagined.diagnostics)

    @timed("eval")
    def _end_epoch(self, info: StepInfo) -> dict[str, Any]:
        """Evaluate the policies and return the metrics of the epoch.

        Episodes run on the host while the device assesses the policies and fits the next model.
        """
        counters = self.counters
        actors = self.replicas.to_host(self._device.state(), lambda state: state.sac.actor)
        assessment = self._device.assess(self._evaluator.starts(counters.step), info)
        if self._model_is_due:
            self._fit = self._device.fit_model(self._step_info())
        evaluations, confirmation = self._evaluator.evaluate(actors, counters, self.active)
        metrics = epoch_metrics(self.config, counters, evaluations, assessment.get())
        counters.begin_epoch()
        return metrics | confirmation

    @property
    def _epoch_is_over(self) -> bool:
        return self.counters.step % self.config.epoch_length == 0 or self.is_over

    @property
    def _model_is_due(self) -> bool:
        """Whether the next step begins with a new model."""
        config, since = self.config, self.counters.step - self.config.initial_steps
        is_due = config.uses_model and since >= 0 and since % config.model_every == 0
        return is_due and not self.is_over

    # --- state ------------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether all steps are done."""
        return self.counters.step >= self.last_step

    @property
    def active(self) -> list[int]:
        """The replicas that still learn."""
        return [i for i in range(len(self.seeds)) if i not in self.inactive]

    def state(self) -> Any:
        """Wait for everything that was begun and return the state of the replicas."""
        return self._device.state()

    def to_host(self) -> ReplicaState:
        """Return the whole state as NumPy arrays with a leading axis of replicas."""
        return self.replicas.to_host(self.state())

    def from_host(self, state: ReplicaState) -> None:
        """Go on with a state that `to_host` returned."""
        self._device.replace(self.replicas.from_host(state))
        self._action = np.asarray(state.action)

    def deactivate(self, replicas: slice) -> None:
        """Stop stepping, evaluating and learning with these replicas."""
        self.inactive |= set(range(len(self.seeds))[replicas])
        self._device.deactivate(self.inactive)

    def extend(self, last_step: int) -> None:
        """Set a later last step; fit the model that was due, and skipped, at the old one."""
        self.last_step = last_step
        if self._model_is_due and "fit" not in self.counters.reports:
            self._fit_model()
            self._imagine()

    def check_policies(self) -> None:
        """Raise a `NonFiniteError` if a number of a policy, critic or optimiser is not finite."""
        self._check.policies(self.replicas.to_host(self.state(), lambda state: state.sac))

    # --- set-up -----------------------------------------------------------------------------

    def _make_algorithm(self, step_rules: tuple[StepRule, ...]) -> Algorithm:
        spaces = self.envs.example.spaces
        return Algorithm(
            self.config,
            spaces.obs_dim,
            spaces.action_dim,
            choose_termination(self.config, spaces, self.parts),
            self.horizon,
            step_rules,
            spaces.discrete,
        )

    def _init_state(self, step_rules: Sequence[int]) -> Any:
        """Reset the environments and return the first state of every replica."""
        params = ReplicaParams(
            np.array(step_rules, np.int32),  # type: ignore[arg-type]
            replica_numbers(self.replica_configs),
        )
        obs = self.envs.reset()
        seeds = np.array(self.seeds, np.uint32)
        state = self.replicas.init(self.algorithm.init, seeds, params, obs)
        self._action = self.replicas.to_host(state, lambda state: state.action)
        return state

    def _step_info(self) -> StepInfo:
        step = self.counters.step
        length = self.config.rollout_length_at(step)
        retained = min(self.config.retained(length), self.config.model_capacity)
        return StepInfo(np.int32(step), np.int32(length), np.int32(retained))  # type: ignore[arg-type]
