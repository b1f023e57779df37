"""Trainings of `narl train` as sections of a report: curves, ensembles, results and times."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from narl.deep.config import ENV_CODE, Config, used_by
from narl.grouping import group_by
from narl.options import has_effect, options_of
from narl.report.contents import (
    TRAINING_ENVIRONMENT,
    Chart,
    Introduction,
    Section,
    Series,
    Table,
)
from narl.report.ensemble_charts import (
    bonus_chart,
    disagreement_chart,
    fallback_chart,
    member_charts,
    model_return_chart,
    radius_chart,
)
from narl.report.series import count_seeds, interval_series, over_seeds
from narl.report.training_curves import Rows, curve, rows_with_model
from narl.report.training_summary import TrainingSummary, label_trainings
from narl.run_lookup import command_line
from narl.stats import aggregate_iqm, difference, side_of_zero

MOST_SEEDS = 10
"""Lines of single seeds that can be told apart in one chart."""
MOST_IN_PAIRS = 4
"""Trainings up to which each is compared with every other."""
ACTIVITIES = {
    "total": "in all",
    "compile": "compiling",
    "env": "environment",
    "model": "models",
    "rollout": "rollouts",
    "sac": "SAC",
    "eval": "evaluation",
    "checkpoint": "saving",
}
"""Columns of the table of seconds, by their names in the metrics."""

Labelled = Mapping[str, TrainingSummary]
"""The trainings of one section by label."""


def training_sections(trainings: Sequence[TrainingSummary]) -> list[Section]:
    """Return one section for every environment, in the order of the trainings."""
    groups = group_by(trainings, lambda training: training.config.env)
    return [_section(group[0].config.env, group) for group in groups]


def _section(env: str, trainings: Sequence[TrainingSummary]) -> Section:
    labelled = dict(zip(label_trainings(trainings), trainings, strict=True))
    charts = [_return_chart(labelled), *_iqm_chart(labelled), *_seed_chart(labelled)]
    charts += _model_charts(labelled)
    show = command_line("runs", "show", trainings[0].id, runs=trainings[0].runs)
    return Section(
        id=f"train-{env}",
        title=env,
        introduction=[
            *_warning_of_code(trainings),
            *_warning_of_steps(trainings),
            *(Introduction(_state(label, x), x.command) for label, x in labelled.items()),
        ],
        charts=[_with_gaps(chart) for chart in charts],
        comparison=_difference_table(labelled),
        tables=[_result_table(labelled), _time_table(labelled)],
        notes=[*_notes_on_shared_time(labelled), f"All settings of a training: `{show}`."],
        runs=[training.id for training in trainings],
        environment=_environment(trainings),
    )


def _warning_of_code(trainings: Sequence[TrainingSummary]) -> list[Introduction]:
    """Return a warning if different code of the environment has made the trainings."""
    codes = {training.environment.get(ENV_CODE) for training in trainings} - {None}
    text = (
        "The code of the environment was changed between the trainings, so that they may not have "
        "been given the same task."
    )
    return [Introduction(text, command="")] if len(codes) > 1 else []


def _warning_of_steps(trainings: Sequence[TrainingSummary]) -> list[Introduction]:
    """Return a warning if the trainings were not given the same number of steps."""
    text = (
        "The trainings differ in their numbers of steps: curves and tables show each to its own "
        "end; a difference is taken up to the last step that both reached."
    )
    is_fair = len({training.rows[-1]["step"] for training in trainings}) == 1
    return [] if is_fair else [Introduction(text, command="")]


def _state(label: str, training: TrainingSummary) -> str:
    """Return a sentence about the seeds and steps of a training."""
    seeds, steps = count_seeds(len(training.config.seeds)), f"{training.rows[-1]['step']:,}"
    if training.is_finished:
        return f"{label}: {seeds}, {steps} steps."
    return f"{label}: {seeds}, {steps} of {training.config.steps:,} steps, not finished."


def _over(labelled: Labelled) -> str:
    """Return a sentence that says what lines and bands are."""
    most = max(len(training.config.seeds) for training in labelled.values())
    return "One seed each." if most == 1 < len(labelled) else over_seeds(most)


def _return_chart(labelled: Labelled) -> Chart:
    """Return the chart of returns, with the level that counts as solved if that is near."""
    series = [curve(label, training.rows, "eval_return") for label, training in labelled.items()]
    configs = [training.config for training in labelled.values()]
    episodes = {config.eval_episodes for config in configs}
    what = "The return of one deterministic episode"
    if episodes != {1}:
        number = f"{episodes.pop()} " if len(episodes) == 1 else ""
        what = f"The mean return of {number}deterministic episodes"
    caption = f"{what} after every epoch; the random steps at the beginning count too."
    levels = {config.solved_return for config in configs}
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
        caption=f"{caption} {_over(labelled)}",
    )


def _iqm_chart(labelled: Labelled) -> list[Chart]:
    """Return the interquartile means of the last returns; none unless all have several seeds."""
    last = {label: _last_returns(training) for label, training in labelled.items()}
    if len(last) < 2 or any(len(x) < 2 or not np.isfinite(x).all() for x in last.values()):
        return []
    series = [interval_series(label, aggregate_iqm(x[None])) for label, x in last.items()]
    caption = (
        "The interquartile mean is the mean of the middle half of the seeds: a single very good "
        "or bad seed hardly changes it. It differs from the mean of all seeds, which the tables "
        "show. The line is its 95 % bootstrap interval. The interval "
        "is stretched, because the bootstrap of a few seeds is too narrow: it may reach beyond the "
        "lowest and the highest seed."
    )
    title = "After the last epoch: interquartile mean of the returns"
    y = "return, interquartile mean over the seeds"
    return [Chart("iqm", title, "", y, series, caption=caption)]


def _is_near(level: float, series: Sequence[Series]) -> bool:
    """Return whether the curves could still be read if the chart reached to this level."""
    drawn = [x for line in series for part in (line.y, line.low, line.high) for x in part or ()]
    values = [x for x in drawn if x is not None and np.isfinite(x)]
    if not values:
        return False
    low, high = min(values), max(values)
    return max(level - high, low - level) <= high - low


def _seed_chart(labelled: Labelled) -> list[Chart]:
    """Return the chart with one line per seed; none for many seeds or several trainings."""
    training = next(iter(labelled.values()))
    seeds = training.config.seeds
    if len(labelled) > 1 or not 1 < len(seeds) <= MOST_SEEDS:
        return []
    steps = [float(row["step"]) for row in training.rows]
    lines = [
        Series(f"seed {seed}", steps, [row["eval_return"][place] for row in training.rows])
        for place, seed in enumerate(seeds)
    ]
    caption = "The same returns, each seed by itself."
    x, y = "environment steps", "return"
    return [Chart("seeds", "Return, seed by seed", x, y, lines, caption=caption)]


def _model_charts(labelled: Labelled) -> list[Chart]:
    """Return the charts of ensembles, for the trainings that have one."""
    trained = {label: item for label, item in labelled.items() if rows_with_model(item.rows)}
    if not trained:
        return []
    charts, by_radius = [], []
    for number, (label, training) in enumerate(trained.items(), start=1):
        name, mark = (label, f"-{number}") if len(labelled) > 1 else ("", "")
        over = _over({label: training})
        charts.append(model_return_chart(f"promise{mark}", name, training.rows, over))
        by_radius += radius_chart(f"radius{mark}", name, training.rows, over)
    charts += [*by_radius, *member_charts("", _rows(trained), _over(trained))]
    charts += disagreement_chart("disagreement", _rows(trained), _over(trained))
    charts += bonus_chart("bonus", _rows(trained), _over(trained))
    bounded = {label: item for label, item in trained.items() if _has_radius(item.config)}
    if any(any(row["fallback"]) for x in bounded.values() for row in rows_with_model(x.rows)):
        charts.append(fallback_chart("fallback", _rows(bounded), _over(bounded)))
    return charts


def _has_radius(config: Config) -> bool:
    """Return whether a radius excludes members from the selection."""
    is_used = config.algo in used_by("radius") and config.radius is not None
    return is_used and has_effect(options_of(Config)["radius"], vars(config))


def _rows(labelled: Labelled) -> dict[str, Rows]:
    return {label: training.rows for label, training in labelled.items()}


def _with_gaps(chart: Chart) -> Chart:
    """Return the chart with None for numbers that are not finite."""

    def gaps(values: Sequence[float | None] | None) -> list[float | None] | None:
        if values is None:
            return None
        return [x if x is not None and np.isfinite(x) else None for x in values]

    series = [
        dataclasses.replace(line, y=gaps(line.y) or [], low=gaps(line.low), high=gaps(line.high))
        for line in chart.series
    ]
    return dataclasses.replace(chart, series=series)


def _result_table(labelled: Labelled) -> Table:
    rows: list[dict[str, Any]] = []
    for label, training in labelled.items():
        last, num_seeds = training.rows[-1], len(training.config.seeds)
        final = _last_returns(training)
        solved = [step for step in last.get("solved_step") or () if step is not None]
        over_seeds = {
            "± std": final.std(),
            "lowest seed": final.min(),
            "highest seed": final.max(),
        }
        can_be_solved = training.config.solved_return is not None
        rows.append(
            {"training": label, "seeds": num_seeds, "steps": last["step"]}
            | {"mean return": _finite(final.mean())}
            | {name: _finite(x) if num_seeds > 1 else None for name, x in over_seeds.items()}
            | {"solved by": f"{len(solved)} of {num_seeds}" if can_be_solved else None}
            | {"steps to solve": float(np.mean(solved)) if solved else None}
        )
    table = _table("results", "After the last epoch: mean of the returns", rows)
    caption = "Mean and population standard deviation over the seeds. " * ("± std" in table.columns)
    if "steps to solve" in table.columns:
        caption += (
            "Steps to solve: until the first evaluation whose return counts as solved; the mean "
            "over the seeds that have one."
        )
    return dataclasses.replace(table, caption=caption.strip())


def _difference_table(labelled: Labelled) -> Table | None:
    """Return the differences of the trainings, pair by pair; None without an interval."""
    rows: list[list[Any]] = []
    compared: dict[str, TrainingSummary] = {}
    for first, second in _pairs(list(labelled)):
        pair = labelled[first], labelled[second]
        for name, (x, y) in _returns_to_compare(*pair).items():
            if not np.isfinite([*x, *y]).all() or min(len(x), len(y)) < 2:
                continue
            paired = pair[0].config.seeds == pair[1].config.seeds  # in the same order, too
            found = difference(x, y, paired=paired)
            better = {1: first, -1: second, 0: "undecided"}[side_of_zero(found)]
            seeds = f"{len(x)}, paired" if paired else f"{len(x)} and {len(y)}"
            rows.append([f"{first} − {second}", better, name, *found, seeds])
            compared |= dict(zip((first, second), pair, strict=True))
    if not rows:
        return None
    caption = (
        "The difference of the returns, averaged over the seeds, with its 95 % bootstrap interval, "
        "stretched for few seeds. The return after the last epoch is that of a single evaluation "
        "per seed; the mean over the training also counts how early it was good, and for how long. "
        "Where the interval contains 0, or ends so close to it that other resamples might decide "
        "otherwise, the seeds do not show which training is better. Trainings of the same seeds "
        "are paired seed by seed."
    )
    caption += "".join(f" {text}" for text in _unfair(compared))
    if len(labelled) > MOST_IN_PAIRS:
        caption += " The first training is compared with each of the others."
    if any(len(training.config.seeds) == 1 for training in labelled.values()):
        caption += " A training of one seed has no interval and is left out."
    columns = ["difference of", "better", "return", "difference", "low", "high", "seeds"]
    return Table("differences", "Differences", columns, rows, caption)


def _unfair(labelled: Labelled) -> list[str]:
    """Return what else than the algorithm and its options the trainings differ in."""
    texts = []
    members = {
        label: training.config.num_members
        for label, training in labelled.items()
        if training.config.uses_model
    }
    if len({*members.values()}) > 1:
        numbers = ", ".join(f"{label}: {number}" for label, number in members.items())
        texts.append(
            f"The trainings differ in their numbers of models ({numbers}); give both the same "
            "--members to compare nothing else."
        )
    return texts


def _returns_to_compare(
    first: TrainingSummary, second: TrainingSummary
) -> dict[str, tuple[Float[np.ndarray, " N"], Float[np.ndarray, " K"]]]:
    """Return the returns of all seeds of both trainings, by what they are.

    They end at the last step that both reached; one of them may have no epoch until then.
    """
    steps = first.rows[-1]["step"], second.rows[-1]["step"]
    own, other = (
        [_returns_of(row) for row in training.rows if row["step"] <= min(steps)]
        for training in (first, second)
    )
    if not own or not other:
        return {}
    until = f" up to step {min(steps):,}" if steps[0] != steps[1] else ""
    found = {f"after the last epoch{until}": (own[-1], other[-1])}
    if max(len(own), len(other)) > 1:
        means = np.mean(own, axis=0), np.mean(other, axis=0)
        found[f"mean{until or ' over the training'}"] = means
    return found


def _pairs(labels: Sequence[str]) -> list[tuple[str, str]]:
    """Return all pairs of a few trainings, else the first with each of the others."""
    if len(labels) <= MOST_IN_PAIRS:
        return list(itertools.combinations(labels, 2))
    return [(labels[0], other) for other in labels[1:]]


def _last_returns(training: TrainingSummary) -> Float[np.ndarray, " N"]:
    """Return the returns of all seeds after the last epoch, with NaN for missing ones."""
    return _returns_of(training.rows[-1])


def _returns_of(row: Mapping[str, Any]) -> Float[np.ndarray, " N"]:
    return np.array([np.nan if x is None else x for x in row["eval_return"]], np.float64)


def _time_table(labelled: Labelled) -> Table:
    rows: list[dict[str, Any]] = []
    for label, training in labelled.items():
        # The rows of an unfinished training have neither the total nor the time of compilation.
        seconds = training.seconds or training.rows[-1].get("seconds") or {}
        unused = () if training.config.uses_model else ("model", "rollout")
        rows.append(
            {"training": label}
            | {
                column: round(float(seconds[name]), 1)
                if name in seconds and name not in unused
                else None
                for name, column in ACTIVITIES.items()
            }
        )
    table = _table("seconds", "Where the time went", rows)
    return dataclasses.replace(table, caption="Seconds, for all seeds together.")


def _table(id_: str, title: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table of the columns that are not empty."""
    columns = [name for name in rows[0] if any(row[name] is not None for row in rows)]
    return Table(id_, title, columns, [[row[name] for name in columns] for row in rows])


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _notes_on_shared_time(labelled: Labelled) -> list[str]:
    return [
        f"{label} was trained together with others, {training.num_replicas} seeds in all: the "
        "seconds are those of all of them."
        for label, training in labelled.items()
        if training.num_replicas > len(training.config.seeds)
    ]


def _environment(trainings: Sequence[TrainingSummary]) -> dict[str, str]:
    """Return the environment of the finished trainings, with every value that an entry has."""
    environment: dict[str, str] = {}
    for name in TRAINING_ENVIRONMENT:
        values = [training.environment.get(name) for training in trainings]
        if known := dict.fromkeys(str(value) for value in values if value is not None):
            environment[name] = " / ".join(known)
    return environment
