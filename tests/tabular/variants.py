"""Every agent and every kind of noise under a short label, each run once per process."""

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
"""The variants that have code of their own beside the options."""

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
    "narl-ucrl bootstrap-prior": ("narl-ucrl", {"noise": "bootstrap-prior"}),
    "narl-ucbvi theorem": ("narl-ucbvi", {"noise": "theorem"}),
    "narl-ucbvi fake-reward": ("narl-ucbvi", {"noise": "fake-reward"}),
    "narl-ucbvi as printed": ("narl-ucbvi", {"noise": "fake-reward", "preset": "paper"}),
    "narl-ucbvi no minimum": ("narl-ucbvi", {"running_min": False}),
    "ucrl2 paper": ("ucrl2", {"preset": "paper"}),
    "ucrl2-tabularl copied": ("ucrl2-tabularl", {"compounding": False}),
    "ucbvi bernstein": ("ucbvi", {"bonus": "bernstein"}),
    "ucbvi simplified": ("ucbvi", {"bonus": "simplified"}),
    "ucbvi theory": ("ucbvi", {"constants": "theory"}),
    "rlsvi theory": ("rlsvi", {"constants": "theory"}),
    "psrl alpha0": ("psrl", {"alpha0": 0.5}),
    "psrl strong prior": ("psrl", {"preset": "strong-prior"}),
}

VARIANTS = QUICK | REST
FAST = ("narl-ucrl", "psrl", "greedy")
LABELS = [
    pytest.param(label, marks=() if label in FAST else pytest.mark.slow) for label in VARIANTS
]
"""For `parametrize`; compiling a variant takes a second or two."""

NUM_EPISODES = 50
SEEDS = (0, 1)


@contextlib.contextmanager
def unoptimised() -> Iterator[None]:
    """Compile programs in half of the time, for short runs."""
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", False)


@functools.cache
def trace_of(label: str) -> Trace:
    """Return the trace of a variant on RiverSwim, 50 episodes with two seeds."""
    agent, options = VARIANTS[label]
    with unoptimised():
        return run(agent, riverswim(), NUM_EPISODES, SEEDS, **options)
