"""Times rlberry's UCBVI on an MDP from an .npz; prints one JSON object. Has a venv of its own."""

import importlib.metadata
import json
import logging
import sys
import time

import numpy as np
from rlberry.envs import FiniteMDP
from rlberry_scool.agents import UCBVIAgent


def make_agent(p: np.ndarray, r: np.ndarray, start: int, horizon: int, seed: int) -> UCBVIAgent:
    env = FiniteMDP(r.copy(), p.copy(), initial_state_distribution=start)
    return UCBVIAgent(env, horizon=horizon, gamma=1.0, seeder=seed)


def value_of(p: np.ndarray, r: np.ndarray, q: np.ndarray | None, horizon: int) -> np.ndarray:
    """V^0 of the policy that is greedy in q, or V* without one."""
    v = np.zeros(len(r))
    for h in reversed(range(horizon)):
        backup = r + p @ v
        v = backup.max(-1) if q is None else backup[np.arange(len(r)), q[h].argmax(-1)]
    return v


def main(path: str, num_episodes: int, seed: int) -> None:
    """Fits once for the time; fits again, the same way, for the regret of what it executes."""
    logging.getLogger("rlberry_logger").setLevel(logging.WARNING)
    table = np.load(path)
    p, r, horizon = table["p"], table["r"], int(table["horizon"])
    p = p / p.sum(-1, keepdims=True)
    start = int(table["p0"].argmax())
    agent = make_agent(p, r, start, horizon, seed)
    begin = time.perf_counter()
    agent.fit(budget=num_episodes)
    seconds = time.perf_counter() - begin
    agent = make_agent(p, r, start, horizon, seed)
    v_star, regret = value_of(p, r, None, horizon)[start], 0.0
    for _ in range(num_episodes):
        regret += v_star - value_of(p, r, agent.Q, horizon)[start]
        agent.fit(budget=1)
    versions = {name: importlib.metadata.version(name) for name in ("rlberry", "rlberry-scool")}
    print(json.dumps({"seconds": seconds, "regret": regret, "versions": versions}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
