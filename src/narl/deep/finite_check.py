"""The check that numbers which learning needs are finite."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
from jaxtyping import Num


class NonFiniteError(RuntimeError):
    """A number is not finite where learning needs one; the message is one line that names it.

    Example:
        >>> try:
        ...     raise narl.NonFiniteError("seed 0, step 250: critic_loss is nan")
        ... except narl.NonFiniteError as error:
        ...     print(error)
        seed 0, step 250: critic_loss is nan
    """


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


def refuse_all_nonfinite(
    nonfinite: Num[np.ndarray, " N"],
    finite: Num[np.ndarray, " N"],
    active: Collection[int],
    where: Callable[[int], str],
) -> None:
    """Raise a `NonFiniteError` if no imagined step of an active replica is finite.

    Single steps that are not finite are dropped and counted in the metrics.
    """
    for i in sorted(active):
        if nonfinite[i] > 0 and finite[i] == 0:
            raise NonFiniteError(
                f"{where(i)}: all {nonfinite[i]:.0f} imagined steps are not finite"
            )
