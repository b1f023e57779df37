"""This machine's float32 matrix-multiply peak, and the floor it sets for one SAC update."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

SIZES = (512, 768, 1024, 1536, 2048)
PROBE = """
import sys, time
import numpy as np
best = 0.0
for size in map(int, sys.argv[1:]):
    a, b = np.random.default_rng(size).standard_normal((2, size, size), np.float32)
    out = a @ b
    for _ in range(max(5, 2**33 // size**3)):
        begin = time.perf_counter()
        np.matmul(a, b, out=out)
        best = max(best, 2 * size**3 / (time.perf_counter() - begin))
print(best / 1e9)
"""
"""Prints the quickest product of all sizes, in GFLOP/s."""


def measure(threads: int) -> float:
    """GFLOP/s of NumPy's BLAS; a process of its own, as BLAS counts its threads when it loads."""
    counts = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "BLIS_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(counts, str(threads))}
    command = [sys.executable, "-c", PROBE, *map(str, SIZES)]
    answer = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return float(answer.stdout)


def update_flops(
    obs_dim: int = 11, action_dim: int = 3, hidden: int = 256, batch: int = 256
) -> int:
    """Arithmetic of one SAC update: the matrix products, 2·m·n·k each, and nothing else.

    A layer has one product forward and two backward: its weights' gradient and its inputs'. The
    inputs' is left out where nobody needs it: the data below the first layer of critic and actor;
    of a critic's inputs in the actor's loss, only the actions have one, and its weights none.
    """
    actor = list(itertools.pairwise((obs_dim, hidden, hidden, 2 * action_dim)))
    critic = list(itertools.pairwise((obs_dim + action_dim, hidden, hidden, 1)))

    def products(layers: list[tuple[int, int]]) -> int:
        return sum(2 * batch * fan_in * fan_out for fan_in, fan_out in layers)

    next_action = products(actor)
    target = 2 * products(critic)
    critic_loss = 2 * (2 * products(critic) + products(critic[1:]))
    policy = 2 * products(actor) + products(actor[1:])
    through_critic = 2 * (products(critic) + products([(action_dim, hidden), *critic[1:]]))
    return next_action + target + critic_loss + policy + through_critic


def main() -> None:
    """Prints both peaks, and the milliseconds below which no update can come."""
    flops = update_flops()
    print(f"one SAC update: {flops / 1e9:.3f} GFLOP")
    for threads in (1, 2):
        peak = measure(threads)
        print(f"{threads} thread(s): {peak:.1f} GFLOP/s, floor {flops / peak / 1e6:.2f} ms")


if __name__ == "__main__":
    main()
