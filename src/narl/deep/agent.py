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

from narl import storage
from narl.deep.callbacks import Callback, as_callback
from narl.deep.config import Settings, make_settings
from narl.deep.environment import HostEnv, MakeEnv
from narl.deep.evaluation import Evaluation, evaluate, evaluation_seed
from narl.deep.interrupts import holding_interrupts
from narl.deep.learning import Learning
from narl.deep.owners import refuse_what_is_not_used
from narl.deep.policy import (
    Interface,
    Policy,
    check_interface,
    initial_actors,
    interface_of,
    policy_from,
)
from narl.deep.run_artifacts import curves, sees_first_entries
from narl.deep.saved import read_saved
from narl.deep.training_run import Course, course_from, open_course
from narl.deep.user_environment import OwnEnv, as_ends, check_termination
from narl.deep.video import record_episode
from narl.errors import InputError
from narl.storage.checkpoints import save_checkpoint
from narl.storage.folder import to_json_values
from narl.storage.metrics_log import NAME as JOURNAL
from narl.storage.unfinished import CHECKPOINTS
from narl.validation import check_episodes, check_seeds, check_steps

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
        seeds: Sequence[int] | str | None = None,
        termination: str | Callable[..., Any] | None = None,
        **settings: Any,
    ) -> None:
        if termination is not None:
            check_termination(termination, self.algo)
        if isinstance(termination, str):
            settings["termination"] = termination
        refuse_what_is_not_used(self.algo, settings)
        own = None if isinstance(env, str) else OwnEnv(env)
        made = make_settings(env if own is None else own.name, self.algo, **settings)  # type: ignore[arg-type]
        single = own is not None and own.is_instance
        chosen = check_seeds((seed,) if seeds is None else seeds, one_env=single)
        self._set_up(made, chosen, _look_at(made, chosen[0], own)[0], own)
        self._choose_ends(termination if callable(termination) else None)

    def _set_up(
        self, settings: Settings, seeds: tuple[int, ...], interface: Interface, own: OwnEnv | None
    ) -> None:
        self.settings, self.seeds = settings, seeds
        self.history: list[dict[str, Any]] = []
        """The diagnostics of every epoch so far (see docs/metrics.md)."""
        self._interface, self._own = interface, own
        self._own_termination = False
        self._learning = Learning(settings, seeds, interface.spaces, own)
        self._policy: Policy | None = None
        self._no_env = ""
        """Why none can be opened, if it cannot."""
        self._generator = np.random.default_rng(seeds)

    def _choose_ends(self, given: Callable[..., Any] | None) -> None:
        """The user's termination, or that of an unchanged environment that he made himself."""
        self._own_termination = given is not None
        if given is None and self._own is not None and self.settings.termination != "learned":
            given = self._own.known
        if given is not None:
            spaces = self._interface.spaces
            self._learning.ends = as_ends(given, spaces.obs_dim, spaces.action_dim)

    @property
    def num_steps(self) -> int:
        """Environment steps of each seed so far."""
        return self._learning.num_steps

    # --- learning ---------------------------------------------------------------------------

    def learn(
        self,
        total_steps: int | None = None,
        callback: Callback | Sequence[Callback] | None = None,
        progress: bool = False,
        *,
        total_timesteps: int | None = None,
    ) -> Self:
        """Trains for ``total_steps`` environment steps, by default those of the settings.

        Called again, it goes on for so many steps more; the random steps of the beginning may
        fill a call or several. (With models the size of the buffers, and so how many steps were
        asked for, has a part in the rounding of sums.) After every epoch ``callback``, or each of
        a list of them, is given its diagnostics; if one returns False, learning ends there. Ctrl-C
        ends it too, after the step it is in, and so does an error in a callback: what was learned
        stays, and learning can go on. Where a step itself goes wrong, the networks of the last
        epoch stay. ``total_timesteps`` is another name of ``total_steps``.
        """
        from narl.commands.training_bar import TrainingBar

        more = check_steps(total_steps, total_timesteps, self.settings.steps)
        goes_on, learning = as_callback(callback), self._learning
        if problem := learning.problem or self._no_env:
            raise InputError(problem)
        training = learning.begin(self.num_steps + more)
        name, steps = f"{self.algo} {self.settings.env}", training.settings.steps
        with (
            TrainingBar(name, steps, training.books.step, shown=progress) as bar,
            holding_interrupts() as interrupted,
        ):
            learning.catch_up()
            # A callback may close the agent.
            while learning.training is training and not training.is_over and not interrupted():
                row = learning.advance()
                bar.advance(self.num_steps)
                if row is None:
                    continue
                self.history.append(to_json_values("row", row, non_finite="null"))
                self._refresh()
                bar.end_epoch(row)
                if not goes_on(row):
                    break
            stopped = interrupted()
        learning.keep()
        self._refresh()
        if stopped:
            raise KeyboardInterrupt
        return self

    def _refresh(self) -> None:
        """Takes over the policy."""
        self._policy = policy_from(self._learning.networks, self.seeds, self._interface)

    def close(self) -> None:
        """Gives back environments and data; the policy stays, and learning is over."""
        self._learning.close()

    # --- acting -----------------------------------------------------------------------------

    def predict(
        self,
        obs: Any,
        deterministic: bool = True,
        seed: int | None = None,
        *,
        state: Any = None,
        episode_start: Any = None,
    ) -> tuple[np.ndarray, None]:
        """The action for an observation, or actions for a batch, as the environment takes them.

        Before anything was learned, the policy acts that learning begins with. Of several seeds
        the first one's does, or that of ``seed``; with ``deterministic=False`` actions are drawn
        from it. Policies have no state: the second value is always None, and ``state`` and
        ``episode_start`` are there for callers that know Stable-Baselines3's policies.
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
        num_episodes = check_episodes(num_episodes)
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
        env = open_course(self.settings, seed, render_mode, make, "evaluation")
        try:
            check_interface(self._interface, interface_of(env), env.name)
        except InputError:
            env.close()
            raise
        return env

    # --- keeping ----------------------------------------------------------------------------

    def save(self, folder: Path | str, *, data: bool = False) -> Path:
        """Writes what was learned; with ``data`` also what learning needs to go on after `load`.

        Numbers, JSON and their checksums; nothing is pickled. A saved agent that is there is
        replaced.
        """
        learning = self._learning
        state = learning.state() if data else None
        if data and state is None:
            why = learning.problem.removeprefix("learn: ") or "it comes with learning"
            raise InputError(f"data: there is none; {why}")
        own = {"own_env": self._own is not None, "own_termination": self._own_termination}
        last = self.history[-1] if self.history else {}
        kept = storage.save_run_at(
            folder,
            Course(self.settings, self.seeds).config() | own,
            {
                "steps": self.num_steps,
                "final_return": last.get("eval_return"),
                "solved_step": last.get("solved_step"),
            },
            learning.networks | self.policy.arrays() | curves(self.history),
            device=jax.devices()[0].device_kind,
            extras={JOURNAL: "".join(json.dumps(row) + "\n" for row in self.history).encode()},
        )
        if state is not None:
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
        seeds: Sequence[int] | str | None = None,
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
        seeds: Sequence[int] | str | None = None,
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
    if termination is not None:
        check_termination(termination, course.settings.algo, named=False)
    own = None if env is None or isinstance(env, str) else OwnEnv(env)
    settings = course.settings
    if isinstance(env, str):
        settings = dataclasses.replace(settings, env=env)
    if env is not None:
        check_interface(kept.policy.interface, *_look_at(settings, course.seeds[0], own))
    agent = object.__new__(AGENTS[settings.algo])
    agent._set_up(settings, course.seeds, kept.policy.interface, own)
    agent._policy, agent.history, learning = kept.policy, kept.history, agent._learning
    learning.go_on_from(kept.state, kept.networks, kept.num_steps)
    again = "was the user's own; give it to narl.load again"
    if kept.config.get("own_env") and env is None:
        agent._no_env = f"env: {settings.env} {again}, env=..."
    if kept.state is None:
        learning.problem = f"learn: {kept.no_state}, or make a new agent"
    elif kept.config.get("own_termination") and termination is None:
        learning.problem = f"termination: it {again}, termination=..."
    agent._choose_ends(termination)
    return agent


def _look_at(settings: Settings, seed: int, own: OwnEnv | None) -> tuple[Interface, str]:
    """What policies see and give in the environment, and its name."""
    env = open_course(settings, seed, make_env=None if own is None else own.opener())
    if own is None or not own.is_instance:
        env.close()
    return interface_of(env, own is None and sees_first_entries(settings.env)), env.name
