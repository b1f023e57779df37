"""JAX's persistent compilation cache: a program compiled once is not compiled again."""

from __future__ import annotations

import hashlib
import os
import platform
import warnings
from pathlib import Path


def cache_folder() -> Path:
    """Where compiled programs are kept: one folder per kind of processor.

    A home folder may be shared by machines, and a program for one processor can crash another.
    """
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "narl" / "jax" / _processor()


def enable_cache() -> Path | None:
    """Turns the cache on and says where it is; None where it cannot be written.

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
    """A short name of this processor's instruction set."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        features = next(line for line in lines if line.lower().startswith(("flags", "features")))
    except (OSError, StopIteration):
        features = platform.processor()
    digest = hashlib.sha256(features.encode()).hexdigest()[:8]
    return f"{platform.machine() or 'unknown'}-{digest}"
