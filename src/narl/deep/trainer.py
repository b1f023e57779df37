"""The training loop: environments on the host, learning on the device, an evaluation per epoch."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
import numpy as np
from jaxtyping import Float

from narl.deep import metrics as diagnostics
from narl.deep.algorithm import Clock, Learner, Programs
from narl.deep.config import Settings
from narl.deep.counters import LaneSpec, new_books
from narl.deep.environment import HostEnv, MakeEnv, open_env
from narl.deep.examination import Examiner
from narl.deep.presets import find_preset
from narl.deep.replicas import Lanes, Lifted, make_lanes
from narl.deep.rollout import Ends, Lane
from narl.deep.selection import OPTIMISTIC, RANDOM
from narl.deep.spaces import Spaces, unscale_obs
from narl.deep.termination import never
from narl.errors import InputError


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
        with contextlib.ExitStack() as opened:
            self.envs = [self._opened(opened, spec.seed, "training") for spec in self.specs]
            self.judges = [self._opened(opened, spec.seed, "evaluation") for spec in self.specs]
            """Environments of the evaluations."""
            self.horizon = self.envs[0].time_limit or settings.eval_horizon
            self._examiner = Examiner(settings, self.specs, self.judges, self.horizon)
            self.runner = runner(len(self.specs))
            opened.callback(self.runner.close)
            self._worker = ThreadPoolExecutor(1, thread_name_prefix="narl-device")
            opened.callback(self._worker.shutdown)
            self._running: Future[Any] | None = None
            self.programs = self._programs(termination)
            self._lift(self.runner)
            self._nothing = np.zeros(len(self.specs), np.float32)
            """For programs that take no argument per lane."""
            self._loss: Any = self._nothing
            """The critics' loss of the last updates."""
            self._report: Any = None
            """What the last training of the ensemble said of itself."""
            self._judged: Any = None
            """Judgement and sums of the last epoch."""
            self.retired: set[int] = set()
            """Lanes of which nobody wants to know any more."""
            self.books = new_books(len(self.specs))
            self.state = self._begin()
            self._prepare()
            self._close = opened.pop_all().close

    def _opened(self, opened: contextlib.ExitStack, seed: int, role: str) -> HostEnv:
        return opened.enter_context(contextlib.closing(self.open(seed, role=role)))

    def _programs(self, termination: Ends | None) -> Programs:
        task = find_preset(self.settings.env) if self._make_env is None else None
        spaces = self.envs[0].spaces
        known = choose_ends(self.settings, spaces, termination, task.termination if task else None)
        selectors = {_selector(spec) for spec in self.specs}
        return Programs(
            self.settings,
            spaces.obs_dim,
            spaces.action_dim,
            known,
            self.horizon,
            selector=selectors.pop() if self.runner.batched and len(selectors) == 1 else None,
        )

    def open(self, seed: int, render_mode: str | None = None, role: str = "training") -> HostEnv:
        """An environment like those of the training."""
        return open_course(self.settings, seed, render_mode, self._make_env, role)

    def retire(self, lanes: slice) -> None:
        """These lanes step in no environment any more, are not evaluated, and stop nobody."""
        self.retired |= set(range(len(self.specs))[lanes])
        self.state = self.runner.rest(self.state, self.retired)

    @property
    def state(self) -> Any:
        """The lanes, after all that was begun."""
        self._wait()
        return self._state

    @state.setter
    def state(self, new: Any) -> None:
        self._wait()
        self._state = new

    def _wait(self) -> None:
        """Until what was begun is done; raises what went wrong in it."""
        if self._running is not None:
            self._state = self._running.result()
            self._running = None

    def _begin_work(self, work: Callable[[Any], Any], *programs: Lifted) -> None:
        """Lets another thread bring the state further; whoever asks for it next waits.

        To hand a whole loop of updates to an accelerator keeps a thread busy for a good part of the
        time that the loop takes. Environments need this one meanwhile. Compilation of the
        ``programs`` is waited for here, where the clock takes account of it.
        """
        for program in programs:
            program.wait()
        self._running = self._worker.submit(work, self.state)

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
        radii = [np.inf if spec.radius is None else spec.radius for spec in self.specs]
        elites = [self.settings.elites_of(spec.algo) for spec in self.specs]
        kinds = [_selector(spec) for spec in self.specs]
        return Lane(
            np.array(kinds, np.int32),  # type: ignore[arg-type]
            np.array(radii, np.float32),  # type: ignore[arg-type]
            np.array(elites, np.int32),  # type: ignore[arg-type]
        )

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
        begin = self._now()
        # The action first: while an accelerator learns, the environments take their step. The
        # policy that acts is the one before this step's updates.
        program = self._explore if step + 1 < settings.initial_steps else self._act
        self.state, action = program(self.state, observed, clock)
        before = self._loss
        if step >= settings.learn_after:
            self._begin_work(functools.partial(self._update, clock), self._learn)
        self._action = np.asarray(action)
        # The last step's: it is there by now, and nothing has to wait for it.
        self._check("critic_loss", np.asarray(before))
        books.seconds["sac"] += self._now() - begin
        books.step = step + 1
        if books.step % settings.epoch_length == 0 or self.is_over:
            return self._end_epoch(clock)
        if self._model_due:
            self._begin_work(self._fit, self._train_model)
            self._renew_model()
        return None

    def _update(self, clock: Clock, state: Any) -> Any:
        state, self._loss = self._learn(state, self._nothing, clock)
        return state

    @property
    def _model_due(self) -> bool:
        """Whether the next step begins with a new model."""
        settings, step = self.settings, self.books.step
        since = step - settings.initial_steps
        due = settings.uses_model and since >= 0 and since % settings.model_every == 0
        return due and not self.is_over

    def _clock(self, step: int) -> Clock:
        length = self.settings.rollout_length_at(step)
        retained = min(self.settings.retained(length), self.settings.model_capacity)
        return Clock(np.int32(step), np.int32(length), np.int32(retained))  # type: ignore[arg-type]

    def _now(self) -> float:
        """A clock that stands still while programs are compiled."""
        return time.perf_counter() - self.runner.compile_seconds

    def _step_envs(self) -> Float[np.ndarray, "N O"]:
        """What the environments answer: next_obs, reward, terminated, where to act next."""
        books, begin = self.books, time.perf_counter()
        rows = np.zeros((len(self.specs), 2 * self.programs.obs_dim + 2), np.float32)
        for i, env in enumerate(self.envs):
            if i in self.retired:
                continue
            step = env.step(self._action[i])
            books.episode_return[i] += step.reward
            obs = step.obs
            if step.terminated or step.truncated:
                books.finished[i].append(books.episode_return[i])
                books.num_episodes[i] += 1
                books.episode_return[i] = 0.0
                obs = env.reset()
            rows[i] = np.concatenate([step.obs, [step.reward, step.terminated], obs])
        books.seconds["env"] += time.perf_counter() - begin
        return rows

    def catch_up(self) -> None:
        """Trains the model that was due when all steps were done, now that there are more."""
        if self._model_due and "fit" not in self.books.reports:
            self._begin_work(self._fit, self._train_model)
            self._renew_model()

    def _fit(self, state: Any) -> Any:
        """Trains the ensemble."""
        clock = self._clock(self.books.step)
        state, self._report = self._train_model(state, self._nothing, clock)
        return state

    def _judge_and_fit(self, starts: Any, clock: Clock, renewing: bool, state: Any) -> Any:
        """What the model promises, the sums of the epoch and, if it is due, the next model."""
        state, judgement = self._judge(state, starts, clock)
        state, tally = self._new_tally(state, self._nothing, clock)
        self._judged = judgement, tally
        return self._fit(state) if renewing else state

    def _renew_model(self) -> None:
        """Waits for the ensemble and fills the model buffer."""
        seconds, reports = self.books.seconds, self.books.reports
        clock = self._clock(self.books.step)
        begin = self._now()
        self._wait()
        reports["fit"] = jax.tree.map(np.asarray, self._report)
        self._check("the model's holdout error", reports["fit"].holdout_error)
        trained = self._now()
        self.state, selections = self._roll(self.state, self._nothing, clock)
        selections = jax.tree.map(np.asarray, selections)
        for i, number in enumerate(selections.nonfinite):
            if number > 0 and i not in self.retired:
                raise Fault(f"{self._where(i)}: {number:.0f} imagined steps are not finite")
        if "selections" in reports:
            selections = jax.tree.map(np.add, reports["selections"], selections)
        reports["selections"] = selections
        seconds["model"] += trained - begin
        seconds["rollout"] += self._now() - trained

    def _end_epoch(self, clock: Clock) -> dict[str, Any]:
        """Evaluates, gathers the diagnostics and begins their sums anew."""
        books, begin = self.books, self._now()
        actors = self.runner.export(self.state, lambda learner: learner.sac.actor)
        renewing = self._model_due
        # Episodes run on the host: an accelerator judges and trains the next model meanwhile.
        starts = self._examiner.starts(books.step)
        work = functools.partial(self._judge_and_fit, starts, clock, renewing)
        self._begin_work(work, self._judge, self._new_tally, self._train_model)
        evaluations, confirming = self._examiner.examine(actors, books, self.retired)
        books.seconds["eval"] += self._now() - begin
        begin = self._now()
        self._wait()
        books.seconds["model" if renewing else "eval"] += self._now() - begin
        judgement, tally = jax.tree.map(np.asarray, self._judged)
        for name, values in tally.losses._asdict().items():
            self._check(name, values)
        row = diagnostics.epoch_row(self.settings, books, evaluations, judgement, tally)
        row |= confirming
        books.finished = [[] for _ in self.specs]
        books.reports = {}
        if renewing:
            self._renew_model()
        return row

    def _check(self, what: str, values: Float[np.ndarray, "N ..."]) -> None:
        """Stops at a number that is not finite."""
        for i, value in enumerate(values):
            if i not in self.retired and not np.isfinite(value).all():
                found = np.ravel(value)[~np.isfinite(np.ravel(value))][0]
                raise Fault(f"{self._where(i)}: {what} is {found}")

    def _where(self, lane: int) -> str:
        """The step and the lane, with its configuration where there are several."""
        spec, others = self.specs[lane], {(one.algo, one.radius) for one in self.specs}
        kind = f"{spec.algo}, radius {spec.radius}, " if len(others) > 1 else ""
        return f"step {self.books.step}: {kind}seed {spec.seed}"

    def export(self) -> Learner:
        """The whole state as NumPy arrays with a leading axis of lanes."""
        return self.runner.export(self.state)

    def restore(self, learner: Learner) -> None:
        """Takes over what `export` gave."""
        self.state = self.runner.restore(learner)
        self._action = np.asarray(learner.action)

    def cut_episodes(self, lanes: Sequence[int] | None = None) -> None:
        """Ends the episodes of those lanes (None: of all) here, as a time limit would.

        For environments that cannot be brought back to where they were. The next episodes begin
        with seeds of this step; their first action is the one that was drawn for the old episode.
        """
        books = self.books
        obs = np.array(self.runner.export(self.state, lambda learner: learner.obs))
        for i in range(len(self.specs)) if lanes is None else lanes:
            books.episode_return[i] = 0.0
            obs[i] = self.envs[i].cut(books.step)
        self.state, _ = self._move(self.state, obs, self._clock(books.step))

    def close(self) -> None:
        """Closes environments and threads."""
        self._close()


def _selector(spec: LaneSpec) -> int:
    return OPTIMISTIC if spec.algo == "narl" else RANDOM


def open_course(
    settings: Settings,
    seed: int,
    render_mode: str | None = None,
    make_env: MakeEnv | None = None,
    role: str = "training",
) -> HostEnv:
    """An environment like those of the training."""
    task = find_preset(settings.env) if make_env is None else None
    return open_env(
        settings.env if make_env is None else make_env,
        seed,
        task.env_kwargs if task else {},
        render_mode,
        scaling=settings.obs_scaling,
        obs_keep=task.obs_keep if task else None,
        role=role,
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
                f"termination: none is known for {settings.env}; give learned, in Python a function"
            )
        return None
    centre = 0.5 * (spaces.action_low + spaces.action_high)
    half = 0.5 * (spaces.action_high - spaces.action_low)

    def in_their_units(obs: Any, action: Any, next_obs: Any) -> Any:
        native = centre + half * action
        return ends(unscale_obs(spaces, obs), native, unscale_obs(spaces, next_obs))

    return in_their_units
