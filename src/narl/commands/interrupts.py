"""Long work that Ctrl-C stops: at once, or as soon as it has left a checkpoint."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Result = TypeVar("Result")

PATIENCE = 8.0
"""Seconds that work which was asked to stop has for its checkpoint."""


TURN = 0.1
"""Seconds that a wait lasts before the main thread looks whether a signal has come."""


class Interrupted(KeyboardInterrupt):
    """Interrupted while the work still goes on in its thread, where nothing can stop it."""

    busy = True


def interruptible(work: Callable[[], Result]) -> Result:
    """The result of `work`, which runs in a thread of its own.

    Python answers signals between two of its instructions, and one call into a compiled
    program may take half a minute. The thread that waits here is free to answer.
    """
    thread = _Thread(work)
    try:
        thread.run()
    except KeyboardInterrupt:
        if thread.done.is_set():
            raise
        raise Interrupted from None
    return thread.result()


def stoppable(
    work: Callable[[Callable[[], bool]], Result],
    on_stop: Callable[[], None],
    patience: float = PATIENCE,
) -> Result:
    """The result of `work`, which an interrupt asks to stop: it is given a question to ask.

    When it is interrupted, ``on_stop`` is called and the work has ``patience`` seconds to end;
    a second interrupt does not wait for it.
    """
    stop = threading.Event()
    thread = _Thread(lambda: work(stop.is_set))
    try:
        thread.run()
    except KeyboardInterrupt:
        stop.set()
        try:
            if not thread.done.is_set():
                on_stop()
            thread.done.wait(patience)
        except KeyboardInterrupt:
            raise Interrupted from None
        if not thread.done.is_set():
            raise Interrupted from None
    return thread.result()


class _Thread(Generic[Result]):
    """Work in a thread that the interpreter does not wait for."""

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work = work
        self._results: list[Result] = []
        self._errors: list[BaseException] = []
        self.done = threading.Event()
        """Not a join: one that is interrupted takes the thread for ended (3.11)."""
        self._thread = threading.Thread(target=self._body, name="narl-work", daemon=True)

    def run(self) -> None:
        """Begins the work and waits until it is done, in short turns.

        The system may hand a signal to any thread, and Python answers it in the main thread as
        soon as that runs again: one that waits without end does not.
        """
        self._thread.start()
        while not self.done.wait(TURN):
            pass

    def _body(self) -> None:
        try:
            self._results.append(self._work())
        except BaseException as error:
            self._errors.append(error)
        finally:
            self.done.set()

    def result(self) -> Result:
        if self._errors:
            raise self._errors[0]
        return self._results[0]
