"""Conversion of MDPs: from and to Gymnasium's finite environments and `.npz` files."""

from __future__ import annotations

import contextlib
import os
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec

import narl.gymnasium_registration  # noqa: F401 (registers the environments)
from narl import storage
from narl.errors import InputError, unknown
from narl.tabular.checked_mdp import make_mdp, with_horizon
from narl.tabular.mdp import MAX_ENTRIES, Array, TabularMDP, find_mdp

REQUIRED = ("p", "r", "p0", "horizon")
OPTIONAL = ("successors", "r_std", "bad", "solved_rule", "name")
MOST_BYTES = 3 * 8 * MAX_ENTRIES
"""Bytes of the largest file that is read: P, its successors and all the rest in 64 bits."""


class TabularEnv(gymnasium.Env[int, int]):
    """A `TabularMDP` as a Gymnasium environment: observations are states, `info["h"]` is the step.

    The episode ends after H steps with `terminated`, not `truncated`: Gymnasium's `truncated` is
    for limits outside the MDP, after which a learner bootstraps from the last state. Here the
    horizon is part of the MDP and V_H = 0.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012 (Gymnasium declares it so)

    def __init__(self, mdp: TabularMDP, render_mode: str | None = None) -> None:
        if render_mode not in (None, "ansi"):
            raise unknown("render_mode", str(render_mode), ["ansi"])
        self.mdp = mdp
        self.render_mode = render_mode
        self.observation_space: Any = gymnasium.spaces.Discrete(mdp.num_states)
        self.action_space: Any = gymnasium.spaces.Discrete(mdp.num_actions)
        # Gymnasium's checker makes the environment anew from its spec.
        self.spec = EnvSpec(
            id="narl/" + re.sub(r"[^\w.]+", "-", mdp.name or "mdp") + "-v0",
            entry_point="narl.tabular.io:TabularEnv",
            kwargs={"mdp": mdp},
        )
        self._state, self._h, self._last = 0, mdp.horizon, ""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        self._state = self._draw(self.mdp.p0)
        self._h, self._last = 0, ""
        return self._state, {"h": 0}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        if self._h >= self.mdp.horizon:
            raise gymnasium.error.ResetNeeded("the episode is over; call reset() first")
        if not self.action_space.contains(action):
            raise InputError(
                f"action: {action!r} is wrong; it must lie in 0..{self.mdp.num_actions - 1}"
            )
        at = self._state, int(action)
        reward = float(self.mdp.r[at] + self.mdp.r_std[at] * self.np_random.standard_normal())
        self._state = self._draw(self.mdp.next_state(*at))
        self._h += 1
        self._last = f", after action {action} with reward {reward:.4g}"
        return self._state, reward, self._h == self.mdp.horizon, False, {"h": self._h}

    def render(self) -> str | None:
        if self.render_mode is None:
            return None
        return f"step {self._h} of {self.mdp.horizon}: state {self._state}{self._last}\n"

    def _draw(self, distribution: Array) -> int:
        return int(self.np_random.choice(self.mdp.num_states, p=distribution))


def to_gymnasium(
    mdp: TabularMDP | str | os.PathLike[str], render_mode: str | None = None
) -> TabularEnv:
    """Return the MDP as an environment that passes Gymnasium's own checker.

    Args:
        mdp: The MDP, or its name (see `make`).
        render_mode: None, or "ansi" for a line of text per step.

    Returns:
        A Gymnasium environment with Discrete observations (states) and actions.

    Example:
        >>> env = narl.tabular.to_gymnasium(narl.tabular.riverswim())
        >>> state, info = env.reset(seed=0)
        >>> env.step(0)
        (0, 0.005, False, False, {'h': 1})
    """
    return TabularEnv(find_mdp(mdp), render_mode)


def from_gymnasium(
    env: str | gymnasium.Env, horizon: int | None = None, **kwargs: Any
) -> TabularMDP:
    """Return the MDP of a finite environment with a table `P` (FrozenLake, Taxi, CliffWalking, …).

    Transitions that terminate lead to one added state, which is never left and has no rewards. `r`
    is the exact mean reward of (s,a) and `r_std` its exact standard deviation; a dependence of
    rewards on the next state is not kept, which changes no value of any policy.

    Args:
        env: An environment, or an id, which is made with ``kwargs``.
        horizon: Steps in every episode; by default the time limit of the environment.
        **kwargs: Arguments of `gymnasium.make`.

    Returns:
        The MDP.

    Example:
        >>> lake = narl.tabular.from_gymnasium("FrozenLake-v1", horizon=30, is_slippery=False)
        >>> narl.tabular.solve(lake).value
        1.0
    """
    if isinstance(env, str):
        with contextlib.closing(_opened(env, kwargs)) as opened:
            return from_gymnasium(opened, horizon)
    if kwargs:
        raise InputError(f"{next(iter(kwargs))}: only goes with an id, not with a made environment")
    core = env.unwrapped
    if isinstance(core, TabularEnv):
        return core.mdp if horizon is None else with_horizon(core.mdp, horizon)
    name = env.spec.id if env.spec else type(core).__name__
    table = _table(name, core)
    if horizon is None:
        horizon = env.spec.max_episode_steps if env.spec else None
    if horizon is None:
        raise InputError(f"horizon: {name} has no time limit of its own; give one >= 1")
    p, r, r_std = _moments(name, table)
    p0 = np.zeros(len(p))
    p0[: len(table)] = _start(name, core, len(table))
    return make_mdp(p, r, p0, horizon, r_std=r_std, name=name)


def _opened(name: str, kwargs: Mapping[str, Any]) -> gymnasium.Env:
    try:
        return gymnasium.make(name, **kwargs)
    except (gymnasium.error.Error, ImportError, TypeError, ValueError, KeyError) as problem:
        raise InputError(f"env: Gymnasium cannot make {name!r}: {_line(problem)}") from None


Outcomes = Sequence[tuple[float, int, float, bool]]
"""P[s][a]: probability, next state, reward, whether the episode terminates."""


def _table(name: str, core: gymnasium.Env) -> list[list[Outcomes]]:
    table = getattr(core, "P", None)
    if not isinstance(table, Mapping | Sequence):
        raise InputError(
            f"env: {name} has no transition table P; "
            "take a finite environment such as FrozenLake-v1, Taxi-v4 or CliffWalking-v1"
        )
    if getattr(core, "fickle_passenger", False):
        raise InputError(f"env: {name} with fickle_passenger=True does not follow its table P")
    try:
        rows = [[table[s][a] for a in range(len(table[s]))] for s in range(len(table))]
    except (KeyError, TypeError):
        raise InputError(f"env: {name}: P is not P[0..S-1][0..A-1]") from None
    if len({len(row) for row in rows}) != 1:
        raise InputError(f"env: {name}: P does not give every state the same actions")
    return rows


def _moments(name: str, table: list[list[Outcomes]]) -> tuple[Array, Array, Array]:
    """Return P, mean and standard deviation of the rewards, with the added last state if needed."""
    num_states, num_actions = len(table), len(table[0])
    ends = any(end for row in table for outcomes in row for *_, end in outcomes)
    p = np.zeros((num_states + ends, num_actions, num_states + ends))
    r, r_std = np.zeros(p.shape[:2]), np.zeros(p.shape[:2])
    p[num_states:, :, num_states:] = 1
    for s, row in enumerate(table):
        for a, outcomes in enumerate(row):
            for probability, following, _, end in outcomes:
                if not end and not 0 <= following < num_states:
                    raise InputError(
                        f"env: {name}: P[{s}][{a}] leads to {following}, "
                        f"which is no state in 0..{num_states - 1}"
                    )
                p[s, a, num_states if end else following] += probability
            chances = np.array([outcome[0] for outcome in outcomes], dtype=float)
            rewards = np.array([outcome[2] for outcome in outcomes], dtype=float)
            # The last digit of `@` depends on the processor, and the id of a run on this digit.
            r[s, a] = (chances * rewards).sum()
            variance = (chances * (rewards - r[s, a]) ** 2).sum()
            r_std[s, a] = np.sqrt(np.maximum(variance, 0))
    return p, r, r_std


def _start(name: str, core: gymnasium.Env, num_states: int) -> Array:
    """Return P_0: the environment's own, or the one state in which every reset ends."""
    if hasattr(core, "initial_state_distrib"):
        p0 = np.asarray(core.initial_state_distrib, dtype=float)
        if p0.shape != (num_states,):
            raise InputError(f"env: {name}: initial_state_distrib must have {num_states} entries")
        return p0
    if hasattr(core, "start_state_index"):
        first = {int(core.start_state_index)}
    else:
        first = {int(core.reset(seed=seed)[0]) for seed in range(100)}
    if len(first) > 1:
        raise InputError(
            f"env: {name} starts at random but has no initial_state_distrib to tell how"
        )
    return np.eye(num_states)[first.pop()]


def save_npz(path: str | os.PathLike[str], mdp: TabularMDP | str | os.PathLike[str]) -> Path:
    """Write the MDP to a file for `load_npz`; a failed write leaves no partial file.

    The dynamics of a large MDP are written in slots, with their `successors`.

    Args:
        path: The file; its name ends in .npz.
        mdp: The MDP, or its name (see `make`).

    Returns:
        The path.

    Example:
        >>> path = narl.tabular.save_npz("river.npz", narl.tabular.riverswim(4))
        >>> narl.tabular.load_npz(path).num_states
        4
    """
    path, mdp = Path(path), find_mdp(mdp)
    if path.suffix != ".npz":
        raise InputError(f"path: {path.name!r} is wrong; the name must end in .npz")
    if not path.parent.is_dir():
        raise InputError(f"path: there is no folder {str(path.parent)!r} to write to")
    fields = ("r", "p0", "horizon", "r_std", "bad", "solved_rule", "name")
    entries = mdp.portable_dynamics() | {field: getattr(mdp, field) for field in fields}
    present = {field: value for field, value in entries.items() if value is not None}
    storage.write_file(path, storage.compressed_npz(present))
    return path


def load_npz(path: str | os.PathLike[str]) -> TabularMDP:
    """Return the MDP of a file with p [S,A,S], r [S,A], p0 [S], horizon and `OPTIONAL` entries.

    With `successors` [S,A,B], p is [S,A,B] as in `make_mdp`. Nothing in the file is executed. An
    error names the first entry that is wrong.

    Args:
        path: A file that `save_npz` or `numpy.savez` wrote.

    Returns:
        The MDP.

    Example:
        >>> np.savez("two.npz", p=np.full((2, 1, 2), 0.5), r=[[0], [1]], p0=[1, 0], horizon=3)
        >>> narl.tabular.solve(narl.tabular.load_npz("two.npz")).value
        1.0
    """
    path = Path(path)
    if not os.path.isfile(path):
        raise InputError(f"env: there is no file {str(path)!r}")
    entries = _entries(path)
    for field in REQUIRED:
        if field not in entries:
            raise InputError(f"{path.name}: {field} is missing; p, r, p0 and horizon are needed")
    name = entries.pop("name", np.array(path.stem))
    if name.ndim or name.dtype.kind != "U":
        raise InputError(f"{path.name}: name must be one string")
    horizon = entries.pop("horizon")[()]  # the number itself, where it is one
    try:
        return make_mdp(**entries, horizon=horizon, name=str(name))
    except InputError as problem:
        raise InputError(f"{path.name}: {problem}") from None


def _entries(path: Path) -> dict[str, Any]:
    """Return the arrays of a file; those that are too large for an MDP are refused unread."""
    try:
        with storage.open_file(path, follow_links=True) as file:
            if not zipfile.is_zipfile(file):
                raise InputError(f"env: {path.name} is not an .npz file; write it with numpy.savez")
            entries = storage.read_npz(file, MOST_BYTES, is_verified=False)
    except InputError:
        raise
    except (OSError, ValueError) as problem:
        raise InputError(f"{path.name}: {_line(problem)}") from None
    for field in entries:
        if field not in REQUIRED + OPTIONAL:
            raise unknown(f"{path.name}: entry", field, REQUIRED + OPTIONAL)
    return {**entries}


def _line(problem: BaseException) -> str:
    """Return the first line of a message, without the colours that Gymnasium adds."""
    lines = re.sub(r"\x1b\[\d+m", "", str(problem)).strip().splitlines()
    return lines[0] if lines else type(problem).__name__
