"""One stored run in detail, and several side by side, for `narl runs show` and `compare`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from narl.commands.runs_table import NUM_DIGITS, changed_options, of_known_kinds, summarise_run
from narl.console import duration, make_fact_table, make_table, stdout
from narl.deep.config import ENV_CODE, EPOCH_COLUMNS
from narl.display import figure, mean_figure, seeds_as_text
from narl.errors import InputError
from narl.option_differences import differing_options
from narl.options import as_text
from narl.run_lookup import command_line
from narl.storage import PART_SUFFIX, Run, UnfinishedRun

MACHINE = ("narl", "python", "jax", "numpy", "gymnasium", "mujoco", "device")
"""Entries of a run's environment that are shown; --all shows the others too."""
SHOWN_SEEDS = 20
"""Seeds whose results are listed one by one."""

Parts = dict[str, dict[str, Any]]
"""Facts by name, under titles."""


def run_details(run: Run | UnfinishedRun) -> dict[str, Any]:
    """Return the JSON object of `narl runs show`: everything about a run but its numbers."""
    if isinstance(run, UnfinishedRun):
        last = run.last_row(EPOCH_COLUMNS) or {}
        return summarise_run(run) | {"config": run.config, "last_epoch": last}
    arrays = {
        name: {"shape": list(x.shape), "dtype": str(x.dtype)} for name, x in run.arrays().items()
    }
    parts = {"config": run.config, "metrics": run.metrics, "environment": run.environment}
    return {"run": run.id, "path": str(run.path)} | parts | {"arrays": arrays}


def print_run(run: Run | UnfinishedRun) -> None:
    """Print what a reader wants to know first: results, changed options, machine."""
    changed = {name: as_text(value) for name, value in changed_options(run.config).items()}
    config = run.config
    parts: Parts = {"": _about(run), "results": _results(run)}
    parts["options that differ from the defaults"] = changed or {"none": ""}
    if isinstance(run, UnfinishedRun):
        parts["unfinished"] = {
            "checkpoint": f"step {run.step} of {config.get('settings', {}).get('steps')}",
            "in process": run.holder,
            "problems": list(run.problems) or None,
        }
    else:
        parts["machine"] = {name: run.environment.get(name) for name in MACHINE}
    _print_parts(run, parts)
    command = command_line("runs", "show", run.path.name, "--all", runs=run.path.parent)
    stdout().print(f"\nall of it: {command}", style="dim", soft_wrap=True)


def print_all(run: Run | UnfinishedRun) -> None:
    """Print everything that `run_details` returns."""
    details = run_details(run)
    if isinstance(run, UnfinishedRun):
        state = {name: details[name] for name in ("step", "steps", "time", "process", "problems")}
        parts = {
            "unfinished": state,
            "config": details["config"],
            "last_epoch": details["last_epoch"],
        }
    else:
        parts = {name: details[name] for name in ("config", "metrics", "environment")}
        parts["arrays"] = {
            name: f"{about['dtype']} {about['shape']}" for name, about in details["arrays"].items()
        }
    _print_parts(run, parts)


def _about(run: Run | UnfinishedRun) -> dict[str, Any]:
    config = run.config
    time = run.environment.get("time") if isinstance(run, Run) else run.time
    seeds = config.get("seeds") or ()
    return {
        "algorithm": config.get("algo"),
        "agent": config.get("agent"),
        "environment": config.get("env"),
        "seeds": seeds_as_text(seeds) if seeds else None,
        "horizon": config.get("horizon"),
        "when (UTC)": str(time or "")[:16].replace("T", " "),
    }


def _results(run: Run | UnfinishedRun) -> dict[str, Any]:
    """Return the results of a run by name, as texts."""
    if isinstance(run, UnfinishedRun):
        row = run.last_row(EPOCH_COLUMNS) or {}
        return {"step": row.get("step"), "return": _per_seed(row.get("eval_return"))}
    metrics = of_known_kinds(run.metrics)
    if run.config.get("experiment") == "train":
        seconds = metrics.get("seconds") or {}
        solved = metrics.get("solved_step") or []
        return {
            "steps": metrics.get("steps"),
            "updates": metrics.get("updates"),
            "return": _per_seed(metrics.get("final_return")),
            "solved at step": solved if any(step is not None for step in solved) else None,
            "time": duration(float(seconds["total"])) if "total" in seconds else None,
        }
    terms = {
        name.replace("_", " "): f"median {figure(sums.get('median'), 2)}, "
        f"mean {figure(sums.get('mean'), 2)}, worst seed {figure(sums.get('worst'), 2)}"
        for name in ("regret", "optimism", "estimation_error")
        if (sums := metrics.get(name))
    }
    return {
        "episodes": metrics.get("episodes"),
        "V*": None if metrics.get("v_star") is None else figure(metrics["v_star"], 4),
        **terms,
        "solved at episode": metrics.get("solved_episode"),
    }


def _per_seed(returns: Sequence[float | None] | None) -> str | None:
    """Return the mean, and for a few seeds each of them."""
    if not returns:
        return None
    mean = mean_figure(returns)
    if not 1 < len(returns) <= SHOWN_SEEDS:
        return mean
    return f"{mean} (mean of {', '.join(figure(x) for x in returns)})"


def _print_parts(run: Run | UnfinishedRun, parts: Parts) -> None:
    console = stdout()
    console.print(run.path.name, style="bold", soft_wrap=True)
    console.print(str(run.path), soft_wrap=True)
    for title, entries in parts.items():
        console.print(f"\n{title}" if title else "", style="bold")
        table = make_fact_table(indent=2)
        for name, entry in _flatten(entries):
            table.add_row(name, entry)
        console.print(table)


def _flatten(entries: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return nested entries as pairs of a dotted name and a text, without those that are None."""
    rows: list[tuple[str, str]] = []
    for name, entry in entries.items():
        if isinstance(entry, dict):
            rows += _flatten(entry, f"{prefix}{name}.")
        elif entry is not None:
            rows.append((prefix + name, _as_text(entry)))
    return rows


def _as_text(entry: Any) -> str:
    if isinstance(entry, list):
        return ", ".join("-" if item is None else str(item) for item in entry)
    return f"{entry:z.6g}" if isinstance(entry, float) else str(entry)


# --- several runs -----------------------------------------------------------------------------


def compare(runs: Sequence[Run | UnfinishedRun]) -> dict[str, Any]:
    """Return the JSON object of `narl runs compare`.

    "results" and "options" have a list with one entry per run under every name. Options are those
    in which the runs differ; they are written as they are typed, "" for a run that has no such
    option. An option that only some runs have is there if one of them changed it.
    """
    results = [_about(run) | _results(run) for run in runs]
    names = dict.fromkeys(name for result in results for name in result)
    columns = {name: [result.get(name) for result in results] for name in names}
    return {
        "runs": [run.path.name for run in runs],
        "results": {name: column for name, column in columns.items() if any(column)},
        "options": _differing_options(runs) | _differing_code(runs),
    }


def _differing_code(runs: Sequence[Run | UnfinishedRun]) -> dict[str, list[str]]:
    """Return the hashes of the code of the user's environment where the runs differ in them."""
    codes = [str(run.environment.get(ENV_CODE, "")) if isinstance(run, Run) else "" for run in runs]
    return {"code of the environment": codes} if len({*codes} - {""}) > 1 else {}


def _differing_options(runs: Sequence[Run | UnfinishedRun]) -> dict[str, list[str]]:
    options = [_options(run.config) for run in runs]
    changed = {name for run in runs for name in changed_options(run.config)}
    columns = {
        name: [as_text(own[name]) if name in own else "" for own in options]
        for name in differing_options(options)
    }
    return {name: x for name, x in columns.items() if name in changed or len({*x} - {""}) > 1}


def _options(config: dict[str, Any]) -> dict[str, Any]:
    """Return the recorded options; of a training that can be read, those that have an effect."""
    settings = config.get("settings") or config.get("options") or {}
    recorded = {name: value for name, value in settings.items() if name not in ("env", "algo")}
    if config.get("experiment") != "train":
        return recorded
    from narl.deep.checked_config import config_from_record, options_with_effect, with_numbers

    try:
        training = config_from_record(config)
    except InputError:  # of another version of narl
        return recorded
    options = with_numbers(options_with_effect(training), training)
    shown_elsewhere = ("env", "algo", "seeds", "until_solved")
    return {name: x for name, x in options.items() if name not in shown_elsewhere}


def print_comparison(comparison: dict[str, Any]) -> None:
    """Print the runs as columns."""
    names = [name.removesuffix(PART_SUFFIX)[-NUM_DIGITS:] for name in comparison["runs"]]
    table = make_table("", *names)
    for name, column in (comparison["results"] | comparison["options"]).items():
        table.add_row(name, *("" if x is None else _as_text(x) for x in column))
    console = stdout()
    for name, digits in zip(comparison["runs"], names, strict=True):
        console.print(f"{digits}  {name}", soft_wrap=True)
    console.print()
    console.print(table)
    if len({*_steps(comparison["results"])}) > 1:
        console.print(
            "\nthe numbers of steps differ, and each return is that of its own last step; "
            "`narl report RUN...` compares trainings up to a common step, with intervals",
            soft_wrap=True,
        )
    elif all(comparison["results"].get("algorithm", [None])):  # all are trainings
        line = "\n`narl report RUN...` gives differences with intervals"
        console.print(line, style="dim", soft_wrap=True)


def _steps(results: dict[str, list[Any]]) -> list[int]:
    """Return the steps of the trainings, finished or not."""
    return [x for name in ("steps", "step") for x in results.get(name, ()) if x is not None]
