"""Finite MDPs with a horizon, solved and evaluated exactly (§2 of the paper).

MDPs are NumPy tables in float64. Agents compute in float32 on the device, but the values that they
are compared with (V*, Q* and the gaps) are computed here.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int, Num
from numpy.typing import ArrayLike

from narl.errors import InputError
from narl.paper import implements

MAX_HORIZON = 10**6
"""Longest episode; planning takes too long beyond it."""
MAX_REWARD = 1e15
"""Largest reward and deviation; sums over an episode would overflow float32 beyond it."""

Array = np.ndarray
AnyArray = np.ndarray | jax.Array


@implements("def:mdp")
@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class TabularMDP:
    """An MDP M = (S, A, P, H, r, P_0) with stationary rewards and dynamics and a fixed horizon."""

    p: Float[Array, "S A S"]
    """P(s,a,s'): probability of moving to s' after action a in s."""
    r: Float[Array, "S A"]
    """Mean reward of (s,a)."""
    r_std: Float[Array, "S A"]
    """Standard deviation of the (Gaussian) reward of (s,a); 0 is a deterministic reward."""
    p0: Float[Array, " S"]
    """P_0: distribution of the first state."""
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
        return self.p.shape[0]

    @property
    def num_actions(self) -> int:
        """The number A of actions."""
        return self.p.shape[1]


def make_mdp(
    p: ArrayLike,
    r: ArrayLike,
    p0: ArrayLike,
    horizon: int,
    r_std: ArrayLike | None = None,
    bad: ArrayLike | None = None,
    solved_rule: ArrayLike | None = None,
    name: str = "mdp",
) -> TabularMDP:
    """Return a checked `TabularMDP`; an error names the first entry that is wrong."""
    p, r, p0 = _numbers("p", p), _numbers("r", r), _numbers("p0", p0)
    if p.ndim != 3 or p.shape[0] != p.shape[2] or 0 in p.shape:
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
    p, p0 = _distribution("p", p), _distribution("p0", p0)
    rule = TabularMDP.solved_rule if solved_rule is None else _rule(solved_rule)
    _check_name(name)
    return TabularMDP(
        p=p, r=r, r_std=r_std, p0=p0, bad=bad, solved_rule=rule, horizon=horizon, name=name
    )


def _rule(solved_rule: ArrayLike) -> tuple[float, int]:
    rule = _numbers("solved_rule", solved_rule)
    if rule.shape != (2,) or not 0 < rule[0] <= 1 or rule[1] % 1 or rule[1] < 1:
        given = rule.tolist()
        raise InputError(
            f"solved_rule: {given} is wrong; it must be like [0.9, 1] (share, episode)"
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


def _distribution(field: str, array: Array) -> Array:
    """Return probabilities that sum to 1 to the last bits, or raise."""
    _check_entries(field, array, array >= 0, "it must not be negative")
    total = array.sum(axis=-1)
    # float32 tables carry rounding of about 1e-7 per entry; anything larger is a mistake.
    wrong = np.argwhere(np.abs(total - 1) > 1e-5)
    if len(wrong):
        at = ", ".join([*map(str, wrong[0]), ":"])
        raise InputError(f"{field}[{at}] sums to {total[tuple(wrong[0])]:g}; it must sum to 1")
    return array / total[..., None]


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
    """Return the optimal values by backward induction in float64."""
    v_star = np.zeros((mdp.horizon + 1, mdp.num_states))
    q_star = np.zeros((mdp.horizon, mdp.num_states, mdp.num_actions))
    for h in reversed(range(mdp.horizon)):
        q_star[h] = mdp.r + mdp.p @ v_star[h + 1]
        v_star[h] = q_star[h].max(axis=1)
    gap = v_star[:-1, :, None] - q_star
    return Solution(q_star, v_star, gap, float(mdp.p0 @ v_star[0]))


@implements("def:value")
def evaluate(mdp: TabularMDP, policy: Num[Array, "H S"]) -> Float[Array, "H+1 S"]:
    """Return V^h(π)[s] of a deterministic policy per step, exactly."""
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
        v[h] = mdp.r[states, a] + mdp.p[states, a] @ v[h + 1]
    return v


def policy_value(mdp: TabularMDP, policy: Num[Array, "H S"]) -> float:
    """Return V(π) = E_{s ~ P_0} V^0(π)[s], exactly."""
    return float(mdp.p0 @ evaluate(mdp, policy)[0])


class Episode(NamedTuple):
    """One episode of H steps; an axis of seeds may lead."""

    states: Int[AnyArray, " H+1"]
    """The states s_0 … s_H; the last is the state after the last action."""
    actions: Int[AnyArray, " H"]
    rewards: Float[AnyArray, " H"]
