"""Many lanes at once: one vmapped program on an accelerator, one program per core on the CPU.

On the CPU `vmap` is slower than one lane after the other (its matrix products are too small to
share), and two single-threaded programs on two cores are quicker still. There every lane runs
the program of a single lane, so that it gives the same bits alone or among others.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

Program = Callable[[Any, Any, Any], tuple[Any, Any]]
"""(state of a lane, its own argument, the argument of all) → (new state, result)."""
Part = Callable[[Any], Any]


class Lanes(Protocol):
    """How a training runs its lanes; ``state`` is opaque to it."""

    num_lanes: int
    num_traces: int
    compile_seconds: float

    def start(self, init: Callable[..., Any], *per_lane: Any) -> Any:
        """The first state; every argument has a leading axis of lanes."""

    def lift(self, program: Program) -> Program:
        """The program for all lanes: its second argument and its result gain a leading axis."""

    def export(self, state: Any, part: Part = lambda state: state) -> Any:
        """The state, or a part of it, as NumPy arrays with a leading axis of lanes."""

    def restore(self, arrays: Any) -> Any:
        """A state from what `export` gave."""

    def close(self) -> None:
        """Gives back threads."""


def make_lanes(num_lanes: int) -> Lanes:
    """What suits the default device."""
    if jax.default_backend() == "cpu":
        return CoreLanes(num_lanes)
    return VmapLanes(num_lanes)


def num_cores() -> int:
    """Cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return os.cpu_count() or 1


class VmapLanes:
    """All lanes in one program with a leading axis."""

    def __init__(self, num_lanes: int) -> None:
        self.num_lanes = num_lanes
        self.num_traces = 0
        self.compile_seconds = 0.0

    def start(self, init: Callable[..., Any], *per_lane: Any) -> Any:
        return jax.jit(jax.vmap(init))(*per_lane)

    def lift(self, program: Program) -> Program:
        def counted(state: Any, own: Any, shared: Any) -> tuple[Any, Any]:
            self.num_traces += 1
            return jax.vmap(program, in_axes=(0, 0, None))(state, own, shared)

        return _Compiled(self, jax.jit(counted, donate_argnums=0))

    def export(self, state: Any, part: Part = lambda state: state) -> Any:
        return jax.tree.map(np.asarray, part(state))

    def restore(self, arrays: Any) -> Any:
        return jax.tree.map(jnp.asarray, arrays)

    def close(self) -> None:
        pass


class CoreLanes:
    """A program per lane, spread over the cores by threads."""

    def __init__(self, num_lanes: int, num_threads: int | None = None) -> None:
        self.num_lanes = num_lanes
        self.num_traces = 0
        self.compile_seconds = 0.0
        self._num_threads = min(num_lanes, num_threads or num_cores())
        self._threads = ThreadPoolExecutor(self._num_threads, thread_name_prefix="narl-lane")

    def start(self, init: Callable[..., Any], *per_lane: Any) -> Any:
        program = jax.jit(init)
        return tuple(program(*_of_lane(i, per_lane)) for i in self._range)

    @property
    def _range(self) -> range:
        return range(self.num_lanes)

    def lift(self, program: Program) -> Program:
        def counted(state: Any, own: Any, shared: Any) -> tuple[Any, Any]:
            self.num_traces += 1
            return program(state, own, shared)

        # Where every core has a lane of its own, threads inside a product only get in the way.
        options = {"xla_cpu_multi_thread_eigen": self._num_threads == 1}
        compiled = _Compiled(self, jax.jit(counted, donate_argnums=0, compiler_options=options))

        def call(state: Sequence[Any], own: Any, shared: Any) -> tuple[Any, Any]:
            def one(i: int) -> tuple[Any, Any]:
                new, result = compiled(state[i], _of_lane(i, own), shared)
                return new, jax.tree.map(np.asarray, result)

            # The first lane alone, where it compiles: the others then find the program.
            if compiled.is_new:
                done = [one(0), *self._threads.map(one, self._range[1:])]
            else:
                done = list(self._threads.map(one, self._range))
            states, results = zip(*done, strict=True)
            return states, jax.tree.map(lambda *xs: np.stack(xs), *results)

        return call

    def export(self, state: Sequence[Any], part: Part = lambda state: state) -> Any:
        return jax.tree.map(lambda *xs: np.stack(xs), *map(part, state))

    def restore(self, arrays: Any) -> Any:
        return tuple(jax.tree.map(jnp.asarray, _of_lane(i, arrays)) for i in self._range)

    def close(self) -> None:
        self._threads.shutdown()


class _Compiled:
    """A jitted function that is compiled at its first call, and says how long that took."""

    def __init__(self, lanes: Any, jitted: Any) -> None:
        self._lanes, self._jitted = lanes, jitted
        self._program: Any = None

    @property
    def is_new(self) -> bool:
        return self._program is None

    def __call__(self, *arguments: Any) -> Any:
        if self._program is None:
            begin = time.perf_counter()
            self._program = self._jitted.lower(*arguments).compile()
            self._lanes.compile_seconds += time.perf_counter() - begin
        return self._program(*arguments)


def _of_lane(i: int, arrays: Any) -> Any:
    """One lane of arrays with a leading axis."""
    return jax.tree.map(lambda x: x[i], arrays)
