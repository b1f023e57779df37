"""The Optimism Decomposition: regret = optimism + estimation error (Eq. 1)."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from narl.paper import implements


class Decomposition(NamedTuple):
    """The three terms of Eq. 1 per episode; positive optimism means that Ṽ_k was too low."""

    regret: Float[np.ndarray, "..."]
    """V(π*) − V(π_k)."""
    optimism: Float[np.ndarray, "..."]
    """V(π*) − Ṽ_k(π_k): negative when the agent is optimistic."""
    estimation_error: Float[np.ndarray, "..."]
    """Ṽ_k(π_k) − V(π_k)."""

    def cumulative(self) -> "Decomposition":
        """Return the running sums over episodes (the last axis)."""
        return Decomposition(*(np.cumsum(term, axis=-1) for term in self))


@implements("eq:1")
def decompose(v_star: ArrayLike, value: ArrayLike, policy_value: ArrayLike) -> Decomposition:
    """Return regret, optimism and estimation error of each episode, in float64 (Eq. 1)."""
    v_star, value, policy_value = (
        np.asarray(x, dtype=np.float64) for x in (v_star, value, policy_value)
    )
    return Decomposition(v_star - policy_value, v_star - value, value - policy_value)
