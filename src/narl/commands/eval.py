"""`narl eval`: episodes of a trained policy, and a video of one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional

from narl.commands.arguments import RunsFolder, Switch, as_typed, parse, value
from narl.errors import Failure, InputError
from narl.storage.folder import check_writable

if TYPE_CHECKING:
    from narl.deep.agent import Agent

EXAMPLE = "narl eval train-narl-hopper-v5 --episodes 10 --video hopper.mp4"


@dataclasses.dataclass(frozen=True)
class Eval:
    """Run deterministic episodes of a trained policy.

    A finished run gives its last policy, an unfinished one that of its last checkpoint. The
    episodes are the same at every call, and others than those during the training.
    """

    run: Annotated[Positional[str], value("RUN")]
    """a run's id, the beginning of it, or its folder (also of a saved agent)"""
    episodes: Annotated[int, value("N", "(default: 10)")] = 10
    """episodes of each seed"""
    seed: Annotated[int | None, value("SEED", "(default: all)")] = None
    """evaluate the policy of this seed alone"""
    video: Annotated[Path | None, value("FILE")] = None
    """record the first episode of the best seed as .mp4 or .gif (needs narl[video])"""
    runs: RunsFolder = None
    """folder of the runs"""
    json: Switch = False
    """one JSON object on stdout, everything else on stderr"""


def main(arguments: Sequence[str]) -> int:
    """Runs the command."""
    config = parse(Eval, "narl eval", arguments, EXAMPLE)
    if config.episodes < 1:
        raise InputError(
            f"--episodes: {config.episodes} is too small; the nearest valid value is 1"
        )
    from narl.commands.console import print_json, warnings_as_notes
    from narl.deep.environment import EnvironmentFault

    try:
        with warnings_as_notes():
            found, failure = examine(config)
    except EnvironmentFault as fault:
        raise Failure(str(fault)) from fault
    except InputError as error:
        raise InputError(as_typed(Eval, str(error))) from error
    if config.json:
        print_json(found)
    else:
        show(found)
    if failure is not None:
        raise failure
    return 0


def examine(config: Eval) -> tuple[dict[str, Any], Failure | None]:
    """What --json prints, and why there is no video although one was wanted."""
    import numpy as np

    path, step = find(config)
    if config.video is not None:
        check_video(config.video)
    from narl.deep.agent import load

    agent = load(path)
    seeds = agent.seeds if config.seed is None else (config.seed,)
    agent.policy.actor(seeds[0])  # refuses a seed that was not trained
    if config.video is not None:
        check_pictures(agent)
    results: list[dict[str, Any]] = []
    for seed in seeds:
        episodes = agent.evaluate(config.episodes, seed)
        returns = np.array(episodes.returns)
        results.append(
            {
                "seed": seed,
                **{name: float(getattr(returns, name)()) for name in ("mean", "std", "min", "max")},
                "length": float(np.mean(episodes.lengths)),
                "returns": episodes.returns,
            }
        )
    best = max(results, key=lambda one: one["mean"])["seed"]
    failure = None if config.video is None else record(agent, config.video, best)
    video = None if config.video is None or failure is not None else str(config.video)
    found = {
        "run": path.name,
        "path": str(path),
        "algo": agent.algo,
        "env": agent.settings.env,
        "step": agent.num_steps,
        "finished": step is None,
        "episodes": config.episodes,
        "seeds": results,
        "best_seed": best,
        "video": video,
    }
    return found, failure


def record(agent: Agent, path: Path, seed: int) -> Failure | None:
    """Makes the video; what goes wrong is given back, for the episodes are not to be lost."""
    from narl.commands.console import note
    from narl.deep.environment import EnvironmentFault

    note(f"recording the first episode of seed {seed}")
    try:
        agent.record(path, seed)
    except (EnvironmentFault, InputError) as error:
        return Failure(as_typed(Eval, str(error)))
    except OSError as error:
        return Failure(f"--video: {path} was not written: {error.strerror or error}")
    return None


def find(config: Eval) -> tuple[Path, int | None]:
    """The folder, and the step of the last checkpoint if the training is not finished."""
    from narl.commands.training import refuse_other_runs
    from narl.storage.runs import MANIFEST, default_root
    from narl.storage.unfinished import UnfinishedRun, locate

    folder = Path(config.run)
    if (folder / MANIFEST).is_file():
        return folder, None
    root = default_root() if config.runs is None else config.runs
    found = locate(root, config.run)
    if not isinstance(found, UnfinishedRun):
        refuse_other_runs(found)
        return found.path, None
    if not found.step:
        raise InputError(f"run: {found.path.name} has no checkpoint yet; wait for its first epoch")
    return found.path, found.step


def check_video(path: Path) -> None:
    """Refuses what could not be written, before anything is run for it."""
    from narl.deep import rendering

    rendering.check_video(path)
    if path.is_dir():
        raise InputError(f"video: {path} is a folder; give a file, such as video.mp4")
    check_writable("video", path.absolute().parent, f"choose another place than {path}")


def check_pictures(agent: Agent) -> None:
    """Draws one picture; says in one line why it cannot."""
    from narl.deep.environment import EnvironmentFault
    from narl.deep.rendering import check_rendering

    try:
        agent.picture()
    except EnvironmentFault as fault:
        check_rendering()  # says what MuJoCo lacks, if it is MuJoCo
        raise Failure(f"video: {fault}") from fault


def show(found: dict[str, Any]) -> None:
    """What a person sees."""
    from rich.table import Table

    from narl.commands.console import stdout

    table = Table(box=None, pad_edge=False)
    for column in ("seed", "mean", "std", "min", "max", "length"):
        table.add_column(column, justify="right")
    for one in found["seeds"]:
        numbers = (f"{one[name]:.1f}" for name in ("mean", "std", "min", "max", "length"))
        table.add_row(str(one["seed"]), *numbers)
    console = stdout()
    state = "" if found["finished"] else ", not finished"
    console.print(
        f"{found['algo']} on {found['env']}, step {found['step']}{state}: "
        f"returns of {found['episodes']} episodes"
    )
    console.print(table)
    if found["video"] is not None:
        console.print(f"seed {found['best_seed']} in {found['video']}", soft_wrap=True)
