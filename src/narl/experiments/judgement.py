"""Verdicts on "x is lower than y" from the bootstrap interval of the difference over seeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from narl.report.contents import Chart, Claim, Series, Table, Verdict
from narl.report.number_format import format_number
from narl.stats import Comparison, compare, difference, side_of_zero

Sample = Float[np.ndarray, " N"] | float
"""One value per seed, or a fixed level."""


class Part(NamedTuple):
    """The condition that x is lower than y on average; both have the same seeds, or one is a level.

    A seed that never solves a task counts as the budget.
    """

    x_name: str
    x: Sample
    y_name: str
    y: Sample
    fails_if_above: bool = True
    """Whether x above y contradicts the condition; False leaves it undecided."""


@dataclasses.dataclass(frozen=True)
class JudgedPart:
    """A condition with its comparison and its verdict."""

    part: Part
    comparison: Comparison
    verdict: Verdict
    num_parts: int
    """The number of conditions that are judged together."""
    strict_low: float
    """The lower end of the interval that decides whether the condition fails."""

    @property
    def margin(self) -> float:
        """The distance of the interval's upper end from 0 in widths; below 0 if it holds."""
        low, high = self.comparison.mean[1:]
        if not np.isfinite(high):
            return float("inf")
        return high / (high - low) if high > low else float(np.sign(high)) * float("inf")


@dataclasses.dataclass(frozen=True)
class Judgement:
    """The verdict on one or several conditions, with the numbers in one line."""

    verdict: Verdict
    numbers: str
    parts: tuple[JudgedPart, ...]

    def claim(self, id_: str, statement: str, where: str) -> Claim:
        """Return a claim with this verdict and these numbers."""
        return Claim(id_, statement, where, self.verdict, self.numbers)


def judge_lower(parts: Sequence[Part], quantity: str) -> Judgement:
    """Return whether x is lower than y in every part; ``quantity`` names what is compared.

    It holds if the 95 % interval of mean(x) − mean(y) lies below 0 in every part. It fails if the
    interval lies above 0 in one of them, at 1 − 0.05/k for k parts (Bonferroni), as one of many
    may lie there by chance. Else it is undecided, also if an interval ends too close to 0
    (`narl.stats.side_of_zero`).
    """
    judged = tuple(_judge(part, len(parts)) for part in parts)
    verdict = all_hold([item.verdict for item in judged])
    of_verdict = [item for item in judged if item.verdict == verdict]
    shown = max(of_verdict, key=lambda item: item.margin)
    return Judgement(verdict, _count(judged) + _describe(shown, quantity), judged)


def _judge(part: Part, num_parts: int) -> JudgedPart:
    comparison = compare(part.x, part.y, paired=True)
    confidence = 1.0 - 0.05 / num_parts
    strict = difference(part.x, part.y, paired=True, confidence=confidence)
    verdict: Verdict = "undecided"
    if side_of_zero(comparison.mean) < 0:
        verdict = "holds"
    elif side_of_zero(strict, confidence=confidence) > 0 and part.fails_if_above:
        verdict = "fails"
    return JudgedPart(part, comparison, verdict, num_parts, strict.low)


def all_hold(verdicts: Sequence[Verdict]) -> Verdict:
    """Return the verdict on a conjunction: one failure fails it, one open part leaves it open."""
    if "fails" in verdicts:
        return "fails"
    return "undecided" if "undecided" in verdicts else "holds"


def _count(judged: Sequence[JudgedPart]) -> str:
    """Return how many of several comparisons hold, and which of them is shown."""
    if len(judged) == 1:
        return ""
    verdicts = [item.verdict for item in judged]
    if set(verdicts) == {"holds"}:
        every = "Both" if len(judged) == 2 else f"All {len(judged)}"
        return f"{every} comparisons hold. The least clear: "
    plural = {"holds": "hold", "fails": "fail", "undecided": "undecided"}
    counts = {verdict: verdicts.count(verdict) for verdict in plural if verdict in verdicts}
    listed = [f"{n} {verdict if n == 1 else plural[verdict]}" for verdict, n in counts.items()]
    return f"Of {len(judged)} comparisons {', '.join(listed)}. Furthest off: "


def _describe(item: JudgedPart, quantity: str) -> str:
    """Return one comparison as a line: means, difference, interval, n, and what n can detect."""
    part, comparison = item.part, item.comparison
    x_mean, y_mean = format_number(float(np.mean(part.x))), format_number(float(np.mean(part.y)))
    line = f"{part.x_name}: {x_mean}; {part.y_name}: {y_mean} (mean {quantity})."
    if comparison.num_seeds < 2:
        return f"{line} Undecided: one seed has no interval."
    line += (
        f" Difference {_interval(*comparison.mean)}, n = {comparison.num_seeds}, "
        f"P(lower) = {comparison.probability_lower.estimate:.2f}."
    )
    if _side(*comparison.iqm[1:]) != _side(*comparison.mean[1:]):
        line += f" Difference of the interquartile means {_interval(*comparison.iqm)}."
    return f"{line} Undecided: {_reason(item)}." if item.verdict == "undecided" else line


TOO_CLOSE = "the interval ends so close to 0 that other resamples might decide otherwise"
"""The reason of a comparison whose interval does not contain 0."""


def _reason(item: JudgedPart) -> str:
    """Return why a comparison is undecided, and how many seeds would decide it."""
    part, comparison = item.part, item.comparison
    if comparison.mean.high < 0:
        return TOO_CLOSE
    if comparison.mean.low > 0:
        if not part.fails_if_above:
            return f"the runs are too short to show how large {part.y_name} is"
        if item.strict_low > 0:
            return TOO_CLOSE
        low = _signed(item.strict_low)
        return (
            f"one of {item.num_parts} may look so by chance; the interval for all begins at {low}"
        )
    if comparison.detectable == 0:
        return "the difference is 0 with every seed"
    y_mean = abs(float(np.mean(part.y)))
    share = f" ({100 * comparison.detectable / y_mean:.0f} %)" if y_mean else ""
    detectable = f"{format_number(comparison.detectable)}{share}"
    words = f"{comparison.num_seeds} seeds detect a difference of {detectable} or more"
    needed = comparison.seeds_needed
    if not np.isfinite(needed):
        return f"{words}, and no number of seeds decides a difference of 0"
    number = f"{needed:,.0f}" if needed > comparison.num_seeds else "a few more"
    return f"{words}; {number} would decide if the true one is {_signed(comparison.mean.estimate)}"


def _side(low: float, high: float) -> int:
    """Return on which side of 0 an interval lies; 0 if it contains 0."""
    return int(low > 0) - int(high < 0)


def _signed(value: float) -> str:
    return f"+{format_number(value)}" if value > 0 else format_number(value)


def _interval(estimate: float, low: float, high: float) -> str:
    return f"{_signed(estimate)} [{_signed(low)}, {_signed(high)}]"


ENDS = ["low", "high"]
COMPARISON = [
    *["claim", "x", "y", "x < y", "mean of x", "mean of y", "mean(x) − mean(y)", *ENDS],
    *["IQM(x) − IQM(y)", *ENDS, "P(x < y)", *ENDS, "seeds", "detectable", "seeds needed"],
]
"""The columns of a table of comparisons."""
MOST_ROWS = 20
"""Comparisons that a chart shows at most; more are in the table alone."""


def comparison_table(
    id_: str,
    judgements: Mapping[str, Judgement],
    title: str = "Comparisons behind the claims",
    first: str = COMPARISON[0],
) -> Table:
    """Return the table of all comparisons; its first column holds the keys of ``judgements``."""
    rows = []
    for claim, judgement in judgements.items():
        for item in judgement.parts:
            found = item.comparison
            row: list[Any] = [claim, item.part.x_name, item.part.y_name, item.verdict]
            row += [float(np.mean(item.part.x)), float(np.mean(item.part.y))]
            row += [*found.mean, *found.iqm, *found.probability_lower]
            rows.append([*row, found.num_seeds, found.detectable, found.seeds_needed])
    return Table(
        id_,
        title,
        [first, *COMPARISON[1:]],
        rows,
        "Brackets are 95 % bootstrap intervals; seeds are paired. Detectable: the "
        "smallest difference of the means that so many seeds detect (two-sided 5 %, power 0.8). "
        "Seeds needed: so many would detect a difference as large as the measured one.",
    )


def difference_table(
    id_: str,
    tasks: Mapping[str, Mapping[str, Float[np.ndarray, " N"]]],
    control: str,
    quantity: str,
    first: str,
) -> Table:
    """Return the table of differences control − variant, with a row per task and variant.

    ``tasks`` has one value per seed, by task and variant; a variant may have only the first seeds
    of the control. ``first`` is the title of the first column, which names the task and the
    variant.
    """
    judged = {
        f"{task}: {name}": judge_lower(
            [Part(control, values[control][: len(own)], name, own)], quantity
        )
        for task, values in tasks.items()
        for name, own in values.items()
        if name != control
    }
    return comparison_table(id_, judged, f"Differences from {control}", first)


def improvement_charts(tables: Sequence[Table]) -> list[Chart]:
    """Return the probability of improvement, P(x < y), of every comparison in the tables.

    They are made from the tables, so that older outcomes have them too.
    """
    charts = []
    place = COMPARISON.index("P(x < y)")
    for table in tables:
        if table.columns != COMPARISON or not 0 < len(table.rows) <= MOST_ROWS:
            continue
        found: dict[tuple[Any, ...], str] = {}
        for row in table.rows:  # two claims may rest on the same comparison
            found.setdefault((*row[1:3], *row[place : place + 3]), row[0])
        pairs = [key[:2] for key in found]
        series = [
            Series(
                f"{claim}: {x} vs {y}" if pairs.count((x, y)) > 1 else f"{x} vs {y}",
                *([1.0], *([value] for value in interval)),
            )
            for (x, y, *interval), claim in found.items()
        ]
        charts.append(
            Chart(
                f"{table.id}-improvement",
                "Probability of improvement",
                "",
                "probability that the first is lower",
                series,
                reference=0.5,
                reference_label="no difference",
                caption="The probability that a seed of the first lies below a seed of the second, "
                "with its 95 % bootstrap interval. At 0.5 neither is lower; at 1 every seed of the "
                "first lies below every seed of the second.",
            )
        )
    return charts
