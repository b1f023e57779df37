"""The host loop of Algorithm 1: environments step on the host while the device learns.

`Trainer.step` is one environment step of every replica: it calls the functions of
`narl.deep.algorithm`, on the device, in the paper's order. Programs and their thread are in
`device_programs`, episodes of the evaluation in `evaluation`, the check for finite numbers in
`finite_check`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar, cast

import jax
import numpy as np
from jaxtyping import Float, Num

from narl.deep.algorithm import Algorithm, ReplicaState, StepInfo
from narl.deep.algorithm_registry import StepRule, step_rule_of
from narl.deep.config import Config, used_by
from narl.deep.counters import new_counters
from narl.deep.device_programs import Device
from narl.deep.environment_pool import open_environments
from narl.deep.evaluation import Evaluator
from narl.deep.finite_check import check_finite, refuse_all_nonfinite
from narl.deep.metrics import epoch_metrics
from narl.deep.replicas import Replicas, make_replicas
from narl.deep.rollout import ReplicaParams
from narl.deep.selection import select_numbers, stack_numbers
from narl.deep.training_environment import choose_termination, env_recipe
from narl.deep.user_parts import NO_PARTS, UserParts
from narl.errors import InputError

Method = TypeVar("Method", bound=Callable[..., Any])
_ALWAYS = ("mbpo", "narl")
"""The algorithms whose branches are in every program on a CPU."""


def _timed(part: str) -> Callable[[Method], Method]:
    """Return a decorator that adds a method's seconds to one part of the counters."""

    def decorate(method: Method) -> Method:
        @functools.wraps(method)
        def timed(self: Trainer, *arguments: Any) -> Any:
            with self.counters.time(part, lambda: self.replicas.compiler.seconds):
                return method(self, *arguments)

        return cast(Method, timed)

    return decorate


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
            step_rules, indices = _step_rules(configs, parts, self.replicas.batched)
            self.algorithm = self._make_algorithm(step_rules)
            self._device = Device(self.algorithm, self.replicas, self._init_state(indices))
            opened.callback(self._device.close)
            self._device.compile(self.algorithm, self._step_info())
            self.close = opened.pop_all().close
        self._loss: Future[Any] | None = None
        """The critics' loss of the last update."""
        self._fit: Future[Any] | None = None
        """The fit that was begun while the policies were evaluated."""

    # --- Algorithm 1 ------------------------------------------------------------------------

    def step(self) -> dict[str, Any] | None:
        """Take one environment step with every replica; at the end of an epoch, its metrics."""
        info = self._step_info()
        observed = self._step_environments()
        self._act_and_update(observed, info)
        self.counters.step += 1
        metrics = self._end_epoch(info) if self._epoch_is_over else None
        if self._model_is_due:
            self._fit_model()
            self._imagine()
        return metrics

    @_timed("env")
    def _step_environments(self) -> Float[np.ndarray, "N O"]:
        """Do the chosen actions; return the row of each that `Algorithm.act` takes."""
        counters = self.counters
        rows = np.zeros((len(self.seeds), 2 * self.algorithm.obs_dim + 3), np.float32)
        outcomes = self.envs.step({i: self._action[i] for i in self.active})
        for i, (obs, reward, terminated, is_new, next_obs) in outcomes.items():
            counters.episode_return[i] += reward
            if is_new:
                counters.finished[i].append(counters.episode_return[i])
                counters.num_episodes[i] += 1
                counters.episode_return[i] = 0.0
            rows[i] = np.concatenate([obs, [reward, terminated], next_obs, [is_new]])
        return rows

    @_timed("sac")
    def _act_and_update(self, observed: Float[np.ndarray, "N O"], info: StepInfo) -> None:
        """Store the transitions, choose the next actions, then begin the updates of this step.

        The updates run on the device while the environments take the next step.
        """
        is_random = self.counters.step + 1 < self.config.initial_steps
        action = self._device.act(observed, info, random=is_random)
        last_loss = self._loss
        if self.counters.step >= self.config.learn_after:
            self._loss = self._device.update(info)
        self._action = np.asarray(action.result())
        if last_loss is not None:  # the update before this step, which is done by now
            self._check_finite("critic_loss", np.asarray(last_loss.result()))

    @_timed("model")
    def _fit_model(self) -> None:
        """Fit the ensemble to the real transitions so far."""
        fit = self._fit or self._device.fit_model(self._step_info())
        self._fit = None
        report = self.counters.reports["fit"] = jax.tree.map(np.asarray, fit.result())
        self._check_finite("the model's holdout error", report.holdout_error)

    @_timed("rollout")
    def _imagine(self) -> None:
        """Fill the model buffer with imagined transitions."""
        reports = self.counters.reports
        imagined = jax.tree.map(np.asarray, self._device.imagine(self._step_info()).result())
        sums = imagined.sums
        refuse_all_nonfinite(sums.nonfinite, sums.steps, self.active, self._where)
        reports["selections"] = _joined(np.add, reports.get("selections"), sums)
        # One entry per fit, along an axis after that of the replicas.
        fits = jax.tree.map(lambda x: x[:, None], imagined.diagnostics)
        reports["diagnostics"] = _joined(_appended, reports.get("diagnostics"), fits)

    @_timed("eval")
    def _end_epoch(self, info: StepInfo) -> dict[str, Any]:
        """Evaluate the policies and return the metrics of the epoch.

        Episodes run on the host while the device assesses the policies and fits the next model.
        """
        counters = self.counters
        actors = self.replicas.to_host(self._device.state(), lambda state: state.sac.actor)
        assessed = self._device.assess(self._evaluator.starts(counters.step), info)
        if self._model_is_due:
            self._fit = self._device.fit_model(self._step_info())
        evaluations, confirmation = self._evaluator.evaluate(actors, counters, self.active)
        assessment = jax.tree.map(np.asarray, assessed.result())
        for name, sums in assessment.loss_sums.losses._asdict().items():
            self._check_finite(name, sums)
        metrics = epoch_metrics(self.config, counters, evaluations, assessment) | confirmation
        counters.finished = [[] for _ in self.seeds]
        counters.reports = {}
        return metrics

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
    def all_solved(self) -> bool:
        """Whether every replica has solved the task."""
        return None not in self.counters.solved_step

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
        sac = self.replicas.to_host(self.state(), lambda state: state.sac)
        for path, values in jax.tree_util.tree_leaves_with_path(sac):
            name = jax.tree_util.keystr(path, simple=True, separator=".")
            self._check_finite(f"sac.{name}", values)

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
        configs = self.replica_configs
        params = ReplicaParams(
            np.array(step_rules, np.int32),  # type: ignore[arg-type]
            stack_numbers([select_numbers(config) for config in configs]),
        )
        obs = self.envs.reset()
        seeds = np.array(self.seeds, np.uint32)
        state = self.replicas.init(self.algorithm.init, seeds, params, obs)
        self._action = self.replicas.to_host(state, lambda state: state.action)
        return state

    # --- the step's numbers and the check of results ----------------------------------------

    def _step_info(self) -> StepInfo:
        step = self.counters.step
        length = self.config.rollout_length_at(step)
        retained = min(self.config.retained(length), self.config.model_capacity)
        return StepInfo(np.int32(step), np.int32(length), np.int32(retained))  # type: ignore[arg-type]

    def _check_finite(self, name: str, values: Num[np.ndarray, "N ..."]) -> None:
        check_finite(name, values, self.active, self._where)

    def _where(self, replica: int) -> str:
        """Describe the step and a replica, with its algorithm where there are several."""
        kinds = [_kind(config) for config in self.replica_configs]
        kind = f"{kinds[replica]}, " if len(set(kinds)) > 1 else ""
        return f"step {self.counters.step}: {kind}seed {self.seeds[replica]}"


def _appended(earlier: np.ndarray, more: np.ndarray) -> np.ndarray:
    return np.concatenate([earlier, more], axis=1)


def _joined(join: Callable[..., np.ndarray], earlier: Any, more: Any) -> Any:
    """Return a report that joins an earlier one, if there is one, and a later one."""
    return more if earlier is None else jax.tree.map(join, earlier, more)


def _kind(config: Config) -> str:
    """Describe the algorithm of a configuration, with the radius if the algorithm has one."""
    has_radius = config.algo in used_by("radius")
    return f"{config.algo}, radius {config.radius}" if has_radius else config.algo


def _step_rules(
    configs: Sequence[Config], parts: UserParts, batched: bool
) -> tuple[tuple[StepRule, ...], list[int]]:
    """Return the ways to select of one program, and the index that each replica uses.

    In a batch every branch is computed, so it holds only the ways that are used. On the CPU one
    branch runs, and a program that never holds a single branch gives a replica the same bits alone
    or among others.
    """
    used = [step_rule_of(config, parts.select, parts.bonus) for config in configs]
    always = [] if batched else [step_rule_of(Config(env="", algo=name)) for name in _ALWAYS]
    distinct = list(dict.fromkeys(each for each in (*always, *used) if each is not None))
    index = [0 if each is None else distinct.index(each) for each in used]
    per_replica = zip(configs, index, strict=True)
    return tuple(distinct), [i for config, i in per_replica for _ in config.seeds]
