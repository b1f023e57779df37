"""The list of `narl runs`: tabular runs and trainings, with the options that tell them apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.padding import Padding

from narl.console import PIPE_WIDTH, make_table, stdout
from narl.deep.config import EPOCH_COLUMNS
from narl.display import figure, mean_figure
from narl.errors import InputError
from narl.option_differences import without_defaults
from narl.options import as_text
from narl.storage import PART_SUFFIX, Run, UnfinishedRun

NUM_DIGITS = 10
"""Digits at the end of an id, which stand for it where a terminal is narrow."""
ENVIRONMENT, MIN_ENVIRONMENT = 2, 8
"""The column of the environments in a narrow table, and its width at least."""


KINDS: dict[str, type] = {
    **dict.fromkeys(("final_return", "solved_step", "seeds"), list),
    **dict.fromkeys(("settings", "options", "seconds"), dict),
    **dict.fromkeys(("regret", "optimism", "estimation_error"), dict),
}
"""The types of what a run records; a file that was changed by hand may hold others."""


def of_known_kinds(values: dict[str, Any]) -> dict[str, Any]:
    """Return values, with None in place of those whose type is not that in `KINDS`."""
    return {
        name: value if isinstance(value, KINDS.get(name, object)) else None
        for name, value in values.items()
    }


def summarise_run(run: Run | UnfinishedRun) -> dict[str, Any]:
    """Return the JSON object that describes a run in the list."""
    if isinstance(run, UnfinishedRun):
        last = run.last_row(EPOCH_COLUMNS) or {}
        results = {
            "unfinished": True,
            "process": run.holder,
            "step": run.step,
            "final_return": last.get("eval_return"),
            "solved_step": last.get("solved_step"),
        }
        return _summarise(run, run.time, _training_config(run.config) | results)
    if run.config.get("experiment") == "train":
        results = {
            "unfinished": False,
            "step": run.metrics.get("steps"),
            "final_return": run.metrics.get("final_return"),
            "solved_step": run.metrics.get("solved_step"),
        }
        return _summarise(run, run.environment.get("time"), _training_config(run.config) | results)
    results = {
        "agent": run.config.get("agent"),
        "env": run.config.get("env"),
        "episodes": run.metrics.get("episodes", run.config.get("episodes")),
        "seeds": run.config.get("seeds"),
        "options": run.config.get("options"),
        "regret": run.metrics.get("regret"),
    }
    return _summarise(run, run.environment.get("time"), results)


def _summarise(
    run: Run | UnfinishedRun, time: str | None, results: dict[str, Any]
) -> dict[str, Any]:
    where = {"run": run.path.name, "path": str(run.path), "time": time}
    known = of_known_kinds(results)
    wrong = [f"{name} is of a wrong type" for name, x in results.items() if x is not known[name]]
    return where | known | {"problems": [*run.problems, *wrong]}


def _training_config(config: dict[str, Any]) -> dict[str, Any]:
    settings = config.get("settings") or {}
    return {
        "algo": config.get("algo"),
        "env": config.get("env"),
        "seeds": config.get("seeds"),
        "steps": settings.get("steps"),
        "settings": settings,
    }


def is_chosen(summary: dict[str, Any], env: str | None, algo: str | None) -> bool:
    """Return whether a run has this environment and algorithm, as far as they are given.

    Part of the environment's name is enough, in upper or lower case.
    """
    name = str(summary.get("algo") or summary.get("agent") or "")
    has_env = env is None or env.lower() in str(summary["env"] or "").lower()
    return has_env and (algo is None or algo.lower() == name.lower())


def changed_options(config: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a recorded configuration that differ from the defaults.

    The defaults are those of the agent, or of the algorithm on this environment.
    """
    if config.get("experiment") == "train":
        from narl.deep import checked_config

        try:
            changed = checked_config.changed_options(checked_config.config_from_record(config))
        except InputError:
            return _changed_settings(config)
        changed.pop("seeds", None)
        return changed
    from narl.tabular.options import AGENT_OPTIONS

    kind, options = AGENT_OPTIONS.get(str(config.get("agent"))), config.get("options") or {}
    return without_defaults(options, {} if kind is None else vars(kind()))


def _changed_settings(config: dict[str, Any]) -> dict[str, Any]:
    """Return the changed options of a training that this version of narl cannot read.

    An algorithm that only the user's code registers is compared with MBPO: as long as no radius
    excludes members, its defaults are the same.
    """
    from narl.deep.algorithm_registry import ALGORITHMS
    from narl.deep.checked_config import make_config, usual_settings

    settings, algo = config.get("settings") or {}, str(config.get("algo"))
    usual = make_config(str(config.get("env")), algo if algo in ALGORITHMS else "mbpo")
    changed = without_defaults(settings, usual_settings(usual, settings))
    return {name: x for name, x in changed.items() if name not in ("env", "algo")}


def print_run_list(pairs: Sequence[tuple[Run | UnfinishedRun, dict[str, Any]]]) -> None:
    """Print runs and their summaries: a table of tabular runs and a table of trainings."""
    tabular = [pair for pair in pairs if "unfinished" not in pair[1]]
    trainings = [pair for pair in pairs if "unfinished" in pair[1]]
    if tabular:
        _print_list("run", [_tabular_figures(summary) for _, summary in tabular], tabular)
    if tabular and trainings:
        stdout().print()
    if trainings:
        figures = [_training_figures(summary) for _, summary in trainings]
        if all(each["solved"] == "-" for each in figures):
            figures = [{k: x for k, x in each.items() if k != "solved"} for each in figures]
        _print_list("training", figures, trainings)


def _tabular_figures(summary: dict[str, Any]) -> dict[str, str]:
    regret = summary["regret"] or {}
    figures = {"regret": "median", "mean": "mean", "worst": "worst"}  # older runs have no mean
    return {
        "episodes": str(summary["episodes"]),
        "seeds": str(len(summary["seeds"] or ())),
        **{column: figure(regret.get(name), 2) for column, name in figures.items()},
    }


def _training_figures(summary: dict[str, Any]) -> dict[str, str]:
    seeds, solved = summary["seeds"] or (), summary["solved_step"] or ()
    step, returns = summary["step"], summary["final_return"]
    can_be_solved = (summary["settings"] or {}).get("solved_return") is not None
    num_solved = sum(step is not None for step in solved)
    return {
        "step": f"{step}/{summary['steps']}" if summary["unfinished"] else str(step),
        "seeds": str(len(seeds)),
        "return": mean_figure(returns) if returns else "-",
        "solved": f"{num_solved}/{len(seeds)}" if can_be_solved else "-",
    }


def _state(summary: dict[str, Any]) -> str:
    if summary["problems"]:
        return str(summary["problems"][0]) if summary.get("unfinished") else "damaged"
    if not summary.get("unfinished"):
        return ""
    return f"in process {summary['process']}" if summary["process"] else "unfinished"


def _print_list(
    title: str,
    figures: Sequence[dict[str, str]],
    pairs: Sequence[tuple[Run | UnfinishedRun, dict[str, Any]]],
) -> None:
    """Print runs as a table; in a narrow terminal with short ids, and options on lines below."""
    console, names = stdout(), tuple(figures[0])
    full = make_table(title, *names, "when (UTC)", "state", "changed options", numbers=names)
    short = [["id", "algorithm", "environment", *names, "when"]]
    below: list[list[str]] = []
    for (run, summary), cells in zip(pairs, figures, strict=True):
        options = {} if summary["problems"] else changed_options(run.config)
        changed = " ".join(f"{name}={as_text(value)}" for name, value in options.items())
        when = str(summary["time"] or "")[:16].replace("T", " ")
        cells = dict.fromkeys(names, "") if summary["problems"] else cells
        style, state = "red" if summary["problems"] else "", _state(summary)
        full.add_row(summary["run"], *cells.values(), when, state, changed, style=style)
        digits = summary["run"].removesuffix(PART_SUFFIX)[-NUM_DIGITS:]
        about = [digits, str(summary.get("algo") or summary.get("agent")), str(summary["env"])]
        short.append([*about, *cells.values(), when[5:]])
        below.append([line for line in (state, changed) if line])
    unlimited = console.options.update(width=PIPE_WIDTH)
    if console.measure(full, options=unlimited).maximum <= console.width:
        console.print(full)
        return
    header, *rows = _fit(short, console.width)
    console.print(header, style="bold", no_wrap=True)
    for row, facts in zip(rows, below, strict=True):
        console.print(row, no_wrap=True)
        for line in facts:
            console.print(Padding(line, (0, 0, 0, 2)), style="dim")


def _fit(rows: list[list[str]], width: int) -> list[str]:
    """Return the rows of a table as lines; the environments are cut where it is too wide."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    excess = sum(widths) + len(widths) - 1 - width
    widths[ENVIRONMENT] = max(widths[ENVIRONMENT] - max(excess, 0), MIN_ENVIRONMENT)
    lines = []
    for row in rows:
        env, size = row[ENVIRONMENT], widths[ENVIRONMENT]
        shown = [*row]
        shown[ENVIRONMENT] = env if len(env) <= size else f"{env[: size - 1]}…"
        padded = [
            f"{cell:<{size}}" if i <= ENVIRONMENT else f"{cell:>{size}}"
            for i, (cell, size) in enumerate(zip(shown, widths, strict=True))
        ]
        lines.append(" ".join(padded).rstrip())
    return lines
