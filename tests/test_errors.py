"""Suggestions in errors: only where a name is alike."""

import pytest

from narl.errors import did_you_mean, nearest, unknown


@pytest.mark.parametrize(
    ("name", "valid", "expected"),
    [
        ("riverswm", ("riverswim", "deep-sea"), "riverswim"),
        ("TRAIN", ("train", "tabular"), "train"),
        ("foo", ("doctor", "train"), None),
        ("lr", ("algo", "learning-rate"), None),
        ("x", (), None),
    ],
)
def test_nearest_name_must_be_alike(name, valid, expected):
    assert nearest(name, valid) == expected


def test_error_lists_the_choices_with_or_without_a_suggestion():
    assert did_you_mean("narll", ["narl"]) == "; did you mean 'narl'?"
    line = "algo: unknown value 'narll'; did you mean 'narl'? (one of narl, sac)"
    assert str(unknown("algo", "narll", ["narl", "sac"])) == line
    line = "algo: unknown value 'ddpg'; it must be one of narl, sac"
    assert str(unknown("algo", "ddpg", ["narl", "sac"])) == line


def test_long_list_of_choices_is_left_out_beside_a_suggestion():
    names = ["steps", *(f"q{number}" for number in range(30))]
    assert str(unknown("option", "stps", names)) == (
        "option: unknown value 'stps'; did you mean 'steps'?"
    )
    assert str(unknown("option", "xyz", names)).endswith("it must be one of " + ", ".join(names))
