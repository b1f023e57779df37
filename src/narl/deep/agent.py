"""The Python API: make an agent, let it learn, ask it for actions, save and load it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import gymnasium
import jax
import numpy as np

from narl import storage
from narl.console import TrainingBar
from narl.deep.agent_training import AgentTraining
from narl.deep.bonus import BonusFn
from narl.deep.callbacks import Callback, as_callback
from narl.deep.checked_config import make_config
from narl.deep.config import Config, used_by
from narl.deep.environment import HostEnv
from narl.deep.evaluation import Evaluation, evaluate, evaluation_seed
from narl.deep.make_environment import MakeEnv, UserEnvironment
from narl.deep.metrics import curves
from narl.deep.policy import (
    Interface,
    Policy,
    check_interface,
    initial_actors,
    interface_of,
    policy_from,
)
from narl.deep.presets import shortens_observations
from narl.deep.saved_agent import read_saved_agent
from narl.deep.selection import SelectFn
from narl.deep.termination import batched_termination, check_termination
from narl.deep.training_environment import open_training_env
from narl.deep.user_parts import UserParts, check_functions
from narl.deep.video import record_episode
from narl.errors import InputError
from narl.interrupts import hold_interrupts
from narl.options import check_used_by
from narl.storage.checkpoints import save_checkpoint
from narl.storage.folder import to_json_values
from narl.storage.metrics_log import PROGRESS, rows_to_bytes
from narl.storage.unfinished import CHECKPOINTS
from narl.validation import check_count, check_seeds, check_steps

Env = str | MakeEnv | gymnasium.Env
"""Gymnasium's id, a function that makes environments, or an environment (for one seed)."""


class Agent:
    """An algorithm on an environment, with one or more seeds; see `NARL`, `MBPO` and `SAC`.

    ``algo`` is the name of an algorithm, also of one that `register_algorithm` added. ``select``
    and ``bonus`` take the place of the algorithm's own (see `narl.deep.selection`). The other
    options are the fields of `narl.deep.Config`.
    """

    algo = "narl"

    def __init__(
        self,
        env: Env,
        *,
        algo: str | None = None,
        seed: int = 0,
        seeds: Sequence[int] | str | None = None,
        termination: str | Callable[..., Any] | None = None,
        select: SelectFn | None = None,
        bonus: BonusFn | None = None,
        **options: Any,
    ) -> None:
        if algo is not None:
            if type(self) is not Agent:
                kind = type(self).__name__
                raise InputError(f"algo: {kind} is {self.algo}; leave it out, or make narl.Agent")
            self.algo = algo
        user_env = None if isinstance(env, str) else UserEnvironment(env)
        one_env = user_env is not None and user_env.is_instance
        options["seeds"] = check_seeds((seed,) if seeds is None else seeds, one_env=one_env)
        if termination is not None:
            check_termination(termination)
            options["termination"] = termination if isinstance(termination, str) else "auto"
        name = env if isinstance(env, str) else user_env.name  # type: ignore[union-attr]
        config = make_config(name, self.algo, **options)
        interface, _ = _look_at(config, user_env)
        function = termination if callable(termination) else None
        self._set_up(config, interface, UserParts(user_env, None, select, bonus), function)

    def _set_up(
        self,
        config: Config,
        interface: Interface,
        parts: UserParts,
        termination: Callable[..., Any] | None,
    ) -> None:
        """Set the attributes; without a termination, take the user environment's, if any."""
        self.config = config
        self.history: list[dict[str, Any]] = []
        """The metrics of every epoch so far (see docs/metrics.md)."""
        spaces, user_env = interface.spaces, parts.env
        check_functions(config, parts, spaces.obs_dim, spaces.action_dim)
        self._own_termination = termination is not None
        if termination is None and config.termination != "learned":
            termination = user_env.termination if isinstance(user_env, UserEnvironment) else None
        if termination is not None:
            function = batched_termination(termination, spaces.obs_dim, spaces.action_dim)
            parts = parts._replace(termination=function)
        self._interface, self._parts = interface, parts
        self._learner = AgentTraining(config, spaces, parts)
        self._no_env = ""
        """Why no environment can be opened, if none can."""
        self._generator = np.random.default_rng(config.seeds)

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that learn side by side."""
        return self.config.seeds

    @property
    def num_steps(self) -> int:
        """Environment steps of each seed so far."""
        return self._learner.num_steps

    # --- learning ---------------------------------------------------------------------------

    def learn(
        self,
        total_steps: int | None = None,
        callback: Callback | Sequence[Callback] | None = None,
        progress: bool = False,
        *,
        total_timesteps: int | None = None,
    ) -> Self:
        """Train for ``total_steps`` environment steps, by default those of the configuration.

        Called again, it goes on for as many steps more; the random steps of the beginning may fill
        one call or several. (With models the size of the buffers, and so the number of steps that
        were asked for, has a part in the rounding of sums.) After every epoch ``callback``, or each
        of a list of them, is given the epoch's metrics; if one returns False, learning ends there.
        Ctrl-C ends it too, after the running step, and so does an error in a callback: what was
        learned stays, and learning can go on. Where a step itself fails, the networks of the last
        epoch stay. ``total_timesteps`` is another name of ``total_steps``.
        """
        more = check_steps(total_steps, total_timesteps, self.config.steps)
        continues = as_callback(callback)
        if problem := self._learner.problem or self._no_env:
            raise InputError(problem)
        learner, last_step = self._learner, self.num_steps + more
        label = f"{self.algo} {self.config.env}"
        learner.prepare(last_step)
        with (
            TrainingBar(label, last_step, self.num_steps, shown=progress) as bar,
            hold_interrupts() as interrupted,
        ):
            for metrics in learner.train(last_step, interrupted, bar.advance):
                self.history.append(to_json_values("metrics", metrics, non_finite="null"))
                bar.end_epoch(metrics)
                if not continues(metrics):
                    break
            was_interrupted = interrupted()
        learner.keep_networks()
        if was_interrupted:
            raise KeyboardInterrupt
        return self

    def close(self) -> None:
        """Release environments and data; the policy stays, and learning is over."""
        self._learner.close()

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
        """Return the action for an observation, or actions for a batch, in the env's own units.

        Before anything was learned, the policy is the one with which learning begins. Of several
        seeds the policy of the first acts, or that of ``seed``; with ``deterministic=False``
        actions are drawn. Policies have no state: the second value is always None, and ``state``
        and ``episode_start`` are there for callers that know Stable-Baselines3's policies.
        """
        return self.policy.act(obs, seed, None if deterministic else self._generator), None

    @property
    def policy(self) -> Policy:
        """The policy as learning left it."""
        if self._learner.networks:
            return policy_from(self._learner.networks, self.seeds, self._interface)
        return self._initial_policy

    @functools.cached_property
    def _initial_policy(self) -> Policy:
        return Policy(self.seeds, initial_actors(self.config, self._interface), self._interface)

    def evaluate(self, num_episodes: int = 10, seed: int | None = None) -> Evaluation:
        """Play deterministic episodes in an environment of their own, the same at every call."""
        num_episodes = check_count("episodes", num_episodes)
        chosen = self.seeds[0] if seed is None else seed
        actor = self.policy.actor(chosen)
        with contextlib.closing(self._open_env(chosen)) as env:
            first_seed = evaluation_seed(chosen, 0)
            return evaluate(actor, env, num_episodes, first_seed, self._horizon(env))

    def record(self, path: Path | str, seed: int | None = None) -> None:
        """Write a video (.mp4 or .gif) of the first episode that `evaluate` plays."""
        chosen = self.seeds[0] if seed is None else seed
        actor = self.policy.actor(chosen)
        with contextlib.closing(self._open_env(chosen, "rgb_array")) as env:
            first_seed = evaluation_seed(chosen, 0)
            record_episode(actor, env, first_seed, self._horizon(env), Path(path))

    def picture(self) -> np.ndarray:
        """Return a picture [height, width, 3] of an episode's beginning."""
        with contextlib.closing(self._open_env(self.seeds[0], "rgb_array")) as env:
            env.reset()
            return env.render()

    def _horizon(self, env: HostEnv) -> int:
        return env.time_limit or self.config.eval_horizon

    def _open_env(self, seed: int, render_mode: str | None = None) -> HostEnv:
        """Open an environment for evaluation that has the spaces of the agent."""
        if self._no_env:
            raise InputError(self._no_env)
        env = open_training_env(self.config, seed, render_mode, self._parts.env, "evaluation")
        try:
            check_interface(self._interface, interface_of(env), env.name)
        except InputError:
            env.close()
            raise
        return env

    # --- saving -----------------------------------------------------------------------------

    def save(self, folder: Path | str, *, data: bool = False) -> Path:
        """Write the agent into a folder; with ``data``, learning can go on after `load`.

        The folder holds numbers, JSON and their checksums; nothing is pickled. A saved agent that
        is there is replaced.
        """
        state = None
        if data:
            state = self._learner.capture()
            if state is None:
                reason = self._learner.problem.removeprefix("learn: ") or "it comes with learning"
                raise InputError(f"data: there is none; {reason}")
        own = {
            "own_env": self._parts.env is not None,
            "own_termination": self._own_termination,
            "own_select": self._parts.select is not None,
            "own_bonus": self._parts.bonus is not None,
        }
        last = self.history[-1] if self.history else {}
        run = storage.save_run_at(
            folder,
            self.config.record() | own,
            {
                "steps": self.num_steps,
                "final_return": last.get("eval_return"),
                "solved_step": last.get("solved_step"),
            },
            self._learner.networks | self.policy.arrays() | curves(self.history),
            device=jax.devices()[0].device_kind,
            extras={PROGRESS: rows_to_bytes(self.history)},
        )
        if state is not None:
            save_checkpoint(run.path / CHECKPOINTS, self.num_steps, *state)
        return run.path

    @classmethod
    def load(cls, folder: Path | str, env: Env | None = None, **parts: Any) -> Self:
        """Load what `save` or `narl train` left in a folder; see `narl.load`."""
        agent = load(folder, env, **parts)
        if not isinstance(agent, cls):
            raise InputError(
                f"folder: {folder} holds an agent of {agent.algo}; call narl.load, or "
                f"narl.{type(agent).__name__}.load"
            )
        return agent


class NARL(Agent):
    """Noise-augmented RL: optimistic over ``members`` models within ``radius`` of their mean."""

    algo = "narl"


class MBPO(Agent):
    """Model-based policy optimisation: each imagined step uses a random one of the best models."""

    algo = "mbpo"


class SAC(Agent):
    """Soft actor-critic on real transitions alone."""

    algo = "sac"


class SOMBRL(Agent):
    """Scalable optimism: imagined rewards (r + λ·b)/(1 + λ), b the models' disagreement."""

    algo = "sombrl"


class HUCRL(Agent):
    """Hallucinated UCRL: the best step within ``reach`` deviations of the models' mean."""

    algo = "hucrl"


class Thompson(Agent):
    """Posterior sampling: one model is followed for an episode, or for a trajectory."""

    algo = "thompson"


class MaxInfo(Agent):
    """MaxInfoRL: a bonus for information about the models, whose weight is tuned."""

    algo = "maxinfo"


AGENTS: dict[str, type[Agent]] = {
    kind.algo: kind for kind in (NARL, MBPO, SAC, SOMBRL, HUCRL, Thompson, MaxInfo)
}


def load(
    folder: Path | str,
    env: Env | None = None,
    termination: Callable[..., Any] | None = None,
    select: SelectFn | None = None,
    bonus: BonusFn | None = None,
) -> Agent:
    """Load the agent that `Agent.save` or `narl train` left in a folder, with the same policy.

    An unfinished training (ID.part) gives the agent of its last checkpoint. An environment, a
    termination, a selection or a bonus of the user's own must be given again, unless only
    `Agent.predict` is called. Learning can go on if the data were saved too.
    """
    saved = read_saved_agent(Path(folder))
    config, interface = saved.config, saved.policy.interface
    if termination is not None:
        check_termination(termination, names_allowed=False)
        check_used_by(("termination",), used_by, config.algo, "algorithm")
    user_env = None if env is None or isinstance(env, str) else UserEnvironment(env)
    if isinstance(env, str):
        config = dataclasses.replace(config, env=env)
    if env is not None:
        check_interface(interface, *_look_at(config, user_env))
    parts = UserParts(user_env, None, select, bonus)
    agent = object.__new__(AGENTS.get(config.algo, Agent))
    agent.algo = config.algo
    agent._set_up(config, interface, parts, termination)
    agent.history, learner = saved.history, agent._learner
    learner.networks, learner.kept_step = saved.networks, saved.num_steps
    learner.state = saved.state
    given = {"env": env, "termination": termination, "select": select, "bonus": bonus}
    missing = {
        name: f"{name}: it was the user's own; give it to narl.load again, {name}=…"
        for name, part in given.items()
        if saved.record.get(f"own_{name}") and part is None
    }
    agent._no_env = missing.pop("env", "")
    if saved.state is None:
        learner.problem = f"learn: {saved.no_state}, or make a new agent"
    elif missing:
        learner.problem = next(iter(missing.values()))
    return agent


def _look_at(config: Config, user_env: Any) -> tuple[Interface, str]:
    """Return the spaces of an environment as policies see them, and its name."""
    env = open_training_env(config, config.seeds[0], source=user_env)
    with contextlib.closing(env):
        shortened = user_env is None and shortens_observations(config.env)
        return interface_of(env, shortened), env.name
