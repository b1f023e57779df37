"""Room in the buffers of an agent that learns on after the steps that were asked for."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from quick_trainings import quick_config

from narl.deep.buffer_capacity import with_buffer_capacity, with_longer_buffer
from narl.errors import InputError

CONFIG = quick_config()
SPACES = SimpleNamespace(obs_dim=2, action_dim=1)


def state_of(num_rows):
    """Return the state of an agent whose buffer has room for so many rows."""
    return {"state.real.rows": np.zeros((1, num_rows, 7))}, {}


@pytest.mark.parametrize(
    ("last_step", "state", "steps"),
    [
        (60, None, 60),  # the first call gets what it asks for, as `narl train` does
        (21, None, 21),
        (10, None, 64),  # a call within the random steps: others will follow
        (60, state_of(64), 64),
        (64, state_of(64), 64),
        (65, state_of(64), 256),
        (100, state_of(60), 256),
        (128, state_of(60), 256),
        (129, state_of(60), 512),
    ],
)
def test_buffers_are_made_for_the_steps_asked_for_or_a_power_of_two(last_step, state, steps):
    config = with_buffer_capacity(CONFIG, last_step, state, SPACES)
    assert config == dataclasses.replace(CONFIG, steps=steps)


def test_buffers_have_no_spare_room_where_memory_is_short(monkeypatch):
    needed = []

    def check_memory(config, *dims):
        needed.append(config.steps)
        if config.steps > limit:
            raise InputError("memory: too much")

    monkeypatch.setattr("narl.deep.buffer_capacity.check_memory", check_memory)
    limit = 100
    assert with_buffer_capacity(CONFIG, 100, state_of(60), SPACES).steps == 100
    assert needed == [256, 100]
    limit = 99
    with pytest.raises(InputError, match="memory"):
        with_buffer_capacity(CONFIG, 100, state_of(60), SPACES)


def test_ring_of_the_option_buffer_keeps_its_length():
    config = dataclasses.replace(CONFIG, buffer=30, steps=256)
    arrays = {"state.real.rows": np.ones((1, 30, 7), np.float32), "other": np.ones(2)}
    longer = with_longer_buffer(arrays, config)
    assert longer["state.real.rows"].shape == (1, 30, 7)
    longer = with_longer_buffer(arrays, dataclasses.replace(config, buffer=100))
    assert longer["state.real.rows"].sum(axis=(0, 2)).tolist() == [7.0] * 30 + [0.0] * 70
    assert longer["other"] is arrays["other"]
