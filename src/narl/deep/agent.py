"""The Python API: make an agent, let it learn, ask it what to do, save and load it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import gymnasium
import jax
import numpy as np

from narl import store
from narl.compilation import enable_cache
from narl.deep.asked import check_seeds, check_steps
from narl.deep.checkpoint import save_checkpoint
from narl.deep.course import Course, OnEpoch, course_from, open_course
from narl.deep.envs import HostEnv, MakeEnv
from narl.deep.evaluation import Evaluation, evaluate, evaluation_seed
from narl.deep.interrupts import holding_interrupts
from narl.deep.journal import NAME as JOURNAL
from narl.deep.kept import curves, networks, sees_first_entries
from narl.deep.own_env import OwnEnv, as_ends
from narl.deep.owners import refuse_what_is_not_used
from narl.deep.policy import Interface, Policy, initial_actors, interface_of
from narl.deep.resume import capture, reinstate
from narl.deep.rollout import Ends
from narl.deep.saved import State, read_saved, roomy, with_room
from narl.deep.settings import Settings, make_settings
from narl.deep.train import Training
from narl.deep.unfinished import CHECKPOINTS
from narl.deep.video import record_episode
from narl.errors import InputError
from narl.files import plain

Env = str | MakeEnv | gymnasium.Env
"""Gymnasium's id, a function that makes environments, or an environment (for one seed)."""


class Agent:
    """One algorithm on one environment, with one or more seeds; see `NARL`, `MBPO`, `SAC`."""

    algo: ClassVar[str]

    def __init__(
        self,
        env: Env,
        *,
        seed: int = 0,
        seeds: Sequence[int] | None = None,
        termination: str | Callable[..., Any] | None = None,
        **settings: Any,
    ) -> None:
        if isinstance(termination, str):
            settings["termination"] = termination
        refuse_what_is_not_used(self.algo, settings)
        own = None if isinstance(env, str) else OwnEnv(env)
        made = make_settings(env if own is None else own.name, self.algo, **settings)  # type: ignore[arg-type]
        single = own is not None and own.is_instance
        chosen = check_seeds((seed,) if seeds is None else seeds, one_env=single)
        opened = open_course(made, chosen[0], make_env=None if own is None else own.opener())
        interface = interface_of(opened, own is None and sees_first_entries(made.env))
        if not single:
            opened.close()
        self._set_up(made, chosen, interface, own)
        self._choose_ends(termination if callable(termination) else None)

    def _set_up(
        self, settings: Settings, seeds: tuple[int, ...], interface: Interface, own: OwnEnv | None
    ) -> None:
        self.settings, self.seeds = settings, seeds
        self.history: list[dict[str, Any]] = []
        """The diagnostics of every epoch so far (see docs/metrics.md)."""
        self.num_steps = 0
        """Environment steps of each seed so far."""
        self._interface, self._own = interface, own
        self._ends: Ends | None = None
        self._own_termination = False
        self._training: Training | None = None
        self._state: State | None = None
        """Where learning goes on, while there is no training."""
        self._policy: Policy | None = None
        self._networks: dict[str, np.ndarray] = {}
        """What was learned, while there is no training."""
        self._no_learning = ""
        self._no_env = ""
        """Why it cannot be done, if it cannot."""
        self._generator = np.random.default_rng(seeds)

    def _choose_ends(self, given: Callable[..., Any] | None) -> None:
        """The user's termination, or that of an unchanged environment that he made himself."""
        self._own_termination = given is not None
        if given is None and self._own is not None and self.settings.termination != "learned":
            given = self._own.known
        if given is not None:
            spaces = self._interface.spaces
            self._ends = as_ends(given, spaces.obs_dim, spaces.action_dim)

    # --- learning ---------------------------------------------------------------------------

    def learn(
        self,
        total_steps: int | None = None,
        callback: OnEpoch | None = None,
        progress: bool = False,
        *,
        total_timesteps: int | None = None,
    ) -> Self:
        """Trains for ``total_steps`` environment steps, by default those of the settings.

        Called again, it goes on for so many steps more; the random steps of the beginning may
        fill a call or several. (With models the size of the buffers, and so how many steps were
        asked for, has a part in the rounding of sums.) After every epoch ``callback`` is given its
        diagnostics; if it returns False, learning ends there. Ctrl-C ends it too, after the step
        it is in. What was learned stays, and learning can go on. ``total_timesteps`` is another
        name of ``total_steps``.
        """
        from narl.commands.bar import TrainingBar

        more = check_steps(total_steps, total_timesteps, self.settings.steps)
        training = self._begin(self.num_steps + more)
        name, steps = f"{self.algo} {self.settings.env}", training.settings.steps
        try:
            with (
                TrainingBar(name, steps, training.books.step, shown=progress) as bar,
                holding_interrupts() as interrupted,
            ):
                training.catch_up()
                while not training.is_over and not interrupted():
                    row = training.advance()
                    self.num_steps = training.books.step
                    bar.advance(self.num_steps)
                    if row is None:
                        continue
                    self.history.append(plain("row", row, non_finite="null"))
                    self._refresh(training)
                    bar.end_epoch(row)
                    if callback is not None and callback(row) is False:
                        break
                stopped = interrupted()
        except BaseException:
            # The policy of the last epoch stays; the state may be that of half a step.
            self._shut(training)
            self._no_learning = "learn: it went wrong before; make a new agent"
            raise
        self._refresh(training)
        if stopped:
            raise KeyboardInterrupt
        return self

    def _begin(self, total: int) -> Training:
        """A training that ends after so many steps.

        It has room for more, so that learning mostly goes on where it was: with the programs and
        the data that are on the device.
        """
        if self._no_learning or self._no_env:
            raise InputError(self._no_learning or self._no_env)
        if self._training is not None and total > self._training.programs.settings.steps:
            self._state = capture(self._training)
            self._shut(self._training)
        if self._training is None:
            self._training, self._state = self._open_training(total), None
        self._training.settings = dataclasses.replace(self.settings, steps=total)
        return self._training

    def _open_training(self, total: int) -> Training:
        """A training with room for the steps, at the step where learning is."""
        settings = roomy(self.settings, total, self._state, self._interface.spaces, self.seeds)
        if getattr(jax.config, "jax_compilation_cache_dir", None) is None:
            enable_cache()
        training = Training(
            settings,
            Course(settings, self.seeds).specs(),
            make_env=None if self._own is None else self._own.opener(),
            termination=self._ends,
        )
        if self._state is not None:
            arrays, notes = self._state
            reinstate(training, with_room(arrays, training), notes)
        return training

    def _refresh(self, training: Training) -> None:
        """Takes over the policy."""
        actors = training.runner.export(training.state, lambda learner: learner.sac.actor)
        self._policy = Policy(self.seeds, actors, self._interface)

    def _shut(self, training: Training) -> None:
        """Ends a training; an environment of the user's stays open."""
        if self._own is not None and self._own.is_instance:
            training.envs[0].env = gymnasium.Env()
        training.close()
        self._training = None

    def close(self) -> None:
        """Gives back environments and data; the policy stays, and learning is over."""
        if self._training is not None:
            self._networks = networks(self._training)
            self._shut(self._training)
        self._state = None
        self._no_learning = self._no_learning or "learn: the agent was closed; make a new one"

    # --- acting -----------------------------------------------------------------------------

    def predict(
        self, obs: Any, deterministic: bool = True, seed: int | None = None
    ) -> tuple[np.ndarray, None]:
        """The action for an observation, or actions for a batch, as the environment takes them.

        The second value is always None: policies have no state. Before anything was learned, the
        policy acts that learning begins with. Of several seeds the first one's does, or that of
        ``seed``; with ``deterministic=False`` actions are drawn from it.
        """
        return self.policy.act(obs, seed, None if deterministic else self._generator), None

    @property
    def policy(self) -> Policy:
        """The policy as learning left it."""
        if self._policy is None:
            actors = initial_actors(self.settings, self.seeds, self._interface)
            self._policy = Policy(self.seeds, actors, self._interface)
        return self._policy

    def evaluate(self, num_episodes: int = 10, seed: int | None = None) -> Evaluation:
        """Deterministic episodes in an environment of their own, the same ones at every call."""
        if num_episodes < 1:
            raise InputError(f"episodes: {num_episodes} is too small; the nearest valid value is 1")
        chosen = self.seeds[0] if seed is None else seed
        actor = self.policy.actor(chosen)
        with contextlib.closing(self._open(chosen)) as env:
            start = evaluation_seed(chosen, 0)
            return evaluate(actor, env, num_episodes, start, self._horizon(env))

    def record(self, path: Path | str, seed: int | None = None) -> None:
        """A video (.mp4 or .gif) of the first of those episodes."""
        chosen = self.seeds[0] if seed is None else seed
        actor = self.policy.actor(chosen)
        with contextlib.closing(self._open(chosen, "rgb_array")) as env:
            start = evaluation_seed(chosen, 0)
            record_episode(actor, env, start, self._horizon(env), Path(path))

    def picture(self) -> np.ndarray:
        """How an episode looks at its beginning, [height, width, 3]."""
        with contextlib.closing(self._open(self.seeds[0], "rgb_array")) as env:
            env.reset()
            return env.render()

    def _horizon(self, env: HostEnv) -> int:
        return env.time_limit or self.settings.eval_horizon

    def _open(self, seed: int, render_mode: str | None = None) -> HostEnv:
        if self._no_env:
            raise InputError(self._no_env)
        make = None if self._own is None else self._own.another
        return open_course(self.settings, seed, render_mode, make, "evaluation")

    # --- keeping ----------------------------------------------------------------------------

    def save(self, folder: Path | str, *, data: bool = False) -> Path:
        """Writes what was learned; with ``data`` also what learning needs to go on after `load`.

        Numbers, JSON and their checksums; nothing is pickled. A saved agent that is there is
        replaced.
        """
        learned = self._networks if self._training is None else networks(self._training)
        state = self._state if self._training is None else capture(self._training)
        if data and state is None:
            raise InputError("data: there is none; it comes with learning")
        own = {"own_env": self._own is not None, "own_termination": self._own_termination}
        last = self.history[-1] if self.history else {}
        kept = store.save_at(
            folder,
            Course(self.settings, self.seeds).config() | own,
            {
                "steps": self.num_steps,
                "final_return": last.get("eval_return"),
                "solved_step": last.get("solved_step"),
            },
            learned | self.policy.arrays() | curves(self.history),
            device=jax.devices()[0].device_kind,
            extras={JOURNAL: "".join(json.dumps(row) + "\n" for row in self.history).encode()},
        )
        if data and state is not None:
            save_checkpoint(kept.path / CHECKPOINTS, self.num_steps, *state)
        return kept.path

    @classmethod
    def load(cls, folder: Path | str, env: Env | None = None, termination: Any = None) -> Self:
        """What `save` or `narl train` left in a folder; see `narl.load`."""
        agent = load(folder, env, termination)
        if not isinstance(agent, cls):
            raise InputError(
                f"folder: {folder} holds an agent of {agent.algo}; take narl.load, or "
                f"narl.{type(agent).__name__}.load"
            )
        return agent


class NARL(Agent):
    """Noise-augmented RL: optimistic over ``members`` models within ``radius`` of their mean."""

    algo = "narl"

    def __init__(
        self,
        env: Env,
        *,
        members: int = 3,
        radius: float | None = 0.1,
        seed: int = 0,
        seeds: Sequence[int] | None = None,
        termination: str | Callable[..., Any] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(
            env,
            members=members,
            radius=radius,
            seed=seed,
            seeds=seeds,
            termination=termination,
            **settings,
        )


class MBPO(Agent):
    """Model-based policy optimisation: a random one of the best models at every step."""

    algo = "mbpo"

    def __init__(
        self,
        env: Env,
        *,
        members: int = 7,
        elites: int | None = None,
        seed: int = 0,
        seeds: Sequence[int] | None = None,
        termination: str | Callable[..., Any] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(
            env,
            members=members,
            elites=elites,
            seed=seed,
            seeds=seeds,
            termination=termination,
            **settings,
        )


class SAC(Agent):
    """Soft actor-critic on real data alone."""

    algo = "sac"


AGENTS: dict[str, type[Agent]] = {kind.algo: kind for kind in (NARL, MBPO, SAC)}


def load(
    folder: Path | str, env: Env | None = None, termination: Callable[..., Any] | None = None
) -> Agent:
    """The agent that `Agent.save` or `narl train` left in a folder, with the same policy.

    An unfinished training (ID.part) gives that of its last checkpoint. Where the agent learned in
    an environment or with a termination of the user's own, they are to be given again, unless
    only `Agent.predict` is called. Learning can go on where the data are there as well.
    """
    kept = read_saved(Path(folder))
    course = course_from(kept.config)
    own = None if env is None or isinstance(env, str) else OwnEnv(env)
    settings = course.settings
    if isinstance(env, str):
        settings = dataclasses.replace(settings, env=env)
    agent = object.__new__(AGENTS[settings.algo])
    agent._set_up(settings, course.seeds, kept.policy.interface, own)
    agent._policy, agent._networks, agent._state = kept.policy, kept.networks, kept.state
    agent.history, agent.num_steps = kept.history, kept.num_steps
    again = "was the user's own; give it to narl.load again"
    if kept.config.get("own_env") and env is None:
        agent._no_env = f"env: {settings.env} {again}, env=..."
    if kept.state is None:
        agent._no_learning = "learn: no data were saved; save with data=True, or make a new agent"
    elif kept.config.get("own_termination") and termination is None:
        agent._no_learning = f"termination: it {again}, termination=..."
    agent._choose_ends(termination)
    return agent
