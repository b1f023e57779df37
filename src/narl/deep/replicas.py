"""Many replicas at once: one vmapped program on an accelerator, one program per core on the CPU.

On the CPU `vmap` is slower than one replica after the other (its matrix products are too small to
share), and two single-threaded programs on two cores are quicker still. There every replica runs
the program of a single replica, so that it gives the same bits alone or among others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from narl.compilation import BackgroundCompiler, CompiledProgram, num_cores

Function = Callable[[Any, Any, Any], tuple[Any, Any]]
"""(state of a replica, its own argument, the shared argument) → (new state, result)."""
Part = Callable[[Any], Any]


class _Counted:
    """The parts that both ways to run replicas share: a compiler and a count of traces."""

    def __init__(self, num_replicas: int) -> None:
        self.num_replicas = num_replicas
        self.num_traces = 0
        """The number of traces of all functions; each function should be traced once."""
        self.compiler = BackgroundCompiler()

    def close(self) -> None:
        """Release the threads of this object."""
        self.compiler.close()

    def _count_traces(self, function: Function) -> Function:
        def counted(state: Any, own: Any, shared: Any) -> tuple[Any, Any]:
            self.num_traces += 1
            return function(state, own, shared)

        return counted


class BatchedReplicas(_Counted):
    """One program for all replicas, with a leading axis.

    `ThreadedReplicas` has the same methods. Each of the two stores states in its own way.
    """

    batched = True
    """Whether the replicas are one batch, in which both branches of a condition are computed."""

    def __init__(self, num_replicas: int) -> None:
        super().__init__(num_replicas)
        self.places = np.arange(num_replicas)
        """Whose argument every replica is given: its own, or that of the replica it repeats."""
        self._repeat = jax.jit(_repeat, donate_argnums=0)

    def init(self, function: Callable[..., Any], *per_replica: Any) -> Any:
        """Return the first state; every argument has a leading axis of replicas."""
        return jax.jit(jax.vmap(function))(*per_replica)

    def map(self, function: Function, uses: Sequence[str] = (), unrolled: bool = False) -> Program:
        """Return the function for all replicas.

        ``uses`` names the fields of the state that the function uses, such as "sac.actor"; all
        others are None in the state that it is given, and they stay as they are. Every array of the
        state costs an accelerator some microseconds per call. With ``unrolled`` a GPU is sent all
        passes of its loops at once, which suits short ones.
        """
        batched = jax.vmap(self._count_traces(function), in_axes=(0, 0, None))
        jitted = jax.jit(batched, donate_argnums=0, compiler_options=_command_buffers(unrolled))
        return _BatchedProgram(self, CompiledProgram(self.compiler, jitted), uses)

    def to_host(self, state: Any, part: Part = lambda state: state) -> Any:
        """Return the state, or a part of it, as NumPy arrays with a leading axis of replicas."""
        return jax.tree.map(np.asarray, part(state))

    def from_host(self, arrays: Any) -> Any:
        """Return a state made from the arrays that `to_host` gave."""
        return jax.tree.map(jnp.array, arrays)

    def deactivate(self, state: Any, replicas: Collection[int]) -> Any:
        """Return a state in which exactly these replicas are inactive.

        They keep their place in the arrays, their results are ignored, and they cost as little as
        possible.
        """
        # A loop over all replicas ends with the slowest of them, and a replica that is fed empty
        # transitions may fit its model for very long. So inactive ones repeat an active one.
        own = np.arange(self.num_replicas)
        inactive = np.isin(own, list(replicas))
        if inactive.all() or not inactive.any():
            self.places = own
            return state
        active = int(np.flatnonzero(~inactive)[0])
        self.places = np.where(inactive, active, own)
        return self._repeat(state, inactive, active)


class _BatchedProgram:
    """A function mapped over all replicas: own arguments and results gain a leading axis.

    Inactive replicas are given the argument of an active one.
    """

    def __init__(
        self, replicas: BatchedReplicas, compiled: CompiledProgram, uses: Sequence[str]
    ) -> None:
        self._replicas, self._compiled, self._uses = replicas, compiled, uses
        self.wait = compiled.wait

    def compile_for(self, state: Any, own: Any, shared: Any) -> None:
        """Begin to compile the program for arguments of these shapes, in the background."""
        self._compiled.compile_for(only_used(state, self._uses), own, shared)

    def __call__(self, state: Any, own: Any, shared: Any) -> tuple[Any, Any]:
        own = _of_replica(self._replicas.places, own)
        new, result = self._compiled(only_used(state, self._uses), own, shared)
        return merged(state, new), result


def only_used(state: Any, uses: Sequence[str]) -> Any:
    """Return a state in which every field that is not among ``uses`` is None; none: all of it."""
    if not uses or state is None:
        return state
    kept: dict[str, list[str]] = {}
    for path in uses:
        name, _, rest = path.partition(".")
        kept.setdefault(name, []).extend([rest] if rest else [])
    fields = {
        name: only_used(value, kept[name]) if name in kept else None
        for name, value in state._asdict().items()
    }
    return state._replace(**fields)


def merged(state: Any, new: Any) -> Any:
    """Return a state with what is new; a field that is None in ``new`` stays as it is."""
    if new is None:
        return state
    if not hasattr(new, "_fields"):
        return new
    fields = new._asdict().items()
    return state._replace(**{name: merged(getattr(state, name), value) for name, value in fields})


def _repeat(state: Any, inactive: Any, active: Any) -> Any:
    """Overwrite inactive replicas with an active one, one by one to need little memory."""

    def overwrite(x: jax.Array) -> jax.Array:
        source = x[active]

        def put(i: Any, y: jax.Array) -> jax.Array:
            return y.at[i].set(jnp.where(inactive[i], source, y[i]))

        return jax.lax.fori_loop(0, x.shape[0], put, x)

    return jax.tree.map(overwrite, state)


class ThreadedReplicas(_Counted):
    """One program per replica, spread over the cores by threads."""

    batched = False

    def __init__(self, num_replicas: int, num_threads: int | None = None) -> None:
        super().__init__(num_replicas)
        num_threads = min(num_replicas, num_threads or num_cores())
        self._threads = ThreadPoolExecutor(num_threads, thread_name_prefix="narl-replica")
        self._active = list(range(num_replicas))

    def init(self, function: Callable[..., Any], *per_replica: Any) -> Any:
        program = jax.jit(function)
        return tuple(program(*_of_replica(i, per_replica)) for i in range(self.num_replicas))

    def map(self, function: Function, uses: Sequence[str] = (), unrolled: bool = False) -> Program:
        # The same options whatever the number of replicas: they decide the bits.
        jitted = jax.jit(
            self._count_traces(function), donate_argnums=0, compiler_options=_without_copies()
        )
        return _ThreadedProgram(self, CompiledProgram(self.compiler, jitted), uses)

    def run_active(
        self, state: Sequence[Any], function: Callable[[int], tuple[Any, Any]]
    ) -> tuple[Any, Any]:
        """Call the function with the number of every active replica, one thread per core."""
        new = dict(zip(self._active, self._threads.map(function, self._active), strict=True))
        _, placeholder = new[self._active[0]]
        pairs = (new.get(i, (state[i], placeholder)) for i in range(self.num_replicas))
        states, results = zip(*pairs, strict=True)
        return states, jax.tree.map(lambda *xs: np.stack(xs), *results)

    def to_host(self, state: Sequence[Any], part: Part = lambda state: state) -> Any:
        return jax.tree.map(lambda *xs: np.stack(xs), *map(part, state))

    def from_host(self, arrays: Any) -> Any:
        return tuple(
            jax.tree.map(jnp.array, _of_replica(i, arrays)) for i in range(self.num_replicas)
        )

    def deactivate(self, state: Any, replicas: Collection[int]) -> Any:
        everyone = range(self.num_replicas)
        self._active = [i for i in everyone if i not in replicas] or list(everyone)
        return state

    def close(self) -> None:
        super().close()
        self._threads.shutdown()


class _ThreadedProgram:
    """One program, called once per active replica."""

    def __init__(
        self, replicas: ThreadedReplicas, compiled: CompiledProgram, uses: Sequence[str]
    ) -> None:
        self._replicas, self._compiled, self._uses = replicas, compiled, uses
        self.wait = compiled.wait

    def compile_for(self, state: Sequence[Any], own: Any, shared: Any) -> None:
        self._compiled.compile_for(only_used(state[0], self._uses), _of_replica(0, own), shared)

    def __call__(self, state: Sequence[Any], own: Any, shared: Any) -> tuple[Any, Any]:
        first = only_used(state[0], self._uses)
        program = self._compiled.program(first, _of_replica(0, own), shared)

        def run(i: int) -> tuple[Any, Any]:
            part = only_used(state[i], self._uses)
            new, result = program(part, _of_replica(i, own), shared)
            return merged(state[i], new), jax.tree.map(np.asarray, result)

        return self._replicas.run_active(state, run)


Program = _BatchedProgram | _ThreadedProgram
Replicas = BatchedReplicas | ThreadedReplicas


def make_replicas(num_replicas: int) -> Replicas:
    """Return the way to run replicas that suits the default device."""
    if jax.default_backend() == "cpu":
        return ThreadedReplicas(num_replicas)
    return BatchedReplicas(num_replicas)


@functools.cache
def _without_copies() -> dict[str, bool]:
    """Return XLA's option that spares the loop of updates a copy of every weight (6 % of it)."""
    return _known_options({"xla_cpu_copy_insertion_use_region_analysis": True})


@functools.cache
def _command_buffers(unrolled: bool) -> dict[str, Any]:
    """Return XLA's options that send a GPU a whole loop at once, independent kernels side by side.

    The kernels of a replica are too small to fill a GPU. On an H200: 0.15 ms per update instead of
    0.19 with five replicas, 0.09 instead of 0.12 with one; a fit takes four fifths of the time.
    """
    if jax.default_backend() != "gpu":
        return {}
    kinds = "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,DYNAMIC_SLICE_FUSION,CONDITIONAL,WHILE"
    options = {
        "xla_gpu_enable_command_buffer": kinds,
        "xla_gpu_command_buffer_scheduling_mode": "CONCURRENT",
    }
    if unrolled:
        # A loop that copies a slice per pass is not captured unless it is unrolled.
        of_loops = {"xla_gpu_command_buffer_unroll_loops": True}
        if known := _known_options(options | of_loops):
            return known
    return _known_options(options)


def _known_options(options: dict[str, Any]) -> dict[str, Any]:
    """Return the compiler options, or none where this version of XLA does not know them."""
    try:
        jax.jit(lambda x: x, compiler_options=options).lower(jnp.float32(0.0)).compile()
    except jax.errors.JaxRuntimeError:
        return {}
    return options


def _of_replica(i: int | np.ndarray, arrays: Any) -> Any:
    """Return the entries of one replica, or of several, of arrays with a leading axis."""
    return jax.tree.map(lambda x: x[i], arrays)
