"""Errors that tell a user, in one line, what is wrong and what would be right."""

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Wrong input of the user; the message is one line and names the field.

    Example:
        >>> try:
        ...     narl.tabular.riverswim(num_states=1)
        ... except narl.InputError as error:
        ...     print(error)
        num_states: 1 is too small; the nearest valid value is 2
    """


class NoEffect(InputError):
    """An option that has no effect beside the others; ``name`` is the option."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name


class Failure(RuntimeError):
    """Work that went wrong on the way; the message is one line and names the cause."""


class NotEnoughMemory(InputError):
    """A training for which the device has no room."""


class EnvironmentFault(RuntimeError):
    """An environment raised an error or returned an unusable value; one line names the cause.

    Example:
        >>> try:
        ...     raise narl.EnvironmentFault("step 7: the reward is nan; it must be finite")
        ... except narl.EnvironmentFault as error:
        ...     print(error)
        step 7: the reward is nan; it must be finite
    """


def install_hint(extra: str) -> str:
    """Return the command that installs an extra of narl, which is installed from a clone."""
    return f'pip install -c constraints.txt ".[{extra}]" in the folder of the clone'


def first_line(text: str) -> str:
    """Return the first line of a text, at most 200 characters of it."""
    line = text.strip().splitlines()[0] if text.strip() else ""
    return line if len(line) <= 200 else f"{line[:200]}…"


def system_error_line(error: BaseException) -> str:
    """Return the file and the cause of an error of the operating system; "" for other errors."""
    if not isinstance(error, OSError) or not error.strerror:
        return ""
    return f"{error.filename}: {error.strerror}" if error.filename else error.strerror


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory, of the machine or of a GPU, was used up."""
    text = str(error)
    return isinstance(error, MemoryError | NotEnoughMemory) or (
        "RESOURCE_EXHAUSTED" in text or "Out of memory" in text
    )


ALIKE = 0.6
"""Similarity (difflib's ratio) from which on a name can be a misspelling of another one."""


def nearest(name: str, valid_names: Iterable[str]) -> str | None:
    """Return the valid name that is most similar to a name; None if none of them is alike."""

    def similarity(valid: str) -> float:
        return difflib.SequenceMatcher(None, name.lower(), valid.lower()).ratio()

    best = max(valid_names, key=similarity, default=None)
    return best if best is not None and similarity(best) >= ALIKE else None


def did_you_mean(name: str, valid_names: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" for the valid name that is alike; "" if none of them is."""
    close = nearest(name, valid_names)
    return "" if close is None else f"; did you mean {close!r}?"


MOST_LISTED = 20
"""Valid names that are listed at most where one of them is suggested."""


def unknown(field: str, value: str, valid_values: Iterable[str]) -> InputError:
    """Return the error for an unknown value of a field, with the valid value that is alike."""
    names = list(valid_values)
    hint, listed = did_you_mean(value, names), ", ".join(names)
    if hint:
        choices = f" (one of {listed})" if len(names) <= MOST_LISTED else ""
    else:
        choices = f"; it must be one of {listed}"
    return InputError(f"{field}: unknown value {value!r}{hint}{choices}")
