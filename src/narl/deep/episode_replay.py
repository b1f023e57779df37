"""Episodes that are repeated: what stands for the state of an environment that hides it.

An environment whose state cannot be captured is brought back by beginning its episode in the same
way and doing the same again. That leads to where it was if it is a function of seed and actions;
whether it is, the observations and rewards tell.
"""

import hashlib
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float32

_EPISODE, _CUT = 0x65706973, 0x63757420
"""Third words of seeds: those of evaluations have two, and a missing word counts as 0."""


def episode_seed(seed: int, number: int) -> int:
    """The seed of a training episode, by its number after one that began with ``seed``."""
    return _seed(seed, number, _EPISODE)


def cut_seed(seed: int, step: int) -> int:
    """The seed of an episode that begins because the one before it was cut at a step."""
    return _seed(seed, step, _CUT)


def _seed(*words: int) -> int:
    return int(np.random.SeedSequence(words).generate_state(1)[0])


class Episode:
    """How the running episode began, and everything that was done and seen in it."""

    def __init__(self, seed: int | None, generators: Mapping[str, Any]) -> None:
        self.seed = seed
        """What reset() was given."""
        self.generators = generators
        """Random generators as they were before it."""
        self._actions = bytearray()
        self._seen = hashlib.sha256()

    def begin(self, obs: Float32[np.ndarray, " D"]) -> None:
        """The first observation."""
        self._seen.update(obs.tobytes())

    def add(
        self, action: Float32[np.ndarray, " A"], obs: Float32[np.ndarray, " D"], reward: float
    ) -> None:
        """One step."""
        self._actions += np.asarray(action, np.float32).tobytes()
        self._seen.update(obs.tobytes() + struct.pack("<d", reward))

    @property
    def seen(self) -> str:
        """SHA-256 of all observations and rewards, in their order."""
        return self._seen.hexdigest()

    def capture(self) -> dict[str, Any]:
        """What a repetition needs, and what it must lead to, as JSON and arrays."""
        begun = self.generators
        actions = np.frombuffer(bytes(self._actions), np.float32).copy()
        return {
            "json": {"seed": self.seed, "seen": self.seen, "generators": begun["json"]},
            "arrays": {**begun["arrays"], "actions": actions},
        }


def captured_actions(
    arrays: Mapping[str, np.ndarray], action_dim: int
) -> Float32[np.ndarray, "T A"]:
    """The actions of a captured episode, one per row."""
    return arrays["actions"].reshape(-1, action_dim)
