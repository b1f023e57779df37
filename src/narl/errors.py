"""Errors that tell a user, in one line, what is wrong and what would be right."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Wrong input of the user; the message is one line and names the field."""


class Failure(RuntimeError):
    """Work that went wrong on the way; the message is one line and names the cause."""


class EnvironmentFault(RuntimeError):
    """An environment raised an error or returned an unusable value; one line names the cause."""


def first_line(text: str) -> str:
    """Return the first line of a text, at most 200 characters of it."""
    line = text.strip().splitlines()[0] if text.strip() else ""
    return line if len(line) <= 200 else f"{line[:200]}…"


def nearest(name: str, valid_names: Iterable[str]) -> str:
    """Return the valid name that is most similar to a name (for "did you mean")."""

    def similarity(valid: str) -> float:
        return difflib.SequenceMatcher(None, name.lower(), valid.lower()).ratio()

    return max(valid_names, key=similarity)


def unknown(field: str, value: str, valid_values: Iterable[str]) -> InputError:
    """Return the error for an unknown value of a field, with the nearest valid value."""
    names = list(valid_values)
    return InputError(
        f"{field}: unknown value {value!r}; did you mean {nearest(value, names)!r}? "
        f"(one of {', '.join(names)})"
    )
