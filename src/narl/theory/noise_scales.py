"""Confidence radii β, the scales σ of the noise, and UCBVI's bonus."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from scipy.special import ndtri

from narl.errors import InputError
from narl.paper import implements
from narl.theory.argument_checks import check_counts


def _log_ratio(n: ArrayLike, delta: ArrayLike) -> tuple[jax.Array, jax.Array]:
    """Return n with 0 taken as 1, and log(√(n+1)/δ) without forming the quotient."""
    counts = jnp.maximum(jnp.asarray(n, dtype=float), 1.0)
    return counts, 0.5 * jnp.log1p(counts) - jnp.log(jnp.asarray(delta, dtype=float))


@implements("lemma:confidence")
def beta_r(n: ArrayLike, delta: ArrayLike, *, corrected: bool = False) -> jax.Array:
    """Return β_r(n, δ'), the radius of r̂ around r for all n at once (Lemma 4, L553).

    Printed √(log(2√(n+1)/δ')/n): right for rewards in [0,1], which are ½-sub-Gaussian.
    Corrected: for the 1-sub-Gaussian rewards of Assumption 1 the mixture bound needs
    √(2(1+1/n)) times as much (√2 for one fixed n).

    Args:
        n: The number of visits N, of any shape; 0 is taken as 1.
        delta: The failure probability δ', in (0, 1).
        corrected: True for what holds, False for what the paper prints.

    Example:
        >>> round(float(narl.theory.beta_r(100, 0.1)), 3)
        0.23
        >>> round(float(narl.theory.beta_r(100, 0.1, corrected=True)), 3)
        0.327
    """
    counts, log_ratio = _log_ratio(n, delta)
    radius = jnp.sqrt((math.log(2.0) + log_ratio) / counts)
    return radius * jnp.sqrt(2.0 * (1.0 + 1.0 / counts)) if corrected else radius


@implements("lemma:confidence")
def beta_p(n: ArrayLike, delta: ArrayLike, num_states: int) -> jax.Array:
    """Return β_P(n, δ') = √(4·log(√(n+1)·2^S/δ')/n), the ℓ1 radius of P̂ (Lemma 4, L555).

    Args:
        n: The number of visits N, of any shape; 0 is taken as 1.
        delta: The failure probability δ', in (0, 1).
        num_states: The number S of states.

    Example:
        >>> round(float(narl.theory.beta_p(100, 0.1, num_states=6)), 3)
        0.592
    """
    counts, log_ratio = _log_ratio(n, delta)
    return jnp.sqrt(4.0 * (num_states * math.log(2.0) + log_ratio) / counts)


@implements("theorem:1", "theorem:2", "theorem:3")
def delta_of(epsilon: float, num_steps: float) -> float:
    """Return δ = ε/(4T) of Theorems 1 to 3 (L307, L339, L368).

    Args:
        epsilon: The failure probability ε of the theorem, in (0, 1).
        num_steps: The number T = K·H of steps.

    Example:
        >>> narl.theory.delta_of(0.1, num_steps=20_000)
        1.25e-06
    """
    if not 0.0 < epsilon < 1.0:
        raise InputError(f"epsilon: {epsilon} is not a failure probability; it must be in (0, 1)")
    check_counts(num_steps=num_steps)
    return epsilon / (4.0 * num_steps)


@implements("theorem:1")
def sigma_r(
    n: ArrayLike, delta: ArrayLike, num_states: int, num_actions: int, *, corrected: bool = False
) -> jax.Array:
    """Return σ_r = 2β_r(N, δ/(2SA)) of Theorem 1 (L314); corrected: 1-sub-Gaussian rewards.

    Args:
        n: The number of visits N, of any shape; 0 is taken as 1.
        delta: The failure probability δ, in (0, 1).
        num_states: The number S of states.
        num_actions: The number A of actions.
        corrected: True for what holds, False for what the paper prints.

    Example:
        >>> round(float(narl.theory.sigma_r(100, 0.1, num_states=6, num_actions=2)), 3)
        0.582
    """
    pairs = 2 * num_states * num_actions
    return 2.0 * beta_r(n, jnp.asarray(delta) / pairs, corrected=corrected)


@implements("theorem:1")
def sigma_p(
    n: ArrayLike, delta: ArrayLike, num_states: int, num_actions: int, *, corrected: bool = False
) -> jax.Array:
    """Return σ_P = 2β_P(N, δ/(SA)) of Theorem 1 (L315); corrected: δ/(2SA), as in E (L274).

    Args:
        n: The number of visits N, of any shape; 0 is taken as 1.
        delta: The failure probability δ, in (0, 1).
        num_states: The number S of states.
        num_actions: The number A of actions.
        corrected: True for what holds, False for what the paper prints.

    Example:
        >>> round(float(narl.theory.sigma_p(100, 0.1, num_states=6, num_actions=2)), 3)
        1.342
    """
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

    Args:
        n: The number of visits N, of any shape; 0 is taken as 1.
        delta: The failure probability δ, in (0, 1).
        num_states: The number S of states.
        num_actions: The number A of actions.
        horizon: The number H of steps of an episode.
        corrected: True for what holds, False for what the paper prints.

    Example:
        >>> round(float(narl.theory.sigma_r_ucbvi(100, 0.1, 6, 2, horizon=20)), 2)
        11.65
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
    """Return b_k = 7HL/√N with L = ln(5SAKH/δ), UCBVI's Hoeffding bonus (L1045).

    Args:
        n: The number of visits N, of any shape; 0 is taken as 1.
        delta: The failure probability δ, in (0, 1).
        num_states: The number S of states.
        num_actions: The number A of actions.
        horizon: The number H of steps of an episode.
        num_episodes: The number K of episodes.

    Example:
        >>> round(float(narl.theory.ucbvi_bonus(100, 0.1, 6, 2, 20, num_episodes=1000)), 1)
        228.2
    """
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

    Args:
        n: The number of visits N, of any shape; 0 is taken as 1.
        delta: The failure probability δ, in (0, 1).
        num_states: The number S of states.
        num_actions: The number A of actions.
        horizon: The number H of steps of an episode.
        num_episodes: The number K of episodes.
        corrected: True for what holds, False for what the paper prints.

    Example:
        >>> round(float(narl.theory.sigma_bonus(100, 0.1, 6, 2, 20, 1000)), 2)
        11.65
        >>> round(float(narl.theory.sigma_bonus(100, 0.1, 6, 2, 20, 1000, corrected=True)), 1)
        178.3
    """
    if not corrected:
        return sigma_r_ucbvi(n, delta, num_states, num_actions, horizon)
    bonus = ucbvi_bonus(n, delta, num_states, num_actions, horizon, num_episodes)
    radius = beta_r(n, jnp.asarray(delta) / (2 * num_states * num_actions))
    return (bonus + radius) / float(ndtri(0.9))
