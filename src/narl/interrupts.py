"""Interrupts (Ctrl-C, SIGTERM) of long work: at once, between two steps, or after a checkpoint."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent import futures
from types import FrameType
from typing import TypeVar

from narl.compilation import is_compiling
from narl.console import note
from narl.errors import EnvironmentFault

Result = TypeVar("Result")

POLL_SECONDS = 0.1
"""Seconds that the main thread waits before Python can answer a signal again."""
STOP_SECONDS = 7.0
"""Seconds within which a training that is asked to stop should have left a checkpoint."""
STOPPING = "stopping: a checkpoint is written …"


class Interrupted(KeyboardInterrupt):
    """An interrupt while the work still runs in its thread, where nothing can stop it."""

    busy = True


def run_interruptible(work: Callable[[], Result]) -> Result:
    """Run ``work`` in a thread of its own and return its result; an interrupt ends the wait.

    Python answers signals between two of its instructions, and one call into a compiled
    program may take half a minute. The thread that waits here is free to answer.
    """
    outcome = _start(work)
    try:
        _wait_for(outcome)
    except KeyboardInterrupt:
        if outcome.done():
            raise
        raise Interrupted from None
    return outcome.result()


def run_stoppable(
    work: Callable[[Callable[[], bool]], Result],
    on_stop: Callable[[], None],
    patience: float,
) -> Result:
    """Run ``work`` and return its result; an interrupt asks the work to stop.

    ``work`` is given a function that says whether to stop. After an interrupt ``on_stop`` is called
    and the work has ``patience`` seconds to end; a second interrupt does not wait for it.
    """
    stop = threading.Event()
    outcome = _start(lambda: work(stop.is_set))
    try:
        _wait_for(outcome)
    except KeyboardInterrupt:
        stop.set()
        try:
            if not outcome.done():
                on_stop()
            futures.wait([outcome], patience)
        except KeyboardInterrupt:
            raise Interrupted from None
        if not outcome.done():
            raise Interrupted from None
    return outcome.result()


def run_with_checkpoint(
    work: Callable[[Callable[[], bool]], Result],
    continues: str = "",
    at_once: Callable[[], str] = str,
    stopping: Callable[[], str] = lambda: STOPPING,
) -> Result:
    """Run ``work`` that writes checkpoints and return its result; see `run_stoppable`.

    Work that stops raises a `KeyboardInterrupt` with a text that says where. The text is raised
    again with ``continues``, which says how the work goes on. ``stopping`` gives the line that is
    printed at the interrupt, and ``at_once`` the text of one that does not wait for the checkpoint.
    """
    try:
        return run_stoppable(work, lambda: note(stopping()), STOP_SECONDS + 1)
    except Interrupted:
        raise Interrupted(at_once()) from None
    except KeyboardInterrupt as stop:
        # A program that is still being compiled keeps the interpreter from exiting.
        kind = Interrupted if is_compiling() else KeyboardInterrupt
        where = str(stop)
        raise kind(f"{where}; {continues}" if where and continues else where) from None


def run_within(seconds: float, work: Callable[[], Result], late: str) -> Result:
    """Run ``work`` in a thread of its own and return its result.

    If it takes longer than ``seconds``, an `EnvironmentFault` with the text ``late`` is raised; the
    work goes on in its thread, where nothing can stop it, until the process ends.
    """
    outcome = _start(work)
    futures.wait([outcome], seconds)
    if not outcome.done():
        raise EnvironmentFault(late)
    return outcome.result()


def _start(work: Callable[[], Result]) -> futures.Future[Result]:
    """Start ``work`` in a thread that the interpreter does not wait for when it exits."""
    outcome: futures.Future[Result] = futures.Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, name="narl-work", daemon=True).start()
    return outcome


def _wait_for(outcome: futures.Future[Result]) -> None:
    """Wait until the work is done, in short turns.

    The system may hand a signal to any thread, and Python answers it in the main thread as soon
    as the main thread runs again; a thread that waits without end does not run.
    """
    while not outcome.done():
        futures.wait([outcome], POLL_SECONDS)


@contextlib.contextmanager
def hold_interrupts() -> Iterator[Callable[[], bool]]:
    """Give a function that says whether Ctrl-C was pressed; only a second Ctrl-C interrupts.

    The first Ctrl-C so ends no step in its middle.
    """
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set
        return

    def press(number: int, frame: FrameType | None) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()

    before = signal.signal(signal.SIGINT, press)
    try:
        yield pressed.is_set
    finally:
        signal.signal(signal.SIGINT, before)
