"""Long work that Ctrl-C stops at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


class Interrupted(KeyboardInterrupt):
    """Interrupted while the work still goes on in its thread, where nothing can stop it."""

    busy = True


def interruptible(work: Callable[[], Result]) -> Result:
    """The result of `work`, which runs in a thread of its own.

    Python answers signals between two of its instructions, and one call into a compiled
    program may take half a minute. The thread that waits here is free to answer.
    """
    results: list[Result] = []
    errors: list[BaseException] = []
    done = threading.Event()  # a join that is interrupted takes the thread for ended (3.11)

    def body() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)
        finally:
            done.set()

    threading.Thread(target=body, name="narl-work", daemon=True).start()
    try:
        done.wait()
    except KeyboardInterrupt:
        if done.is_set():
            raise
        raise Interrupted from None
    if errors:
        raise errors[0]
    return results[0]
