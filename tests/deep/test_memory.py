"""The estimate of memory is what is really allocated."""

import jax
import numpy as np
import pytest

from narl.deep.learner import Programs
from narl.deep.memory import lane_memory
from narl.deep.rollout import Lane
from narl.deep.settings import make_settings
from narl.deep.termination import never


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["narl", "sac"])
def test_estimate_equals_the_arrays(algo):
    settings = make_settings(
        "InvertedPendulum-v5", algo, steps=1000, rollout_batch=300, hidden=(8,), model_width=8
    )
    programs = Programs(settings, 4, 1, never, 10)
    lane = Lane(np.int32(0), np.float32(0.1))
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
