"""Single files: read within bounds, written completely or not at all, and JSON with a checksum.

Only regular files are read, and no more of them than a limit: a link, a folder, a pipe or a device
in the place of a file is an OSError that says so, and so is a file that is too large.
"""

import contextlib
import errno
import hashlib
import json
import math
import os
import stat
import uuid
from collections.abc import Iterator, Mapping
from io import BufferedReader, BufferedWriter
from pathlib import Path
from typing import Any

from narl.errors import InputError

PARTIAL = ".partial-"
"""The beginning of the names of files and folders that are not complete."""
SCHEMA = 1
"""The format in which run folders and checkpoints are written; older formats can be read."""
MOST_BYTES = 1 << 28
"""Bytes of the largest file of text that is read."""
MOST_NESTED = 50
"""Levels of lists and objects in JSON that is read."""
CHECKSUM = "sha256"
NEWER = "it has format"
"""The beginning of the problem of a folder that a newer version of narl has written."""
Digest = dict[str, Any]
"""Size and SHA-256 of a file."""


# --- reading --------------------------------------------------------------------------------------


def open_file(path: Path, *, follow_links: bool = False) -> BufferedReader:
    """Open a regular file for reading; OSError if it is anything else."""
    return os.fdopen(open_descriptor(path, os.O_RDONLY, follow_links), "rb")


def open_descriptor(path: Path, flags: int, follow_links: bool = False) -> int:
    """Return the descriptor of a regular file; OSError if it is anything else, such as a link."""
    flags |= os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow_links else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags, 0o644)
    except ValueError:  # a null character, or a letter that file names cannot have
        raise OSError(errno.EINVAL, "the name is wrong", repr(path)) from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a symbolic link", str(path)) from None
        raise
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        kind = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        reason = os.strerror(kind) if stat.S_ISDIR(mode) else "it is not a regular file"
        raise OSError(kind, reason, str(path))
    return descriptor


def open_log(path: Path) -> BufferedWriter:
    """Open a regular file for appending, and make its folder; OSError if it is a link."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.fdopen(open_descriptor(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab")


def read_file(path: Path, limit: int = MOST_BYTES, *, follow_links: bool = False) -> bytes:
    """Return the content of a regular file of at most ``limit`` bytes."""
    with open_file(path, follow_links=follow_links) as file:
        if os.fstat(file.fileno()).st_size > limit:
            raise OSError(errno.EFBIG, f"it has more than {limit} bytes", str(path))
        return file.read(limit)


def parse_json(content: bytes) -> Any:
    """Return the value of JSON; ValueError if it is none that `json_bytes` could have written."""
    try:
        value = json.loads(content)
    except RecursionError:
        raise ValueError("its JSON has too many levels") from None
    level = [value]
    for _ in range(MOST_NESTED):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below += item.keys()
                below += item.values()
            elif isinstance(item, list):
                below += item
            elif isinstance(item, float) and not math.isfinite(item):
                raise ValueError(f"its JSON has the number {item}")
            elif isinstance(item, int) and item.bit_length() > 1000:
                raise ValueError("its JSON has a number of too many digits")
            elif isinstance(item, str) and not item.isascii():
                item.encode()  # UnicodeEncodeError, a ValueError, for half a letter
        if not below:
            return value
        level = below
    raise ValueError("its JSON has too many levels")


def read_json(path: Path) -> Any:
    """Return the JSON in a file; OSError or ValueError if there is none."""
    return parse_json(read_file(path))


# --- writing --------------------------------------------------------------------------------------


@contextlib.contextmanager
def partial_file(path: Path) -> Iterator[Path]:
    """Yield a hidden path of the same suffix to write to; rename it to `path` at the end.

    Folders above `path` are created. After an error nothing is left and `path` is as before. A
    device, such as /dev/null, is an OSError: the rename would put a file in its place.
    """
    partial = partial_path(path)
    with naming_errors(path):
        if os.path.lexists(path) and _is_device(os.lstat(path).st_mode):
            raise OSError(errno.EINVAL, "it is a device, not a file", str(path))
        make_folder(path.parent)
        try:
            yield partial
            flush(partial)
            partial.replace(path)
            flush(path.parent)
        finally:
            partial.unlink(missing_ok=True)


def _is_device(mode: int) -> bool:
    return stat.S_ISCHR(mode) or stat.S_ISBLK(mode)


def write_file(path: Path, content: bytes) -> None:
    """Write or replace a file, completely or not at all."""
    with partial_file(path) as partial, partial.open("xb") as file:
        file.write(content)


def remove_file(path: Path) -> None:
    """Delete a file, or a link in its place, if there is one."""
    path.unlink(missing_ok=True)


def create_file(path: Path, content: bytes) -> Digest:
    """Write a new file to disk, for `write_folder`, and return its digest."""
    with naming_errors(path), path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return checksum(content)


def make_folder(path: Path) -> None:
    """Create a folder and those above it, on disk, where they are missing."""
    if not path.is_dir():
        if path.parent != path:
            make_folder(path.parent)
        path.mkdir(exist_ok=True)
        flush(path.parent)


def flush(path: Path) -> None:
    """Write a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def partial_path(path: Path) -> Path:
    """Return a hidden name beside a path that nobody can foresee."""
    return path.with_name(f"{PARTIAL}{uuid.uuid4().hex}{path.suffix[:16]}")


@contextlib.contextmanager
def naming_errors(path: Path) -> Iterator[None]:
    """Add the path to errors of the system that name no file, such as that the disk is full."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = str(path)
        raise


def checksum(content: bytes) -> Digest:
    """Return the size and SHA-256 of a file's content."""
    return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def check_name(field: str, path: Path, advice: str) -> None:
    """Raise an error that names the field if a path is too long, or cannot be a path."""
    try:
        longest = max((len(os.fsencode(part)) for part in path.parts), default=0)
    except ValueError:
        longest = 0
    if longest > 255 or len(str(path)) > 4000 or "\0" in str(path):
        shown = ascii(str(path)[:40])
        raise InputError(f"{field}: {shown}… is no name of a file (too long, or odd); {advice}")


def check_writable(field: str, folder: Path, advice: str) -> None:
    """Raise an error that names the field if a folder cannot be created or written to."""
    check_name(field, folder, advice)
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        raise InputError(f"{field}: {folder} is not a folder; {advice}")
    probe = partial_path(folder / "probe")
    try:  # permissions alone do not tell: the file system may refuse, also to root
        probe.mkdir()
        probe.rmdir()
    except OSError:
        raise InputError(f"{field}: {folder} is not writable; {advice}") from None


# --- JSON -----------------------------------------------------------------------------------------


def with_checksum(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return JSON values and their SHA-256 as a last entry."""
    return {**values, CHECKSUM: _digest(values)}


def without_checksum(values: Any) -> dict[str, Any]:
    """Return the values that `with_checksum` was given; ValueError if they have changed.

    What older versions of narl have written has no checksum, and is returned as it is.
    """
    if not isinstance(values, dict):
        raise ValueError("it is not a JSON object")
    rest = {name: value for name, value in values.items() if name != CHECKSUM}
    if CHECKSUM in values and values[CHECKSUM] != _digest(rest):
        raise ValueError("it differs from its checksum")
    return rest


def _digest(values: Mapping[str, Any]) -> str:
    text = json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def newer_schema(values: Mapping[str, Any]) -> str:
    """Return why values of a newer format cannot be used; empty if they can."""
    schema = values.get("schema", 0)
    if type(schema) is not int or schema <= SCHEMA:
        return ""
    return f"{NEWER} {schema}, and this narl reads formats up to {SCHEMA}; install a newer"


def to_json_values(field: str, value: Any, non_finite: str = "refuse") -> Any:
    """Return a value as JSON represents it: NumPy scalars as numbers, arrays and tuples as lists.

    A number that is not finite is an error, or with `non_finite="null"` becomes None.
    """
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise InputError(f"{field}: key {key!r} given; keys must be strings")
        return {key: to_json_values(f"{field}.{key}", value[key], non_finite) for key in value}
    if isinstance(value, list | tuple):
        return [to_json_values(f"{field}[{i}]", item, non_finite) for i, item in enumerate(value)]
    if not isinstance(value, str | int | float | None) and hasattr(value, "tolist"):
        return to_json_values(field, value.tolist(), non_finite)
    if isinstance(value, float) and not math.isfinite(value):
        if non_finite == "null":
            return None
        raise InputError(f"{field}: {value} given; must be a finite number")
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str) and not _is_unicode(value):
        raise InputError(f"{field}: {value!r} given; it must be text in UTF-8")
    if value is None or isinstance(value, str | bool | int):
        return value
    raise InputError(f"{field}: a {type(value).__name__} given; must be a JSON value")


def _is_unicode(text: str) -> bool:
    """Return whether text can be written; bytes that are no UTF-8 become such in arguments."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def json_bytes(value: Any) -> bytes:
    """Return a value as indented JSON in UTF-8."""
    return (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()
