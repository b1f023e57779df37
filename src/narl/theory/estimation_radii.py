"""Bounds on the estimation error of the paper's agents, and rewards of fake pairs."""

from __future__ import annotations

import math

import numpy as np
from jax.typing import ArrayLike

from narl.paper import implements
from narl.theory.argument_checks import check_counts, check_delta


@implements("corollary:reward", "corollary:reward-general")
def estimation_radius(
    delta: float,
    num_states: int,
    num_actions: int,
    members: int,
    *,
    gamma: float = 2.0,
    corrected: bool = False,
) -> float:
    """Return L with ``P(|r̃ − r| ≥ Lβ_r | E) ≤ δ/(SA)``, for σ = γβ_r (Corollaries 1 and 3).

    Printed γ√log(4SAM/δ) + 1 (L415, L657). Corrected γ√(2·log(4SAM/δ)) + 1, because
    ``P(|N(0, σ²)| ≥ t) ≤ 2·exp(−t²/(2σ²))``.

    Args:
        delta: The failure probability δ, in (0, 1).
        num_states: The number S of states.
        num_actions: The number A of actions.
        members: The number M of members of the ensemble.
        gamma: The factor γ of σ = γβ_r.
        corrected: True for what holds, False for what the paper prints.

    Example:
        >>> round(narl.theory.estimation_radius(0.1, 6, 2, members=10), 2)
        6.82
    """
    check_delta(delta)
    check_counts(num_states=num_states, num_actions=num_actions, members=members)
    log_term = math.log(4.0 * num_states * num_actions * members / delta)
    return gamma * math.sqrt((2.0 if corrected else 1.0) * log_term) + 1.0


@implements("corollary:dynamics")
def dynamics_radius(
    delta: float, num_states: int, num_actions: int, members: int, *, corrected: bool = False
) -> float:
    """Return C with P(‖P̃ − P‖₁ ≥ C·β_P | E) ≤ δ/(SA), for σ = 2β_P (Corollary 4).

    Printed 2√(S·log(4SAM/δ)) + 1 (L690). Corrected 2(S√(2/π) + √(2S·log(SAM/δ))) + 1: for
    g ~ N(0, I_S), E‖g‖₁ = S√(2/π), and ‖·‖₁ is √S-Lipschitz, so that Gaussian concentration
    gives P(‖g‖₁ ≥ E‖g‖₁ + t) ≤ exp(−t²/(2S)); union over the M members.

    Args:
        delta: The failure probability δ, in (0, 1).
        num_states: The number S of states.
        num_actions: The number A of actions.
        members: The number M of members of the ensemble.
        corrected: True for what holds, False for what the paper prints.

    Example:
        >>> round(narl.theory.dynamics_radius(0.1, 6, 2, members=10), 2)
        15.26
    """
    check_delta(delta)
    check_counts(num_states=num_states, num_actions=num_actions, members=members)
    pairs = num_states * num_actions * members
    if not corrected:
        return 2.0 * math.sqrt(num_states * math.log(4.0 * pairs / delta)) + 1.0
    mean = num_states * math.sqrt(2.0 / math.pi)
    return 2.0 * (mean + math.sqrt(2.0 * num_states * math.log(pairs / delta))) + 1.0


@implements("corollary:dynamics")
def value_radius(delta: float, num_states: int, num_actions: int, members: int) -> float:
    """Return C with ``P(|⟨P̃ − P, v⟩| ≥ C·β_P‖v‖∞ | E) ≤ δ/(SA)`` for v independent of ξ.

    For σ = 2β_P, C = 2√(2S·log(2SAM/δ)) + 1: ⟨ξ, v⟩ ~ N(0, σ²‖v‖₂²) and ‖v‖₂ ≤ √S‖v‖∞. With new
    noise at every stage v = Ṽ^{h+1} is independent of ξ, and Theorem 1 keeps its rate without the
    false ℓ1 bound.

    Args:
        delta: The failure probability δ, in (0, 1).
        num_states: The number S of states.
        num_actions: The number A of actions.
        members: The number M of members of the ensemble.

    Example:
        >>> round(narl.theory.value_radius(0.1, 6, 2, members=10), 2)
        20.33
    """
    check_delta(delta)
    check_counts(num_states=num_states, num_actions=num_actions, members=members)
    log_term = math.log(2.0 * num_states * num_actions * members / delta)
    return 2.0 * math.sqrt(2.0 * num_states * log_term) + 1.0


@implements("theorem:3")
def fake_pairs(
    delta: float,
    num_states: int,
    num_actions: int,
    horizon: int,
    num_steps: float,
    *,
    corrected: bool = False,
) -> int:
    """Return M_B, the number of pairs {−1, +1} per real reward; printed H·log T (L368).

    Corrected 2H²·log(2√(T+1)/δ') with δ' = δ/(2SAH): the rescaled bootstrap mean has standard
    deviation about √(2M_B/N), which must reach Theorem 2's 2Hβ_r(N, δ') for all N ≤ T.

    Args:
        delta: The failure probability δ, in (0, 1).
        num_states: The number S of states.
        num_actions: The number A of actions.
        horizon: The number H of steps of an episode.
        num_steps: The number T = K·H of steps.
        corrected: True for what holds, False for what the paper prints.

    Example:
        >>> narl.theory.fake_pairs(0.1, 6, 2, horizon=20, num_steps=20_000)
        199
    """
    check_delta(delta)
    check_counts(num_states=num_states, num_actions=num_actions, horizon=horizon)
    check_counts(num_steps=num_steps)
    if not corrected:
        return max(1, math.ceil(horizon * math.log(num_steps)))
    pairs = 2.0 * num_states * num_actions * horizon
    return math.ceil(2.0 * horizon**2 * math.log(2.0 * math.sqrt(num_steps + 1) * pairs / delta))


@implements("sec:3.3.1", "theorem:3")
def fake_reward_shrinkage(num_pairs: int, n: ArrayLike = math.inf) -> np.ndarray:
    """Return the mean of the buffer over the mean of its real rewards, after n visits (§3.3.1).

    There are n real rewards and 2M_B(n+1) fakes of mean 0, the initial ones included (L351), so
    the quotient is 1/(1 + 2M_B(1 + 1/n)), which tends to 1/(1+2M_B). Rescaling divides by it.

    Args:
        num_pairs: The number M_B of pairs {−1, +1} per real reward.
        n: The number of visits, of any shape.

    Example:
        >>> round(float(narl.theory.fake_reward_shrinkage(1)), 4)
        0.3333
    """
    n = np.asarray(n, dtype=float)
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / (1.0 + 2.0 * num_pairs * (1.0 + 1.0 / n)))
