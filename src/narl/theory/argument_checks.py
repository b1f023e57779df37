"""Checks of the arguments that the formulas of the theorems share."""

from narl.errors import InputError


def check_delta(delta: float) -> None:
    """Refuse what is no failure probability."""
    if not 0.0 < delta < 1.0:
        raise InputError(f"delta: {delta} is not a failure probability; it must be in (0, 1)")


def check_counts(**counts: float) -> None:
    """Refuse numbers below 1, by name."""
    for field, value in counts.items():
        if value < 1:
            raise InputError(f"{field}: {value} is too small; it must be at least 1")
