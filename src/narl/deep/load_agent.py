"""Agents made again from the folders that `Agent.save` and `narl train` left."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from narl.deep.agent import Agent, Env
from narl.deep.bonus import BonusFn
from narl.deep.config import used_by
from narl.deep.env_code import current_env_code, env_module_problem, is_same_code
from narl.deep.make_environment import UserEnvironment
from narl.deep.named_agents import AGENTS
from narl.deep.policy import check_interface
from narl.deep.saved_agent import read_saved_agent
from narl.deep.selection import SelectFn
from narl.deep.termination import check_termination
from narl.deep.training_environment import look_at_env
from narl.deep.user_parts import UserParts
from narl.options import check_used_by
from narl.run_lookup import find_policy
from narl.storage import default_root

_log = logging.getLogger("narl")


def load(
    folder: Path | str,
    env: Env | None = None,
    termination: Callable[..., Any] | None = None,
    select: SelectFn | None = None,
    bonus: BonusFn | None = None,
    trust_env_module: bool = False,
) -> Agent:
    """Load the agent that `Agent.save` or `narl train` left in a folder, with the same policy.

    An unfinished training (ID.part) gives the agent of its last checkpoint. Learning can go on if
    the data were saved too. What was the user's own must be given again, unless only
    `Agent.predict` is called.

    Args:
        folder: The folder; or the name of a run in the folder of the runs, as on the command line:
            an id, its beginning or its last ten digits, or "latest"; or the name of a pretrained
            policy, such as "hopper".
        env: An environment as `Agent` takes it, with the spaces of the training; by default the
            one of the training.
        termination: The user's own rule by which episodes end.
        select: The user's own selection.
        bonus: The user's own bonus.
        trust_env_module: Whether to import the module of an id such as my_module:MyEnv-v0 that the
            folder names; it is not needed for a module that is imported already.

    Returns:
        The agent.

    Example:
        >>> agent = narl.SAC("Pendulum-v1", seed=3)
        >>> folder = agent.save("pendulum")
        >>> bool((narl.load(folder).predict(np.ones(3))[0] == agent.predict(np.ones(3))[0]).all())
        True
    """
    typed_env = env if isinstance(env, str) else None
    folder = _find_folder(folder)
    saved = read_saved_agent(folder, typed_env, trust_env_module)
    config = saved.config if typed_env is None else dataclasses.replace(saved.config, env=typed_env)
    if termination is not None:
        check_termination(termination, names_allowed=False)
        check_used_by(("termination",), used_by, config.algo, "algorithm")
    user_env = None if env is None or isinstance(env, str) else UserEnvironment(env)
    if env is not None:
        check_interface(saved.policy.interface, *look_at_env(config, user_env))
    agent_class = AGENTS.get(config.algo, Agent)
    parts = UserParts(user_env, None, select, bonus)
    agent = agent_class._restore(saved, config, parts, termination)
    given = {"env": env, "termination": termination, "select": select, "bonus": bonus}
    missing = _missing_parts(saved.record, given)
    agent._no_env = missing.pop("env", "")
    if env is None and not agent._no_env:
        agent._no_env = env_module_problem(config.env, trusted=trust_env_module)
    no_state = "" if saved.state else f"learn: {saved.no_state}, or make a new agent"
    agent._learner.problem = no_state or next(iter(missing.values()), "")
    if saved.state is not None and saved.env_code and not agent._no_env:
        _compare_code(saved.env_code, current_env_code(config, user_env), folder)
    elif env is None:
        agent._trained_code = saved.env_code
    return agent


def _find_folder(name: Path | str) -> Path:
    """Return an agent's folder from a path, a run id or the name of a pretrained policy."""
    path = Path(name)
    if os.path.exists(path) or os.path.dirname(path):
        return path
    return find_policy(default_root(), str(name))[0]


def _missing_parts(record: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, str]:
    """Return an error for each part that was the user's own and that is not given again."""
    return {
        name: f"{name}: it was the user's own; give it to narl.load again, {name}=…"
        for name, part in given.items()
        if record.get(f"own_{name}") and part is None
    }


def _compare_code(saved_code: str, code: str, folder: Path) -> None:
    """Warn if the environment's code is not the one with which the folder was written."""
    if not is_same_code(saved_code, code):
        _log.warning("%s: its data are of other code of the environment than the present", folder)
