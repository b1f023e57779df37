"""The command line as a whole: help, exit statuses and one line for every error."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import narl
from narl import cli
from narl.commands import arguments, runs, tabular, train
from narl.experiments import EXPERIMENTS

ROOT = Path(__file__).resolve().parents[1]


def run_python(program: str) -> str:
    """Run a program in another process and return its output."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def test_module_in_commands_becomes_a_command(call, monkeypatch):
    module = ModuleType("narl.commands.hello")
    module.main = lambda words: print("hello", *words) or 0
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(cli, "COMMANDS", (*cli.COMMANDS, "hello"))
    answer = call("hello", "reader")
    assert (answer.status, answer.out) == (0, "hello reader\n")


# --- help and version -------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["help"], []])
def test_help_names_every_command_and_experiment(call, words):
    answer = call(*words)
    assert (answer.status, answer.err) == (0, "")
    for name in (*cli.COMMANDS, *EXPERIMENTS, "NARL_RUNS", "--json", "--debug"):
        assert name in answer.out
    assert max(map(len, answer.out.splitlines())) < 80


def test_help_imports_nothing_heavy():
    program = "import sys; from narl.cli import main; main(['--help']); print(*sys.modules)"
    modules = set(run_python(program).split())
    assert "narl.cli" in modules
    assert modules.isdisjoint({"jax", "numpy", "scipy", "tyro", "rich", "gymnasium", "matplotlib"})


def test_help_of_commands_and_the_list_of_runs_do_not_import_jax():
    program = f"""
import sys
from narl.cli import main
for command in {cli.COMMANDS}:
    assert main([command, "--help"]) == 0
    assert "jax" not in sys.modules, command
assert main(["runs", "--runs", "nowhere"]) == 0
assert "jax" not in sys.modules
"""
    text = run_python(program)
    for command in cli.COMMANDS:
        assert f"usage: narl {command}" in text
    assert text.count("--json") >= len(cli.COMMANDS) - 1
    assert "nowhere holds no runs yet" in text


@pytest.mark.parametrize("command", [tabular, train], ids=["tabular", "train"])
def test_help_names_every_option_with_its_group_default_and_users(call, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "100")
    name = command.COMMAND.prog.split()[1]
    text = " ".join(call(name, "--help").out.split())
    for name, _, option, default in command.COMMAND.fields:
        users = f" [{', '.join(option.used_by)}]" if option.used_by else ""
        assert f"{option.help}{users} {option.default_hint(default)}".strip() in text
        assert f" {name.upper()} " in text or f" --{name.replace('_', '-')}" in text
        assert f" {option.group or 'basic options'}: " in text


def test_help_of_runs_names_its_actions(call):
    assert "remove RUN..." in call("runs", "--help").out
    assert call("help", "runs") == call("runs", "--help")
    for action in runs.ACTIONS:
        answer = call("runs", action, "--help")
        assert answer.status == 0
        assert f"usage: narl runs {action.replace('rm', 'remove')}" in answer.out


@pytest.mark.parametrize("columns", [80, 100])
@pytest.mark.parametrize("command", ["tabular", "train", "eval", "runs", "play"])
def test_help_fits_the_terminal_and_breaks_no_word(call, monkeypatch, command, columns):
    texts = {}
    for width in (columns, 10_000):
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setattr("narl.commands.help_text.MAX_WIDTH", 10_000)
        texts[width] = call(command, "--help").out
    assert max(map(len, texts[columns].splitlines())) <= columns
    assert texts[columns].split() == texts[10_000].split()


def test_version_is_printed(call):
    assert call("--version") == (0, f"narl {narl.__version__}\n", "")
    program = (
        "import runpy, sys; sys.argv[1:] = ['--version']; runpy.run_module('narl', {}, '__main__')"
    )
    assert run_python(program) == f"narl {narl.__version__}\n"


# --- wrong input: one line, exit 2, nothing written -------------------------------------------

# One case per kind of mistake; `test_options` and `test_validation` prove every kind of value.
WRONG = {
    "tabulr": "tabulr: unknown command; did you mean 'tabular'?",
    "foo": "foo: unknown command; it must be one of tabular, train",
    "--zzz": "--zzz: unknown option; options of a command come after it",
    "tabular riverswim psrl": "agent: 'riverswim' is an environment and 'psrl' an agent: they are",
    "tabular psrl Taxi-v3": "env: unknown value 'Taxi-v3'; did you mean 'gym:Taxi-v",
    "tabular psrl CartPole-v1": "did you mean 'gym:CartPole-v1'?",
    "tabular psrl nowhere": "env: unknown value 'nowhere'; it must be one of riverswim,",
    "tabular psrl riverswim --qqq 3": "--qqq: unknown option (see narl tabular --help)",
    "completion ksh": "SHELL: unknown value 'ksh'; did you mean 'zsh'?",
    "--verson": "--verson: unknown option; did you mean --version?",
    "help tabulr": "tabulr: unknown command",
    "tabular": "AGENT: missing; it is like `narl tabular narl-ucrl riverswim",
    "tabular psrl riverswim more": "more: one argument too many",
    "tabular narl-ucl riverswim": "agent: unknown value 'narl-ucl'; did you mean 'narl-ucrl'?",
    "tabular psrl riverswim --episods 3": "--episods: unknown option; did you mean --episodes?",
    "tabular psrl riverswim --episodes --json": "--episodes: its value is missing",
    "tabular psrl riverswim --episodes 1e3": "--episodes: '1e3' is wrong; it must be a whole",
    "tabular psrl riverswim --episodes 0": "--episodes: 0 is too small; the nearest valid",
    "tabular psrl riverswim --json=yes": "--json: takes no value; leave out 'yes'",
    "tabular psrl riverswim --until-solved": "--until-solved: ",
    "tabular psrl riverswim --no-clip-reward": "--clip-reward: it has no effect with agent psrl",
    "tabular narl-ucrl riverswim --clip-reward=no": "--clip-reward: takes no value",
    "tabular --tyro-print-completion bash": "--tyro-print-completion: unknown option",
    "tabular psrl riverswim --runs file": "runs folder: file is not a folder",
    "reproduce fig1d": "ID: unknown value 'fig1d'; did you mean 'fig1",
    "reproduce fig1a --results file": "--results: ",
    "report": "--results: results holds no outcomes; first run `narl reproduce all",
    "report --out report.pdf": "--out: report.pdf is no .html file; such as report.html",
    "runs lst": "lst: unknown action; did you mean 'list'?",
    "runs show nothing": "run: 'nothing' is not there; the folder runs holds no runs",
    "eval policies/nothing": "RUN: no such folder: policies/nothing; `narl runs` lists",
    "paper eq:99": "ID: unknown value 'eq:99'; did you mean 'eq:",
    "doctor more": "more: one argument too many",
}


@pytest.mark.parametrize("words", WRONG)
def test_wrong_input_is_one_line_and_nothing_is_written(call, tmp_path, words):
    (tmp_path / "file").write_text("not a folder")
    answer = call(*words.split())
    assert (answer.status, answer.out) == (2, "")
    assert answer.err.startswith("narl: ")
    assert answer.err.count("\n") == 1
    assert WRONG[words] in answer.err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_unexplained_refusal_is_one_line_with_an_example():
    error = arguments.explain(runs.ShowRun, "narl runs show", ["run"], "narl x")
    assert str(error) == (
        "arguments: not understood; it is like `narl x` (see narl runs show --help)"
    )


def test_debug_shows_the_traceback(call, monkeypatch):
    for answer in (call("tabular", "nobody", "riverswim", "--debug"), call("--debug", "tabulr")):
        assert answer.status == 2
        assert "Traceback" in answer.err
        assert answer.err.splitlines()[-1].startswith("narl: ")
    monkeypatch.setenv("NARL_DEBUG", "1")
    assert "Traceback" in call("tabulr").err
    monkeypatch.setenv("NARL_DEBUG", "0")
    assert "Traceback" not in call("tabulr").err


# --- any other error: one line, exit 1; interrupted: one line, exit 3 -------------------------


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (RuntimeError("two\nlines"), 1, "RuntimeError: two lines (--debug shows where)"),
        (RuntimeError(), 1, "RuntimeError (--debug shows where)"),
        (MemoryError(), 1, "out of memory; take fewer seeds"),
        (RuntimeError("RESOURCE_EXHAUSTED: 7 GB"), 1, "out of memory; take fewer seeds"),
        (OSError(28, "run x was not saved: No space left on device"), 1, "No space left on device"),
        (OSError(13, "Permission denied", "there"), 1, "there: Permission denied"),
        (KeyboardInterrupt(), 3, cli.INTERRUPTED_LINE),
        (KeyboardInterrupt("stopped at step 3"), 3, "stopped at step 3"),
    ],
)
def test_error_of_a_command_is_one_line(call, monkeypatch, error, status, line):
    def main(words):
        raise error

    command = ModuleType("narl.commands.doctor")
    command.main = main
    monkeypatch.setitem(sys.modules, command.__name__, command)
    answer = call("doctor", "--json")
    assert (answer.status, answer.out) == (status, "")
    assert answer.err.count("\n") == 1
    assert line in answer.err


def test_interrupted_tabular_run_leaves_nothing(call, monkeypatch, tmp_path):
    def run(*args, progress, **kwargs):
        progress(1)
        raise KeyboardInterrupt

    monkeypatch.setattr("narl.tabular.stored_run.run", run)
    words = ["greedy", "riverswim", "--size=2", "--episodes=5", "--seeds=0"]
    assert call("tabular", *words) == (3, "", f"narl: {cli.INTERRUPTED_LINE}\n")
    assert list(tmp_path.iterdir()) == []
