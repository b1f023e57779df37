"""`narl eval`: play episodes of a trained policy and record a video."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional

from narl.commands.arguments import (
    JsonSwitch,
    RunsFolder,
    Switch,
    TrustModule,
    as_typed,
    errors_as_typed,
    parse,
    runs_folder,
    value,
)
from narl.errors import EnvironmentFault, Failure, InputError
from narl.run_lookup import POLICY_HELP, find_policy
from narl.validation import check_count

if TYPE_CHECKING:
    from narl.deep.agent import Agent

EXAMPLE = "narl eval train-narl-hopper-v5 --episodes 10 --video hopper.mp4"


@dataclasses.dataclass(frozen=True)
class Eval:
    """Play deterministic episodes of a trained policy.

    A finished run gives its last policy, an unfinished one the policy of its last checkpoint. The
    episodes are the same at every call, and none of them was played during the training.
    """

    run: Annotated[Positional[str], value("RUN", help=POLICY_HELP)]
    episodes: Annotated[int, value("N", "(default: 10)")] = 10
    """episodes of each seed"""
    seed: Annotated[int | None, value("SEED", "(default: all)")] = None
    """evaluate the policy of this seed only"""
    best: Switch = False
    """evaluate every policy as it was at its best evaluation, not the last one"""
    video: Annotated[Path | None, value("FILE")] = None
    """record the first episode of the best seed as .mp4 or .gif (extra video)"""
    trust_env_module: TrustModule = False
    runs: RunsFolder = None
    json: JsonSwitch = False


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status."""
    args = parse(Eval, "narl eval", arguments, EXAMPLE)
    from narl.console import print_json, warnings_as_notes

    try:
        with warnings_as_notes(), errors_as_typed(Eval):
            result, video_failure = evaluate(args)
    except EnvironmentFault as fault:
        raise Failure(str(fault)) from fault
    if args.json:
        print_json(result)
    else:
        print_result(result)
    if video_failure is not None:
        raise video_failure
    return 0


def evaluate(args: Eval) -> tuple[dict[str, Any], Failure | None]:
    """Return the JSON object that `--json` prints, and why a video could not be recorded."""
    from narl.commands.load_policy import load_policy

    check_count("episodes", args.episodes)
    root = runs_folder(args.runs)
    find_policy(root, args.run)  # before JAX is imported
    if args.video is not None:
        check_video_path(args.video)
    agent, path, is_finished, steps = load_policy(
        root, args.run, best=args.best, trust_env_module=args.trust_env_module
    )
    seeds = agent.seeds if args.seed is None else (args.seed,)
    agent.policy.actor(seeds[0])  # refuses a seed that was not trained
    results = [evaluate_seed(agent, args.episodes, seed) | {"step": steps[seed]} for seed in seeds]
    best_seed = max(results, key=lambda result: result["mean"])["seed"]
    failure = None if args.video is None else record_video(agent, args.video, best_seed)
    has_video = args.video is not None and failure is None
    return {
        "run": path.name,
        "path": str(path),
        "algo": agent.algo,
        "env": agent.config.env,
        "step": agent.num_steps,
        "finished": is_finished,
        "best": args.best,
        "episodes": args.episodes,
        "seeds": results,
        "best_seed": best_seed,
        "video": str(args.video) if has_video else None,
    }, failure


def evaluate_seed(agent: Agent, num_episodes: int, seed: int) -> dict[str, Any]:
    """Return the returns of the policy of one seed, and their statistics."""
    import numpy as np

    evaluation = agent.evaluate(num_episodes, seed)
    returns = np.array(evaluation.returns)
    return {
        "seed": seed,
        **{name: float(getattr(returns, name)()) for name in ("mean", "std", "min", "max")},
        "length": float(np.mean(evaluation.lengths)),
        "returns": evaluation.returns,
    }


def record_video(agent: Agent, path: Path, seed: int) -> Failure | None:
    """Record a video; a failure is returned, not raised, so that the returns are printed."""
    from narl.console import note
    from narl.deep.rendering_backend import check_rendering

    note(f"recording the first episode of seed {seed}")
    try:
        try:
            agent.record(path, seed)
        except EnvironmentFault:
            check_rendering()  # raises the reason if MuJoCo cannot draw
            raise
    except (EnvironmentFault, InputError) as error:
        return Failure(f"no video was made: {as_typed(Eval, str(error))}")
    except OSError as error:
        return Failure(f"--video: {path} was not written: {error.strerror or error}")
    return None


def check_video_path(path: Path) -> None:
    """Refuse a file that could not be written, before any episode is played."""
    from narl.deep.video import check_video_name
    from narl.storage import check_writable

    check_video_name(path)
    if path.is_dir():
        raise InputError(f"video: {path} is a folder; give a file, such as video.mp4")
    check_writable("video", path.absolute().parent, f"choose another place than {path}")


def print_result(result: dict[str, Any]) -> None:
    """Print a row per seed for people."""
    from narl.console import make_table, stdout
    from narl.display import figure

    figures = ("mean", "std", "min", "max", "length")
    names = ("seed", "step") if result["best"] else ("seed",)  # the last policies share a step
    table = make_table(*names, *figures, numbers=(*names, *figures))
    for per_seed in result["seeds"]:
        cells = [str(per_seed[name]) for name in names]
        table.add_row(*cells, *(figure(per_seed[name]) for name in figures))
    console = stdout()
    state = "best policies" if result["best"] else f"step {result['step']}"
    state += "" if result["finished"] else ", not finished"
    console.print(
        f"{result['algo']} on {result['env']}, {state}: "
        f"returns of {result['episodes']} episode{'s' * (result['episodes'] != 1)}"
    )
    console.print(table)
    if result["video"] is not None:
        console.print(f"seed {result['best_seed']} in {result['video']}", soft_wrap=True)
