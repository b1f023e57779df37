"""Numbers in reports and claims: four digits, a comma for thousands, a true minus sign.

Call `format_number` for one number and `format_column` for a column of a table. For a number in a
terminal call `narl.display.figure`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral

DIGITS = 4
MISSING = "–"


def format_number(value: float | None) -> str:
    """Return one number as text; a dash if it is missing or not finite."""
    if value is None or not math.isfinite(value):
        return MISSING
    if isinstance(value, Integral):
        return _signed(f"{value:,}")
    if value != 0 and not 1e-4 <= abs(value) < 1e7:
        mantissa, exponent = f"{value:.{DIGITS - 1}e}".split("e")
        return _signed(f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}")
    return _signed(f"{value:,.{_decimals(value)}f}")


def format_column(values: Sequence[float | None]) -> list[str]:
    """Return the numbers of a table's column, with equal decimals unless they lie far apart."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    whole = all(isinstance(value, Integral) for value in known)
    sizes = [abs(value) for value in known if value != 0]
    apart = max(sizes, default=1) / min(sizes, default=1) >= 1000
    decimals = max((_decimals(value) for value in known), default=0)
    if whole or apart or decimals > DIGITS:
        return [format_number(value) for value in values]
    return [
        _signed(f"{value:,.{decimals}f}") if value is not None and math.isfinite(value) else MISSING
        for value in values
    ]


def _decimals(value: float) -> int:
    """Return how many decimals show the value to four digits, without zeros at the end."""
    if value == 0:
        return 0
    places = max(0, DIGITS - 1 - math.floor(math.log10(abs(value))))
    _, _, decimals = f"{value:.{places}f}".partition(".")
    return len(decimals.rstrip("0"))


def _signed(text: str) -> str:
    """Return a formatted number with a true minus sign, and none before a zero."""
    negative = text.startswith("-") and any(digit in text for digit in "123456789")
    return ("−" if negative else "") + text.removeprefix("-").replace("e-", "e−")
