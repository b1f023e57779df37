"""Make the drawings in docs/pictures (SVG) that README and site show.

usage: python docs/make_pictures.py [NAME…]        (all of them: half a minute)
       python docs/make_pictures.py --check        (do those of stored results show the results?)
"""

import io
import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import matplotlib
import numpy as np
import pictures_of_ideas as ideas
import pictures_of_results as results
from matplotlib.figure import Figure
from picture_style import STYLE

FOLDER = Path(__file__).with_name("pictures")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
ID = re.compile(r"\b[a-z]+[0-9a-f]{10}\b")
"""Names of shapes, which matplotlib makes from their exact places."""
TOLERANCE = 0.01
"""Points by which places may differ: other processors round sums differently."""

OF_IDEAS: dict[str, Callable[[], Figure]] = {
    "idea": ideas.draw_idea,
    "three-ways": ideas.draw_three_ways,
    "shrinking": ideas.draw_shrinking,
    "decomposition": ideas.draw_decomposition,
    "riverswim": ideas.draw_riverswim,
}
OF_RESULTS: dict[str, Callable[[], Figure]] = {
    "pays": results.draw_pays,
    "all-tasks": results.draw_all_tasks,
    "diagnostics": results.draw_diagnostics,
    "fig1a": partial(results.draw_stored_chart, "fig1a", "fig1a"),
    "fig1b": partial(results.draw_stored_chart, "fig1b", "fig1b-riverswim"),
    "fig3a": partial(results.draw_stored_chart, "fig3a", "fig3a"),
    "fig3b": partial(results.draw_stored_chart, "fig3b", "fig3b"),
    "fig3c": partial(results.draw_stored_chart, "fig3c", "fig3c"),
    "table2": partial(results.draw_stored_chart, "table2", "table2"),
}
"""The drawings that `--check` draws again: they are quick, and show what is in results/."""


def draw_svg(name: str) -> str:
    """Return a drawing as SVG: the same text for the same numbers."""
    file = io.StringIO()
    with matplotlib.rc_context(STYLE):
        figure = (OF_IDEAS | OF_RESULTS)[name]()
        # The ground is white: the drawings are readable in a dark page, too.
        figure.savefig(file, format="svg", metadata={"Date": None}, facecolor="white")
    return file.getvalue()


def is_same_drawing(one: str, other: str) -> bool:
    """Return whether two SVG texts show the same, but for rounding."""
    one, other = (ID.sub("id", text) for text in (one, other))
    if NUMBER.sub("#", one) != NUMBER.sub("#", other):
        return False
    places = [np.array(NUMBER.findall(text), float) for text in (one, other)]
    return bool(np.allclose(*places, rtol=0.0, atol=TOLERANCE))


def stale_pictures() -> list[str]:
    """Return the pictures of results that do not show what is in results/."""
    files = {name: FOLDER / f"{name}.svg" for name in OF_RESULTS}
    return [
        file.name
        for name, file in files.items()
        if not file.exists() or not is_same_drawing(file.read_text("utf-8"), draw_svg(name))
    ]


def main(arguments: list[str]) -> int:
    """Draw the named drawings, or all of them; or check those of results."""
    if arguments == ["--check"]:
        if stale := stale_pictures():
            print(
                f"not up to date: {', '.join(stale)}; python docs/make_pictures.py", file=sys.stderr
            )
        return 1 if stale else 0
    drawings = OF_IDEAS | OF_RESULTS
    if unknown := sorted(set(arguments) - set(drawings)):
        print(f"unknown drawing {unknown[0]}; one of {', '.join(drawings)}", file=sys.stderr)
        return 2
    FOLDER.mkdir(exist_ok=True)
    for name in arguments or drawings:
        target = FOLDER / f"{name}.svg"
        target.write_text(draw_svg(name), encoding="utf-8")
        print(target.name, f"{target.stat().st_size / 1e3:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
