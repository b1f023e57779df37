"""Exact values of MDPs and of policies, in float64: V*, Q*, the gaps and V(π).

Agents compute in float32; the values that they are compared with are computed here.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Num

from narl.errors import InputError
from narl.paper import implements
from narl.tabular.mdp import Array, TabularMDP, find_mdp
from narl.tabular.transitions import expect_rows


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


def solve(mdp: TabularMDP | str | os.PathLike[str]) -> Solution:
    """Return the optimal values by backward induction in float64.

    Args:
        mdp: The MDP to solve, or its name (see `make`).

    Returns:
        A named tuple with ``q_star`` [H, S, A], ``v_star`` [H+1, S], ``gap`` = V* − Q* [H, S, A]
        and ``value``, the largest expected return from P_0.

    Example:
        >>> round(narl.tabular.solve(narl.tabular.riverswim()).value, 4)
        3.3973
    """
    mdp = find_mdp(mdp)
    v_star = np.zeros((mdp.horizon + 1, mdp.num_states))
    q_star = np.zeros((mdp.horizon, mdp.num_states, mdp.num_actions))
    for h in reversed(range(mdp.horizon)):
        q_star[h] = mdp.r + expect_rows(mdp.prob, mdp.successors, v_star[h + 1])
        v_star[h] = q_star[h].max(axis=1)
    gap = v_star[:-1, :, None] - q_star
    return Solution(q_star, v_star, gap, float(mdp.p0 @ v_star[0]))


@implements("def:value")
def evaluate(
    mdp: TabularMDP | str | os.PathLike[str], policy: Num[Array, "H S"]
) -> Float[Array, "H+1 S"]:
    """Return V^h(π)[s] of a deterministic policy per step, exactly.

    Args:
        mdp: The MDP, or its name (see `make`).
        policy: The action of every step and state, whole numbers [H, S].

    Returns:
        The expected return from every step and state on, [H+1, S]; the last row is 0.

    Example:
        >>> mdp = narl.tabular.riverswim()
        >>> always_left = np.zeros((mdp.horizon, mdp.num_states), int)
        >>> narl.tabular.evaluate(mdp, always_left)[0].round(3)  # 20 steps of 0.005, or fewer
        array([0.1  , 0.095, 0.09 , 0.085, 0.08 , 0.075])
    """
    mdp, policy = find_mdp(mdp), np.asarray(policy)
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


def policy_value(mdp: TabularMDP | str | os.PathLike[str], policy: Num[Array, "H S"]) -> float:
    """Return V(π) = E_{s ~ P_0} V^0(π)[s], exactly.

    Args:
        mdp: The MDP, or its name (see `make`).
        policy: The action of every step and state, whole numbers [H, S].

    Returns:
        The expected return of an episode.

    Example:
        >>> mdp = narl.tabular.riverswim()
        >>> always_right = np.ones((mdp.horizon, mdp.num_states), int)
        >>> round(narl.tabular.policy_value(mdp, always_right), 3)
        3.397
    """
    mdp = find_mdp(mdp)
    return float(mdp.p0 @ evaluate(mdp, policy)[0])
