"""The command line: what it prints, what it keeps, and one line for every mistake."""

import ast
import dataclasses
import inspect
import itertools
import json
import subprocess
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import narl
from narl import cli, storage
from narl.commands import arguments, doctor, report, reproduce, runs, tabular
from narl.commands.eval import Eval
from narl.commands.resume import Resume
from narl.commands.train import Train
from narl.errors import InputError
from narl.experiments import EXPERIMENTS
from narl.experiments.experiment import Experiment
from narl.report.document import Chart, Claim, Outcome, Series
from narl.tabular.config import study
from narl.tabular.envs import ENVIRONMENTS
from narl.tabular.registry import AGENTS, PRESETS, agent_options

ROOT = Path(__file__).resolve().parent.parent
TINY = ["riverswim", "--size", "2", "--horizon", "2", "--episodes", "5", "--seeds", "0:2"]


class Said(typing.NamedTuple):
    """What a call of `narl` came to."""

    status: int
    out: str
    err: str


@pytest.fixture
def call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Said]:
    """`narl` in an empty folder, in this process, without its cache of compiled programs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NARL_RUNS", raising=False)
    monkeypatch.delenv("NARL_DEBUG", raising=False)
    monkeypatch.setattr("narl.compilation.enable_cache", lambda: None)

    def narl_(*given: str) -> Said:
        status = cli.main(given)
        return Said(status, *capsys.readouterr())

    return narl_


def in_a_process(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )


# --- help and version -------------------------------------------------------------------------


@pytest.mark.parametrize("given", [["--help"], ["-h"], ["help"], []])
def test_help_names_every_command_and_experiment(call, given):
    said = call(*given)
    assert said.status == 0
    assert said.err == ""
    for name in (*cli.COMMANDS, *EXPERIMENTS, "NARL_RUNS", "--json", "--debug"):
        assert name in said.out
    assert max(map(len, said.out.splitlines())) < 80


def test_help_imports_nothing_heavy():
    program = "import sys; from narl.cli import main; main(['--help']); print(*sys.modules)"
    loaded = set(in_a_process(program).stdout.split())
    assert "narl.cli" in loaded
    assert loaded.isdisjoint({"jax", "numpy", "scipy", "tyro", "rich", "gymnasium", "matplotlib"})


@pytest.mark.parametrize("command", [name for name in cli.COMMANDS if name != "runs"])
def test_the_help_of_a_command_does_not_import_jax(command):
    program = f"import sys; from narl.cli import main; main(['{command}', '--help'])"
    done = in_a_process(f"{program}; print('jax' in sys.modules, file=sys.stderr)")
    assert done.stderr == "False\n"
    assert f"usage: narl {command}" in done.stdout
    assert "--json" in done.stdout


def test_help_of_runs_and_of_its_actions(call):
    assert "remove RUN..." in call("runs", "--help").out
    assert call("help", "runs") == call("runs", "--help")
    for action in ("list", "show", "remove"):
        said = call("runs", action, "--help")
        assert said.status == 0
        assert f"usage: narl runs {action}" in said.out


def test_version(call):
    assert call("--version") == Said(0, f"narl {narl.__version__}\n", "")


def test_as_a_module():
    command = [sys.executable, "-m", "narl", "--version"]
    environment = {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"narl {narl.__version__}\n"


# --- narl tabular -----------------------------------------------------------------------------


def test_tabular_prints_one_json_object_and_finds_its_run_again(call, tmp_path):
    first = call("tabular", "greedy", *TINY, "--json")
    assert first.status == 0
    assert first.err == ""
    assert first.out.count("\n") == 1
    result = json.loads(first.out)
    assert set(result) == {
        *("agent", "env", "horizon", "episodes", "seeds", "options", "v_star", "seconds"),
        *("regret", "optimism", "estimation_error", "run", "path", "found"),
    }
    for term in ("regret", "optimism", "estimation_error"):
        assert set(result[term]) == {"median", "q25", "q75"}
        assert result[term]["q25"] <= result[term]["median"] <= result[term]["q75"]
    assert (result["agent"], result["env"]) == ("greedy", "riverswim")
    assert (result["episodes"], result["horizon"], result["seeds"]) == (5, 2, [0, 1])
    assert result["v_star"] == pytest.approx(0.602, abs=1e-3)
    assert set(result["seconds"]) == {"compile", "run"}
    assert result["found"] is False
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [result["run"]]
    assert Path(result["path"]).resolve() == (tmp_path / "runs" / result["run"]).resolve()

    again = json.loads(call("tabular", "greedy", *TINY, "--json").out)
    assert again == {**result, "found": True}
    fresh = json.loads(call("tabular", "greedy", *TINY, "--json", "--fresh").out)
    assert fresh["found"] is False
    assert fresh["regret"] == result["regret"]
    assert len(list((tmp_path / "runs").iterdir())) == 1


def test_tabular_for_people(call, tmp_path, monkeypatch):
    monkeypatch.setenv("NARL_RUNS", str(tmp_path / "elsewhere"))
    said = call("tabular", "greedy", *TINY)
    (kept,) = storage.list_runs(tmp_path / "elsewhere")
    assert said.status == 0
    assert said.err == ""
    regret = kept.metrics["regret"]
    for text in (
        "greedy on riverswim-2: 5 episodes of 2 steps, 2 seeds, V* = 0.6020",
        f"{regret['median']:.2f}",
        "= optimism",
        "+ estimation error",
        str(kept.path),
    ):
        assert text in said.out
    assert "found, not run again" in call("tabular", "greedy", *TINY).out


@pytest.mark.slow
def test_tabular_on_deep_sea_says_when_it_was_solved(call):
    given = ["tabular", "narl-ucrl", "deep-sea", "--size", "2", "--seeds", "0:3"]
    given += ["--episodes", "600", "--until-solved"]
    result = json.loads(call(*given, "--json").out)
    assert len(result["solved_episode"]) == 3
    assert all(1 <= episode <= result["episodes"] for episode in result["solved_episode"])
    assert result["episodes"] < 600
    assert "solved with 3 of 3 seeds, at episode" in call(*given).out


def files_with_rewards(folder: Path) -> None:
    """MDPs of two states whose mean rewards reach to the ends given by their names."""
    for name, ends in {"unit": (0.0, 1.0), "cliff": (-100.0, -1.0), "above": (0.0, 1.2)}.items():
        p = np.full((2, 2, 2), 0.5)
        np.savez(folder / f"{name}.npz", p=p, r=np.array([ends, ends]), p0=[1, 0], horizon=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "range_"),
    [
        (["deep-sea", "--size", "3"], None),  # its moves cost up to .01/3
        (["riverswim", "--size", "2", "--horizon", "2"], None),
        (["unit.npz"], None),
        (["cliff.npz"], "cliff lie in [-100, -1]"),
        (["above.npz"], "above lie in [0, 1.2]"),
        (["gym:CliffWalking-v1", "--horizon", "2"], "CliffWalking-v1 lie in [-100, 0]"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_note_where_rewards_are_not_those_the_agents_are_made_for(call, tmp_path, env, range_):
    files_with_rewards(tmp_path)
    given = ["tabular", "greedy", *env, "--episodes", "2", "--seeds", "0", "--json"]
    for _ in ("run", "found"):
        said = call(*given)
        assert said.status == 0
        assert said.out.count("\n") == 1
        assert json.loads(said.out)["episodes"] == 2
        if range_ is None:
            assert said.err == ""
        else:
            assert said.err.startswith(f"note: mean rewards of {range_}; ")
            assert said.err.endswith("scale the rewards\n")
            assert said.err.count("\n") == 1
    if range_ is not None:
        assert range_ not in call(*given[:-1]).out  # for people too it is on stderr alone


def test_a_figure_that_is_no_number_is_null_or_a_dash(call, monkeypatch):
    from narl.tabular import config as studies

    run = studies.run

    def without_values(*args, **options):
        trace = run(*args, **options)
        return dataclasses.replace(trace, value=np.full_like(trace.value, np.nan))

    monkeypatch.setattr(studies, "run", without_values)
    result = json.loads(call("tabular", "greedy", *TINY, "--json").out)
    assert result["optimism"] == {"median": None, "q25": None, "q75": None}
    assert result["regret"]["median"] >= 0
    (line,) = [x for x in call("tabular", "greedy", *TINY).out.splitlines() if "optimism" in x]
    assert line.split()[-3:] == ["-", "-", "-"]


def test_solved_counts_the_seeds_that_never_did():
    assert tabular._solved([3, None, 5]) == "solved with 2 of 3 seeds, at episode 5 (median)"
    assert tabular._solved([None]) == "solved with 0 of 1 seed"


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("3", (3,)),
        ("0:3", (0, 1, 2)),
        ("0:7:3", (0, 3, 6)),
        ("0,4,7", (0, 4, 7)),
        ("9, 0:2", (9, 0, 1)),
        ("4294967295", (2**32 - 1,)),
        ("4294967294:4294967296", (2**32 - 2, 2**32 - 1)),
    ],
)
def test_seeds(text, seeds):
    assert arguments.parse_seeds(text) == seeds


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "'' is wrong"),
        ("-1", "'-1' is wrong"),
        ("0-5", "'0-5' is wrong"),
        (":5", "':5' is wrong"),
        ("0:4:2:1", "'0:4:2:1' is wrong"),
        ("0,,1", "'' is wrong"),
        ("1.5", "'1.5' is wrong"),
        ("٣", "'٣' is wrong"),
        ("9" * 5000, "is wrong"),
        ("5:5", "'5:5' is empty"),
        ("0:5:0", "the step of '0:5:0' is 0; the nearest valid one is 1"),
        ("1,0:3", "1 is given twice"),
        ("0:10001", "at most 10000"),
        ("4294967296", "4294967296 is too large; the largest is 4294967295"),
        ("4294967295:4294967297", "4294967297 is too large"),
    ],
)
def test_wrong_seeds(text, line):
    with pytest.raises(InputError) as caught:
        arguments.parse_seeds(text)
    assert str(caught.value).startswith("--seeds: ")
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


# --- the options of `narl tabular` are those of the agents ------------------------------------

HINTS = typing.get_type_hints(tabular.Tabular, include_extras=True)


def documented(config: type) -> dict[str, str]:
    """The docstring under each field of a dataclass."""
    (body,) = [node.body for node in ast.parse(inspect.getsource(config)).body]
    return {
        field.target.id: text.value.value
        for field, text in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr)
    }


def agents_by_option() -> dict[str, dict[str, Any]]:
    """Option → agent → type."""
    found: dict[str, dict[str, Any]] = {}
    for agent, entry in AGENTS.items():
        hints = typing.get_type_hints(entry.options)
        for field in dataclasses.fields(entry.options):
            found.setdefault(field.name, {})[agent] = hints[field.name]
    return found


def plain(hint: Any) -> Any:
    """The type without None."""
    kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
    return kinds[0] if len(kinds) == 1 and typing.get_origin(hint) is not typing.Literal else hint


def test_no_option_of_an_agent_is_forgotten():
    fields = {field.name for field in dataclasses.fields(tabular.Tabular)}
    assert fields - tabular.OF_THE_RUN == set(agents_by_option())
    assert fields >= tabular.OF_THE_RUN


@pytest.mark.parametrize("option", agents_by_option())
def test_an_option_has_the_agents_type_and_names_its_agents(option):
    kinds = [plain(hint) for hint in agents_by_option()[option].values()]
    given = plain(typing.get_args(HINTS[option])[0])
    settings = HINTS[option].__metadata__[0]
    if typing.get_origin(kinds[0]) is typing.Literal:
        assert given is str
        choices = {choice for kind in kinds for choice in typing.get_args(kind)}
        assert set(settings.metavar.split("|")) == choices
    else:
        assert set(kinds) == {given}
    agents = documented(tabular.Tabular)[option].rpartition("[")[2].removesuffix("]").split(", ")
    assert agents == list(agents_by_option()[option])


def test_every_field_of_every_command_is_documented():
    for config in (
        *(tabular.Tabular, reproduce.Reproduce, report.Report, doctor.Doctor),
        *(runs.ListRuns, runs.ShowRun, runs.RemoveRuns, Train, Resume, Eval),
    ):
        assert config.__dataclass_params__.frozen
        assert set(documented(config)) >= {field.name for field in dataclasses.fields(config)}


def test_the_help_of_tabular_names_every_agent_environment_and_preset():
    texts = documented(tabular.Tabular)
    assert texts["agent"].replace(" or ", ", ").split(", ") == list(AGENTS)
    for env in ENVIRONMENTS:
        assert f"{env}," in texts["env"]
    assert HINTS["preset"].__metadata__[0].metavar.split("|") == list(PRESETS)


def other_value(agent: str, option: str, hint: Any) -> Any:
    """A valid value of an option that is not the default."""
    default = getattr(AGENTS[agent].options(), option)
    kind = plain(hint)
    if typing.get_origin(kind) is typing.Literal:
        return next(choice for choice in typing.get_args(kind) if choice != default)
    return {bool: not default, int: 3, float: 0.25}[kind]


@pytest.mark.parametrize(
    ("agent", "option"),
    [(agent, option) for option, agents in agents_by_option().items() for agent in agents],
)
def test_every_option_reaches_its_agent(call, monkeypatch, agent, option):
    value = other_value(agent, option, agents_by_option()[option][agent])
    studies = []

    def execute(item, root, **how):
        studies.append(item)
        return SimpleNamespace(config=item.config(), metrics={}, id="run", path=root), True

    monkeypatch.setattr("narl.tabular.config.execute", execute)
    flag = f"--{option}".replace("_", "-")
    if isinstance(value, bool):
        given = [flag if value else flag.replace("--", "--no-", 1)]
    else:
        given = [f"{flag}={value}"]
    said = call("tabular", agent, "riverswim", *given, "--json")
    assert said.status == 0, said.err
    options = studies[0].config()["options"]
    assert options == dataclasses.asdict(agent_options(agent, **{option: value}))
    assert options != dataclasses.asdict(agent_options(agent))


def test_the_rest_of_the_arguments_reach_the_study(call, monkeypatch):
    studies = []

    def execute(item, root, **how):
        studies.append((item, root, how["fresh"]))
        return SimpleNamespace(config=item.config(), metrics={}, id="run", path=root), True

    monkeypatch.setattr("narl.tabular.config.execute", execute)
    given = ["--size=5", "--horizon", "7", "--env-seed", "2", "--episodes", "9", "--seeds", "1,3"]
    given += ["--runs", "kept", "--fresh", "--json", "--preset", "paper"]
    assert call("tabular", "ucrl2", "random-mdp", *given).status == 0
    ((item, root, fresh),) = studies
    assert item == study(
        "ucrl2",
        env="random-mdp",
        size=5,
        horizon=7,
        env_seed=2,
        episodes=9,
        seeds=(1, 3),
        preset="paper",
    )
    assert (root, fresh) == (Path("kept"), True)


# --- wrong input: one line, exit 2, nothing written -------------------------------------------

WRONG = {
    "tabulr": "tabulr: unknown command; did you mean 'tabular'?",
    "trane InvertedPendulum-v5": "trane: unknown command; did you mean 'train'?",
    "--verson": "--verson: unknown option; did you mean --version?",
    "help tabulr": "tabulr: unknown command",
    "tabular": "AGENT: missing; it is like `narl tabular narl-ucrl riverswim",
    "tabular psrl": "ENV: missing",
    "tabular psrl riverswim more": "more: one argument too many",
    "tabular narl-ucl riverswim": "agent: unknown value 'narl-ucl'; did you mean 'narl-ucrl'?",
    "tabular psrl riverswm": "env: unknown value 'riverswm'; did you mean 'riverswim'?",
    "tabular psrl no.npz": "env: there is no file 'no.npz'",
    "tabular psrl gym:CartPole-v1": "env: CartPole-v1 has no transition table",
    "tabular psrl riverswim --episods 3": "--episods: unknown option; did you mean --episodes?",
    "tabular psrl riverswim -e 3": "-e: unknown option",
    "tabular psrl riverswim --episodes": "--episodes: its value is missing; it must be a whole",
    "tabular psrl riverswim --episodes --json": "--episodes: its value is missing",
    "tabular psrl riverswim --episodes a": "--episodes: 'a' is wrong; it must be a whole number",
    "tabular psrl riverswim --episodes 1e3": "--episodes: '1e3' is wrong",
    "tabular psrl riverswim --episodes 0": "--episodes: 0 is too small; the nearest valid",
    "tabular psrl riverswim --episodes 10000001": "the nearest valid value is 10000000",
    "tabular psrl riverswim --tau x": "--tau: 'x' is wrong; it must be a number",
    "tabular psrl riverswim --tau 0": "--tau: 0.0 is out of range; it must be > 0",
    "tabular psrl riverswim --tau nan": "--tau: nan is wrong; it must be finite",
    "tabular psrl riverswim --json=yes": "--json: takes no value; leave out 'yes'",
    "tabular psrl riverswim --seeds 5:1": "--seeds: '5:1' is empty",
    "tabular psrl riverswim --size 1": "--size: 1 is too small; the nearest valid value is 2",
    "tabular psrl deep-sea --horizon 3": "--horizon: 3 is wrong for Deep Sea",
    "tabular psrl riverswim --env-seed 1": "--env-seed: riverswim is not drawn at random",
    "tabular psrl riverswim --until-solved": "--until-solved: riverswim is never solved",
    "tabular psrl riverswim --preset papr": "--preset: unknown value 'papr'; did you mean 'paper'?",
    "tabular psrl riverswim --members-r 3": "--members-r: not an option of psrl; did you mean",
    "tabular psrl riverswim --members_r 3": "--members-r: not an option of psrl; did you mean",
    "tabular psrl riverswim --no-clip-reward": "--clip-reward: not an option of psrl",
    "tabular greedy riverswim --c 1": "--c: greedy takes no options; leave it out",
    "tabular narl-ucrl riverswim --noise gausian": "--noise: unknown value 'gausian'; did you mean",
    "tabular narl-ucrl riverswim --noise fake-reward": "--noise: unknown value 'fake-reward'",
    "tabular narl-ucrl riverswim --members -1": "--members: -1 is out of range; it must be >= 1",
    "tabular narl-ucrl riverswim --clip-reward=no": "--clip-reward: takes no value",
    "tabular narl-ucrl riverswim --clip-reward True": "True: one argument too many",
    "tabular narl-ucrl riverswim --clipreward": "did you mean --clip-reward?",
    "tabular --tyro-print-completion bash": "--tyro-print-completion: unknown option",
    "tabular psrl riverswim --runs file": "runs folder: file is not a folder",
    "reproduce": "ID: missing; it is like `narl reproduce fig1a",
    "reproduce fig1d": "ID: unknown value 'fig1d'; did you mean 'fig1",
    "reproduce fig1a figg": "ID: unknown value 'figg'",
    "reproduce fig1a --scale papr": "--scale: unknown value 'papr'; did you mean 'paper'?",
    "reproduce fig1a --scale": "--scale: its value is missing; it must be one of smoke, small",
    "reproduce fig1a --results file": "--results: ",
    "reproduce fig1a --runs file": "runs folder: file is not a folder",
    "report": "--results: results holds no outcomes; first run `narl reproduce all",
    "report --results file": "--results: file is not a folder",
    "report --also nowhere": "--also: nowhere is not a folder; choose another or leave it out",
    "report --also file": "--also: file is not a folder",
    "report --also": "--also: its value is missing",
    "report --out report.pdf": "--out: report.pdf is no .html file; such as report.html",
    "report more": "run: 'more' is not there; runs holds no runs",
    "runs lst": "lst: unknown action; did you mean 'list'?",
    "runs --jsn": "--jsn: unknown option; did you mean --json?",
    "runs show": "RUN: missing",
    "runs show nothing": "run: 'nothing' is not there; runs holds no runs",
    "runs show a b": "b: one argument too many",
    "runs list --runs file": "runs folder: file is not a folder",
    "runs remove": "RUN: missing",
    "runs remove nothing --yes": "run: 'nothing' is not there",
    "paper eq:99": "ID: unknown value 'eq:99'; did you mean 'eq:",
    "doctor more": "more: one argument too many",
}


@pytest.mark.parametrize("given", WRONG)
def test_wrong_input_is_one_line_and_nothing_is_written(call, tmp_path, given):
    (tmp_path / "file").write_text("not a folder")
    said = call(*given.split())
    assert said.status == 2
    assert said.out == ""
    assert said.err.startswith("narl: ")
    assert said.err.count("\n") == 1
    assert WRONG[given] in said.err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_refusal_that_nobody_foresaw_is_one_line_too():
    problem = arguments.explain(tabular.Tabular, "narl tabular", ["psrl", "riverswim"], "narl x")
    assert (
        str(problem) == "arguments: not understood; it is like `narl x` (see narl tabular --help)"
    )


def test_debug_shows_the_traceback(call, monkeypatch):
    for said in (call("tabular", "nobody", "riverswim", "--debug"), call("--debug", "tabulr")):
        assert said.status == 2
        assert "Traceback" in said.err
        assert said.err.splitlines()[-1].startswith("narl: ")
    monkeypatch.setenv("NARL_DEBUG", "1")
    assert "Traceback" in call("tabulr").err
    monkeypatch.setenv("NARL_DEBUG", "0")
    assert "Traceback" not in call("tabulr").err


# --- anything else: one line, exit 1; interrupted: one line, exit 3 ---------------------------


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (RuntimeError("two\nlines"), "RuntimeError: two lines (--debug shows where)"),
        (RuntimeError(), "RuntimeError (--debug shows where)"),
        (MemoryError(), "out of memory; take fewer seeds"),
        (RuntimeError("RESOURCE_EXHAUSTED: 7 GB"), "out of memory; take fewer seeds"),
        (OSError(28, "run x was not saved: No space left on device"), "No space left on device"),
        (OSError(13, "Permission denied", "there"), "there: Permission denied"),
    ],
)
def test_an_error_is_one_line(call, monkeypatch, error, line):
    def execute(item, root, **how):
        raise error

    monkeypatch.setattr("narl.tabular.config.execute", execute)
    said = call("tabular", "greedy", *TINY, "--json")
    assert (said.status, said.out) == (1, "")
    assert said.err.count("\n") == 1
    assert line in said.err


def test_interrupted_is_one_line_and_leaves_nothing(call, monkeypatch, tmp_path):
    def run(*given, progress, **how):
        progress(1)
        raise KeyboardInterrupt

    monkeypatch.setattr("narl.tabular.config.run", run)
    said = call("tabular", "greedy", *TINY, "--json")
    assert said == Said(
        3, "", "narl: interrupted; finished runs are kept, the same command continues from there\n"
    )
    assert list(tmp_path.iterdir()) == []


# --- narl reproduce and narl report -----------------------------------------------------------


def tiny_experiment(id_: str = "fig1a") -> Experiment:
    """Two cells, one chart and one claim of each verdict."""

    def cells(scale):
        return {
            agent: study(agent, env="riverswim", size=2, horizon=2, episodes=5, seeds=(0, 1))
            for agent in ("greedy", "psrl")
        }

    def analyse(scale, results):
        series = [
            Series(label, [1.0, 2.0], list(result.array("regret")[0, :2]))
            for label, result in results.items()
        ]
        claims = [
            Claim(f"{id_}-{verdict}", f"It {verdict}.", "§5", verdict, "1 < 2")
            for verdict in ("holds", "fails", "undecided")
        ]
        chart = Chart("regret", "Regret", "episode", "regret", series)
        return Outcome(id_, "A figure", scale, "", "A test.", [chart], [], claims)

    return Experiment(id_, "A figure", cells, analyse)


@pytest.fixture
def tiny(monkeypatch) -> None:
    """Two experiments, and runs that are not run."""
    experiments = {id_: tiny_experiment(id_) for id_ in ("fig1a", "fig1b")}
    monkeypatch.setattr("narl.experiments.EXPERIMENTS", experiments)

    def execute(item, root, *, progress, fresh):
        if found := storage.find_run(root, item.config()):
            return found, True
        progress(item.episodes)
        regret = np.ones((len(item.seeds), item.episodes))
        return storage.save_run(root, item.config(), {}, {"regret": regret}), False

    monkeypatch.setattr("narl.experiments.experiment.execute", execute)


@pytest.mark.usefixtures("tiny")
def test_reproduce_runs_every_cell_once_and_writes_the_outcome(call, tmp_path):
    said = call("reproduce", "all", "--scale", "small", "--json")
    assert said.status == 0
    lines = said.err.splitlines()
    assert len(lines) == 4
    assert lines[0].startswith("fig1a 1/2 greedy: ")
    assert lines[2:] == ["fig1b 1/2 greedy: found", "fig1b 2/2 psrl: found"]
    result = json.loads(said.out)
    assert result["scale"] == "small"
    assert result["claims"] == {"holds": 2, "fails": 2, "undecided": 2}
    first = result["outcomes"][0]
    assert set(first) == {"id", "title", "claims", "runs", "seconds", "file"}
    assert first["claims"][0] == {
        "id": "fig1a-holds",
        "statement": "It holds.",
        "where": "§5",
        "verdict": "holds",
        "numbers": "1 < 2",
    }
    assert sorted(first["runs"]) == sorted(path.name for path in (tmp_path / "runs").iterdir())
    kept = json.loads((tmp_path / "results" / "fig1a-small.json").read_text())
    assert kept["command"] == "narl reproduce fig1a --scale small"
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == [
        "fig1a-small.json",
        "fig1b-small.json",
    ]


@pytest.mark.usefixtures("tiny")
def test_reproduce_for_people_prints_the_claims(call, tmp_path):
    said = call("reproduce", "fig1b", "--results", "deep/inside", "--runs", "kept")
    assert said.status == 0
    for text in ("fig1b: A figure (small scale)", "holds", "fails", "undecided", "1 < 2"):
        assert text in said.out
    assert (tmp_path / "deep" / "inside" / "fig1b-small.json").is_file()
    assert len(list((tmp_path / "kept").iterdir())) == 2


@pytest.mark.usefixtures("tiny")
def test_an_interrupted_experiment_continues(call, monkeypatch, tmp_path):
    from narl.experiments import experiment

    execute = experiment.execute

    def interrupted(item, root, **how):
        if item.agent == "psrl":
            raise KeyboardInterrupt
        return execute(item, root, **how)

    monkeypatch.setattr(experiment, "execute", interrupted)
    said = call("reproduce", "fig1a", "--json")
    assert (said.status, said.out) == (3, "")
    assert said.err.splitlines()[-1].startswith("narl: interrupted;")
    assert len(list((tmp_path / "runs").iterdir())) == 1
    assert not (tmp_path / "results").exists()

    monkeypatch.setattr(experiment, "execute", execute)
    said = call("reproduce", "fig1a")
    assert said.status == 0
    assert "fig1a 1/2 greedy: found" in said.err
    assert "fig1a 2/2 psrl: found" not in said.err


def test_reproduce_takes_each_experiment_once_in_the_order_given():
    known = ["fig1a", "fig1b", "table1"]
    assert reproduce.choose(["table1", "fig1a", "table1"], known) == ["table1", "fig1a"]
    assert reproduce.choose(["table1", "all"], known) == known


@pytest.mark.usefixtures("tiny")
def test_report_shows_the_largest_scale_of_each_experiment(call, tmp_path, monkeypatch):
    monkeypatch.setattr("narl.report.write_report", lambda outcomes, out: [out])
    for scale in ("smoke", "small"):
        call("reproduce", "fig1b", "--scale", scale)
    call("reproduce", "fig1a", "--scale", "smoke")
    result = json.loads(call("report", "--out", "made/r.html", "--json").out)
    assert result == {
        "report": str(Path("made/r.html")),
        "outcomes": [{"id": "fig1a", "scale": "smoke"}, {"id": "fig1b", "scale": "small"}],
        "files": [str(Path("made/r.html"))],
    }
    said = call("report", "--scale", "smoke")
    assert "fig1a (smoke), fig1b (smoke)" in said.out
    assert "open report.html" in said.out
    said = call("report", "--scale", "paper")
    assert said.status == 2
    assert "results holds no outcomes at scale paper" in said.err


@pytest.mark.usefixtures("tiny")
def test_report_takes_what_is_in_both_folders_from_the_second(call, tmp_path, monkeypatch):
    shown: list[Outcome] = []

    def write(outcomes, out):
        shown[:] = outcomes
        return [out]

    monkeypatch.setattr("narl.report.write_report", write)
    call("reproduce", "all", "--scale", "small")
    call("reproduce", "fig1a", "--scale", "small", "--results", "demo")
    call("reproduce", "fig1b", "--scale", "smoke", "--results", "demo")
    for folder in ("results", "demo"):
        for path in (tmp_path / folder).iterdir():
            kept = json.loads(path.read_text())
            path.write_text(json.dumps({**kept, "title": f"of {folder}"}))

    def titles(*given):
        said = call("report", *given)
        assert said.status == 0, said.err
        return {(outcome.id, outcome.scale): outcome.title for outcome in shown}

    # What somebody has just run is what he wants to see, at whatever scale.
    both = {("fig1a", "small"): "of demo", ("fig1b", "smoke"): "of demo"}
    assert titles("--also", "demo") == both
    assert titles() == {("fig1a", "small"): "of results", ("fig1b", "small"): "of results"}
    assert titles("--scale", "smoke", "--also", "demo") == {("fig1b", "smoke"): "of demo"}
    # A folder of results that is not there is no fault if the other has some.
    assert titles("--results", "nowhere", "--also", "demo") == {
        ("fig1a", "small"): "of demo",
        ("fig1b", "smoke"): "of demo",
    }


@pytest.mark.slow
@pytest.mark.usefixtures("tiny")
def test_report_writes_the_page_and_the_pictures(call, tmp_path):
    call("reproduce", "all", "--scale", "smoke")
    said = call("report", "--out", "made/r.html", "--json")
    assert said.status == 0, said.err
    files = json.loads(said.out)["files"]
    assert {Path(file).suffix for file in files} == {".html", ".png", ".pdf"}
    assert all((tmp_path / file).stat().st_size > 1000 for file in files)


def test_report_refuses_a_result_that_is_damaged(call, tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "fig1a-smoke.json").write_text("{}")
    said = call("report")
    assert said.status == 2
    assert "fig1a-smoke.json cannot be read" in said.err
    assert not (tmp_path / "report.html").exists()


# --- narl runs --------------------------------------------------------------------------------


@pytest.fixture
def kept(tmp_path) -> list[storage.Run]:
    """Three runs, as `narl tabular` leaves them."""
    found = []
    for agent, c in (("narl-ucrl", 0.1), ("narl-ucrl", 1.0), ("psrl", None)):
        config = {"experiment": "tabular", "agent": agent, "env": "riverswim", "horizon": 20}
        config |= {"seeds": [0, 1], "options": {"c": c, "members": 10, "none": None}}
        terms = {"median": 32.5, "q25": 30.0, "q75": 40.0}
        metrics = {"regret": terms, "episodes": 7, "solved_episode": [3, None]}
        found.append(storage.save_run(tmp_path / "runs", config, metrics, {"regret": [[1.0, 2.0]]}))
    return found


def test_runs_are_listed_newest_first(call, kept):
    result = json.loads(call("runs", "list", "--json").out)
    assert result["root"] == "runs"
    assert [run["run"] for run in result["runs"]] == [run.id for run in reversed(kept)]
    assert result["runs"][0] == {
        "run": kept[2].id,
        "path": str(Path("runs") / kept[2].id),
        "time": kept[2].environment["time"],
        "agent": "psrl",
        "env": "riverswim",
        "episodes": 7,
        "seeds": [0, 1],
        "options": {"c": None, "members": 10, "none": None},
        "regret": {"median": 32.5, "q25": 30.0, "q75": 40.0},
        "problems": [],
    }
    assert json.loads(call("runs", "--json").out) == result


def test_the_list_for_people_has_a_line_per_run_and_what_tells_them_apart(call, kept):
    said = call("runs")
    assert call("runs", "list") == said
    lines = said.out.splitlines()
    assert len(lines) == 4
    assert lines[1].split()[:4] == [kept[2].id, "7", "2", "32.50"]
    assert lines[2].rstrip().endswith("c=1.0")
    assert lines[3].rstrip().endswith("c=0.1")
    assert "members" not in said.out


def test_the_list_says_when_there_is_nothing(call, tmp_path):
    assert "runs holds no runs yet" in call("runs").out
    assert json.loads(call("runs", "--json").out) == {"root": "runs", "runs": []}
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_run_is_listed_and_removed_but_not_shown(call, kept):
    (kept[0].path / "metrics.json").write_text("{}")
    result = json.loads(call("runs", "--json").out)
    assert result["runs"][2]["problems"] == ["metrics.json differs from its checksum"]
    assert "damaged" in call("runs").out
    said = call("runs", "show", kept[0].id)
    assert said.status == 2
    assert "is damaged: metrics.json differs from its checksum; remove it" in said.err
    assert call("runs", "remove", kept[0].id, "--yes").status == 0
    assert not kept[0].path.exists()


@pytest.mark.parametrize(
    "name", [lambda run: run.id, lambda run: run.id[:-3], lambda run: run.path]
)
def test_a_run_is_shown_by_its_id_the_beginning_of_it_or_its_folder(call, kept, name):
    result = json.loads(call("runs", "show", str(name(kept[0])), "--json").out)
    assert result["run"] == kept[0].id
    assert result["config"] == kept[0].config
    assert result["metrics"] == kept[0].metrics
    assert result["environment"] == kept[0].environment
    assert result["arrays"] == {"regret": {"shape": [1, 2], "dtype": "float64"}}


def test_a_run_for_people(call, kept):
    said = call("runs", "show", kept[1].id)
    rows = [line.split(maxsplit=1) for line in said.out.splitlines()]
    for row in (["agent", "narl-ucrl"], ["options.c", "1"], ["regret.median", "32.5"]):
        assert row in [[cell.strip() for cell in found] for found in rows]
    assert "3, -" in said.out


def test_two_runs_that_fit_are_named(call, kept):
    said = call("runs", "show", "tabular-narl")
    assert said.status == 2
    assert kept[0].id in said.err
    assert kept[1].id in said.err


def test_runs_are_removed_together_or_not_at_all(call, kept):
    said = call("runs", "remove", kept[0].id, "tabular-narl", "--yes")
    assert said.status == 2
    assert "give more of the id" in said.err
    assert all(run.path.is_dir() for run in kept)
    said = call("runs", "remove", "tabular-psrl", str(kept[1].path), kept[1].id, "--yes", "--json")
    assert json.loads(said.out) == {"removed": [kept[2].id, kept[1].id]}
    assert [run.path.is_dir() for run in kept] == [True, False, False]


def test_nothing_is_removed_unasked(call, kept, monkeypatch):
    said = call("runs", "remove", kept[0].id)
    assert said.status == 2
    assert "--yes: missing" in said.err
    for answer, stays in (("n\n", True), ("", True), ("y\n", False)):
        asked = SimpleNamespace(isatty=lambda: True, readline=lambda answer=answer: answer)
        monkeypatch.setattr("sys.stdin", asked)
        said = call("runs", "remove", kept[0].id, "--json")
        assert said.status == 0
        assert kept[0].id in said.err
        assert kept[0].path.is_dir() is stays
        assert said.out == ("" if stays else json.dumps({"removed": [kept[0].id]}) + "\n")


# --- narl paper and narl doctor ---------------------------------------------------------------


def test_paper_says_what_implements_what(call):
    said = call("paper", "--json")
    assert said.status == 0
    result = json.loads(said.out)
    entries = {entry["id"]: entry for entry in result["entries"]}
    assert len(entries) == len(narl.paper.ENTRIES)
    assert "narl.tabular.planning:naevi" in entries["eq:2"]["implemented_by"]
    assert entries["eq:2"]["kind"] == "equation"
    assert isinstance(result["missing"], list)
    text = call("paper", "eq:2", "proof:b1").out
    assert "narl.tabular.planning:naevi" in text
    assert "no algorithm uses it" in text
    assert "fig:1a" not in text


def test_doctor_is_content_here(call, tmp_path, monkeypatch):
    monkeypatch.setattr("narl.deep.rendering.check_rendering", lambda: "egl")
    said = call("doctor", "--json")
    assert said.status == 0
    result = json.loads(said.out)
    assert result["versions"]["narl"] == narl.__version__
    for package in ("jax", "optax", "mujoco", "imageio"):
        assert result["versions"][package]
    assert set(result["extras"]) == {"imageio-ffmpeg", "tensorboardX", "wandb"}
    assert result["device"]["count"] >= 1
    assert 1 <= result["usable_cores"] <= result["cores"]
    assert (result["mujoco"], result["rendering"]) == (True, "egl")
    assert (result["runs"], result["writable"]) == ("runs", True)
    assert result["disk_free"] > 0
    assert result["problems"] == []
    text = call("doctor").out
    assert "all is well" in text
    assert result["versions"]["jax"] in text
    assert list(tmp_path.iterdir()) == []


def test_doctor_names_what_is_wrong(call, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(doctor, "PACKAGES", ("jax", "no-such-package"))
    monkeypatch.setattr(doctor, "LEAST_FREE", 2**80)

    def broken(*given):
        raise RuntimeError("no\nbackend")

    def no_pictures():
        raise InputError("rendering: neither libEGL nor libOSMesa")

    monkeypatch.setattr("jax.devices", broken)
    monkeypatch.setattr("narl.deep.environment.open_env", broken)
    monkeypatch.setattr("narl.deep.rendering.check_rendering", no_pictures)
    said = call("doctor", "--runs", "file", "--json")
    assert said.status == 1
    result = json.loads(said.out)
    assert result["versions"]["no-such-package"] is None
    assert result["device"]["count"] == 0
    assert (result["mujoco"], result["rendering"]) == (False, None)
    problems = "\n".join(result["problems"])
    assert len(result["problems"]) == 6
    for text in (
        *("no-such-package is not installed", "JAX does not work: no backend", "not a folder"),
        *("MiB are free", "MuJoCo does not work: no backend", "libOSMesa (videos need it"),
    ):
        assert text in problems
    text = call("doctor", "--runs", "file").out
    assert "problem: no-such-package" in text
    assert text.count("does not work") == 4


def test_doctor_sees_a_gpu_that_jax_does_not_use(call, tmp_path, monkeypatch):
    monkeypatch.setattr("narl.deep.rendering.check_rendering", lambda: "egl")
    monkeypatch.setattr(doctor, "NVIDIA", tmp_path)
    device = SimpleNamespace(platform="cpu", device_kind="cpu")
    monkeypatch.setattr("jax.devices", lambda: [device])
    (problem,) = json.loads(call("doctor", "--json").out)["problems"]
    assert problem.startswith("JAX uses the CPU and an NVIDIA GPU is there; install narl[cuda]")
