"""The list of `narl runs`: tabular runs and trainings, with the options that tell them apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from narl.console import PIPE_WIDTH, make_table, mean_return, stdout
from narl.deep.config import EPOCH_COLUMNS
from narl.options import as_text
from narl.storage import Run, UnfinishedRun


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
    return where | results | {"problems": list(run.problems)}


def _training_config(config: dict[str, Any]) -> dict[str, Any]:
    settings = config.get("settings") or {}
    return {
        "algo": config.get("algo"),
        "env": config.get("env"),
        "seeds": config.get("seeds"),
        "steps": settings.get("steps"),
        "settings": settings,
    }


def print_run_list(summaries: Sequence[dict[str, Any]]) -> None:
    """Print a table of tabular runs and a table of trainings."""
    tabular = [summary for summary in summaries if "unfinished" not in summary]
    trainings = [summary for summary in summaries if "unfinished" in summary]
    if tabular:
        _print_list("run", [_tabular_figures(summary) for summary in tabular], tabular)
    if tabular and trainings:
        stdout().print()
    if trainings:
        _print_list("training", [_training_figures(summary) for summary in trainings], trainings)


def _tabular_figures(summary: dict[str, Any]) -> dict[str, str]:
    regret = summary["regret"] or {}
    figures = {"regret": "median", "mean": "mean", "worst": "worst"}  # older runs have no mean
    return {
        "episodes": str(summary["episodes"]),
        "seeds": str(len(summary["seeds"] or ())),
        **{
            column: "-" if regret.get(name) is None else f"{regret[name]:.2f}"
            for column, name in figures.items()
        },
    }


def _training_figures(summary: dict[str, Any]) -> dict[str, str]:
    seeds, solved = summary["seeds"] or (), summary["solved_step"] or ()
    step, returns = summary["step"], summary["final_return"]
    return {
        "step": f"{step}/{summary['steps']}" if summary["unfinished"] else str(step),
        "seeds": str(len(seeds)),
        "return": mean_return(returns) if returns else "-",
        "solved": f"{sum(step is not None for step in solved)}/{len(seeds)}",
    }


def _state(summary: dict[str, Any]) -> str:
    if summary["problems"]:
        return str(summary["problems"][0]) if summary.get("unfinished") else "damaged"
    if not summary.get("unfinished"):
        return ""
    return f"in process {summary['process']}" if summary["process"] else "unfinished"


def _print_list(
    title: str, figures: Sequence[dict[str, str]], summaries: Sequence[dict[str, Any]]
) -> None:
    """Print runs as a table where the console is wide enough, else a few lines for each run."""
    names = tuple(figures[0])
    columns = (title, *names, "when (UTC)", "state", "options that differ")
    table, console = make_table(*columns, numbers=names), stdout()
    rows = []
    for summary, cells, differing in zip(
        summaries, figures, options_that_differ(summaries), strict=True
    ):
        when = str(summary["time"] or "")[:16].replace("T", " ")
        cells = dict.fromkeys(names, "") if summary["problems"] else cells
        rows.append((summary["run"], cells, (when, _state(summary), differing)))
        style = "red" if summary["problems"] else ""
        table.add_row(summary["run"], *cells.values(), *rows[-1][2], style=style)
    unlimited = console.options.update(width=PIPE_WIDTH)
    if console.measure(table, options=unlimited).maximum <= console.width:
        console.print(table)
        return
    for run, cells, facts in rows:
        console.print(run, style="bold", soft_wrap=True)
        figures_line = ", ".join(f"{name} {text}" for name, text in cells.items() if text)
        for line in filter(None, (figures_line, *facts)):
            console.print(f"  {line}")


def options_that_differ(summaries: Sequence[dict[str, Any]]) -> list[str]:
    """Return, for each run, the options in which the listed runs of its kind differ.

    Runs of one kind have the same agent, or the same algorithm and environment.
    """
    kinds = [
        ("agent", summary["agent"])
        if "agent" in summary
        else ("algo", summary["algo"], summary["env"])
        for summary in summaries
    ]
    options = [summary.get("options") or summary.get("settings") or {} for summary in summaries]
    values: dict[tuple[Any, ...], set[str]] = {}
    for kind, own in zip(kinds, options, strict=True):
        for name, value in own.items():
            values.setdefault((*kind, name), set()).add(as_text(value))
    return [
        " ".join(
            f"{name}={as_text(value)}"
            for name, value in own.items()
            if len(values[(*kind, name)]) > 1
        )
        for kind, own in zip(kinds, options, strict=True)
    ]
