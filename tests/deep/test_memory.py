"""The estimate of memory is what is really allocated."""

import jax
import numpy as np
import pytest

from narl.deep import memory as memories
from narl.deep.algorithm import Clock, Programs
from narl.deep.config import make_settings
from narl.deep.memory import (
    available_memory,
    check_memory,
    lane_memory,
    needed_memory,
    temporary_memory,
)
from narl.deep.replicas import num_cores
from narl.deep.rollout import Lane
from narl.deep.termination import never
from narl.errors import InputError


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["narl", "sac"])
def test_estimate_equals_the_arrays(algo):
    settings = make_settings(
        "InvertedPendulum-v5", algo, steps=1000, rollout_batch=300, hidden=(8,), model_width=8
    )
    programs = Programs(settings, 4, 1, never, 10)
    lane = Lane(np.int32(0), np.float32(0.1), np.int32(3))
    learner = jax.jit(programs.begin)(np.uint32(0), lane, np.zeros(4, np.float32))
    total = sum(leaf.nbytes for leaf in jax.tree.leaves(learner))
    memory = lane_memory(programs)
    assert memory.total == total
    assert memory.real == learner.real.rows.nbytes + 8
    assert memory.model == learner.model.rows.nbytes + 8


def test_hopper_needs_what_retention_and_length_ask_for():
    settings = make_settings("Hopper-v5", "narl", steps=125_000)
    width = 2 * 11 + 3 + 2
    # 4 trainings of the model per epoch, 100 000 rollouts each, kept for 1 epoch. The schedule
    # counts epochs from the end of the 5 random ones, so it ends at 120: length 11.
    longest = settings.longest_rollout
    assert longest == 11
    memory = lane_memory(Programs(settings, 11, 3, never, 1000))
    assert memory.model == 4 * 100_000 * longest * width * 4 + 8
    assert memory.real == 125_000 * width * 4 + 8


def measured(programs: Programs) -> int:
    """The temporary bytes of XLA's own plan, of training or of imagining."""

    def shape(kind, *dims):
        return jax.ShapeDtypeStruct(dims, kind)

    count, scalar = shape(np.int32), shape(np.float32)
    lane = Lane(count, scalar, count)
    learner = jax.eval_shape(
        programs.begin, shape(np.uint32), lane, shape(np.float32, programs.obs_dim)
    )
    each = [
        jax.jit(program, donate_argnums=0).lower(learner, scalar, Clock(count, count, count))
        for program in (programs.learn, programs.train_model, programs.roll)
    ]
    return max(one.compile().memory_analysis().temp_size_in_bytes for one in each)


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [
        {"steps": 50_000, "members": 3, "rollout_batch": 100},  # most is for training
        {"steps": 50_000, "members": 6, "rollout_batch": 100},
        {"steps": 1000, "members": 3, "rollout_batch": 20_000},  # most is for imagining
        {"steps": 1000, "members": 3, "rollout_batch": 2000, "model_width": 120},
        {"steps": 1000, "batch": 50_000, "rollout_batch": 100},  # most is for learning
        {"steps": 1000, "batch": 50_000, "rollout_batch": 100, "updates_per_step": 1},
    ],
)
def test_what_is_temporary_is_about_what_xla_plans(given):
    small = {"initial_steps": 100, "hidden": (64,), "model_width": 50, "model_depth": 2}
    settings = make_settings("Hopper-v5", "narl", **{**small, **given})
    programs = Programs(settings, 11, 3, never, 10)
    assert temporary_memory(programs) == pytest.approx(measured(programs), rel=0.4)


def test_all_lanes_count_and_on_the_cpu_as_many_work_as_there_are_cores(monkeypatch):
    settings = make_settings("Hopper-v5")
    programs = Programs(settings, 11, 3, None, 1)
    lane, extra = lane_memory(programs).total, temporary_memory(programs)
    assert extra > 4 * 125_000 * 3 * (11 + 3 + 11 + 1) / 3
    # Twice: a checkpoint is a copy.
    assert needed_memory(settings, 11, 3, 1) == 2 * lane + extra
    many = num_cores() + 5
    assert needed_memory(settings, 11, 3, many) == 2 * many * lane + num_cores() * extra
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert needed_memory(settings, 11, 3, many) == many * (lane + extra)
    # 20 batches of 256, packed and apart, and six times what two layers of 256 make of one.
    alone = Programs(make_settings("Hopper-v5", "sac", updates_per_step=20), 11, 3, None, 1)
    assert temporary_memory(alone) == 4 * 256 * (2 * 20 * (2 * 11 + 3 + 2) + 6 * 512)


def test_a_container_may_have_less_than_the_machine(monkeypatch, tmp_path):
    (tmp_path / "meminfo").write_text("MemAvailable: 1000 kB\n")
    monkeypatch.setattr(memories, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memories, "_CGROUP", tmp_path)
    assert memories.available_memory() == 1_024_000
    (tmp_path / "memory.current").write_text("300\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert memories.available_memory() == 1_024_000
    (tmp_path / "memory.max").write_text("5300\n")
    assert memories.available_memory() == 5000


@pytest.mark.parametrize(
    ("algo", "num_lanes", "line"),
    [
        (
            "narl",
            10,
            "memory: 10 seeds need {} and 0.2 GB are available; take fewer seeds, or a smaller "
            "rollout_batch, retain_epochs, buffer or batch",
        ),
        (
            "narl",
            1,
            "memory: it needs {} and 0.2 GB are available; take a smaller rollout_batch, "
            "retain_epochs, buffer or batch",
        ),
        (
            "sac",
            20,
            "memory: 20 seeds need {} and 0.2 GB are available; take fewer seeds, or a smaller "
            "buffer or batch",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(monkeypatch, algo, num_lanes, line):
    settings = make_settings("Hopper-v5", algo)
    needed = needed_memory(settings, 11, 3, num_lanes)
    monkeypatch.setattr(memories, "available_memory", lambda: 200_000_000)
    with pytest.raises(InputError) as caught:
        check_memory(settings, 11, 3, num_lanes)
    assert str(caught.value) == line.format(f"{needed / 1e9:.1f} GB")
    monkeypatch.setattr(memories, "available_memory", lambda: needed)
    check_memory(settings, 11, 3, num_lanes)
    monkeypatch.setattr(memories, "available_memory", lambda: None)
    check_memory(settings, 11, 3, num_lanes)


def test_what_is_available(monkeypatch, tmp_path):
    listed = tmp_path / "meminfo"
    listed.write_text("MemTotal:  9 kB\nMemAvailable:    2048 kB\nSwapFree: 7 kB\n")
    monkeypatch.setattr(memories, "_MEMINFO", listed)
    assert available_memory() == 2 * 2**20
    listed.write_text("MemTotal:  9 kB\n")
    assert available_memory() is None
    monkeypatch.setattr(memories, "_MEMINFO", tmp_path / "nowhere")
    assert available_memory() is None

    class Device:
        stats: dict[str, int] | None = {"bytes_limit": 77, "bytes_in_use": 5}  # noqa: RUF012

        def memory_stats(self):
            return self.stats

    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(jax, "devices", lambda: [Device()])
    assert available_memory() == 77
    monkeypatch.setattr(Device, "stats", None)
    assert available_memory() is None
