"""`narl tabular`: run one agent in one environment with many seeds, scored exactly."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from narl.commands.arguments import JsonSwitch, RunsFolder, Switch, runs_folder
from narl.commands.config_arguments import ConfigCommand
from narl.display import counted, figure
from narl.options import option_fields
from narl.tabular.checked_options import all_option_fields
from narl.tabular.config import Config, make_config

if TYPE_CHECKING:
    from narl.storage.runs import Run
    from narl.tabular.mdp import TabularMDP


@dataclasses.dataclass(frozen=True)
class TabularArguments:
    """Run an agent in a tabular environment and score every episode exactly.

    - ENV can be a file, my.npz with p, r, p0, horizon, or gym:FrozenLake-v1 and the like.
    - An option that names agents in brackets is for these agents only.
    - A finished run is kept; the same command finds it again.
    """

    runs: RunsFolder = None
    fresh: Switch = False
    """run again, even if there is a finished run"""
    json: JsonSwitch = False


COMMAND = ConfigCommand(
    "narl tabular",
    "narl tabular narl-ucrl riverswim --episodes 1000 --seeds 0:20",
    TabularArguments,
    (*option_fields(Config), *all_option_fields()),
)


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status."""
    given, own = COMMAND.parse(arguments)
    with COMMAND.errors_as_typed():
        config = make_config(**given)
        mdp = config.make_mdp()
        run, found = _run(config, mdp, own)
    from narl.console import note, print_json

    remark = reward_range_remark(mdp)
    if remark is not None:
        note(remark)
    if own.json:
        print_json(summary(config, run, found))
    else:
        show(config, run, found)
    return 0


def _run(config: Config, mdp: TabularMDP, own: TabularArguments) -> tuple[Run, bool]:
    """Return the finished run and whether it was found, with a progress bar on stderr."""
    from narl.compilation import enable_cache
    from narl.console import Bars
    from narl.interrupts import run_interruptible
    from narl.tabular.stored_run import run_config

    enable_cache()
    label = f"{config.agent} on {config.env}"

    def work() -> tuple[Run, bool]:
        bars.begin(label, config.episodes)
        return run_config(
            config,
            runs_folder(own.runs),
            mdp=mdp,
            progress=lambda done: bars.advance(label, done),
            fresh=own.fresh,
        )

    with Bars(lines=False) as bars:
        return run_interruptible(work)


def reward_range_remark(mdp: TabularMDP) -> str | None:
    """Return a remark if rewards leave [0, 1], the range of the paper's bonuses and noise."""
    lowest, highest = float(mdp.r.min()), float(mdp.r.max())
    if lowest >= -0.05 and highest <= 1.05:  # moves in Deep Sea cost a little
        return None
    return (
        f"note: mean rewards of {mdp.name} lie in [{lowest:g}, {highest:g}]; bonuses, noise and "
        "priors are made for [0, 1], so agents may not be optimistic here; --scale-rewards scales "
        "them"
    )


def summary(config: Config, run: Run, found: bool) -> dict[str, Any]:
    """Return the object that --json prints."""
    return {
        "agent": config.agent,
        "env": config.env,
        "horizon": run.config["horizon"],
        "seeds": run.config["seeds"],
        "options": run.config["options"],
        **run.metrics,
        "run": run.id,
        "path": str(run.path),
        "found": found,
    }


def show(config: Config, run: Run, found: bool) -> None:
    """Print the result for people."""
    from narl.console import make_table, stdout

    metrics, names = run.metrics, ("median", "mean", "worst")
    table = make_table("sum over episodes", *names, numbers=names)
    rows = {
        "regret": "regret",
        "= optimism": "optimism",
        "+ estimation error": "estimation_error",
    }
    for label, name in rows.items():
        numbers = (figure(metrics[name].get(each), 2) for each in names)
        table.add_row(label, *numbers, style="bold" if label == name else "")
    console = stdout()
    console.print(
        f"{config.agent} on {run.config['env']}: {metrics['episodes']} episodes of "
        f"{run.config['horizon']} steps, {counted(len(run.config['seeds']), 'seed')}, "
        f"V* = {metrics['v_star']:z.4f}"
    )
    console.print(table)
    remark = "(worst: the seed with the largest regret; medians need not add up)"
    console.print(remark, style="dim")
    if metrics.get("solved_episode"):
        console.print(_solved(metrics["solved_episode"]))
    seconds = metrics["seconds"]
    if found:
        console.print("found, not run again (--fresh runs it again)")
    else:
        console.print(f"{seconds['run']:.1f} s, and {seconds['compile']:.1f} s to compile")
    console.print(f"kept in {run.path}", soft_wrap=True)


def _solved(episodes: list[int | None]) -> str:
    """Return how many seeds solved Deep Sea, and at which episode."""
    from narl.stats import median_iqr

    times = [math.inf if episode is None else float(episode) for episode in episodes]
    solved = sum(episode is not None for episode in episodes)
    line = f"solved with {solved} of {counted(len(episodes), 'seed')}"
    median, last = float(median_iqr(times)[0]), max(times)
    if not math.isfinite(median):
        return line
    worst = f"; the last at {last:.0f}, mean {sum(times) / len(times):.0f}"
    return f"{line}, at episode {median:.0f} (median{worst if math.isfinite(last) else ''})"
