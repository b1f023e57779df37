"""Arrays in .npz files, written and read without pickle.

The same arrays always give the same bytes. A file of a run is read only after its checksum was
verified. The shapes that a file declares are checked before memory is taken for them.
"""

import hashlib
import io
import math
import os
import re
import struct
import zipfile
from collections.abc import Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

import numpy as np

from narl.errors import InputError
from narl.storage.files import Digest, naming_errors

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


def read_npz(
    file: IO[bytes], most_bytes: int | None = None, *, is_verified: bool = True
) -> dict[str, np.ndarray]:
    """Return the arrays of one .npz file by name; ValueError if it is none.

    Arrays that need more than ``most_bytes``, by default half of the machine's memory, are refused.
    If a checksum of the file was verified, uncompressed arrays are read straight from their place:
    `zipfile` would copy and check every byte again. (And np.load confuses "x" with "x.npy".)
    """
    name = ""
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            _check_sizes(file, members, most_bytes)
            arrays = {}
            for member in members:
                name = member.filename.removesuffix(".npy")
                arrays[name] = _read_member(file, archive, member, is_verified)
            return arrays
    except (MemoryError, OSError):
        raise
    except Exception as error:  # a damaged archive can raise almost anything
        reason = str(error) or type(error).__name__
        raise ValueError(f"{name} cannot be read: {reason}" if name else reason) from error


def _check_sizes(
    file: IO[bytes], members: Collection[zipfile.ZipInfo], most_bytes: int | None
) -> None:
    """Refuse an archive that declares more than it can hold, or than there is memory for."""
    stored = sum(x.file_size for x in members if x.compress_type == zipfile.ZIP_STORED)
    if stored > file.seek(0, os.SEEK_END):
        raise ValueError("its arrays are larger than the file")
    if most_bytes is None:
        most_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    needed = sum(member.file_size for member in members)
    if needed > max(most_bytes, stored):
        raise ValueError(
            f"its arrays need {needed:.1e} bytes of memory, more than {most_bytes:.1e}"
        )


def _read_member(
    file: IO[bytes], archive: zipfile.ZipFile, member: zipfile.ZipInfo, is_verified: bool
) -> np.ndarray:
    if member.compress_type != zipfile.ZIP_STORED or not is_verified:
        with archive.open(member) as stream:
            return _read_array(stream, member.file_size)
    file.seek(member.header_offset + 26)
    name_size, extra_size = struct.unpack("<HH", file.read(4))
    file.seek(name_size + extra_size, os.SEEK_CUR)
    return _read_array(file, member.file_size)


def _read_array(stream: IO[bytes], size: int) -> np.ndarray:
    """Return the array that begins here, if its header declares exactly ``size`` bytes."""
    begin = stream.tell()
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"its header is of version {version}")
    headers = np.lib.format.read_array_header_1_0, np.lib.format.read_array_header_2_0
    shape, _, dtype = headers[version[0] - 1](stream)
    if dtype.hasobject:
        raise ValueError("Object arrays cannot be loaded")
    if dtype.kind not in NUMBERS + TEXT_AND_TIMES:
        raise ValueError(f"dtype {dtype} is not NumPy's numbers")
    if math.prod(shape) * dtype.itemsize != size - (stream.tell() - begin):
        raise ValueError(f"it has {size} bytes, which is wrong for {dtype} {shape}")
    stream.seek(begin)
    return np.lib.format.read_array(stream, allow_pickle=False)


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
    with naming_errors(path), path.open("xb") as file, ThreadPoolExecutor(1) as thread:
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
