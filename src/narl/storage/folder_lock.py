"""Locks of folders: one process at a time writes to a folder."""

import contextlib
import fcntl
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from narl.errors import InputError
from narl.storage.files import make_folder, naming_errors, open_descriptor, open_file, read_file

LOCK = ".lock"
"""The file of a folder's lock."""
MOST_BYTES = 320
"""The largest size of that file: a process id and the name of a host."""
LOOKS, LOOK_SECONDS = 10, 0.02
"""How often a lock that is held is tried again, as `is_locked` holds it for a moment, and when."""


class FolderLocked(InputError):
    """Another process holds the lock of a folder."""


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Keep other processes from writing to a folder, which is created where it is missing.

    `FolderLocked` is raised if another process holds the lock, and an `InputError` if the folder or
    the lock's file cannot be written to.

    The system frees the lock when the process ends in any way; the lock's file remains. Process
    id and host in the file are only for messages.
    """
    while True:
        descriptor = _open_lock(folder)
        try:
            _lock_descriptor(descriptor, folder)
            # The last holder may have deleted the folder after the lock was opened here.
            if not _is_file_at(descriptor, folder / LOCK):
                continue
            with naming_errors(folder / LOCK):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)
            yield
            return
        finally:
            os.close(descriptor)


def _open_lock(folder: Path) -> int:
    """Return a descriptor of the lock's file, which is created where it is missing."""
    if folder.is_symlink():
        raise InputError(f"run folder: {folder} is a symbolic link; remove it")
    try:
        make_folder(folder)
        return open_descriptor(folder / LOCK, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise InputError(
            f"run folder: {folder} cannot be written to ({error.strerror}); choose another"
        ) from error


def _lock_descriptor(descriptor: int, folder: Path) -> None:
    """Lock an open file; raise an error that names the process which holds the lock."""
    for _ in range(LOOKS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            time.sleep(LOOK_SECONDS)
        except OSError as error:
            raise InputError(
                f"run folder: {folder} cannot be locked (flock: {error.strerror}); choose a folder "
                "on a file system with locks, or mount this one with them"
            ) from error
    process, host = _parse(os.pread(descriptor, MOST_BYTES, 0))
    elsewhere = "" if host == socket.gethostname() else f" on {host}"
    raise FolderLocked(
        f"run folder: process {process or '(unknown)'}{elsewhere} is writing to {folder}; "
        "wait until it ends, or stop it"
    )


def _parse(content: bytes) -> tuple[str, str]:
    """Return process id and host of a lock's file; locks of older versions are of this host."""
    process, _, host = content.decode(errors="replace").strip().partition(" ")
    return process, host or socket.gethostname()


def _is_file_at(descriptor: int, path: Path) -> bool:
    """Return whether an open file is the one that the path names now."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def is_locked(folder: Path) -> bool:
    """Return whether a process, on whichever machine, holds the lock of a folder.

    Nothing is written, so that a folder of another user can be asked about, too.
    """
    with contextlib.suppress(OSError), open_file(folder / LOCK) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def lock_holder(folder: Path) -> int | None:
    """Return the id of the process that holds the lock of a folder, if there is one."""
    lock = folder / LOCK
    try:
        text, host = _parse(read_file(lock, MOST_BYTES))
        process = int(text)
    except (OSError, ValueError):
        return None
    if host == socket.gethostname():
        try:
            os.kill(max(process, 1), 0)  # the lock is tried only if the process still exists
        except PermissionError:
            return process
        except (OSError, OverflowError):
            return None
    return process if is_locked(folder) else None
