"""The pages docs/runs/ID.md: every run behind a claim, with command, configuration and numbers.

For docs/make_claims.py. The options of a run are made from its command, as narl makes them; the id
of the run, which is a hash of them, shows that they are still those of the run.
"""

import dataclasses
import functools
import shlex
import statistics
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from narl.commands.config_arguments import read_value
from narl.deep.checked_config import make_config, used_options
from narl.deep.config import Config
from narl.experiments import EXPERIMENTS
from narl.option_differences import without_defaults
from narl.options import (
    OptionField,
    as_argument,
    has_effect,
    option_fields,
    options_of,
    split_optional,
)
from narl.report.contents import Outcome, TabularRun, Training
from narl.report.number_format import MISSING, format_number
from narl.report.tabular_report import command_of
from narl.storage.files import to_json_values
from narl.storage.runs import id_of
from narl.tabular.checked_options import all_option_fields
from narl.tabular.config import Config as TabularConfig
from narl.tabular.config import make_config as make_tabular_config

OPTIONS = (
    "The command of a run repeats it alone. Its options are all those that differ from the "
    "[defaults](../options.md), whether they come from the command or from a preset."
)
TRAININGS = (
    "A table has the return of every seed at every evaluation. Its last column is the mean over "
    "seeds; the row *mean* is over the evaluations, and the row *solved* has the first step with "
    "a return that counts as solved. Trainings of one shape ran in one program and share its "
    "duration, which includes compilation."
)
TABULAR = (
    "A table has the [terms of Eq. 1](../metrics.md#per-episode) of every seed, summed over the "
    "episodes, and their means over seeds."
)
MOST_TABLES = 300
"""Runs up to which a page has a table for each; with more it has a line of regrets."""
REGRETS = (
    "Below a run stand the regrets of its seeds, summed over the episodes and in the order of the "
    "seeds. The other [terms of Eq. 1](../metrics.md#per-episode) of every seed are in the file of "
    "the outcome, to which the link of a run leads."
)
SCORES = {
    "solved_episode": "*Solved episode*: the episode at which [Deep Sea is "
    "solved](../metrics.md#deep-sea-solved).",
    "close_from_episode": "*Close from episode*: the first episode from which |Ṽ_k − V*| ≤ V*/4 "
    "for good; one more than the number of episodes if there is none.",
    "half_way_regret": "*Half way regret*: the regret of the first half of the episodes. A regret "
    "of order √T is √2 times as large at the end.",
}
"""Sentences about the scores that only some experiments have."""
NO_SCORES = (
    "The outcome was stored before outcomes had the scores of every seed; the command of a run "
    "computes them again."
)
SWEPT = (
    "Runs that differ only in the option that is named as *swept* ran in one program. Alone, such "
    "a run has another id, and its numbers may be rounded differently."
)


def list_runs(outcome: Outcome) -> Outcome:
    """Return an outcome with a list of its runs, without scores if it was stored without them."""
    if outcome.trainings or outcome.tabular_runs:
        return outcome
    cells = EXPERIMENTS[outcome.id].cells(outcome.scale)
    runs = [
        TabularRun(label, run, command_of(cell), list(cell.seeds), cell.episodes, {}, cell.swept)
        for (label, cell), run in zip(cells.items(), outcome.runs, strict=True)
        if isinstance(cell, TabularConfig)
    ]
    return dataclasses.replace(outcome, tabular_runs=runs)


def run_page(outcome: Outcome) -> str:
    """Return the page of an experiment: facts, an overview, and a section for every run."""
    runs = outcome.trainings or outcome.tabular_runs
    path = f"../../results/{outcome.id}-{outcome.scale}.json"
    made = outcome.environment
    facts = (
        f"{outcome.title}: `{outcome.command}`; "
        "[description](../reproduction.md#the-experiments-and-their-claims); "
        f"[claims](../claims.md); [results/{path.rpartition('/')[2]}]({path}). "
        f"{len(outcome.runs)} runs with narl {made['narl']} and JAX {made['jax']} on "
        f"{made['device']}."
    )
    configs = [config_of(run) for run in runs]
    ids = [run_id(config, str(made["narl"])) for config in configs]
    same = [id_ == run.run for id_, run in zip(ids, runs, strict=True)]
    parts = [f"# {outcome.id}: every run", facts, OPTIONS, tables_in_words(outcome)]
    parts += [ids_in_words(same), *overview(runs)]
    field = "trainings" if outcome.trainings else "tabular_runs"
    is_long = len(runs) > MOST_TABLES
    for place, (run, config, id_) in enumerate(zip(runs, configs, ids, strict=True)):
        has_numbers = isinstance(run, Training) or bool(run.seed_scores)
        about = [f"run `{run.run}`", *facts_of(run)]
        about += [f"[`{field}[{place}]`]({path})"] if has_numbers else []
        parts += [
            f"## Run {place + 1}",
            f"**{run.label}**: {', '.join(about)}",
            f"`{run.command}`",
            *([] if id_ == run.run else [f"The id that this command leads to now: `{id_}`"]),
            f"Options: {options_in_words(config)}",
            *([f"```text\n{numbers_of(run, config, is_long)}\n```"] if has_numbers else []),
        ]
    return "\n\n".join(parts) + "\n"


def tables_in_words(outcome: Outcome) -> str:
    """Return the description of the tables of an outcome's runs."""
    if outcome.trainings:
        return TRAININGS
    runs = outcome.tabular_runs
    names = {name for run in runs for name in run.seed_scores}
    further = [text for name, text in SCORES.items() if name in names]
    swept = [SWEPT] if any(run.swept for run in runs) else []
    if len(runs) > MOST_TABLES and names:
        return " ".join([REGRETS, *swept])
    return " ".join([TABULAR if names else NO_SCORES, *further, *swept])


def ids_in_words(same: Sequence[bool]) -> str:
    """Return a sentence about the ids that were computed again from the commands."""
    begin = "The id of a run is a hash of its configuration and of the version of narl. Computed "
    begin += "again from the commands, "
    if all(same):
        return f"{begin}the ids of all {len(same)} runs are the stored ones."
    others = (place for place, is_same in enumerate(same, 1) if not is_same)
    listed = ", ".join(f"{a}" if a == b else f"{a}–{b}" for a, b in ranges(others))
    return (
        f"{begin}{sum(same)} of {len(same)} ids are the stored ones. The others differ ({listed}): "
        "a default, a preset or the last digit of an MDP's table (FrozenLake) has changed since."
    )


def ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first and the last of numbers in turn: 1, 2, 3, 7 are (1, 3) and (7, 7)."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def overview(runs: Sequence[Training | TabularRun]) -> list[str]:
    """Return a table with a line for every run, if the runs have numbers."""
    rows = []
    for place, run in enumerate(runs, 1):
        if isinstance(run, Training):
            last = known(returns[-1] for returns in run.returns)
            mean = (
                f"{format_number(mean_of(last))} ({format_number(min(last))})" if last else MISSING
            )
            numbers = {"final return (worst seed)": mean}
        else:
            numbers = {
                f"mean {name.replace('_', ' ')}": format_number(mean_of(values))
                for name, values in run.seed_scores.items()
                if name in ("regret", "optimism", "estimation_error")
            }
        rows.append([f"[{place}. {run.label}](#run-{place})", *numbers.values()])
    return [markdown_table(["run", *numbers], rows)] if numbers else []


def facts_of(run: Training | TabularRun) -> list[str]:
    """Return the length of a run, and how it was run, in words."""
    if isinstance(run, TabularRun):
        swept = [] if run.swept is None else [f"swept: `{run.swept}`"]
        return [f"{run.episodes:,} episodes", *swept]
    if run.seconds is None:
        return [f"{run.steps[-1]:,} steps"]
    together = f" with {run.replicas} replicas" if run.replicas != len(run.seeds) else ""
    return [f"{run.steps[-1]:,} steps", f"{run.seconds:.0f} s{together} on {run.device}"]


# --- configurations -------------------------------------------------------------------------------


def config_of(run: Training | TabularRun) -> Config | TabularConfig:
    """Return the configuration of a run, made from its command."""
    config = read_command(run.command)
    if isinstance(run, TabularRun) and isinstance(config, TabularConfig):
        return dataclasses.replace(config, swept=run.swept)
    return config


def read_command(command: str) -> Config | TabularConfig:
    """Return the configuration of a command that `narl tabular` or `narl train` takes."""
    _, kind, *words = shlex.split(command)
    if kind == "train":
        return make_config(**read_options(words, option_fields(Config)))
    fields = [*option_fields(TabularConfig), *all_option_fields()]
    return make_tabular_config(**read_options(words, fields))


def read_options(words: Iterable[str], fields: Sequence[OptionField]) -> dict[str, Any]:
    """Return the options of a command by name.

    The full parser, which explains what is wrong, takes a hundred times as long.
    """
    by_name = {field.name: field for field in fields}
    positional = (field.name for field in fields if field.default is dataclasses.MISSING)
    given: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        name = word.removeprefix("--").replace("-", "_")
        if not word.startswith("--"):
            given[next(positional)] = word
        elif name not in by_name:
            given[name.removeprefix("no_")] = False
        elif split_optional(by_name[name].annotation)[0] is bool:
            given[name] = True
        else:
            given[name] = read_value(by_name[name], next(rest))
    return given


def run_id(config: Config | TabularConfig, version: str) -> str:
    """Return the id of the run of a configuration under a version of narl."""
    if isinstance(config, Config):
        record = config.record()
    else:
        record = config.record(mdp_of(config.env, config.size, config.horizon, config.env_seed))
    return id_of(to_json_values("config", record), version)


@functools.cache
def mdp_of(env: str, size: int | None, horizon: int | None, seed: int) -> Any:
    """Return the MDP of several runs, without scaled rewards."""
    from narl.tabular.envs import make

    return make(env, size=size, horizon=horizon, seed=seed)


def options_in_words(config: Config | TabularConfig) -> str:
    """Return the options that differ from the defaults and have an effect."""
    if isinstance(config, Config):
        used, descriptions = used_options(config), options_of(Config)
        defaults = {field.name: field.default for field in option_fields(Config)}
        known_by_command = ("env", "algo", "seeds")
    else:
        own = {field.name: getattr(config, field.name) for field in option_fields(TabularConfig)}
        used = own | vars(config.options)
        descriptions = options_of(config) | options_of(config.options)
        defaults = {
            field.name: field.default
            for field in (*option_fields(TabularConfig), *option_fields(type(config.options)))
        }
        known_by_command = ("agent", "env", "seeds")
    changed = without_defaults(used, defaults)
    words = [
        f"`{as_argument(name, value)}`"
        for name, value in changed.items()
        if name not in known_by_command and has_effect(descriptions[name], used)
    ]
    return " ".join(words) or "all defaults"


# --- numbers --------------------------------------------------------------------------------------


def numbers_of(
    run: Training | TabularRun, config: Config | TabularConfig, short: bool = False
) -> str:
    """Return the numbers of every seed as a table in plain text, or ``short``: regrets alone."""
    if isinstance(run, TabularRun) and short:
        return textwrap.fill(", ".join(map(format_number, run.seed_scores["regret"])), 100)
    if isinstance(run, TabularRun):
        heads = ["seed", *(name.replace("_", " ") for name in run.seed_scores)]
        seeds: list[list[Any]] = [list(row) for row in zip(*run.seed_scores.values(), strict=True)]
        rows = [[str(seed), *row] for seed, row in zip(run.seeds, seeds, strict=True)]
        return text_table(heads, [*rows, ["mean", *map(mean_of, run.seed_scores.values())]])
    assert isinstance(config, Config)
    heads = ["step", *(f"seed {seed}" for seed in run.seeds), "mean"]
    rows = [
        [f"{step:,}", *values, mean_of(values)]
        for step, *values in zip(run.steps, *run.returns, strict=True)
    ]
    means = [mean_of(returns) for returns in run.returns]
    rows.append(["mean", *means, mean_of(means)])
    if config.solved_return is not None:
        solved = [solved_step(run, returns, config.solved_return) for returns in run.returns]
        rows.append(["solved", *solved, mean_of(solved)])
    return text_table(heads, rows)


def solved_step(training: Training, returns: Sequence[float | None], level: float) -> int | None:
    """Return the first step with a return of this level; None without one."""
    pairs = zip(training.steps, returns, strict=True)
    return next((step for step, value in pairs if value is not None and value >= level), None)


def known(values: Iterable[float | None]) -> list[float]:
    """Return the values that are not missing."""
    return [value for value in values if value is not None]


def mean_of(values: Sequence[float | None]) -> float | None:
    """Return the mean; None if a value is missing, so that no mean is over fewer seeds."""
    return None if None in values else statistics.fmean(known(values))


def text_table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table in plain text with aligned columns; a row begins with its name."""
    lines = [heads, *([row[0], *map(format_number, row[1:])] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True))
        for line in lines
    )


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    escaped = ([cell.replace("|", r"\|") for cell in row] for row in rows)
    return "\n".join(
        f"| {' | '.join(row)} |" for row in (columns, ["---"] * len(columns), *escaped)
    )
