"""A queue of programs for the device, so that environments can step while it learns."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from narl.deep.replicas import Program


class DeviceQueue:
    """Runs programs on the replicas' state one after the other, in a thread of its own.

    Handing a whole loop of updates to an accelerator keeps a thread busy for a good part of the
    time that the loop takes; the thread that submits is free for the environments meanwhile.
    """

    def __init__(self, state: Any) -> None:
        self._state = state
        self._error: BaseException | None = None
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="narl-device")

    def submit(self, program: Program, own: Any, shared: Any) -> Future[Any]:
        """Begin to run a program after those submitted before it; return its result to come.

        Compilation is waited for here, in the caller's thread, where the caller's clock takes
        account of it.
        """
        program.wait()
        return self._worker.submit(self._run, program, own, shared)

    def _run(self, program: Program, own: Any, shared: Any) -> Any:
        if self._error is not None:
            raise self._error
        try:
            self._state, result = program(self._state, own, shared)
        except BaseException as error:
            self._error = error  # the state may be half new: nothing runs on it any more
            raise
        return result

    def wait(self) -> Any:
        """Return the state after every program that was submitted; raise what went wrong."""
        self._worker.submit(lambda: None).result()
        if self._error is not None:
            raise self._error
        return self._state

    def replace(self, state: Any) -> None:
        """Go on with another state, once the programs that were submitted are done."""
        self.wait()
        self._state = state

    def close(self) -> None:
        """End the thread when its last program is done."""
        self._worker.shutdown()
