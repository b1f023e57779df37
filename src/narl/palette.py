"""Colours and dashes of lines, in reports and plots: one look per label, fixed for algorithms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple


class Colour(NamedTuple):
    """A colour on a white and on a dark ground."""

    light: str
    dark: str


# Okabe and Ito's eight colours for the colour-blind. Their yellow cannot be seen on white: a
# brown stands in for it, as far from the other seven. On dark, black becomes white and the blue
# a little lighter.
COLOURS = (
    Colour("#0072b2", "#0082cc"),
    Colour("#d55e00", "#d55e00"),
    Colour("#009e73", "#009e73"),
    Colour("#cc79a7", "#cc79a7"),
    Colour("#e69f00", "#e69f00"),
    Colour("#56b4e9", "#56b4e9"),
    Colour("#000000", "#f2f2f2"),
    Colour("#7a4a1e", "#f0e442"),
)

DASHES: tuple[tuple[int, ...], ...] = ((), (6, 3), (2, 2), (8, 2, 2, 2), (12, 3), (4, 1, 1, 1))

ALGORITHM_COLOURS = {
    "narl": 0,
    "mbpo": 1,
    "sac": 2,
    "sombrl": 3,
    "hucrl": 4,
    "thompson": 5,
    "maxinfo": 7,
    "narl-ucrl": 0,
    "narl-ucbvi": 5,
    "ucrl2": 1,
    "ucrl2-tabularl": 7,
    "ucbvi": 4,
    "psrl": 2,
    "opsrl": 3,
    "rlsvi": 7,
    "greedy": 6,
}
"""Places in COLOURS that algorithms have in every plot."""


class Look(NamedTuple):
    """The look of a series: places in COLOURS and DASHES."""

    colour: int
    dash: int

    @property
    def dashes(self) -> tuple[int, ...]:
        """Lengths of dashes and gaps; empty for a solid line."""
        return DASHES[self.dash % len(DASHES)]


def assign_looks(
    charts: Iterable[Sequence[str]], fixed: Mapping[str, int] | None = None
) -> dict[str, Look]:
    """Return a look for every label, such that no two are alike in one chart.

    ``charts`` has the labels of each chart, ``fixed`` the colours that labels have anyway. Every
    other label takes the plainest dash that no other label of its charts has in all colours, and
    with that dash the colour that is used least in its charts, then on the page.
    """
    companions: dict[str, set[str]] = {}
    for labels in charts:
        for label in labels:
            companions.setdefault(label, set()).update(labels)
    fixed = fixed or {}
    chosen: dict[str, Look] = {}
    for label in sorted(companions, key=lambda label: label not in fixed):
        beside = [chosen[other] for other in companions[label] if other in chosen]
        near = Counter(look.colour for look in beside)
        far = Counter(look.colour for look in chosen.values())
        colours = (fixed[label],) if label in fixed else range(len(COLOURS))
        dashes = range(1 + len(beside))
        free = {Look(c, dash) for c in colours for dash in dashes}.difference(beside)
        chosen[label] = min(free, key=lambda k: (k.dash, near[k.colour], far[k.colour], k.colour))
    return chosen
