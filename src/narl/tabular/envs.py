"""The tabular environments by name, those of the paper (§5.1) and others, as `TabularMDP`.

RiverSwim and the stochastic chain are those of TabulaRL, Deep Sea is bsuite's. In environments of
two actions 0 is "left" and 1 is "right"; in Deep Sea the order is drawn for every cell.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from narl.errors import InputError, unknown
from narl.tabular.checked_mdp import make_mdp, with_horizon
from narl.tabular.io import from_gymnasium, load_npz
from narl.tabular.mdp import MAX_ENTRIES, Array, TabularMDP
from narl.tabular.options import AGENT_OPTIONS
from narl.validation import check_count

LEFT, RIGHT = 0, 1
ARM_CHANCES = (1.0, 0.15, 0.1, 0.05, 0.03, 0.01)
ARM_REWARDS = tuple(reward / 6000 for reward in (50, 133, 300, 800, 1660, 6000))
MOVE_COST = 0.01
"""Cost of N moves to the right in Deep Sea."""
MAX_CHAIN = math.isqrt(MAX_ENTRIES // 2)
MAX_DEEP_SEA = 512
"""The largest N for which Q* [H, S, A], that is 2·N³ numbers, is no larger than `MAX_ENTRIES`."""


def riverswim(num_states: int = 6, horizon: int = 20, reward_std: float = 0.0) -> TabularMDP:
    """Return RiverSwim: a chain with a current to the left; rewards .005 (left end) and 1.

    Args:
        num_states: Length of the chain.
        horizon: Steps in every episode.
        reward_std: Standard deviation of the rewards' Gaussian noise, 0 in the original.

    Returns:
        The MDP; action 0 swims left, action 1 right.

    Example:
        >>> narl.tabular.riverswim().r[[0, 5]]  # at the two ends
        array([[0.005, 0.   ],
               [0.   , 1.   ]])
    """
    num_states = check_count("num_states", num_states, 2, MAX_CHAIN)
    horizon = check_count("horizon", horizon, 1)
    _check_reward_std(reward_std)
    states = np.arange(num_states)
    end = num_states - 1
    # Slots: the state to the left, the same state, the state to the right.
    near = np.stack([np.maximum(states - 1, 0), states, np.minimum(states + 1, end)], axis=-1)
    p = np.zeros((num_states, 2, 3))
    p[:, LEFT, 0] = 1
    p[:, RIGHT] = 0.05, 0.6, 0.35
    p[0, RIGHT] = 0, 0.4, 0.6
    p[end, RIGHT] = 0.4, 0.6, 0
    r = np.zeros((num_states, 2))
    r[0, LEFT], r[end, RIGHT] = 0.005, 1
    name = "noisy_riverswim" if reward_std else "riverswim"
    name = name if num_states == 6 else f"{name}-{num_states}"
    r_std = np.full_like(r, reward_std)
    p0 = _start_at(0, num_states)
    successors = np.stack([near, near], axis=1)
    return make_mdp(p, r, p0, horizon, r_std=r_std, name=name, successors=successors)


def stochastic_chain(size: int = 10, horizon: int | None = None) -> TabularMDP:
    """Return the stochastic chain: S = H = N, a move right goes left with probability 1/N.

    The rewards at the ends are N(0,1) for (0, left) and N(1,1) for (N−1, right). All moves must
    succeed to earn the second reward once, so V* = (1 − 1/N)^(N−1).

    Args:
        size: Number N of states.
        horizon: Steps in every episode, N by default.

    Returns:
        The MDP; action 0 moves left, action 1 right.

    Example:
        >>> chain = narl.tabular.stochastic_chain(10)
        >>> round(narl.tabular.solve(chain).value, 4), round(0.9**9, 4)
        (0.3874, 0.3874)
    """
    size = check_count("size", size, 2, MAX_CHAIN)
    horizon = size if horizon is None else check_count("horizon", horizon, 1)
    states = np.arange(size)
    below, above = np.maximum(states - 1, 0), np.minimum(states + 1, size - 1)
    p = np.array([[[1, 0], [1 / size, 1 - 1 / size]]] * size)  # left and right of each state
    successors = np.stack([np.stack([below, above], axis=-1)] * 2, axis=1)
    r, r_std = np.zeros((size, 2)), np.zeros((size, 2))
    r[-1, RIGHT] = 1
    r_std[0, LEFT] = r_std[-1, RIGHT] = 1
    p0 = _start_at(0, size)
    name = f"stochastic_chain-{size}"
    return make_mdp(p, r, p0, horizon, r_std=r_std, name=name, successors=successors)


def deep_sea(
    size: int = 10,
    stochastic: bool = False,
    mapping_seed: int = 42,
    randomize_actions: bool = True,
) -> TabularMDP:
    """Return bsuite's Deep Sea: an N×N grid, one row down per step, H = N; state = row·N + column.

    "Right" costs .01/N, whether the move succeeds or not, and earns 1 in the last column; "left" is
    free. In the stochastic version "right" keeps the column with probability 1/N, and the rewards
    of both actions in the two bottom corners have N(0,1) noise. Rewards do not depend on the next
    state, so `r` and `r_std` are exact.

    After the last row bsuite shows an empty grid. Here the last moves lead back to the start; the
    episode ends with them, so that no value and no policy depends on it.

    V* is .99, and in the stochastic version q^(N−1) − .01(1 − q^N) with q = 1 − 1/N: the reward
    cannot be reached off the diagonal, where the best policy does not pay for moves.

    Args:
        size: Number N of rows, columns and steps.
        stochastic: Whether moves to the right can fail.
        mapping_seed: Seed of the order of the actions in every cell; bsuite's is 42.
        randomize_actions: Whether the order is drawn; if not, action 1 is "right" everywhere.

    Returns:
        The MDP.

    Example:
        >>> sea = narl.tabular.deep_sea(10)
        >>> sea.num_states, sea.horizon, round(narl.tabular.solve(sea).value, 2)
        (100, 10, 0.99)
    """
    size = check_count("size", size, 2, MAX_DEEP_SEA)
    mapping_seed = check_count("mapping_seed", mapping_seed, 0, 2**32 - 1)
    right = _deep_sea_right(size, mapping_seed, randomize_actions)
    left = 1 - right
    p, successors = _deep_sea_moves(size, right, 1 / size if stochastic else 0.0)
    states = np.arange(size * size)
    row, column = np.divmod(states, size)
    r, r_std, bad = (np.zeros((size * size, 2)) for _ in range(3))
    r[states, right] = (column == size - 1) - MOVE_COST / size
    if stochastic:
        r_std[[(size - 1) * size, size * size - 1]] = 1
    bad[states, left] = row == column
    name = f"deep_sea_stochastic-{size}" if stochastic else f"deep_sea-{size}"
    p0 = _start_at(0, size * size)
    rule = (0.8, 100) if stochastic else None
    return make_mdp(
        p, r, p0, size, r_std=r_std, bad=bad, solved_rule=rule, name=name, successors=successors
    )


def _deep_sea_right(size: int, mapping_seed: int, randomize_actions: bool) -> Array:
    """Return the action that is "right" in each state, drawn as in bsuite."""
    if not randomize_actions:
        return np.ones(size * size, dtype=int)
    # The legacy generator is part of the environment's definition.
    rng = np.random.RandomState(mapping_seed)
    return rng.binomial(1, 0.5, [size, size]).ravel()


def _deep_sea_moves(size: int, right: Array, fails: float) -> tuple[Array, Array]:
    """Return the probabilities and the states of both slots of every move, [S, 2, 2] each.

    ``fails`` is the probability that a move to the right keeps the column.
    """
    states, left = np.arange(size * size), 1 - right
    row, column = np.divmod(states, size)

    def below(to_column: Array) -> Array:
        return np.where(row == size - 1, 0, (row + 1) * size + to_column)

    p, successors = np.zeros((size * size, 2, 2)), np.zeros((size * size, 2, 2), dtype=int)
    p[states, left, 0] = 1
    p[states, right] = 1 - fails, fails
    successors[states, left] = below(np.maximum(column - 1, 0))[:, None]
    successors[states, right, 0] = below(np.minimum(column + 1, size - 1))
    successors[states, right, 1] = below(column)
    return p, successors


def random_mdp(
    num_states: int = 10,
    num_actions: int = 3,
    horizon: int = 10,
    concentration: float = 1.0,
    reward_std: float = 1.0,
    seed: int = 0,
) -> TabularMDP:
    """Return a random MDP: P(s,a) ~ Dirichlet(concentration), mean rewards ~ U[0,1], P_0 uniform.

    Args:
        num_states: Number S of states.
        num_actions: Number A of actions.
        horizon: Steps in every episode.
        concentration: A small one makes nearly deterministic moves, a large one nearly uniform
            moves.
        reward_std: Standard deviation of the rewards' Gaussian noise.
        seed: Seed of the draws.

    Returns:
        The MDP.

    Example:
        >>> narl.tabular.random_mdp(num_states=4, seed=7).name
        'random_mdp-4-7'
    """
    num_actions = check_count("num_actions", num_actions, 1, MAX_ENTRIES)
    num_states = check_count("num_states", num_states, 1, math.isqrt(MAX_ENTRIES // num_actions))
    horizon, seed = check_count("horizon", horizon, 1), check_count("seed", seed, 0)
    if not 0 < concentration < math.inf:
        raise InputError(f"concentration: {concentration} is wrong; it must be finite and > 0")
    _check_reward_std(reward_std)
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(num_states, float(concentration)), (num_states, num_actions))
    r = rng.random((num_states, num_actions))
    p0 = np.full(num_states, 1 / num_states)
    r_std = np.full_like(r, reward_std)
    return make_mdp(p, r, p0, horizon, r_std=r_std, name=f"random_mdp-{num_states}-{seed}")


def _check_reward_std(reward_std: float) -> None:
    if not 0 <= reward_std < math.inf:
        raise InputError(f"reward_std: {reward_std} is wrong; it must be finite and >= 0")


def six_arms(num_arms: int = 6, horizon: int = 20) -> TabularMDP:
    """Return an MDP like SixArms (Strehl and Littman 2008): a hub, and arms that are hard to enter.

    Action a in the hub (state 0) enters arm a + 1 with a probability that falls from 1 to .01. In
    an arm its own action stays and pays, the more the harder the arm is to enter (at most 1); the
    others lead back. Arm 6, tried until it is entered, is the best.

    Args:
        num_arms: Number of arms, 2 to 6.
        horizon: Steps in every episode.

    Returns:
        The MDP.

    Example:
        >>> arms = narl.tabular.six_arms()
        >>> arms.num_states, arms.num_actions
        (7, 6)
    """
    num_arms = check_count("num_arms", num_arms, 2, len(ARM_CHANCES))
    horizon = check_count("horizon", horizon, 1)
    arms = np.arange(num_arms)
    p = np.zeros((num_arms + 1, num_arms, num_arms + 1))
    p[0, :, 0] = 1 - np.array(ARM_CHANCES[:num_arms])
    p[0, arms, arms + 1] = ARM_CHANCES[:num_arms]
    p[1:, :, 0] = 1
    p[arms + 1, arms, 0] = 0
    p[arms + 1, arms, arms + 1] = 1
    r = np.zeros((num_arms + 1, num_arms))
    r[arms + 1, arms] = ARM_REWARDS[:num_arms]
    name = "six_arms" if num_arms == 6 else f"six_arms-{num_arms}"
    return make_mdp(p, r, _start_at(0, num_arms + 1), horizon, name=name)


class Environment(NamedTuple):
    """An environment that has a name on the command line."""

    build: Callable[[int, int | None, int], TabularMDP]
    """Returns the MDP of a size, a horizon (None: the default) and a seed."""
    size: int
    """The default size: states of RiverSwim, chain and random MDP, arms, N of Deep Sea's grid."""
    largest: int
    """The largest size whose table is built."""


def _deep_sea(size: int, horizon: int | None, stochastic: bool) -> TabularMDP:
    """Return Deep Sea; refuse a horizon that is not its size."""
    mdp = deep_sea(size, stochastic)
    if horizon not in (None, mdp.horizon):
        raise InputError(
            f"horizon: {horizon} is wrong for Deep Sea, whose horizon is its size; "
            f"the nearest valid value is {mdp.horizon}"
        )
    return mdp


ENVIRONMENTS: dict[str, Environment] = {
    "riverswim": Environment(
        lambda size, horizon, seed: riverswim(size, horizon or 20), 6, MAX_CHAIN
    ),
    "noisy-riverswim": Environment(
        lambda size, horizon, seed: riverswim(size, horizon or 20, reward_std=0.5), 6, MAX_CHAIN
    ),
    "stochastic-chain": Environment(
        lambda size, horizon, seed: stochastic_chain(size, horizon), 10, MAX_CHAIN
    ),
    "deep-sea": Environment(
        lambda size, horizon, seed: _deep_sea(size, horizon, stochastic=False), 10, MAX_DEEP_SEA
    ),
    "deep-sea-stochastic": Environment(
        lambda size, horizon, seed: _deep_sea(size, horizon, stochastic=True), 10, MAX_DEEP_SEA
    ),
    "random-mdp": Environment(
        lambda size, horizon, seed: random_mdp(size, horizon=horizon or 10, seed=seed),
        10,
        math.isqrt(MAX_ENTRIES // 3),
    ),
    "six-arms": Environment(
        lambda size, horizon, seed: six_arms(size, horizon or 20), 6, len(ARM_CHANCES)
    ),
}
"""The environments by name, with their default and largest sizes; `make` takes the names."""


def make(
    name: str | os.PathLike[str],
    size: int | None = None,
    horizon: int | None = None,
    seed: int = 0,
) -> TabularMDP:
    """Return the MDP of a name.

    Args:
        name: One of `ENVIRONMENTS`, a file "….npz", or "gym:" and the Gymnasium id of an
            environment with a transition table.
        size: Size of the environment, such as the states of RiverSwim or N of Deep Sea.
        horizon: Steps in every episode, where the size does not decide them.
        seed: Seed of the random MDP; the others have none (the order of Deep Sea's actions is the
            fixed one of bsuite).

    Returns:
        The MDP.

    Example:
        >>> narl.tabular.make("deep-sea", size=20).horizon
        20
        >>> narl.tabular.make("gym:FrozenLake-v1", horizon=30).num_states
        17
    """
    name = os.fspath(name)
    horizon = None if horizon is None else check_count("horizon", horizon, 1)
    seed = check_count("seed", seed, 0)
    if name in ENVIRONMENTS:
        env = ENVIRONMENTS[name]
        size = env.size if size is None else check_count("size", size, 2, env.largest)
        return env.build(size, horizon, seed)
    from_file, from_gym = name.endswith(".npz"), name.startswith("gym:")
    if not (from_file or from_gym):
        raise _unknown_environment(name)
    if size is not None:
        raise InputError(f"size: {name} has a fixed size; leave it out")
    if from_gym:
        return from_gymnasium(name.removeprefix("gym:"), horizon)
    mdp = load_npz(name)
    return mdp if horizon is None else with_horizon(mdp, horizon)


def _unknown_environment(name: str) -> InputError:
    """Return the error for an unknown name, also if it is one of Gymnasium."""
    base = name.rpartition("-v")[0]
    versions = sorted(id_ for id_ in gymnasium.registry if id_.rpartition("-v")[0] == base != "")
    if not versions:
        others = "a file such as my.npz, or gym:ID for an environment of Gymnasium with a table"
        return InputError(f"{unknown('env', name, ENVIRONMENTS)}, {others}")
    present = name if name in versions else versions[-1]
    return InputError(
        f"env: unknown value {name!r}; did you mean 'gym:{present}'? Gymnasium's environments "
        "begin with gym:"
    )


def refuse_swapped(agent: Any, env: str | os.PathLike[str]) -> None:
    """Refuse an agent and an environment whose names were given in the wrong order."""
    if isinstance(agent, str) and agent in ENVIRONMENTS and env in AGENT_OPTIONS:
        raise InputError(
            f"agent: {agent!r} is an environment and {env!r} an agent: they are swapped; "
            f"the agent comes first, then the environment: {env} {agent}"
        )


def _start_at(state: int, num_states: int) -> Array:
    p0 = np.zeros(num_states)
    p0[state] = 1
    return p0
