"""Options of a configuration: declaration, checks and the table for the docs."""

import dataclasses
from typing import Literal

import numpy as np
import pytest

from narl.errors import InputError
from narl.options import (
    as_text,
    check_effect,
    check_names,
    check_used_by,
    check_value,
    check_values,
    count,
    has_effect,
    markdown_table,
    number,
    option,
    option_fields,
    options_of,
    seeds_option,
    values_as_text,
)


@dataclasses.dataclass(frozen=True)
class Bakery:
    """A configuration with one option of every kind."""

    flour: str = option(help="kind of flour", metavar="NAME")
    loaves: int = count(12, "loaves per day", "oven", maximum=99, used_by=("oven",))
    salt: float = number(0.02, "share of salt", between=(0.0, 1.0), preset=True)
    heat: float | None = number(None, "degrees", between=(0.0, 300.0), none_text="it is off")
    yeast: float = option(
        1.0, "grams", minimum=0, maximum=5, above_minimum=True, below_maximum=True
    )
    crust: Literal["thin", "thick"] = option("thin", "crust | rim", details="See the book.")
    sweet: bool = option(False, "with sugar")
    folds: tuple[int, ...] = option((2, 3), "folds per hour", minimum=1, example="2,3")
    seeds: tuple[int, ...] = seeds_option((0,), "0")
    oven: str = "a field that is no option"


FIELDS = {field.name: field for field in option_fields(Bakery)}


def check(name, value):
    return check_value(name, value, FIELDS[name].annotation, FIELDS[name].option)


def test_declared_options_in_order_with_defaults():
    assert list(FIELDS) == list(options_of(Bakery)) == list(options_of(Bakery("rye")))
    assert "oven" not in FIELDS
    assert FIELDS["flour"].default is dataclasses.MISSING
    assert {name: field.default for name, field in FIELDS.items() if name != "flour"} == {
        "loaves": 12,
        "salt": 0.02,
        "heat": None,
        "yeast": 1.0,
        "crust": "thin",
        "sweet": False,
        "folds": (2, 3),
        "seeds": (0,),
    }
    loaves = FIELDS["loaves"].option
    assert (loaves.group, loaves.metavar, loaves.minimum, loaves.maximum) == ("oven", "N", 1, 99)
    assert FIELDS["seeds"].option.parse("0:3,7") == (0, 1, 2, 7)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("flour", "rye", "rye"),
        ("loaves", np.int64(3), 3),
        ("salt", 1, 1.0),
        ("salt", np.float64(0.5), 0.5),
        ("heat", None, None),
        ("heat", 300, 300.0),
        ("yeast", 4.9, 4.9),
        ("crust", "thick", "thick"),
        ("sweet", np.True_, True),
        ("folds", [np.int32(4), 1], (4, 1)),
        ("folds", (5,), (5,)),
    ],
)
def test_valid_value_returned_as_own_type(name, value, expected):
    checked = check(name, value)
    assert checked == expected
    assert type(checked) is type(expected)


@pytest.mark.parametrize(
    ("name", "value", "right"),
    [
        ("flour", 3, "text"),
        ("loaves", 0, "nearest valid value is 1"),
        ("loaves", np.int64(100), "nearest valid value is 99"),
        ("loaves", 2.0, "whole number >= 1"),
        ("salt", True, "a number"),
        ("heat", 301.0, "300 (or none: it is off)"),
        ("heat", np.nan, "finite number (or none: it is off)"),
        ("yeast", 0, "> 0"),
        ("yeast", 5.0, "< 5"),
        ("crust", "thic", "did you mean 'thick'"),
        ("crust", None, "thin, thick"),
        ("sweet", "yes", "True or False"),
        ("folds", (), "whole numbers >= 1, such as 2,3"),
        ("folds", (2, True), "whole numbers"),
    ],
)
def test_invalid_value_refused_in_one_line(name, value, right):
    with pytest.raises(InputError) as caught:
        check(name, value)
    line = str(caught.value)
    assert line.startswith(f"{name}: ")
    assert right in line
    assert "\n" not in line


def test_whole_configuration_checked():
    check_values(Bakery("rye"))
    with pytest.raises(InputError, match=r"^folds: "):
        check_values(Bakery("rye", folds=(0,)))


def test_unknown_names_and_other_users_refused():
    check_names(["salt", "crust"], Bakery, {})
    with pytest.raises(InputError, match="'salts'; did you mean 'salt'"):
        check_names(["salts"], Bakery, {})
    with pytest.raises(InputError, match="'sodium'; it is called 'salt'"):
        check_names(["sodium"], Bakery, {"sodium": "salt"})

    def used_by(name):
        return options_of(Bakery)[name].used_by

    check_used_by(["salt", "loaves"], used_by, "oven", "device")
    with pytest.raises(InputError, match=r"^loaves: .*device pan.* oven"):
        check_used_by(["salt", "loaves"], used_by, "pan", "device")


@dataclasses.dataclass(frozen=True)
class Coffee:
    """Options that need others: foam needs milk, sugar needs milk or a large hot cup."""

    milk: Literal["none", "cow", "oat"] = option("none", "milk")
    hot: bool = option(True, "temperature")
    cup: int = count(1, "size")
    foam: float = option(
        0.5, "centimetres", minimum=0, only_with=({"milk": ("cow", "oat"), "hot": (True,)},)
    )
    sugar: int = count(
        1,
        "lumps",
        only_with=({"milk": ("cow",)}, {"milk": ("oat",)}, {"hot": (True,), "cup": (3,)}),
    )


@pytest.mark.parametrize(
    ("name", "values", "line"),
    [
        ("foam", {}, "foam: it has no effect with milk none, only with milk cow or oat"),
        ("foam", {"milk": "oat"}, None),
        (
            "foam",
            {"milk": "oat", "hot": False},
            "foam: it has no effect with hot off, only with hot on",
        ),
        (
            "foam",
            {"hot": False},
            "foam: it has no effect with milk none and hot off, "
            "only with milk cow or oat and hot on",
        ),
        (
            "sugar",
            {},
            "sugar: it has no effect with milk none and cup 1, only with milk cow or oat, or cup 3",
        ),
        ("sugar", {"cup": 3}, None),
        ("cup", {}, None),
    ],
)
def test_option_without_effect_refused_with_what_it_needs(name, values, line):
    config = vars(Coffee()) | values
    assert has_effect(options_of(Coffee)[name], config) == (line is None)
    if line is None:
        check_effect([name], options_of(Coffee), config)
    else:
        with pytest.raises(InputError) as error:
            check_effect(["cup", name], options_of(Coffee), config)
        assert str(error.value) == f"{line}; leave it out"


def test_markdown_table_says_what_an_option_needs():
    row = markdown_table(option_fields(Coffee)).splitlines()[-1]
    assert row.endswith("lumps. Only with milk cow; or with milk oat; or with hot on and cup 3. |")


@pytest.mark.parametrize(
    ("value", "text"),
    [((256, 256), "256,256"), (None, "none"), (0.1, "0.1"), (3e-4, "0.0003"), (12, "12")]
    + [(1_000_000.5, "1000000.5"), ("thin", "thin"), ([1], "1")],
)
def test_value_as_text(value, text):
    assert as_text(value) == text


@pytest.mark.parametrize(
    ("name", "values", "default", "hint"),
    [
        ("flour", "text", "", ""),
        ("loaves", "whole number, at least 1, at most 99", "12", "(default: 12)"),
        ("salt", "number, at least 0, at most 1", "preset, or 0.02", "(default: preset, or 0.02)"),
        ("heat", "number, at least 0, at most 300", "", ""),
        ("yeast", "number, above 0, below 5", "1", "(default: 1)"),
        ("crust", "`thin`, `thick`", "thin", "(default: thin)"),
        ("sweet", "on or off", "off", "(default: off)"),
        ("folds", "whole numbers", "2,3", "(default: 2,3)"),
    ],
)
def test_values_and_default_in_words(name, values, default, hint):
    _, annotation, description, value = FIELDS[name]
    assert values_as_text(annotation, description) == values
    assert description.default_as_text(value) == default
    assert description.default_hint(value) == hint


def test_switch_has_no_default_hint():
    (switch,) = options_of(
        dataclasses.make_dataclass("Toggle", [("on", bool, option(False, "turn on", switch=True))])
    ).values()
    assert switch.default_hint(False) == ""


def test_markdown_table_of_fields():
    fields = [FIELDS[name] for name in ("flour", "loaves", "crust")]
    assert markdown_table(fields).splitlines() == [
        "| option | default | values | meaning |",
        "| --- | --- | --- | --- |",
        "| `flour` | none | text | kind of flour. |",
        "| `loaves` | 12 | whole number, at least 1, at most 99 | loaves per day. |",
        "| `crust` | thin | `thin`, `thick` | crust \\| rim. See the book. |",
    ]
    with_users = markdown_table(fields, lambda name: FIELDS[name].option.used_by).splitlines()
    assert with_users[0] == "| option | default | values | used by | meaning |"
    assert [row.split(" | ")[3] for row in with_users[2:]] == ["all", "oven", "all"]
