"""Trainings, finished or not, as `narl runs` and `narl report` show them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from narl.commands.training_bar import mean_return
from narl.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from narl.deep.plan import Course
    from narl.report.training_report import Told
    from narl.storage.runs import Run
    from narl.storage.unfinished import UnfinishedRun


def is_training(run: Run | UnfinishedRun) -> bool:
    """Whether `narl train` made it."""
    return run.config.get("experiment") == "train"


def summary_of_run(run: Run) -> dict[str, Any]:
    """A finished training in the list."""
    return {
        "run": run.id,
        "path": str(run.path),
        "time": run.environment.get("time"),
        **_what(run.config),
        "unfinished": False,
        "step": run.metrics.get("steps"),
        "final_return": run.metrics.get("final_return"),
        "solved_step": run.metrics.get("solved_step"),
        "problems": list(run.problems),
    }


def summary_of_unfinished(one: UnfinishedRun) -> dict[str, Any]:
    """An unfinished training in the list; the return is that of its last epoch."""
    last = one.last_row() or {}
    return {
        "run": one.path.name,
        "path": str(one.path),
        "time": one.time,
        **_what(one.config),
        "unfinished": True,
        "process": one.holder,
        "step": one.step,
        "final_return": last.get("eval_return"),
        "solved_step": last.get("solved_step"),
        "problems": list(one.problems),
    }


def _what(config: dict[str, Any]) -> dict[str, Any]:
    settings = config.get("settings") or {}
    return {
        "algo": config.get("algo"),
        "env": config.get("env"),
        "seeds": config.get("seeds"),
        "steps": settings.get("steps"),
        "settings": settings,
    }


def show_trainings(console: Console, lines: Sequence[dict[str, Any]]) -> None:
    """A table where it fits, otherwise a few lines for each."""
    from rich.table import Table

    from narl.commands.console import PIPE_WIDTH

    table = Table(box=None, pad_edge=False)
    table.add_column("training")
    for column in ("step", "seeds", "return", "solved"):
        table.add_column(column, justify="right")
    table.add_column("when (UTC)")
    table.add_column("state")
    table.add_column("settings that differ", overflow="fold")
    rows = [
        (line["run"], *_cells(line), differing)
        for line, differing in zip(lines, settings_that_differ(lines), strict=True)
    ]
    for row, line in zip(rows, lines, strict=True):
        table.add_row(*row, style="red" if line["problems"] else "")
    unlimited = console.options.update(width=PIPE_WIDTH)
    if console.measure(table, options=unlimited).maximum <= console.width:
        console.print(table)
        return
    for id_, step, seeds, final, solved, when, state, settings in rows:
        console.print(id_, style="bold", soft_wrap=True)
        noun = "seed" if seeds == "1" else "seeds"
        facts = f"step {step}, {seeds} {noun}, return {final}, solved {solved}"
        for fact in (facts, when, state, settings):
            if fact:
                console.print(f"  {fact}")


def _cells(line: dict[str, Any]) -> tuple[str, ...]:
    when = str(line["time"] or "")[:16].replace("T", " ")
    if line["problems"]:
        return "", "", "", "", when, "damaged" if not line["unfinished"] else line["problems"][0]
    state = ""
    if line["unfinished"]:
        state = f"in process {line['process']}" if line["process"] else "unfinished"
    seeds, solved = line["seeds"] or (), line["solved_step"] or ()
    step = f"{line['step']}/{line['steps']}" if line["unfinished"] else str(line["step"])
    return (
        step,
        str(len(seeds)),
        mean_return(line["final_return"]) if line["final_return"] else "-",
        f"{sum(at is not None for at in solved)}/{len(seeds)}",
        when,
        state,
    )


def settings_that_differ(lines: Sequence[dict[str, Any]]) -> list[str]:
    """Of each training, the settings that are not the same in all of its kind that are there."""
    values: dict[tuple[Any, ...], set[str]] = {}
    for line in lines:
        for name, setting in line["settings"].items():
            values.setdefault((line["algo"], line["env"], name), set()).add(repr(setting))
    return [
        " ".join(
            f"{name}={_compact(setting)}"
            for name, setting in line["settings"].items()
            if len(values[line["algo"], line["env"], name]) > 1
        )
        for line in lines
    ]


def _compact(setting: Any) -> str:
    if isinstance(setting, list | tuple):
        return ",".join(map(str, setting))
    return "none" if setting is None else str(setting)


def told(run: Run | UnfinishedRun) -> Told:
    """What a report shows of a training."""
    from narl.deep.plan import course_from
    from narl.report.training_report import Told
    from narl.storage.metrics_log import NAME, rows_from_bytes
    from narl.storage.unfinished import UnfinishedRun

    name = run.path.name
    if not run.config:
        raise InputError(f"run: {name}: {run.problems[0]}; remove it (`narl runs remove {name}`)")
    if not is_training(run):
        raise InputError(f"run: {name} is no training; `narl runs show {name}` shows it")
    if "courses" in run.config:
        raise InputError(
            f"run: {name} is {len(run.config['courses'])} trainings together; each can be shown "
            "when all are finished (the command that began them continues them)"
        )
    course = course_from(run.config)
    rows = run.rows() if isinstance(run, UnfinishedRun) else rows_from_bytes(run.extra(NAME))
    if not rows:
        raise InputError(f"run: {name} has no finished epoch yet; wait for its first")
    command = command_of(course)
    if isinstance(run, UnfinishedRun):
        return Told(name, course, rows, command)
    metrics = run.metrics
    lanes = metrics.get("lanes", 0)
    return Told(name, course, rows, command, metrics["seconds"], lanes, run.environment)


def command_of(course: Course) -> str:
    """What is typed to train it again: all that is not a default."""
    from narl.deep.config import make_settings
    from narl.deep.owners import owners_of
    from narl.report.training_report import seeds_as_typed

    settings = course.settings
    usual = make_settings(settings.env, settings.algo)
    if settings.initial_steps != usual.initial_steps:
        # Updates begin with the policy's steps, unless it is said otherwise.
        usual = dataclasses.replace(usual, learn_after=settings.initial_steps)
    typed = ["narl train", settings.env, f"--algo {settings.algo}"]
    for name in (field.name for field in dataclasses.fields(settings)):
        setting = getattr(settings, name)
        if setting == getattr(usual, name) or settings.algo not in owners_of(name):
            continue
        option = name.replace("_", "-")
        if isinstance(setting, bool):
            typed.append(f"--{'' if setting else 'no-'}{option}")
        else:
            typed.append(f"--{option} {_compact(setting)}")
    if course.seeds != (0,):
        typed.append(f"--seeds {seeds_as_typed(course.seeds)}")
    if course.until_solved:
        typed.append("--until-solved")
    return " ".join(typed)
