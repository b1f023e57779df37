"""What is called after every epoch, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from narl.errors import InputError
from narl.validation import signature_error

Callback = Callable[[dict[str, Any]], Any]
"""Given the diagnostics of an epoch; False ends learning, NumPy's as well."""


def as_callback(given: Callback | Sequence[Callback] | None) -> Callable[[dict[str, Any]], bool]:
    """All of them as one function, which says whether learning goes on."""
    several = given if isinstance(given, list | tuple) else () if given is None else (given,)
    callbacks = tuple(several)
    for one in callbacks:
        _check(one)

    def call(row: dict[str, Any]) -> bool:
        answers = [one(row) for one in callbacks]
        return not any(is_no(answer) for answer in answers)

    return call


def is_no(answer: Any) -> bool:
    """False, as Python or NumPy say it; None, 0 and an empty list are no answer."""
    if isinstance(answer, np.ndarray) and answer.ndim == 0:
        answer = answer[()]
    return isinstance(answer, bool | np.bool_) and not answer


def _check(callback: Any) -> None:
    """Refuses what would fail at the first epoch."""
    if not callable(callback):
        raise InputError(
            f"callback: {type(callback).__name__} given; it must be a function that takes the row "
            "of an epoch, or a list of such functions"
        )
    error = signature_error(callback, {})
    if error is not None:
        name = getattr(callback, "__name__", type(callback).__name__)
        raise InputError(
            f"callback: {name} cannot be called with the row of an epoch ({error}); such as "
            "lambda row: print(row['eval_return'])"
        ) from error
