"""Compilation of programs: JAX's persistent cache, and compiling ahead in the background."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any


def cache_folder() -> Path:
    """Return the folder of compiled programs, one per kind of processor.

    A home folder may be shared by machines, and a program for one processor can crash another.
    """
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "narl" / "jax" / _processor()


def enable_cache() -> Path | None:
    """Turn the cache on and return its folder; None where it cannot be written.

    A folder that the user gave JAX itself (JAX_COMPILATION_CACHE_DIR) is left as it is.
    """
    if given := os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return Path(given)
    try:
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # RuntimeError: there is no home folder
        return None
    if not os.access(folder, os.W_OK | os.X_OK):
        return None
    import jax

    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
    # A damaged entry or a full disk costs time, not results: JAX compiles instead.
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation")
    return folder


def _processor() -> str:
    """Return a short name of this processor's instruction set."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        features = next(line for line in lines if line.lower().startswith(("flags", "features")))
    except (OSError, StopIteration):
        features = platform.processor()
    digest = hashlib.sha256(features.encode()).hexdigest()[:8]
    return f"{platform.machine() or 'unknown'}-{digest}"


def num_cores() -> int:
    """Return the number of cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return os.cpu_count() or 1


_compiling = 0
_compiling_lock = threading.Lock()


def is_compiling() -> bool:
    """Return whether a program is being compiled in the background anywhere in this process."""
    return _compiling > 0


class _WaitClock:
    """Seconds during which at least one thread has waited for a program."""

    def __init__(self) -> None:
        self._lock, self._num_waiting = threading.Lock(), 0
        self._begin = self._total = 0.0

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        with self._lock:
            if self._num_waiting == 0:
                self._begin = time.perf_counter()
            self._num_waiting += 1
        try:
            yield
        finally:
            with self._lock:
                self._num_waiting -= 1
                if self._num_waiting == 0:
                    self._total += time.perf_counter() - self._begin

    @property
    def seconds(self) -> float:
        return self._total


_waits = _WaitClock()


def seconds_waited() -> float:
    """Return the seconds that this process has waited for programs that were being compiled."""
    return _waits.seconds


class BackgroundCompiler:
    """Threads that compile programs while other work goes on."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """Seconds that callers of `wait_for` have waited for a program."""
        self._threads = ThreadPoolExecutor(num_cores(), thread_name_prefix="narl-compile")
        self._programs: list[CompiledProgram] = []

    def add(self, program: CompiledProgram) -> None:
        """Release this program when the compiler is closed."""
        self._programs.append(program)

    def submit(self, jitted: Any, shapes: Any) -> Future[Any]:
        """Begin to compile a jitted function for arguments of these shapes."""
        return self._threads.submit(_compile, jitted, shapes)

    def wait_for(self, program: Future[Any]) -> Any:
        """Return the compiled program; the seconds of waiting are added to `seconds`."""
        if not program.done():
            begin = time.perf_counter()
            with _waits.waiting():
                program.result()
            self.seconds += time.perf_counter() - begin
        return program.result()

    def close(self) -> None:
        """Stop compiling and release the programs; those in the making are left to their threads.

        A program occupies hundreds of memory maps, of which Linux gives a process 65 530. Programs
        that wait for Python's search for garbage could use them up, and XLA would crash.
        """
        self._threads.shutdown(wait=False, cancel_futures=True)
        for program in self._programs:
            program.release()


def _compile(jitted: Any, shapes: Any) -> Any:
    global _compiling
    with _compiling_lock:
        _compiling += 1
    try:
        return jitted.lower(*shapes).compile()
    finally:
        with _compiling_lock:
            _compiling -= 1


class CompiledProgram:
    """A jitted function that is compiled once: ahead of time, or at its first call."""

    def __init__(self, compiler: BackgroundCompiler, jitted: Any) -> None:
        self._compiler, self._jitted = compiler, jitted
        self._program: Future[Any] | None = None
        compiler.add(self)

    def release(self) -> None:
        """Forget the function and its compiled program."""
        self._jitted = self._program = None

    def compile_for(self, *arguments: Any) -> None:
        """Begin to compile the function for arguments of these shapes."""
        if self._program is None:
            import jax

            shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), arguments)
            self._program = self._compiler.submit(self._jitted, shapes)

    def program(self, *arguments: Any) -> Any:
        """Return the compiled program, waiting for it if it is not ready."""
        self.compile_for(*arguments)
        assert self._program is not None
        return self._compiler.wait_for(self._program)

    def wait(self) -> None:
        """Wait until the program is compiled, if compilation has begun."""
        if self._program is not None:
            self._compiler.wait_for(self._program)

    def __call__(self, *arguments: Any) -> Any:
        return self.program(*arguments)(*arguments)
