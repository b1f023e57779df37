"""The training of an agent over several calls of `learn`, without a run folder."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from narl.compilation import enable_cache
from narl.deep.buffer_capacity import with_buffer_capacity, with_longer_buffer
from narl.deep.config import Config
from narl.deep.finite_check import NonFiniteError
from narl.deep.run_artifacts import networks
from narl.deep.snapshot import State, capture, restore
from narl.deep.spaces import Spaces
from narl.deep.trainer import Trainer
from narl.deep.training_environment import check_target_entropy
from narl.deep.training_session import train_epochs
from narl.deep.user_parts import UserParts
from narl.errors import first_line


class AgentTraining:
    """A training that goes on over several calls of `Agent.learn`, without a run folder."""

    def __init__(self, config: Config, spaces: Spaces, parts: UserParts) -> None:
        check_target_entropy(config, spaces)
        self.config, self.spaces, self.parts = config, spaces, parts
        self.trainer: Trainer | None = None
        self.state: State | None = None
        """The state from which learning goes on, while there is no trainer."""
        self.networks: dict[str, np.ndarray] = {}
        """The networks as they were kept last; empty before anything was learned."""
        self.kept_step = 0
        """The step at which the networks were kept."""
        self.problem = ""
        """Why learning cannot go on, if it cannot."""

    @property
    def num_steps(self) -> int:
        """Environment steps of each seed so far."""
        return self.kept_step if self.trainer is None else self.trainer.counters.step

    def prepare(self, last_step: int) -> None:
        """Open a trainer that holds ``last_step`` steps and continues from the present step.

        Its buffers hold more, so that learning mostly goes on with the compiled programs and the
        data that are on the device.
        """
        if self.trainer is not None and last_step > self.trainer.config.steps:
            self.keep_networks()
            self.state = capture(self.trainer)
            self._close_trainer()
        if self.trainer is None:
            self.trainer = self._open_trainer(last_step)
            self.state = None

    def _open_trainer(self, last_step: int) -> Trainer:
        config = with_buffer_capacity(self.config, last_step, self.state, self.spaces)
        if getattr(jax.config, "jax_compilation_cache_dir", None) is None:
            enable_cache()
        trainer = Trainer([config], self.parts)
        if self.state is not None:
            arrays, notes = self.state
            try:
                restore(trainer, with_longer_buffer(arrays, config), notes)
            except BaseException:
                trainer.close()
                raise
        return trainer

    def train(
        self, last_step: int, should_stop: Callable[[], bool], on_step: Callable[[int], None]
    ) -> Iterator[dict[str, Any]]:
        """Train up to a step; yield the metrics of every epoch once its networks are kept.

        `prepare` must have been called for this step.
        """
        trainer = self.trainer
        assert trainer is not None
        with self._given_up_on_error():
            trainer.extend(last_step)
        epochs = train_epochs(
            trainer,
            # Whoever is given the metrics may close the learner.
            is_done=lambda: trainer.is_over or self.trainer is not trainer,
            should_stop=should_stop,
            on_step=on_step,
        )
        while True:
            with self._given_up_on_error():
                metrics = next(epochs, None)
            if metrics is None:
                return
            self.keep_networks(checked=True)
            yield metrics

    def keep_networks(self, *, checked: bool = False) -> None:
        """Keep the networks of this moment, after a check that they are finite."""
        if self.trainer is None:
            return
        with self._given_up_on_error():
            if not checked:
                self.trainer.check_policies()
            self.networks = networks(self.trainer)
            self.kept_step = self.trainer.counters.step

    def capture(self) -> State | None:
        """Return the state from which learning goes on; None before learning and after an error."""
        return self.state if self.trainer is None else capture(self.trainer)

    @contextlib.contextmanager
    def _given_up_on_error(self) -> Iterator[None]:
        """Give the training up where a step fails: some of its numbers are new and some are not.

        The networks that were kept last stay.
        """
        try:
            yield
        except BaseException as error:
            cause = first_line(str(error)) or type(error).__name__
            self.problem = (
                f"learn: an earlier step failed ({cause}); the agent is as it was at step "
                f"{self.kept_step} and cannot go on; make a new one, or load one that was saved "
                "with data=True"
            )
            self._close_trainer()
            raise

    def _close_trainer(self) -> None:
        trainer, self.trainer = self.trainer, None
        if trainer is not None:
            trainer.close()

    def close(self) -> None:
        """Release environments and data; the networks stay, and learning is over."""
        with contextlib.suppress(NonFiniteError):
            self.keep_networks()
        self._close_trainer()
        self.state = None
        self.problem = self.problem or "learn: the agent was closed; make a new one"
