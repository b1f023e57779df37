"""The Python API: an agent that learns in an environment, acts in it, and is saved."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Never, NoReturn, Self, Unpack

import gymnasium
import numpy as np

from narl.console import TrainingBar, shows_progress
from narl.deep.agent_results import AgentResults
from narl.deep.agent_training import AgentTraining
from narl.deep.bonus import BonusFn
from narl.deep.callbacks import Callback, as_callback, stop_rule
from narl.deep.checked_config import make_config
from narl.deep.config import Config
from narl.deep.env_code import env_code, warn_if_changed
from narl.deep.environment import HostEnv
from narl.deep.evaluation import Evaluation, evaluate, evaluation_seed
from narl.deep.make_environment import MakeEnv, UserEnvironment
from narl.deep.option_types import AgentSettings
from narl.deep.policy import (
    Interface,
    Policy,
    check_interface,
    initial_actors,
    interface_of,
    policy_from,
)
from narl.deep.saved_agent import SavedAgent, write_saved_agent
from narl.deep.selection import SelectFn
from narl.deep.termination import batched_termination, check_termination
from narl.deep.training_environment import check_value_samples, look_at_env, open_training_env
from narl.deep.user_parts import UserParts, check_functions
from narl.deep.video import record_episode
from narl.errors import InputError
from narl.interrupts import hold_interrupts
from narl.storage.files import to_json_values
from narl.validation import check_count, check_seeds, check_steps

Env = str | MakeEnv | gymnasium.Env
"""Gymnasium's id, a function that makes environments, or an environment (for one seed)."""


class Agent(AgentResults):
    """An algorithm on an environment, with one or more seeds; see `NARL`, `MBPO` and `SAC`.

    Args:
        env: A Gymnasium id, a function that makes environments, or an environment (one seed).
        *others: Nothing; all else is given by name.
        algo: The name of an algorithm, also of one that `register_algorithm` added.
        seed: The seed.
        seeds: Several seeds, which learn side by side, such as (0, 1, 2) or "0:3".
        termination: (obs, action, next_obs) → whether the episode ends, in JAX; or "learned" or
            "never". By default the known rule of the environment, or a learned one.
        select: Takes the place of the algorithm's selection among the models (a `SelectFn`).
        bonus: Takes the place of the algorithm's bonus on imagined rewards (a `BonusFn`).
        **options: Fields of `narl.deep.Config`.

    Example:
        >>> agent = narl.Agent("Pendulum-v1", algo="sac", **tiny).learn()
        >>> agent.num_steps, len(agent.history)
        (60, 3)
        >>> action, _ = agent.predict(np.zeros(3))
        >>> len(agent.evaluate(2).returns)
        2
    """

    algo = "narl"

    def __init__(
        self,
        env: Env,
        *others: Never,
        algo: str | None = None,
        seed: int = 0,
        seeds: Sequence[int] | str | None = None,
        termination: str | Callable[..., Any] | None = None,
        select: SelectFn | None = None,
        bonus: BonusFn | None = None,
        **options: Unpack[AgentSettings],
    ) -> None:
        if others or "policy" in options:
            raise InputError(
                "policy: narl has no policy classes; only the environment is given without a name, "
                'and hidden= sets the networks: narl.NARL("Hopper-v5", hidden=(64, 64))'
            )
        if algo is not None:
            if type(self) is not Agent:
                kind = type(self).__name__
                raise InputError(f"algo: {kind} is {self.algo}; leave it out, or make narl.Agent")
            self.algo = algo
        user_env = None if isinstance(env, str) else UserEnvironment(env)
        one_env = user_env is not None and user_env.instance is not None
        given: dict[str, Any] = {**options}
        given["seeds"] = check_seeds((seed,) if seeds is None else seeds, one_env=one_env)
        if termination is not None:
            check_termination(termination)
            given["termination"] = termination if isinstance(termination, str) else "auto"
        name = env if isinstance(env, str) else user_env.name  # type: ignore[union-attr]
        config = make_config(name, self.algo, **given)
        interface, _ = look_at_env(config, user_env)
        check_value_samples(config, interface.spaces)
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

    @classmethod
    def _restore(
        cls,
        saved: SavedAgent,
        config: Config,
        parts: UserParts,
        termination: Callable[..., Any] | None,
    ) -> Self:
        """Return an agent with what a folder holds of it."""
        agent = object.__new__(cls)
        agent.algo = config.algo
        agent._set_up(config, saved.policy.interface, parts, termination)
        agent.history, agent._saved_env_code = saved.history, saved.env_code
        learner = agent._learner
        learner.networks, learner.kept_step = saved.networks, saved.num_steps
        learner.state = saved.state
        return agent

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that learn side by side."""
        return self.config.seeds

    @property
    def num_steps(self) -> int:
        """Environment steps of each seed so far."""
        return self._learner.num_steps

    @functools.cached_property
    def env(self) -> gymnasium.Env:
        """The environment as the agent sees it: the instance that was given, or a new one."""
        user_env = self._parts.env
        if isinstance(user_env, UserEnvironment) and user_env.instance is not None:
            return user_env.instance
        return self._open_env(self.seeds[0]).env

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        """The space of the environment's observations."""
        return self.env.observation_space

    @property
    def action_space(self) -> gymnasium.Space[Any]:
        """The space of the environment's actions."""
        return self._interface.action_space

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise InputError(
            "agent: it cannot be copied or pickled, as it holds environments and the device's "
            "data; call agent.save(folder), with data=True to go on learning, and narl.load(folder)"
        )

    # --- learning ---------------------------------------------------------------------------

    def learn(
        self,
        total_steps: int | None = None,
        callback: Callback | Sequence[Callback] | None = None,
        progress: bool | None = None,
        *,
        total_timesteps: int | None = None,
    ) -> Self:
        """Train for ``total_steps`` environment steps; called again, for as many steps more.

        The random steps of the beginning may fill one call or several. (With models the size of the
        buffers, and so the number of steps that were asked for, has a part in the rounding of
        sums.) Ctrl-C raises KeyboardInterrupt after the running step, and an error in a callback
        ends learning there, too: what was learned stays, and learning can go on. Where a step
        itself fails, the networks of the last epoch stay.

        Args:
            total_steps: Environment steps; by default those of the configuration.
            callback: Called with the metrics of every epoch, or a list of such functions; if one
                returns False, learning ends there. See `KeepBest`, `StopAtReturn`,
                `StopWhenNoBetter` and `SaveEvery`.
            progress: Whether a progress bar is shown; by default in a terminal and in a notebook.
            total_timesteps: Another name of ``total_steps``.

        Returns:
            The agent itself.
        """
        more = check_steps(total_steps, total_timesteps, self.config.steps)
        continues = as_callback(callback, self)
        if problem := self._learner.problem or self._no_env:
            raise InputError(problem)
        learner, last_step = self._learner, self.num_steps + more
        bar = TrainingBar(
            f"{self.algo} {self.config.env}",
            last_step,
            self.num_steps,
            shown=shows_progress(progress),
            schedule=self.config.step_schedule,
        )
        is_enough = stop_rule(self.config)
        with bar, hold_interrupts() as interrupted:
            learner.prepare(last_step)
            for metrics in learner.train(last_step, interrupted, bar.advance):
                self.history.append(to_json_values("metrics", metrics, non_finite="null"))
                bar.end_epoch(metrics)
                if not continues(metrics) or is_enough(metrics):
                    break
            was_interrupted = interrupted()
        learner.keep_networks()
        if was_interrupted:
            raise KeyboardInterrupt
        return self

    def close(self) -> None:
        """Release environments and data; the policy stays, and learning is over."""
        self._learner.close()
        if (env := self.__dict__.pop("env", None)) is not None:
            user_env = self._parts.env
            if not (isinstance(user_env, UserEnvironment) and env is user_env.instance):
                env.close()

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

        Before anything was learned, the policy is the one with which learning begins.

        Args:
            obs: One observation of the environment, or a batch of them.
            deterministic: Whether the action is the mode of the policy; if not, it is drawn.
            seed: The seed whose policy acts; by default the first.
            state: Not used, as policies have no state; as in Stable-Baselines3.
            episode_start: Not used; as in Stable-Baselines3.

        Returns:
            The action or actions, and None.
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
        """Play deterministic episodes in an environment of their own, the same at every call.

        Args:
            num_episodes: How many.
            seed: The seed whose policy acts; by default the first.

        Returns:
            Their returns and lengths, an `Evaluation`.
        """
        num_episodes = check_count("episodes", num_episodes)
        chosen = self.seeds[0] if seed is None else seed
        actor = self.policy.actor(chosen)
        with contextlib.closing(self._open_env(chosen)) as env:
            first_seed = evaluation_seed(chosen, 0)
            return evaluate(actor, env, num_episodes, first_seed, self._horizon(env))

    def record(self, path: Path | str, seed: int | None = None) -> None:
        """Write a video (.mp4 or .gif) of the first episode that `evaluate` plays.

        Args:
            path: The file.
            seed: The seed whose policy acts; by default the first.
        """
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
        if self._trained_code and render_mode is None:  # the mode is a part of what is hashed
            warn_if_changed(self._trained_code, env)
            self._trained_code = ""  # one warning is enough
        return env

    # --- saving -----------------------------------------------------------------------------

    _saved_env_code = ""
    """The hash of the code with which a loaded agent was saved."""
    _trained_code = ""
    """The same until it is compared with the code of an evaluation; "" if that is not wanted."""

    def save(self, folder: Path | str, *, data: bool = False) -> Path:
        """Write the agent into a folder; with ``data``, learning can go on after `load`.

        The folder holds numbers, JSON and their checksums; nothing is pickled. A saved agent that
        is there is replaced.

        Args:
            folder: The folder.
            data: Whether to save buffers, optimisers and environments too.

        Returns:
            The folder.
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
        trainer = self._learner.trainer
        code = self._saved_env_code if trainer is None else env_code(trainer.envs.example.env)
        saved = SavedAgent(
            record=self.config.record() | own,
            config=self.config,
            policy=self.policy,
            networks=self._learner.networks,
            history=self.history,
            num_steps=self.num_steps,
            state=state,
            env_code=code,
        )
        return write_saved_agent(folder, saved)

    @classmethod
    def load(cls, folder: Path | str, env: Env | None = None, **parts: Any) -> Self:
        """Load what `save` or `narl train` left in a folder; see `narl.load`."""
        from narl.deep.load_agent import load  # which needs this class

        agent = load(folder, env, **parts)
        if not isinstance(agent, cls):
            raise InputError(
                f"folder: {folder} holds an agent of {agent.algo}; call narl.load, or "
                f"narl.{type(agent).__name__}.load"
            )
        return agent
