"""The estimate of memory against what is allocated and against XLA's own plan."""

import jax
import numpy as np
import pytest
from tiny import replica_params, tiny_config

from narl.compilation import num_cores
from narl.deep import device_memory
from narl.deep.algorithm import CHUNK, Algorithm, StepInfo
from narl.deep.algorithm_registry import step_rule_of
from narl.deep.checked_config import make_config
from narl.deep.device_memory import (
    available_memory,
    check_memory,
    groups_that_fit,
    needed_memory,
    replica_memory,
    temporary_memory,
)
from narl.deep.termination import never
from narl.errors import InputError


def make_algorithm(algo="narl", obs_dim=11, action_dim=3, termination=never, **given):
    config = make_config("Hopper-v5", algo, **given)
    step_rules = tuple(step_rule_of(tiny_config(algo=name)) for name in ("mbpo", "narl"))
    return Algorithm(config, obs_dim, action_dim, termination, 10, step_rules)


@pytest.mark.parametrize("algo", [pytest.param("narl", marks=pytest.mark.slow), "sac"])
def test_estimate_equals_allocated_arrays(algo):
    small = {"model_width": 8, "rollout_batch": 300} if algo == "narl" else {}
    algorithm = make_algorithm(algo, 4, 1, steps=6000, hidden=(8,), **small)
    state = jax.jit(algorithm.init)(np.uint32(0), replica_params(), np.zeros(4, np.float32))
    estimate = replica_memory(algorithm)
    assert estimate.total == sum(leaf.nbytes for leaf in jax.tree.leaves(state))
    assert estimate.real == state.real.rows.nbytes + 8
    assert estimate.model == state.model.rows.nbytes + 8


def test_buffers_of_hopper_by_hand():
    width = 2 * 11 + 3 + 2
    estimate = replica_memory(make_algorithm())
    # 4 fits per epoch, 100 000 rollouts of up to 12 steps each, retained for 1 epoch.
    assert estimate.model == 4 * 100_000 * 12 * width * 4 + 8
    assert estimate.real == 130_000 * width * 4 + 8
    # With optimism in the update, what follows is stored for each of three members.
    candidates = replica_memory(make_algorithm(optimism_at="update"))
    assert candidates.model == 4 * 100_000 * 12 * (11 + 3 + 3 * (11 + 2)) * 4 + 8
    assert candidates.real == estimate.real


def xla_temporary_memory(algorithm, function):
    """Return the temporary bytes that XLA plans for one function of the algorithm."""

    def shape(kind, *dims):
        return jax.ShapeDtypeStruct(dims, kind)

    count, scalar = shape(np.int32), shape(np.float32)
    obs = shape(np.float32, algorithm.obs_dim)
    params = jax.eval_shape(replica_params)
    state = jax.eval_shape(algorithm.init, shape(np.uint32), params, obs)
    jitted = jax.jit(getattr(algorithm, function), donate_argnums=0)
    compiled = jitted.lower(state, scalar, StepInfo(count, count, count)).compile()
    return compiled.memory_analysis().temp_size_in_bytes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "given"),
    [
        ("fit_model", {"steps": 50_000, "members": 6, "rollout_batch": 100}),
        ("imagine", {"steps": 1000, "rollout_batch": 20_000}),
        ("imagine", {"steps": 1000, "rollout_batch": 2000, "model_width": 120}),
        ("update", {"steps": 1000, "batch": 50_000, "rollout_batch": 100}),
    ],
)
def test_temporary_memory_about_that_of_xla(function, given):
    """Each case needs most of its memory in the named function."""
    small = {"initial_steps": 100, "hidden": (64,), "model_width": 50, "model_depth": 2}
    algorithm = make_algorithm(**{**small, **given})
    planned = xla_temporary_memory(algorithm, function)
    assert temporary_memory(algorithm) == pytest.approx(planned, rel=0.4)


def test_needed_memory_counts_replicas_and_on_cpu_cores(monkeypatch):
    algorithm = make_algorithm(termination=None)
    state, temporary = replica_memory(algorithm).total, temporary_memory(algorithm)
    # Twice the state on the CPU: one copy is being written to disk.
    assert needed_memory(algorithm.config, 11, 3, 1) == 2 * state + temporary
    many = num_cores() + 5
    expected = 2 * many * state + num_cores() * temporary
    assert needed_memory(algorithm.config, 11, 3, many) == expected
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert needed_memory(algorithm.config, 11, 3, many) == many * (state + temporary)
    # 20 batches of 256, packed and unpacked, and six times the outputs of two layers of 256.
    sac = make_algorithm("sac", updates_per_step=20)
    assert temporary_memory(sac) == 4 * 256 * (2 * 20 * (2 * 11 + 3 + 2) + 6 * 512)


@pytest.mark.parametrize(
    ("algo", "num_replicas", "named"),
    [
        ("narl", 10, ("10 seeds", "fewer seeds", "rollout_batch, retain_epochs, buffer or batch")),
        ("narl", 1, ("it needs", "take a smaller rollout_batch, retain_epochs, buffer or batch")),
        ("sac", 20, ("20 seeds", "fewer seeds, or a smaller buffer or batch")),
    ],
)
def test_training_without_room_refused(monkeypatch, algo, num_replicas, named):
    config = make_config("Hopper-v5", algo)
    needed = needed_memory(config, 11, 3, num_replicas)
    monkeypatch.setattr(device_memory, "available_memory", lambda: 200_000_000)
    with pytest.raises(InputError) as caught:
        check_memory(config, 11, 3, num_replicas)
    for text in ("memory: ", f"{needed / 1e9:.1f} GB and 0.2 GB", *named):
        assert text in str(caught.value)
    for enough in (needed, None):
        monkeypatch.setattr(device_memory, "available_memory", lambda enough=enough: enough)
        check_memory(config, 11, 3, num_replicas)


def test_configurations_are_split_into_as_few_groups_as_there_is_room_for(monkeypatch):
    configs = [make_config("Hopper-v5", "narl", radius=r, seeds="0:2") for r in (0.1, 0.2, 0.5)]
    needed = needed_memory(configs[0], 11, 3, 4)  # of two configurations
    for available, sizes in (
        (None, [3]),
        (10 * needed, [3]),
        (1.3 * needed, [2, 1]),
        (0.9 * needed, [1, 1, 1]),
        (1, [1, 1, 1]),
    ):
        monkeypatch.setattr(device_memory, "available_memory", lambda given=available: given)
        groups = groups_that_fit(configs, 11, 3)
        assert [len(group) for group in groups] == sizes
        assert [config for group in groups for config in group] == configs


@pytest.mark.parametrize(("stats", "expected"), [({"bytes_limit": 77}, 77), (None, None)])
def test_available_memory_on_accelerator_is_limit_of_device(monkeypatch, stats, expected):
    class Device:
        def memory_stats(self):
            return stats

    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(jax, "devices", lambda: [Device()])
    assert available_memory() == expected


def test_value_samples_and_evaluation_episodes_count_in_the_estimate():
    """Beyond some number they decide it: every member has one value per sample and row."""

    def more(option, small, large):
        sizes = [temporary_memory(make_algorithm(**{option: x})) for x in (small, large)]
        return sizes[1] - sizes[0]

    config = make_algorithm().config
    rows = min(CHUNK, config.rollout_batch)
    assert more("value_samples", 100_000, 100_001) == 4 * rows * config.num_members
    row = config.num_members * (config.model_depth * config.model_width + 3 * sum(config.hidden))
    row += config.num_members * config.value_samples
    assert more("eval_episodes", 100_000, 100_001) == 4 * row
    without_model = make_algorithm("sac").config
    sizes = [temporary_memory(make_algorithm("sac", eval_episodes=x)) for x in (100_000, 100_001)]
    assert sizes[1] - sizes[0] == 4 * 3 * sum(without_model.hidden)
