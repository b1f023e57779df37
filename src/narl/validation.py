"""What an agent is asked for, checked: seeds, steps, episodes, functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from narl.errors import InputError

MAX_SEED = 2**32 - 1


def check_seeds(seeds: Sequence[int] | str, *, one_env: bool) -> tuple[int, ...]:
    """The seeds, if they can be trained together; ``one_env``: in a single environment.

    A text is read as that of `narl train --seeds`.
    """
    if isinstance(seeds, str):
        from narl.commands.arguments import parse_seeds

        try:
            seeds = parse_seeds(seeds)
        except InputError as error:
            raise InputError(str(error).removeprefix("--")) from error
    if not isinstance(seeds, Iterable):
        raise InputError(
            f"seeds: {seeds!r} given; it must be a list, such as seeds=[0, 1, 2], or seed={seeds!r}"
        )
    given = tuple(seeds)
    if not given:
        raise InputError("seeds: none given; such as seeds=[0, 1, 2]")
    for seed in given:
        whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
        if not whole or not 0 <= seed <= MAX_SEED:
            raise InputError(f"seeds: {seed!r} is wrong; it must be a number in 0..{MAX_SEED}")
    if len(set(given)) < len(given):
        raise InputError("seeds: one is given twice; each must appear once")
    if one_env and len(given) > 1:
        raise InputError(
            "seeds: one environment serves one seed; give a function that makes environments"
        )
    return tuple(int(seed) for seed in given)


def check_steps(total_steps: int | None, total_timesteps: int | None, default: int) -> int:
    """The steps under either of their names."""
    if total_steps is not None and total_timesteps is not None:
        raise InputError("total_timesteps: it is another name of total_steps; give one of them")
    steps = total_steps if total_timesteps is None else total_timesteps
    if steps is None:
        return default
    if isinstance(steps, bool) or not isinstance(steps, int | np.integer) or steps < 1:
        raise InputError(f"total_steps: {steps!r} is wrong; it must be a whole number >= 1")
    return int(steps)


def check_episodes(num_episodes: int) -> int:
    """A number of episodes."""
    whole = isinstance(num_episodes, int | np.integer) and not isinstance(num_episodes, bool)
    if not whole:
        raise InputError(f"episodes: {num_episodes!r} is wrong; it must be a whole number >= 1")
    if num_episodes < 1:
        raise InputError(f"episodes: {num_episodes} is too small; the nearest valid value is 1")
    return int(num_episodes)


def signature_error(function: Callable[..., Any], *args: Any, **kwargs: Any) -> TypeError | None:
    """Why it cannot be called with these; None where it can, or does not tell (built-in ones)."""
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        return error
    except ValueError:
        return None
    return None
