"""Finite MDPs with a horizon (§2 of the paper), and the episodes that are played in them.

MDPs are NumPy tables in float64; agents compute in float32 on the device.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from narl.display import Described, Description, counted
from narl.errors import InputError
from narl.paper import implements
from narl.tabular.transitions import dense_rows

MAX_ENTRIES = 2**28
"""Largest table that is built, such as p [S, A, S] or Q* [H, S, A]: 2 GiB in float64."""
LARGE_TABLE = 2**24
"""A dense table p of more entries (128 MiB) is neither hashed nor written to files."""

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
        """Return the distribution of the next state after one state and action.

        Args:
            state: The state, from 0.
            action: The action, from 0.

        Returns:
            One probability for every state.

        Example:
            >>> narl.tabular.deep_sea(3).next_state(0, 0).sum().item()
            1.0
        """
        row = self.prob[state, action]
        if self.successors is None:
            return row
        return dense_rows(row, self.successors[state, action], self.num_states)


def find_mdp(mdp: TabularMDP | str | os.PathLike[str]) -> TabularMDP:
    """Return the MDP that is given, or that a name such as "riverswim" stands for (see `make`)."""
    if isinstance(mdp, str | os.PathLike):
        from narl.tabular.envs import make  # which imports this module

        return make(mdp)
    if not isinstance(mdp, TabularMDP):
        raise InputError(f"mdp: a {type(mdp).__name__} given; it must be a TabularMDP or a name")
    return mdp


def scale_rewards(mdp: TabularMDP | str | os.PathLike[str]) -> TabularMDP:
    """Return the MDP with mean rewards scaled to [0, 1], the range that the agents assume.

    Every episode has H steps, so that the best policies stay the same; values and regret are
    divided by the range of the mean rewards. Rewards that are all equal become 0.

    Args:
        mdp: An MDP with any rewards, or its name (see `make`).

    Returns:
        A new MDP, whose name ends in "-scaled".

    Example:
        >>> mdp = narl.tabular.make_mdp([[[1], [1]]], r=[[-100, -1]], p0=[1], horizon=2)
        >>> narl.tabular.scale_rewards(mdp).r
        array([[0., 1.]])
    """
    mdp = find_mdp(mdp)
    low, high = float(mdp.r.min()), float(mdp.r.max())
    span = high - low if high > low else 1.0
    r, r_std = (mdp.r - low) / span, mdp.r_std / span
    return dataclasses.replace(mdp, r=r, r_std=r_std, name=f"{mdp.name}-scaled")


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
