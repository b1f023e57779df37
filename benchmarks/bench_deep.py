"""Speed of the deep half on the CPU: SAC updates against SBX and Stable-Baselines3.

Run it alone on the machine: `make bench-deep`. It prints ratios taken in one run and asserts
nothing; `ARGS="--json FILE"` keeps the figures.

Every library does the same work: batch 256, networks of 256×256, Hopper's dimensions, a replay
buffer of 10 000 transitions, temperature learned. Peers run in environments of their own, with one
and with two threads, and the better counts. Peers and ours take turns, three times, and the best
time of each counts, so that a disturbance does not decide. The floor is the arithmetic of an update
divided by the speed of this machine's matrix products.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sgemm import measure, update_flops

OBS_DIM, ACTION_DIM = 11, 3
UPDATES = 100
REPEATS = 5
ROUNDS = 3
BARS = {"SBX": 1.1, "Stable-Baselines3": 2.5}
"""At least this many times the peer's speed, with one seed."""
FLOOR_BAR = 1.6
"""At most this many times the floor per seed, with ten."""
console = Console(width=110)


def time_ours(num_seeds: int) -> dict[str, float]:
    """Return milliseconds per update and seed, and seconds to compile."""
    from narl.deep import make_config
    from narl.deep.algorithm import Algorithm, StepInfo
    from narl.deep.replicas import make_replicas
    from narl.deep.rollout import ReplicaParams
    from narl.deep.selection import replica_numbers

    config = make_config(
        "Hopper-v5", "sac", updates_per_step=UPDATES, steps=10_000, initial_steps=1000
    )
    algorithm = Algorithm(config, OBS_DIM, ACTION_DIM, None, 1000)
    replicas = make_replicas(num_seeds)
    numbers = replica_numbers([config] * num_seeds)
    params = ReplicaParams(np.zeros(num_seeds, np.int32), numbers)
    seeds = np.arange(num_seeds, dtype=np.uint32)
    obs = np.zeros((num_seeds, OBS_DIM), np.float32)
    state = replicas.to_host(replicas.init(algorithm.init, seeds, params, obs))
    rows = np.random.default_rng(0).normal(size=state.real.rows.shape).astype(np.float32)
    rows[..., -1] = 0.0  # no transition is terminal
    full = np.full(num_seeds, config.real_capacity, np.int32)
    state = replicas.from_host(state._replace(real=state.real._replace(rows=rows, size=full)))
    update = replicas.map(algorithm.update)
    times = []
    for repeat in range(REPEATS + 1):
        begin = time.perf_counter()
        info = StepInfo(*(np.int32(x) for x in (repeat, 1, 1)))
        state, loss = update(state, None, info)
        np.asarray(loss)
        times.append((time.perf_counter() - begin) / UPDATES / num_seeds * 1e3)
    replicas.close()
    return {
        "ms": min(times[1:]),
        "median": statistics.median(times[1:]),
        "compile": replicas.compiler.seconds,
    }


def time_peer(python: str, script: str, threads: int) -> dict:
    """Run a peer's script and return the figures that it prints."""
    path = str(Path(__file__).with_name(script))
    command = [
        python,
        path,
        "--threads",
        str(threads),
        "--updates",
        "200",
        "--repeats",
        str(REPEATS),
    ]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=1200)
    if answer.returncode:
        sys.exit(f"{script} failed: {answer.stderr.strip().splitlines()[-1]}")
    return json.loads(answer.stdout.splitlines()[-1])


def time_training(steps: int = 1500) -> dict[str, float]:
    """Return environment steps per second of an InvertedPendulum training, once it learns.

    They are taken over three epochs, with three fits of the models and three evaluations.
    """
    from narl.deep import make_config
    from narl.deep.trainer import Trainer

    config = make_config("InvertedPendulum-v5", "narl", steps=steps)
    trainer = Trainer([config])
    counters, compiler = trainer.counters, trainer.replicas.compiler
    while counters.step < config.epoch_length * 2:
        trainer.step()
    before, compiled = dict(counters.seconds), compiler.seconds
    begin, first = time.perf_counter(), counters.step
    while counters.step < first + 3 * config.epoch_length:
        trainer.step()
    passed = time.perf_counter() - begin - (compiler.seconds - compiled)
    spent = {name: counters.seconds[name] - before[name] for name in before}
    trainer.close()
    return {"steps_per_second": (counters.step - first) / passed, **spent}


def show_training() -> dict[str, float]:
    """Print and return the speed of a whole training."""
    training = time_training()
    parts = ", ".join(
        f"{name} {value:.1f} s" for name, value in training.items() if name != "steps_per_second"
    )
    console.print(
        "InvertedPendulum, 1 seed, 10 updates per step: "
        f"{training['steps_per_second']:.1f} steps/s ({parts})"
    )
    return training


def take_turns(peers: dict[str, tuple[str, str]]) -> tuple[dict, dict]:
    """Return the best times of every peer by number of threads, and ours by number of seeds."""
    theirs: dict[str, dict[int, float]] = {name: {} for name in peers}
    ours: dict[int, dict[str, float]] = {}
    for turn in range(ROUNDS):
        for name, (python, script) in peers.items():
            best = theirs[name]
            for threads in (1, 2) if turn == 0 else (min(best, key=lambda k: best[k]),):
                took = min(time_peer(python, script, threads)["ms_per_update"])
                best[threads] = min(took, best.get(threads, took))
        for seeds in (1, 10):
            figures = time_ours(seeds)
            if seeds not in ours or figures["ms"] < ours[seeds]["ms"]:
                ours[seeds] = figures
    return theirs, ours


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sb3-python", required=True)
    parser.add_argument("--sbx-python", required=True)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    cores = len(os.sched_getaffinity(0))
    peaks = {threads: measure(threads) for threads in (1, 2)}
    flops = update_flops(OBS_DIM, ACTION_DIM)
    floor = flops / max(peaks.values()) / 1e6
    console.print(
        f"{cores} cores; matrix products {peaks[1]:.0f} GFLOP/s with 1 thread, "
        f"{peaks[2]:.0f} with 2; one update {flops / 1e9:.2f} GFLOP: the floor is {floor:.2f} ms"
    )
    peers = {
        "SBX": (given.sbx_python, "peer_sbx.py"),
        "Stable-Baselines3": (given.sb3_python, "peer_sb3.py"),
    }
    results: dict[str, dict] = {"floor_ms": floor, "gflops": peaks}  # type: ignore[dict-item]
    results["peers"], ours = take_turns(peers)
    results["ours"] = {str(seeds): figures for seeds, figures in ours.items()}
    table = Table("SAC update, per seed", "ms", "floor / ms", "ours, 1 seed", "bar")
    for name, by_threads in results["peers"].items():
        best = min(by_threads.values())
        ratio = best / ours[1]["ms"]
        threads = min(by_threads, key=by_threads.get)
        table.add_row(
            f"{name}, {threads} thread(s)",
            f"{best:.2f}",
            f"{floor / best:.0%}",
            f"{ratio:.2f}x faster",
            f">= {BARS[name]}x",
        )
    for seeds, figures in ours.items():
        bar = f"<= {FLOOR_BAR}x floor" if seeds == 10 else ""
        table.add_row(
            f"narl, {seeds} seed(s)",
            f"{figures['ms']:.2f}",
            f"{floor / figures['ms']:.0%}",
            f"{figures['ms'] / floor:.2f}x the floor",
            bar,
        )
    console.print(table)
    console.print(
        f"compile: {ours[1]['compile']:.1f} s with 1 seed, {ours[10]['compile']:.1f} s with 10"
    )
    results["training"] = show_training()
    if given.json:
        given.json.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
