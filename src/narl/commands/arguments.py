"""Parsing of a command's arguments into a dataclass with tyro; errors are one line.

tyro reports an error in a box of many lines. Here its output is dropped, and where it refuses the
arguments, `explain` finds the one that is wrong and says what would be right.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import inspect
import io
import itertools
import math
import os
import re
import sys
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import tyro

from narl.commands.help_text import help_text, terminal_width
from narl.errors import InputError, nearest, unknown

if TYPE_CHECKING:
    from narl.deep.user_parts import UserParts

Config = TypeVar("Config")


def value(metavar: str, hint: str = "", help: str | None = None) -> Any:
    """Return the name of an option's value in `--help`, a remark (its default) and its help."""
    return tyro.conf.arg(metavar=metavar, help_behavior_hint=hint, help=help)


def either(name: str, hint: str = "", help: str | None = None) -> Any:
    """Return the description of an option --name / --no-name of type `bool | None`."""
    # `--help` lists aliases first, and --name shall come first.
    return tyro.conf.arg(
        name=f"no-{name}", aliases=(f"--{name}",), metavar="", help_behavior_hint=hint, help=help
    )


def without_value(help: str | None = None) -> Any:
    """Return the description of an option that is given without a value."""
    return tyro.conf.arg(help_behavior_hint="", help=help)


Switch = Annotated[bool, without_value()]
"""An option without a value."""
JsonSwitch = Annotated[
    bool, without_value("print one JSON object on stdout, everything else on stderr")
]
RunsFolder = Annotated[
    Path | None,
    value("DIR", "(default: $NARL_RUNS, or runs)", help="folder of the runs"),
]
TensorBoardFolder = Annotated[
    str | None,
    value("DIR", help="write metrics for TensorBoard to this folder (extra tensorboard)"),
]
WandbProject = Annotated[
    str | None,
    value("PROJECT", help="write metrics to this project of Weights & Biases (extra wandb)"),
]
TrustModule = Annotated[
    bool,
    without_value(
        "import the module that the run names, if its environment is like my_module:MyEnv-v0"
    ),
]
GoOnWithAnyCode = Annotated[
    bool, without_value("go on even if the code of a user's environment has changed since")
]
EnvWorkers = Annotated[
    int | None,
    value(
        "N",
        "(default: as many as are of use)",
        help="processes that step the environments; 0: none, this process does it. It changes no "
        "result",
    ),
]
EnvTimeout = Annotated[
    float | None,
    value(
        "SECONDS",
        "(default: any time)",
        help="end a training if an environment takes longer to be made, for a step or for an "
        "evaluation",
    ),
]


def environment_parts(workers: int | None, timeout: float | None) -> UserParts:
    """Return how the environments of a training are run."""
    if workers is not None and workers < 0:
        raise InputError(f"env_workers: {workers} given; it must be 0 or more")
    if timeout is not None and not 0 < timeout < math.inf:
        raise InputError(f"env_timeout: {timeout:g} given; it must be a finite number above 0")
    from narl.deep.user_parts import UserParts

    return UserParts(env_workers=workers, env_timeout=timeout)


def runs_folder(given: Path | None) -> Path:
    """Return the folder of the runs: the one given with --runs, or the default."""
    from narl.storage import check_name, default_root

    folder = default_root() if given is None else given
    check_name("runs folder", folder, "choose another (NARL_RUNS)")
    return folder


def import_from_working_folder() -> None:
    """Let modules be imported from the working folder, as `python -m narl` does.

    The folder comes last, so that its files do not hide installed packages. Only a command whose
    words name the module calls this: a stored run may have come from anybody.
    """
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.append(folder)


class Argument(typing.NamedTuple):
    """One argument of a command."""

    name: str
    """The name as it is typed: --members-r, or AGENT for a positional argument."""
    kind: Any
    """int, float, str, bool, Path or a Literal."""
    optional: bool
    """Whether None stands for an argument that was left out."""
    positional: bool
    many: bool
    required: bool
    metavar: str = ""
    """The name of the value, such as N; or of the argument itself, such as RUN."""
    help: str = ""
    hint: str = ""
    """A remark, such as "(default: 256)"."""
    group: str = ""
    """The heading under which the option stands."""

    @property
    def has_opposite(self) -> bool:
        """Whether there is --no-name beside --name."""
        return self.kind is bool and self.optional


def arguments_of(config: type, group: str = "") -> list[Argument]:
    """Return the arguments of a command from its dataclass and the dataclasses nested in it.

    The heading of a nested dataclass is the group of its options, except for a field whose metadata
    name another ``group``. A text below a field takes precedence over the help of its type.
    """
    hints = typing.get_type_hints(config, include_extras=True)
    texts = field_texts(config)
    arguments: list[Argument] = []
    for field in dataclasses.fields(config):
        hint = hints[field.name]
        extras = getattr(hint, "__metadata__", ())
        kind = typing.get_args(hint)[0] if extras else hint
        # `value` and `either` leave their texts here.
        given = next((extra for extra in extras if hasattr(extra, "help_behavior_hint")), None)
        if isinstance(kind, type) and dataclasses.is_dataclass(kind):
            arguments += arguments_of(kind, str(getattr(given, "name", None) or group))
            continue
        many = typing.get_origin(kind) is tuple
        optional = typing.get_origin(kind) in (typing.Union, types.UnionType)
        if many or optional:
            kind = typing.get_args(kind)[0]
        positional = tyro.conf.Positional in extras
        name = field.name.upper() if positional else "--" + field.name.replace("_", "-")
        required = field.default is dataclasses.MISSING
        argument = Argument(name, kind, optional, positional, many, required)
        arguments.append(
            argument._replace(
                metavar=getattr(given, "metavar", None) or "",
                help=texts.get(field.name) or getattr(given, "help", None) or "",
                hint=str(getattr(given, "help_behavior_hint", None) or ""),
                group=field.metadata.get("group", group),
            )
        )
    return arguments


def field_texts(config: type) -> dict[str, str]:
    """Return the texts below the fields of a dataclass; none of one that is made at run time."""
    try:
        (definition,) = ast.parse(textwrap.dedent(inspect.getsource(config))).body
    except (OSError, TypeError):
        return {}
    assert isinstance(definition, ast.ClassDef)
    texts = {}
    for field, below in itertools.pairwise(definition.body):
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr):
            texts[ast.unparse(field.target)] = str(ast.literal_eval(below.value))
    return texts


def parse(
    config: type[Config],
    prog: str,
    arguments: Sequence[str],
    example: str,
    hints: Mapping[str, str] | None = None,
) -> Config:
    """Return the command's dataclass filled from the arguments; `example` is a valid call.

    `hints` are remarks for options that users may look for under another name.
    """
    if any(argument in ("-h", "--help") for argument in arguments):
        about = inspect.cleandoc(config.__doc__ or "")
        sys.stdout.write(help_text(prog, about, arguments_of(config), terminal_width()))
        raise SystemExit(0)
    if not any(argument.startswith("--tyro-") for argument in arguments):
        with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(SystemExit):
            return _parse_with_tyro(config, prog, _with_values(config, arguments))
    raise explain(config, prog, arguments, example, hints)


def _parse_with_tyro(config: type[Config], prog: str, arguments: Sequence[str]) -> Config:
    settings = (tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes)
    return tyro.cli(config, prog=prog, args=arguments, config=settings)


def explain(
    config: type,
    prog: str,
    arguments: Sequence[str],
    example: str,
    hints: Mapping[str, str] | None = None,
) -> InputError:
    """Return the error for arguments that tyro refused."""
    known = arguments_of(config)
    options = {argument.name: argument for argument in known if not argument.positional}
    opposites = [f"--no-{name[2:]}" for name, option in options.items() if option.has_opposite]
    names = [*options, *opposites, "--help", "--debug"]
    places = [argument for argument in known if argument.positional]
    taken = 0
    tokens = iter(arguments)
    for token in tokens:
        if not token.startswith("-") or token == "-":
            taken += 1
            if taken > len(places) and not (places and places[-1].many):
                return InputError(f"{token}: one argument too many; it is like `{example}`")
            place = places[min(taken, len(places)) - 1]
            choices = typing.get_args(place.kind)
            if typing.get_origin(place.kind) is typing.Literal and token not in choices:
                return unknown(place.name, token, choices)
            continue
        flag, has_value, text = token.partition("=")
        flag = flag.replace("_", "-")
        if hints is not None and flag in hints:
            return InputError(f"{flag}: unknown option; {hints[flag]}")
        if flag not in names:
            close = nearest(flag.lstrip("-"), [name.lstrip("-") for name in names])
            hint = "" if close is None else f"; did you mean --{close}?"
            return InputError(f"{flag}: unknown option{hint} (see {prog} --help)")
        error = _value_error(flag, options.get(flag), text if has_value else None, tokens)
        if error is not None:
            return error
    for place in places[taken:]:
        if place.required:
            return InputError(f"{place.name}: missing; it is like `{example}`")
    return InputError(f"arguments: not understood; it is like `{example}` (see {prog} --help)")


def _value_error(
    flag: str, option: Argument | None, text: str | None, tokens: Iterator[str]
) -> InputError | None:
    """Return the error for the value of an option, if it has a wrong one."""
    if option is None or option.kind is bool:
        return None if text is None else InputError(f"{flag}: takes no value; leave out {text!r}")
    if text is None:
        text = next(tokens, None)
    if text is None or text.startswith("--"):
        return InputError(f"{flag}: its value is missing; it must be {_wanted(option.kind)}")
    if typing.get_origin(option.kind) is typing.Literal:
        choices = typing.get_args(option.kind)
        return None if text in choices else unknown(flag, text, choices)
    if option.kind in (int, float):
        try:
            option.kind(text)
        except ValueError:
            return InputError(f"{flag}: {text!r} is wrong; it must be {_wanted(option.kind)}")
    return None


def _wanted(kind: Any) -> str:
    if typing.get_origin(kind) is typing.Literal:
        return f"one of {', '.join(typing.get_args(kind))}"
    named = {int: "a whole number", float: "a number", Path: "a file or folder"}
    return named.get(kind, "a word")


def _with_values(config: type, arguments: Sequence[str]) -> list[str]:
    """Return the arguments with --name as `--name True` and --no-name as `--name False`."""
    spelled: dict[str, list[str]] = {}
    for option in arguments_of(config):
        if option.has_opposite:
            spelled[option.name] = [option.name, "True"]
            spelled[f"--no-{option.name[2:]}"] = [option.name, "False"]
    result: list[str] = []
    for argument in arguments:
        result += spelled.get(argument.replace("_", "-"), [argument])
    return result


@contextlib.contextmanager
def errors_as_typed(config: type) -> Iterator[None]:
    """Write names in errors of the library as they are typed (see `as_typed`)."""
    try:
        yield
    except InputError as error:
        raise InputError(as_typed(config, str(error))) from error


def as_typed(config: type, message: str) -> str:
    """Return a message of the library with names as they are typed: members_r is --members-r.

    A name after "in Python: " stays as it is.
    """
    options = [argument.name[2:] for argument in arguments_of(config) if not argument.positional]
    name, colon, rest = message.partition(":")
    field = name.replace("_", "-")
    start, rest = (f"--{field}:", rest) if colon and field in options else ("", message)
    long = "|".join(option.replace("-", "_") for option in options if "-" in option)
    if not long:
        return start + rest
    # A word of an id, a file or a quotation is no option.
    names = rf"(?<!in Python: )(?<![\w'.-])(?:--)?\b({long})\b(?![':.=\w])"
    return start + re.sub(names, lambda match: f"--{match[1].replace('_', '-')}", rest)
