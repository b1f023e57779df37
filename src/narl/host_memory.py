"""Memory of this machine that a computation may use."""

import re
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def available_host_memory() -> int | None:
    """Return the bytes that this process may still use; None if they are unknown."""
    try:
        text = _MEMINFO.read_text(encoding="ascii")
    except (OSError, ValueError):  # not on Linux
        return None
    found = re.search(r"^MemAvailable:\s*(\d+) kB$", text, re.MULTILINE)
    return None if found is None else min(1024 * int(found[1]), _left_to_container())


def _left_to_container() -> int:
    """Return the bytes that a control group still allows; very many where there is none."""
    try:
        most, used = ((_CGROUP / name).read_text() for name in ("memory.max", "memory.current"))
        return int(most) - int(used)
    except (OSError, ValueError):  # not on Linux, another version of them, or "max"
        return 1 << 62


def size_as_text(size: int) -> str:
    """Return a number of bytes for people, such as 1.5 GB."""
    unit, name = (1e9, "GB") if size >= 1e8 else (1e6, "MB") if size >= 1e5 else (1e3, "kB")
    return f"{size / unit:.1f} {name}"
