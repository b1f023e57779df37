"""One process at a time trains into a folder."""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from narl.errors import InputError

LOCK = ".lock"


@contextlib.contextmanager
def hold(folder: Path) -> Iterator[None]:
    """Keep other processes from training into the folder.

    The system frees the lock when the process ends, however it ends; the file stays. The
    process id in it is only for the message.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise InputError(
            f"run folder: {folder} cannot be written to ({error.strerror}); choose another"
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
            raise InputError(
                f"run folder: process {holder or '(unknown)'} is training into {folder}; "
                "wait until it ends, or stop it"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)
