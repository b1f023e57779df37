"""Options of a configuration: dataclass fields that carry help, range, users and needs.

A configuration is declared once, as a frozen dataclass whose fields are made by `option`. Its
checks, the command line, the groups of `--help` and the tables in the docs are made from it.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from narl.display import in_words
from narl.errors import InputError, NoEffect, unknown
from narl.validation import as_plain, check_number, parse_seeds

_KEY = "narl.option"


@dataclasses.dataclass(frozen=True)
class OtherThan:
    """In `Option.only_with`: every value but this one."""

    value: Any

    def __str__(self) -> str:
        return f"other than {as_text(self.value)}"


NOT_NONE = OtherThan(None)


@dataclasses.dataclass(frozen=True)
class Option:
    """The description of one field of a configuration."""

    help: str
    """One line for `--help` and the docs."""
    metavar: str = ""
    """The name of the value in `--help`, such as N or X."""
    group: str = ""
    """The heading in `--help` under which the option stands."""
    minimum: float | None = None
    maximum: float | None = None
    above_minimum: bool = False
    """Whether the minimum itself is not allowed."""
    below_maximum: bool = False
    """Whether the maximum itself is not allowed."""
    choices: tuple[str, ...] = ()
    used_by: tuple[str, ...] = ()
    """The algorithms or agents that use the option; empty: all of them."""
    only_with: tuple[Mapping[str, tuple[Any, ...]], ...] = ()
    """The option has an effect if one of these conditions {option: allowed values} holds; empty: it
    always has. Options that the algorithm or the agent does not use are ignored."""
    per_replica: Literal["", "number", "setup"] = ""
    """How the replicas of one program may differ in the option: in a number of the program's
    input, or in the way that they are set up; empty: they may not."""
    default_text: str | None = None
    """The default as `--help` shows it, where it is not simply the field's default."""
    preset: bool = False
    """Whether presets of environments may set another default."""
    in_old_records: bool = True
    """False for an option of the deep half that is newer than stored runs: records leave it out at
    its default, so that the ids of these runs stay."""
    example: str = ""
    """A valid value, for options of several numbers."""
    none_text: str = ""
    """The meaning of None, where None can be given instead of a number."""
    details: str = ""
    """Further sentences for the docs, which `--help` leaves out."""
    switch: bool = False
    """Whether a bool can only be turned on: there is --name, but no --no-name."""
    search: tuple[float, float] | None = None
    """The range in which `narl tune` searches a number, where the user gives none."""
    parse: Callable[[str], Any] | None = None
    """Reads the text of the command line, where it is not simply a number or a word."""

    def default_as_text(self, default: Any) -> str:
        """Return the default for people, such as "256", "off" or "preset, or 10"; "" if none."""
        if self.default_text is not None:
            return self.default_text
        if default is None or default is dataclasses.MISSING:
            return ""
        text = ("on" if default else "off") if isinstance(default, bool) else as_text(default)
        return f"preset, or {text}" if self.preset else text

    def default_hint(self, default: Any) -> str:
        """Return the remark about the default that `--help` prints, such as "(default: 256)"."""
        text = "" if self.switch else self.default_as_text(default)
        return f"(default: {text})" if text else ""


class OptionField(NamedTuple):
    """One option of a configuration: its name, type, description and default."""

    name: str
    annotation: Any
    option: Option
    default: Any = dataclasses.MISSING
    """`dataclasses.MISSING` where a value must be given."""


def option(default: Any = dataclasses.MISSING, help: str = "", **description: Any) -> Any:
    """Declare a field of a configuration; ``description`` holds the fields of `Option`."""
    metadata = {_KEY: Option(help, **description)}
    if default is dataclasses.MISSING:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def count(default: Any, help: str, group: str = "", **description: Any) -> Any:
    """Declare an option that is a whole number of at least 1."""
    return option(default, help, **{"metavar": "N", "group": group, "minimum": 1} | description)


def number(
    default: Any, help: str, group: str = "", *, between: tuple[float, float], **description: Any
) -> Any:
    """Declare an option that is a number within two bounds, the bounds included."""
    low, high = between
    bounds = {"metavar": "X", "group": group, "minimum": low, "maximum": high}
    return option(default, help, **bounds | description)


def seeds_option(default: tuple[int, ...], default_text: str) -> Any:
    """Declare the seeds of a configuration; their text is read by `narl.validation.parse_seeds`."""
    return option(
        default,
        "seeds, such as 3, 0:5 (without the 5), 0:20:2 or 0,4,7",
        metavar="SEEDS",
        example="0,1,2",
        default_text=default_text,
        per_replica="setup",
        parse=parse_seeds,
    )


def option_fields(config: type) -> list[OptionField]:
    """Return the options of a configuration in the order of their declaration."""
    annotations = typing.get_type_hints(config)
    return [
        OptionField(field.name, annotations[field.name], field.metadata[_KEY], field.default)
        for field in dataclasses.fields(config)
        if _KEY in field.metadata
    ]


def options_of(config: Any) -> dict[str, Option]:
    """Return the options of a configuration (a dataclass or an instance of it) by field name."""
    fields = dataclasses.fields(config)
    return {field.name: field.metadata[_KEY] for field in fields if _KEY in field.metadata}


def as_text(value: Any) -> str:
    """Return a value as it is typed on the command line: 256,256 or none or 0.1."""
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return "none" if value is None else str(value)


def as_argument(name: str, value: Any) -> str:
    """Return an option as it is typed on the command line: --radius 0.1 or --no-joint."""
    option = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{'' if value else 'no-'}{option}"
    return f"--{option} {as_text(value)}"


def check_names(given: Iterable[str], config: type, other_names: Mapping[str, str]) -> None:
    """Refuse names that are no options; ``other_names`` are those of other libraries."""
    options = options_of(config)
    for name in given:
        if name in other_names:
            raise InputError(f"option: unknown value {name!r}; it is called {other_names[name]!r}")
        if name not in options:
            raise unknown("option", name, sorted(options))


def check_used_by(
    given: Iterable[str], used_by: Callable[[str], Sequence[str]], user: str, kind: str
) -> None:
    """Refuse options that have no effect with this ``user``, an algorithm or an agent.

    ``used_by`` gives the users of an option by its name; none means all of them.
    """
    wrong = {name: users for name in given if (users := used_by(name)) and user not in users}
    for name, users in wrong.items():
        others = [other for other in wrong if other != name]
        too = f", and {in_words(others)} too" if others else ""
        raise NoEffect(
            name,
            f"it has no effect with {kind} {user}, only with {in_words(users)}; leave it out{too}",
        )


def check_effect(
    given: Iterable[str], options: Mapping[str, Option], values: Mapping[str, Any]
) -> None:
    """Refuse options that have no effect beside these values of the others (`Option.only_with`).

    ``values`` holds the options that the algorithm or the agent uses.
    """
    for name in given:
        if changes := _changes(options[name], values):
            others = dict.fromkeys(other for change in changes for other in change)
            now = " and ".join(_with_value(other, [values[other]]) for other in others)
            needed = ", or ".join(map(_with_values, changes))
            raise NoEffect(name, f"it has no effect with {now}, only with {needed}; leave it out")


def has_effect(description: Option, values: Mapping[str, Any]) -> bool:
    """Return whether an option has an effect beside these values of the others."""
    return not _changes(description, values)


def _changes(description: Option, values: Mapping[str, Any]) -> list[dict[str, list[Any]]]:
    """Return the smallest changes of other options that would give an option an effect.

    Each of them holds the valid values by name; changes of the same options are one. The list is
    empty if the option has an effect.
    """
    ways = [
        {other: valid for other, valid in way.items() if not _is_met(other, valid, values)}
        for way in description.only_with
    ]
    if not all(ways):
        return []
    fewest = min(map(len, ways), default=0)
    changes: dict[tuple[str, ...], dict[str, list[Any]]] = {}
    for way in ways:
        if len(way) == fewest:
            change = changes.setdefault(tuple(way), {other: [] for other in way})
            for other, valid in way.items():
                change[other] += [value for value in valid if value not in change[other]]
    return list(changes.values())


def _is_met(name: str, valid: Sequence[Any], values: Mapping[str, Any]) -> bool:
    """Return whether an option has one of the valid values, or is not used at all."""
    if name not in values or values[name] in valid:
        return True
    return any(isinstance(each, OtherThan) and values[name] != each.value for each in valid)


def _with_values(condition: Mapping[str, Sequence[Any]]) -> str:
    """Return a condition as text, such as "noise gaussian or theorem and corrected on"."""
    return " and ".join(_with_value(*each) for each in condition.items())


def _with_value(name: str, values: Sequence[Any]) -> str:
    """Return an option and its values as text, such as "noise gaussian or theorem"."""
    texts = [
        "on" if value is True else "off" if value is False else as_text(value) for value in values
    ]
    return f"{name} {' or '.join(texts)}"


def check_values(config: Any) -> dict[str, Any]:
    """Check every option of a configuration against its type, choices and range.

    Returns the values as the options' own types (see `check_value`).
    """
    annotations = typing.get_type_hints(type(config))
    return {
        name: check_value(name, getattr(config, name), annotations[name], description)
        for name, description in options_of(config).items()
    }


def check_value(name: str, value: Any, annotation: Any, description: Option) -> Any:
    """Return the value as the option's own type, or raise one line that says what is valid.

    NumPy's numbers become Python's; 1 becomes 1.0 where the option is a float, so that both are
    one configuration.
    """
    value = as_plain(value)
    kind, optional = split_optional(annotation)
    if value is None and optional:
        return None
    if choices := choices_of(annotation, description):
        if not isinstance(value, str) or value not in choices:
            raise unknown(name, str(value), choices)
        return value
    if kind is bool:
        if not isinstance(value, bool):
            raise InputError(f"{name}: {value!r} is wrong; it must be True or False")
        return value
    if kind is str:
        if not isinstance(value, str):
            raise InputError(f"{name}: {value!r} is wrong; it must be a text")
        return value
    if typing.get_origin(kind) is tuple:
        return _check_numbers(name, value, description)
    return check_number(
        name,
        value,
        whole=kind is int,
        minimum=description.minimum,
        maximum=description.maximum,
        above_minimum=description.above_minimum,
        below_maximum=description.below_maximum,
        none_text=description.none_text,
    )


def split_optional(annotation: Any) -> tuple[Any, bool]:
    """Return the type and whether None is allowed beside it."""
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        kinds = [kind for kind in typing.get_args(annotation) if kind is not type(None)]
        return kinds[0], len(kinds) < len(typing.get_args(annotation))
    return annotation, False


def _check_numbers(name: str, value: Any, description: Option) -> tuple[int, ...]:
    least = int(description.minimum or 0)
    valid = isinstance(value, tuple) and len(value) > 0
    if not valid or not all(type(number) is int and number >= least for number in value):
        raise InputError(
            f"{name}: {value!r} is wrong; it must be whole numbers >= {least}, "
            f"such as {description.example}"
        )
    return value


def markdown_table(
    fields: Iterable[OptionField], used_by: Callable[[str], Sequence[str]] | None = None
) -> str:
    """Return options as a table for the docs: name, default, values, users (if given), meaning."""
    columns = ["option", "default", "values", *([] if used_by is None else ["used by"]), "meaning"]
    rows = [columns, ["---"] * len(columns)]
    for name, annotation, description, default in fields:
        users = used_by(name) if used_by else ()
        meaning = f"{description.help}. {description.details}".strip().removesuffix(".") + "."
        meaning += _condition_as_text(description.only_with, users, used_by or (lambda _: ()))
        if description.search is not None:
            low, high = description.search
            meaning += f" `narl tune` searches from {low:g} to {high:g}."
        cells = [f"`{name}`", description.default_as_text(default) or "none"]
        cells.append(values_as_text(annotation, description))
        if used_by is not None:
            cells.append(", ".join(users) or "all")
        rows.append([*cells, meaning.replace("|", "\\|")])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _condition_as_text(
    ways: Sequence[Mapping[str, Sequence[Any]]],
    users: Sequence[str],
    used_by: Callable[[str], Sequence[str]],
) -> str:
    """Return the sentence on `Option.only_with`, with the users that it is about if not all."""
    if not ways:
        return ""

    def is_bound(user: str) -> bool:
        return all(any(user in (used_by(name) or users) for name in way) for way in ways)

    bound = list(filter(is_bound, users))
    start = "Only" if len(bound) == len(users) else f"For {in_words(bound)} only"
    return f" {start} with {'; or with '.join(map(_with_values, ways))}."


def values_as_text(annotation: Any, description: Option) -> str:
    """Return the values that an option can take in words, such as "whole number, at least 1"."""
    kind, _ = split_optional(annotation)
    if choices := choices_of(annotation, description):
        return ", ".join(f"`{choice}`" for choice in choices)
    if kind in (bool, str):
        return {bool: "on or off", str: "text"}[kind]
    if typing.get_origin(kind) is tuple:
        return "whole numbers"
    low, high = description.minimum, description.maximum
    below = (
        "" if high is None else f"{'below' if description.below_maximum else 'at most'} {high:g}"
    )
    above = "" if low is None else f"{'above' if description.above_minimum else 'at least'} {low:g}"
    return ", ".join(filter(None, ["whole number" if kind is int else "number", above, below]))


def choices_of(annotation: Any, description: Option) -> tuple[str, ...]:
    """Return the choices of an option, if it has a list of them."""
    kind, _ = split_optional(annotation)
    literal = typing.get_args(kind) if typing.get_origin(kind) is typing.Literal else ()
    return description.choices or literal
