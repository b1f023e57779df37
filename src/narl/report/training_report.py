"""Trainings of `narl train` as outcomes: curves, what the models promised, who was selected."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from narl.experiments.experiment import ENVIRONMENT, OF_TRAININGS
from narl.report.document import Chart, Outcome, Series, Table
from narl.report.ensemble_charts import fallback_chart, member_charts, promise_chart
from narl.report.training_curves import Rows, curve, modelled

if TYPE_CHECKING:
    from narl.deep.plan import Course

MOST_SEEDS = 10
"""Lines that can be told apart in one chart."""
NOTHING: Mapping[str, Any] = MappingProxyType({})


class Told(NamedTuple):
    """What is known of one training."""

    id: str
    """Its run's, or the name of its folder if it is not finished."""
    course: Course
    rows: Rows
    """Its journal."""
    command: str
    """What trains it again."""
    seconds: Mapping[str, float] | None = None
    """By what they were spent on, and the total; None: it is not finished."""
    lanes: int = 0
    """Seeds that were trained together, those of other trainings too."""
    environment: Mapping[str, Any] = NOTHING


def outcomes_of(trainings: Sequence[Told]) -> list[Outcome]:
    """One for every environment, in the order of the trainings."""
    envs = dict.fromkeys(told.course.settings.env for told in trainings)
    return [
        _outcome(env, [told for told in trainings if told.course.settings.env == env])
        for env in envs
    ]


def _outcome(env: str, trainings: Sequence[Told]) -> Outcome:
    named = dict(zip(labels(trainings), trainings, strict=True))
    charts = [_returns(named), *_seeds(named)]
    with_model = {label: told for label, told in named.items() if modelled(told.rows)}
    several = len(named) > 1
    for number, (label, told) in enumerate(with_model.items(), start=1):
        id_ = f"promise-{number}" if several else "promise"
        title = f"{label}: what the model promises" if several else "What the model promises"
        charts.append(promise_chart(id_, title, told.rows, _over({label: told})))
    if with_model:
        charts += member_charts("", _rows(with_model), _over(with_model))
    bounded = {
        label: told
        for label, told in with_model.items()
        if told.course.settings.algo == "narl" and told.course.settings.radius is not None
    }
    if bounded:
        charts.append(fallback_chart("fallback", _rows(bounded), _over(bounded)))
    return Outcome(
        id=f"train-{env}",
        title=env,
        scale="",
        command="\n".join(told.command for told in trainings),
        about=_about(named),
        charts=[_drawable(chart) for chart in charts],
        tables=[_results(named), _times(named)],
        claims=[],
        notes=[*_shared(named), f"All settings of a training: `narl runs show {trainings[0].id}`."],
        runs=[told.id for told in trainings],
        environment=_environment(trainings),
    )


def _rows(named: Mapping[str, Told]) -> dict[str, Rows]:
    return {label: told.rows for label, told in named.items()}


def labels(trainings: Sequence[Told]) -> list[str]:
    """What tells them apart: algorithm and settings, or else steps, seeds, ids, or a number."""
    used = [_used(told.course) for told in trainings]
    found = []
    for own in used:
        kin = [other for other in used if other["algo"] == own["algo"]]
        differing = [
            f"{name.replace('_', ' ')} {_words(name, setting)}"
            for name, setting in own.items()
            if name != "steps" and any(other[name] != setting for other in kin)
        ]
        found.append(", ".join([own["algo"].upper(), *differing]))
    found = _apart(found, [f", {told.course.settings.steps} steps" for told in trainings])
    found = _apart(found, [f", seeds {seeds_as_typed(told.course.seeds)}" for told in trainings])
    found = _apart(found, [f" ({_short_id(told)})" for told in trainings])
    return _apart(found, [f" #{number}" for number in range(1, len(trainings) + 1)])


def _used(course: Course) -> dict[str, Any]:
    """The settings that the algorithm uses; a default number of members as that number."""
    from narl.deep.owners import owners_of

    settings = course.settings
    numbers = {"members": settings.num_members, "elites": settings.num_elites}
    every = dataclasses.asdict(settings) | numbers
    return {name: value for name, value in every.items() if settings.algo in owners_of(name)}


def _words(name: str, setting: Any) -> str:
    if isinstance(setting, bool):
        return "on" if setting else "off"
    if isinstance(setting, list | tuple):
        return ",".join(map(str, setting))
    if setting is None:
        return "none" if name in ("radius", "solved_return") else "default"
    return str(setting)


def _apart(labels: Sequence[str], marks: Sequence[str]) -> list[str]:
    """With a mark where a label is there several times and the marks tell them apart."""
    pairs = list(zip(labels, marks, strict=True))
    return [
        label + mark if len({other for same, other in pairs if same == label}) > 1 else label
        for label, mark in pairs
    ]


def seeds_as_typed(seeds: Sequence[int]) -> str:
    """0:5 for 0, 1, 2, 3, 4."""
    first, many = seeds[0], len(seeds)
    if many > 1 and list(seeds) == list(range(first, first + many)):
        return f"{first}:{first + many}"
    return ",".join(map(str, seeds))


def _short_id(told: Told) -> str:
    """The digits at its end."""
    digits = told.id.removesuffix(".part")[-10:]
    return digits if told.seconds is not None else f"{digits}, unfinished"


def _about(named: Mapping[str, Told]) -> str:
    """A paragraph for each."""
    parts = []
    for label, told in named.items():
        seeds, step = len(told.course.seeds), f"{told.rows[-1]['step']:,}"
        whom = "one seed" if seeds == 1 else f"{seeds} seeds"
        if told.seconds is None:
            step += f" of {told.course.settings.steps:,}"
        state = "" if told.seconds is not None else ", not finished"
        parts.append(f"{label}: {whom}, {step} steps{state}.")
    return "\n\n".join(parts)


def _over(named: Mapping[str, Told]) -> str:
    """What lines and bands are."""
    if all(len(told.course.seeds) == 1 for told in named.values()):
        return "One seed." if len(named) == 1 else "One seed each."
    return "Mean ± one standard deviation over seeds."


def _returns(named: Mapping[str, Told]) -> Chart:
    series = [curve(label, told.rows, "eval_return") for label, told in named.items()]
    settings = [told.course.settings for told in named.values()]
    episodes = {one.eval_episodes for one in settings}
    what = "The return of one deterministic episode"
    if episodes != {1}:
        many = f"{episodes.pop()} " if len(episodes) == 1 else ""
        what = f"The mean return of {many}deterministic episodes"
    caption = f"{what} after every epoch; the random steps at the beginning count too."
    levels = {one.solved_return for one in settings}
    level = levels.pop() if len(levels) == 1 else None
    if level is not None and not _is_near(level, series):
        caption += f" Solved is a return of {level:g}, far outside this chart."
        level = None
    return Chart(
        "returns",
        "Return",
        "environment steps",
        "return",
        series,
        reference=level,
        reference_label="" if level is None else f"solved: {level:g}",
        caption=f"{caption} {_over(named)}",
    )


def _is_near(level: float, series: Sequence[Series]) -> bool:
    """Whether the curves could still be read if the chart reached to this level."""
    drawn = [x for one in series for part in (one.y, one.low, one.high) for x in part or ()]
    values = [x for x in drawn if x is not None and np.isfinite(x)]
    if not values:
        return False
    low, high = min(values), max(values)
    return max(level - high, low - level) <= high - low


def _seeds(named: Mapping[str, Told]) -> list[Chart]:
    """One line per seed, where there are few and nothing else to compare."""
    told = next(iter(named.values()))
    seeds = told.course.seeds
    if len(named) > 1 or not 1 < len(seeds) <= MOST_SEEDS:
        return []
    steps = [float(row["step"]) for row in told.rows]
    lines = [
        Series(f"seed {seed}", steps, [row["eval_return"][i] for row in told.rows])
        for i, seed in enumerate(seeds)
    ]
    caption = "The same returns, each seed by itself."
    x, y = "environment steps", "return"
    return [Chart("seeds", "Return, seed by seed", x, y, lines, caption=caption)]


def _drawable(chart: Chart) -> Chart:
    """Numbers that are not finite are gaps."""

    def gaps(values: Sequence[float | None] | None) -> list[float | None] | None:
        if values is None:
            return None
        return [x if x is not None and np.isfinite(x) else None for x in values]

    series = [
        dataclasses.replace(one, y=gaps(one.y) or [], low=gaps(one.low), high=gaps(one.high))
        for one in chart.series
    ]
    return dataclasses.replace(chart, series=series)


def _results(named: Mapping[str, Told]) -> Table:
    rows: list[dict[str, Any]] = []
    for label, told in named.items():
        last, seeds = told.rows[-1], len(told.course.seeds)
        final = np.array([np.nan if x is None else x for x in last["eval_return"]], np.float64)
        solved = [step for step in last.get("solved_step") or () if step is not None]
        several = {
            "± std": final.std(),
            "lowest seed": final.min(),
            "highest seed": final.max(),
        }
        aims = told.course.settings.solved_return is not None
        rows.append(
            {"training": label, "seeds": seeds, "steps": last["step"]}
            | {"return": _known(final.mean())}
            | {name: _known(value) if seeds > 1 else None for name, value in several.items()}
            | {"solved by": f"{len(solved)} of {seeds}" if aims else None}
            | {"steps to solve": float(np.mean(solved)) if solved else None}
        )
    columns = _columns(rows)
    caption = "Mean and population standard deviation over the seeds. " * ("± std" in columns)
    if "steps to solve" in columns:
        caption += (
            "Steps to solve: until the first evaluation whose return counts as solved; the mean "
            "over the seeds that have one."
        )
    cells = [[row[name] for name in columns] for row in rows]
    return Table("results", "After the last epoch", columns, cells, caption.strip())


PARTS = {
    "total": "in all",
    "compile": "compiling",
    "env": "environment",
    "model": "models",
    "rollout": "rollouts",
    "sac": "SAC",
    "eval": "evaluation",
    "checkpoint": "saving",
}


def _times(named: Mapping[str, Told]) -> Table:
    rows: list[dict[str, Any]] = []
    for label, told in named.items():
        # An unfinished one knows neither the total nor what compilation took.
        spent = told.seconds or told.rows[-1].get("seconds") or {}
        without = () if told.course.settings.uses_model else ("model", "rollout")
        seconds = {
            words: round(float(spent[part]), 1) if part in spent and part not in without else None
            for part, words in PARTS.items()
        }
        rows.append({"training": label} | seconds)
    columns = _columns(rows)
    cells = [[row[name] for name in columns] for row in rows]
    return Table(
        "seconds", "Where the time went", columns, cells, "Seconds, for all seeds together."
    )


def _shared(named: Mapping[str, Told]) -> list[str]:
    return [
        f"{label} was trained together with others, {told.lanes} seeds in all: the seconds are "
        "those of all of them."
        for label, told in named.items()
        if told.lanes > len(told.course.seeds)
    ]


def _columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Those with something in them."""
    return [name for name in rows[0] if any(row[name] is not None for row in rows)]


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _environment(trainings: Sequence[Told]) -> dict[str, str]:
    """What the finished ones ran with; where it was not the same, all that there was."""
    found: dict[str, str] = {}
    for name in (*ENVIRONMENT, *OF_TRAININGS):
        values = [told.environment[name] for told in trainings if name in told.environment]
        if known := dict.fromkeys(str(value) for value in values if value is not None):
            found[name] = " / ".join(known)
    return found
