"""Numbers in reports and claims: four digits, a comma for thousands, a true minus sign.

Call `format_number` for one number, `format_column` for a column of a table, and `format_rows`
for numbers that belong together, such as a mean with its interval. For a number in a terminal call
`narl.display.figure`.
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
    known = _known(values)
    whole = all(isinstance(value, Integral) for value in known)
    sizes = [abs(value) for value in known if value != 0]
    apart = max(sizes, default=1) / min(sizes, default=1) >= 1000
    decimals = max((_decimals(value) for value in known), default=0)
    if whole or apart or decimals > DIGITS:
        return [format_number(value) for value in values]
    return [_with_decimals(value, decimals) for value in values]


def format_rows(rows: Sequence[Sequence[float | None]], digits: int = DIGITS) -> list[list[str]]:
    """Return rows of numbers that belong together, such as a mean with its interval.

    The numbers of a row have equal decimals: the largest of them has ``digits`` digits. Rows have
    equal decimals too, unless this would leave the smallest row fewer than two digits.
    """
    sizes = [max((abs(x) for x in _known(row)), default=0.0) for row in rows]
    used = [size for size in sizes if size > 0]
    alike = max(used, default=1.0) / min(used, default=1.0) < 10 ** (digits - 2)
    if not alike:
        return [format_rows([row], digits)[0] for row in rows]
    size = max(used, default=0.0)
    known = [x for row in rows for x in _known(row)]
    if all(isinstance(x, Integral) for x in known) or (size and not 1e-4 <= size < 1e7):
        return [[format_number(x) for x in row] for row in rows]
    decimals = max(_decimals(x, size, digits) for x in known)
    return [[_with_decimals(x, decimals) for x in row] for row in rows]


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]


def _with_decimals(value: float | None, decimals: int) -> str:
    if value is None or not math.isfinite(value):
        return MISSING
    return _signed(f"{value:,.{decimals}f}")


def _decimals(value: float, size: float | None = None, digits: int = DIGITS) -> int:
    """Return how many decimals the value has where a number of this size has four digits.

    The size is that of the value itself by default. Zeros at the end do not count.
    """
    size = abs(value) if size is None else size
    if size == 0:
        return 0
    places = max(0, digits - 1 - math.floor(math.log10(size)))
    _, _, decimals = f"{value:.{places}f}".partition(".")
    return len(decimals.rstrip("0"))


def _signed(text: str) -> str:
    """Return a formatted number with a true minus sign, and none before a zero."""
    negative = text.startswith("-") and any(digit in text for digit in "123456789")
    return ("−" if negative else "") + text.removeprefix("-").replace("e-", "e−")
