"""Sizes of the replay buffers of an agent that may be trained for more steps later."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from narl.deep.config import Config
from narl.deep.device_memory import check_memory
from narl.deep.snapshot import STATE, State
from narl.deep.spaces import Spaces
from narl.errors import InputError

_ROWS = f"{STATE}real.rows"


def with_buffer_capacity(
    config: Config, last_step: int, state: State | None, spaces: Spaces
) -> Config:
    """Return the configuration whose ``steps`` decide the size of the buffers.

    The buffers get room for more than ``last_step``, or just for it where memory is short.
    """
    dims = spaces.obs_dim, spaces.action_dim
    roomy = dataclasses.replace(config, steps=_room(config, last_step, state))
    try:
        check_memory(roomy, *dims, len(config.seeds))
    except InputError:
        tight = dataclasses.replace(config, steps=max(last_step, config.learn_after + 1))
        check_memory(tight, *dims, len(config.seeds))
        return tight
    return roomy


def _room(config: Config, last_step: int, state: State | None) -> int:
    """Return the steps for which the buffers of a training to ``last_step`` are made.

    The first call of `Agent.learn` gets room for just its steps, as `narl train` does. After a
    second call others are likely, and programs are compiled anew for every size: so it is then a
    power of two, with room for at least as many steps again.
    """
    if state is None and last_step > config.learn_after:
        return last_step
    if state is not None and last_step <= (rows := state[0][_ROWS].shape[1]):
        return int(rows)
    return 1 << (2 * max(last_step, config.learn_after) - 1).bit_length()


def with_longer_buffer(arrays: Mapping[str, np.ndarray], config: Config) -> dict[str, np.ndarray]:
    """Return a checkpoint's arrays for a configuration with room for more steps.

    The ring of real transitions then has another length. It has not passed its end yet; or else
    its length is that of the option ``buffer``, and stays.
    """
    rows = arrays[_ROWS]
    longer = ((0, 0), (0, config.real_capacity - rows.shape[1]), (0, 0))
    return {**arrays, _ROWS: np.pad(rows, longer)}
