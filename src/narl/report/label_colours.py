"""Colours by label: an algorithm, a radius, a quantity or a task has one colour in every report."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from narl.palette import ALGORITHM_COLOURS, DASHES

NAMES = {
    **{name: name for name in ALGORITHM_COLOURS},
    "noise augmented ucrl": "narl-ucrl",
    "noise augmented ucbvi": "narl-ucbvi",
    "h ucrl": "hucrl",
    "ucrl": "ucrl2",
    "posterior sampling": "psrl",
}
"""How labels begin, in small letters, and the algorithms that they name."""

DRAWS, MEANS = "inside the model, draws", "inside the model, means"
OUTSIDE = "in the environment"

# NARL and MBPO, radii and quantities stand side by side in a section: all their colours differ.
RADIUS_COLOURS = {"0.1": 6, "5": 4, "none": 7}
"""Places in `narl.palette.COLOURS` of the radii of the paper."""
QUANTITY_COLOURS = {DRAWS: 5, MEANS: 3, OUTSIDE: 2}
"""Places of the returns of one training."""
TASK_COLOURS = {
    "RiverSwim": 0,
    "Deep Sea 10": 1,
    "Deep Sea 20": 2,
    "Deep Sea 28": 3,
    "chain 10": 4,
    "stochastic Deep Sea 10": 5,
    "random MDP": 7,
}
"""Places of the tasks in charts whose lines are tasks."""

_RADIUS = re.compile(r"ε = (\S+)$")


def algorithm_of(label: str) -> str | None:
    """Return the algorithm that a label begins with ("narl" for "NARL, ε = 0.1"), if it does."""
    words = re.findall(r"[a-z0-9]+", label.lower())
    beginnings = [" ".join(words[:length]) for length in range(len(words), 0, -1)]
    known = {name.replace("-", " "): algorithm for name, algorithm in NAMES.items()}
    return next((known[beginning] for beginning in beginnings if beginning in known), None)


def colour_of(label: str) -> int | None:
    """Return the place in `narl.palette.COLOURS` that a label has in every chart, if it has one.

    A label that begins with an algorithm has the algorithm's colour; any other has that of the
    radius with which it ends, or of its quantity or task.
    """
    if algorithm := algorithm_of(label):
        return ALGORITHM_COLOURS[algorithm]
    if (radius := _RADIUS.search(label)) and radius[1] in RADIUS_COLOURS:
        return RADIUS_COLOURS[radius[1]]
    if label in QUANTITY_COLOURS:
        return QUANTITY_COLOURS[label]
    return TASK_COLOURS.get(label.split(", ")[0])


def fixed_colours(charts: Iterable[Sequence[str]]) -> dict[str, int]:
    """Return the labels of charts that have a colour of their own, with its place.

    Labels of one colour differ in their dashes. Those of a chart that has more of one colour than
    there are dashes are left out from there on: they take other colours.
    """
    fixed: dict[str, int] = {}
    too_many: set[str] = set()
    for labels in charts:
        used: Counter[int] = Counter()
        for label in labels:
            if (colour := colour_of(label)) is not None:
                used[colour] += 1
                fixed[label] = colour
                if used[colour] > len(DASHES):
                    too_many.add(label)
    return {label: colour for label, colour in fixed.items() if label not in too_many}
