"""Presets, defaults, what follows from them, and one line for everything that is wrong."""

import dataclasses
import math

import numpy as np
import pytest

from narl.deep.config import (
    _ELSEWHERE,
    Settings,
    check_settings,
    make_settings,
    rollout_length,
)
from narl.deep.presets import find_preset
from narl.deep.selection import SelectionSettings
from narl.errors import InputError

TASKS = ("InvertedPendulum", "Hopper", "HalfCheetah", "Walker2d", "Ant", "Humanoid")


@pytest.mark.parametrize("version", ["v4", "v5"])
@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("algo", ["narl", "mbpo", "sac"])
def test_presets_can_be_used_as_they_are(name, version, algo):
    settings = make_settings(f"{name}-{version}", algo)
    for field, value in find_preset(f"{name}-{version}").overrides.items():
        assert getattr(settings, field) == value
    assert settings.obs_scaling == "none"
    assert not settings.model().scale_targets
    assert settings.learn_after >= settings.initial_steps


def test_defaults_for_any_environment():
    settings = make_settings("Pendulum-v1")
    assert settings == Settings(env="Pendulum-v1")
    assert settings.obs_scaling == "bounds"
    assert (settings.num_members, settings.num_elites) == (3, 3)
    assert settings.num_real == 12  # 5 % of 256
    assert settings.sac(4).target_entropy == -4.0
    assert settings.selection() == SelectionSettings()
    assert settings.model().scale_targets


def test_members_and_elites_by_algorithm():
    mbpo = make_settings("Pendulum-v1", "mbpo")
    assert (mbpo.num_members, mbpo.num_elites) == (7, 5)
    few = make_settings("Pendulum-v1", "mbpo", members=3)
    assert (few.num_members, few.num_elites) == (3, 3)
    chosen = make_settings("Pendulum-v1", "mbpo", members=4, elites=2)
    assert (chosen.num_members, chosen.num_elites) == (4, 2)
    narl = make_settings("Pendulum-v1", "narl", members=10, elites=2)
    assert (narl.num_members, narl.num_elites) == (10, 10)


def test_plain_sac_has_no_model():
    sac = make_settings("Hopper-v5", "sac")
    assert not sac.uses_model
    assert sac.num_real == sac.batch
    assert sac.model_capacity == 1


def test_what_is_given_wins_over_the_preset():
    settings = make_settings("Hopper-v5", updates_per_step=3, target_entropy=-7.0, steps=9000)
    assert (settings.updates_per_step, settings.steps) == (3, 9000)
    assert settings.sac(3).target_entropy == -7.0
    assert settings.epoch_length == 1000
    assert make_settings("Hopper-v5", obs_scaling="bounds").obs_scaling == "bounds"


def test_none_means_not_given_but_for_the_radius():
    settings = make_settings("Hopper-v5", updates_per_step=None, initial_steps=None, radius=None)
    assert settings.updates_per_step == 20
    assert settings.initial_steps == settings.learn_after == 5000
    assert settings.radius is None
    assert make_settings("Hopper-v5").radius == 0.1


def test_updates_begin_with_the_policy_unless_told_otherwise():
    assert make_settings("Hopper-v5", initial_steps=300).learn_after == 300
    assert make_settings("Hopper-v5", initial_steps=300, learn_after=None).learn_after == 300
    later = make_settings("Hopper-v5", initial_steps=300, learn_after=800)
    assert (later.initial_steps, later.learn_after) == (300, 800)


def test_settings_of_the_parts():
    settings = make_settings(
        "Pendulum-v1",
        hidden=(32, 16),
        discount=0.9,
        polyak=0.1,
        learning_rate=1e-3,
        initial_temperature=0.2,
        members=4,
        model_width=50,
        model_depth=3,
        model_learning_rate=2e-3,
        model_batch=64,
        holdout_share=0.3,
        patience=2,
        holdout_most=77,
        most_model_epochs=9,
        joint=True,
        fallback="random",
        draw="mean",
        value_samples=5,
    )
    sac, model = settings.sac(1), settings.model()
    assert (sac.hidden, sac.discount, sac.polyak) == ((32, 16), 0.9, 0.1)
    assert (sac.learning_rate, sac.initial_temperature) == (1e-3, 0.2)
    assert (model.members, model.width, model.depth) == (4, 50, 3)
    assert (model.learning_rate, model.batch, model.holdout_share) == (2e-3, 64, 0.3)
    assert (model.holdout_most, model.patience, model.most_epochs) == (77, 2, 9)
    assert settings.selection() == SelectionSettings(True, "random", "mean", 5)


@pytest.mark.parametrize(
    ("schedule", "lengths"),
    [
        # Hopper: 1 until epoch 20, 15 from 150 on; 1 + 14·(e − 20)/130 between, rounded down.
        ((20, 150, 1, 15), {0: 1, 20: 1, 29: 1, 30: 2, 85: 8, 149: 14, 150: 15, 500: 15}),
        ((1, 15, 1, 1), {0: 1, 1: 1, 2: 1, 15: 1, 40: 1}),  # InvertedPendulum
        ((20, 100, 1, 25), {20: 1, 23: 1, 24: 2, 60: 13, 99: 24, 100: 25}),  # Ant
        ((20, 300, 1, 25), {20: 1, 31: 1, 32: 2, 160: 13, 299: 24, 300: 25}),  # Humanoid
        ((0, 100, 1, 101), {0: 1, 29: 30, 57: 58, 100: 101}),  # where floats round wrongly
        ((5, 5, 2, 7), {4: 2, 5: 2, 6: 7}),
        ((0, 10, 5, 1), {0: 5, 1: 4, 5: 3, 9: 1, 10: 1}),
    ],
)
def test_rollout_length(schedule, lengths):
    assert {epoch: rollout_length(schedule, epoch) for epoch in lengths} == lengths


def test_epochs_of_the_schedule_begin_after_the_random_steps():
    hopper = make_settings("Hopper-v5")
    assert [hopper.rollout_length_at(step) for step in (0, 4999, 34_999, 35_000)] == [1, 1, 1, 2]
    # 125 000 steps are 120 epochs: 1 + 14·100/130 = 11.8.
    assert hopper.longest_rollout == hopper.rollout_length_at(124_999) + 0 == 11
    assert make_settings("Hopper-v5", steps=200_000).longest_rollout == 15


def test_model_buffer_holds_what_retention_and_length_need():
    # 100 000 rollouts every 250 of 1000 steps, 11 long at most.
    assert make_settings("Hopper-v5").model_capacity == 4 * 100_000 * 11
    # Humanoid: one training per epoch, five epochs kept, 24 long at most within 295 epochs.
    assert make_settings("Humanoid-v5").model_capacity == 5 * 100_000 * 24
    assert make_settings("InvertedPendulum-v5").model_capacity == 100_000
    assert make_settings("Hopper-v5").retained(3) == 400_000 * 3


def test_model_buffer_holds_at_least_one_models_rollouts():
    """A model that serves for several epochs, whose rollouts would not fit into one's worth."""
    rare = make_settings("Pendulum-v1", epoch_length=100, model_every=1000, rollout_batch=5000)
    assert rare.model_capacity == 5000
    assert rare.retained(3) == 15_000
    kept = make_settings(
        "Pendulum-v1", epoch_length=300, model_every=1000, rollout_batch=100, retain_epochs=7
    )
    assert kept.model_capacity == 7 * 30


def test_real_buffer_is_no_larger_than_the_training():
    assert make_settings("Hopper-v5").real_capacity == 125_000
    assert make_settings("Hopper-v5", buffer=2000).real_capacity == 2000


COUNTS = [
    *("steps", "epoch_length", "initial_steps", "learn_after", "updates_per_step", "batch"),
    *("buffer", "model_every", "model_width", "model_depth", "model_batch", "holdout_most"),
    *("most_model_epochs", "rollout_batch", "retain_epochs", "value_samples", "eval_episodes"),
    *("eval_horizon", "members", "elites"),
]


def refused(**given):
    """The line that a wrong value gives."""
    with pytest.raises(InputError) as caught:
        make_settings("Pendulum-v1", **given)
    line = str(caught.value)
    assert "\n" not in line
    return line


@pytest.mark.parametrize("name", COUNTS)
def test_counts(name):
    assert refused(**{name: 0}) == f"{name}: 0 is too small; the nearest valid value is 1"
    for value in (2.5, "3", True):
        expected = f"{name}: {value!r} is wrong; it must be a whole number >= 1"
        assert refused(**{name: value}) == expected


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        *(("real_share", 0, 1), ("discount", 0, 1), ("polyak", 1e-8, 1), ("holdout_share", 0, 0.9)),
        *(("learning_rate", 1e-12, 1), ("model_learning_rate", 1e-12, 1)),
        *(("initial_temperature", 1e-8, 1e8), ("target_entropy", -1e6, 1e6)),
    ],
)
def test_ranges(name, low, high):
    for value, nearest in ((low - 1.0, low), (high * 3 + 1.0, high), (math.nan, low)):
        expected = f"{name}: {value} is out of range; the nearest valid value is {nearest:g}"
        assert refused(**{name: value}) == expected
    assert refused(**{name: "much"}) == f"{name}: 'much' is wrong; it must be a number"
    for value in (low, high):
        assert getattr(make_settings("Pendulum-v1", **{name: value}), name) == value


def test_radius():
    hint = "(or none, which admits every member)"
    line = "radius: -1 is out of range; the nearest valid value is 0 " + hint
    assert refused(radius=-1) == line
    assert refused(radius=1e31).endswith(hint)
    assert make_settings("Pendulum-v1", radius=0).radius == 0


def test_patience():
    assert refused(patience=-1) == "patience: -1 is too small; the nearest valid value is 0"
    assert make_settings("Pendulum-v1", patience=0).model().patience == 0


@pytest.mark.parametrize(
    ("name", "given", "meant"),
    [
        ("fallback", "close", "closest"),
        ("draw", "samples", "sample"),
        ("termination", "learnt", "learned"),
        ("obs_scaling", "bound", "bounds"),
    ],
)
def test_choices_suggest_the_nearest(name, given, meant):
    line = refused(**{name: given})
    assert line.startswith(f"{name}: unknown value '{given}'; did you mean '{meant}'?")


def test_algorithm_suggests_the_nearest():
    with pytest.raises(InputError, match=r"^algo: unknown value 'mpbo'; did you mean 'mbpo'\?"):
        make_settings("Pendulum-v1", "mpbo")


def test_unknown_option_suggests_the_nearest():
    line = refused(update_per_step=3)
    assert line.startswith(
        "option: unknown value 'update_per_step'; did you mean 'updates_per_step'?"
    )


@pytest.mark.parametrize(
    "schedule", [(1, 2, 3), (5, 1, 1, 1), (-1, 2, 1, 1), (0, 1, 0, 1), (0, 1, 1.5, 2), 7, "1,2,1,1"]
)
def test_schedule(schedule):
    line = refused(rollout_schedule=schedule)
    assert line.startswith(f"rollout_schedule: {schedule!r} is wrong; it must be e0, e1, k0, k1")


@pytest.mark.parametrize("hidden", [(), (0,), (32, -1), (1.5,), 64])
def test_hidden(hidden):
    line = refused(hidden=hidden)
    assert line == f"hidden: {hidden!r} is wrong; it must be widths >= 1, such as 256,256"


def test_what_does_not_go_together():
    line = refused(elites=9, members=4)
    assert line == "elites: 9 is too large; the nearest valid value is 4 (members)"
    line = refused(initial_steps=600, learn_after=500)
    assert line == "learn_after: 500 is too small; the nearest valid value is 600 (initial_steps)"
    assert refused(scale_targets=1) == "scale_targets: 1 is wrong; it must be True or False"
    assert refused(joint="yes") == "joint: 'yes' is wrong; it must be True or False"


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (
            {"steps": 1000},
            "steps: 1000 is too small; 1000 random steps come first, so at least 1001, "
            "or give a smaller initial_steps",
        ),
        (
            {"steps": 500},
            "steps: 500 is too small; 1000 random steps come first, so at least 1001, "
            "or give a smaller initial_steps",
        ),
        (
            {"steps": 500, "initial_steps": 700},
            "steps: 500 is too small; 700 random steps come first, so at least 701, "
            "or give a smaller initial_steps",
        ),
        (
            {"steps": 2000, "learn_after": 3000},
            "steps: 2000 is too small; updates begin after 3000 steps, so at least 3001, "
            "or give a smaller learn_after",
        ),
        (
            {"initial_steps": 10_000},
            "initial_steps: 10000 is too large; the nearest valid value is 9999, "
            "for there are 10000 steps in all",
        ),
        (
            {"learn_after": 20_000},
            "learn_after: 20000 is too large; the nearest valid value is 9999, "
            "for there are 10000 steps in all",
        ),
    ],
)
def test_a_training_without_updates_is_refused_and_what_was_given_is_named(given, line):
    assert refused(**given) == line


def test_one_update_is_enough():
    assert make_settings("Pendulum-v1", steps=1001).steps == 1001
    assert make_settings("Pendulum-v1", initial_steps=9999).learn_after == 9999


def test_the_smallest_settings_are_valid():
    smallest = dataclasses.replace(Settings(env="any"), steps=2, initial_steps=1, learn_after=1)
    assert check_settings(smallest) is None


def test_names_of_other_libraries_lead_to_ours():
    with pytest.raises(InputError) as caught:
        make_settings("Hopper-v5", gamma=0.9)
    assert str(caught.value) == "option: unknown value 'gamma'; it is called 'discount'"
    fields = {field.name for field in dataclasses.fields(Settings)}
    assert set(_ELSEWHERE.values()) <= fields
    assert not set(_ELSEWHERE) & fields


def test_numbers_of_numpy_are_numbers():
    given = {"batch": np.int64(32), "radius": np.float32(0.5), "hidden": [np.int32(8), 4]}
    settings = make_settings("Hopper-v5", joint=np.True_, **given)
    assert (settings.batch, settings.radius, settings.hidden) == (32, 0.5, (8, 4))
    assert settings.joint is True
    assert type(settings.batch) is int


@pytest.mark.parametrize(
    ("given", "line"),
    [
        (
            {"learning_rate": 0},
            "learning_rate: 0 is out of range; the nearest valid value is 1e-12",
        ),
        ({"polyak": 0.0}, "polyak: 0.0 is out of range; the nearest valid value is 1e-08"),
        ({"radius": np.inf}, "radius: inf is no number; give none, which admits every member"),
    ],
)
def test_what_learns_nothing_is_refused(given, line):
    with pytest.raises(InputError) as caught:
        make_settings("Hopper-v5", **given)
    assert str(caught.value) == line


def test_gymnasium_before_the_colon_keeps_the_preset():
    plain, named = make_settings("Hopper-v5"), make_settings("gymnasium:Hopper-v5")
    assert named == dataclasses.replace(plain, env="gymnasium:Hopper-v5")
    assert make_settings("other:Hopper-v5").steps != plain.steps
