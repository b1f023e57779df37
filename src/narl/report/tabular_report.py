"""Runs of `narl tabular` as sections of a report: regret and its two terms, and a table."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from narl.display import counted, seeds_as_text
from narl.errors import InputError
from narl.grouping import group_by
from narl.option_differences import without_defaults
from narl.options import as_argument, option_fields
from narl.plotting import SUMS, Curve, curve_of_run, label_curves
from narl.report.contents import ENVIRONMENT, Chart, Introduction, Section, Table
from narl.report.series import median_band
from narl.run_lookup import command_line
from narl.stats import median_iqr
from narl.storage import Run
from narl.tabular.checked_options import agent_options, used_by
from narl.tabular.config import Config, make_config
from narl.tabular.options import AGENT_OPTIONS

CAPTIONS = {
    "regret": "V* − V(π_k), summed over the episodes so far.",
    "optimism": "V* − Ṽ_k, summed; below zero the agent overestimates its value (Eq. 1).",
    "estimation_error": "Ṽ_k − V(π_k), summed: the cost of what the agent does not know (Eq. 1).",
}
_SIZED = re.compile(r"(.+?)-(\d+)(?:-(\d+))?")


def tabular_sections(runs: Sequence[Run]) -> list[Section]:
    """Return one section for every environment, in the order of the runs."""
    return [_section(_env(group[0]), group) for group in group_by(runs, _env)]


def _env(run: Run) -> tuple[str, int]:
    return str(run.config.get("env", "")), int(run.config.get("horizon", 0))


def _section(env: tuple[str, int], runs: Sequence[Run]) -> Section:
    name, horizon = env
    curves = {metric: [curve_of_run(run, metric) for run in runs] for metric in SUMS}
    labels = label_curves(curves["regret"])
    over = "Median over the seeds; the band is from the first to the third quartile."
    charts = [
        Chart(
            metric.replace("_", "-"),
            f"Cumulative {SUMS[metric]}",
            "episode",
            f"cumulative {SUMS[metric]}",
            [median_band(label, x.values) for label, x in zip(labels, drawn, strict=True)],
            caption=f"{CAPTIONS[metric]} {over}",
        )
        for metric, drawn in curves.items()
    ]
    first = runs[0].environment
    return Section(
        id=f"tabular-{name}-{horizon}",
        title=f"{name}, {horizon} steps per episode",
        introduction=[
            Introduction(_about(label, run), _command(run))
            for label, run in zip(labels, runs, strict=True)
        ],
        charts=charts,
        tables=[_table(dict(zip(labels, curves["regret"], strict=True)), runs)],
        runs=[run.id for run in runs],
        environment={key: first[key] for key in ENVIRONMENT if key in first},
    )


def _about(label: str, run: Run) -> str:
    seeds, episodes = len(run.config["seeds"]), int(run.metrics["episodes"])
    return f"{label}: {counted(seeds, 'seed')}, {counted(episodes, 'episode')}."


def _table(regret: Mapping[str, Curve], runs: Sequence[Run]) -> Table:
    columns = ["run", "seeds", "episodes", "median", "first quartile", "third quartile"]
    columns += ["mean", "worst seed", "solved by"]
    rows: list[list[Any]] = []
    for (label, curve), run in zip(regret.items(), runs, strict=True):
        last = curve.values[:, -1]
        figures = [*map(float, median_iqr(last)), float(last.mean()), float(last.max())]
        solved = run.metrics.get("solved_episode")
        by = None
        if solved is not None:
            by = f"{sum(x is not None for x in solved)} of {len(solved)}"
        rows.append([label, *curve.values.shape, *figures, by])
    if all(row[-1] is None for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    caption = "Regret of all episodes together, over the seeds."
    return Table("regret-at-the-end", "Cumulative regret at the end", columns, rows, caption)


def _command(run: Run) -> str:
    """Return the command that runs the same again, or one that shows the run.

    A run records the tables of its MDP, not the words that were typed; the command is tried out.
    """
    config = run.config
    agent, recorded = str(config["agent"]), config["options"]
    usual = vars(AGENT_OPTIONS[agent]()) if agent in AGENT_OPTIONS else {}
    changed = without_defaults(recorded, usual)
    options = {name: x for name, x in changed.items() if name in usual and used_by(name)}
    given = {"episodes": int(config["episodes"]), **_environment_options(str(config["env"]))}
    given |= {"until_solved": True} if config.get("until_solved") else {}
    for horizon in ({}, {"horizon": int(config["horizon"])}):
        every: dict[str, Any] = {"seeds": tuple(config["seeds"]), **given, **horizon, **options}
        try:
            same = make_config(agent, **every)
            if same.run_id == run.id:
                return command_of(same)
        except (InputError, OSError):
            continue
    return command_line("runs", "show", run.id, runs=run.path.parent)


def command_of(config: Config) -> str:
    """Return the command that runs a configuration, with every option that is not a default."""
    usual = agent_options(config.agent, config.preset)
    given = {field.name: getattr(config, field.name) for field in option_fields(Config)}
    changed = without_defaults(given, {x.name: x.default for x in dataclasses.fields(Config)})
    shown = {"seeds": seeds_as_text(config.seeds), "episodes": config.episodes}
    own = {name: x for name, x in changed.items() if name not in ("agent", "env", *shown)}
    options = own | without_defaults(vars(config.options), vars(usual))
    words = [f"narl tabular {config.agent} {config.env}"]
    return " ".join([*words, *(as_argument(name, x) for name, x in (shown | options).items())])


def _environment_options(name: str) -> dict[str, Any]:
    """Return environment, size and the like that lead to an MDP of this name."""
    scaled = {"scale_rewards": True} if name.endswith("-scaled") else {}
    match = _SIZED.fullmatch(name.removesuffix("-scaled").replace("_", "-"))
    if match is None:
        return {"env": name.removesuffix("-scaled").replace("_", "-"), **scaled}
    env, size, seed = match.groups()
    seeded = {} if seed is None else {"env_seed": int(seed)}
    return {"env": env, "size": int(size), **seeded, **scaled}
