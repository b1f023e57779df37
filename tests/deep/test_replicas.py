"""Many replicas at once: each as if it were alone, and no program compiled twice."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from quick_trainings import quick_config
from tiny import assert_same, differs

from narl.deep.algorithm_registry import MODEL_BASED
from narl.deep.replicas import (
    BatchedReplicas,
    ThreadedReplicas,
    make_replicas,
    merged,
    only_used,
)
from narl.deep.trainer import Trainer

BOTH = pytest.mark.parametrize("kind", [ThreadedReplicas, BatchedReplicas])
THREE = (
    quick_config("narl", seeds=(3,), radius=0.1),
    quick_config("mbpo", seeds=(4,)),
    quick_config("narl", seeds=(5,), radius=None),
)
NUM_PROGRAMS = 6


class Trained(NamedTuple):
    """The outcome of a training."""

    state: Any
    early: Any
    """The state after two updates."""
    rows: list
    compiled_late: int
    """Programs that XLA compiled in the second half of the steps."""
    num_traces: int


@pytest.fixture(scope="module")
def train(cache):
    """Return a function that trains configurations together; each combination is trained once."""
    compilations = []

    def on_event(event, duration, **_):
        if event == "/jax/core/compile/backend_compile_duration":
            compilations.append(event)

    jax.monitoring.register_event_duration_secs_listener(on_event)

    @functools.cache
    def train(configs, kind):
        trainer, rows = Trainer(configs, make_replicas=kind), []
        while not trainer.is_over:
            rows.append(trainer.step())
            if len(rows) == configs[0].learn_after + 2:
                early = copy(trainer.to_host())
            if len(rows) == configs[0].steps // 2:
                compilations.clear()
        compiled_late = len(compilations)
        state, num_traces = copy(trainer.to_host()), trainer.replicas.num_traces
        trainer.close()
        return Trained(state, early, [row for row in rows if row], compiled_late, num_traces)

    return train


def copy(tree):
    return jax.tree.map(np.copy, tree)


def replica(tree, i):
    return jax.tree.map(lambda x: x[i], tree)


# --- trainings --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("i", [0, 1])
def test_replica_has_the_same_bits_alone_and_among_others(train, i):
    together, alone = train(THREE, ThreadedReplicas), train(THREE[i : i + 1], ThreadedReplicas)
    assert_same(replica(alone.state, 0), replica(together.state, i))
    for row, own in zip(together.rows, alone.rows, strict=True):
        for name in ("eval_return", "train_return", "critic_loss", "model_return"):
            assert row[name][i] == own[name][0]
    assert differs(replica(together.state.sac, i), replica(together.state.sac, 2))


ALL = (
    *(quick_config(algo, seeds=(3,)) for algo in MODEL_BASED),
    quick_config("narl", seeds=(3,), noise="both", exclude="above", score="draw"),
)
"""Every algorithm with a model, and NARL with other options."""


@pytest.mark.slow
@pytest.mark.parametrize("i", range(len(ALL)), ids=[*MODEL_BASED, "narl-both"])
def test_every_algorithm_has_the_same_bits_alone_and_among_the_others(train, i):
    together, alone = train(ALL, ThreadedReplicas), train(ALL[i : i + 1], ThreadedReplicas)
    others, own = replica(together.state, i), replica(alone.state, 0)
    rule = own.params.step_rule  # its place among the functions of a program may differ
    assert_same(own, others._replace(params=others.params._replace(step_rule=rule)))
    for row, own_row in zip(together.rows, alone.rows, strict=True):
        assert row["eval_return"][i] == own_row["eval_return"][0]
        assert row.get("bonus", [None] * len(ALL))[i] == own_row.get("bonus", [None])[0]
    # No two algorithms learn the same.
    rewards = np.asarray(together.state.model.rows)
    assert sum(np.array_equal(rewards[i], each) for each in rewards) == 1


@pytest.mark.slow
def test_noise_on_rewards_of_scale_zero_is_mbpo_bit_for_bit(train):
    mbpo, noise = quick_config("mbpo", seeds=(3,)), {"noise": "reward", "noise_scale": 0.0}
    plain = train((mbpo,), ThreadedReplicas)
    silent = train((quick_config("narl", seeds=(3,), **noise),), ThreadedReplicas)
    assert_same(silent.state._replace(params=plain.state.params), plain.state)
    for row, expected in zip(silent.rows, plain.rows, strict=True):
        assert row | {"seconds": None} == expected | {"seconds": None}


@pytest.mark.slow
def test_both_noises_with_scale_zero_are_the_choice_among_models_bit_for_bit(train):
    both = {"noise": "both", "noise_scale": 0.0}
    choice = train((quick_config("narl", seeds=(3,)),), ThreadedReplicas)
    silent = train((quick_config("narl", seeds=(3,), **both),), ThreadedReplicas)
    assert_same(silent.state._replace(params=choice.state.params), choice.state)
    for row, expected in zip(silent.rows, choice.rows, strict=True):
        row = {name: x for name, x in row.items() if name in expected}
        assert row | {"seconds": None} == expected | {"seconds": None}


@pytest.mark.slow
def test_replica_has_the_same_bits_at_full_size(train):
    """XLA shares large matrix products among threads, which tiny networks do not show."""
    full = {"hidden": (256,), "batch": 256, "model_width": 200, "rollout_batch": 400, "steps": 24}
    mixed = (quick_config("narl", seeds=(3, 5), **full), quick_config("mbpo", seeds=(4,), **full))
    alone = quick_config("narl", seeds=(3,), **full)
    together, alone = train(mixed, ThreadedReplicas), train((alone,), ThreadedReplicas)
    assert_same(replica(alone.state, 0), replica(together.state, 0))
    assert differs(replica(together.state.sac, 0), replica(together.state.sac, 1))


@pytest.mark.slow
@BOTH
def test_programs_are_traced_and_compiled_once(train, kind):
    trained = train(THREE, kind)
    assert trained.num_traces == NUM_PROGRAMS
    assert trained.compiled_late == 0
    # Rollouts grow longer in the second half.
    assert [row["rollout_length"] for row in trained.rows] == [1, 1, 2]
    assert trained.rows[-1]["updates"] == [20] * 3


@pytest.mark.slow
def test_batched_replicas_agree_with_threaded_ones(train):
    """The agreement holds for a few updates; then rounding grows, as in any training."""
    threaded, batched = train(THREE, ThreadedReplicas).early, train(THREE, BatchedReplicas).early
    # The indices differ: a batch holds only the ways to select that are used.
    threaded = threaded._replace(params=batched.params)
    assert jax.tree.structure(threaded) == jax.tree.structure(batched)
    for a, b in zip(jax.tree.leaves(threaded), jax.tree.leaves(batched), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a, b, rtol=1e-2, atol=1e-3)
    assert threaded.loss_sums.calls.tolist() == [2.0] * 3
    assert threaded.model.size.min() > 0


@pytest.mark.slow
@BOTH
def test_deactivated_replicas_change_nothing_for_the_others(train, kind):
    whole, rows = train(THREE, kind), []
    trainer = Trainer(THREE, make_replicas=kind)
    while not trainer.is_over:
        row = trainer.step()
        if row is not None:
            rows.append(row)
            trainer.deactivate(slice(len(rows) - 1, min(len(rows), 2)))
    last = trainer.to_host()
    assert_same(replica(last, 2), replica(whole.state, 2))
    for row, expected in zip(rows, whole.rows, strict=True):
        for name in ("eval_return", "model_return", "critic_loss"):
            assert row[name][2] == expected[name][2]
    if kind is BatchedReplicas:  # the inactive ones repeat the active one and take no longer
        assert_same(replica(last, 0), replica(last, 2))
        assert rows[-1]["model_epochs"] == [rows[-1]["model_epochs"][2]] * 3
        assert len(set(whole.rows[-1]["model_epochs"])) > 1
    assert [env.num_steps for env in trainer.envs.training] == [20, 40, 60]
    trainer.close()


# --- programs ---------------------------------------------------------------------------------


def add(state, own, shared):
    return state + own * shared, (own, state.sum())


@BOTH
def test_program_gives_every_replica_its_own_arguments(kind):
    replicas = kind(3)
    state = replicas.init(lambda seed: jnp.full(2, seed), np.array([1.0, 2.0, 3.0], np.float32))
    own = np.array([10.0, 20.0, 30.0], np.float32)
    program = replicas.map(add)
    program.compile_for(state, own, np.float32(2.0))
    state, (argument, total) = program(state, own, np.float32(2.0))
    assert np.asarray(argument).tolist() == [10.0, 20.0, 30.0]
    assert np.asarray(total).tolist() == [2.0, 4.0, 6.0]
    arrays = replicas.to_host(state)
    assert arrays.tolist() == [[21.0] * 2, [42.0] * 2, [63.0] * 2]
    state, _ = program(replicas.from_host(arrays), own, np.float32(1.0))
    first = replicas.to_host(state, lambda part: part[..., 0])
    program(state, own, np.float32(1.0))
    # Arrays on the host stay as they are, although the program may write into its own state.
    assert first.tolist() == [31.0, 62.0, 93.0]
    assert arrays.tolist() == [[21.0] * 2, [42.0] * 2, [63.0] * 2]
    assert replicas.num_traces == 1
    assert replicas.compiler.seconds > 0.0
    replicas.close()


@BOTH
def test_inactive_replicas_change_no_other_replica(kind):
    replicas = kind(4)
    state = replicas.init(lambda seed: seed, np.array([1.0, 2.0, 3.0, 4.0], np.float32))
    own = np.array([10.0, 20.0, np.nan, 40.0], np.float32)
    program = replicas.map(add)

    def run(state):
        state, (arguments, totals) = program(state, own, np.float32(1.0))
        return state, np.asarray(arguments), np.asarray(totals)

    state, _, _ = run(state)
    state = replicas.deactivate(state, {0, 2})
    for _ in range(2):
        state, arguments, totals = run(state)
    assert arguments[[1, 3]].tolist() == [20.0, 40.0]
    assert totals[[1, 3]].tolist() == [42.0, 84.0]
    state = replicas.deactivate(state, {0, 1, 2})
    state, arguments, _ = run(state)
    assert arguments[3] == 40.0
    values = replicas.to_host(state)
    if kind is BatchedReplicas:
        assert values.tolist() == [164.0] * 4
    else:
        np.testing.assert_array_equal(values, [11.0, 62.0, np.nan, 164.0])
    # With no active replica left, or no inactive one, all are given their own arguments again.
    for inactive in ({0, 1, 2, 3}, set()):
        state = replicas.deactivate(state, inactive)
        state, arguments, _ = run(state)
        assert arguments[[0, 1, 3]].tolist() == [10.0, 20.0, 40.0]
    assert replicas.num_traces == 1
    replicas.close()


def test_deactivation_needs_no_second_copy_of_the_state():
    replicas = BatchedReplicas(8)
    state = replicas.init(lambda seed: jnp.full(100_000, seed), np.arange(8, dtype=np.float32))
    shapes = jax.ShapeDtypeStruct(state.shape, state.dtype), np.zeros(8, bool), 0
    needed = replicas._repeat.lower(*shapes).compile().memory_analysis().temp_size_in_bytes
    assert needed < 0.5 * state.nbytes
    replicas.close()


def test_replicas_are_threads_on_the_cpu():
    replicas = make_replicas(2)
    assert isinstance(replicas, ThreadedReplicas)
    replicas.close()


class _Inner(NamedTuple):
    a: Any
    b: Any


class _Outer(NamedTuple):
    x: Any
    inner: Any
    other: Any


def test_function_is_given_the_fields_that_it_uses_and_the_others_stay():
    state = _Outer(1, _Inner(2, 3), None)
    assert only_used(state, ()) is state
    assert only_used(state, ("inner.b", "other")) == _Outer(None, _Inner(None, 3), None)
    assert only_used(state, ("x", "other.b")) == _Outer(1, None, None)
    assert merged(state, _Outer(None, _Inner(None, 30), None)) == _Outer(1, _Inner(2, 30), None)


@BOTH
def test_program_of_some_fields_changes_only_these(kind):
    replicas = kind(2)

    def add(state, own, shared):
        assert state.inner.b is None
        return state._replace(x=state.x + own + shared), state.x

    ones = np.ones(2, np.float32)
    first = _Outer(np.arange(2, dtype=np.float32), _Inner(ones, 5 * ones), None)
    state = replicas.from_host(first)
    state, result = replicas.map(add, ("x", "inner.a"))(
        state, np.array([1, 2], np.float32), np.float32(10.0)
    )
    host = replicas.to_host(state)
    np.testing.assert_array_equal(host.x, [11.0, 13.0])
    np.testing.assert_array_equal(host.inner.b, [5.0, 5.0])
    np.testing.assert_array_equal(result, [0.0, 1.0])
    replicas.close()
