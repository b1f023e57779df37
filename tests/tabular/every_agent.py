"""Every agent and every kind of noise by a short name, each run once per process."""

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import jax
import pytest

from narl.tabular import AGENTS, Trace, riverswim, run

QUICK: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, {}) for name in AGENTS},
    "narl-ucrl bootstrap": ("narl-ucrl", {"noise": "bootstrap"}),
    "narl-ucrl dirichlet": ("narl-ucrl", {"noise": "dirichlet"}),
}
"""What the fast tests run: compiling each takes a second or two."""

REST: dict[str, tuple[str, dict[str, Any]]] = {
    "narl-ucrl paper": ("narl-ucrl", {"preset": "paper"}),
    "narl-ucrl theorem": ("narl-ucrl", {"noise": "theorem"}),
    "narl-ucrl theorem corrected": ("narl-ucrl", {"noise": "theorem", "corrected": True}),
    "narl-ucrl both": ("narl-ucrl", {"noised": "both"}),
    "narl-ucrl dynamics": ("narl-ucrl", {"noised": "dynamics"}),
    "narl-ucrl centred": ("narl-ucrl", {"noised": "both", "measure": "centred"}),
    "narl-ucrl simplex": ("narl-ucrl", {"noised": "both", "measure": "simplex"}),
    "narl-ucrl per stage": ("narl-ucrl", {"noised": "both", "per_stage": True}),
    "narl-ucrl M_r, M_P": ("narl-ucrl", {"noised": "both", "members_r": 3, "members_p": 5}),
    "narl-ucrl empty is one": ("narl-ucrl", {"noise": "bootstrap", "empty": "one"}),
    "narl-ucbvi theorem": ("narl-ucbvi", {"noise": "theorem"}),
    "narl-ucbvi fake-reward": ("narl-ucbvi", {"noise": "fake-reward"}),
    "narl-ucbvi as printed": ("narl-ucbvi", {"noise": "fake-reward", "preset": "paper"}),
    "narl-ucbvi no minimum": ("narl-ucbvi", {"running_min": False}),
    "ucrl2 paper": ("ucrl2", {"preset": "paper"}),
    "ucrl2-tabularl copied": ("ucrl2-tabularl", {"compounding": False}),
    "ucbvi bernstein": ("ucbvi", {"bonus": "bernstein"}),
    "ucbvi theory": ("ucbvi", {"constants": "theory"}),
    "rlsvi theory": ("rlsvi", {"constants": "theory"}),
    "psrl alpha0": ("psrl", {"alpha0": 0.5}),
}

VARIANTS = QUICK | REST
LATER = {*REST, "opsrl", "rlsvi", "ucrl2-tabularl", "narl-ucrl dirichlet"}
LABELS = [
    pytest.param(label, marks=pytest.mark.slow if label in LATER else ()) for label in VARIANTS
]
"""For `parametrize`: some are slow, as compiling each takes a second or two."""

NUM_EPISODES = 50
SEEDS = (0, 1)


@contextlib.contextmanager
def unoptimised() -> Iterator[None]:
    """Programs made inside compile in half of the time; for runs that are short."""
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", False)


@functools.cache
def trace_of(label: str) -> Trace:
    """The variant on RiverSwim, 50 episodes with two seeds."""
    agent, options = VARIANTS[label]
    with unoptimised():
        return run(agent, riverswim(), NUM_EPISODES, SEEDS, **options)
