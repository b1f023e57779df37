"""What a run was made with: versions, device, commit."""

import importlib.metadata
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from narl import __version__

PACKAGES = ("jax", "jaxlib", "numpy", "optax", "gymnasium", "mujoco")
"""On which numbers may depend."""


def describe_environment(device: str, seconds: float | None) -> dict[str, Any]:
    """What a run folder records of the machine."""
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
    """The installed version of a package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def commit_of_checkout() -> str | None:
    """The commit of the checkout this file is tracked in ("-dirty" if changed), if any."""
    git = ["git", "-C", str(Path(__file__).parent)]
    tracked = [*git, "ls-files", "--error-unmatch", Path(__file__).name]
    describe = [*git, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        for command in (tracked, describe):
            answer = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()
