"""The Optimism Decomposition: regret = optimism + estimation error (Eq. 1)."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from narl.paper import implements

__all__ = ["Decomposition", "decompose"]


class Decomposition(NamedTuple):
    """The three terms of Eq. 1 per episode; positive optimism means that Ṽ_k was too low.

    Example:
        >>> terms = narl.decomposition.decompose(3.0, [5.0, 4.0], [1.0, 2.5])
        >>> terms.cumulative().regret
        array([2. , 2.5])
    """

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
    """Return regret, optimism and estimation error of each episode, in float64 (Eq. 1).

    Args:
        v_star: V(π*), the best possible return; a number, or of the shape of the others.
        value: Ṽ_k(π_k), the return that the agent expects, [..., episodes].
        policy_value: V(π_k), the return of its policy, [..., episodes].

    Example:
        >>> terms = narl.decomposition.decompose(3.0, value=[5.0, 2.0], policy_value=[1.0, 2.0])
        >>> terms.regret, terms.optimism, terms.estimation_error
        (array([2., 1.]), array([-2.,  1.]), array([4., 0.]))
    """
    v_star, value, policy_value = (
        np.asarray(x, dtype=np.float64) for x in (v_star, value, policy_value)
    )
    return Decomposition(v_star - policy_value, v_star - value, value - policy_value)
