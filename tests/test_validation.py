"""Seeds as they are typed on the command line."""

import pytest

from narl.errors import InputError
from narl.validation import parse_seeds


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
