"""`narl completion`: print a script with which a shell completes commands, options and runs."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import io
import re
import string
from collections.abc import Sequence
from typing import Annotated, Literal

from tyro.conf import Positional

from narl.cli import COMMANDS
from narl.commands.arguments import JsonSwitch, parse, value

Shell = Literal["bash", "zsh", "fish"]
PLACES = {
    "bash": "~/.local/share/bash-completion/completions/narl",
    "zsh": "~/.narl-completion.zsh, and source it in ~/.zshrc",
    "fish": "~/.config/fish/completions/narl.fish",
}
TAKES_RUNS = ("eval", "play", "report", "resume", "runs")
"""Commands whose arguments are runs."""
_OPTION = re.compile(r"^  (--[a-z][a-z-]*)(?:, (--no-[a-z-]+))?(?: (\S+))?", re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Completion:
    """Print a script with which a shell completes commands, options, their choices and runs.

    - bash: narl completion bash > ~/.local/share/bash-completion/completions/narl
    - zsh: narl completion zsh > ~/.narl-completion.zsh, and in ~/.zshrc: source
      ~/.narl-completion.zsh
    - fish: narl completion fish > ~/.config/fish/completions/narl.fish
    """

    shell: Annotated[Positional[Shell], value("bash|zsh|fish")]
    """the shell"""
    json: JsonSwitch = False


class CommandWords:
    """The words that can follow a command: its options with their choices, and other words."""

    def __init__(self, command: str) -> None:
        matches = _OPTION.findall(_help_of(command))
        self.options = {
            name: tuple(metavar.split("|")) if "|" in metavar else ()
            for name, _, metavar in matches
        }
        self.options |= {opposite: () for _, opposite, _ in matches if opposite}
        self.others = _other_words(command)


def main(arguments: Sequence[str]) -> int:
    """Run the command and return its exit status."""
    args = parse(Completion, "narl completion", arguments, "narl completion bash")
    from narl.console import print_json

    script = completion_script(args.shell)
    if args.json:
        print_json({"shell": args.shell, "script": script, "place": PLACES[args.shell]})
    else:
        print(script, end="")
    return 0


def completion_script(shell: Shell) -> str:
    """Return the script for a shell."""
    words = {command: CommandWords(command) for command in COMMANDS}
    if shell == "fish":
        return _fish(words)
    script = _bash(words)
    return _ZSH + script if shell == "zsh" else script


def _help_of(command: str) -> str:
    """Return the text of `narl COMMAND --help`, and of its actions."""
    module = importlib.import_module(f"narl.commands.{command}")
    calls = [[action, "--help"] for action in getattr(module, "ACTIONS", ())] or [["--help"]]
    text = io.StringIO()
    for call in calls:
        with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
            module.main(call)
    return text.getvalue()


def _other_words(command: str) -> tuple[str, ...]:
    """Return the words that can be arguments of a command, runs excepted."""
    if command == "tabular":
        from narl.tabular.envs import ENVIRONMENTS
        from narl.tabular.options import AGENT_OPTIONS

        return (*AGENT_OPTIONS, *ENVIRONMENTS)
    if command in ("train", "sweep", "tune"):
        import gymnasium

        import narl.gymnasium_registration  # noqa: F401 (registers the environments)
        from narl.deep.presets import find_preset

        ids = sorted(gymnasium.registry)
        return tuple(id_ for id_ in ids if not id_.endswith("-v4") and find_preset(id_))
    if command in ("eval", "play"):
        from narl.run_lookup import pretrained_policies

        return tuple(pretrained_policies())
    if command == "runs":
        from narl.commands.runs import ACTIONS

        return tuple(ACTIONS)
    if command == "reproduce":
        from narl.experiments import EXPERIMENTS

        return (*EXPERIMENTS, "all")
    return ("bash", "zsh", "fish") if command == "completion" else ()


_ZSH = """\
(( $+functions[compdef] )) || { autoload -U compinit && compinit; }
autoload -U +X bashcompinit && bashcompinit
"""
"""Loads what runs a completion script of bash; a zsh without a `~/.zshrc` has not loaded it."""
_BASH = string.Template("""\
_narl() {
    local cur="$${COMP_WORDS[COMP_CWORD]}" prev="$${COMP_WORDS[COMP_CWORD-1]}" words=""
    local command="$${COMP_WORDS[1]}"
    if [ "$$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($$(compgen -W "$commands --help --version" -- "$$cur"))
        return
    fi
    case "$$command $$prev" in
$choices
    esac
    if [ -z "$$words" ]; then
        case "$$command" in
$options
        esac
    fi
    case " $takes_runs " in
        *" $$command "*) words="$$words latest $$(ls "$${NARL_RUNS:-runs}" 2>/dev/null)" ;;
    esac
    COMPREPLY=($$(compgen -W "$$words" -- "$$cur"))
}
complete -o default -F _narl narl
""")


def _bash(words: dict[str, CommandWords]) -> str:
    choices = [
        f'        "{command} {option}") words="{" ".join(values)}" ;;'
        for command, own in words.items()
        for option, values in own.options.items()
        if values
    ]
    options = [
        f'            {command}) words="{" ".join((*own.others, *own.options))}" ;;'
        for command, own in words.items()
    ]
    return _BASH.substitute(
        commands=" ".join(words),
        choices="\n".join(choices),
        options="\n".join(options),
        takes_runs=" ".join(TAKES_RUNS),
    )


def _fish(words: dict[str, CommandWords]) -> str:
    lines = [f"complete -c narl -f -n __fish_use_subcommand -a '{' '.join(words)}'"]
    for command, own in words.items():
        seen = f"complete -c narl -n '__fish_seen_subcommand_from {command}'"
        for option, values in own.options.items():
            chosen = f" -x -a '{' '.join(values)}'" if values else ""
            lines.append(f"{seen} -l {option[2:]}{chosen}")
        if own.others:
            lines.append(f"{seen} -a '{' '.join(own.others)}'")
        if command in TAKES_RUNS:
            runs = "(ls (set -q NARL_RUNS; and echo $NARL_RUNS; or echo runs) 2>/dev/null)"
            lines.append(f'{seen} -a "latest {runs}"')
    return "\n".join(lines) + "\n"
