"""The text that `narl COMMAND --help` prints: arguments and options in groups, wrapped at words."""

from __future__ import annotations

import inspect
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from narl.commands.arguments import Argument

MAX_WIDTH = 100
COLUMN = 26
"""The column at which help begins; a longer option stands on a line of its own."""
COMMON = (
    ("-h, --help", "show this text"),
    ("--debug", "show the traceback of an error"),
)


def terminal_width() -> int:
    """Return the columns of the terminal (or COLUMNS), at most `MAX_WIDTH`."""
    return min(shutil.get_terminal_size().columns, MAX_WIDTH)


def help_text(prog: str, about: str, arguments: Sequence[Argument], width: int) -> str:
    """Return the usage, the description of the command, and its arguments in groups."""
    places = [argument for argument in arguments if argument.positional]
    usage = " ".join(["usage:", prog, *(_place(argument) for argument in places), "[OPTIONS]"])
    blocks = [_fill(usage, width, " " * 7), *_paragraphs(about, width)]
    if places:
        lines = [line for argument in places for line in _entry(argument, width)]
        blocks.append("\n".join(["arguments:", *lines]))
    options = [argument for argument in arguments if not argument.positional]
    for group in dict.fromkeys(argument.group for argument in options):
        members = [argument for argument in options if argument.group == group]
        lines = [line for argument in members for line in _entry(argument, width)]
        blocks.append("\n".join([f"{group or 'options'}:", *lines]))
    common = [line for name, text in COMMON for line in _row(name, text, width)]
    return "\n\n".join([*blocks[:-1], "\n".join([blocks[-1], *common])]) + "\n"


def _place(argument: Argument) -> str:
    return argument.metavar or argument.name


def _entry(argument: Argument, width: int) -> list[str]:
    """Return the lines of one argument."""
    if argument.positional:
        name = _place(argument)
    elif argument.has_opposite:
        name = f"{argument.name}, --no-{argument.name[2:]}"
    else:
        name = f"{argument.name} {argument.metavar}".strip()
    return _row(name, f"{argument.help} {argument.hint}".strip(), width)


def _row(name: str, text: str, width: int) -> list[str]:
    indent = " " * COLUMN
    wrapped = _fill(text, width, indent).removeprefix(indent).splitlines() or [""]
    first = f"  {name}"
    if len(first) + 2 > COLUMN:
        return [*_fill(name, width, "  ").splitlines(), indent + wrapped[0], *wrapped[1:]]
    return [f"{first:<{COLUMN}}{wrapped[0]}", *wrapped[1:]]


def _paragraphs(about: str, width: int) -> Iterable[str]:
    """Yield the paragraphs of a docstring, those that begin with a dash as one list."""
    for paragraph in inspect.cleandoc(about).split("\n\n"):
        items = ("\n" + paragraph).split("\n- ")
        lines = [_fill(items[0], width)] if items[0].strip() else []
        lines += [_fill(f"- {item}", width, "  ")[2:] for item in items[1:]]
        yield "\n".join(lines)


def _fill(text: str, width: int, indent: str = "") -> str:
    """Return the text wrapped between words, every line but the first with an indent.

    The first line is indented as well where the text does not begin with "usage:".
    """
    first = "" if text.startswith("usage:") else indent
    return textwrap.fill(
        " ".join(text.split()),
        width,
        initial_indent=first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
