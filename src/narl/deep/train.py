"""The training loop: environments on the host, learning on the device, an evaluation per epoch."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from narl.deep import diagnostics
from narl.deep.envs import HostEnv, MakeEnv, open_env
from narl.deep.evaluation import Evaluation, evaluate, evaluation_seed
from narl.deep.lanes import Lanes, make_lanes, num_cores
from narl.deep.learner import Clock, Learner, Programs
from narl.deep.rollout import Ends, Lane
from narl.deep.selection import OPTIMISTIC, RANDOM
from narl.deep.settings import Settings
from narl.deep.spaces import Spaces, unscale_obs
from narl.deep.tasks import find_task
from narl.deep.termination import never
from narl.errors import InputError


@dataclasses.dataclass(frozen=True)
class LaneSpec:
    """One seed of one configuration; lanes of one training share everything else."""

    seed: int
    algo: str
    radius: float | None


@dataclasses.dataclass
class Books:
    """What the host keeps: counters and what the diagnostics of this epoch need."""

    step: int = 0
    episode_return: list[float] = dataclasses.field(default_factory=list)
    finished: list[list[float]] = dataclasses.field(default_factory=list)
    """Per lane, returns of the episodes that ended in this epoch."""
    num_episodes: list[int] = dataclasses.field(default_factory=list)
    solved_step: list[int | None] = dataclasses.field(default_factory=list)
    reports: dict[str, Any] = dataclasses.field(default_factory=dict)
    """What the ensemble said of itself in this epoch."""
    seconds: dict[str, float] = dataclasses.field(
        default_factory=lambda: dict.fromkeys(("env", "model", "rollout", "sac", "eval"), 0.0)
    )


class Fault(RuntimeError):
    """A number that is not finite where learning needs one; one line names it."""


class Training:
    """Lanes of one program, each with an environment of its own."""

    def __init__(
        self,
        settings: Settings,
        lanes: Sequence[LaneSpec],
        *,
        make_env: MakeEnv | None = None,
        termination: Ends | None = None,
        runner: Callable[[int], Lanes] = make_lanes,
    ) -> None:
        self.settings, self.specs = settings, tuple(lanes)
        self._make_env = make_env
        task = find_task(settings.env) if make_env is None else None
        self.envs = [self.open(spec.seed) for spec in self.specs]
        self.judges = [self.open(spec.seed) for spec in self.specs]
        """Environments of the evaluations."""
        spaces = self.envs[0].spaces
        known = choose_ends(settings, spaces, termination, task.termination if task else None)
        self.horizon = self.envs[0].time_limit or settings.eval_horizon
        self.programs = Programs(settings, spaces.obs_dim, spaces.action_dim, known, self.horizon)
        self.runner = runner(len(self.specs))
        self._lift(self.runner)
        self._nothing = np.zeros(len(self.specs), np.float32)
        """For programs that take no argument per lane."""
        self.books = Books(
            episode_return=[0.0] * len(self.specs),
            finished=[[] for _ in self.specs],
            num_episodes=[0] * len(self.specs),
            solved_step=[None] * len(self.specs),
        )
        self.state = self._begin()
        self._prepare()

    def open(self, seed: int, render_mode: str | None = None) -> HostEnv:
        """An environment like those of the training."""
        return open_course(self.settings, seed, render_mode, self._make_env)

    def _lift(self, runner: Lanes) -> None:
        lift, programs = runner.lift, self.programs
        self._explore = lift(functools.partial(programs.act, random=True))
        self._act = lift(functools.partial(programs.act, random=False))
        self._learn = lift(programs.learn)
        self._train_model = lift(programs.train_model)
        self._roll = lift(programs.roll)
        self._judge = lift(programs.judge)
        self._new_tally = lift(programs.new_tally)
        self._move = lift(programs.move)

    def _begin(self) -> Any:
        obs = np.stack([env.reset() for env in self.envs])
        seeds = np.array([spec.seed for spec in self.specs], np.uint32)
        state = self.runner.start(self.programs.begin, seeds, self._lane_options(), obs)
        self._action = self.runner.export(state, lambda learner: learner.action)
        return state

    def _prepare(self) -> None:
        """Compiles everything side by side, while the first steps are random."""
        settings, state, clock = self.settings, self.state, self._clock(0)
        obs_dim = self.programs.obs_dim
        observed = np.zeros((len(self.specs), 2 * obs_dim + 2), np.float32)
        starts = np.zeros((len(self.specs), settings.eval_episodes, obs_dim), np.float32)
        self._explore.prepare(state, observed, clock)
        self._act.prepare(state, observed, clock)
        self._learn.prepare(state, self._nothing, clock)
        self._judge.prepare(state, starts, clock)
        self._new_tally.prepare(state, self._nothing, clock)
        if settings.uses_model:
            self._train_model.prepare(state, self._nothing, clock)
            self._roll.prepare(state, self._nothing, clock)

    def _lane_options(self) -> Lane:
        kinds = [OPTIMISTIC if spec.algo == "narl" else RANDOM for spec in self.specs]
        radii = [np.inf if spec.radius is None else spec.radius for spec in self.specs]
        return Lane(np.array(kinds, np.int32), np.array(radii, np.float32))  # type: ignore[arg-type]

    @property
    def is_over(self) -> bool:
        """Whether all steps are done."""
        return self.books.step >= self.settings.steps

    @property
    def all_solved(self) -> bool:
        return all(step is not None for step in self.books.solved_step)

    def advance(self) -> dict[str, Any] | None:
        """One environment step of every lane; after the last of an epoch, its diagnostics."""
        settings, books = self.settings, self.books
        observed = self._step_envs()
        step = books.step
        clock = self._clock(step)
        due = (step - settings.initial_steps) % settings.model_every == 0
        if settings.uses_model and step >= settings.initial_steps and due:
            self._renew_model(clock)
        begin = self._now()
        # The action first: while an accelerator learns, the environments take their step. The
        # policy that acts is the one before this step's updates.
        program = self._explore if step + 1 < settings.initial_steps else self._act
        self.state, action = program(self.state, observed, clock)
        if step >= settings.learn_after:
            self.state, _ = self._learn(self.state, self._nothing, clock)
        self._action = np.asarray(action)
        books.seconds["sac"] += self._now() - begin
        books.step = step + 1
        if books.step % settings.epoch_length == 0 or self.is_over:
            return self._end_epoch(clock)
        return None

    def _clock(self, step: int) -> Clock:
        length = self.settings.rollout_length_at(step)
        retained = min(self.settings.retained(length), self.settings.model_capacity)
        return Clock(np.int32(step), np.int32(length), np.int32(retained))  # type: ignore[arg-type]

    def _now(self) -> float:
        """A clock that stands still while programs are compiled."""
        return time.perf_counter() - self.runner.compile_seconds

    def _step_envs(self) -> Float[np.ndarray, "N O"]:
        """What the environments answer: next_obs, reward, terminated, where to act next."""
        begin = time.perf_counter()
        books, rows = self.books, []
        for i, env in enumerate(self.envs):
            step = env.step(self._action[i])
            books.episode_return[i] += step.reward
            obs = step.obs
            if step.terminated or step.truncated:
                books.finished[i].append(books.episode_return[i])
                books.num_episodes[i] += 1
                books.episode_return[i] = 0.0
                obs = env.reset()
            rows.append(np.concatenate([step.obs, [step.reward, step.terminated], obs]))
        books.seconds["env"] += time.perf_counter() - begin
        return np.stack(rows).astype(np.float32)

    def _renew_model(self, clock: Clock) -> None:
        """Trains the ensemble and fills the model buffer."""
        seconds, reports = self.books.seconds, self.books.reports
        begin = self._now()
        self.state, report = self._train_model(self.state, self._nothing, clock)
        reports["fit"] = jax.tree.map(np.asarray, report)
        self._check("the model's holdout error", reports["fit"].holdout_error)
        trained = self._now()
        self.state, selections = self._roll(self.state, self._nothing, clock)
        selections = jax.tree.map(np.asarray, selections)
        if "selections" in reports:
            selections = jax.tree.map(np.add, reports["selections"], selections)
        reports["selections"] = selections
        seconds["model"] += trained - begin
        seconds["rollout"] += self._now() - trained

    def _end_epoch(self, clock: Clock) -> dict[str, Any]:
        """Evaluates, gathers the diagnostics and begins their sums anew."""
        begin = self._now()
        evaluations = self._evaluate()
        starts = np.stack([evaluation.starts for evaluation in evaluations])
        self.state, judgement = self._judge(self.state, starts, clock)
        self.state, tally = self._new_tally(self.state, self._nothing, clock)
        tally = jax.tree.map(np.asarray, tally)
        for name, values in tally.losses._asdict().items():
            self._check(name, values)
        books = self.books
        books.seconds["eval"] += self._now() - begin
        for i, evaluation in enumerate(evaluations):
            mean = float(np.mean(evaluation.returns))
            target = self.settings.solved_return
            if target is not None and mean >= target and books.solved_step[i] is None:
                books.solved_step[i] = books.step
        row = diagnostics.epoch_row(
            self.settings, books, evaluations, jax.tree.map(np.asarray, judgement), tally
        )
        books.finished = [[] for _ in self.specs]
        books.reports = {}
        return row

    def _evaluate(self) -> list[Evaluation]:
        actors = self.runner.export(self.state, lambda learner: learner.sac.actor)
        step, settings = self.books.step, self.settings

        def one(i: int) -> Evaluation:
            return evaluate(
                jax.tree.map(lambda x: x[i], actors),
                self.judges[i],
                settings.eval_episodes,
                evaluation_seed(self.specs[i].seed, step),
                self.horizon,
            )

        # MuJoCo lets other threads run while it steps.
        with ThreadPoolExecutor(min(len(self.specs), num_cores())) as threads:
            return list(threads.map(one, range(len(self.specs))))

    def _check(self, what: str, values: Float[np.ndarray, "N ..."]) -> None:
        """Stops at a number that is not finite."""
        for spec, value in zip(self.specs, values, strict=True):
            if not np.isfinite(value).all():
                found = np.ravel(value)[~np.isfinite(np.ravel(value))][0]
                raise Fault(f"step {self.books.step}: seed {spec.seed}: {what} is {found}")

    def export(self) -> Learner:
        """The whole state as NumPy arrays with a leading axis of lanes."""
        return self.runner.export(self.state)

    def restore(self, learner: Learner) -> None:
        """Takes over what `export` gave."""
        self.state = self.runner.restore(learner)
        self._action = np.asarray(learner.action)

    def cut_episodes(self) -> None:
        """Ends every episode here, as a time limit would; the next begin with seeds of this step.

        For environments whose state cannot be kept: what follows depends on nothing before.
        """
        books, obs = self.books, []
        for i, (env, spec) in enumerate(zip(self.envs, self.specs, strict=True)):
            books.episode_return[i] = 0.0
            obs.append(env.reset(seed=evaluation_seed(spec.seed + 1, books.step)))
        self.state, _ = self._move(self.state, np.stack(obs), self._clock(books.step))

    def close(self) -> None:
        """Closes environments and threads."""
        for env in (*self.envs, *self.judges):
            env.close()
        self.runner.close()


def open_course(
    settings: Settings, seed: int, render_mode: str | None = None, make_env: MakeEnv | None = None
) -> HostEnv:
    """An environment like those of the training."""
    task = find_task(settings.env) if make_env is None else None
    return open_env(
        settings.env if make_env is None else make_env,
        seed,
        task.env_kwargs if task else {},
        render_mode,
        scaling=settings.obs_scaling,
        obs_keep=task.obs_keep if task else None,
    )


def choose_ends(
    settings: Settings, spaces: Spaces, given: Ends | None, known: Ends | None
) -> Ends | None:
    """The termination inside the model, in the units of the networks; None: learned."""
    kind = settings.termination
    if kind == "never":
        return never
    if kind == "learned":
        return None
    ends = known if given is None else given
    if ends is None:
        if kind == "known":
            raise InputError(
                f"termination: none is known for {settings.env}; give a function, or 'learned'"
            )
        return None
    centre = 0.5 * (spaces.action_low + spaces.action_high)
    half = 0.5 * (spaces.action_high - spaces.action_low)

    def in_their_units(obs: Any, action: Any, next_obs: Any) -> Any:
        native = centre + half * action
        return ends(unscale_obs(spaces, obs), native, unscale_obs(spaces, next_obs))

    return in_their_units
