"""How many bytes a lane needs on the device, before anything is allocated."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from narl.deep.learner import Programs
from narl.deep.rollout import Lane


class Memory(NamedTuple):
    """Bytes of one lane."""

    real: int
    """Buffer of real transitions."""
    model: int
    """Buffer of imagined ones: retention × rollouts per epoch × longest rollout."""
    networks: int
    """Actor, critics, ensemble and their optimisers."""

    @property
    def total(self) -> int:
        return self.real + self.model + self.networks


def lane_memory(programs: Programs) -> Memory:
    """From the shapes of the state, without making it."""
    scalar = jax.ShapeDtypeStruct((), jnp.float32)
    learner = jax.eval_shape(
        programs.begin,
        jax.ShapeDtypeStruct((), jnp.uint32),
        Lane(jax.ShapeDtypeStruct((), jnp.int32), scalar),  # type: ignore[arg-type]
        jax.ShapeDtypeStruct((programs.obs_dim,), jnp.float32),
    )

    def size(tree: object) -> int:
        return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))

    real, model = size(learner.real), size(learner.model)
    return Memory(real, model, size(learner) - real - model)
