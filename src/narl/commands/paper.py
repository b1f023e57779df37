"""`narl paper`: list the code that implements each part of the paper."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional

from narl.commands.arguments import JsonSwitch, parse, value
from narl.errors import unknown

if TYPE_CHECKING:
    from narl.paper import Entry

EXAMPLE = "narl paper eq:2"


@dataclasses.dataclass(frozen=True)
class Paper:
    """List the paper's equations, theorems, tables and figures, and the code of each."""

    ids: Annotated[Positional[tuple[str, ...]], value("[ID...]", "(default: all)")] = ()
    """list only these, such as eq:2 or fig:1a"""
    json: JsonSwitch = False


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status."""
    args = parse(Paper, "narl paper", arguments, EXAMPLE)
    from narl import paper
    from narl.console import print_json

    known = [entry.id for entry in paper.ENTRIES]
    for id_ in args.ids:
        if id_ not in known:
            raise unknown("ID", id_, known)
    names_by_entry = paper.implementations()
    entries = [entry for entry in paper.ENTRIES if not args.ids or entry.id in args.ids]
    if args.json:
        listed = [
            {
                **dataclasses.asdict(entry),
                "kind": entry.kind,
                "implemented_by": names_by_entry[entry.id],
            }
            for entry in entries
        ]
        print_json({"entries": listed, "missing": paper.missing(names_by_entry)})
    else:
        _show(entries, names_by_entry)
    return 0


def _show(entries: Sequence[Entry], names_by_entry: dict[str, list[str]]) -> None:
    from narl.console import stdout

    console = stdout()
    for entry in entries:
        console.print(f"{entry.id}  {entry.title}", style="bold")
        console.print(f"    {entry.where}", style="dim")
        for name in names_by_entry[entry.id]:
            console.print(f"    {name}", soft_wrap=True)
        if not names_by_entry[entry.id]:
            console.print(f"    {'not yet implemented' if entry.code else entry.reason}")
