"""Random draws of any shape, made along one flat axis.

XLA's CPU backend vectorises the last axis only: 720 normals take four times as long in the shape
[10,6,2,6] as in [720].
"""

import math
from collections.abc import Sequence

import jax
from jaxtyping import Array, Float, PRNGKeyArray


def normal(key: PRNGKeyArray, shape: Sequence[int]) -> Float[Array, "..."]:
    """Return draws of N(0, 1)."""
    return jax.random.normal(key, (math.prod(shape),)).reshape(shape)


def uniform(key: PRNGKeyArray, shape: Sequence[int], least: float = 0.0) -> Float[Array, "..."]:
    """Return draws of U[least, 1)."""
    return jax.random.uniform(key, (math.prod(shape),), minval=least).reshape(shape)


def exponential(key: PRNGKeyArray, shape: Sequence[int]) -> Float[Array, "..."]:
    """Return draws of Exp(1)."""
    return jax.random.exponential(key, (math.prod(shape),)).reshape(shape)


def coins(key: PRNGKeyArray, shape: Sequence[int]) -> Float[Array, "..."]:
    """Return fair coins, 0.0 or 1.0."""
    return jax.random.bernoulli(key, 0.5, (math.prod(shape),)).astype(float).reshape(shape)
