"""Speed of the tabular half: against rlberry, as problems grow, and on Deep Sea.

Run it alone on the machine: `make bench-tabular`. It prints ratios taken in one run and asserts
nothing. `ARGS=--deep-sea` adds the Deep Sea part (minutes), `ARGS="--json FILE"` keeps the figures.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

REPEATS = 5
SEEDS = 20
EPISODES = 1000
OURS: dict[str, tuple[str, dict]] = {
    "ucbvi": ("ucbvi", {}),
    "narl-ucrl": ("narl-ucrl", {}),
    "narl-ucrl, noise on r and P": ("narl-ucrl", {"noised": "both", "c": 1.0}),
    "narl-ucrl, bootstrap": ("narl-ucrl", {"noise": "bootstrap"}),
    "narl-ucbvi": ("narl-ucbvi", {}),
    "psrl": ("psrl", {}),
    "opsrl": ("opsrl", {}),
    "ucrl2": ("ucrl2", {}),
    "rlsvi": ("rlsvi", {}),
}
BARS = {"ucbvi": 40.0, "narl-ucrl": 25.0, "narl-ucrl, noise on r and P": 25.0}
"""At least this many times rlberry's speed, per seed."""
RELATIVE = {"psrl": 2.0, "opsrl": 5.0}
"""At most this many times narl-ucrl's time."""
console = Console(width=110)


def time_peer(python: str, seed: int) -> dict:
    """Seconds rlberry's UCBVI takes for the episodes of one seed, its regret, its versions."""
    from narl.tabular import riverswim, save_npz

    with tempfile.TemporaryDirectory() as folder:
        path = save_npz(Path(folder) / "riverswim.npz", riverswim())
        script = str(Path(__file__).with_name("peer_rlberry.py"))
        command = [python, script, str(path), str(EPISODES), str(seed)]
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(answer.stdout.splitlines()[-1])


def time_ours(
    name: str, options: dict, mdp, episodes: int, seeds: int
) -> tuple[float, float, float]:
    """Seconds to compile, seconds to run, and the mean regret."""
    from narl.tabular import run

    trace = run(name, mdp, episodes, range(seeds), **options)
    return trace.compile_seconds, trace.run_seconds, float(trace.regret.sum(axis=1).mean())


def against_rlberry(peer_python: str) -> dict:
    """Peer and ours in turn, so that a disturbance hits both."""
    from narl.tabular import riverswim

    mdp = riverswim()
    compile_seconds, regrets = {}, {}
    for label, (name, options) in OURS.items():
        compile_seconds[label], _, regrets[label] = time_ours(name, options, mdp, EPISODES, SEEDS)
    times: dict[str, list[float]] = {label: [] for label in ("rlberry", *OURS)}
    peers = []
    for repeat in range(REPEATS):
        peers.append(time_peer(peer_python, repeat))
        times["rlberry"].append(peers[-1]["seconds"])
        for label, (name, options) in OURS.items():
            _, seconds, _ = time_ours(name, options, mdp, EPISODES, SEEDS)
            times[label].append(seconds / SEEDS)
    median = {label: statistics.median(values) for label, values in times.items()}
    regrets["rlberry"] = statistics.mean(peer["regret"] for peer in peers)
    print_against_rlberry(median, compile_seconds, regrets)
    return {
        "seconds_per_1000_episodes_per_seed": median,
        "all": times,
        "compile": compile_seconds,
        "regret": regrets,
        "versions": peers[0]["versions"],
    }


def print_against_rlberry(median: dict, compile_seconds: dict, regrets: dict) -> None:
    """The ratios, each bar beside its figure."""
    table = Table(
        title="RiverSwim, S=6, H=20: seconds per 1000 episodes per seed (20 seeds at once)"
    )
    columns = ("seconds", "× rlberry UCBVI", "× narl-ucrl's time", "bar", "compile s", "regret")
    table.add_column("")
    for column in columns:
        table.add_column(column, justify="right")
    first = f"{median['rlberry']:.3f}", "1", "", "", "", f"{regrets['rlberry']:.0f}"
    table.add_row("rlberry UCBVI (one seed)", *first)
    for label in OURS:
        speed, share = median["rlberry"] / median[label], median[label] / median["narl-ucrl"]
        bar = ""
        if label in BARS:
            bar = f"≥ {BARS[label]:g}×: {'met' if speed >= BARS[label] else 'missed'}"
        if label in RELATIVE:
            bar = f"≤ {RELATIVE[label]:g}: {'met' if share <= RELATIVE[label] else 'missed'}"
        table.add_row(
            label,
            f"{median[label]:.4f}",
            f"{speed:.0f}",
            f"{share:.2f}",
            bar,
            f"{compile_seconds[label]:.1f}",
            f"{regrets[label]:.0f}",
        )
    console.print(table)


def growth() -> dict:
    """Seconds per episode of narl-ucrl (noise on r and P) as one size doubles and doubles again."""
    from narl.tabular import random_mdp

    base = {"states": 10, "horizon": 10, "members": 10, "seeds": 20}
    table = Table(
        title="narl-ucrl, noise on r and P, random MDP with 3 actions: ms per episode, all seeds"
    )
    for column in ("grows", "values", "ms per episode", "time × per doubling", "exponent"):
        table.add_column(column)
    figures = {}
    for what in base:
        values = [base[what] * factor for factor in (1, 2, 4)]
        times = []
        for value in values:
            sizes = {**base, what: value}
            mdp = random_mdp(sizes["states"], 3, sizes["horizon"])
            options = {"noised": "both", "members": sizes["members"]}
            runs = [time_ours("narl-ucrl", options, mdp, 200, sizes["seeds"]) for _ in range(3)]
            times.append(statistics.median(run[1] for run in runs) / 200)
        doublings = " ".join(f"{b / a:.2f}" for a, b in itertools.pairwise(times))
        shown = " ".join(f"{1000 * t:.2f}" for t in times)
        exponent = math.log(times[-1] / times[0]) / math.log(values[-1] / values[0])
        row = " ".join(map(str, values)), shown, doublings, f"{exponent:.2f}"
        table.add_row(what, *row)
        figures[what] = {"values": values, "seconds_per_episode": times, "exponent": exponent}
    console.print(table)
    return figures


def deep_sea_once(size: int, noise: str, seeds: int, episodes: int) -> dict:
    """One size to solution in a process of its own, for its peak memory."""
    code = (
        "import json, resource, sys, time; begin = time.perf_counter(); import narl\n"
        f"mdp = narl.tabular.deep_sea({size})\n"
        f"t = narl.tabular.run('narl-ucrl', mdp, {episodes}, range({seeds}), noise={noise!r},"
        " until_solved=True)\n"
        "print(json.dumps({'solved': t.solved_episode, 'seconds': time.perf_counter() - begin,"
        " 'compile': t.compile_seconds,"
        " 'gigabytes': resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}))"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return json.loads(answer.stdout.splitlines()[-1])


def deep_sea() -> dict:
    """All ten sizes, both noises, 10 seeds, to solution; then N = 50."""
    table = Table(title="Deep Sea, M = 10, 10 seeds, to solution")
    for column in ("N", "noise", "solved", "last episode", "seconds", "peak GB"):
        table.add_column(column, justify="right")
    figures, begin = {}, time.perf_counter()
    for size in range(10, 30, 2):
        for noise in ("gaussian", "bootstrap"):
            figures[f"{size} {noise}"] = deep_sea_once(size, noise, 10, 1000)
    total = time.perf_counter() - begin
    figures["50 gaussian"] = deep_sea_once(50, "gaussian", 10, 1000)
    for label, found in figures.items():
        solved = [episode for episode in found["solved"] if episode is not None]
        table.add_row(
            *label.split(),
            f"{len(solved)}/{len(found['solved'])}",
            str(max(solved, default="")),
            f"{found['seconds']:.1f}",
            f"{found['gigabytes']:.2f}",
        )
    console.print(table)
    peak = max(figures[f"28 {noise}"]["gigabytes"] for noise in ("gaussian", "bootstrap"))
    console.print(
        f"all ten sizes × 2 noises: {total / 60:.1f} min"
        f" (bar 15: {'met' if total < 900 else 'missed'});"
        f" N=28 peak {peak:.2f} GB (bar 4: {'met' if peak < 4 else 'missed'})"
    )
    return {"runs": figures, "minutes": total / 60}


def machine() -> dict:
    """What the figures were taken on."""
    from importlib.metadata import version

    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        cpu = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        cpu = platform.processor()
    packages = ("narl", "jax", "jaxlib", "numpy")
    return {
        "platform": platform.platform(),
        "cpu": cpu,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {package: version(package) for package in packages},
    }


def main() -> None:
    """Prints the tables; keeps the figures with --json."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer-python", help="python of rlberry's environment")
    parser.add_argument("--deep-sea", action="store_true", help="the Deep Sea part as well")
    parser.add_argument("--only-deep-sea", action="store_true", help="nothing but Deep Sea")
    parser.add_argument("--json", type=Path, help="where to keep the figures")
    given = parser.parse_args()
    figures: dict = {"machine": machine()}
    if not given.only_deep_sea:
        if given.peer_python:
            figures["rlberry"] = against_rlberry(given.peer_python)
        figures["growth"] = growth()
    if given.deep_sea or given.only_deep_sea:
        figures["deep_sea"] = deep_sea()
    figures["peak_gigabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
