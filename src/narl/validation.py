"""Checks of what a user gives: seeds, counts, numbers, functions."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable
from typing import Any

from narl.errors import InputError

TINY = 1e-6
"""A lower bound below it keeps 0 out, and is not itself of interest."""
MAX_SEED = 2**32 - 1
MAX_SEEDS = 10_000
"""Largest number of seeds that a text such as 0:20 can stand for."""


def as_plain(value: Any) -> Any:
    """Return NumPy's numbers as Python's, and arrays and lists as tuples."""
    if isinstance(value, tuple | list):
        return tuple(map(as_plain, value))
    # Importing NumPy takes longer than printing a help text; its numbers exist once it is loaded.
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray | numpy.generic):
        return as_plain(value.tolist())
    return value


def check_number(
    name: str,
    value: Any,
    *,
    whole: bool,
    minimum: float | None = None,
    maximum: float | None = None,
    above_minimum: bool = False,
    below_maximum: bool = False,
    none_text: str = "",
) -> float:
    """Return the value as an int (if ``whole``) or a float within its bounds, or raise.

    ``above_minimum`` and ``below_maximum`` exclude the bounds themselves; ``none_text`` is the
    meaning of None, where None could be given instead.
    """
    value = as_plain(value)
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
        kind = "a whole number" if whole else "a number"
        bound = "" if minimum is None or not whole else f" >= {minimum:g}"
        raise InputError(f"{name}: {value!r} is wrong; it must be {kind}{bound}")
    hint = f" (or none: {none_text})" if none_text else ""
    if not abs(value) <= sys.float_info.max:
        raise InputError(f"{name}: {value} is wrong; it must be a finite number{hint}")
    if minimum is not None and (value < minimum or (value == minimum and above_minimum)):
        # A user does not mean the smallest number that is allowed in place of 0.
        stands_for_0 = 0 < minimum < TINY and value <= 0
        open_at = 0.0 if stands_for_0 else minimum
        is_open = above_minimum or stands_for_0
        valid = f"it must be > {open_at:g}" if is_open else _nearest(minimum, whole)
        raise InputError(f"{name}: {value} is too small; {valid}{hint}")
    if maximum is not None and (value > maximum or (value == maximum and below_maximum)):
        valid = f"it must be < {maximum:g}" if below_maximum else _nearest(maximum, whole)
        raise InputError(f"{name}: {value} is too large; {valid}{hint}")
    return value if whole else float(value)


def _nearest(bound: float, whole: bool) -> str:
    return f"the nearest valid value is {int(bound) if whole else f'{bound:g}'}"


def check_count(name: str, value: Any, minimum: int = 1, maximum: int | None = None) -> int:
    """Return the value as a whole number within its bounds, or raise."""
    return int(check_number(name, value, whole=True, minimum=minimum, maximum=maximum))


def check_steps(total_steps: int | None, total_timesteps: int | None, default: int) -> int:
    """Return the number of steps, which can be given under either of two names."""
    if total_steps is not None and total_timesteps is not None:
        raise InputError("total_timesteps: it is another name of total_steps; give one of them")
    steps = total_steps if total_timesteps is None else total_timesteps
    return default if steps is None else check_count("total_steps", steps)


def check_seeds(seeds: Iterable[int] | str, *, one_env: bool = False) -> tuple[int, ...]:
    """Return the seeds of one run as a tuple; a text is read by `parse_seeds`.

    ``one_env`` says that there is a single environment, which serves a single seed.
    """
    if isinstance(seeds, str):
        seeds = parse_seeds(seeds)
    if not isinstance(seeds, Iterable):
        raise InputError(
            f"seeds: {seeds!r} is wrong; it must be a list of whole numbers, such as [0, 1, 2]"
        )
    numbers = tuple(check_count("seeds", seed, 0, MAX_SEED) for seed in seeds)
    if not numbers:
        raise InputError("seeds: there are none; give at least one, such as [0, 1, 2]")
    _refuse_repeated(numbers)
    if one_env and len(numbers) > 1:
        raise InputError(
            "seeds: one environment serves one seed; give a function that makes environments"
        )
    return numbers


def parse_seeds(text: str) -> tuple[int, ...]:
    """Return the seeds of "3", "0:20" (without the 20), "0:20:2" or several of these: "0:3,7"."""
    seeds: list[int] = []
    for part in text.split(","):
        pieces = [piece.strip() for piece in part.split(":")]
        if len(pieces) > 3 or not all(map(_is_short_number, pieces)):
            raise InputError(f"seeds: {part!r} is wrong; it must be like 3, 0:20, 0:20:2 or 0,4,7")
        numbers = [int(piece) for piece in pieces]
        if len(numbers) == 3 and numbers[2] == 0:
            raise InputError(f"seeds: the step of {part!r} is 0; the nearest valid value is 1")
        span = range(*numbers) if len(numbers) > 1 else range(numbers[0], numbers[0] + 1)
        if not span:
            raise InputError(f"seeds: {part!r} is empty; the end must be larger than the start")
        check_count("seeds", span[-1], 0, MAX_SEED)
        if len(seeds) + len(span) > MAX_SEEDS:
            raise InputError(f"seeds: {text!r} are too many; at most {MAX_SEEDS} in one run")
        seeds += span
    _refuse_repeated(seeds)
    return tuple(seeds)


def _is_short_number(piece: str) -> bool:
    return piece.isascii() and piece.isdigit() and len(piece) <= 10


def _refuse_repeated(seeds: Iterable[int]) -> None:
    known: set[int] = set()
    for seed in seeds:
        if seed in known:
            raise InputError(f"seeds: {seed} is given twice; each seed must appear once")
        known.add(seed)


def signature_error(function: Callable[..., Any], *args: Any, **kwargs: Any) -> TypeError | None:
    """Return why a function cannot be called with these arguments.

    None means that it can be called, or that it does not tell (as built-in functions).
    """
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        return error
    except ValueError:
        return None
    return None
