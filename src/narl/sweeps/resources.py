"""Resources of the runs of a sweep: cores, shares of GPUs, memory and time."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from typing import NamedTuple

from narl.errors import InputError
from narl.validation import check_count, check_number

MEMORY_SHARE = 0.9
"""Part of a GPU's memory that all processes on it may take together."""


class Resources(NamedTuple):
    """Resources of one task; None where they are left to the executor."""

    cpus: int | None = None
    gpus: float | None = None
    """Number of GPUs, or the share of one GPU."""
    memory_gb: float | None = None
    minutes: int | None = None


def gpu_variables(share: float | None) -> dict[str, str]:
    """Return the environment variables that keep JAX within its share of a GPU.

    JAX takes three quarters of a GPU's memory by default, whatever else runs there.
    """
    if share is None or not 0 < share < 1:
        return {}
    return {"XLA_PYTHON_CLIENT_MEM_FRACTION": f"{MEMORY_SHARE * share:.3f}"}


def worker_variables(gpu_share: float | None, given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables that keep a process to its share of a GPU, or to the CPU.

    JAX with CUDA fails where no GPU is visible, unless the variables ``given`` to the process name
    the platform.
    """
    if gpu_share:
        return gpu_variables(gpu_share)
    return {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": given.get("JAX_PLATFORMS") or "cpu"}


def make_resources(
    cpus: int | None, gpus: float | None, memory: float | None, time: str | None
) -> Resources:
    """Return the checked resources; ``time`` is 90 (minutes), 1:30:00 or 2-00:00:00."""
    if cpus is not None:
        cpus = check_count("cpus", cpus)
    if gpus is not None:
        gpus = check_number("gpus", gpus, whole=False, minimum=0)
        if gpus > 1 and gpus != int(gpus):
            raise InputError(
                f"gpus: {gpus:g} is wrong; it must be a share below 1, or a whole number"
            )
    if memory is not None:
        memory = check_number("memory", memory, whole=False, minimum=0, above_minimum=True)
    return Resources(cpus, gpus, memory, None if time is None else parse_minutes(time))


def parse_minutes(text: str) -> int:
    """Return the minutes of a time as SLURM writes it: 90, 1:30:00 or 2-00:00:00."""
    match = re.fullmatch(r"(?:(?:(\d{1,3})-)?(\d{1,4}):(\d{1,2})(?::(\d{1,2}))?|(\d{1,6}))", text)
    if match is None:
        raise InputError(f"time: {text!r} is wrong; it must be minutes, H:MM:SS or D-HH:MM:SS")
    days, hours, minutes, seconds, only_minutes = (int(part or 0) for part in match.groups())
    # As with SLURM, a begun minute counts.
    total = only_minutes or 24 * 60 * days + 60 * hours + minutes + bool(seconds)
    return check_count("time", total)


def visible_gpus() -> list[str]:
    """Return the GPUs of this machine that a process may use, without loading JAX."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return [name.strip() for name in given.split(",") if name.strip() not in ("", "-1")]
    try:
        listed = subprocess.run(
            ["nvidia-smi", "--list-gpus"], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [str(index) for index, _ in enumerate(listed.stdout.strip().splitlines())]
