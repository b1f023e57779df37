"""An agent's learning: the training that it is in, and what stays where there is none."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import gymnasium
import jax
import numpy as np

from narl.compilation import enable_cache
from narl.deep.checkpoint import capture, reinstate
from narl.deep.config import Settings
from narl.deep.faults import first_line
from narl.deep.rollout import Ends
from narl.deep.run_artifacts import networks
from narl.deep.saved import State, roomy, with_room
from narl.deep.spaces import Spaces
from narl.deep.trainer import Fault, Training
from narl.deep.training_run import Course
from narl.deep.user_environment import OwnEnv
from narl.errors import InputError

Result = TypeVar("Result")


class Learning:
    """Where learning is."""

    def __init__(
        self, settings: Settings, seeds: tuple[int, ...], spaces: Spaces, own: OwnEnv | None
    ) -> None:
        self._settings, self._seeds, self._spaces, self._own = settings, seeds, spaces, own
        self.ends: Ends | None = None
        """The termination of the user's own, or of the environment that he made."""
        self.training: Training | None = None
        self.networks: dict[str, np.ndarray] = {}
        """What was learned, as it was kept last; empty before anything was."""
        self.kept_step = 0
        """The step that it was kept at."""
        self.problem = ""
        """Why learning cannot go on, if it cannot."""
        self._waiting: State | None = None
        """Where learning goes on, while there is no training."""

    @property
    def num_steps(self) -> int:
        """Environment steps of each seed so far."""
        return self.kept_step if self.training is None else self.training.books.step

    def begin(self, total: int) -> Training:
        """A training that ends after so many steps.

        It has room for more, so that learning mostly goes on where it was: with the programs and
        the data that are on the device.
        """
        if self.problem:
            raise InputError(self.problem)
        if self.training is not None and total > self.training.programs.settings.steps:
            self.keep()
            self._waiting = capture(self.training)
            self._shut()
        if self.training is None:
            self.training, self._waiting = self._open(total), None
        self.training.settings = dataclasses.replace(self._settings, steps=total)
        return self.training

    def _open(self, total: int) -> Training:
        """A training with room for the steps, at the step where learning is."""
        settings = roomy(self._settings, total, self._waiting, self._spaces, self._seeds)
        if getattr(jax.config, "jax_compilation_cache_dir", None) is None:
            enable_cache()
        training = Training(
            settings,
            Course(settings, self._seeds).specs(),
            make_env=None if self._own is None else self._own.opener(),
            termination=self.ends,
        )
        if self._waiting is not None:
            arrays, notes = self._waiting
            try:
                reinstate(training, with_room(arrays, training), notes)
            except BaseException:
                self._release(training)
                raise
        return training

    def go_on_from(
        self, state: State | None, learned: dict[str, np.ndarray], num_steps: int
    ) -> None:
        """Takes over what an agent was saved with."""
        self._waiting, self.networks, self.kept_step = state, learned, num_steps

    def state(self) -> State | None:
        """What learning needs to go on, if there is anything."""
        return self._waiting if self.training is None else capture(self.training)

    def catch_up(self) -> None:
        """Does what was due when the steps of the last call were done."""
        self._whole(Training.catch_up)

    def advance(self) -> dict[str, Any] | None:
        """One step; after the last of an epoch, its diagnostics, and the networks are kept."""
        return self._whole(self._step)

    def _step(self, training: Training) -> dict[str, Any] | None:
        row = training.advance()
        if row is not None:
            self._take_over(training)
        return row

    def keep(self) -> None:
        """Keeps the networks of this moment."""
        if self.training is not None:
            self._whole(self._take_over)

    def _take_over(self, training: Training) -> None:
        # A copy: JAX may use their memory again.
        found = {name: np.array(array) for name, array in networks(training).items()}
        step = training.books.step
        for name, array in found.items():
            if name.startswith("sac.") and not np.isfinite(array).all():
                raise Fault(f"step {step}: {name} is not finite")
        self.networks, self.kept_step = found, step

    def _whole(self, work: Callable[[Training], Result]) -> Result:
        """Work that is done to its end, or the training is given up.

        Where it breaks off, some of the numbers are new and some are not; what was kept last stays.
        """
        assert self.training is not None
        try:
            return work(self.training)
        except BaseException as error:
            cause = first_line(str(error)) or type(error).__name__
            self.problem = (
                f"learn: it went wrong before ({cause}); the agent is as it was at step "
                f"{self.kept_step} and cannot go on; make a new one, or load one that was saved "
                "with data=True"
            )
            self._shut()
            raise

    def _shut(self) -> None:
        training, self.training = self.training, None
        assert training is not None
        self._release(training)

    def _release(self, training: Training) -> None:
        """Closes a training; an environment of the user's stays open."""
        if self._own is not None and self._own.is_instance:
            training.envs[0].env = gymnasium.Env()
        training.close()

    def close(self) -> None:
        """Gives back environments and data; the networks stay."""
        with contextlib.suppress(Fault):
            self.keep()
        if self.training is not None:
            self._shut()
        self._waiting = None
        self.problem = self.problem or "learn: the agent was closed; make a new one"
