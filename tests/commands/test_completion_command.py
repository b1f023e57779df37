"""`narl completion`: scripts that complete commands, options, choices and runs."""

import contextlib
import json
import os
import pty
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from narl import cli
from narl.commands import completion

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def scripts() -> dict[str, str]:
    return {shell: completion.completion_script(shell) for shell in ("bash", "zsh", "fish")}


def complete(script: str, words: list[str], folder) -> set[str]:
    """Return what bash offers for the last of these words."""
    quoted = " ".join(f"'{word}'" for word in words)
    program = f"{script}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _narl\n"
    program += 'printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(
        ["bash", "-c", program], cwd=folder, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


CASES = {
    "narl tra": {"train"},
    "narl train --alg": {"--algo"},
    "narl train --algo m": {"mbpo", "maxinfo"},
    "narl train Inverted": {"InvertedPendulum-v5"},
    "narl train X --no-joi": {"--no-joint"},
    "narl tabular psrl river": {"riverswim"},
    "narl runs comp": {"compare"},
    "narl runs list --alg": {"--algo"},
    "narl eval train-": {"train-sac-hopper-0123456789"},
    "narl eval lat": {"latest"},
    "narl completion z": {"zsh"},
}
"""What a shell offers for the last word of a line."""


@pytest.fixture
def folder(tmp_path) -> Path:
    """Return a folder with one run."""
    (tmp_path / "runs" / "train-sac-hopper-0123456789").mkdir(parents=True)
    return tmp_path


def test_bash_completes_commands_options_choices_and_runs(scripts, folder):
    for words, expected in CASES.items():
        assert complete(scripts["bash"], words.split(), folder) == expected, words


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes_commands_options_choices_and_runs(scripts, folder):
    (folder / "narl.fish").write_text(scripts["fish"])
    for words, expected in CASES.items():
        program = f"source narl.fish; complete -C '{words}'"
        command = ["fish", "--no-config", "-c", program]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        assert set(done.stdout.split()) == expected, words


@contextlib.contextmanager
def zsh_terminal(folder: Path) -> Iterator[Callable[[str, set[str]], str]]:
    """Yield a function that types into a zsh and reads until some words have appeared."""
    terminal, end_of_shell = pty.openpty()
    ends = {"stdin": end_of_shell, "stdout": end_of_shell, "stderr": end_of_shell}
    env = os.environ | {"TERM": "dumb", "HOME": str(folder)}
    shell = subprocess.Popen(
        ["zsh", "-f", "-i"], cwd=folder, env=env, start_new_session=True, **ends
    )
    os.close(end_of_shell)

    def type_line(text: str, words: set[str]) -> str:
        os.write(terminal, text.encode())
        shown, end = "", time.monotonic() + 60.0
        while not all(word in shown for word in words) and time.monotonic() < end:
            if select.select([terminal], [], [], 0.1)[0]:
                shown += os.read(terminal, 4096).decode(errors="replace")
        return shown

    try:
        yield type_line
    finally:
        os.close(terminal)
        shell.kill()
        shell.wait()


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
@pytest.mark.parametrize("prepared", ["", "autoload -U compinit && compinit -u; "])
def test_zsh_completes_commands_options_choices_and_runs(scripts, folder, prepared):
    (folder / "script").write_text(scripts["zsh"])
    with zsh_terminal(folder) as type_line:
        # The sum is not in the line that is typed.
        assert "<42>" in type_line(f'{prepared}source ./script; echo "<$((40 + 2))>"\n', {"<42>"})
        for words, expected in CASES.items():
            shown = type_line(f"{words}\t", expected)
            assert all(word in shown for word in expected), (words, shown)
            # Ctrl-U deletes the line.
            assert "<5>" in type_line('\x15echo "<$((2 + 3))>"\n', {"<5>"})


def test_other_shells_have_every_command_and_option(scripts):
    assert scripts["zsh"].splitlines()[2:] == scripts["bash"].splitlines()
    for command in cli.COMMANDS:
        assert f"__fish_seen_subcommand_from {command}'" in scripts["fish"]
    assert "-l algo -x -a 'narl mbpo" in scripts["fish"]
    for shell, script in scripts.items():
        if shutil.which(shell):
            subprocess.run([shell, "-n", "-c", script], check=True)


def test_json_says_where_the_script_belongs(call, monkeypatch):
    monkeypatch.setattr(completion, "completion_script", lambda shell: f"# {shell}\n")
    assert call("completion", "fish").out == "# fish\n"
    result = json.loads(call("completion", "bash", "--json").out)
    assert result["script"] == "# bash\n"
    assert result["place"].endswith("completions/narl")
