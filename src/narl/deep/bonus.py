"""Bonuses on imagined rewards: the type of such a function, and NARL's noise-augmented reward.

A `BonusFn` is given what every member predicts and the steps that the selection took; the number
that it returns per step is added to the reward. To add one, name it in
`narl.deep.algorithm_registry`, or hand it to an agent: `narl.MBPO(env, bonus=my_function)`.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from narl.deep.selection import Candidates, Selected, SelectParams
from narl.paper import implements

BonusFn = Callable[[PRNGKeyArray, Candidates, Selected, SelectParams], Float[Array, " B"]]
"""The type of a bonus: (key, `Candidates`, `Selected`, `SelectParams`) → one number per step."""


@implements("eq:2")
def reward_noise(
    key: PRNGKeyArray, candidates: Candidates, selected: Selected, params: SelectParams
) -> Float[Array, " B"]:
    """Return max_m ξ_m of M draws ξ_m ~ N(0, c·σ(s,a)²): noise on rewards as in the tabular half.

    There the variance is c/N(s,a). Here the members' disagreement σ(s,a) takes the place of
    1/√N(s,a), in units of the mean disagreement after the first fit (or of the largest after any
    fit so far: ``noise_unit``). So the noise has the standard deviation √c where the members
    disagree as much as after that fit, and fades as they agree.
    """
    members, num_rows = candidates.mean.reward.shape
    draws = jax.random.normal(key, (members, num_rows))
    first = params.state.first_disagreement
    sigma = candidates.disagreement / jnp.where(first > 0.0, first, 1.0)
    # Annealing takes the variance to 0.
    scale = jnp.sqrt(params.numbers.noise_scale * params.strength)
    return scale * sigma * draws.max(axis=0)
