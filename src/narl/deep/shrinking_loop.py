"""A loop over many replicas whose batch shrinks as replicas finish."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

SHARES = (1.0, 0.5, 0.2)
"""Sizes of the batch, as shares of the number of replicas."""

GoesOn = Callable[[Any], Bool[Array, ""]]
Body = Callable[[Any, Any], Any]


def loop_while(goes_on: GoesOn, body: Body, first: Any, fixed: Any) -> Any:
    """Repeat ``now = body(now, fixed)`` while ``goes_on(now)``, beginning with ``first``.

    For one replica this is `jax.lax.while_loop`. Under `jax.vmap` a plain loop would compute every
    replica until the slowest is done; here the replicas that go on are gathered into a smaller
    batch once they are half of all, and again once they are a fifth.
    """

    @jax.custom_batching.custom_vmap
    def loop(first: Any, fixed: Any) -> Any:
        return jax.lax.while_loop(goes_on, lambda now: body(now, fixed), first)

    @loop.def_vmap
    def batched(size: int, in_batched: Any, first: Any, fixed: Any) -> tuple[Any, Any]:
        is_batched = jax.tree.map(lambda x, batched: batched, first, in_batched[0])

        def with_axis(x: Array, batched: bool) -> Array:
            return x if batched else jnp.broadcast_to(x, (size, *x.shape))

        first = jax.tree.map(with_axis, first, is_batched)
        axes = jax.tree.map(lambda batched: 0 if batched else None, in_batched[1])
        sizes = sorted({math.ceil(share * size) for share in SHARES}, reverse=True)
        end = _loop_of_many(goes_on, body, first, fixed, axes, sizes)
        return end, jax.tree.map(lambda _: True, end)

    return loop(first, fixed)


def choose_rows(mask: Bool[Array, " N"], new: Any, old: Any) -> Any:
    """Return the rows of ``new`` where the mask is true, and those of ``old`` elsewhere."""

    def one(a: Array, b: Array) -> Array:
        return jnp.where(mask.reshape(-1, *(1,) * (a.ndim - 1)), a, b)

    return jax.tree.map(one, new, old)


def _loop_of_one(goes_on: GoesOn, body: Body, first: Any, fixed: Any, axes: Any) -> Any:
    """Loop over a batch of one without its axis.

    With an axis of length 1 XLA gives the gradients other layouts than the weights on a GPU, and
    copies every weight in every step. Nor is there a choice between new and old values to make.
    """
    own = jax.tree.map(lambda x: x[0], first)
    own_fixed = jax.tree.map(
        lambda x, axis: x if axis is None else x[0], fixed, axes, is_leaf=lambda x: x is None
    )
    end = jax.lax.while_loop(goes_on, lambda now: body(now, own_fixed), own)
    return jax.tree.map(lambda x: x[None], end)


def _loop_of_many(
    goes_on: GoesOn,
    body: Body,
    first: Any,
    fixed: Any,
    axes: Any,
    sizes: list[int],
) -> Any:
    """Loop with the first batch size, then move unfinished replicas to smaller batches."""
    if sizes[0] == 1:
        return _loop_of_one(goes_on, body, first, fixed, axes)
    go_on, step = jax.vmap(goes_on), jax.vmap(body, in_axes=(0, axes))
    next_size = sizes[1] if len(sizes) > 1 else 0

    def too_many(now: Any) -> Bool[Array, ""]:
        return go_on(now).sum() > next_size

    def masked(now: Any) -> Any:
        return choose_rows(go_on(now), step(now, fixed), now)

    end = jax.lax.while_loop(too_many, masked, first)
    if next_size == 0:
        return end
    left = jnp.argsort(~go_on(end))[:next_size]  # those that go on come first
    own = jax.tree.map(lambda x: x[left], end)
    own_fixed = jax.tree.map(
        lambda x, axis: x if axis is None else x[left], fixed, axes, is_leaf=lambda x: x is None
    )
    done = _loop_of_many(goes_on, body, own, own_fixed, axes, sizes[1:])
    return jax.tree.map(lambda x, y: x.at[left].set(y), end, done)
