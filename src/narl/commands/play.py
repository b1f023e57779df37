"""`narl play`: watch a trained policy in a window."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from tyro.conf import Positional

from narl.commands.arguments import (
    JsonSwitch,
    RunsFolder,
    Switch,
    TrustModule,
    errors_as_typed,
    parse,
    runs_folder,
    value,
)
from narl.errors import EnvironmentFault, Failure
from narl.run_lookup import POLICY_HELP
from narl.validation import check_count

EXAMPLE = "narl play latest --episodes 3"


@dataclasses.dataclass(frozen=True)
class Play:
    """Watch a trained policy in a window on the screen.

    Without a screen, record a video: narl eval RUN --video F.mp4.
    """

    run: Annotated[Positional[str], value("RUN", help=POLICY_HELP)]
    episodes: Annotated[int, value("N", "(default: 3)")] = 3
    """episodes to play"""
    seed: Annotated[int | None, value("SEED", "(default: the first)")] = None
    """play the policy of this seed"""
    best: Switch = False
    """play the policy as it was at the seed's best evaluation, not the last one"""
    trust_env_module: TrustModule = False
    runs: RunsFolder = None
    json: JsonSwitch = False


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status."""
    args = parse(Play, "narl play", arguments, EXAMPLE)
    from narl.commands.load_policy import load_policy
    from narl.console import note, print_json, stdout, warnings_as_notes
    from narl.deep.window import watch
    from narl.display import figure

    try:
        with warnings_as_notes(), errors_as_typed(Play):
            num_episodes = check_count("episodes", args.episodes)
            loaded = load_policy(
                runs_folder(args.runs),
                args.run,
                best=args.best,
                trust_env_module=args.trust_env_module,
            )
            agent = loaded.agent
            shown = watch(agent, num_episodes, args.seed)
            step = loaded.steps[agent.seeds[0] if args.seed is None else args.seed]
            note(f"{agent.algo} on {agent.config.env}, step {step}; Ctrl-C ends it")
            episodes = []
            for episode in shown:
                episodes.append(episode)
                if not args.json:
                    line = f"episode {len(episodes)}: return {figure(episode.total)}"
                    stdout().print(f"{line}, {episode.length} steps")
    except EnvironmentFault as fault:
        raise Failure(str(fault)) from fault
    if args.json:
        returns, lengths = ([x[i] for x in episodes] for i in range(2))
        result = {"run": loaded.path.name, "algo": agent.algo, "env": agent.config.env}
        print_json(result | {"returns": returns, "lengths": lengths})
    return 0
