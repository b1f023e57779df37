"""Checks of seeds, counts and functions that a user gives."""

import numpy as np
import pytest

from narl.errors import InputError
from narl.validation import check_count, check_seeds, check_steps, parse_seeds, signature_error


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("3", (3,)),
        ("0:3", (0, 1, 2)),
        ("0:7:3", (0, 3, 6)),
        ("0,4,7", (0, 4, 7)),
        ("9, 0:2", (9, 0, 1)),
        ("4294967294:4294967296", (2**32 - 2, 2**32 - 1)),
    ],
)
def test_seeds_are_parsed(text, seeds):
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is wrong"),
        ("-1", "'-1' is wrong"),
        ("0-5", "'0-5' is wrong"),
        (":5", "':5' is wrong"),
        ("0:4:2:1", "'0:4:2:1' is wrong"),
        ("0,,1", "'' is wrong"),
        ("1.5", "'1.5' is wrong"),
        ("٣", "'٣' is wrong"),
        ("9" * 5000, "is wrong"),
        ("5:5", "'5:5' is empty"),
        ("0:5:0", "the step of '0:5:0' is 0; the nearest valid value is 1"),
        ("1,0:3", "1 is given twice"),
        ("0:10001", "at most 10000"),
        ("4294967296", "4294967296 is too large; the nearest valid value is 4294967295"),
        ("4294967295:4294967297", "4294967296 is too large"),
    ],
)
def test_wrong_seeds_are_refused_in_one_line(text, message):
    with pytest.raises(InputError) as caught:
        parse_seeds(text)
    assert str(caught.value).startswith("seeds: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "seeds", [(0, 1, 2), [0, 1, 2], range(3), "0:3", np.arange(3), (np.uint8(n) for n in range(3))]
)
def test_seeds_are_returned_as_python_numbers(seeds):
    checked = check_seeds(seeds)
    assert checked == (0, 1, 2)
    assert {type(seed) for seed in checked} == {int}


@pytest.mark.parametrize(
    ("seeds", "right"),
    [
        ([], "at least one"),
        (5, "a list of whole numbers"),
        (None, "a list of whole numbers"),
        ([0, -1], "0"),
        ([2**32], "4294967295"),
        ([1.5], "whole number"),
        ([True], "whole number"),
        ([1, 2, 1], "1 is given twice"),
        ("5:1", "larger than the start"),
    ],
)
def test_wrong_lists_of_seeds_are_refused(seeds, right):
    with pytest.raises(InputError) as caught:
        check_seeds(seeds)
    assert str(caught.value).startswith("seeds: ")
    assert right in str(caught.value)


def test_one_environment_serves_one_seed():
    assert check_seeds([7], one_env=True) == (7,)
    with pytest.raises(InputError, match=r"^seeds: one environment serves one seed"):
        check_seeds([7, 8], one_env=True)


@pytest.mark.parametrize(
    ("value", "right"), [(0, "1"), (-3, "1"), (8, "7"), (2.0, "whole number >= 1"), (None, "whole")]
)
def test_counts_out_of_range_are_refused(value, right):
    assert check_count("rows", np.int16(7), 1, 7) == 7
    with pytest.raises(InputError, match=rf"^rows: {value} .*{right}"):
        check_count("rows", value, 1, 7)


def test_steps_can_be_given_under_either_name():
    assert check_steps(None, None, 10) == 10
    assert check_steps(3, None, 10) == check_steps(None, 3, 10) == 3
    with pytest.raises(InputError, match=r"^total_timesteps: .* give one"):
        check_steps(3, 3, 10)
    with pytest.raises(InputError, match=r"^total_steps: 0 is too small"):
        check_steps(0, None, 10)


def test_signature_error_says_why_a_call_fails():
    assert signature_error(lambda row: None, {}) is None
    assert signature_error(print, 1, 2) is None
    assert "missing a required argument" in str(signature_error(lambda row, more: None, {}))
