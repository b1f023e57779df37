"""Times rlberry's UCBVI on an MDP from an .npz; prints one JSON object. Has a venv of its own."""

import json
import logging
import sys
import time

import numpy as np
from rlberry.envs import FiniteMDP
from rlberry_scool.agents import UCBVIAgent


def main(path: str, num_episodes: int, seed: int) -> None:
    """Fits once; only the fit is timed."""
    logging.getLogger("rlberry_logger").setLevel(logging.WARNING)
    table = np.load(path)
    p, r, horizon = table["p"], table["r"], int(table["horizon"])
    p = p / p.sum(-1, keepdims=True)
    env = FiniteMDP(r, p, initial_state_distribution=int(table["p0"].argmax()))
    agent = UCBVIAgent(env, horizon=horizon, gamma=1.0, seeder=seed)
    begin = time.perf_counter()
    agent.fit(budget=num_episodes)
    print(json.dumps({"seconds": time.perf_counter() - begin}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
