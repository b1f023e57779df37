"""`narl paper`: what of the paper is implemented where."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional

from narl.commands.arguments import Switch, parse, value
from narl.errors import unknown

if TYPE_CHECKING:
    from narl.paper import Entry

EXAMPLE = "narl paper eq:2"


@dataclasses.dataclass(frozen=True)
class Paper:
    """List the paper's equations, theorems, tables and figures, and the code of each."""

    ids: Annotated[Positional[tuple[str, ...]], value("[ID...]", "(default: all)")] = ()
    """only these, such as eq:2 or fig:1a"""
    json: Switch = False
    """one JSON object on stdout, everything else on stderr"""


def main(arguments: Sequence[str]) -> int:
    """Runs the command."""
    config = parse(Paper, "narl paper", arguments, EXAMPLE)
    from narl import paper
    from narl.commands.console import print_json

    known = [entry.id for entry in paper.ENTRIES]
    for id_ in config.ids:
        if id_ not in known:
            raise unknown("ID", id_, known)
    found = paper.implementations()
    entries = [entry for entry in paper.ENTRIES if not config.ids or entry.id in config.ids]
    if config.json:
        listed = [
            {**dataclasses.asdict(entry), "kind": entry.kind, "implemented_by": found[entry.id]}
            for entry in entries
        ]
        print_json({"entries": listed, "missing": paper.missing(found)})
    else:
        _show(entries, found)
    return 0


def _show(entries: Sequence[Entry], found: dict[str, list[str]]) -> None:
    from narl.commands.console import stdout

    console = stdout()
    for entry in entries:
        console.print(f"{entry.id}  {entry.title}", style="bold")
        console.print(f"    {entry.where}", style="dim")
        for name in found[entry.id]:
            console.print(f"    {name}", soft_wrap=True)
        if not found[entry.id]:
            console.print(f"    {'not yet implemented' if entry.code else entry.reason}")
