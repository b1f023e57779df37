"""`narl doctor`: what narl runs on here, and what is in its way."""

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
from narl.commands.arguments import RunsFolder, Switch, parse
from narl.errors import InputError

PACKAGES = (
    *("jax", "jaxlib", "numpy", "scipy", "gymnasium", "jaxtyping", "tyro", "rich"),
    *("matplotlib", "altair", "vl-convert-python"),
)
LEAST_FREE = 100 * 2**20
"""Bytes of free disk below which a long run should not begin."""


@dataclasses.dataclass(frozen=True)
class Doctor:
    """Show versions, device and disk, and say what is wrong (exit status 1 if anything is)."""

    runs: RunsFolder = None
    """folder of the runs"""
    json: Switch = False
    """one JSON object on stdout, everything else on stderr"""


def main(arguments: Sequence[str]) -> int:
    """Runs the command."""
    config = parse(Doctor, "narl doctor", arguments, "narl doctor --json")
    from narl.commands.screen import print_json

    findings = examine(config.runs)
    if config.json:
        print_json(findings)
    else:
        _show(findings)
    return 1 if findings["problems"] else 0


def examine(runs: Path | None = None) -> dict[str, Any]:
    """Everything that `narl doctor` tells."""
    problems: list[str] = []
    versions: dict[str, str | None] = {"narl": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
            problems.append(f"{package} is not installed; install narl again")
    return {
        "versions": versions,
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "device": _device(problems),
        "compilation_cache": _cache(),
        "rendering": "not needed yet",
        **_disk(runs, problems),
        "problems": problems,
    }


def _device(problems: list[str]) -> dict[str, Any]:
    """What JAX computes on, tried out with one small program."""
    try:
        import jax
        import jax.numpy as jnp

        devices = jax.devices()
        total = float(jax.jit(jnp.sum)(jnp.arange(4.0)))
    except Exception as error:  # whatever JAX, its plugins or the driver raise
        problems.append(f"JAX does not work: {' '.join(str(error).split())[:200]}")
        return {"platform": None, "kind": None, "count": 0}
    if total != 6.0:
        problems.append(f"JAX computes 0 + 1 + 2 + 3 = {total}")
    first = devices[0]
    return {"platform": first.platform, "kind": first.device_kind, "count": len(devices)}


def _cache() -> str | None:
    from narl.compilation import enable_cache

    try:
        folder = enable_cache()
    except ImportError:  # no JAX; said elsewhere
        return None
    return None if folder is None else str(folder)


def _disk(runs: Path | None, problems: list[str]) -> dict[str, Any]:
    """The folder of the runs, whether it can be written, and what is free beside it."""
    try:
        from narl import store

        root = store.default_root() if runs is None else runs
        store.check_root(root)
        writable = True
    except InputError as error:
        problems.append(str(error))
        writable = False
    except ImportError:  # no NumPy; said elsewhere
        return {"runs": None, "writable": False, "disk_free": None}
    there = root.absolute()
    while not there.exists():
        there = there.parent
    free = shutil.disk_usage(there).free
    if free < LEAST_FREE:
        problems.append(f"disk: {free / 2**20:.0f} MiB are free at {there}; 100 are too few")
    return {"runs": str(root), "writable": writable, "disk_free": free}


def _show(findings: dict[str, Any]) -> None:
    from rich.table import Table

    from narl.commands.screen import stdout

    device = findings["device"]
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, version in findings["versions"].items():
        table.add_row(name, version or "missing")
    table.add_row("platform", findings["platform"])
    table.add_row("cores", str(findings["cores"]))
    table.add_row("device", f"{device['platform']}: {device['count']} × {device['kind']}")
    table.add_row("compilation cache", findings["compilation_cache"] or "off")
    table.add_row("rendering", findings["rendering"])
    table.add_row("runs", f"{findings['runs']} ({'' if findings['writable'] else 'not '}writable)")
    free = findings["disk_free"]
    table.add_row("disk", "unknown" if free is None else f"{free / 2**30:.1f} GiB free")
    console = stdout()
    console.print(table)
    for problem in findings["problems"]:
        console.print(f"problem: {problem}", style="red")
    if not findings["problems"]:
        console.print("all is well", style="green")
