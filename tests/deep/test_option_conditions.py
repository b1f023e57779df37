"""Conditions under which an option has an effect, and the refusals and tables made from them."""

import dataclasses

import pytest

from narl.deep.checked_config import changed_options, make_config
from narl.deep.config import Config, used_by
from narl.errors import InputError
from narl.options import (
    OtherThan,
    check_value,
    has_effect,
    markdown_table,
    option_fields,
    split_optional,
)

FIELDS = {field.name: field for field in option_fields(Config)}


def refusal(**given):
    """Return the line that refuses these options of NARL."""
    with pytest.raises(InputError) as caught:
        make_config("Pendulum-v1", **given)
    return str(caught.value)


@pytest.mark.parametrize(
    ("given", "field", "right"),
    [
        ({"noise": "reward", "optimism_at": "update"}, "optimism_at", "noise reward"),
        ({"noise": "reward", "radius": 1.0}, "radius", "noise reward"),
        ({"noise_scale": 1.0}, "noise_scale", "noise model"),
        ({"elites": 2}, "elites", "noise model"),
        ({"noise": "both", "elites": 2}, "elites", "noise both"),
        ({"anneal_steps": 9, "anneal": "radius", "elites": 2}, "elites", "or anneal share"),
        ({"anneal": "share"}, "anneal", "anneal_steps none"),
        ({"noise": "reward", "anneal_steps": 9, "anneal": "share"}, "anneal", "noise reward"),
        ({"joint": True, "exclude_by": "return"}, "exclude_by", "joint"),
        ({"draw": "mean", "score": "draw"}, "score", "draw"),
        ({"optimism_at": "update", "value_samples": 2}, "value_samples", "optimism_at"),
        ({"noise": "reward", "preset": "paper"}, "preset", "noise reward"),
        ({"exclude": "above", "fallback": "random"}, "fallback", "exclude above"),
        ({"radius": None, "radius_unit": "spread"}, "radius_unit", "radius none"),
        ({"radius": None, "exclude": "ball"}, "exclude", "only with radius other than none"),
        ({"radius": None, "exclude_by": "return"}, "exclude_by", "radius other than none"),
        ({"members": 1, "radius": 0.1}, "radius", "members 1, only with members other than 1"),
        ({"members": 1, "exclude": "above"}, "exclude", "members other than 1"),
        ({"choose_among": "elites"}, "choose_among", "members 3 and elites 3, only with more"),
        ({"choose_among": "elites", "members": 2, "elites": 2}, "choose_among", "and elites 2"),
        ({"noise": "reward", "noise_scale": 0, "noise_unit": "first"}, "noise_unit", "scale 0,"),
        ({"algo": "hucrl", "reach": 0, "num_candidates": 4}, "num_candidates", "reach 0,"),
    ],
)
def test_option_without_effect_refused(given, field, right):
    line = refusal(**given)
    assert line.startswith(f"{field}: it has no effect with ")
    assert right in line


@pytest.mark.parametrize(
    "given",
    [
        {"noise": "reward", "noise_scale": 0.1, "elites": 2},
        {"noise": "both", "radius": None},
        {"exclude": "ball", "fallback": "random", "radius_unit": "spread"},
        {"anneal_steps": 9, "anneal": "radius"},
        {"anneal_steps": 9, "elites": 1},
        {"optimism_at": "update", "elites": 1},
        {"members": 1},
        {"members": 2, "radius": 0.2},
        {"choose_among": "all"},
        {"choose_among": "elites", "members": 6},
        {"choose_among": "elites", "elites": 2},
        {"noise": "reward", "noise_scale": 0.0},
        {"noise": "reward", "noise_scale": 1.0, "noise_unit": "largest"},
        {"algo": "hucrl", "reach": 0.0},
        {"algo": "hucrl", "num_candidates": 1},
        {"algo": "hucrl", "reach": 2.0, "num_candidates": 2},
    ],
)
def test_options_with_an_effect_together_accepted(given):
    config = vars(make_config("Pendulum-v1", **given))
    assert {name: config[name] for name in given} == given


def test_refusal_names_every_smallest_change_that_would_help():
    assert refusal(elites=2) == (
        "elites: it has no effect with noise model and optimism_at selection and choose_among all "
        "and anneal_steps none, only with noise reward, or optimism_at update, or choose_among "
        "elites, or anneal_steps other than none; leave it out"
    )


def test_choice_among_elites_that_are_all_members_is_no_changed_option():
    config = dataclasses.replace(make_config("Pendulum-v1"), choose_among="elites")
    assert changed_options(config) == {}
    config = dataclasses.replace(config, elites=2)
    assert changed_options(config) == {"choose_among": "elites", "elites": 2}


def test_conditions_bind_only_algorithms_that_use_the_other_options():
    for algo in ("mbpo", "sombrl", "hucrl", "maxinfo"):
        assert make_config("Pendulum-v1", algo, elites=2).elites == 2
    assert make_config("Pendulum-v1", "hucrl", value_samples=2).value_samples == 2
    rows = markdown_table([FIELDS["elites"], FIELDS["radius_unit"]], used_by).splitlines()[2:]
    assert "held-out data. For narl only with noise reward; or with optimism_at" in rows[0]
    only = "Only with noise model or both and radius other than none and members other than 1. |"
    assert f"members. {only}" in rows[1]


@pytest.mark.parametrize("name", [name for name, field in FIELDS.items() if field.option.only_with])
def test_conditions_name_options_and_valid_values_and_can_be_met(name):
    for way in FIELDS[name].option.only_with:
        for other, valid in way.items():
            field = FIELDS[other]
            assert other != name
            for value in valid:
                value = value.value if isinstance(value, OtherThan) else value
                if value is None:
                    assert split_optional(field.annotation)[1]
                else:
                    check_value(other, value, field.annotation, field.option)
        met = {
            other: 0.5 if isinstance(valid[0], OtherThan) else valid[0]
            for other, valid in way.items()
        }
        assert has_effect(FIELDS[name].option, vars(make_config("Pendulum-v1")) | met)
