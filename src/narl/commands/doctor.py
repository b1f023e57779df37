"""`narl doctor`: check versions, device, MuJoCo, rendering and disk of this machine."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import platform
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from narl import __version__
from narl.commands.arguments import JsonSwitch, RunsFolder, parse, runs_folder
from narl.compilation import num_cores
from narl.errors import InputError, install_hint

PACKAGES = (
    *("jax", "jaxlib", "optax", "numpy", "scipy", "gymnasium", "mujoco", "imageio"),
    *("jaxtyping", "tyro", "rich", "matplotlib", "altair", "vl-convert-python"),
)
EXTRAS = {
    "imageio-ffmpeg": "video",
    "pygame": "video",
    "pandas": "pandas",
    "tensorboardX": "tensorboard",
    "wandb": "wandb",
}
"""Optional packages, and the extra of narl that installs each."""
OTHER_NAMES = {"pygame": "pygame-ce"}
"""Packages that another one may stand for."""
RECORDING = {
    "imageio-ffmpeg": "videos of episodes cannot be recorded",
    "pygame": "Gymnasium's classic control and Box2D cannot be drawn (MountainCarContinuous-v0)",
}
"""Optional packages without which episodes cannot be recorded, and what does not work."""
NVIDIA = Path("/dev/nvidia0")
"""A file that exists where the machine has an NVIDIA GPU."""
MIN_FREE_BYTES = 100 * 2**20
"""Bytes of free disk below which a long run should not begin."""


@dataclasses.dataclass(frozen=True)
class Doctor:
    """Show versions, device, MuJoCo, rendering and disk; exit status 1 if anything is wrong."""

    runs: RunsFolder = None
    json: JsonSwitch = False


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status."""
    args = parse(Doctor, "narl doctor", arguments, "narl doctor --json")
    from narl.console import print_json

    findings = examine(args.runs)
    if args.json:
        print_json(findings)
    else:
        _show(findings)
    return 1 if findings["problems"] else 0


def examine(runs: Path | None = None) -> dict[str, Any]:
    """Return the JSON object that `narl doctor --json` prints."""
    problems: list[str] = []
    versions: dict[str, str | None] = {"narl": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        versions[package] = _version(package)
        if versions[package] is None:
            problems.append(f"{package} is not installed; install narl again")
    extras = {name: _version(name) or _version(OTHER_NAMES.get(name, name)) for name in EXTRAS}
    return {
        "versions": versions,
        "extras": extras,
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "usable_cores": num_cores(),
        "device": _device(problems),
        "compilation_cache": _cache(),
        "mujoco": _mujoco(problems),
        "rendering": _rendering(problems),
        **_disk(runs, problems),
        "notes": [
            f"without {name} {what}; {install_hint(EXTRAS[name])}"
            for name, what in RECORDING.items()
            if extras[name] is None
        ],
        "problems": problems,
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _device(problems: list[str]) -> dict[str, Any]:
    """Describe the device of JAX and try it with one small program."""
    try:
        import jax
        import jax.numpy as jnp

        devices = jax.devices()
        total = float(jax.jit(jnp.sum)(jnp.arange(4.0)))
    except Exception as error:  # whatever JAX, its plugins or the driver raise
        problems.append(_does_not_work("JAX", error))
        return {"platform": None, "kind": None, "count": 0}
    if total != 6.0:
        problems.append(f"JAX computes 0 + 1 + 2 + 3 = {total}")
    first = devices[0]
    if first.platform == "cpu" and NVIDIA.exists():
        problems.append(
            "JAX uses the CPU although there is an NVIDIA GPU; see nvidia-smi, and "
            f"{install_hint('cuda')}"
        )
    return {"platform": first.platform, "kind": first.device_kind, "count": len(devices)}


def _does_not_work(package: str, error: Exception) -> str:
    return f"{package} does not work: {' '.join(str(error).split())[:200]}"


def _mujoco(problems: list[str]) -> bool:
    """Return whether an environment of MuJoCo steps."""
    try:
        import numpy as np

        from narl.deep.environment import open_env

        env = open_env("InvertedPendulum-v5", 0)
        env.reset()
        env.step(np.zeros(env.spaces.action_dim, np.float32))
        env.close()
    except Exception as error:  # whatever Gymnasium, MuJoCo or its libraries raise
        problems.append(_does_not_work("MuJoCo", error))
        return False
    return True


def _rendering(problems: list[str]) -> str | None:
    """Return the library with which MuJoCo draws, after drawing one picture."""
    try:
        from narl.deep.rendering_backend import check_rendering

        return check_rendering()
    except (InputError, ImportError) as error:
        problems.append(f"{error} (videos need it, training does not)")
        return None


def _cache() -> str | None:
    """Return the folder of compiled programs; None if there is none."""
    from narl.compilation import enable_cache

    try:
        folder = enable_cache()
    except ImportError:  # JAX is missing, which the versions say
        return None
    return None if folder is None else str(folder)


def _disk(runs: Path | None, problems: list[str]) -> dict[str, Any]:
    """Describe the folder of the runs and the free space on its disk."""
    try:
        from narl.storage import check_root

        root = runs_folder(runs)
    except ImportError:  # NumPy is missing, which the versions say
        return {"runs": None, "writable": False, "disk_free": None}
    try:
        check_root(root)
        writable = True
    except InputError as error:
        problems.append(str(error))
        writable = False
    folder = root.absolute()
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if free < MIN_FREE_BYTES:
        problems.append(f"disk: {free / 2**20:.0f} MiB are free at {folder}; 100 are too few")
    return {"runs": str(root), "writable": writable, "disk_free": free}


def _show(findings: dict[str, Any]) -> None:
    from narl.console import make_fact_table, stdout

    device, table = findings["device"], make_fact_table()
    for name, version in findings["versions"].items():
        table.add_row(name, version or "missing")
    for name, version in findings["extras"].items():
        table.add_row(name, version or f"not installed (extra {EXTRAS[name]})")
    table.add_row("platform", findings["platform"])
    table.add_row("cores", f"{findings['cores']} ({findings['usable_cores']} usable)")
    table.add_row("device", f"{device['platform']}: {device['count']} × {device['kind']}")
    table.add_row("compilation cache", findings["compilation_cache"] or "off")
    table.add_row("MuJoCo", "steps" if findings["mujoco"] else "does not work")
    table.add_row("rendering", findings["rendering"] or "does not work")
    table.add_row("runs", f"{findings['runs']} ({'' if findings['writable'] else 'not '}writable)")
    free = findings["disk_free"]
    table.add_row("disk", "unknown" if free is None else f"{free / 2**30:.1f} GiB free")
    console = stdout()
    console.print(table)
    for text in findings["notes"]:
        console.print(f"note: {text}", soft_wrap=True)
    for problem in findings["problems"]:
        console.print(f"problem: {problem}", style="red")
    if not findings["problems"]:
        console.print("no problems", style="green")
