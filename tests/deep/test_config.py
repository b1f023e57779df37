"""The configuration: defaults, presets, values that follow, refusals and run ids."""

import dataclasses
import json
import math

import numpy as np
import pytest

from narl.deep.algorithm_registry import ALGORITHMS, MODEL_BASED
from narl.deep.checked_config import (
    OTHER_NAMES,
    changed_options,
    check_config,
    config_from_record,
    make_config,
)
from narl.deep.config import Config, rollout_length, used_by
from narl.deep.presets import find_preset
from narl.errors import InputError
from narl.gymnasium_registration import TASKS
from narl.options import Option, check_value, choices_of, option_fields, options_of

FIELDS = {field.name: field for field in option_fields(Config)}


def refusal(algo="narl", **given):
    """Return the line that refuses these options."""
    with pytest.raises(InputError) as caught:
        make_config("Pendulum-v1", algo, **given)
    line = str(caught.value)
    assert "\n" not in line
    return line


# --- fields and their metadata ----------------------------------------------------------------


def test_every_field_is_an_option_with_help():
    assert list(FIELDS) == [field.name for field in dataclasses.fields(Config)]
    for name, field in FIELDS.items():
        assert len(field.option.help) > 10, name
        named = field.option.metavar or choices_of(field.annotation, field.option)
        assert field.annotation is bool or named, name


def test_preset_flag_marks_fields_that_presets_set():
    tasks = (f"narl/{name}-v0" for name in TASKS)
    discrete = "CartPole-v1", "Acrobot-v1", "LunarLander-v3"
    others = "Hopper-v5", "MountainCarContinuous-v0", *discrete
    presets = map(find_preset, (*others, *tasks))
    overridden = {name for preset in presets for name in preset.overrides}
    assert {name for name, field in FIELDS.items() if field.option.preset} == overridden


@pytest.mark.parametrize("name", ["obs_scaling", "eval_episodes", "scale_targets"])
def test_default_in_words_is_that_of_presets_and_config(name):
    in_words, default = Option("").default_as_text, FIELDS[name].default
    presets = {f"narl/{task}": find_preset(f"narl/{task}-v0").overrides for task in TASKS}
    presets["LunarLander"] = find_preset("LunarLander-v3").overrides
    assert presets.pop("narl/HalfCheetah") == find_preset("HalfCheetah-v5").overrides  # MBPO's
    own = [task for task, preset in presets.items() if preset.get(name, default) != default]
    mbpo = in_words(find_preset("Hopper-v5").overrides[name])
    tasks = f" and for {' and '.join(own)}" if own else ""
    expected = f"{mbpo} in MBPO's presets{tasks}, else {in_words(default)}"
    assert FIELDS[name].option.default_text == expected


def wrong_values():
    """Yield field, wrong value and a text that the refusal must contain, for every option."""
    for name, field in FIELDS.items():
        option, kind = field.option, str(field.annotation)
        if name in ("env", "algo", "seeds"):  # tests/test_validation.py has seeds
            continue
        if "Literal" in kind:
            yield name, f"{field.default}s", f"did you mean '{field.default}'"
        elif "bool" in kind:
            yield name, 1, "True or False"
        elif "tuple" in kind:
            for value in ((), 7, (1.5,) * 4, (-1,) * 4, "1,2,1,1"):
                yield name, value, option.example
        else:
            yield name, "much", "must be a"
            yield name, True, "must be a"
            if "int" in kind:
                yield name, 2.5, "whole number"
            else:
                yield name, math.nan, "finite"
                yield name, math.inf, "finite"
            right = f"nearest valid value is {option.minimum:g}"
            if 0 < option.minimum < 1e-6:
                right = "it must be > 0"
            elif name == "steps":
                right = "1000 random steps come first, so at least 1001"
            yield name, option.minimum - 1 - abs(option.minimum), right
            if option.maximum is not None:
                nearest = int(option.maximum) if "int" in kind else f"{option.maximum:g}"
                yield name, option.maximum * 3 + 1, f"nearest valid value is {nearest}"


@pytest.mark.parametrize(("name", "value", "right"), list(wrong_values()))
def test_wrong_value_refused_with_right_one(name, value, right):
    algo = (used_by(name) or ("narl",))[0]
    line = refusal(algo, **{name: value})
    assert line.startswith(f"{name}: ")
    assert right in line


def test_bounds_themselves_accepted():
    for name, field in FIELDS.items():
        for bound in (field.option.minimum, field.option.maximum):
            if bound is not None and "tuple" not in str(field.annotation):
                assert check_value(name, bound, field.annotation, field.option) == bound


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_option_of_another_algorithm_refused(algo):
    foreign = [name for name in FIELDS if used_by(name) and algo not in used_by(name)]
    assert foreign
    for name in foreign:
        default = FIELDS[name].default
        value = 1 if default is None else default
        line = refusal(algo, **{name: value})
        assert line.startswith(f"{name}: ")
        assert algo in line
        assert used_by(name)[0] in line


def test_unknown_names_lead_to_ours():
    for other, ours in OTHER_NAMES.items():
        assert ours in options_of(Config)
        assert other not in options_of(Config)
        assert refusal(**{other: 1}).endswith(f"it is called {ours!r}")
    assert "did you mean 'updates_per_step'?" in refusal(update_per_step=3)
    with pytest.raises(InputError, match=r"^algo: .*'mpbo'; did you mean 'mbpo'\?"):
        make_config("Pendulum-v1", "mpbo")


# --- defaults, presets and given values -------------------------------------------------------


def test_defaults_for_any_environment():
    config = make_config("Pendulum-v1")
    assert config == Config(env="Pendulum-v1")
    assert config.obs_scaling == "bounds"
    assert config.scale_targets
    assert (config.num_members, config.num_elites) == (3, 3)
    assert config.num_real == 12  # 5 % of 256
    assert config.entropy_target(4) == -4.0


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_preset_values_taken_and_valid(algo):
    for name in ("InvertedPendulum", "Hopper", "HalfCheetah", "Walker2d", "Ant", "Humanoid"):
        for version in ("v4", "v5"):
            config = make_config(f"{name}-{version}", algo)
            for field, value in find_preset(f"{name}-{version}").overrides.items():
                assert getattr(config, field) == value
    named = make_config("gymnasium:Hopper-v5", algo)
    assert named == dataclasses.replace(make_config("Hopper-v5", algo), env=named.env)
    assert make_config("other:Hopper-v5", algo).steps == 10_000


def test_paper_preset_is_a_reading_that_options_change():
    ours, paper = make_config("Pendulum-v1"), make_config("Pendulum-v1", preset="paper")
    assert dataclasses.replace(paper, preset="narl") == ours
    assert make_config("Pendulum-v1", preset="paper", exclude="above").exclude == "above"
    assert make_config("Acrobot-v1").radius is None
    assert make_config("Acrobot-v1", preset="paper").radius == 0.1
    goal = "MountainCarContinuous-v0"  # a preset of the environment that sets noise_scale
    assert make_config(goal, preset="paper") == make_config(goal, preset="paper", radius=0.1)


def test_exclude_is_above_where_no_radius_excludes():
    """So the ids and diagnostics of these trainings do not depend on the default, ball."""
    assert make_config("Pendulum-v1").exclude == Config.exclude == "ball"
    assert make_config("Pendulum-v1", "mbpo").exclude == "above"
    for given in ({"radius": None}, {"noise": "reward"}, {"members": 1}):
        assert make_config("Pendulum-v1", **given).exclude == "above"
    # Fig. 2's diagnostics are those of the paper's reading.
    assert make_config("Pendulum-v1", preset="paper", radius=None).exclude == "ball"
    acrobot = make_config("Acrobot-v1", radius=0.5)
    assert (acrobot.exclude, changed_options(acrobot)) == ("ball", {"radius": 0.5})


def test_given_values_win_over_preset_and_none_means_not_given():
    config = make_config("Hopper-v5", updates_per_step=3, target_entropy=-7.0, initial_steps=None)
    assert (config.updates_per_step, config.entropy_target(3)) == (3, -7.0)
    assert (config.initial_steps, config.learn_after, config.epoch_length) == (5000, 5000, 1000)
    assert make_config("Hopper-v5").radius == 0.1
    assert make_config("Hopper-v5", radius=None).radius is None


def test_updates_begin_with_policy_by_default():
    assert make_config("Hopper-v5", initial_steps=300).learn_after == 300
    assert make_config("Hopper-v5", initial_steps=300, learn_after=None).learn_after == 300
    assert make_config("Hopper-v5", initial_steps=300, learn_after=800).learn_after == 800


def test_numpy_numbers_become_plain():
    given = {"batch": np.int64(32), "radius": np.float64(0.5), "hidden": [np.int32(8), 4]}
    config = make_config("Hopper-v5", joint=np.True_, **given)
    assert config == make_config("Hopper-v5", batch=32, radius=0.5, hidden=(8, 4), joint=True)
    assert type(config.batch) is int
    assert config.joint is True


def test_members_elites_and_model_by_algorithm():
    def sizes(algo, **given):
        config = make_config("Pendulum-v1", algo, **given)
        return config.num_members, config.num_elites

    assert sizes("mbpo") == (7, 5)
    assert sizes("mbpo", members=3) == (3, 3)
    assert sizes("mbpo", members=4, elites=2) == (4, 2)
    assert sizes("narl", members=10)[0] == 10
    for rival in ("sombrl", "hucrl", "thompson", "maxinfo"):
        assert sizes(rival) == (5, 5)
    sac = make_config("Hopper-v5", "sac")
    assert (sac.uses_model, sac.num_real, sac.model_capacity) == (False, sac.batch, 1)


# --- rollouts and buffers ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schedule", "lengths"),
    [
        # Hopper: 1 until epoch 20, 15 from 150 on; 1 + 14·(e − 20)/130 between, rounded down.
        ((20, 150, 1, 15), {0: 1, 20: 1, 29: 1, 30: 2, 85: 8, 149: 14, 150: 15, 500: 15}),
        ((1, 15, 1, 1), {0: 1, 1: 1, 2: 1, 15: 1, 40: 1}),  # InvertedPendulum
        ((20, 300, 1, 25), {20: 1, 31: 1, 32: 2, 160: 13, 299: 24, 300: 25}),  # Humanoid
        ((0, 100, 1, 101), {0: 1, 29: 30, 57: 58, 100: 101}),  # where floats round wrongly
        ((5, 5, 2, 7), {4: 2, 5: 2, 6: 7}),
        ((0, 10, 5, 1), {0: 5, 1: 4, 5: 3, 9: 1, 10: 1}),
    ],
)
def test_rollout_length_by_epoch(schedule, lengths):
    assert {epoch: rollout_length(schedule, epoch) for epoch in lengths} == lengths


def test_epochs_of_schedule_begin_after_random_steps():
    hopper = make_config("Hopper-v5")
    assert [hopper.rollout_length_at(step) for step in (0, 4999, 34_999, 35_000)] == [1, 1, 1, 2]


def test_buffers_hold_what_retention_and_length_need():
    # 100 000 rollouts every 250 of 1000 steps; 125 epochs reach 1 + 14·105/130 = 12.3 steps.
    hopper = make_config("Hopper-v5")
    assert (hopper.model_capacity, hopper.retained(3)) == (400_000 * 12, 400_000 * 3)
    assert make_config("Hopper-v5", steps=200_000).model_capacity == 400_000 * 15
    # One fit per epoch, five epochs retained, 25 steps from epoch 300 on.
    assert make_config("Humanoid-v5").model_capacity == 5 * 100_000 * 25
    # At least the rollouts of one fit, where a fit serves several epochs.
    rare = make_config("Pendulum-v1", epoch_length=100, model_every=1000, rollout_batch=5000)
    assert (rare.model_capacity, rare.retained(3)) == (5000, 15_000)
    several = {"epoch_length": 300, "model_every": 1000, "retain_epochs": 7}
    assert make_config("Pendulum-v1", rollout_batch=100, **several).model_capacity == 7 * 30
    assert hopper.real_capacity == 130_000
    assert make_config("Hopper-v5", buffer=2000).real_capacity == 2000


# --- fields that contradict each other --------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "field", "right"),
    [
        ({"algo": "mbpo", "elites": 9, "members": 4}, "elites", "nearest valid value is 4"),
        ({"initial_steps": 600, "learn_after": 500}, "learn_after", "nearest valid value is 600"),
        ({"until_solved": True}, "until_solved", "solved_return"),
        ({"radius": None, "anneal_steps": 9, "anneal": "radius"}, "anneal", "give a radius"),
        ({"rollout_schedule": (1, 2, 3)}, "rollout_schedule", "20,150,1,15"),
        ({"rollout_schedule": (5, 1, 1, 1)}, "rollout_schedule", "20,150,1,15"),
        ({"rollout_schedule": (0, 1, 0, 1)}, "rollout_schedule", "20,150,1,15"),
        # A training without updates: the field that was given is named.
        ({"steps": 1000}, "steps", "at least 1001"),
        ({"steps": -5, "initial_steps": 700}, "steps", "at least 701"),
        ({"steps": 0, "initial_steps": -3}, "steps", "nearest valid value is 1"),
        ({"steps": 500, "initial_steps": 700}, "steps", "at least 701"),
        ({"steps": 2000, "learn_after": 3000}, "steps", "at least 3001"),
        ({"initial_steps": 10_000}, "initial_steps", "nearest valid value is 9999"),
        ({"learn_after": 20_000}, "learn_after", "nearest valid value is 9999"),
    ],
)
def test_contradicting_fields_refused(given, field, right):
    line = refusal(**given)
    assert line.startswith(f"{field}: ")
    assert right in line


def test_smallest_trainings_accepted():
    check_config(Config(env="any", steps=2, initial_steps=1, learn_after=1))
    assert make_config("Pendulum-v1", steps=1001).steps == 1001
    assert make_config("Pendulum-v1", initial_steps=9999).learn_after == 9999


# --- records, ids and shapes ------------------------------------------------------------------

RUN_IDS = {
    "train-narl-invertedpendulum-v5-baba26b3d6": (
        *("InvertedPendulum-v5", "narl"),
        {"exclude": "above"},
    ),
    "train-narl-invertedpendulum-v5-e2eab729ad": (
        *("InvertedPendulum-v5", "narl"),
        {"until_solved": True, "exclude": "above"},
    ),
    "train-mbpo-invertedpendulum-v5-a8eebe04a1": (
        *("InvertedPendulum-v5", "mbpo"),
        {"members": 4, "elites": 2, "seeds": (0, 1, 2)},
    ),
    "train-sac-hopper-v4-5e1644e387": ("Hopper-v4", "sac", {"seeds": (3,), "steps": 125_000}),
    "train-narl-pendulum-v1-0f9923323d": (
        *("Pendulum-v1", "narl"),
        {"radius": None, "joint": True, "hidden": (32, 16), "steps": 2000, "seeds": (0, 1)},
    ),
    "train-mbpo-pendulum-v1-297cb38840": (
        *("Pendulum-v1", "mbpo"),
        {"rollout_schedule": (0, 10, 1, 5)},
    ),
}
"""Run folders on disk are found by their ids; other options or defaults give other ids."""


@pytest.mark.parametrize("run_id", RUN_IDS)
def test_run_id_of_a_version_never_changes_and_record_round_trips(run_id, monkeypatch):
    monkeypatch.setattr("narl.storage.runs.__version__", "0.1.0")
    env, algo, given = RUN_IDS[run_id]
    config = make_config(env, algo, **given)
    assert config.run_id == run_id
    stored = json.loads(json.dumps(config.record()))
    assert config_from_record(stored) == config


def test_foreign_record_refused():
    record = make_config("Pendulum-v1").record()
    del record["seeds"]
    with pytest.raises(InputError, match="seeds"):
        config_from_record(record)
    record = make_config("Pendulum-v1").record()
    record["settings"]["colour"] = "blue"
    with pytest.raises(InputError, match="colour"):
        config_from_record(record)


def test_record_of_an_algorithm_that_is_not_registered_says_how_to_load_it():
    record = make_config("Pendulum-v1").record()
    record["settings"]["algo"] = "hopeful"
    line = r"^run: its algorithm 'hopeful' .*registered by Python code; .*import.* narl\.load$"
    with pytest.raises(InputError, match=line):
        config_from_record(record)
    record["settings"]["algo"] = {}
    with pytest.raises(InputError, match="not one of this version"):
        config_from_record(record)


def test_shape_equal_where_replicas_share_a_program():
    narl = Config(env="any", members=7)
    for other in (
        Config(env="any", algo="mbpo"),  # 7 members by default
        Config(env="any", algo="mbpo", members=7, elites=2),
        Config(env="any", members=7, radius=None, seeds=(1, 2)),
        *(Config(env="any", algo=algo, members=7) for algo in MODEL_BASED),
    ):
        assert other.shape == narl.shape
    assert Config(env="any", members=7, optimism_at="update").shape != narl.shape
    assert Config(env="any", algo="sac", members=7).shape != narl.shape
    assert Config(env="any").shape != narl.shape  # 3 members


def changed(value):
    """Return another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, tuple):
        return (*value[1:], value[0] + 1)
    return f"{value}x" if isinstance(value, str) else (value or 0) + 1


def test_shape_differs_in_every_field_that_replicas_must_share():
    config = Config(env="any")
    for name in set(FIELDS) - {"algo"}:
        other = dataclasses.replace(config, **{name: changed(getattr(config, name))})
        # Another number of members is another shape, although the field is not compared.
        is_shared = not FIELDS[name].option.per_replica or name == "members"
        assert (other.shape != config.shape) == is_shared, name


def test_options_in_which_replicas_may_differ_are_numbers_of_their_programs():
    config = Config(env="any")
    kinds = {name: field.option.per_replica for name, field in FIELDS.items()}
    # The algorithm and its noise choose the functions; seeds, members and elites have numbers of
    # their own; a preset only gives the other options their values.
    setup = {"algo", "noise", "seeds", "members", "elites", "preset"}
    assert {name for name, kind in kinds.items() if kind == "setup"} == setup
    for name in ("elites", *(name for name, kind in kinds.items() if kind == "number")):
        value = changed(getattr(config, name))
        if isinstance(value, str):
            choices = choices_of(FIELDS[name].annotation, FIELDS[name].option)
            (value,) = set(choices) - {getattr(config, name)}
        other = dataclasses.replace(config, **{name: value})
        assert other.numbers() != config.numbers(), name
