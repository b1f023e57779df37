"""A process that holds environments, as the training sees it; `env_worker` is the other side.

Questions and answers are JSON with arrays (see `narl.deep.env_state`), except those of a step,
which are plain arrays of a known layout. Nothing is pickled.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from jaxtyping import Float32

from narl.deep.env_faults import warn_once
from narl.deep.env_state import decode_value, encode_value
from narl.deep.environment import EnvRecipe, HostEnv
from narl.errors import EnvironmentFault, InputError

STEP, CALL, ERROR, WARNING, READY = b"s", b"c", b"e", b"w", b"r"
"""First byte of a message: a step, any other question or answer, an error, a line to be logged, or
that the process has started."""
START_SECONDS = 120.0
"""Seconds that a process may take to start, where environments have a time-out."""
CLOSE_SECONDS = 10.0
"""Seconds that a process may take to close its environments."""
_log = logging.getLogger("narl")


def outcome_layout(obs_dim: int) -> np.dtype:
    """Return the layout of a step's outcome between processes."""
    fields = [("reward", "<f8"), ("terminated", "?"), ("is_new", "?")]
    return np.dtype([*fields, ("next_obs", "<f4", (obs_dim,)), ("obs", "<f4", (obs_dim,))])


def pack_message(value: Any) -> bytes:
    """Return a value of JSON's kinds and arrays as bytes; `unpack_message` is the inverse.

    The bytes are the length of a JSON text, the text, and the arrays one after the other.
    """
    arrays: dict[str, np.ndarray] = {}
    content = encode_value(value, arrays)
    layout = [[name, array.dtype.str, list(array.shape)] for name, array in arrays.items()]
    text = json.dumps([content, layout]).encode()
    parts = (array.tobytes() for array in arrays.values())
    return b"".join([struct.pack("<Q", len(text)), text, *parts])


def unpack_message(message: bytes) -> Any:
    """Return the value that `pack_message` was given."""
    (length,) = struct.unpack_from("<Q", message)
    begin = 8 + length
    content, layout = json.loads(message[8:begin])
    arrays = {}
    for name, dtype, shape in layout:
        flat = np.frombuffer(message, dtype, math.prod(shape), begin)
        arrays[name], begin = flat.reshape(shape), begin + flat.nbytes
    return decode_value(content, arrays)


class EnvProcess:
    """The environments of some replicas in a process of their own."""

    def __init__(
        self, recipe: EnvRecipe, seeds: Sequence[int], example: HostEnv, timeout: float | None
    ) -> None:
        listed = ", ".join(map(str, seeds))
        self._label = f"{example.name} (seed{'s' if len(seeds) > 1 else ''} {listed})"
        self._timeout, self._is_ready = timeout, False
        self._layout = outcome_layout(example.spaces.obs_dim)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            # The folders from which this process imports: a user's module may be in one of them.
            path = os.pathsep.join(folder or os.getcwd() for folder in sys.path)
            self._process = subprocess.Popen(
                [sys.executable, "-m", "narl.deep.env_worker", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=os.environ | {"PYTHONPATH": path, "JAX_PLATFORMS": "cpu"},
            )
            self._connection = Connection(os.dup(ours.fileno()))
        kwargs = dict(recipe.env_kwargs)
        self.ask("open", recipe.source, kwargs, recipe.scaling, recipe.obs_keep, list(seeds))

    def ask(self, method: str, *arguments: Any) -> None:
        """Send a question; `answer` waits for what comes back."""
        self._send(CALL + pack_message([method, list(arguments)]))

    def ask_step(self, actions: Mapping[int, Float32[np.ndarray, " A"]]) -> None:
        """Send one action per environment; `answer_step` waits for the outcomes."""
        numbers = np.fromiter(actions, "<i4", len(actions))
        values = np.stack(list(actions.values())).astype("<f4", copy=False)
        self._send(STEP + numbers.tobytes() + values.tobytes())

    def answer(self) -> Any:
        """Return the answer to the oldest open question."""
        return unpack_message(self._receive())

    def answer_step(self) -> np.ndarray:
        """Return the outcomes of the environments that were stepped, in their order."""
        return np.frombuffer(self._receive(), self._layout)

    def close(self) -> None:
        """Let the process close its environments and end."""
        self._connection.close()
        try:
            self._process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _send(self, message: bytes) -> None:
        with contextlib.suppress(OSError):  # the process has ended: `_receive` says so
            self._connection.send_bytes(message)

    def _receive(self) -> bytes:
        """Return the next answer; the lines that come before it are logged."""
        if not self._is_ready:
            start_seconds = None if self._timeout is None else START_SECONDS
            self._is_ready = self._receive_message(start_seconds) == READY
        while (message := self._receive_message(self._timeout))[:1] == WARNING:
            subject, line = unpack_message(message[1:])
            if subject:
                warn_once(subject, line)
            else:
                _log.warning("%s", line)
        if message[:1] == ERROR:
            kind, text = unpack_message(message[1:])
            raise (InputError if kind == "InputError" else EnvironmentFault)(text)
        return message[1:]

    def _receive_message(self, timeout: float | None) -> bytes:
        try:
            is_late = not self._connection.poll(timeout)
            message = b"" if is_late else self._connection.recv_bytes()
        except (EOFError, OSError):
            status = self._process.wait()
            raise EnvironmentFault(
                f"{self._label}: the process of the environment ended with status {status}"
            ) from None
        if is_late:
            self._process.kill()
            raise EnvironmentFault(
                f"{self._label}: no answer within {timeout:g} s: the environment hangs, or "
                "the time-out is too short"
            )
        return message
