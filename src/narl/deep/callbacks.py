"""Functions of the user that are called after every epoch, and the meaning of their answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from narl.errors import InputError
from narl.validation import signature_error

Callback = Callable[[dict[str, Any]], Any]
"""A function of an epoch's metrics; its answer False (Python's or NumPy's) ends the training."""


def as_callback(
    callbacks: Callback | Sequence[Callback] | None,
) -> Callable[[dict[str, Any]], bool]:
    """Return one function that calls every callback and returns whether training continues."""
    if callbacks is None:
        callbacks = ()
    functions = tuple(callbacks) if isinstance(callbacks, list | tuple) else (callbacks,)
    for function in functions:
        _check_callback(function)

    def call(row: dict[str, Any]) -> bool:
        answers = [function(row) for function in functions]
        return not any(wants_stop(answer) for answer in answers)

    return call


def wants_stop(answer: Any) -> bool:
    """Return whether a callback's answer is False; None, 0 and an empty list are not."""
    if isinstance(answer, np.ndarray) and answer.ndim == 0:
        answer = answer[()]
    return isinstance(answer, bool | np.bool_) and not answer


def _check_callback(callback: Any) -> None:
    """Refuse a callback that would fail at the first epoch."""
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
