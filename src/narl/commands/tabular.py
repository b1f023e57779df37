"""`narl tabular`: one agent in one environment, with many seeds, scored exactly."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional

from narl.commands.arguments import (
    RunsFolder,
    Switch,
    as_typed,
    either,
    parse,
    parse_seeds,
    value,
)
from narl.errors import InputError

if TYPE_CHECKING:
    from narl.storage.runs import Run
    from narl.tabular.config import Study

EXAMPLE = "narl tabular narl-ucrl riverswim --episodes 1000 --seeds 0:20"
MAX_EPISODES = 10_000_000


@dataclasses.dataclass(frozen=True)
class Tabular:
    """Run an agent in a tabular environment and score every episode exactly.

    - ENV can be a file, my.npz with p, r, p0, horizon, or be like gym:FrozenLake-v1.
    - An option that names agents in brackets is theirs alone.
    - What is left out keeps the agent's own default.
    - The finished run is kept, and found again when asked twice.
    """

    agent: Annotated[Positional[str], value("AGENT")]
    """narl-ucrl, narl-ucbvi, ucrl2, ucrl2-tabularl, ucbvi, psrl, opsrl, rlsvi or greedy"""
    env: Annotated[Positional[str], value("ENV")]
    """riverswim, stochastic-chain, deep-sea, deep-sea-stochastic, random-mdp, my.npz, gym:ID"""
    episodes: Annotated[int, value("K", "(default: 1000)")] = 1000
    """number of episodes"""
    seeds: Annotated[str, value("SEEDS", "(default: 0:20)")] = "0:20"
    """seeds, such as 3, 0:20 (without the 20), 0:20:2 or 0,4,7"""
    size: Annotated[int | None, value("N")] = None
    """size of the environment: states of RiverSwim, N of Deep Sea"""
    horizon: Annotated[int | None, value("H")] = None
    """steps per episode, where it is not fixed by the size"""
    env_seed: Annotated[int | None, value("SEED", "(default: 0)")] = None
    """which random MDP (random-mdp)"""
    until_solved: Switch = False
    """stop when every seed has solved Deep Sea"""
    preset: Annotated[str | None, value("paper")] = None
    """paper: the options as the paper prints them; what is given besides comes on top"""

    noise: Annotated[str | None, value("gaussian|theorem|bootstrap|dirichlet|fake-reward")] = None
    """fake-reward is narl-ucbvi's, bootstrap and dirichlet narl-ucrl's [narl-ucrl, narl-ucbvi]"""
    members: Annotated[int | None, value("M")] = None
    """M: noise vectors, bootstrap members or posterior draws [narl-ucrl, narl-ucbvi, opsrl]"""
    members_r: Annotated[int | None, value("M")] = None
    """M_r, where the rewards have another number than M [narl-ucrl]"""
    members_p: Annotated[int | None, value("M")] = None
    """M_P, where the dynamics have another number than M [narl-ucrl]"""
    c: Annotated[float | None, value("C")] = None
    """scale of the practical noise variance, such as c/N [narl-ucrl, narl-ucbvi, rlsvi]"""
    noised: Annotated[str | None, value("reward|dynamics|both")] = None
    """which parts carry noise [narl-ucrl]"""
    measure: Annotated[str | None, value("signed|centred|simplex")] = None
    """how the noised dynamics are treated [narl-ucrl]"""
    per_stage: Annotated[bool | None, either("per-stage")] = None
    """draw the dynamics noise afresh at every stage [narl-ucrl]"""
    empty: Annotated[str | None, value("normal|one|none")] = None
    """what a bootstrap member without data at (s,a) takes there [narl-ucrl]"""
    clip: Annotated[str | None, value("horizon|none")] = None
    """clip values to [0, H-h], or not [narl-ucrl, ucrl2, rlsvi]"""
    clip_reward: Annotated[bool | None, either("clip-reward")] = None
    """clip noised rewards to [0, 1] [narl-ucrl]"""
    epsilon: Annotated[float | None, value("EPS")] = None
    """the theorems hold with probability 1 - EPS [narl-ucrl, narl-ucbvi]"""
    corrected: Annotated[bool | None, either("corrected")] = None
    """theorem noise: the M that the proof needs, not the printed one [narl-ucrl, narl-ucbvi]"""
    running_min: Annotated[bool | None, either("running-min")] = None
    """take the minimum with the previous episode's Q (Eq. 4) [narl-ucbvi]"""
    fakes: Annotated[int | None, value("M_B")] = None
    """fake rewards of each sign per real one [narl-ucbvi]"""
    rescaled: Annotated[bool | None, either("rescaled")] = None
    """fake-reward noise with the mean put right; not so as printed [narl-ucbvi]"""
    delta: Annotated[float | None, value("DELTA")] = None
    """failure probability of the confidence sets [ucrl2, ucrl2-tabularl, ucbvi]"""
    scale: Annotated[float | None, value("X")] = None
    """multiplies the confidence widths or the bonus [ucrl2, ucrl2-tabularl, ucbvi]"""
    compounding: Annotated[bool | None, either("compounding")] = None
    """keep each backup's slack in the estimate, as the baseline code does [ucrl2-tabularl]"""
    bonus: Annotated[str | None, value("hoeffding|bernstein")] = None
    """which exploration bonus [ucbvi]"""
    constants: Annotated[str | None, value("practical|theory")] = None
    """constants of the bonus or noise: practical, or those of the proofs [ucbvi, rlsvi]"""
    alpha0: Annotated[float | None, value("X")] = None
    """prior weight of every transition [psrl, opsrl]"""
    mu0: Annotated[float | None, value("X")] = None
    """prior mean of the rewards [psrl, opsrl]"""
    tau0: Annotated[float | None, value("X")] = None
    """prior precision of the rewards [psrl, opsrl]"""
    tau: Annotated[float | None, value("X")] = None
    """precision of the reward noise that the posterior assumes [psrl, opsrl]"""

    runs: RunsFolder = None
    """folder of the runs"""
    fresh: Switch = False
    """run again, even if the finished run is there"""
    json: Switch = False
    """one JSON object on stdout, everything else on stderr"""


OF_THE_RUN = frozenset(
    {"agent", "env", "episodes", "seeds", "size", "horizon", "env_seed", "until_solved"}
    | {"preset", "runs", "fresh", "json"}
)
"""The fields of `Tabular` that are no options of an agent."""


def main(arguments: Sequence[str]) -> int:
    """Runs the command."""
    config = parse(Tabular, "narl tabular", arguments, EXAMPLE)
    item = _study(config)
    from narl.commands.console import Bars, note, print_json
    from narl.commands.interrupts import interruptible
    from narl.compilation import enable_cache
    from narl.storage.runs import default_root
    from narl.tabular.config import execute

    root = default_root() if config.runs is None else config.runs
    enable_cache()
    label = f"{config.agent} on {config.env}"

    def work() -> tuple[Run, bool]:
        bars.begin(label, item.episodes)
        return execute(
            item, root, progress=lambda done: bars.advance(label, done), fresh=config.fresh
        )

    with Bars(lines=False) as bars:
        kept, found = interruptible(work)
    remark = beyond_unit_rewards(item)
    if remark is not None:
        note(remark)
    if config.json:
        print_json(summary(config, kept, found))
    else:
        show(config, kept, found)
    return 0


def _study(config: Tabular) -> Study:
    """The checked study; whatever is wrong is said before anything is written."""
    seeds = parse_seeds(config.seeds)
    if config.episodes > MAX_EPISODES:
        raise InputError(
            f"--episodes: {config.episodes} is too large; the nearest valid value is {MAX_EPISODES}"
        )
    if config.episodes < 1:
        raise InputError(
            f"--episodes: {config.episodes} is too small; the nearest valid value is 1"
        )
    if config.env_seed is not None and config.env != "random-mdp":
        raise InputError(f"--env-seed: {config.env} is not drawn at random; leave it out")
    from narl.tabular.config import study
    from narl.tabular.registry import agent_options

    given = {
        field.name: getattr(config, field.name)
        for field in dataclasses.fields(config)
        if field.name not in OF_THE_RUN and getattr(config, field.name) is not None
    }
    try:
        agent_options(config.agent, config.preset, **given)
        item = study(
            config.agent,
            env=config.env,
            size=config.size,
            horizon=config.horizon,
            env_seed=config.env_seed or 0,
            episodes=config.episodes,
            seeds=seeds,
            preset=config.preset,
            until_solved=config.until_solved,
            **given,
        )
        mdp = item.mdp()
        if config.until_solved and mdp.bad is None:
            raise InputError(f"until_solved: {config.env} is never solved; it is for deep-sea")
    except InputError as error:
        raise InputError(as_typed(Tabular, str(error))) from None
    return item


def beyond_unit_rewards(item: Study) -> str | None:
    """A remark where the rewards leave [0, 1], for which the paper's bonuses and noise are made."""
    mdp = item.mdp()
    least, most = float(mdp.r.min()), float(mdp.r.max())
    if least >= -0.05 and most <= 1.05:  # Deep Sea's moves cost a little
        return None
    return (
        f"note: mean rewards of {mdp.name} lie in [{least:g}, {most:g}]; bonuses, noise and priors "
        "are made for [0, 1], so agents may not be optimistic here: scale the rewards"
    )


def summary(config: Tabular, kept: Run, found: bool) -> dict[str, Any]:
    """What --json prints."""
    return {
        "agent": config.agent,
        "env": config.env,
        "horizon": kept.config["horizon"],
        "seeds": kept.config["seeds"],
        "options": kept.config["options"],
        **kept.metrics,
        "run": kept.id,
        "path": str(kept.path),
        "found": found,
    }


def show(config: Tabular, kept: Run, found: bool) -> None:
    """What a person sees."""
    from rich.table import Table

    from narl.commands.console import stdout

    metrics = kept.metrics
    table = Table(box=None, pad_edge=False)
    table.add_column("sum over episodes")
    for column in ("median", "q25", "q75"):
        table.add_column(column, justify="right")
    rows = (
        ("regret", "regret"),
        ("= optimism", "optimism"),
        ("+ estimation error", "estimation_error"),
    )
    for label, name in rows:
        numbers = (metrics[name][column] for column in ("median", "q25", "q75"))
        table.add_row(label, *(_number(x) for x in numbers), style="bold" if label == name else "")
    console = stdout()
    console.print(
        f"{config.agent} on {kept.config['env']}: {metrics['episodes']} episodes of "
        f"{kept.config['horizon']} steps, {_counted(len(kept.config['seeds']), 'seed')}, "
        f"V* = {metrics['v_star']:.4f}"
    )
    console.print(table)
    console.print("(the terms add up in every seed; their medians need not)", style="dim")
    if metrics.get("solved_episode"):
        console.print(_solved(metrics["solved_episode"]))
    seconds = metrics["seconds"]
    if found:
        console.print("found, not run again (--fresh runs it again)")
    else:
        console.print(f"{seconds['run']:.1f} s, and {seconds['compile']:.1f} s to compile")
    console.print(f"kept in {kept.path}", soft_wrap=True)


def _number(x: float | None) -> str:
    return "-" if x is None else f"{x:.2f}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _solved(episodes: list[int | None]) -> str:
    """In how many seeds Deep Sea was solved, and when."""
    from narl.stats import median_iqr

    times = [math.inf if episode is None else float(episode) for episode in episodes]
    solved = sum(episode is not None for episode in episodes)
    line = f"solved with {solved} of {_counted(len(episodes), 'seed')}"
    median = float(median_iqr(times)[0])
    return f"{line}, at episode {median:.0f} (median)" if math.isfinite(median) else line
