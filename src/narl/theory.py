"""The constants of the paper's theorems: radii, noise scales, ensemble sizes and tail bounds.

Where the paper is wrong, `corrected=False` gives what is printed and `corrected=True` what holds;
`docs/errata.md` has each error with its proof and its test. S, A, H, K and T = K·H are states,
actions, horizon, episodes and steps; L… are lines of the paper's LaTeX source.

The radii and scales take counts of any shape and trace under `jax.jit`; a count of 0 is taken as 1
(L780). Everything else is float64 on the host.
"""

from __future__ import annotations

import math
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from scipy.special import ndtr, ndtri

from narl.errors import InputError, unknown
from narl.lazy_names import export_definitions
from narl.paper import implements

Tail = Literal["paper", "exact", "unvisited"]
"""The lower bound on the probability that one member is optimistic, for ensemble sizes.

paper: 1/10 for rewards (Lemma 3), 1/(9S) for dynamics (Lemma 7).
exact: Φ̄(½) = .3085 for both, from σ = 2β; unvisited pairs must have σ = 2β(1, ·).
unvisited: Φ̄(1) = .1587 for both, from unvisited pairs with N(0,1) noise (L621, L709).
"""


def _log_ratio(n: ArrayLike, delta: ArrayLike) -> tuple[jax.Array, jax.Array]:
    """Return n with 0 taken as 1, and log(√(n+1)/δ) without forming the quotient."""
    counts = jnp.maximum(jnp.asarray(n, dtype=float), 1.0)
    return counts, 0.5 * jnp.log1p(counts) - jnp.log(jnp.asarray(delta, dtype=float))


def _check_delta(delta: float) -> None:
    if not 0.0 < delta < 1.0:
        raise InputError(f"delta: {delta} is not a failure probability; it must be in (0, 1)")


def _check_counts(**counts: float) -> None:
    for field, value in counts.items():
        if value < 1:
            raise InputError(f"{field}: {value} is too small; it must be at least 1")


@implements("lemma:confidence")
def beta_r(n: ArrayLike, delta: ArrayLike, *, corrected: bool = False) -> jax.Array:
    """Return β_r(n, δ'), the radius of r̂ around r for all n at once (Lemma 4, L553).

    Printed √(log(2√(n+1)/δ')/n): right for rewards in [0,1], which are ½-sub-Gaussian.
    Corrected: for the 1-sub-Gaussian rewards of Assumption 1 the mixture bound needs
    √(2(1+1/n)) times as much (√2 for one fixed n).
    """
    counts, log_ratio = _log_ratio(n, delta)
    radius = jnp.sqrt((math.log(2.0) + log_ratio) / counts)
    return radius * jnp.sqrt(2.0 * (1.0 + 1.0 / counts)) if corrected else radius


@implements("lemma:confidence")
def beta_p(n: ArrayLike, delta: ArrayLike, num_states: int) -> jax.Array:
    """Return β_P(n, δ') = √(4·log(√(n+1)·2^S/δ')/n), the ℓ1 radius of P̂ (Lemma 4, L555)."""
    counts, log_ratio = _log_ratio(n, delta)
    return jnp.sqrt(4.0 * (num_states * math.log(2.0) + log_ratio) / counts)


@implements("theorem:1", "theorem:2", "theorem:3")
def delta_of(epsilon: float, num_steps: float) -> float:
    """Return δ = ε/(4T) of Theorems 1 to 3 (L307, L339, L368)."""
    if not 0.0 < epsilon < 1.0:
        raise InputError(f"epsilon: {epsilon} is not a failure probability; it must be in (0, 1)")
    _check_counts(num_steps=num_steps)
    return epsilon / (4.0 * num_steps)


@implements("theorem:1")
def sigma_r(
    n: ArrayLike, delta: ArrayLike, num_states: int, num_actions: int, *, corrected: bool = False
) -> jax.Array:
    """Return σ_r = 2β_r(N, δ/(2SA)) of Theorem 1 (L314); corrected: 1-sub-Gaussian rewards."""
    pairs = 2 * num_states * num_actions
    return 2.0 * beta_r(n, jnp.asarray(delta) / pairs, corrected=corrected)


@implements("theorem:1")
def sigma_p(
    n: ArrayLike, delta: ArrayLike, num_states: int, num_actions: int, *, corrected: bool = False
) -> jax.Array:
    """Return σ_P = 2β_P(N, δ/(SA)) of Theorem 1 (L315); corrected: δ/(2SA), as in E (L274)."""
    pairs = num_states * num_actions * (2 if corrected else 1)
    return 2.0 * beta_p(n, jnp.asarray(delta) / pairs, num_states)


@implements("theorem:2")
def sigma_r_ucbvi(
    n: ArrayLike,
    delta: ArrayLike,
    num_states: int,
    num_actions: int,
    horizon: int,
    *,
    corrected: bool = False,
) -> jax.Array:
    """Return σ_r = 2Hβ_r(N, δ/(2SA)) of Theorem 2 (L345).

    Corrected: twice the radius of r̂ + ⟨P̂, V*⟩ around r + ⟨P, V*⟩, for every stage. Samples are
    (1 + (H−1)/2)-sub-Gaussian under Assumption 1, hence (H+1)·β_r(N, δ/(2SAH), corrected).
    Then one member overestimates r + ⟨P, V*⟩ with probability Φ̄(½), with no need of b_k.
    """
    delta_pair = jnp.asarray(delta) / (2 * num_states * num_actions)
    if corrected:
        return (horizon + 1.0) * beta_r(n, delta_pair / horizon, corrected=True)
    return 2.0 * horizon * beta_r(n, delta_pair)


@implements("lemma:ucbvi-anticoncentration")
def ucbvi_bonus(
    n: ArrayLike,
    delta: ArrayLike,
    num_states: int,
    num_actions: int,
    horizon: int,
    num_episodes: ArrayLike,
) -> jax.Array:
    """Return b_k = 7HL/√N with L = ln(5SAKH/δ), UCBVI's Hoeffding bonus (L1045)."""
    log_ratio = jnp.log(jnp.asarray(num_episodes, dtype=float)) - jnp.log(jnp.asarray(delta))
    log_term = math.log(5.0 * num_states * num_actions * horizon) + log_ratio
    return 7.0 * horizon * log_term / jnp.sqrt(jnp.maximum(jnp.asarray(n, dtype=float), 1.0))


@implements("lemma:ucbvi-anticoncentration")
def sigma_bonus(
    n: ArrayLike,
    delta: ArrayLike,
    num_states: int,
    num_actions: int,
    horizon: int,
    num_episodes: ArrayLike,
    *,
    corrected: bool = False,
) -> jax.Array:
    """Return the σ for which Lemma 9 says P(r̃^m ≥ r + b_k | E) ≥ 1/10 (L1040); printed 2Hβ_r.

    Corrected: on E the worst case is r̂ = r − β_r, where the probability is Φ̄((b_k + β_r)/σ). The
    smallest σ for which it is 1/10 is (b_k + β_r)/Φ⁻¹(9/10).
    """
    if not corrected:
        return sigma_r_ucbvi(n, delta, num_states, num_actions, horizon)
    bonus = ucbvi_bonus(n, delta, num_states, num_actions, horizon, num_episodes)
    radius = beta_r(n, jnp.asarray(delta) / (2 * num_states * num_actions))
    return (bonus + radius) / float(ndtri(0.9))


def gaussian_tail(t: ArrayLike, sigma: ArrayLike = 1.0) -> np.ndarray:
    """Return Φ̄(t/σ) = P(N(0, σ²) > t), exactly."""
    return np.asarray(ndtr(-np.asarray(t, dtype=float) / np.asarray(sigma, dtype=float)))


@implements("lemma:gaussian-tail")
def gaussian_tail_lower_bound(t: ArrayLike, sigma: ArrayLike = 1.0) -> np.ndarray:
    """Return σt/(t²+σ²)·exp(−t²/(2σ²))/√(2π) ≤ P(X − μ > t), X ~ N(μ, σ²) (Lemma 2, L384)."""
    t, sigma = np.asarray(t, dtype=float), np.asarray(sigma, dtype=float)
    density = np.exp(-0.5 * (t / sigma) ** 2) / math.sqrt(2.0 * math.pi)
    return np.asarray(sigma * t / (t**2 + sigma**2) * density)


@implements("lemma:reward-anticoncentration", "lemma:reward-anticoncentration-general")
def anticoncentration(gamma: ArrayLike, *, corrected: bool = False) -> np.ndarray:
    """Return the probability that one member with σ = γβ_r exceeds r̂ + β_r (Lemmas 3 and 6).

    Printed: the lower bound p(γ) = γ/(1+γ²)·(1 − 1/(2γ²))/√(2π) of L651; p(2) ≥ 1/10.
    Corrected: the probability itself, Φ̄(1/γ).
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
    """
    _check_counts(num_states=num_states)
    return float(gaussian_tail(0.5)) if corrected else 1.0 / (9.0 * num_states)


@implements("corollary:reward", "corollary:reward-general", "corollary:dynamics")
def failure_probability(
    members: int, probability: float = 0.1, *, corrected: bool = False
) -> float:
    """Return P(no member is optimistic) if each is optimistic with at least this probability p.

    Printed p^M (L405, L598, L653, L684); corrected (1−p)^M.
    """
    _check_counts(members=members)
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
    """
    _check_delta(delta)
    _check_counts(num_states=num_states, num_actions=num_actions, horizon=horizon)
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
    """
    _check_delta(delta)
    _check_counts(num_states=num_states, num_actions=num_actions, horizon=horizon)
    probability = _tail_probability(tail, dynamics_anticoncentration(num_states), corrected)
    if corrected:
        return _members(math.log(2.0 * num_states * num_actions * horizon / delta), probability)
    return math.ceil(3.0 + math.log(2.0 * num_actions * horizon / delta) / 3.0)


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
    """Return L with P(|r̃ − r| ≥ Lβ_r | E) ≤ δ/(SA), for σ = γβ_r (Corollaries 1 and 3).

    Printed γ√log(4SAM/δ) + 1 (L415, L657). Corrected γ√(2·log(4SAM/δ)) + 1, because
    P(|N(0, σ²)| ≥ t) ≤ 2·exp(−t²/(2σ²)).
    """
    _check_delta(delta)
    _check_counts(num_states=num_states, num_actions=num_actions, members=members)
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
    """
    _check_delta(delta)
    _check_counts(num_states=num_states, num_actions=num_actions, members=members)
    pairs = num_states * num_actions * members
    if not corrected:
        return 2.0 * math.sqrt(num_states * math.log(4.0 * pairs / delta)) + 1.0
    mean = num_states * math.sqrt(2.0 / math.pi)
    return 2.0 * (mean + math.sqrt(2.0 * num_states * math.log(pairs / delta))) + 1.0


@implements("corollary:dynamics")
def value_radius(delta: float, num_states: int, num_actions: int, members: int) -> float:
    """Return C with P(|⟨P̃ − P, v⟩| ≥ C·β_P‖v‖∞ | E) ≤ δ/(SA) for v independent of ξ.

    For σ = 2β_P, C = 2√(2S·log(2SAM/δ)) + 1: ⟨ξ, v⟩ ~ N(0, σ²‖v‖₂²) and ‖v‖₂ ≤ √S‖v‖∞. With new
    noise at every stage v = Ṽ^{h+1} is independent of ξ, and Theorem 1 keeps its rate without the
    false ℓ1 bound.
    """
    _check_delta(delta)
    _check_counts(num_states=num_states, num_actions=num_actions, members=members)
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
    """
    _check_delta(delta)
    _check_counts(num_states=num_states, num_actions=num_actions, horizon=horizon)
    _check_counts(num_steps=num_steps)
    if not corrected:
        return max(1, math.ceil(horizon * math.log(num_steps)))
    pairs = 2.0 * num_states * num_actions * horizon
    return math.ceil(2.0 * horizon**2 * math.log(2.0 * math.sqrt(num_steps + 1) * pairs / delta))


@implements("sec:3.3.1", "theorem:3")
def fake_reward_shrinkage(num_pairs: int, n: ArrayLike = math.inf) -> np.ndarray:
    """Return the mean of the buffer over the mean of its real rewards, after n visits (§3.3.1).

    There are n real rewards and 2M_B(n+1) fakes of mean 0, the initial ones included (L351), so
    the quotient is 1/(1 + 2M_B(1 + 1/n)), which tends to 1/(1+2M_B). Rescaling divides by it.
    """
    n = np.asarray(n, dtype=float)
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / (1.0 + 2.0 * num_pairs * (1.0 + 1.0 / n)))


export_definitions(__name__)
