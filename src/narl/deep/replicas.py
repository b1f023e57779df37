"""Many lanes at once: one vmapped program on an accelerator, one program per core on the CPU.

On the CPU `vmap` is slower than one lane after the other (its matrix products are too small to
share), and two single-threaded programs on two cores are quicker still. There every lane runs
the program of a single lane, so that it gives the same bits alone or among others.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

Program = Callable[[Any, Any, Any], tuple[Any, Any]]
"""(state of a lane, its own argument, the argument of all) → (new state, result)."""
Part = Callable[[Any], Any]


class Lifted(Protocol):
    """A program for all lanes."""

    def __call__(self, state: Any, own: Any, shared: Any) -> tuple[Any, Any]: ...

    def prepare(self, state: Any, own: Any, shared: Any) -> None:
        """Begins to compile it for arguments of these shapes; the first call waits for that."""

    def wait(self) -> None:
        """Until it is compiled, if that has begun."""


class Lanes(Protocol):
    """How a training runs its lanes; ``state`` is opaque to it."""

    num_lanes: int
    num_traces: int
    compile_seconds: float
    batched: bool
    """Whether lanes are one batch, in which both branches of a condition are computed."""

    def start(self, init: Callable[..., Any], *per_lane: Any) -> Any:
        """The first state; every argument has a leading axis of lanes."""

    def lift(self, program: Program) -> Lifted:
        """The program for all lanes: its second argument and its result gain a leading axis."""

    def export(self, state: Any, part: Part = lambda state: state) -> Any:
        """The state, or a part of it, as NumPy arrays with a leading axis of lanes."""

    def restore(self, arrays: Any) -> Any:
        """A state from what `export` gave."""

    def rest(self, state: Any, lanes: Collection[int]) -> Any:
        """The state to go on with when these lanes, and no others, only fill their places.

        What becomes of them is nobody's concern; they cost as little as the others allow.
        """

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


class _Runner:
    """What both ways to run lanes share: programs compile in threads of their own."""

    def __init__(self, num_lanes: int) -> None:
        self.num_lanes = num_lanes
        self.num_traces = 0
        self.compile_seconds = 0.0
        self._compilers = ThreadPoolExecutor(num_cores(), thread_name_prefix="narl-compile")

    def close(self) -> None:
        self._compilers.shutdown(wait=False, cancel_futures=True)

    def _counted(self, program: Program) -> Program:
        def counted(state: Any, own: Any, shared: Any) -> tuple[Any, Any]:
            self.num_traces += 1
            return program(state, own, shared)

        return counted


class VmapLanes(_Runner):
    """All lanes in one program with a leading axis."""

    batched = True

    def __init__(self, num_lanes: int) -> None:
        super().__init__(num_lanes)
        self.places = np.arange(num_lanes)
        """Whose argument every lane is given: its own, or that of the lane that it repeats."""
        self._repeat = jax.jit(_repeat, donate_argnums=0)

    def start(self, init: Callable[..., Any], *per_lane: Any) -> Any:
        return jax.jit(jax.vmap(init))(*per_lane)

    def lift(self, program: Program) -> Lifted:
        batched = jax.vmap(self._counted(program), in_axes=(0, 0, None))
        options = _command_buffers()
        jitted = jax.jit(batched, donate_argnums=0, compiler_options=options)
        return _Batched(self, jitted)

    def export(self, state: Any, part: Part = lambda state: state) -> Any:
        return jax.tree.map(np.asarray, part(state))

    def restore(self, arrays: Any) -> Any:
        return jax.tree.map(jnp.array, arrays)

    def rest(self, state: Any, lanes: Collection[int]) -> Any:
        # A loop of all lanes ends with the last of them, and one that is fed nothing sensible may
        # train its model on and on. So they repeat what another lane does.
        own = np.arange(self.num_lanes)
        resting = np.isin(own, list(lanes))
        if resting.all() or not resting.any():
            self.places = own
            return state
        other = int(np.flatnonzero(~resting)[0])
        self.places = np.where(resting, other, own)
        return self._repeat(state, resting, other)


class CoreLanes(_Runner):
    """A program per lane, spread over the cores by threads."""

    batched = False

    def __init__(self, num_lanes: int, num_threads: int | None = None) -> None:
        super().__init__(num_lanes)
        self._num_threads = min(num_lanes, num_threads or num_cores())
        self._threads = ThreadPoolExecutor(self._num_threads, thread_name_prefix="narl-lane")
        self._active = list(range(num_lanes))

    def start(self, init: Callable[..., Any], *per_lane: Any) -> Any:
        program = jax.jit(init)
        return tuple(program(*_of_lane(i, per_lane)) for i in self._range)

    @property
    def _range(self) -> range:
        return range(self.num_lanes)

    def lift(self, program: Program) -> Lifted:
        # The same options whatever the number of lanes: they decide the bits.
        options = _without_copies()
        jitted = jax.jit(self._counted(program), donate_argnums=0, compiler_options=options)
        return _OnCores(self, _Compiled(self, jitted))

    def run(self, state: Sequence[Any], one: Callable[[int], tuple[Any, Any]]) -> tuple[Any, Any]:
        """``one`` for every lane that does not rest, a thread per core."""
        made = dict(zip(self._active, self._threads.map(one, self._active), strict=True))
        _, any_result = made[self._active[0]]
        states, results = zip(
            *(made.get(i, (state[i], any_result)) for i in self._range), strict=True
        )
        return states, jax.tree.map(lambda *xs: np.stack(xs), *results)

    def export(self, state: Sequence[Any], part: Part = lambda state: state) -> Any:
        return jax.tree.map(lambda *xs: np.stack(xs), *map(part, state))

    def restore(self, arrays: Any) -> Any:
        return tuple(jax.tree.map(jnp.array, _of_lane(i, arrays)) for i in self._range)

    def rest(self, state: Any, lanes: Collection[int]) -> Any:
        self._active = [i for i in self._range if i not in lanes] or list(self._range)
        return state

    def close(self) -> None:
        super().close()
        self._threads.shutdown()


class _Compiled:
    """A jitted function that is compiled once, ahead of time if it is `prepare`d.

    ``compile_seconds`` of the lanes are those in which somebody waited for it.
    """

    def __init__(self, lanes: _Runner, jitted: Any) -> None:
        self._lanes, self._jitted = lanes, jitted
        self._program: Future[Any] | None = None

    def prepare(self, state: Any, own: Any, shared: Any) -> None:
        if self._program is None:
            shapes = jax.tree.map(_shape, (state, own, shared))
            self._program = self._lanes._compilers.submit(
                lambda: self._jitted.lower(*shapes).compile()
            )

    def ready(self, state: Any, own: Any, shared: Any) -> Any:
        """The compiled program; waits for it."""
        self.prepare(state, own, shared)
        assert self._program is not None
        self.wait()
        return self._program.result()

    def wait(self) -> None:
        if self._program is not None and not self._program.done():
            begin = time.perf_counter()
            self._program.result()
            self._lanes.compile_seconds += time.perf_counter() - begin

    def __call__(self, state: Any, own: Any, shared: Any) -> tuple[Any, Any]:
        return self.ready(state, own, shared)(state, own, shared)


class _Batched(_Compiled):
    """One program for all lanes; those that rest are given what the lane has that they repeat."""

    def __init__(self, lanes: VmapLanes, jitted: Any) -> None:
        super().__init__(lanes, jitted)
        self._batch = lanes

    def __call__(self, state: Any, own: Any, shared: Any) -> tuple[Any, Any]:
        return super().__call__(state, _of_lane(self._batch.places, own), shared)


def _repeat(state: Any, resting: Any, other: Any) -> Any:
    """Makes lanes equal to another one; lane by lane, so that it needs room for one of them."""

    def one(x: jax.Array) -> jax.Array:
        source = x[other]

        def put(i: Any, y: jax.Array) -> jax.Array:
            return y.at[i].set(jnp.where(resting[i], source, y[i]))

        return jax.lax.fori_loop(0, x.shape[0], put, x)

    return jax.tree.map(one, state)


class _OnCores:
    """One program, called once per lane."""

    def __init__(self, lanes: CoreLanes, compiled: _Compiled) -> None:
        self._lanes, self._compiled = lanes, compiled

    def prepare(self, state: Sequence[Any], own: Any, shared: Any) -> None:
        self._compiled.prepare(state[0], _of_lane(0, own), shared)

    def wait(self) -> None:
        self._compiled.wait()

    def __call__(self, state: Sequence[Any], own: Any, shared: Any) -> tuple[Any, Any]:
        program = self._compiled.ready(state[0], _of_lane(0, own), shared)

        def one(i: int) -> tuple[Any, Any]:
            new, result = program(state[i], _of_lane(i, own), shared)
            return new, jax.tree.map(np.asarray, result)

        return self._lanes.run(state, one)


@functools.cache
def _without_copies() -> dict[str, bool]:
    """XLA's option that spares the loop of updates a copy of every weight (6 % of its time)."""
    return _if_known({"xla_cpu_copy_insertion_use_region_analysis": True})


@functools.cache
def _command_buffers() -> dict[str, Any]:
    """XLA's options that send a GPU a whole loop at once, independent kernels side by side.

    A lane's kernels are too small to fill it. On an H200: 0.15 ms per update instead of 0.19 with
    five lanes, 0.09 instead of 0.12 with one; model training takes four fifths of the time.
    """
    if jax.default_backend() != "gpu":
        return {}
    kinds = "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,DYNAMIC_SLICE_FUSION,CONDITIONAL,WHILE"
    return _if_known(
        {
            "xla_gpu_enable_command_buffer": kinds,
            "xla_gpu_command_buffer_scheduling_mode": "CONCURRENT",
        }
    )


def _if_known(options: dict[str, Any]) -> dict[str, Any]:
    """Options of the compiler come and go with its versions: none where one is not known."""
    try:
        jax.jit(lambda x: x, compiler_options=options).lower(jnp.float32(0.0)).compile()
    except jax.errors.JaxRuntimeError:
        return {}
    return options


def _shape(x: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(np.shape(x), x.dtype)


def _of_lane(i: int | np.ndarray, arrays: Any) -> Any:
    """One lane of arrays with a leading axis, or several."""
    return jax.tree.map(lambda x: x[i], arrays)
