"""Arrays in .npz files, written and read without pickle.

The same arrays always give the same bytes. A file is read only after its checksum was verified.
"""

import hashlib
import io
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

import numpy as np

from narl.errors import InputError
from narl.storage.folder import Digest

ARRAYS = "arrays.npz"
ARRAY_NAME = re.compile(r"[A-Za-z0-9_.-]+")
NUMBERS, TEXT_AND_TIMES = "biufc", "SUmM"
"""Kinds of NumPy types."""
CHUNK = 1 << 24
"""Bytes that are written and hashed at a time."""
LARGE = 1 << 26
"""Bytes from which on an array has a file of its own, if the arrays are not compressed."""


def check_array(name: str, array: np.ndarray, kinds: str = NUMBERS) -> None:
    """Raise an error if an array has a name or a type that cannot be stored."""
    if not ARRAY_NAME.fullmatch(str(name)):
        raise InputError(f"array name {name!r} given; use letters, digits, _ . -")
    # isbuiltin is 2 for types of other packages, such as bfloat16: a .npy file would lose them.
    if array.dtype.kind not in kinds or array.dtype.isbuiltin == 2:
        raise InputError(f"array {name}: dtype {array.dtype} given; must be NumPy's numbers")


def compressed_npz(arrays: Mapping[str, Any]) -> bytes:
    """Return the compressed .npz of small arrays of numbers, text or times."""
    values = {name: np.asarray(value) for name, value in arrays.items()}
    for name, array in values.items():
        check_array(name, array, NUMBERS + TEXT_AND_TIMES)
    buffer = io.BytesIO()
    _write_npz(buffer, values, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def write_arrays(folder: Path, arrays: Mapping[str, np.ndarray]) -> dict[str, Digest]:
    """Write arrays uncompressed to arrays.npz and return the digest of each file.

    Large arrays have files of their own, arrays-1.npz and so on, which are written side by side.
    """
    large = [name for name, array in arrays.items() if array.nbytes >= LARGE]
    files = {ARRAYS: {name: arrays[name] for name in arrays if name not in large}}
    files |= {f"arrays-{i}.npz": {name: arrays[name]} for i, name in enumerate(large, start=1)}
    with ThreadPoolExecutor(min(len(files), os.cpu_count() or 1)) as threads:
        digests = threads.map(lambda name: _write_hashed(folder / name, files[name]), files)
        return dict(zip(files, digests, strict=True))


def read_arrays(files: Collection[IO[bytes]]) -> dict[str, np.ndarray]:
    """Return the arrays of .npz files, which are read side by side, by name."""
    arrays: dict[str, np.ndarray] = {}
    with ThreadPoolExecutor(min(len(files), os.cpu_count() or 1)) as threads:
        for part in threads.map(read_npz, files):
            arrays |= part
    return arrays


def read_npz(file: IO[bytes]) -> dict[str, np.ndarray]:
    """Return the arrays of one .npz file by name; ValueError if it is none.

    Uncompressed arrays are read straight from their place in the file: `zipfile` would copy and
    check every byte again. (And np.load confuses "x" with "x.npy".)
    """
    try:
        with zipfile.ZipFile(file) as archive:
            return {
                member.filename.removesuffix(".npy"): _read_member(file, archive, member)
                for member in archive.infolist()
            }
    except (EOFError, struct.error, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(str(error)) from error


def _read_member(file: IO[bytes], archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    if member.compress_type != zipfile.ZIP_STORED:
        with archive.open(member) as stream:
            return np.lib.format.read_array(stream, allow_pickle=False)
    file.seek(member.header_offset + 26)
    name_size, extra_size = struct.unpack("<HH", file.read(4))
    file.seek(name_size + extra_size, os.SEEK_CUR)
    return np.lib.format.read_array(file, allow_pickle=False)


def _write_npz(stream: Any, arrays: Mapping[str, np.ndarray], compression: int) -> None:
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, value in arrays.items():
            array = np.asarray(value)
            header = np.lib.format.header_data_from_array_1_0(array)
            ordered = array.T if header["fortran_order"] else array
            content = np.ascontiguousarray(ordered).reshape(-1).view(np.uint8)
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array_header_1_0(member, header)
                for start in range(0, content.size, CHUNK):
                    member.write(content[start : start + CHUNK].data)


def _write_hashed(path: Path, arrays: Mapping[str, np.ndarray]) -> Digest:
    with path.open("xb") as file, ThreadPoolExecutor(1) as thread:
        stream = _HashedFile(file, thread)
        _write_npz(stream, arrays, zipfile.ZIP_STORED)
        file.flush()
        os.fsync(file.fileno())
        if hasattr(os, "posix_fadvise"):  # not read again soon: leave its memory to others
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return stream.digest()


class _HashedFile:
    """A file that another thread hashes while this one writes.

    It cannot seek, so that `zipfile` writes every byte once.
    """

    def __init__(self, file: IO[bytes], thread: ThreadPoolExecutor) -> None:
        self._file, self._thread, self._sha = file, thread, hashlib.sha256()
        self._size = 0
        self._updates: list[Future[None]] = []

    def write(self, data: Any) -> int:
        self._updates.append(self._thread.submit(self._sha.update, data))
        self._file.write(data)
        size = memoryview(data).nbytes
        self._size += size
        return size

    def flush(self) -> None:
        self._file.flush()

    def digest(self) -> Digest:
        """Return size and SHA-256 of everything that was written."""
        for update in self._updates:
            update.result()
        return {"size": self._size, "sha256": self._sha.hexdigest()}
