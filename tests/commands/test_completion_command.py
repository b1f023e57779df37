"""`narl completion`: scripts that complete commands, options, choices and runs."""

import json
import shutil
import subprocess

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


def test_bash_completes_commands_options_choices_and_runs(scripts, tmp_path):
    (tmp_path / "runs" / "train-sac-hopper-0123456789").mkdir(parents=True)
    cases = {
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
    for words, expected in cases.items():
        assert complete(scripts["bash"], words.split(), tmp_path) == expected, words


def test_other_shells_have_every_command_and_option(scripts):
    assert scripts["zsh"].splitlines()[1:] == scripts["bash"].splitlines()
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
