"""`Problem`: what an agent is told about an MDP. `World`: the true MDP that is simulated."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from narl.tabular.exact_values import Solution
from narl.tabular.mdp import TabularMDP
from narl.tabular.transitions import Dynamics


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Problem:
    """The knowledge of an agent in advance: sizes, horizon, P_0 and the number of episodes.

    `run` makes it from the MDP and gives it to the functions of an `Agent`.

    Example:
        >>> start = jnp.array([1.0, 0.0])
        >>> problem = narl.tabular.Problem(start, jnp.float32(100), None, 2, 3, horizon=5)
        >>> problem.num_states, problem.num_actions, problem.horizon
        (2, 3, 5)
    """

    p0: Float[Array, " S"]
    """P_0: distribution of the first state."""
    num_episodes: Float[Array, ""]
    """K; T = KH enters δ = ε/(4T) of Theorems 1 to 3."""
    successors: Int[Array, "S A B"] | None
    """The states whose transition counts are stored (see `narl.tabular.transitions`)."""
    num_states: int = dataclasses.field(metadata={"static": True})
    """The number S of states."""
    num_actions: int = dataclasses.field(metadata={"static": True})
    """The number A of actions."""
    horizon: int = dataclasses.field(metadata={"static": True})
    """H: number of steps in every episode."""

    @property
    def num_slots(self) -> int:
        """The number of stored successors of each pair."""
        return self.num_states if self.successors is None else self.successors.shape[-1]


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class World:
    """The true MDP on the device, as episodes and exact regret need it."""

    p: Dynamics
    cumulative: Float[Array, "S A B"]
    """Cumulative probabilities of the slots, for sampling by inversion."""
    r: Float[Array, "S A"]
    r_std: Float[Array, "S A"]
    p0_cumulative: Float[Array, " S"]
    p0: Float[Array, " S"]
    gap: Float[Array, "H S A"]
    """V*_h(s) − Q*_h(s,a), from float64."""
    bad: Float[Array, "S A"] | None


def _cumulate(p: np.ndarray) -> np.ndarray:
    """Return cumulative sums whose last positive entry is exactly 1.

    Otherwise rounding could pick an outcome of probability 0.
    """
    total = np.cumsum(p, axis=-1)
    remaining = np.cumsum(p[..., ::-1], axis=-1)[..., ::-1] - p
    return np.where(remaining <= 0, 1.0, total)


def make_problem(mdp: TabularMDP, num_episodes: int) -> Problem:
    """Return what an agent knows of an MDP."""
    return Problem(
        p0=jnp.asarray(mdp.p0, jnp.float32),
        num_episodes=jnp.float32(num_episodes),
        successors=None if mdp.successors is None else jnp.asarray(mdp.successors),
        num_states=mdp.num_states,
        num_actions=mdp.num_actions,
        horizon=mdp.horizon,
    )


def make_world(mdp: TabularMDP, solution: Solution, problem: Problem) -> World:
    """Return the MDP for the simulator."""
    prob = mdp.p if problem.successors is None else mdp.prob

    def f32(x: np.ndarray) -> Array:
        return jnp.asarray(x, jnp.float32)

    return World(
        p=Dynamics(f32(prob), jnp.zeros(mdp.r.shape, jnp.float32), problem.successors),
        cumulative=f32(_cumulate(prob)),
        r=f32(mdp.r),
        r_std=f32(mdp.r_std),
        p0_cumulative=f32(_cumulate(mdp.p0)),
        p0=problem.p0,
        gap=f32(solution.gap),
        bad=None if mdp.bad is None else f32(mdp.bad),
    )
