"""Provenance of a run: versions of packages, device, commit and time."""

import importlib.metadata
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from narl import __version__

PACKAGES = ("jax", "jaxlib", "numpy", "optax", "gymnasium", "mujoco")
"""Packages on which results may depend."""


def describe_environment(device: str, seconds: float | None) -> dict[str, Any]:
    """Return what the folder of a run records of the machine and the software."""
    return {
        "narl": __version__,
        **{name: version_of(name) for name in PACKAGES},
        "python": platform.python_version(),
        "platform": platform.platform(),
        "device": device,
        "commit": commit_of_checkout(),
        "time": datetime.now(UTC).isoformat(timespec="microseconds"),
        "seconds": None if seconds is None else round(float(seconds), 3),
    }


def version_of(package: str) -> str:
    """Return the installed version of a package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def commit_of_checkout() -> str | None:
    """Return the commit of the checkout with this file ("-dirty" if changed); None without one."""
    git = ["git", "-C", str(Path(__file__).parent)]
    tracked = [*git, "ls-files", "--error-unmatch", Path(__file__).name]
    describe = [*git, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        for command in (tracked, describe):
            answer = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()
