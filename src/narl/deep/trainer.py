"""The host loop of Algorithm 1: environments step on the host while the device learns.

`Trainer.step` is one environment step of every replica, with the functions of
`narl.deep.algorithm` in the paper's order. The device's thread is `device_queue`, compilation is in
`replicas`, evaluation in `evaluation`, the check for finite numbers in `finite`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Num

from narl.deep.algorithm import Algorithm, ReplicaState, StepInfo
from narl.deep.algorithms import MODEL_BASED, Optimism, optimism_of
from narl.deep.config import Config, users_of
from narl.deep.counters import new_counters
from narl.deep.device_queue import DeviceQueue
from narl.deep.environment import HostEnv
from narl.deep.evaluation import Evaluator
from narl.deep.finite import Fault, check_finite
from narl.deep.metrics import epoch_metrics
from narl.deep.replicas import Program, Replicas, make_replicas
from narl.deep.rollout import ReplicaParams
from narl.deep.training_environment import choose_termination, open_training_env
from narl.deep.user_parts import NO_PARTS, UserParts
from narl.errors import InputError


class Programs(NamedTuple):
    """The functions of `Algorithm`, mapped over all replicas and compiled once."""

    act_randomly: Program
    act: Program
    update: Program
    assess: Program
    fit_model: Program
    imagine: Program


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
                "model), radius, elites and seeds only"
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
            self.envs = [self._open_env(opened, seed, "training") for seed in self.seeds]
            eval_envs = [self._open_env(opened, seed, "evaluation") for seed in self.seeds]
            self.horizon = self.envs[0].time_limit or self.config.eval_horizon
            self._evaluator = Evaluator(self.config, self.seeds, eval_envs, self.horizon)
            self.replicas = make_replicas(len(self.seeds))
            opened.callback(self.replicas.close)
            self.optimisms, indices = _optimisms(configs, parts, self.replicas.batched)
            self.algorithm = self._make_algorithm()
            self._queue = DeviceQueue(self._init_state(indices))
            opened.callback(self._queue.close)
            self._programs = self._compile()
            self.close = opened.pop_all().close
        self._loss: Future[Any] | None = None
        """The critics' loss of the last update."""
        self._fit: Future[Any] | None = None
        """The fit that was begun while the policies were evaluated."""

    # --- Algorithm 1 ------------------------------------------------------------------------

    def step(self) -> dict[str, Any] | None:
        """Take one environment step with every replica; at the end of an epoch, its metrics."""
        config, counters = self.config, self.counters
        info = self._step_info()
        self._act_and_update(self._step_environments(), info)
        counters.step += 1
        metrics = None
        if counters.step % config.epoch_length == 0 or self.is_over:
            metrics = self._end_epoch(info)
        if self._model_is_due:
            self._renew_model()
        return metrics

    def _step_environments(self) -> Float[np.ndarray, "N O"]:
        """Do the chosen actions; return [next_obs, reward, terminated, obs to act on] of each."""
        counters = self.counters
        rows = np.zeros((len(self.seeds), 2 * self.algorithm.obs_dim + 2), np.float32)
        with self._time("env"):
            for i in self.active:
                step = self.envs[i].step(self._action[i])
                counters.episode_return[i] += step.reward
                obs = step.obs
                if step.terminated or step.truncated:
                    counters.finished[i].append(counters.episode_return[i])
                    counters.num_episodes[i] += 1
                    counters.episode_return[i] = 0.0
                    obs = self.envs[i].reset()
                rows[i] = np.concatenate([step.obs, [step.reward, step.terminated], obs])
        return rows

    def _act_and_update(self, observed: Float[np.ndarray, "N O"], info: StepInfo) -> None:
        """Store the transitions, choose the next actions, then begin the updates of this step.

        The updates run on the device while the environments take the next step.
        """
        is_random = self.counters.step + 1 < self.config.initial_steps
        program = self._programs.act_randomly if is_random else self._programs.act
        last_loss = self._loss
        with self._time("sac"):
            action = self._submit(program, info, observed)
            if self.counters.step >= self.config.learn_after:
                self._loss = self._submit(self._programs.update, info)
            self._action = np.asarray(action.result())
            if last_loss is not None:  # the update before this step, which is done by now
                self._check_finite("critic_loss", np.asarray(last_loss.result()))

    @property
    def _model_is_due(self) -> bool:
        """Whether the next step begins with a new model."""
        config, since = self.config, self.counters.step - self.config.initial_steps
        is_due = config.uses_model and since >= 0 and since % config.model_every == 0
        return is_due and not self.is_over

    def _renew_model(self) -> None:
        """Fit the ensemble to the data so far and fill the model buffer with imagined steps."""
        info, reports = self._step_info(), self.counters.reports
        with self._time("model"):
            fit, self._fit = self._fit or self._submit(self._programs.fit_model, info), None
            reports["fit"] = jax.tree.map(np.asarray, fit.result())
        self._check_finite("the model's holdout error", reports["fit"].holdout_error)
        with self._time("rollout"):
            sums = self._submit(self._programs.imagine, info).result()
            sums = jax.tree.map(np.asarray, sums)
        for i in self.active:
            if sums.nonfinite[i] > 0:
                raise Fault(f"{self._where(i)}: {sums.nonfinite[i]:.0f} imagined steps not finite")
        if "selections" in reports:
            sums = jax.tree.map(np.add, reports["selections"], sums)
        reports["selections"] = sums

    def _end_epoch(self, info: StepInfo) -> dict[str, Any]:
        """Evaluate the policies and return the metrics of the epoch.

        Episodes run on the host while the device assesses the policies and fits the next model.
        """
        counters = self.counters
        with self._time("eval"):
            actors = self.replicas.to_host(self.state, lambda state: state.sac.actor)
            starts = self._evaluator.starts(counters.step)
            assessed = self._submit(self._programs.assess, info, starts)
            if self._model_is_due:
                self._fit = self._submit(self._programs.fit_model, self._step_info())
            evaluations, confirmation = self._evaluator.evaluate(actors, counters, self.active)
            assessment = jax.tree.map(np.asarray, assessed.result())
        for name, sums in assessment.loss_sums.losses._asdict().items():
            self._check_finite(name, sums)
        metrics = epoch_metrics(self.config, counters, evaluations, assessment) | confirmation
        counters.finished = [[] for _ in self.seeds]
        counters.reports = {}
        return metrics

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

    @property
    def state(self) -> Any:
        """The state of the replicas after everything that was begun; waits for it."""
        return self._queue.wait()

    def to_host(self) -> ReplicaState:
        """Return the whole state as NumPy arrays with a leading axis of replicas."""
        return self.replicas.to_host(self.state)

    def from_host(self, state: ReplicaState) -> None:
        """Go on with a state that `to_host` returned."""
        self._queue.replace(self.replicas.from_host(state))
        self._action = np.asarray(state.action)

    def deactivate(self, replicas: slice) -> None:
        """Stop stepping, evaluating and learning with these replicas."""
        self.inactive |= set(range(len(self.seeds))[replicas])
        self._queue.replace(self.replicas.deactivate(self.state, self.inactive))

    def extend(self, last_step: int) -> None:
        """Go on to a later last step, with the new model that was not needed before."""
        self.last_step = last_step
        if self._model_is_due and "fit" not in self.counters.reports:
            self._renew_model()

    def check_policies(self) -> None:
        """Raise a `Fault` if a parameter of a policy, critic or optimiser is not finite."""
        sac = self.replicas.to_host(self.state, lambda state: state.sac)
        for path, values in jax.tree_util.tree_leaves_with_path(sac):
            name = jax.tree_util.keystr(path, simple=True, separator=".")
            self._check_finite(f"sac.{name}", values)

    # --- set-up -----------------------------------------------------------------------------

    def _open_env(self, opened: contextlib.ExitStack, seed: int, role: str) -> HostEnv:
        env = open_training_env(self.config, seed, source=self.parts.env, role=role)
        return opened.enter_context(contextlib.closing(env))

    def _make_algorithm(self) -> Algorithm:
        spaces = self.envs[0].spaces
        return Algorithm(
            self.config,
            spaces.obs_dim,
            spaces.action_dim,
            choose_termination(self.config, spaces, self.parts),
            self.horizon,
            self.optimisms,
        )

    def _init_state(self, optimism: Sequence[int]) -> Any:
        """Reset the environments and return the first state of every replica."""
        configs = self.replica_configs
        radii = [np.inf if config.radius is None else config.radius for config in configs]
        params = ReplicaParams(
            np.array(optimism, np.int32),  # type: ignore[arg-type]
            np.array(radii, np.float32),  # type: ignore[arg-type]
            np.array([config.num_elites for config in configs], np.int32),  # type: ignore[arg-type]
        )
        obs = np.stack([env.reset() for env in self.envs])
        seeds = np.array(self.seeds, np.uint32)
        state = self.replicas.init(self.algorithm.init, seeds, params, obs)
        self._action = self.replicas.to_host(state, lambda state: state.action)
        return state

    def _compile(self) -> Programs:
        """Begin to compile every program side by side, while the first steps are random."""
        algorithm, map_replicas = self.algorithm, self.replicas.map
        programs = Programs(
            map_replicas(functools.partial(algorithm.act, random=True)),
            map_replicas(functools.partial(algorithm.act, random=False)),
            *map(map_replicas, (algorithm.update, algorithm.assess)),
            *map(map_replicas, (algorithm.fit_model, algorithm.imagine)),
        )
        state, info, num_replicas = self.state, self._step_info(), len(self.seeds)
        observed = np.zeros((num_replicas, 2 * algorithm.obs_dim + 2), np.float32)
        episodes = self.config.eval_episodes
        starts = np.zeros((num_replicas, episodes, algorithm.obs_dim), np.float32)
        programs.act_randomly.compile_for(state, observed, info)
        programs.act.compile_for(state, observed, info)
        programs.update.compile_for(state, self._no_argument, info)
        programs.assess.compile_for(state, starts, info)
        if self.config.uses_model:
            programs.fit_model.compile_for(state, self._no_argument, info)
            programs.imagine.compile_for(state, self._no_argument, info)
        return programs

    # --- the device, the clock and the check of numbers -------------------------------------

    def _submit(self, program: Program, info: StepInfo, own: Any = None) -> Future[Any]:
        return self._queue.submit(program, self._no_argument if own is None else own, info)

    @functools.cached_property
    def _no_argument(self) -> Float[np.ndarray, " N"]:
        """The argument of programs that take none of their own."""
        return np.zeros(len(self.seeds), np.float32)

    def _step_info(self) -> StepInfo:
        step = self.counters.step
        length = self.config.rollout_length_at(step)
        retained = min(self.config.retained(length), self.config.model_capacity)
        return StepInfo(np.int32(step), np.int32(length), np.int32(retained))  # type: ignore[arg-type]

    def _time(self, part: str) -> contextlib.AbstractContextManager[None]:
        return self.counters.time(part, lambda: self.replicas.compiler.seconds)

    def _check_finite(self, name: str, values: Num[np.ndarray, "N ..."]) -> None:
        check_finite(name, values, self.active, self._where)

    def _where(self, replica: int) -> str:
        """Describe the step and a replica, with its algorithm where there are several."""
        kinds = [_kind(config) for config in self.replica_configs]
        kind = f"{kinds[replica]}, " if len(set(kinds)) > 1 else ""
        return f"step {self.counters.step}: {kind}seed {self.seeds[replica]}"


def _kind(config: Config) -> str:
    """Describe the algorithm of a configuration, with the radius if the algorithm has one."""
    has_radius = config.algo in users_of("radius")
    return f"{config.algo}, radius {config.radius}" if has_radius else config.algo


def _optimisms(
    configs: Sequence[Config], parts: UserParts, batched: bool
) -> tuple[tuple[Optimism, ...], list[int]]:
    """Return the ways to select of one program, and the index that each replica uses.

    In a batch every branch is computed, so it holds only the ways that are used. On the CPU one
    branch runs, and a program that always holds narl's own gives a replica the same bits alone or
    among others.
    """
    used = [optimism_of(config.algo, parts.select, parts.bonus) for config in configs]
    built_in = [] if batched else [optimism_of(name) for name in sorted(MODEL_BASED)]
    distinct = list(dict.fromkeys(each for each in (*built_in, *used) if each is not None))
    index = [0 if each is None else distinct.index(each) for each in used]
    per_replica = zip(configs, index, strict=True)
    return tuple(distinct), [i for config, i in per_replica for _ in config.seeds]
