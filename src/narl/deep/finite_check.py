"""The check that numbers which learning needs are finite."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
from jaxtyping import Num


class NonFiniteError(RuntimeError):
    """A number is not finite where learning needs one; the message is one line that names it."""


def check_finite(
    name: str,
    values: Num[np.ndarray, "N ..."],
    active: Collection[int],
    where: Callable[[int], str],
) -> None:
    """Raise a `NonFiniteError` if a value of an active replica is not finite.

    ``where`` describes a replica and the step, for the message.
    """
    if np.isfinite(values).all():
        return
    for i in sorted(active):
        numbers = np.ravel(values[i])
        if not np.isfinite(numbers).all():
            raise NonFiniteError(f"{where(i)}: {name} is {numbers[~np.isfinite(numbers)][0]}")


def refuse_nonfinite(
    name: str,
    counts: Num[np.ndarray, " N"],
    active: Collection[int],
    where: Callable[[int], str],
) -> None:
    """Raise a `NonFiniteError` if an active replica has counted numbers that are not finite."""
    for i in sorted(active):
        if counts[i] > 0:
            raise NonFiniteError(f"{where(i)}: {counts[i]:.0f} {name} are not finite")
