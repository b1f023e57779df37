"""The policy that a user names on the command line, ready to act."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from narl.commands.arguments import import_from_working_folder
from narl.deep.agent import Agent
from narl.deep.best_policy import read_best_actors
from narl.deep.load_agent import load
from narl.run_lookup import find_policy


class LoadedPolicy(NamedTuple):
    """An agent that was loaded to act, and where it was."""

    agent: Agent
    path: Path
    is_finished: bool
    steps: dict[int, int]
    """The step of each seed's policy."""


def load_policy(
    root: Path, text: str, *, best: bool = False, trust_env_module: bool = False
) -> LoadedPolicy:
    """Load the policy of a run or of a saved agent; with ``best``, that of the best evaluations.

    This is the one place where the name of a policy becomes an agent.
    """
    path, is_finished = find_policy(root, text)
    if trust_env_module:
        import_from_working_folder()
    agent = load(path, trust_env_module=trust_env_module)
    steps = [agent.num_steps] * len(agent.seeds)
    if best:
        actors, steps = read_best_actors(path)
        agent._learner.networks |= actors
    return LoadedPolicy(agent, path, is_finished, dict(zip(agent.seeds, steps, strict=True)))
