"""Faults of environments, each named in one line."""

from typing import Any

from narl.errors import InputError


class EnvironmentFault(RuntimeError):
    """The environment raised or returned something unusable; one line that names the cause."""


class Named:
    """Whatever the environment raises becomes an EnvironmentFault.

    A class, since a generator would cost a step of a small environment a tenth of its time.
    """

    __slots__ = ("label", "when")

    def __init__(self, label: str, when: str) -> None:
        self.label, self.when = label, when

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, Exception) and not isinstance(error, EnvironmentFault | InputError):
            text = first_line(str(error))
            raise EnvironmentFault(
                f"{self.label}: {self.when}: {type(error).__name__}{': ' if text else ''}{text}"
            ) from error


def first_line(text: str) -> str:
    """The first line, not too long."""
    line = text.strip().splitlines()[0] if text.strip() else ""
    return line if len(line) <= 200 else f"{line[:200]}…"
