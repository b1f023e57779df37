"""The command line of a configuration: its options become the arguments of a command.

A configuration declares its options once (`narl.options`). From them `ConfigCommand` makes the
arguments, their help and groups, and reads what was typed. Arguments that are no options, such as
--json, are the fields of a small dataclass of the command:

    COMMAND = ConfigCommand("narl train", EXAMPLE, TrainArguments, option_fields(Config))
    given, own = COMMAND.parse(sys.argv[2:])  # {"members": 3}, TrainArguments(json=True)
    with COMMAND.errors_as_typed():  # "members_r: …" becomes "--members-r: …"
        config = make_config(**given)
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Generic, TypeVar

import tyro

from narl.commands.arguments import either, errors_as_typed, parse, value
from narl.errors import InputError
from narl.options import OptionField, choices_of, split_optional

Own = TypeVar("Own")
BASIC, OUTPUT = "basic options", "output"
"""The headings of the options without a group, and of those that only the command has."""


@dataclasses.dataclass(frozen=True)
class ConfigCommand(Generic[Own]):
    """A command whose options are those of a configuration."""

    prog: str
    """The command as it is typed, such as "narl train"."""
    example: str
    """A valid call, for error lines."""
    own: type[Own]
    """A dataclass of the arguments that only the command has; its docstring is the help text."""
    fields: Sequence[OptionField]
    """The options of the configuration; those without a default are positional arguments."""
    hints: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Remarks for options that users may look for under another name, such as --timesteps."""

    def parse(self, arguments: Sequence[str]) -> tuple[dict[str, Any], Own]:
        """Return the options that were given, by name, and the command's own arguments.

        The values have the types of the configuration, but are not checked otherwise.
        """
        form: Any = parse(self.form, self.prog, arguments, self.example, self.hints)
        typed: dict[str, Any] = {}
        for part in (form, *(getattr(form, name) for name in _group_fields(self.fields))):
            typed |= vars(part)
        given = {}
        with self.errors_as_typed():
            for field in self.fields:
                text = typed[field.name]
                if text is not None and not (field.option.switch and text is False):
                    given[field.name] = read_value(field, text)
        return given, form.own

    def errors_as_typed(self) -> contextlib.AbstractContextManager[None]:
        """Write names in errors of the library as they are typed: members_r is --members-r."""
        return errors_as_typed(self.form)

    @functools.cached_property
    def form(self) -> type:
        """The dataclass that tyro fills; groups of options are dataclasses nested in it."""
        positional = [field for field in self.fields if field.default is dataclasses.MISSING]
        members: list[Any] = [_argument(field) for field in positional]
        for name, group in _group_fields(self.fields).items():
            fields = [field for field in self.fields if field not in positional]
            options = [_argument(field) for field in fields if _group(field) == group]
            members.append(_nested(name, dataclasses.make_dataclass(name, options), group))
        members.append(_nested("own", self.own, OUTPUT))
        form = dataclasses.make_dataclass("Arguments", members)
        form.__doc__ = self.own.__doc__
        return form


def _group_fields(fields: Sequence[OptionField]) -> dict[str, str]:
    """Return the groups of the options by the names of their fields."""
    options = [field for field in fields if field.default is not dataclasses.MISSING]
    groups = dict.fromkeys(_group(field) for field in options)
    return {f"group_{index}": group for index, group in enumerate(groups)}


def _group(field: OptionField) -> str:
    return field.option.group or BASIC


def _nested(name: str, kind: type, heading: str) -> tuple[str, Any, Any]:
    """Return the field of a nested dataclass, whose options stand under a heading of their own."""
    annotation: Any = Annotated[kind, tyro.conf.arg(name=heading)]
    return name, annotation, dataclasses.field(default_factory=kind)


def _argument(field: OptionField) -> tuple[str, Any, Any]:
    """Return the field of an option for tyro; None stands for an option that was left out."""
    name, annotation, option, default = field
    users = f" [{', '.join(option.used_by)}]" if option.used_by else ""
    help_text, hint = option.help + users, option.default_hint(default)
    metavar = option.metavar or "|".join(choices_of(annotation, option))
    if default is dataclasses.MISSING:
        description = tyro.conf.arg(metavar=metavar, help=help_text)
        return name, Annotated[tyro.conf.Positional[str], description], dataclasses.field()
    kind, _ = split_optional(annotation)
    if kind is bool and option.switch:
        return name, Annotated[bool, value("", "", help_text)], dataclasses.field(default=False)
    typed: Any
    if kind is bool:
        typed = Annotated[bool | None, either(name.replace("_", "-"), hint, help_text)]
    elif kind in (int, float) and not option.none_text:
        typed = Annotated[kind | None, value(metavar, hint, help_text)]
    else:
        typed = Annotated[str | None, value(metavar, hint, help_text)]
    return name, typed, dataclasses.field(default=None)


def read_value(field: OptionField, text: Any) -> Any:
    """Return the value of an option; texts of several numbers, or of a number or none, are read."""
    kind, _ = split_optional(field.annotation)
    if not isinstance(text, str) or kind is str:
        return text
    if field.option.parse is not None:
        return field.option.parse(text)
    if kind in (int, float):
        return _number_or_none(field.name, text, kind)
    if choices_of(field.annotation, field.option):
        return text
    return _whole_numbers(field, text)


def _number_or_none(name: str, text: str, kind: type) -> Any:
    if text.lower() == "none":
        return None
    try:
        return kind(text)
    except ValueError:
        raise InputError(f"{name}: {text!r} is wrong; it must be a number, or none") from None


def _whole_numbers(field: OptionField, text: str) -> tuple[int, ...]:
    pieces = [piece.strip() for piece in text.split(",")]
    if not all(piece.isascii() and piece.isdigit() and len(piece) <= 10 for piece in pieces):
        raise InputError(
            f"{field.name}: {text!r} is wrong; it must be whole numbers with commas, "
            f"such as {field.option.example}"
        )
    return tuple(map(int, pieces))
