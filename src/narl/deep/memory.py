"""How many bytes a training needs on the device, before anything is allocated."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp

from narl.deep.algorithm import Programs
from narl.deep.config import Settings
from narl.deep.replicas import num_cores
from narl.deep.rollout import Lane
from narl.errors import InputError

_FLOAT = 4
_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


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
    count = jax.ShapeDtypeStruct((), jnp.int32)
    learner = jax.eval_shape(
        programs.begin,
        jax.ShapeDtypeStruct((), jnp.uint32),
        Lane(count, scalar, count),  # type: ignore[arg-type]
        jax.ShapeDtypeStruct((programs.obs_dim,), jnp.float32),
    )

    def size(tree: object) -> int:
        return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))

    real, model = size(learner.real), size(learner.model)
    return Memory(real, model, size(learner) - real - model)


def temporary_memory(programs: Programs) -> int:
    """Bytes that a lane needs while it learns, or its models are trained or imagine, about.

    Learning holds the batches of a step, packed and apart, and what the layers of actor and twins
    make of one, with its gradients. Training holds all rows as inputs and targets, once and once
    more in each member's own order, with indices. Imagining holds what every layer of every member
    makes of a chunk.
    """
    settings = programs.settings
    width = 2 * programs.obs_dim + programs.action_dim + 2
    learning = 2 * settings.updates_per_step * settings.batch * width
    learning += 6 * settings.batch * sum(settings.hidden)
    if not settings.uses_model:
        return _FLOAT * learning
    members, columns = settings.num_members, 2 * programs.obs_dim + programs.action_dim + 1
    training = settings.real_capacity * ((members + 1) * columns + 3 * members)
    held = min(settings.holdout_most, settings.real_capacity)
    training += held * members * settings.model_width
    chunk, depth = min(programs.chunk, settings.rollout_batch), settings.model_depth
    imagining = chunk * members * (depth * settings.model_width + max(settings.hidden))
    return _FLOAT * max(learning, training, imagining)


def needed_memory(settings: Settings, obs_dim: int, action_dim: int, num_lanes: int) -> int:
    """Bytes of so many lanes with what is temporary, on the device that is there."""
    programs = Programs(settings, obs_dim, action_dim, None, 1)
    lanes = num_lanes * lane_memory(programs).total
    at_once, copies = num_lanes, 1
    if jax.default_backend() == "cpu":
        at_once, copies = min(num_lanes, num_cores()), 2  # one of them is being written to disk
    return copies * lanes + at_once * temporary_memory(programs)


def available_memory() -> int | None:
    """Bytes that the device has for a training; None where it does not say."""
    if jax.default_backend() == "cpu":
        try:
            text = _MEMINFO.read_text(encoding="ascii")
        except (OSError, ValueError):  # not on Linux
            return None
        found = re.search(r"^MemAvailable:\s*(\d+) kB$", text, re.MULTILINE)
        return None if found is None else min(1024 * int(found[1]), _left_to_container())
    stats = jax.devices()[0].memory_stats()
    return None if stats is None else stats.get("bytes_limit")


def _left_to_container() -> int:
    """Bytes that a control group still allows; very many where there is none."""
    try:
        most, used = ((_CGROUP / name).read_text() for name in ("memory.max", "memory.current"))
        return int(most) - int(used)
    except (OSError, ValueError):  # not on Linux, another version of them, or "max"
        return 1 << 62


def check_memory(settings: Settings, obs_dim: int, action_dim: int, num_lanes: int) -> None:
    """Refuses a training that the device has no room for."""
    needed = needed_memory(settings, obs_dim, action_dim, num_lanes)
    available = available_memory()
    if available is None or needed <= available:
        return
    smaller = "rollout_batch, retain_epochs, buffer" if settings.uses_model else "buffer"
    lanes = f"{num_lanes} seeds need" if num_lanes > 1 else "it needs"
    raise InputError(
        f"memory: {lanes} {_shown(needed)} and {_shown(available)} are available; take "
        f"{'fewer seeds, or ' if num_lanes > 1 else ''}a smaller {smaller} or batch"
    )


def _shown(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e8 else f"{size / 1e6:.1f} MB"
