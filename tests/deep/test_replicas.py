"""Many lanes at once: each as if it were alone, and nothing compiled twice."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from probes import Drift
from tiny import assert_same, differs, tiny_settings

from narl.deep.replicas import CoreLanes, VmapLanes, make_lanes
from narl.deep.trainer import LaneSpec, Training

SETTINGS = tiny_settings(model_depth=1)
THREE = (LaneSpec(3, "narl", 0.1), LaneSpec(4, "mbpo", None), LaneSpec(5, "narl", None))


class Compilations:
    """Counts what XLA compiles."""

    def __init__(self):
        self.num = 0
        jax.monitoring.register_event_duration_secs_listener(self.hear)

    def hear(self, event, duration, **_):
        self.num += event == "/jax/core/compile/backend_compile_duration"


@functools.cache
def compilations():
    return Compilations()


class Trained(NamedTuple):
    """What a training leaves."""

    learners: Any
    early: Any
    """The learners after two steps with updates."""
    rows: list
    """The lines of the journal."""
    compiled: list
    """How many programs were compiled in each half of the steps."""
    traced: list
    """How many had been traced by the end of each half."""


@functools.cache
def train(specs, runner, settings=SETTINGS):
    counter = compilations()
    before = counter.num
    training = Training(settings, specs, make_env=Drift, runner=runner)
    rows, compiled, traced = [], [], []
    for half in range(2):
        for _ in range(settings.steps // 2):
            rows.append(training.advance())
            if len(rows) == settings.learn_after + 2:
                early = jax.tree.map(np.copy, training.export())
        assert training.is_over == (half == 1)
        compiled.append(counter.num - before)
        before = counter.num
        traced.append(training.runner.num_traces)
    learners = training.export()
    training.close()
    return Trained(learners, early, [row for row in rows if row is not None], compiled, traced)


@functools.cache
def first_state(specs, settings=SETTINGS):
    training = Training(settings, specs, make_env=Drift, runner=CoreLanes)
    learners = jax.tree.map(np.copy, training.export())
    training.close()
    return learners


def lane(tree, i):
    return jax.tree.map(lambda x: x[i], tree)


ONE_MEMBER = tiny_settings(model_depth=1, members=1)
SAME_SEED = (LaneSpec(3, "narl", 0.1), LaneSpec(3, "mbpo", None))


@pytest.mark.slow
def test_optimism_with_one_member_trains_as_mbpo_with_one_member():
    learners, _, rows, _, _ = train(SAME_SEED, CoreLanes, ONE_MEMBER)
    narl, mbpo = lane(learners, 0), lane(learners, 1)
    assert narl.lane.selector != mbpo.lane.selector
    assert_same(narl._replace(lane=mbpo.lane), mbpo)
    assert rows[-1]["updates"] == [20, 20]
    assert narl.model.size > 0
    assert rows[-1]["eval_returns"][0] == rows[-1]["eval_returns"][1]


@pytest.mark.slow
def test_nothing_is_compiled_after_the_programs_have_run_once():
    _, _, rows, compiled, traced = train(SAME_SEED, CoreLanes, ONE_MEMBER)
    assert len(rows) == 4
    # Random steps, the policy's steps, updates, model, rollouts, judgement, sums.
    assert traced[0] >= 6
    assert compiled[0] >= 6
    assert traced[1] == traced[0]
    assert compiled[1] == 0
    # Every program was used in the first half: rollouts grew longer in the second.
    assert [row["rollout_length"] for row in rows] == [1, 1, 2, 3]


@pytest.mark.slow
@pytest.mark.parametrize("i", [0, 1])
def test_a_lane_gives_the_same_bits_alone_and_among_others(i):
    among, alone = train(THREE, CoreLanes), train(THREE[i : i + 1], CoreLanes)
    together = among.learners
    assert_same(lane(alone.learners, 0), lane(together, i))
    for row, own in zip(among.rows, alone.rows, strict=True):
        for name in ("eval_return", "train_return", "critic_loss", "model_return"):
            assert row[name][i] == own[name][0]
    # … and they are three different lanes.
    assert differs(lane(together.sac, 0), lane(together.sac, 1))
    assert differs(lane(together.sac, 0), lane(together.sac, 2))


@pytest.mark.slow
def test_vmapped_lanes_agree_with_separate_ones():
    """For a few updates; then rounding grows, as in any training."""
    separate, vmapped = train(THREE, CoreLanes).early, train(THREE, VmapLanes).early
    begun = first_state(THREE)
    assert jax.tree.structure(separate) == jax.tree.structure(vmapped)
    for a, b in zip(jax.tree.leaves(separate), jax.tree.leaves(vmapped), strict=True):
        assert a.shape == b.shape
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-2, atol=1e-3)
    # The networks have moved from where they began, and in the same way.
    for part in ("actor", "critic"):
        trees = (getattr(learner.sac, part) for learner in (begun, separate, vmapped))
        for start, a, b in zip(*map(jax.tree.leaves, trees), strict=True):
            moved = np.abs(a - start).max()
            assert moved > 1e-4
            assert np.abs(a - b).max() < 0.05 * moved
    assert separate.model.size.min() > 0
    assert separate.tally.calls.tolist() == [2.0] * 3


UNEVEN = tiny_settings(model_depth=1, patience=1, most_model_epochs=50, model_learning_rate=0.03)
"""Models of different lanes are trained for longer and for shorter."""


@pytest.mark.slow
@pytest.mark.parametrize("runner", [CoreLanes, VmapLanes])
def test_lanes_that_are_retired_change_nothing_for_the_others(runner):
    whole = train(THREE, runner, UNEVEN)
    training = Training(UNEVEN, THREE, make_env=Drift, runner=runner)
    rows = []
    while not training.is_over:
        row = training.advance()
        if row is not None:
            rows.append(row)
            if len(rows) in (1, 2):
                training.retire(slice(len(rows) - 1, len(rows)))
    last = training.export()
    assert_same(lane(last, 2), lane(whole.learners, 2))
    for row, expected in zip(rows, whole.rows, strict=True):
        assert row["eval_return"][2] == expected["eval_return"][2]
        assert row.get("model_epochs", [0] * 3)[2] == expected.get("model_epochs", [0] * 3)[2]
    assert len(set(whole.rows[-1]["model_epochs"])) == 3
    if runner is VmapLanes:  # they do what the last one does, and take no longer
        assert_same(lane(last, 0), lane(last, 2))
        assert rows[-1]["model_epochs"] == [rows[-1]["model_epochs"][2]] * 3
    assert training.envs[0].num_steps < training.envs[1].num_steps < training.envs[2].num_steps
    training.close()


@pytest.mark.slow
def test_lanes_that_select_alike_compute_what_mixed_lanes_do():
    alike = train((THREE[0], THREE[2]), VmapLanes)
    mixed = train(THREE, VmapLanes)
    for a, b in ((0, 0), (1, 2)):
        for x, y in zip(
            jax.tree.leaves(lane(alike.early.sac, a)),
            jax.tree.leaves(lane(mixed.early.sac, b)),
            strict=True,
        ):
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_the_same_bits_at_full_size():
    """Where XLA has products to share between threads, which tiny networks do not show."""
    full = tiny_settings(
        hidden=(256, 256), batch=256, updates_per_step=20, model_width=200, model_depth=4
    )
    among, alone = train(THREE, CoreLanes, full), train(THREE[:1], CoreLanes, full)
    assert_same(lane(alone.learners, 0), lane(among.learners, 0))
    assert differs(lane(among.learners.sac, 0), lane(among.learners.sac, 2))


@pytest.mark.slow
def test_every_lane_has_the_elites_of_its_algorithm():
    learners = first_state(THREE, tiny_settings(model_depth=1, members=7))
    assert learners.lane.num_elites.tolist() == [7, 5, 7]


@pytest.mark.slow
def test_vmapped_lanes_compile_nothing_twice_either():
    _, _, _, compiled, traced = train(THREE, VmapLanes)
    assert traced[0] >= 6
    assert traced[1] == traced[0]
    assert compiled[1] == 0


def double(state, own, shared):
    return state + own * shared, (own, state.sum())


@pytest.mark.parametrize("runner", [CoreLanes, VmapLanes])
def test_lifting_gives_every_lane_its_own_arguments(runner):
    lanes = runner(3)
    state = lanes.start(lambda seed: jnp.full(2, seed), np.array([1.0, 2.0, 3.0], np.float32))
    own = np.array([10.0, 20.0, 30.0], np.float32)
    program = lanes.lift(double)
    state, (given, total) = program(state, own, np.float32(2.0))
    assert np.asarray(given).tolist() == [10.0, 20.0, 30.0]
    assert np.asarray(total).tolist() == [2.0, 4.0, 6.0]
    assert lanes.export(state).tolist() == [[21.0] * 2, [42.0] * 2, [63.0] * 2]
    # Back from NumPy arrays, and once more without a second trace.
    arrays = lanes.export(state)
    state, _ = program(lanes.restore(arrays), own, np.float32(1.0))
    assert lanes.export(state, lambda lane: lane[..., 0]).tolist() == [31.0, 62.0, 93.0]
    # What was exported stays, whatever becomes of the state.
    kept = lanes.export(state)
    program(state, own, np.float32(1.0))
    assert kept[:, 0].tolist() == [31.0, 62.0, 93.0]
    assert arrays.tolist() == [[21.0] * 2, [42.0] * 2, [63.0] * 2]
    assert lanes.num_traces == 1
    assert lanes.compile_seconds > 0.0
    lanes.close()


def count(state, own, shared):
    return state + own * shared, (own, state)


@pytest.mark.parametrize("runner", [CoreLanes, VmapLanes])
def test_lanes_that_rest_leave_the_others_as_they_were(runner):
    lanes = runner(4)
    state = lanes.start(lambda seed: seed, np.array([1.0, 2.0, 3.0, 4.0], np.float32))
    own = np.array([10.0, 20.0, np.nan, 40.0], np.float32)
    program = lanes.lift(count)
    state, _ = program(state, own, np.float32(1.0))
    state = lanes.rest(state, {0, 2})
    for _ in range(2):
        state, (given, before) = program(state, own, np.float32(1.0))
    assert np.asarray(given)[[1, 3]].tolist() == [20.0, 40.0]
    assert np.asarray(before)[[1, 3]].tolist() == [42.0, 84.0]
    assert lanes.export(state)[[1, 3]].tolist() == [62.0, 124.0]
    # A third joins them; what they were given before counts no more.
    state = lanes.rest(state, {0, 1, 2})
    state, (given, _) = program(state, own, np.float32(1.0))
    assert np.asarray(given)[3] == 40.0
    assert lanes.export(state)[3] == 164.0
    assert lanes.num_traces == 1
    if runner is VmapLanes:  # all of them do what the last one does
        assert lanes.export(state).tolist() == [164.0] * 4
    else:  # all but the last stay where they were
        assert lanes.export(state).tolist() == [11.0, 62.0, pytest.approx(np.nan, nan_ok=True), 164]
    # When nobody is left to go on, or nobody rests any more, all are given their own again.
    for resting in ({0, 1, 2, 3}, set()):
        state = lanes.rest(state, resting)
        state, (given, _) = program(state, own, np.float32(1.0))
        assert np.asarray(given)[[0, 1, 3]].tolist() == [10.0, 20.0, 40.0]
    lanes.close()


def test_lanes_that_rest_need_no_second_copy_of_everything():
    lanes = VmapLanes(8)
    state = lanes.start(lambda seed: jnp.full(100_000, seed), np.arange(8, dtype=np.float32))
    shapes = jax.ShapeDtypeStruct(state.shape, state.dtype), np.zeros(8, bool), 0
    needed = lanes._repeat.lower(*shapes).compile().memory_analysis().temp_size_in_bytes
    assert needed < 0.5 * state.nbytes
    lanes.close()


def test_on_the_cpu_lanes_are_spread_over_cores():
    lanes = make_lanes(2)
    assert isinstance(lanes, CoreLanes)
    lanes.close()
