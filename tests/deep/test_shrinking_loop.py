"""The loop whose batch shrinks: same results as a plain loop, and fewer replicas computed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from narl.deep.shrinking_loop import loop_while

LENGTHS = (3, 50, 7, 12, 1, 0, 33)
"""Passes of the loop that each replica needs."""


def plain(length, own, shared):
    def step(now):
        count, value, end = now
        return count + 1, 0.9 * value + own * shared[0] + shared[1], end

    first = jnp.int32(0), jnp.float32(1.0), length
    return jax.lax.while_loop(lambda now: now[0] < now[2], step, first)


def shrinking(length, own, shared, computed=None):
    def step(now, fixed):
        (count, value, end), (own, shared) = now, fixed
        if computed is not None:
            jax.debug.callback(lambda count: computed.append(int(count)), count)
        return count + 1, 0.9 * value + own * shared[0] + shared[1], end

    first = jnp.int32(0), jnp.float32(1.0), length
    return loop_while(lambda now: now[0] < now[2], step, first, (own, shared))


@pytest.mark.parametrize("num", [1, 2, 5, 7])
def test_results_are_those_of_a_plain_loop(num):
    arguments = jnp.array(LENGTHS[:num]), jnp.arange(num, dtype=jnp.float32), jnp.array([2.0, 3.0])
    axes = (0, 0, None)
    expected = jax.jit(jax.vmap(plain, in_axes=axes))(*arguments)
    found = jax.jit(jax.vmap(shrinking, in_axes=axes))(*arguments)
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(x, y)
    alone = jax.jit(shrinking)(jnp.int32(9), jnp.float32(2.0), arguments[2])
    assert alone == plain(jnp.int32(9), jnp.float32(2.0), arguments[2])


def test_replicas_that_are_done_are_computed_no_longer_than_needed():
    computed: list[int] = []
    arguments = jnp.array(LENGTHS), jnp.arange(7.0), jnp.array([2.0, 3.0])

    def run(*arguments):
        return shrinking(*arguments, computed=computed)

    jax.block_until_ready(jax.jit(jax.vmap(run, in_axes=(0, 0, None)))(*arguments))
    jax.effects_barrier()
    # 7 replicas until 4 are left (3 passes), 4 until 2 are left (12), 2 until the end (50).
    assert len(computed) == 7 * 3 + 4 * (12 - 3) + 2 * (50 - 12)
