"""The process of `narl.deep.env_process`: it makes environments and does what it is asked.

    python -m narl.deep.env_worker FD

FD is the number of an open socket. The process ends when the other side closes it.
"""

from __future__ import annotations

import contextlib
import logging
import signal
import sys
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from narl.deep.env_process import (
    CALL,
    ERROR,
    READY,
    STEP,
    WARNING,
    outcome_layout,
    pack_message,
    unpack_message,
)
from narl.deep.environment import EnvRecipe
from narl.deep.environment_pool import Environments
from narl.deep.evaluation import Episodes
from narl.deep.networks import Layer
from narl.errors import EnvironmentFault, InputError

Numbered = list[tuple[int, Any]]
"""Values by the number of an environment."""


class Worker:
    """Answers questions about the environments of this process, in the same order."""

    def open(self, source: str, kwargs: Any, scaling: Any, keep: int | None, seeds: Any) -> None:
        self._envs = Environments(EnvRecipe(source, kwargs, scaling, keep), seeds, num_threads=1)
        spaces = self._envs.example.spaces
        self._action_dim, self._layout = spaces.action_dim, outcome_layout(spaces.obs_dim)

    def step(self, message: bytes) -> bytes:
        num = len(message) // (4 + 4 * self._action_dim)
        numbers = np.frombuffer(message, "<i4", num).tolist()
        actions = np.frombuffer(message, "<f4", offset=4 * num).reshape(num, -1)
        rows = np.empty(num, self._layout)
        outcomes = self._envs.step(dict(zip(numbers, actions, strict=True)))
        for k, (next_obs, reward, terminated, is_new, obs) in enumerate(outcomes.values()):
            rows[k] = (reward, terminated, is_new, next_obs, obs)
        return rows.tobytes()

    def reset(self, _: Numbered) -> list[Any]:
        return list(self._envs.reset())

    def evaluate(self, jobs: Numbered) -> list[Any]:
        def episodes(actor: Any, *others: Any) -> Episodes:
            return Episodes(tuple(Layer(*layer) for layer in actor), *others)

        played = self._envs.evaluate({i: episodes(*job) for i, job in jobs})
        return [list(evaluation) for evaluation in played.values()]

    def first_observations(self, seeds: Numbered, num_episodes: int) -> list[Any]:
        return list(self._envs.first_observations(dict(seeds), num_episodes).values())

    def capture(self, _: Numbered) -> list[Any]:
        return [dict(state) for state in self._envs.capture()]

    def restore(self, states: Numbered) -> list[bool]:
        return [self._envs.restore(i, state) for i, state in states]

    def abandon_episode(self, steps: Numbered) -> list[Any]:
        return [self._envs.abandon_episode(i, step) for i, step in steps]

    def close(self) -> None:
        if hasattr(self, "_envs"):
            self._envs.close()


class SendWarnings(logging.Handler):
    """Sends the warnings of this process to the training, or prints them once it has closed."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(logging.WARNING)
        self._connection = connection

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        try:
            message = pack_message([getattr(record, "subject", ""), line])
            self._connection.send_bytes(WARNING + message)
        except OSError:
            print(line, file=sys.stderr, flush=True)


def serve(connection: Connection) -> None:
    """Answer the questions of a training until it closes its end."""
    with contextlib.closing(Worker()) as worker:
        while True:
            try:
                message = connection.recv_bytes()
            except (EOFError, OSError):
                return
            try:
                if message[:1] == STEP:
                    answer = STEP + worker.step(message[1:])
                else:
                    method, arguments = unpack_message(message[1:])
                    answer = CALL + pack_message(getattr(worker, method)(*arguments))
            except (EnvironmentFault, InputError) as error:
                answer = ERROR + pack_message([type(error).__name__, str(error)])
            with contextlib.suppress(OSError):
                connection.send_bytes(answer)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the training decides when to stop
    connection = Connection(int(sys.argv[1]))
    logging.getLogger("narl").addHandler(SendWarnings(connection))
    connection.send_bytes(READY)
    serve(connection)
