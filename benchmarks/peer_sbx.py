"""Times SBX's SAC updates; prints one JSON object. Has a venv of its own.

SBX runs the `gradient_steps` of one call in one compiled `fori_loop`, over batches that it draws
on the host before: many steps in a call are its quickest way.
"""

from __future__ import annotations

import os

import jax
import sbx
import torch
from peer_sb3 import arguments, print_answer, time_updates, with_full_buffer


def main() -> None:
    given = arguments(__doc__)
    # XLA asks for the number of its threads when the first array is made, not on import.
    os.environ["NPROC"] = str(given.threads)
    jax.config.update("jax_platforms", "cpu")
    torch.set_num_threads(given.threads)
    agent = with_full_buffer(sbx.SAC)
    found = time_updates(agent, given.updates, given.repeats)
    also = ("jax", "jaxlib", "flax", "optax", "stable-baselines3", "numpy")
    print_answer("sbx-rl", given.threads, found, also)


if __name__ == "__main__":
    main()
