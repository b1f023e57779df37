"""Tail bounds, and the numbers of members that make one of them optimistic."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from jax.typing import ArrayLike
from scipy.special import ndtr

from narl.errors import InputError, unknown
from narl.paper import implements
from narl.theory.argument_checks import check_counts, check_delta

Tail = Literal["paper", "exact", "unvisited"]
"""The lower bound on the probability that one member is optimistic, for ensemble sizes.

paper: 1/10 for rewards (Lemma 3), 1/(9S) for dynamics (Lemma 7).
exact: Φ̄(½) = .3085 for both, from σ = 2β; unvisited pairs must have σ = 2β(1, ·).
unvisited: Φ̄(1) = .1587 for both, from unvisited pairs with N(0,1) noise (L621, L709).
"""


def gaussian_tail(t: ArrayLike, sigma: ArrayLike = 1.0) -> np.ndarray:
    """Return Φ̄(t/σ) = P(N(0, σ²) > t), exactly.

    Args:
        t: The threshold, of any shape.
        sigma: The standard deviation σ.

    Example:
        >>> round(float(narl.theory.gaussian_tail(0.5)), 4)
        0.3085
    """
    return np.asarray(ndtr(-np.asarray(t, dtype=float) / np.asarray(sigma, dtype=float)))


@implements("lemma:gaussian-tail")
def gaussian_tail_lower_bound(t: ArrayLike, sigma: ArrayLike = 1.0) -> np.ndarray:
    """Return σt/(t²+σ²)·exp(−t²/(2σ²))/√(2π) ≤ P(X − μ > t), X ~ N(μ, σ²) (Lemma 2, L384).

    Args:
        t: The threshold above the mean, of any shape, positive.
        sigma: The standard deviation σ.

    Example:
        >>> round(float(narl.theory.gaussian_tail_lower_bound(0.5)), 4)
        0.1408
    """
    t, sigma = np.asarray(t, dtype=float), np.asarray(sigma, dtype=float)
    density = np.exp(-0.5 * (t / sigma) ** 2) / math.sqrt(2.0 * math.pi)
    return np.asarray(sigma * t / (t**2 + sigma**2) * density)


@implements("lemma:reward-anticoncentration", "lemma:reward-anticoncentration-general")
def anticoncentration(gamma: ArrayLike, *, corrected: bool = False) -> np.ndarray:
    """Return the probability that one member with σ = γβ_r exceeds r̂ + β_r (Lemmas 3 and 6).

    Printed: the lower bound p(γ) = γ/(1+γ²)·(1 − 1/(2γ²))/√(2π) of L651; p(2) ≥ 1/10.
    Corrected: the probability itself, Φ̄(1/γ).

    Args:
        gamma: The factor γ of σ = γβ_r, of any shape.
        corrected: True for what holds, False for what the paper prints.

    Example:
        >>> round(float(narl.theory.anticoncentration(2.0)), 4)
        0.1396
        >>> round(float(narl.theory.anticoncentration(2.0, corrected=True)), 4)
        0.3085
    """
    gamma = np.asarray(gamma, dtype=float)
    if corrected:
        return gaussian_tail(1.0 / gamma)
    factor = gamma / (1.0 + gamma**2) / math.sqrt(2.0 * math.pi)
    return np.asarray(factor * (1.0 - 0.5 / gamma**2))


@implements("lemma:dynamics-anticoncentration")
def dynamics_anticoncentration(num_states: int, *, corrected: bool = False) -> float:
    """Return a lower bound on P(⟨P̃^m, v⟩ ≥ ⟨P, v⟩ | E), fixed v, σ = 2β_P (Lemma 7, L667).

    Printed 1/(9S). Corrected: ⟨ξ, v⟩ ~ N(0, σ²‖v‖₂²) has to exceed at most β_P‖v‖∞, so the
    probability is at least Φ̄(‖v‖∞/(2‖v‖₂)) ≥ Φ̄(½), for every S.

    Args:
        num_states: The number S of states.
        corrected: True for what holds, False for what the paper prints.

    Example:
        >>> round(narl.theory.dynamics_anticoncentration(6), 4)
        0.0185
    """
    check_counts(num_states=num_states)
    return float(gaussian_tail(0.5)) if corrected else 1.0 / (9.0 * num_states)


@implements("corollary:reward", "corollary:reward-general", "corollary:dynamics")
def failure_probability(
    members: int, probability: float = 0.1, *, corrected: bool = False
) -> float:
    """Return P(no member is optimistic) if each is optimistic with at least this probability p.

    Printed p^M (L405, L598, L653, L684); corrected (1−p)^M.

    Args:
        members: The number M of members of the ensemble.
        probability: The probability p that one member is optimistic.
        corrected: True for what holds, False for what the paper prints.

    Example:
        >>> round(narl.theory.failure_probability(10, 0.1, corrected=True), 4)
        0.3487
    """
    check_counts(members=members)
    if not 0.0 < probability < 1.0:
        raise InputError(f"probability: {probability} is out of range; it must be in (0, 1)")
    return float((1.0 - probability if corrected else probability) ** members)


def _tail_probability(tail: Tail, paper: float, corrected: bool) -> float:
    """Return the probability of optimism of one member under the named bound."""
    probabilities = {
        "paper": paper,
        "exact": float(gaussian_tail(0.5)),
        "unvisited": float(gaussian_tail(1.0)),
    }
    if tail not in probabilities:
        raise unknown("tail", tail, probabilities)
    if tail != "paper" and not corrected:
        raise InputError(
            f"tail: {tail!r} needs corrected=True; the printed sizes do not depend on it"
        )
    return probabilities[tail]


def _members(log_ratio: float, probability: float) -> int:
    """Return the smallest M with (1−p)^M ≤ exp(−log_ratio)."""
    return max(1, math.ceil(log_ratio / -math.log1p(-probability)))


@implements("theorem:1", "theorem:2", "theorem:3", "theorem:optimism")
def members_r(
    delta: float,
    num_states: int,
    num_actions: int,
    horizon: int,
    *,
    corrected: bool = False,
    tail: Tail = "paper",
) -> int:
    """Return M_r, printed log(2SAH/δ)/3 (L307, L339, L368, L699).

    Corrected: (1−p)^M ≤ δ/(2SAH), so M = log(2SAH/δ)/−log(1−p): 9.49·log from p = 1/10,
    2.71·log from the exact tail.

    Args:
        delta: The failure probability δ, in (0, 1).
        num_states: The number S of states.
        num_actions: The number A of actions.
        horizon: The number H of steps of an episode.
        corrected: True for what holds, False for what the paper prints.
        tail: The bound on p: "paper" (1/10), "exact" (.3085) or "unvisited" (.1587).

    Example:
        >>> narl.theory.members_r(0.1, 6, 2, 20)
        3
        >>> narl.theory.members_r(0.1, 6, 2, 20, corrected=True)
        81
        >>> narl.theory.members_r(0.1, 6, 2, 20, corrected=True, tail="exact")
        23
    """
    check_delta(delta)
    check_counts(num_states=num_states, num_actions=num_actions, horizon=horizon)
    probability = _tail_probability(tail, 0.1, corrected)
    log_ratio = math.log(2.0 * num_states * num_actions * horizon / delta)
    return _members(log_ratio, probability) if corrected else max(1, math.ceil(log_ratio / 3.0))


@implements("theorem:1", "theorem:optimism")
def members_p(
    delta: float,
    num_states: int,
    num_actions: int,
    horizon: int,
    *,
    corrected: bool = False,
    tail: Tail = "paper",
) -> int:
    """Return M_P, printed 3 + log(2AH/δ)/3 (L307, L699).

    Corrected: M = log(2SAH/δ)/−log(1−p) with p = 1/(9S), or the exact tail, which does not
    depend on S. Only for new noise at every stage (errata, "signed dynamics").

    Args:
        delta: The failure probability δ, in (0, 1).
        num_states: The number S of states.
        num_actions: The number A of actions.
        horizon: The number H of steps of an episode.
        corrected: True for what holds, False for what the paper prints.
        tail: The bound on p: "paper" (1/(9S)), "exact" (.3085) or "unvisited" (.1587).

    Example:
        >>> narl.theory.members_p(0.1, 6, 2, 20)
        6
        >>> narl.theory.members_p(0.1, 6, 2, 20, corrected=True)
        454
    """
    check_delta(delta)
    check_counts(num_states=num_states, num_actions=num_actions, horizon=horizon)
    probability = _tail_probability(tail, dynamics_anticoncentration(num_states), corrected)
    if corrected:
        return _members(math.log(2.0 * num_states * num_actions * horizon / delta), probability)
    return math.ceil(3.0 + math.log(2.0 * num_actions * horizon / delta) / 3.0)
