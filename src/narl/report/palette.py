"""Looks of series: one colour and dash pattern per label over the whole page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from narl.report.document import Chart


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


class Look(NamedTuple):
    """The look of a series: places in COLOURS and DASHES."""

    colour: int
    dash: int

    @property
    def dashes(self) -> tuple[int, ...]:
        """Lengths of dashes and gaps; empty for a solid line."""
        return DASHES[self.dash % len(DASHES)]


def choose_looks(charts: Iterable[Chart]) -> dict[str, Look]:
    """Return a look for every label, such that no two are alike in one chart.

    Each new label takes the plainest dash that no other label of its charts has in all colours,
    and with that dash the colour that is used least in its charts, then on the page.
    """
    companions: dict[str, set[str]] = {}
    for chart in charts:
        labels = [series.label for series in chart.series]
        for label in labels:
            companions.setdefault(label, set()).update(labels)
    chosen: dict[str, Look] = {}
    for label, others in companions.items():
        beside = [chosen[other] for other in others if other in chosen]
        near = Counter(look.colour for look in beside)
        far = Counter(look.colour for look in chosen.values())
        dashes = range(1 + len(beside) // len(COLOURS))
        free = {Look(c, dash) for c in range(len(COLOURS)) for dash in dashes}.difference(beside)
        chosen[label] = min(free, key=lambda k: (k.dash, near[k.colour], far[k.colour], k.colour))
    return chosen
