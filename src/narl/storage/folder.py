"""Files that are whole or not there: what every kept thing is written with."""

import hashlib
import json
import math
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from narl.errors import InputError


def write_new_file(path: Path, content: bytes) -> None:
    """A new file, on the disk when this returns."""
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def flush_folder(folder: Path) -> None:
    """Makes the names in a folder last."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_writable(what: str, folder: Path, instead: str) -> None:
    """Refuses a folder in which nothing could be written, or that could not be made."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.is_dir():
        raise InputError(f"{what}: {folder} is not a folder; {instead}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{what}: {folder} is not writable; {instead}")


def remove_tree(path: Path) -> None:
    if path.is_symlink():
        path.unlink(missing_ok=True)
    else:
        shutil.rmtree(path, ignore_errors=True)


def to_json_values(field: str, value: Any, non_finite: str = "refuse") -> Any:
    """The value as JSON would give it back; NumPy scalars and arrays become numbers, lists."""
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
    if value is None or isinstance(value, str | bool | int):
        return value
    raise InputError(f"{field}: a {type(value).__name__} given; must be a JSON value")


def json_bytes(value: Any) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


def checksum(content: bytes) -> dict[str, Any]:
    return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
