"""Finite MDPs with a horizon, solved and evaluated exactly (§2 of the paper).

MDPs are NumPy tables in float64. Agents compute in float32 on the device, but the values that they
are compared with (V*, Q* and the gaps) are computed here.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int, Num
from numpy.typing import ArrayLike

from narl.display import Described, Description, counted
from narl.errors import InputError
from narl.paper import implements
from narl.tabular.transitions import (
    dense_rows,
    expect_rows,
    reachable_states,
    slots_save_work,
    take_slots,
    tidy_slots,
)

MAX_HORIZON = 10**6
"""Longest episode; planning takes too long beyond it."""
MAX_REWARD = 1e15
"""Largest reward and deviation; sums over an episode would overflow float32 beyond it."""
MAX_ENTRIES = 2**28
"""Largest table that is built, such as p [S, A, S] or Q* [H, S, A]: 2 GiB in float64."""
LARGE_TABLE = 2**24
"""A dense table p of more entries (128 MiB) is neither hashed nor written to files."""
MAX_RULE_EPISODE = 10**9
"""Largest episode number of a rule for "solved"."""

Array = np.ndarray
AnyArray = np.ndarray | jax.Array


@implements("def:mdp")
@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True, repr=False)
class TabularMDP(Described):
    """An MDP M = (S, A, P, H, r, P_0) with stationary rewards and dynamics and a fixed horizon.

    Where few states can follow a pair, only these are stored (`narl.tabular.transitions`); the
    dense table `p` is made when it is asked for. `make_mdp` makes one from arrays and checks it.

    Example:
        >>> mdp = narl.tabular.riverswim()
        >>> mdp.name, mdp.num_states, mdp.num_actions, mdp.horizon
        ('riverswim', 6, 2, 20)
    """

    prob: Float[Array, "S A B"]
    """Probability of moving to the state of each slot after action a in s."""
    r: Float[Array, "S A"]
    """Mean reward of (s,a)."""
    r_std: Float[Array, "S A"]
    """Standard deviation of the (Gaussian) reward of (s,a); 0 is a deterministic reward."""
    p0: Float[Array, " S"]
    """P_0: distribution of the first state."""
    successors: Int[Array, "S A B"] | None = None
    """The state of each slot, S (one past the end) in unused slots; None when B = S."""
    bad: Float[Array, "S A"] | None = None
    """Deep Sea only: 1 where taking a in s makes the whole episode "bad" (bsuite's word)."""
    solved_rule: tuple[float, int] = dataclasses.field(default=(0.9, 1), metadata={"static": True})
    """Deep Sea only: solved once bad episodes / episodes < the first, from the second on."""
    horizon: int = dataclasses.field(default=1, metadata={"static": True})
    """H: number of steps in every episode."""
    name: str = dataclasses.field(default="mdp", metadata={"static": True})
    """The name in tables and run folders."""

    @property
    def num_states(self) -> int:
        """The number S of states."""
        return self.r.shape[0]

    @property
    def num_actions(self) -> int:
        """The number A of actions."""
        return self.r.shape[1]

    @functools.cached_property
    def p(self) -> Float[Array, "S A S"]:
        """P(s,a,s'): probability of moving to s' after action a in s, as a dense table."""
        if self.successors is None:
            return self.prob
        num_entries = self.num_states**2 * self.num_actions
        if num_entries > MAX_ENTRIES:
            raise InputError(
                f"p: the dense table of {self.name} has {num_entries:.1e} entries, more than "
                f"{MAX_ENTRIES:.1e}; take prob and successors"
            )
        return dense_rows(self.prob, self.successors, self.num_states)

    def _describe(self) -> Description:
        starts, followers = np.flatnonzero(self.p0), (self.prob > 0).sum(axis=-1).max()
        noise = float(self.r_std.max())
        facts = {
            "rewards": f"{self.r.min():g} to {self.r.max():g}"
            + (f", noise of standard deviation up to {noise:g}" if noise else ", without noise"),
            "start": f"state {starts[0]}" if len(starts) == 1 else f"one of {len(starts)} states",
            "next state": "certain" if followers == 1 else f"one of at most {followers}",
        }
        states, actions = counted(self.num_states, "state"), counted(self.num_actions, "action")
        title = f"MDP {self.name}: {states}, {actions}, {counted(self.horizon, 'step')} per episode"
        return Description(title, facts)

    def portable_dynamics(self) -> dict[str, Array]:
        """Return the dynamics as `make_mdp` takes them: p, or p and successors of a large MDP."""
        if self.successors is None or self.num_states**2 * self.num_actions <= LARGE_TABLE:
            return {"p": self.p}
        used = self.successors < self.num_states
        return {"p": self.prob, "successors": np.where(used, self.successors, 0)}

    def next_state(self, state: int, action: int) -> Float[Array, " S"]:
        """Return the distribution of the next state after one pair."""
        row = self.prob[state, action]
        if self.successors is None:
            return row
        return dense_rows(row, self.successors[state, action], self.num_states)


def make_mdp(
    p: ArrayLike,
    r: ArrayLike,
    p0: ArrayLike,
    horizon: int,
    r_std: ArrayLike | None = None,
    bad: ArrayLike | None = None,
    solved_rule: ArrayLike | None = None,
    name: str = "mdp",
    successors: ArrayLike | None = None,
) -> TabularMDP:
    """Return a checked `TabularMDP`; an error names the first entry that is wrong.

    Args:
        p: Probabilities P(s' | s, a), [S, A, S]; with ``successors`` [S, A, B].
        r: Mean reward of each state and action, [S, A]; most agents assume values in [0, 1].
        p0: Distribution of the first state, [S].
        horizon: Steps in every episode.
        r_std: Standard deviation of the rewards' Gaussian noise, [S, A]; 0 by default.
        bad: 1 where an action makes the episode a bad one, as in Deep Sea, else 0, [S, A].
        solved_rule: (share, episode): solved as soon as the share of bad episodes is below the
            share, from this episode on; (0.9, 1) by default.
        name: The name in tables and run folders.
        successors: For large MDPs, [S, A, B]: p[s, a, b] is the probability of moving to the state
            successors[s, a, b].

    Returns:
        The MDP, a `TabularMDP`.

    Example:
        >>> stay_or_move = [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]
        >>> mdp = narl.tabular.make_mdp(stay_or_move, r=[[0, 0], [1, 0]], p0=[1, 0], horizon=3)
        >>> narl.tabular.solve(mdp).value  # move once, then stay
        2.0
    """
    p, r, p0 = _numbers("p", p), _numbers("r", r), _numbers("p0", p0)
    slots = None if successors is None else _slots(successors, p)
    if slots is None and (p.ndim != 3 or p.shape[0] != p.shape[2] or 0 in p.shape):
        raise InputError(f"p: shape {p.shape} is wrong; it must be (S, A, S) with S, A >= 1")
    num_states, num_actions, _ = p.shape
    r_std = np.zeros_like(r) if r_std is None else _numbers("r_std", r_std)
    bad = None if bad is None else _numbers("bad", bad)
    for field, value in (("r", r), ("r_std", r_std), ("bad", bad)):
        if value is not None and value.shape != (num_states, num_actions):
            raise InputError(
                f"{field}: shape {value.shape} is wrong; "
                f"it must be (S, A) = {(num_states, num_actions)} as in p"
            )
    if p0.shape != (num_states,):
        raise InputError(f"p0: shape {p0.shape} is wrong; it must be (S,) = ({num_states},)")
    horizon = _steps(horizon)
    _check_entries("r_std", r_std, r_std >= 0, "it must not be negative")
    for field, value in (("r", r), ("r_std", r_std)):
        small = np.abs(value) <= MAX_REWARD
        _check_entries(field, value, small, f"it must lie within ±{MAX_REWARD:g}")
    if bad is not None:
        _check_entries("bad", bad, (bad == 0) | (bad == 1), "it must be 0 or 1")
    _check_distribution("p", p)
    _check_distribution("p0", p0)
    prob, slots = _stored(p, slots)
    rule = TabularMDP.solved_rule if solved_rule is None else _rule(solved_rule)
    _check_name(name)
    return TabularMDP(
        prob=prob,
        successors=slots,
        r=r,
        r_std=r_std,
        p0=_normalised(p0),
        bad=bad,
        solved_rule=rule,
        horizon=horizon,
        name=name,
    )


def _slots(successors: ArrayLike, p: Array) -> Array:
    """Return the states of the slots, or raise."""
    slots = np.asarray(successors)
    if slots.dtype.kind not in "iu":
        raise InputError(f"successors: holds {slots.dtype} values; it must hold whole numbers")
    if p.ndim != 3 or 0 in p.shape or slots.shape != p.shape:
        raise InputError(
            f"successors: shape {slots.shape} beside {p.shape} of p is wrong; "
            "both must be (S, A, B) with S, A, B >= 1"
        )
    last = len(p) - 1
    valid = (slots >= 0) & (slots <= last)
    _check_entries("successors", slots, valid, f"it must be a state in 0..{last}")
    return slots


def _stored(p: Array, slots: Array | None) -> tuple[Array, Array | None]:
    """Return the layout that an MDP stores: slots where they save work, else the dense table."""
    if slots is None:
        p, slots = _normalised(p), reachable_states(p)
        return take_slots(p, slots), slots
    p, slots = tidy_slots(p, slots)
    if slots_save_work(slots.shape[-1], len(slots)):
        return _normalised(p), slots
    return _normalised(dense_rows(p, slots, len(slots))), None


def _rule(solved_rule: ArrayLike) -> tuple[float, int]:
    rule = _numbers("solved_rule", solved_rule)
    valid = rule.shape == (2,) and 0 < rule[0] <= 1 and rule[1] % 1 == 0
    if not valid or not 1 <= rule[1] <= MAX_RULE_EPISODE:
        raise InputError(
            f"solved_rule: {rule.tolist()} is wrong; it must be like [0.9, 1]: "
            f"a share in (0, 1] and an episode in 1..{MAX_RULE_EPISODE}"
        )
    return float(rule[0]), int(rule[1])


def _check_name(name: str) -> None:
    """Refuse names that do not fit into tables and messages of one line."""
    odd = [letter for letter in name if not letter.isprintable()]
    if odd:
        raise InputError(f"name: holds {odd[0]!r}; it must be printable text on one line")


def _steps(horizon: ArrayLike) -> int:
    steps = np.asarray(horizon)
    whole = steps.ndim == 0 and steps.dtype.kind in "iuf" and np.isfinite(steps)
    if not whole or steps % 1 or steps < 1:
        given = str(horizon) if steps.ndim == 0 else f"an array of shape {steps.shape}"
        raise InputError(f"horizon: {given} is wrong; it must be a whole number >= 1")
    if steps > MAX_HORIZON:
        raise InputError(f"horizon: {steps} is too large; the nearest valid value is {MAX_HORIZON}")
    return int(steps)


def with_horizon(mdp: TabularMDP, horizon: int) -> TabularMDP:
    """Return the same MDP with episodes of another length."""
    return dataclasses.replace(mdp, horizon=_steps(horizon))


def scale_rewards(mdp: TabularMDP) -> TabularMDP:
    """Return the MDP with mean rewards scaled to [0, 1], the range that the agents assume.

    Every episode has H steps, so that the best policies stay the same; values and regret are
    divided by the range of the mean rewards. Rewards that are all equal become 0.

    Args:
        mdp: An MDP with any rewards.

    Returns:
        A new MDP, whose name ends in "-scaled".

    Example:
        >>> mdp = narl.tabular.make_mdp([[[1], [1]]], r=[[-100, -1]], p0=[1], horizon=2)
        >>> narl.tabular.scale_rewards(mdp).r
        array([[0., 1.]])
    """
    low, high = float(mdp.r.min()), float(mdp.r.max())
    span = high - low if high > low else 1.0
    r, r_std = (mdp.r - low) / span, mdp.r_std / span
    return dataclasses.replace(mdp, r=r, r_std=r_std, name=f"{mdp.name}-scaled")


def _numbers(field: str, value: ArrayLike) -> Array:
    """Return a copy in float64 of finite real numbers, or raise."""
    try:
        array = np.asarray(value)
    except ValueError:  # nested lists of unequal lengths
        raise InputError(f"{field}: its rows differ in length; it must be one array") from None
    if array.dtype.kind not in "fiub":
        raise InputError(f"{field}: holds {array.dtype} values; it must hold real numbers")
    array = np.array(array, dtype=np.float64)  # a copy, so that the input is not changed
    _check_entries(field, array, np.isfinite(array), "it must be finite")
    return array


def _check_entries(field: str, array: Array, valid: Array, rule: str) -> None:
    """Raise an error that names the first entry that is not valid, and the rule."""
    wrong = np.argwhere(~valid)
    if len(wrong):
        at = ", ".join(map(str, wrong[0]))
        raise InputError(f"{field}[{at}] = {array[tuple(wrong[0])]:g}; {rule}")


def _check_distribution(field: str, array: Array) -> None:
    """Raise an error unless every row is a distribution."""
    _check_entries(field, array, array >= 0, "it must not be negative")
    total = array.sum(axis=-1)
    # float32 tables carry rounding of about 1e-7 per entry; anything larger is a mistake.
    wrong = np.argwhere(np.abs(total - 1) > 1e-5)
    if len(wrong):
        at = ", ".join([*map(str, wrong[0]), ":"])
        raise InputError(f"{field}[{at}] sums to {total[tuple(wrong[0])]:g}; it must sum to 1")


def _normalised(array: Array) -> Array:
    """Return rows that sum to 1 to the last bits."""
    return array / array.sum(axis=-1, keepdims=True)


class Solution(NamedTuple):
    """The optimal values of an MDP, exactly."""

    q_star: Float[Array, "H S A"]
    """Q*_h(s,a), the value of a in s at step h if all later actions are optimal."""
    v_star: Float[Array, "H+1 S"]
    """V*_h(s) = max_a Q*_h(s,a), with V*_H = 0."""
    gap: Float[Array, "H S A"]
    """V*_h(s) − Q*_h(s,a) ≥ 0, the cost of taking a once."""
    value: float
    """V(π*) = E_{s ~ P_0} V*_0(s)."""


def solve(mdp: TabularMDP) -> Solution:
    """Return the optimal values by backward induction in float64.

    Args:
        mdp: The MDP to solve.

    Returns:
        A named tuple with ``q_star`` [H, S, A], ``v_star`` [H+1, S], ``gap`` = V* − Q* [H, S, A]
        and ``value``, the largest expected return from P_0.

    Example:
        >>> round(narl.tabular.solve(narl.tabular.riverswim()).value, 4)
        3.3973
    """
    v_star = np.zeros((mdp.horizon + 1, mdp.num_states))
    q_star = np.zeros((mdp.horizon, mdp.num_states, mdp.num_actions))
    for h in reversed(range(mdp.horizon)):
        q_star[h] = mdp.r + expect_rows(mdp.prob, mdp.successors, v_star[h + 1])
        v_star[h] = q_star[h].max(axis=1)
    gap = v_star[:-1, :, None] - q_star
    return Solution(q_star, v_star, gap, float(mdp.p0 @ v_star[0]))


@implements("def:value")
def evaluate(mdp: TabularMDP, policy: Num[Array, "H S"]) -> Float[Array, "H+1 S"]:
    """Return V^h(π)[s] of a deterministic policy per step, exactly.

    Args:
        mdp: The MDP.
        policy: The action of every step and state, whole numbers [H, S].

    Returns:
        The expected return from every step and state on, [H+1, S]; the last row is 0.

    Example:
        >>> mdp = narl.tabular.riverswim()
        >>> always_left = np.zeros((mdp.horizon, mdp.num_states), int)
        >>> narl.tabular.evaluate(mdp, always_left)[0].round(3)  # 20 steps of 0.005, or fewer
        array([0.1  , 0.095, 0.09 , 0.085, 0.08 , 0.075])
    """
    policy = np.asarray(policy)
    if policy.shape != (mdp.horizon, mdp.num_states):
        raise InputError(
            f"policy: shape {policy.shape} is wrong; "
            f"it must be (H, S) = {(mdp.horizon, mdp.num_states)}"
        )
    if policy.dtype.kind not in "iu":
        raise InputError(f"policy: holds {policy.dtype} values; it must hold whole numbers")
    if policy.min() < 0 or policy.max() >= mdp.num_actions:
        raise InputError(f"policy: actions must lie in 0..{mdp.num_actions - 1}")
    states = np.arange(mdp.num_states)
    v = np.zeros((mdp.horizon + 1, mdp.num_states))
    for h in reversed(range(mdp.horizon)):
        a = policy[h]
        slots = None if mdp.successors is None else mdp.successors[states, a]
        v[h] = mdp.r[states, a] + expect_rows(mdp.prob[states, a], slots, v[h + 1])
    return v


def policy_value(mdp: TabularMDP, policy: Num[Array, "H S"]) -> float:
    """Return V(π) = E_{s ~ P_0} V^0(π)[s], exactly.

    Args:
        mdp: The MDP.
        policy: The action of every step and state, whole numbers [H, S].

    Returns:
        The expected return of an episode.

    Example:
        >>> mdp = narl.tabular.riverswim()
        >>> always_right = np.ones((mdp.horizon, mdp.num_states), int)
        >>> round(narl.tabular.policy_value(mdp, always_right), 3)
        3.397
    """
    return float(mdp.p0 @ evaluate(mdp, policy)[0])


class Episode(NamedTuple):
    """One episode of H steps; an axis of seeds may lead.

    Example:
        >>> stayed = jnp.zeros(3, int)
        >>> episode = narl.tabular.Episode(states=stayed, actions=stayed[1:], rewards=jnp.ones(2))
        >>> float(episode.rewards.sum())
        2.0
    """

    states: Int[AnyArray, " H+1"]
    """The states s_0 … s_H; the last is the state after the last action."""
    actions: Int[AnyArray, " H"]
    """The actions a_0 … a_{H−1}."""
    rewards: Float[AnyArray, " H"]
    """The rewards r_0 … r_{H−1}."""
