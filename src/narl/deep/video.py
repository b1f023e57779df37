"""A video of one deterministic episode, drawn while it is written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from narl.deep.environment import HostEnv
from narl.deep.evaluation import numpy_mode
from narl.deep.networks import Network
from narl.deep.rendering import write_video

USUAL_FPS = 30.0


def pictures(actor: Network, env: HostEnv, seed: int, horizon: int) -> Iterator[np.ndarray]:
    """What the episode of this seed looks like, from its first observation to its last."""
    obs, length, over = env.reset(seed=seed), 0, False
    yield env.render()
    while not over and length < horizon:
        step = env.step(numpy_mode(actor, obs))
        obs, length, over = step.obs, length + 1, step.terminated or step.truncated
        yield env.render()


def record_episode(actor: Network, env: HostEnv, seed: int, horizon: int, path: Path) -> None:
    """Writes .mp4 or .gif at the environment's own speed."""
    fps = float(env.env.metadata.get("render_fps") or USUAL_FPS)
    write_video(pictures(actor, env, seed, horizon), path, fps)
