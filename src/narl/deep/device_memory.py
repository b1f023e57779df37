"""Memory that a training needs on the device, computed before anything is allocated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from narl.compilation import num_cores
from narl.deep.algorithm import CHUNK, Algorithm
from narl.deep.config import Config, used_by
from narl.deep.replay_buffer import row_width
from narl.deep.rollout import ReplicaParams
from narl.deep.selection import replica_numbers
from narl.errors import NotEnoughMemory
from narl.host_memory import available_host_memory, size_as_text

_FLOAT = 4
_RESERVE = 1.25
"""Memory that a group of configurations may take, relative to the estimate, which is rough."""


class Memory(NamedTuple):
    """Bytes that one replica needs on the device."""

    real: int
    """Bytes of the buffer of real transitions."""
    model: int
    """Bytes of the imagined transitions: retention × rollouts per epoch × longest rollout."""
    networks: int
    """Bytes of actor, critics, ensemble and their optimisers."""

    @property
    def total(self) -> int:
        """All bytes of the replica's state."""
        return self.real + self.model + self.networks


def replica_memory(algorithm: Algorithm) -> Memory:
    """Return the bytes of a replica's state, from its shapes alone."""
    count = jax.ShapeDtypeStruct((), jnp.int32)
    numbers = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct((), x.dtype), replica_numbers([algorithm.config])
    )
    state = jax.eval_shape(
        algorithm.init,
        jax.ShapeDtypeStruct((), jnp.uint32),
        ReplicaParams(count, numbers),  # type: ignore[arg-type]
        jax.ShapeDtypeStruct((algorithm.obs_dim,), jnp.float32),
    )

    def size(tree: object) -> int:
        return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))

    real, model = size(state.real), size(state.model)
    return Memory(real, model, size(state) - real - model)


def temporary_memory(algorithm: Algorithm) -> int:
    """Return about how many bytes a replica needs while it learns, fits or imagines.

    Learning holds the batches of a step, packed and unpacked, and the layers' outputs and gradients
    for one batch. A fit holds all rows as inputs and targets, about seven numbers per row and
    member for each member's order of the rows and its shuffle, the held-out rows with their
    predictions, and the layers' outputs for a batch. Imagining holds the outputs of every layer of
    every member for a chunk, those of actor and critics for every candidate that is valued, and the
    value of every sample. An assessment imagines from the first observations of all evaluation
    episodes at once.
    """
    config = algorithm.config
    width = row_width(algorithm.obs_dim, algorithm.action_dim, config.num_stored_candidates)
    learning = 2 * config.updates_per_step * config.batch * width
    learning += 6 * config.batch * sum(config.hidden) * config.num_stored_candidates
    if not config.uses_model:
        return _FLOAT * max(learning, 3 * config.eval_episodes * sum(config.hidden))
    members, columns = config.num_members, 2 * algorithm.obs_dim + algorithm.action_dim + 1
    training = config.real_capacity * (columns + 7 * members)
    held = min(config.holdout_most, config.real_capacity)
    training += held * (columns + members * (algorithm.obs_dim + 1))
    layers = members * config.model_depth * config.model_width
    training += 4 * min(config.model_batch, config.real_capacity) * layers
    valued = config.num_candidates if config.algo in used_by("num_candidates") else members
    imagined_row = layers + valued * (3 * sum(config.hidden) + config.value_samples)
    rows = max(min(CHUNK, config.rollout_batch), config.eval_episodes)
    return _FLOAT * max(learning, training, rows * imagined_row)


def needed_memory(config: Config, obs_dim: int, action_dim: int, num_replicas: int) -> int:
    """Return the bytes that so many replicas need on the default device."""
    algorithm = Algorithm(config, obs_dim, action_dim, None, 1)
    replicas = num_replicas * replica_memory(algorithm).total
    at_once, copies = num_replicas, 1
    if jax.default_backend() == "cpu":
        at_once, copies = min(num_replicas, num_cores()), 2  # a checkpoint copies the state
    return copies * replicas + at_once * temporary_memory(algorithm)


def available_memory() -> int | None:
    """Return the bytes that the device has for a training; None if they are unknown."""
    if jax.default_backend() == "cpu":
        return available_host_memory()
    stats = jax.devices()[0].memory_stats()
    return None if stats is None else stats.get("bytes_limit")


def groups_that_fit(
    configs: Sequence[Config], obs_dim: int, action_dim: int
) -> list[Sequence[Config]]:
    """Return configurations that share a program in as few groups as the device has room for.

    Every group holds at least one configuration; `check_memory` refuses one that is too large.
    """
    available = available_memory()

    def fits(group: Sequence[Config]) -> bool:
        num_replicas = sum(len(config.seeds) for config in group)
        needed = max(needed_memory(each, obs_dim, action_dim, num_replicas) for each in group)
        return available is None or _RESERVE * needed <= available

    for size in range(len(configs), 1, -1):
        groups = [configs[i : i + size] for i in range(0, len(configs), size)]
        if all(map(fits, groups)):
            return groups
    return [[config] for config in configs]


def check_memory(config: Config, obs_dim: int, action_dim: int, num_replicas: int) -> None:
    """Refuse a training for which the device has no room."""
    needed = needed_memory(config, obs_dim, action_dim, num_replicas)
    available = available_memory()
    if available is None or needed <= available:
        return
    smaller = "rollout_batch, retain_epochs, buffer" if config.uses_model else "buffer"
    seeds = f"{num_replicas} seeds need" if num_replicas > 1 else "it needs"
    raise NotEnoughMemory(
        f"memory: {seeds} {size_as_text(needed)} and {size_as_text(available)} are available; take "
        f"{'fewer seeds, or ' if num_replicas > 1 else ''}a smaller {smaller} or batch"
    )
