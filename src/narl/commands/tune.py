"""`narl tune`: search for values of options that give large returns."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from narl.commands.arguments import (
    EnvTimeout,
    JsonSwitch,
    RunsFolder,
    environment_parts,
    import_from_working_folder,
    runs_folder,
    value,
)
from narl.commands.config_arguments import ConfigCommand
from narl.deep.config import Config
from narl.options import as_text, option_fields
from narl.validation import MAX_SEED, check_count

if TYPE_CHECKING:
    from narl.sweeps.tuning import Trial

EXAMPLE = "narl tune Hopper-v5 --algo narl --trials 50 --over radius=0.01:1,exclude --seeds 0:3"


@dataclasses.dataclass(frozen=True)
class TuneArguments:
    """Search for the values of options that give the largest return (extra tune).

    - The options are those of narl train; they are the same in all trials.
    - Every trial is a run. A trial that falls behind the median of the others is pruned.
    - The same command continues a search that was stopped; with more --trials it goes on.
    """

    trials: Annotated[int, value("N", "(default: 20)")] = 20
    """number of trials"""
    over: Annotated[str | None, value("NAME[=LOW:HIGH],...")] = None
    """options to search, such as radius=0.01:1,members,exclude: numbers in a range, or in the usual
    one; all values of a choice; by default learning rate, updates per step, members, radius, bonus
    weight and reach, as far as the algorithm uses them and they are not given"""
    sampler_seed: Annotated[int, value("SEED", "(default: 0)")] = 0
    """seed of the search; another seed is another search"""
    env_timeout: EnvTimeout = None
    runs: RunsFolder = None
    json: JsonSwitch = False


COMMAND = ConfigCommand("narl tune", EXAMPLE, TuneArguments, option_fields(Config))


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status."""
    options, own = COMMAND.parse(arguments)
    import_from_working_folder()
    with COMMAND.errors_as_typed():
        trials = _search(options, own)
    done = [trial for trial in trials if trial.state == "done" and trial.mean_return is not None]
    ranked = sorted(done, key=lambda trial: trial.mean_return or 0.0, reverse=True)
    status = 0 if ranked else 1
    from narl.console import make_table, print_json, stdout

    if own.json:
        best = ranked[0]._asdict() if ranked else None
        print_json({"best": best, "trials": [trial._asdict() for trial in trials]})
        return status
    table = make_table("trial", "return", "run", "options", numbers=("trial", "return"))
    for trial in ranked[:10]:
        table.add_row(str(trial.number), f"{trial.mean_return:z.1f}", trial.run, _values(trial))
    stdout().print(table)
    counts = Counter(trial.state for trial in trials)
    stdout().print(f"{len(trials)} trials, {counts['pruned']} pruned, {counts['failed']} failed")
    return status


def _search(options: dict[str, Any], own: TuneArguments) -> list[Trial]:
    """Return the trials; an interrupt stops the search after a checkpoint."""
    from narl.compilation import enable_cache
    from narl.console import note, warnings_as_notes
    from narl.interrupts import run_with_checkpoint
    from narl.sweeps import tuning

    num_trials = check_count("trials", own.trials)
    seed = check_count("sampler_seed", own.sampler_seed, 0, MAX_SEED)
    env, algo = options.pop("env"), options.pop("algo", Config.algo)
    timeout = environment_parts(None, own.env_timeout).env_timeout
    if own.over is None:
        axes = tuning.default_axes(env, algo, options)
    else:
        axes = tuning.parse_axes(own.over)

    def on_trial(trial: Trial) -> None:
        mean = "" if trial.mean_return is None else f", return {trial.mean_return:z.1f}"
        found = " (found)" if trial.found else ""
        note(f"trial {trial.number}: {_values(trial)}: {trial.state}{mean}{found}")

    def work(should_stop: Callable[[], bool]) -> list[Trial]:
        more: Any = {"sampler_seed": seed, "should_stop": should_stop, "on_trial": on_trial}
        more["env_timeout"] = timeout
        return tuning.tune(env, algo, options, axes, num_trials, runs_folder(own.runs), **more)

    enable_cache()
    with warnings_as_notes():
        return run_with_checkpoint(work, "the same command continues from there")


def _values(trial: Trial) -> str:
    """Return the values of a trial as text, such as radius=0.1 exclude=ball."""
    return " ".join(
        f"{name}={f'{x:.4g}' if isinstance(x, float) else as_text(x)}"
        for name, x in trial.values.items()
    )
