"""Planning by backward induction: value iteration, NAEVI (Eq. 2), NAVI (Eq. 4), extended VI.

Every planner takes the estimates of an agent and returns a `Plan`; `p_hat` may be a dense table or
a `Dynamics`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from narl.optimism import optimistic
from narl.paper import implements
from narl.tabular.noise import Noise, as_products
from narl.tabular.options import Clip
from narl.tabular.transitions import Dynamics, Table, as_dynamics, dense, expect, slot_values

Backup = Callable[[Any, Int[Array, ""], Float[Array, " S"]], tuple[Float[Array, "S A"], Any]]

HUGE = 1e30
"""Bound of values without a clip: signed noise on P̂ can double them at every step."""


class Plan(NamedTuple):
    """The outcome of planning: π_k is greedy in ``q``, and ``value`` is Ṽ_k(π_k).

    Example:
        >>> mdp = narl.tabular.riverswim()
        >>> plan = narl.tabular.value_iteration(mdp.p, mdp.r, mdp.p0, mdp.horizon)
        >>> plan.q.shape, round(float(plan.value), 4)
        ((20, 6, 2), 3.3973)
    """

    q: Float[Array, "H S A"]
    """Q̃_h(s,a): the value of each action at each step, as the agent believes."""
    value: Float[Array, ""]
    """Ṽ_k: the return that the agent expects of its policy; only Eq. 1 uses it."""


def backward_induction(
    backup: Backup,
    carry: Any,
    p0: Float[Table, " S"],
    horizon: int,
    clip: Clip = "horizon",
) -> Plan:
    """Return the plan of ``backup(carry, h, Ṽ^{h+1}) -> (Q̃^h, carry)`` from h = H−1 down to 0.

    The value max_a Q̃^h is clipped to [0, H−h] (the appendix needs ‖Ṽ^h‖∞ ≤ H−h, Eq. 2 lacks it);
    Q̃^h is not clipped, so that the clip makes no ties.
    """

    def step(state: tuple, h: Array) -> tuple[tuple, Array]:
        v, carry = state
        q, carry = backup(carry, h, v)
        low, high = (0.0, horizon - h) if clip == "horizon" else (-HUGE, HUGE)
        return (jnp.clip(q.max(-1), low, high), carry), q

    p0 = jnp.asarray(p0)
    start = (jnp.zeros_like(p0), carry)
    (v, _), q = jax.lax.scan(step, start, jnp.arange(horizon), reverse=True)
    return Plan(q, p0 @ v)


def value_iteration(
    p: Dynamics | Table,
    r: Float[Table, "S A"],
    p0: Float[Table, " S"],
    horizon: int,
    *,
    clip: Clip = "none",
) -> Plan:
    """Return the plan of value iteration, without optimism.

    Args:
        p: Dynamics, a table [S, A, S] or the estimate of `estimate_model`.
        r: Rewards [S, A].
        p0: Distribution of the first state, [S].
        horizon: Steps in every episode.
        clip: "horizon" clips values to [0, H−h], "none" does not.

    Returns:
        The `Plan`.

    Example:
        >>> mdp = narl.tabular.riverswim()
        >>> plan = narl.tabular.value_iteration(mdp.p, mdp.r, mdp.p0, mdp.horizon)
        >>> plan.q[0].argmax(axis=-1)  # swim right in every state
        Array([1, 1, 1, 1, 1, 1], dtype=int32)
    """
    p, r = as_dynamics(p), jnp.asarray(r)
    return backward_induction(lambda _, h, v: (r + expect(p, v), None), None, p0, horizon, clip)


@implements("eq:2", "assumption:2")
def naevi(
    p_hat: Dynamics | Table,
    r_hat: Float[Table, "S A"],
    noise: Noise,
    p0: Float[Table, " S"],
    horizon: int,
    *,
    clip: Clip = "horizon",
    clip_reward: bool = True,
) -> Plan:
    """Return the plan of Noise Augmented Extended Value Iteration (Eq. 2).

    Q̃^h(s,a) = r̂ + E_P̂[Ṽ^{h+1}] + A + B, with A = max_m ξ^m(s,a) for the present and
    B = max_m ⟨ξ^m(s,a), Ṽ^{h+1}⟩ for the future. The two maxima are separate.

    Args:
        p_hat: Estimated dynamics, a table [S, A, S] or the estimate of `estimate_model`.
        r_hat: Estimated rewards [S, A].
        noise: The noise ξ of M members.
        p0: Distribution of the first state, [S].
        horizon: Steps in every episode.
        clip: "horizon" clips values to [0, H−h], "none" does not.
        clip_reward: Whether r̃ = r̂ + A is kept in [0, 1] (the appendix's first assumption).

    Returns:
        The `Plan`.

    Example:
        >>> mdp = narl.tabular.riverswim()
        >>> xi = np.stack([np.full((6, 2), -0.1), np.full((6, 2), 0.1)])  # two members
        >>> noise = narl.tabular.Noise(reward=xi, dynamics=None)
        >>> plan = narl.tabular.naevi(mdp.p, mdp.r, noise, mdp.p0, mdp.horizon)
        >>> bool(plan.value > narl.tabular.solve(mdp).value)  # optimistic
        True
    """
    p_hat = as_dynamics(p_hat)
    term_a = optimistic(jnp.asarray(noise.reward)).value
    r_tilde = jnp.asarray(r_hat) + term_a
    if clip_reward:
        r_tilde = jnp.clip(r_tilde, 0.0, 1.0)
    products = as_products(noise.dynamics, p_hat.prob.shape[-3])

    def backup(carry: Any, h: Array, v: Array) -> tuple[Array, Any]:
        product, carry = products.product(carry, h, v)
        term_b = optimistic(product).value
        return r_tilde + expect(p_hat, v) + term_b, carry

    return backward_induction(backup, products.carry, p0, horizon, clip)


@implements("eq:4")
def navi(
    p_hat: Dynamics | Table,
    r_tilde: Float[Table, "S A"],
    q_prev: Float[Table, "H S A"],
    p0: Float[Table, " S"],
    horizon: int,
) -> Plan:
    """Return the plan of Noise Augmented Value Iteration (Eq. 4).

    Q̃_{k,h} = min(Q̃_{k−1,h}, H−h, r̃ + E_P̂[Ṽ_{k,h+1}]). The paper prints the cap H; rewards of at
    most 1 per step allow H−h.

    Args:
        p_hat: Estimated dynamics, a table [S, A, S] or the estimate of `estimate_model`.
        r_tilde: Rewards with noise, [S, A].
        q_prev: Q̃ of the previous episode [H, S, A]; H−h switches the running minimum off.
        p0: Distribution of the first state, [S].
        horizon: Steps in every episode.

    Returns:
        The `Plan`.

    Example:
        >>> mdp = narl.tabular.riverswim()
        >>> q_prev = np.full((20, 6, 2), 20.0)
        >>> plan = narl.tabular.navi(mdp.p, mdp.r, q_prev, mdp.p0, mdp.horizon)
        >>> round(float(plan.value), 4)  # without noise: V*
        3.3973
    """
    p_hat = as_dynamics(p_hat)
    r_tilde, q_prev = jnp.asarray(r_tilde), jnp.asarray(q_prev)

    def backup(_: Any, h: Array, v: Array) -> tuple[Array, Any]:
        q = r_tilde + expect(p_hat, v)
        return jnp.minimum(jnp.minimum(q_prev[h], horizon - h), q), None

    return backward_induction(backup, None, p0, horizon)


def steps_to_go(horizon: int, num_states: int, num_actions: int) -> Float[Array, "H S A"]:
    """Return H − h for every pair: the largest value if rewards are at most 1 per step."""
    ladder = jnp.arange(horizon, 0, -1.0)
    return jnp.broadcast_to(ladder[:, None, None], (horizon, num_states, num_actions))


def most_optimistic(
    p: Float[Array, "S A S"], width: Float[Array, "S A"], v: Float[Array, " S"]
) -> Float[Array, "S A S"]:
    """Return argmax ⟨p̃, v⟩ over distributions with ‖p̃ − p‖₁ ≤ width (Jaksch et al., Fig. 2).

    The best state gains width/2, and the worst states lose the surplus, the very worst first.
    """
    order = jnp.argsort(v)
    sorted_p = p[..., order]
    best = jnp.minimum(1.0, sorted_p[..., -1] + width / 2)
    raised = sorted_p.at[..., -1].set(best)
    surplus = raised.sum(-1, keepdims=True) - 1.0
    before = jnp.cumsum(raised, axis=-1) - raised
    taken = jnp.clip(surplus - before, 0.0, raised)
    return (raised - taken)[..., jnp.argsort(order)]


def optimistic_expectation(
    p: Dynamics, width: Float[Array, "S A"], v: Float[Array, " S"]
) -> Float[Array, "S A"]:
    """Return max ⟨p̃, v⟩ over ‖p̃ − p‖₁ ≤ width from the stored successors, without full rows.

    The worst states lose the mass that the best state gains: a slot loses what is left to lose
    after all mass on lower values, and the uniform share loses the rest, by the running sum of the
    sorted values.
    """
    assert p.successors is not None
    num_states = v.shape[0]
    values = slot_values(v, p.successors)
    best = jnp.argmax(v)
    at_best = (p.prob * (p.successors == best)).sum(-1) + p.spread / num_states
    moved = jnp.minimum(width / 2, 1.0 - at_best)
    index = jnp.arange(p.prob.shape[-1])
    this, other = values[..., :, None], values[..., None, :]
    earlier = (other < this) | ((other == this) & (index < index[:, None]))
    ascending = jnp.sort(v)
    num_lower = jnp.searchsorted(ascending, v).astype(v.dtype)
    per_state = p.spread / num_states
    before = (p.prob[..., None, :] * earlier).sum(-1)
    before = before + per_state[..., None] * slot_values(num_lower, p.successors)
    taken = jnp.clip(moved[..., None] - before, 0.0, p.prob)
    slots = ((p.prob - taken) * values).sum(-1)
    position = (moved - taken.sum(-1)) / jnp.where(per_state > 0, per_state, 1.0)
    whole = jnp.clip(position.astype(jnp.int32), 0, num_states - 1)
    running = jnp.cumsum(ascending) - ascending
    lost = per_state * (running[whole] + (position - whole) * ascending[whole])
    return slots + p.spread * v.mean() - lost + moved * v[best]


@implements("app:e-ucrl2")
def extended_value_iteration(
    p_hat: Dynamics | Table,
    r_hat: Float[Table, "S A"],
    r_width: Float[Table, "S A"],
    p_width: Float[Table, "S A"],
    p0: Float[Table, " S"],
    horizon: int,
    *,
    clip: Clip = "none",
    compounding: bool = False,
) -> Plan:
    """Return the plan of UCRL2's extended value iteration over confidence sets of r̂ and P̂.

    Args:
        p_hat: Estimated dynamics, a table [S, A, S] or the estimate of `estimate_model`.
        r_hat: Estimated rewards [S, A].
        r_width: Half width of the rewards' confidence intervals, [S, A].
        p_width: Largest ℓ1 distance from p_hat, [S, A].
        p0: Distribution of the first state, [S].
        horizon: Steps in every episode.
        clip: "horizon" clips values to [0, H−h], "none" does not.
        compounding: Whether to repeat an error of the paper's baseline code: the raised row of
            each backup replaces P̂(s,a) in the backups that follow, unless the slack already fills
            the best state.

    Returns:
        The `Plan`.

    Example:
        >>> mdp = narl.tabular.riverswim()
        >>> widths = [np.full((6, 2), width) for width in (0.0, 0.1)]
        >>> plan = narl.tabular.extended_value_iteration(
        ...     mdp.p, mdp.r, *widths, mdp.p0, mdp.horizon
        ... )
        >>> bool(plan.value > narl.tabular.solve(mdp).value)  # optimistic
        True
    """
    p_hat = as_dynamics(p_hat)
    r_tilde, p_width = jnp.asarray(r_hat) + r_width, jnp.asarray(p_width)
    if p_hat.successors is not None and not compounding:

        def slot_backup(_: None, h: Array, v: Array) -> tuple[Array, None]:
            return r_tilde + optimistic_expectation(p_hat, p_width, v), None

        return backward_induction(slot_backup, None, p0, horizon, clip)
    p_start = dense(p_hat, p0.shape[0])

    def backup(p: Array, h: Array, v: Array) -> tuple[Array, Array]:
        p_tilde = most_optimistic(p, p_width, v)
        q = r_tilde + p_tilde @ v
        if compounding:
            overflow = p[..., jnp.argsort(v)[-1]] + p_width / 2 > 1.0
            p = jnp.where(overflow[..., None], p, p_tilde)
        return q, p

    return backward_induction(backup, p_start, p0, horizon, clip)
