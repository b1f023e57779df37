"""Objects and numbers for people: a few lines of text, or a small table in a notebook.

Call `figure` or `mean_figure` for a number in a terminal; inherit from `Described` for the `print`
of an object. `narl.console` writes to the terminal; `narl.report.number_format` is for reports.
"""

from __future__ import annotations

import html
import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

LARGE = 1e6
"""The size from which on a number is written with an exponent: -8.7e14."""


class Description(NamedTuple):
    """A title, and facts by name; empty facts are left out."""

    title: str
    facts: Mapping[str, str]

    def as_text(self) -> str:
        """Return the title and one line per fact."""
        facts = {name: fact for name, fact in self.facts.items() if fact}
        width = max(map(len, facts), default=0)
        lines = [f"  {name:<{width}}  {fact}" for name, fact in facts.items()]
        return "\n".join([self.title, *lines])

    def as_html(self) -> str:
        """Return a table of two columns under the title."""
        rows = [
            f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
            f"<td style='text-align:left'>{html.escape(fact)}</td></tr>"
            for name, fact in self.facts.items()
            if fact
        ]
        return f"<table><caption>{html.escape(self.title)}</caption>{''.join(rows)}</table>"


class Described:
    """Gives a class that has `_describe` a readable `print`, and a table in notebooks."""

    def _describe(self) -> Description:
        raise NotImplementedError

    def __repr__(self) -> str:
        return self._describe().as_text()

    def _repr_html_(self) -> str:
        return self._describe().as_html()


def figure(value: float | None, decimals: int = 1) -> str:
    """Return a number as text: 12.3, -8.7e14, or "-" if it is missing or not finite."""
    if value is None or not math.isfinite(value):
        return "-"
    if abs(value) < LARGE:
        return f"{value:z.{decimals}f}"  # z: no minus sign before a zero
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


def mean_figure(values: Sequence[Any]) -> str:
    """Return the mean over the seeds as text; "-" if one of them is missing or no number."""
    known = [float(value) for value in values if isinstance(value, numbers.Real)]
    return figure(sum(known) / len(known)) if known and len(known) == len(values) else "-"


def figures_over_seeds(median: float | None, mean: float | None, worst: float | None) -> str:
    """Return the numbers as text: 16.52 median, 18.30 mean, 36.46 worst seed; one if all agree.

    Those that are None are left out: runs of earlier versions have no mean.
    """
    named = {"median": median, "mean": mean, "worst seed": worst}
    texts = {name: figure(value, 2) for name, value in named.items() if value is not None}
    if len(texts) > 1 and len(set(texts.values())) == 1:
        return next(iter(texts.values()))
    return ", ".join(f"{text} {name}" for name, text in texts.items())


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: 1 seed, 20 seeds."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def in_words(names: Sequence[str]) -> str:
    """Return names as a list in a sentence: narl, mbpo and sac."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def seeds_as_text(seeds: Sequence[int]) -> str:
    """Return seeds as they are typed: 0:5 for 0, 1, 2, 3, 4."""
    first, num_seeds = seeds[0], len(seeds)
    if num_seeds > 1 and list(seeds) == list(range(first, first + num_seeds)):
        return f"{first}:{first + num_seeds}"
    return ",".join(map(str, seeds))


def describe_results(config: Mapping[str, Any], metrics: Mapping[str, Any]) -> dict[str, str]:
    """Return what a run is and what came out, as texts by name; "" for what it does not have."""
    seeds, returns = config.get("seeds") or (), metrics.get("final_return") or ()
    regret = metrics.get("regret") or {}
    return {
        "algorithm": str(config.get("algo") or config.get("agent") or ""),
        "environment": str(config.get("env") or ""),
        "seeds": seeds_as_text(seeds) if seeds else "",
        "steps": str(metrics.get("steps", "")),
        "episodes": "" if "steps" in metrics else str(metrics.get("episodes", "")),
        "return": _returns_as_text(returns) if returns else "",
        "regret": figures_over_seeds(*(regret.get(name) for name in ("median", "mean", "worst"))),
    }


def _returns_as_text(returns: Sequence[Any]) -> str:
    """Return the mean and the worst seed of final returns, or the mean if they agree."""
    mean = mean_figure(returns)
    worst = "-" if mean == "-" else figure(min(returns))
    return mean if worst == mean else f"{mean} mean, {worst} worst seed"
