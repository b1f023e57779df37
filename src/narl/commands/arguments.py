"""From arguments to a command's configuration: tyro parses, and errors are one line.

tyro reports an error in a box of many lines. Here its parser is asked quietly, and when it
refuses, `explain` walks through the arguments and says which one is wrong and what is right.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import tyro

from narl.errors import InputError, nearest, unknown

Config = TypeVar("Config")

MAX_SEEDS = 10_000
MAX_SEED = 2**32 - 1


def value(metavar: str, hint: str = "") -> Any:
    """How an option's value is called in the help, and a remark about it (its default)."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=hint)


def either(name: str) -> Any:
    """An option --name / --no-name that may be left open."""
    # The help lists aliases first, and --name is to come first.
    return tyro.conf.arg(
        name=f"no-{name}", aliases=(f"--{name}",), metavar="", help_behavior_hint=""
    )


Switch = Annotated[bool, tyro.conf.arg(help_behavior_hint="")]
"""An option without a value."""
RunsFolder = Annotated[Path | None, value("DIR", "(default: $NARL_RUNS, or runs)")]


class Field(typing.NamedTuple):
    """One argument, as `explain` needs it."""

    name: str
    """As it is typed: --members-r, or AGENT for a positional one."""
    kind: Any
    """int, float, str, bool or a Literal."""
    positional: bool
    many: bool
    required: bool


def fields(config: type) -> list[Field]:
    """The arguments of a command, from its dataclass."""
    hints = typing.get_type_hints(config, include_extras=True)
    found = []
    for field in dataclasses.fields(config):
        hint = hints[field.name]
        extras = getattr(hint, "__metadata__", ())
        bare = typing.get_args(hint)[0] if extras else hint
        many = typing.get_origin(bare) is tuple
        if many or typing.get_origin(bare) in (typing.Union, types.UnionType):
            bare = typing.get_args(bare)[0]
        positional = tyro.conf.Positional in extras
        name = field.name.upper() if positional else "--" + field.name.replace("_", "-")
        required = field.default is dataclasses.MISSING
        found.append(Field(name, bare, positional, many, required))
    return found


def parse(
    config: type[Config],
    prog: str,
    arguments: Sequence[str],
    example: str,
    hints: Mapping[str, str] | None = None,
) -> Config:
    """The configuration that the arguments stand for; `example` is a call that is right.

    `hints` say what to do instead where an option is likely to be looked for under another name.
    """
    if any(argument in ("-h", "--help") for argument in arguments):
        return _ask_tyro(config, prog, ["--help"])
    if not any(argument.startswith("--tyro-") for argument in arguments):
        with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(SystemExit):
            return _ask_tyro(config, prog, _with_values(config, arguments))
    raise explain(config, prog, arguments, example, hints)


def _ask_tyro(config: type[Config], prog: str, arguments: Sequence[str]) -> Config:
    pairs_off = (tyro.conf.FlagCreatePairsOff,)
    return tyro.cli(config, prog=prog, args=arguments, config=pairs_off)


def explain(
    config: type,
    prog: str,
    arguments: Sequence[str],
    example: str,
    hints: Mapping[str, str] | None = None,
) -> InputError:
    """What is wrong with arguments that were refused."""
    known = fields(config)
    options = {field.name: field for field in known if not field.positional}
    switches = [name for name, field in options.items() if _is_open(config, field)]
    names = [*options, *(f"--no-{name[2:]}" for name in switches), "--help", "--debug"]
    places = [field for field in known if field.positional]
    taken = 0
    tokens = iter(arguments)
    for token in tokens:
        if not token.startswith("-") or token == "-":
            taken += 1
            if taken > len(places) and not (places and places[-1].many):
                return InputError(f"{token}: one argument too many; it is like `{example}`")
            continue
        flag, has_value, text = token.partition("=")
        flag = flag.replace("_", "-")
        if hints is not None and flag in hints:
            return InputError(f"{flag}: unknown option; {hints[flag]}")
        if flag not in names:
            close = nearest(flag, names)
            return InputError(f"{flag}: unknown option; did you mean {close}? (see {prog} --help)")
        field = options.get(flag)
        problem = _check(flag, field, text if has_value else None, tokens)
        if problem is not None:
            return problem
    for field in places[taken:]:
        if field.required:
            return InputError(f"{field.name}: missing; it is like `{example}`")
    return InputError(f"arguments: not understood; it is like `{example}` (see {prog} --help)")


def _check(
    flag: str, field: Field | None, text: str | None, tokens: Iterator[str]
) -> InputError | None:
    if field is None or field.kind is bool:
        return None if text is None else InputError(f"{flag}: takes no value; leave out {text!r}")
    if text is None:
        text = next(tokens, None)
    if text is None or text.startswith("--"):
        return InputError(f"{flag}: its value is missing; it must be {_wanted(field.kind)}")
    if typing.get_origin(field.kind) is typing.Literal:
        choices = typing.get_args(field.kind)
        return None if text in choices else unknown(flag, text, choices)
    if field.kind in (int, float):
        try:
            field.kind(text)
        except ValueError:
            return InputError(f"{flag}: {text!r} is wrong; it must be {_wanted(field.kind)}")
    return None


def _wanted(kind: Any) -> str:
    if typing.get_origin(kind) is typing.Literal:
        return f"one of {', '.join(typing.get_args(kind))}"
    named = {int: "a whole number", float: "a number", Path: "a file or folder"}
    return named.get(kind, "a word")


def _is_open(config: type, field: Field) -> bool:
    """Whether it is a yes or no that may be left open: `bool | None`."""
    hint = typing.get_type_hints(config)[field.name.removeprefix("--").replace("-", "_")]
    return field.kind is bool and hint is not bool


def _with_values(config: type, arguments: Sequence[str]) -> list[str]:
    """--name as `--name True` and --no-name as `--name False`, where it may be left open."""
    spelled: dict[str, list[str]] = {}
    for field in fields(config):
        if not field.positional and _is_open(config, field):
            spelled[field.name] = [field.name, "True"]
            spelled[f"--no-{field.name[2:]}"] = [field.name, "False"]
    result: list[str] = []
    for argument in arguments:
        result += spelled.get(argument.replace("_", "-"), [argument])
    return result


def as_typed(config: type, message: str) -> str:
    """A message of the library with its names as they are typed: members_r is --members-r."""
    names = [field.name for field in dataclasses.fields(config)]
    options = [field.name[2:].replace("-", "_") for field in fields(config) if not field.positional]
    name, colon, rest = message.partition(":")
    if name in options:
        name = f"--{name}"
    long = "|".join(name for name in names if "_" in name)
    return re.sub(rf"\b({long})\b", lambda match: match[0].replace("_", "-"), name + colon + rest)


def parse_seeds(text: str) -> tuple[int, ...]:
    """The seeds of "3", "0:20" (without the 20), "0:20:2" or several of these with commas."""
    seeds: list[int] = []
    for part in text.split(","):
        pieces = part.strip().split(":")
        if len(pieces) > 3 or not all(_is_count(piece.strip()) for piece in pieces):
            raise InputError(
                f"--seeds: {part!r} is wrong; it must be like 3, 0:20, 0:20:2 or 0,4,7"
            )
        numbers = [int(piece) for piece in pieces]
        if max(numbers) > MAX_SEED + 1:
            raise InputError(f"--seeds: {max(numbers)} is too large; the largest is {MAX_SEED}")
        if len(numbers) == 3 and numbers[2] == 0:
            raise InputError(f"--seeds: the step of {part!r} is 0; the nearest valid one is 1")
        span = range(*numbers) if len(numbers) > 1 else range(numbers[0], numbers[0] + 1)
        if not span:
            raise InputError(f"--seeds: {part!r} is empty; the end must be larger than the start")
        if len(seeds) + len(span) > MAX_SEEDS:
            raise InputError(f"--seeds: {text!r} are too many; at most {MAX_SEEDS} in one run")
        seeds += span
    if len(set(seeds)) < len(seeds):
        twice = next(seed for seed in seeds if seeds.count(seed) > 1)
        raise InputError(f"--seeds: {twice} is given twice; each must appear once")
    if max(seeds) > MAX_SEED:
        raise InputError(f"--seeds: {max(seeds)} is too large; the largest is {MAX_SEED}")
    return tuple(seeds)


def _is_count(piece: str) -> bool:
    return piece.isascii() and piece.isdigit() and len(piece) <= 10
