"""Make docs/options.md, the tables of every option, from the configurations' own fields.

usage: python docs/make_options.py --write | --check
"""

import sys
from pathlib import Path

from narl.deep.config import Config, used_by
from narl.options import OptionField, markdown_table, option_fields
from narl.tabular.checked_options import all_option_fields
from narl.tabular.checked_options import used_by as agents_of
from narl.tabular.config import Config as TabularConfig

PAGE = Path(__file__).with_name("options.md")


def page() -> str:
    """Return the whole page."""
    parts = [
        "# Options",
        "Made by `make docs` from the fields of the configurations; the command line, its checks "
        "and its help are made from the same fields.",
        "## `narl train` and the agents of `narl.deep`",
        "In Python an option has underscores (`NARL(env, model_every=125)`), on the command line "
        "dashes (`--model-every 125`).",
    ]
    groups: dict[str, list[OptionField]] = {}
    for field in option_fields(Config):
        groups.setdefault(field.option.group or "what is trained", []).append(field)
    for group, fields in groups.items():
        parts += [f"### {group[0].upper()}{group[1:]}", markdown_table(fields, used_by)]
    parts += [
        "## `narl tabular`",
        "[Your own MDP or agent](own-mdp.md#options-of-every-agent) lists the options agent by "
        "agent, with each agent's defaults.",
        "### What is run",
        markdown_table(option_fields(TabularConfig)),
        "### Options of the agents",
        markdown_table(all_option_fields(), agents_of),
    ]
    return "\n\n".join(parts) + "\n"


def main(arguments: list[str]) -> int:
    """Write the page, or return 1 if the page is out of date."""
    if arguments == ["--write"]:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    if arguments != ["--check"]:
        print(__doc__)
        return 2
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != page():
        print("docs/options.md is out of date; run `make docs`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
