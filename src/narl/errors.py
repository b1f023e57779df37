"""Errors that tell a user, in one line, what is wrong and what would be right."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """The user's input is wrong; the message is one line and names the field."""


class Failure(RuntimeError):
    """The work went wrong on the way; the message is one line and names the cause."""


def nearest(given: str, valid: Iterable[str]) -> str:
    """The valid name closest to what was given (for "did you mean")."""

    def likeness(name: str) -> float:
        return difflib.SequenceMatcher(None, given.lower(), name.lower()).ratio()

    return max(valid, key=likeness)


def unknown(field: str, given: str, valid: Iterable[str]) -> InputError:
    """An unknown name of an agent, environment, option …, with the nearest valid one."""
    names = list(valid)
    return InputError(
        f"{field}: unknown value {given!r}; did you mean {nearest(given, names)!r}? "
        f"(one of {', '.join(names)})"
    )
